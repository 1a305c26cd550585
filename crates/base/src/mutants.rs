//! Mutants: rules of the product that tests break, one at a time, to prove that they detect it.
//!
//! Each crate lists its own rules ([`mutants!`](crate::mutants!)), and checks a rule at the place
//! where it applies. A test breaks a rule on its own thread, in builds with debug assertions. A
//! process breaks one permanently in builds with the feature `mutants`, which no shipped build has:
//! the environment variable `CREDENZA_MUTANT` names it. In other builds no rule can be broken, the
//! check costs nothing, and the program contains no name of a rule.

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::fmt::Debug;

#[cfg(feature = "mutants")]
static ACTIVE: std::sync::OnceLock<&'static str> = std::sync::OnceLock::new();

#[cfg(debug_assertions)]
thread_local! {
    static ACTIVE_ON_THREAD: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// True in builds in which a mutant can be activated for the whole process.
pub const CAN_ACTIVATE_IN_PROCESS: bool = cfg!(feature = "mutants");

/// Rule of one list of rules that can be broken.
pub trait MutantList: Copy + Debug + PartialEq + 'static {
    /// Names of all rules of the list; empty in builds in which no process can break one.
    const NAMES: &'static [&'static str];

    /// Returns the name of the rule.
    fn name(self) -> &'static str;

    /// Runs `body` with this rule broken on this thread, and restores the rule even after a panic.
    fn while_active<T>(self, body: impl FnOnce() -> T) -> T {
        struct ClearGuard;
        impl Drop for ClearGuard {
            fn drop(&mut self) {
                set_on_thread(None);
            }
        }
        let _guard = ClearGuard;
        activate_on_thread(Some(self));
        body()
    }
}

/// Breaks a rule on this thread, or none. A build without debug assertions breaks none.
pub fn activate_on_thread<M: MutantList>(mutant: Option<M>) {
    set_on_thread(mutant.map(M::name));
}

fn set_on_thread(_name: Option<&'static str>) {
    #[cfg(debug_assertions)]
    ACTIVE_ON_THREAD.set(_name);
}

/// Returns true if a test has broken this rule; never in a shipped program.
#[inline(always)]
pub fn is_active<M: MutantList>(_mutant: M) -> bool {
    #[cfg(debug_assertions)]
    if ACTIVE_ON_THREAD.get().is_some_and(|name| name == _mutant.name()) {
        return true;
    }
    #[cfg(feature = "mutants")]
    return ACTIVE.get().is_some_and(|name| *name == _mutant.name());
    #[cfg(not(feature = "mutants"))]
    false
}

/// Breaks the rule of this name, of one of these lists, in the whole process. Errors: a text, if
/// the name is unknown or the build has no mutants.
pub fn activate(name: &str, lists: &[&[&'static str]]) -> Result<(), String> {
    let names = || lists.iter().copied().flatten();
    match names().find(|known| **known == name) {
        #[cfg(feature = "mutants")]
        Some(name) => ACTIVE.set(name).map_err(|_| "a mutant is active already".into()),
        _ if CAN_ACTIVATE_IN_PROCESS => {
            let names: Vec<_> = names().copied().collect();
            Err(format!("unknown mutant `{name}`; there are {}", names.join(" ")))
        }
        _ => Err(format!(
            "this program has no mutants, and no `{name}`: unset CREDENZA_MUTANT, or build with \
             `--features mutants` for tests"
        )),
    }
}

/// Defines the rules of a crate that can be broken, as an enum with a method `is_active`.
#[macro_export]
macro_rules! mutants {
    ($(#[$head:meta])* $view:vis enum $list:ident { $($(#[$doc:meta])* $mutant:ident,)+ }) => {
        $(#[$head])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $view enum $list {
            $($(#[$doc])* $mutant,)+
        }

        impl $list {
            /// Returns true if a test has broken this rule; never in a shipped program.
            #[inline(always)]
            $view fn is_active(self) -> bool {
                $crate::mutants::is_active(self)
            }
        }

        impl $crate::mutants::MutantList for $list {
            const NAMES: &'static [&'static str] = if $crate::mutants::CAN_ACTIVATE_IN_PROCESS {
                &[$(stringify!($mutant)),+]
            } else {
                &[]
            };

            #[inline(always)]
            fn name(self) -> &'static str {
                match self {
                    $($list::$mutant => stringify!($mutant),)+
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    mutants! {
        /// Rules of these tests.
        enum TestMutant {
            /// One is one.
            OneIsTwo,
            /// Two is two.
            TwoIsOne,
        }
    }

    #[test]
    fn mutant_is_thread_local_and_cleared_after_panic() {
        TestMutant::OneIsTwo.while_active(|| {
            assert!(TestMutant::OneIsTwo.is_active() && !TestMutant::TwoIsOne.is_active());
            let elsewhere = std::thread::spawn(|| TestMutant::OneIsTwo.is_active());
            assert!(!elsewhere.join().expect("it asks"));
        });
        let panics = || TestMutant::OneIsTwo.while_active(|| panic!("it fails"));
        assert!(std::panic::catch_unwind(panics).is_err());
        assert!(!TestMutant::OneIsTwo.is_active());
    }

    #[test]
    fn arming_unknown_mutant_fails_and_activates_none() {
        let said = activate("GarbleEverything", &[TestMutant::NAMES]).expect_err("no such rule");
        let expected = if CAN_ACTIVATE_IN_PROCESS { "TwoIsOne" } else { "CREDENZA_MUTANT" };
        assert!(said.contains("GarbleEverything") && said.contains(expected), "{said}");
        assert!(!TestMutant::OneIsTwo.is_active() && !TestMutant::TwoIsOne.is_active());
    }

    #[test]
    #[cfg(not(feature = "mutants"))]
    fn arming_known_mutant_fails_without_mutants_feature() {
        assert!(activate("OneIsTwo", &[&["OneIsTwo"]]).is_err());
        assert!(!TestMutant::OneIsTwo.is_active());
    }
}
