//! Mutation checks: if a rule of the product is broken, a judge must find a wrong history. A
//! simulator that notices nothing would prove nothing (F-59).

use crate::leaks;
use crate::suite::{History, is_long};
use base::mutants::MutantList;
use std::any::Any;
use std::panic::catch_unwind;

/// Mutation check of one simulator: the rules that its judges must find broken.
pub struct MutationCheck<'a, M> {
    /// Runs the history of a seed.
    pub history: History,
    /// Number of histories within which a broken rule must be noticed.
    pub seeds_max: u64,
    /// Phrases of the judges' verdicts. Any other panic, such as an assertion of the product, does
    /// not prove that the judges notice a broken rule.
    pub verdicts: &'a [&'a str],
    /// Rules that are noticed by another phrase than a verdict, with that phrase.
    pub other_failures: &'a [(M, &'a str)],
    /// First seed to try for a rule, if not 0: a little below one that showed it. It only saves
    /// time: if histories have changed, as many later seeds are tried.
    pub first_seeds: &'a [(M, u64)],
}

impl<M: MutantList> MutationCheck<'_, M> {
    /// Asserts that a judge notices each of these broken rules; `rare` ones only in the long tests.
    pub fn assert_detected(&self, soon: &[M], rare: &[M]) {
        let rare = if is_long() { rare } else { &[] };
        let mut unnoticed = Vec::new();
        for mutant in soon.iter().chain(rare) {
            match self.first_noticed(*mutant) {
                Ok((seed, said)) => println!("{mutant:?}: seed {seed}: {said:.100}"),
                Err(said) => unnoticed.push(format!("{mutant:?}, but for {said:.100?}")),
            }
        }
        let (unnoticed, within) = (unnoticed.join("\n"), self.seeds_max);
        assert!(unnoticed.is_empty(), "no judge of {within} histories sees broken:\n{unnoticed}");
    }

    /// Returns the first seed whose history fails with a verdict, and the verdict. Error: up to
    /// three panics that were no verdict.
    fn first_noticed(&self, mutant: M) -> Result<(u64, String), Vec<String>> {
        let named = self.first_seeds.iter().find(|(other, _)| *other == mutant);
        let first = named.map_or(0, |(_, seed)| *seed);
        let mut other_panics = Vec::new();
        for seed in first..first + self.seeds_max {
            match self.failure(mutant, seed) {
                Some(text) if self.is_verdict(mutant, &text) => return Ok((seed, text)),
                text => other_panics.extend(text),
            }
        }
        other_panics.truncate(3);
        Err(other_panics)
    }

    /// Returns the panic of a history with this broken rule. `None`: the history passes.
    pub fn failure(&self, mutant: M, seed: u64) -> Option<String> {
        leaks::forget_watched();
        let history = self.history;
        let result = mutant.while_active(|| catch_unwind(|| history(seed)));
        result.err().map(|panic| panic_text(&*panic))
    }

    /// Returns true if this text is a judge's verdict on the rule.
    pub fn is_verdict(&self, mutant: M, text: &str) -> bool {
        let phrases = self.other_failures.iter().filter(|(other, _)| *other == mutant);
        let phrases = phrases.map(|(_, phrase)| phrase);
        self.verdicts.iter().chain(phrases).any(|phrase| text.contains(phrase))
    }
}

/// Returns the text of a panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let message = panic.downcast_ref::<String>().cloned();
    let message = message.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
    message.unwrap_or_default()
}
