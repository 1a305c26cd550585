//! Former names of settings, each with the current name.
//!
//! A former name is refused and never read: two spellings in one installation would sooner or later
//! have two values.

use crate::Environment;
use program::{Failure, Outcome};

/// Former names with their current names.
pub const RENAMES: [(&str, &str); 13] = [
    ("data", "data_dir"),
    ("node", "name"),
    ("hosts", "allowed_hosts"),
    ("found_with", "bootstrap_peers"),
    ("interval_ms", "sync_interval_ms"),
    ("reserve_bytes", "disk_reserve_bytes"),
    ("close_ms_max", "shutdown_timeout_ms"),
    ("compare_pause_ms", "scrub_interval_ms"),
    ("compare_bytes_per_second", "scrub_bytes_per_second"),
    ("compare_copies_ms", "anti_entropy_interval_ms"),
    ("ring_bytes_per_second", "handoff_bytes_per_second"),
    ("prefer_pause_ms", "preferred_master_delay_ms"),
    ("repair", "auto_repair"),
];

/// Returns the current name of a setting that had this name before.
pub fn current_name(former: &str) -> Option<&'static str> {
    RENAMES.iter().find(|(name, _)| *name == former).map(|(_, name)| *name)
}

/// Refuses an environment that sets a variable under a former name.
pub fn check_variables(environment: Environment) -> Outcome {
    let variable = |name: &str| format!("CREDENZA_{}", name.to_ascii_uppercase());
    match RENAMES.iter().find(|(former, _)| environment(&variable(former)).is_some()) {
        None => Ok(()),
        Some((former, name)) => {
            let (former, name) = (variable(former), variable(name));
            Err(Failure::invalid(format!("variable {former} is now called {name}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TABLE;

    #[test]
    fn every_former_name_maps_to_a_current_setting() {
        let is_setting = |name: &str| TABLE.iter().any(|row| row.name == name);
        for (former, name) in RENAMES {
            assert!(is_setting(name) && !is_setting(former), "{former} -> {name}");
        }
        assert_eq!((current_name("repair"), current_name("listen")), (Some("auto_repair"), None));
    }
}
