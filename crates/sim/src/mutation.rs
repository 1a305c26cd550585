//! Mutation checks: with a rule of the product broken, a judge must find a history that is wrong. A
//! simulator that notices nothing would prove nothing (F-59).

use crate::leaks;
use crate::suite::{History, is_long};
use base::mutants::Mutation;
use std::any::Any;
use std::panic::catch_unwind;

/// What judges of one simulator must notice.
pub struct MutationCheck<'a, M> {
    /// Lives through the history of a seed.
    pub history: History,
    /// Histories within which a broken rule must show.
    pub within: u64,
    /// What judges say of a violation. Any other panic, an assertion of the product included, is no
    /// proof that they see a rule broken.
    pub verdicts: &'a [&'a str],
    /// Rules that show in other words, and these.
    pub otherwise: &'a [(M, &'a str)],
    /// The first seed that is tried for a rule, where it is not 0: a little below one that showed
    /// it. It only saves time; where histories have changed, as many others are tried.
    pub first: &'a [(M, u64)],
}

impl<M: Mutation> MutationCheck<'_, M> {
    /// Asserts that a judge sees each of these rules broken; the rare ones only in the long tests.
    pub fn assert_noticed(&self, soon: &[M], rare: &[M]) {
        let rare = if is_long() { rare } else { &[] };
        let mut unnoticed = Vec::new();
        for mutant in soon.iter().chain(rare) {
            match self.first_noticed(*mutant) {
                Ok((seed, said)) => println!("{mutant:?}: seed {seed}: {said:.100}"),
                Err(said) => unnoticed.push(format!("{mutant:?}, but for {said:.100?}")),
            }
        }
        let (unnoticed, within) = (unnoticed.join("\n"), self.within);
        assert!(unnoticed.is_empty(), "no judge of {within} histories sees broken:\n{unnoticed}");
    }

    /// The first history in which a judge sees the rule broken, and its words; else some of what
    /// was said instead.
    fn first_noticed(&self, mutant: M) -> Result<(u64, String), Vec<String>> {
        let named = self.first.iter().find(|(other, _)| *other == mutant);
        let first = named.map_or(0, |(_, seed)| *seed);
        let mut otherwise = Vec::new();
        for seed in first..first + self.within {
            match self.failure(mutant, seed) {
                Some(said) if self.is_verdict(mutant, &said) => return Ok((seed, said)),
                said => otherwise.extend(said),
            }
        }
        otherwise.truncate(3);
        Err(otherwise)
    }

    /// Returns what a history with this broken rule says, if it fails.
    pub fn failure(&self, mutant: M, seed: u64) -> Option<String> {
        leaks::forget_watched();
        let history = self.history;
        let lived = mutant.while_active(|| catch_unwind(|| history(seed)));
        lived.err().map(|panic| panic_text(&*panic))
    }

    /// Returns true if these are a judge's words.
    pub fn is_verdict(&self, mutant: M, said: &str) -> bool {
        let named = self.otherwise.iter().filter(|(other, _)| *other == mutant);
        let named = named.map(|(_, words)| words);
        self.verdicts.iter().chain(named).any(|words| said.contains(words))
    }
}

/// Returns the words of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
    said.unwrap_or_default()
}
