//! Rules that a build for tests can break, so that experiments prove that they notice it.
//!
//! Only with the feature `mutants`, which no shipped build has, and only the one rule that the
//! program that starts the process names before anything runs (`CREDENZA_MUTANT=NAME`). This crate
//! reads no environment. Without the feature no rule can be broken, and the check costs nothing.

#[cfg(feature = "mutants")]
use std::sync::OnceLock;

/// Declares the rules of one crate that can be broken. Each crate has its own list.
#[macro_export]
macro_rules! flaws {
    ($($(#[$doc:meta])* $flaw:ident,)+) => {
        /// A rule that can be broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Flaw {
            $($(#[$doc])* $flaw,)+
        }

        /// Names of all rules. Empty in a build that can break none.
        const NAMES: &[&str] =
            if cfg!(feature = "mutants") { &[$(stringify!($flaw)),+] } else { &[] };
    };
}

flaws! {
    /// A sync of the log reports success and syncs nothing.
    SyncsNothing,
    /// A frame of the log is accepted whatever its checksum.
    BelievesFrames,
}

/// Name of the broken rule, of any crate.
#[cfg(feature = "mutants")]
static BROKEN: OnceLock<&'static str> = OnceLock::new();

/// Breaks the rule of this name. `above` holds the rules of the crates above. An error says in
/// words that no rule can be broken in this build, or that the name is unknown.
pub fn arm(name: &str, above: &[&'static str]) -> Result<(), String> {
    let names = || NAMES.iter().chain(above);
    match names().find(|known| **known == name) {
        #[cfg(feature = "mutants")]
        Some(name) => BROKEN.set(name).map_err(|_| "one rule is broken already".into()),
        _ if cfg!(feature = "mutants") => {
            let names: Vec<_> = names().copied().collect();
            Err(format!("`{name}` is no rule that can be broken: {}", names.join(" ")))
        }
        _ => Err(format!(
            "this program breaks no rule, not `{name}` either: unset CREDENZA_MUTANT, or build \
             one for tests with `--features mutants`"
        )),
    }
}

/// Returns true if the rule of this name is broken, whichever crate it belongs to.
#[inline(always)]
pub fn is_broken(_name: &str) -> bool {
    #[cfg(feature = "mutants")]
    return BROKEN.get().is_some_and(|broken| *broken == _name);
    #[cfg(not(feature = "mutants"))]
    false
}

/// Returns true if a test has broken this rule of the store. Never true in a program that serves.
#[inline(always)]
pub(crate) fn flawed(_flaw: Flaw) -> bool {
    #[cfg(feature = "mutants")]
    return is_broken(NAMES[_flaw as usize]);
    #[cfg(not(feature = "mutants"))]
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_none_is_refused_in_words_and_breaks_nothing() {
        let said = arm("GarbleEverything", &[]).expect_err("there is no such rule");
        let wanted = if cfg!(feature = "mutants") { "BelievesFrames" } else { "CREDENZA_MUTANT" };
        assert!(said.contains("GarbleEverything") && said.contains(wanted), "{said}");
        assert!(!flawed(Flaw::SyncsNothing) && !flawed(Flaw::BelievesFrames));
    }

    #[test]
    #[cfg(not(feature = "mutants"))]
    fn where_no_rule_can_be_broken_none_is_by_its_right_name() {
        assert!(arm("SyncsNothing", &["ReadWithoutLease"]).is_err());
        assert!(arm("ReadWithoutLease", &["ReadWithoutLease"]).is_err());
        assert!(!is_broken("SyncsNothing"));
    }
}
