//! Mutation checks: if a rule of the product is broken, a judge must find a wrong history. A
//! simulator that notices nothing would prove nothing (F-59).

use crate::leaks;
use crate::suite::{History, is_long};
use base::mutants::Mutation;
use std::any::Any;
use std::panic::catch_unwind;

/// Mutation check of one simulator: the rules that its judges must find broken.
pub struct MutationCheck<'a, M> {
    /// Runs the history of a seed.
    pub history: History,
    /// Number of histories within which a broken rule must be noticed.
    pub within: u64,
    /// Phrases of the judges' verdicts. Any other panic, such as an assertion of the product, does
    /// not prove that the judges notice a broken rule.
    pub verdicts: &'a [&'a str],
    /// Rules that are noticed by another phrase than a verdict, with that phrase.
    pub otherwise: &'a [(M, &'a str)],
    /// First seed to try for a rule, if not 0: a little below one that showed it. It only saves
    /// time: if histories have changed, as many later seeds are tried.
    pub first: &'a [(M, u64)],
}

impl<M: Mutation> MutationCheck<'_, M> {
    /// Asserts that a judge notices each of these broken rules; `rare` ones only in the long tests.
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

    /// Returns the first seed whose history a judge finds wrong, with the verdict. Error: up to
    /// three panics that were no verdict.
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

    /// Returns the panic of a history with this broken rule. `None`: the history passes.
    pub fn failure(&self, mutant: M, seed: u64) -> Option<String> {
        leaks::forget_watched();
        let history = self.history;
        let lived = mutant.while_active(|| catch_unwind(|| history(seed)));
        lived.err().map(|panic| panic_text(&*panic))
    }

    /// Returns true if this text is a judge's verdict on the rule.
    pub fn is_verdict(&self, mutant: M, said: &str) -> bool {
        let named = self.otherwise.iter().filter(|(other, _)| *other == mutant);
        let named = named.map(|(_, words)| words);
        self.verdicts.iter().chain(named).any(|words| said.contains(words))
    }
}

/// Returns the text of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
    said.unwrap_or_default()
}
