//! Mutants: rules of the product that tests break, one at a time, to prove that they would notice.
//!
//! Each crate lists its own rules ([`mutants!`](crate::mutants!)), and asks at the place that a
//! rule is about. A test breaks a rule on its own thread, in builds with debug assertions. A
//! process breaks one for good in builds with the feature `mutants`, which no shipped build has, by
//! the name that whoever starts it gives (`CREDENZA_MUTANT`). Elsewhere no rule can be broken,
//! asking costs nothing, and the program holds no name of a rule.

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::fmt::Debug;

#[cfg(feature = "mutants")]
static BROKEN: std::sync::OnceLock<&'static str> = std::sync::OnceLock::new();

#[cfg(debug_assertions)]
thread_local! {
    static BROKEN_HERE: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// True in builds of which a process can break a rule.
pub const IN_PROCESSES: bool = cfg!(feature = "mutants");

/// A list of rules that can be broken, one of which this is.
pub trait Mutation: Copy + Debug + PartialEq + 'static {
    /// Every rule of the list, by its name; none where no process can break one.
    const NAMES: &'static [&'static str];

    /// Returns the name of the rule.
    fn name(self) -> &'static str;

    /// Does something with this rule broken on this thread, and mends it whatever happens.
    fn while_active<T>(self, act: impl FnOnce() -> T) -> T {
        struct Mend;
        impl Drop for Mend {
            fn drop(&mut self) {
                break_here(None);
            }
        }
        let _mend = Mend;
        break_on_thread(Some(self));
        act()
    }
}

/// Breaks a rule on this thread, or none. A build without debug assertions breaks none.
pub fn break_on_thread<M: Mutation>(mutant: Option<M>) {
    break_here(mutant.map(M::name));
}

fn break_here(_name: Option<&'static str>) {
    #[cfg(debug_assertions)]
    BROKEN_HERE.set(_name);
}

/// Returns true if a test has broken this rule; never in a program that serves.
#[inline(always)]
pub fn is_active<M: Mutation>(_mutant: M) -> bool {
    #[cfg(debug_assertions)]
    if BROKEN_HERE.get().is_some_and(|name| name == _mutant.name()) {
        return true;
    }
    #[cfg(feature = "mutants")]
    return BROKEN.get().is_some_and(|name| *name == _mutant.name());
    #[cfg(not(feature = "mutants"))]
    false
}

/// Breaks the rule of this name, of one of these lists, in the whole process. Where no rule can be
/// broken, and for a name that is none, says so in words.
pub fn arm(name: &str, lists: &[&[&'static str]]) -> Result<(), String> {
    let names = || lists.iter().copied().flatten();
    match names().find(|known| **known == name) {
        #[cfg(feature = "mutants")]
        Some(name) => BROKEN.set(name).map_err(|_| "one rule is broken already".into()),
        _ if IN_PROCESSES => {
            let names: Vec<_> = names().copied().collect();
            Err(format!("`{name}` is no rule that can be broken: {}", names.join(" ")))
        }
        _ => Err(format!(
            "this program breaks no rule, not `{name}` either: unset CREDENZA_MUTANT, or build \
             one for tests with `--features mutants`"
        )),
    }
}

/// Lists the rules of a crate that can be broken: an enum whose values know if they are active.
#[macro_export]
macro_rules! mutants {
    ($(#[$head:meta])* $view:vis enum $list:ident { $($(#[$doc:meta])* $mutant:ident,)+ }) => {
        $(#[$head])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $view enum $list {
            $($(#[$doc])* $mutant,)+
        }

        impl $list {
            /// Returns true if a test has broken this rule; never in a program that serves.
            #[inline(always)]
            $view fn is_active(self) -> bool {
                $crate::mutants::is_active(self)
            }
        }

        impl $crate::mutants::Mutation for $list {
            const NAMES: &'static [&'static str] =
                if $crate::mutants::IN_PROCESSES { &[$(stringify!($mutant)),+] } else { &[] };

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
    fn a_rule_is_broken_on_one_thread_and_mended_whatever_happens() {
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
    fn a_name_that_is_none_is_refused_in_words_and_breaks_nothing() {
        let said = arm("GarbleEverything", &[TestMutant::NAMES]).expect_err("no such rule");
        let wanted = if IN_PROCESSES { "TwoIsOne" } else { "CREDENZA_MUTANT" };
        assert!(said.contains("GarbleEverything") && said.contains(wanted), "{said}");
        assert!(!TestMutant::OneIsTwo.is_active() && !TestMutant::TwoIsOne.is_active());
    }

    #[test]
    #[cfg(not(feature = "mutants"))]
    fn where_no_rule_can_be_broken_none_is_by_its_right_name() {
        assert!(arm("OneIsTwo", &[&["OneIsTwo"]]).is_err());
        assert!(!TestMutant::OneIsTwo.is_active());
    }
}
