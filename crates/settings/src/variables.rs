//! Warnings about environment variables that have no effect but resemble a known name.

use crate::TABLE;
use crate::renames::current_name;
use base::nearest;

/// Variables of commands that are not settings of `serve`.
const NON_SETTINGS: [&str; 13] = [
    "URL",
    "BUCKET",
    "CONFIG",
    "ARAKOON_CONFIG",
    "FAILPOINT",
    "MUTANT",
    "CA",
    "CA_DIR",
    "CERT",
    "KEY",
    "USER",
    "PASSWORD",
    "TOKEN",
];
const FRONT: &str = "CREDENZA_";

/// Returns a warning for each environment variable that seems misspelt.
pub fn misspelt_variables() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    misspelt(names)
}

/// Returns a warning for each name that resembles a known one. Others cause none: Kubernetes sets
/// `CREDENZA_PORT` and similar ones for a service called `credenza`.
fn misspelt(names: impl Iterator<Item = String>) -> Vec<String> {
    let rows = TABLE.iter().map(|row| row.name.to_ascii_uppercase());
    let known: Vec<String> = rows.chain(NON_SETTINGS.map(String::from)).collect();
    let warning = |name: String| {
        let suffix = name.strip_prefix(FRONT)?;
        if known.iter().any(|known_name| known_name == suffix) {
            return None;
        }
        if let Some(current) = current_name(&suffix.to_ascii_lowercase()) {
            let current = current.to_ascii_uppercase();
            return Some(format!("the variable {name} is now called {FRONT}{current}"));
        }
        let near = nearest(suffix, known.iter().map(String::as_str))?;
        Some(format!("the variable {name} is not known: is {FRONT}{near} meant?"))
    };
    let mut warnings: Vec<String> = names.filter_map(warning).collect();
    warnings.sort_unstable();
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_variable_is_reported_with_a_suggestion() {
        let warning_for = |name: &str| misspelt(std::iter::once(name.to_string())).pop();
        assert!(
            warning_for("CREDENZA_LISTN")
                .is_some_and(|warning| warning.contains("CREDENZA_LISTEN meant"))
        );
        assert!(
            warning_for("CREDENZA_BUKET")
                .is_some_and(|warning| warning.contains("CREDENZA_BUCKET meant"))
        );
        let warning = "the variable CREDENZA_NODE is now called CREDENZA_NAME";
        assert_eq!(warning_for("CREDENZA_NODE").as_deref(), Some(warning));
        for row in TABLE {
            assert_eq!(warning_for(&row.variable()), None, "{}", row.name);
        }
        for fine in ["CREDENZA_URL", "CREDENZA_PORT", "CREDENZA_SERVICE_HOST", "LISTN", "CREDENZA_"]
        {
            assert_eq!(warning_for(fine), None, "{fine}");
        }
        let kubernetes = "CREDENZA_PORT_7711_TCP_ADDR";
        assert_eq!(warning_for(kubernetes), None);
        // Variables of the project's own tests.
        for own in ["CREDENZA_BINARY", "CREDENZA_SEED"] {
            assert_eq!(warning_for(own), None, "{own}");
        }
    }
}
