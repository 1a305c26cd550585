//! Warnings about environment variables that have no effect but resemble a known name.

use super::TABLE;
use super::renames::current_name;
use base::nearest;

/// Variables of commands that are not settings of `serve`.
const OTHERS: [&str; 6] = ["URL", "BUCKET", "CONFIG", "ARAKOON_CONFIG", "FAILPOINT", "MUTANT"];
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
    let known: Vec<String> = rows.chain(OTHERS.map(String::from)).collect();
    let warning = |name: String| {
        let word = name.strip_prefix(FRONT)?;
        if known.iter().any(|it| it == word) {
            return None;
        }
        if let Some(current) = current_name(&word.to_ascii_lowercase()) {
            let current = current.to_ascii_uppercase();
            return Some(format!("the variable {name} is now called {FRONT}{current}"));
        }
        let near = nearest(word, known.iter().map(String::as_str))?;
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
    fn a_misspelt_variable_is_named_with_the_one_that_is_meant() {
        let of = |name: &str| misspelt(std::iter::once(name.to_string())).pop();
        assert!(of("CREDENZA_LISTN").is_some_and(|said| said.contains("CREDENZA_LISTEN meant")));
        assert!(of("CREDENZA_BUKET").is_some_and(|said| said.contains("CREDENZA_BUCKET meant")));
        let said = "the variable CREDENZA_NODE is now called CREDENZA_NAME";
        assert_eq!(of("CREDENZA_NODE").as_deref(), Some(said));
        for row in TABLE {
            assert_eq!(of(&row.variable()), None, "{}", row.name);
        }
        for fine in ["CREDENZA_URL", "CREDENZA_PORT", "CREDENZA_SERVICE_HOST", "LISTN", "CREDENZA_"]
        {
            assert_eq!(of(fine), None, "{fine}");
        }
        let kubernetes = "CREDENZA_PORT_7711_TCP_ADDR";
        assert_eq!(of(kubernetes), None);
        // Variables of the project's own tests.
        for own in ["CREDENZA_BINARY", "CREDENZA_SEED"] {
            assert_eq!(of(own), None, "{own}");
        }
    }
}
