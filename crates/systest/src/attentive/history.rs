//! What clients saw: what they did, for the judge, and when, for the figures.

use crate::checkers::causal::{CallAnswer, Deed};
use std::time::Duration;

/// When a call was made, at which node, and how it went.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// When it began, on the recorder's clock.
    pub began: Duration,
    /// How long its client waited.
    pub took: Duration,
    /// At which node, counted from 0.
    pub at: usize,
    /// What the client was told.
    pub told: CallAnswer,
}

/// What clients saw.
#[derive(Clone, Debug, Default)]
pub struct Witnessed {
    /// Their calls, for the judge.
    pub deeds: Vec<Deed>,
    /// Their times.
    pub moments: Vec<Moment>,
    /// Refusals in words, each once.
    pub words: std::collections::BTreeMap<String, u64>,
}

impl Witnessed {
    /// How many calls were acknowledged, were refused, stay unknown.
    pub fn counts(&self) -> (u64, u64, u64) {
        let count = |wanted| self.moments.iter().filter(|it| it.told == wanted).count() as u64;
        (count(CallAnswer::Done), count(CallAnswer::Refused), count(CallAnswer::Unknown))
    }

    /// Calls that began between two moments at these nodes.
    pub fn within(
        &self,
        (from, to): (Duration, Duration),
        at: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = &Moment> {
        self.moments.iter().filter(move |it| (from..to).contains(&it.began) && at(it.at))
    }

    /// Of the calls that began between two moments at these nodes: how many were answered, and of
    /// how many.
    pub fn answered(&self, span: (Duration, Duration), at: impl Fn(usize) -> bool) -> (u64, u64) {
        let all: Vec<_> = self.within(span, at).collect();
        let unknown = all.iter().filter(|it| it.told == CallAnswer::Unknown).count();
        ((all.len() - unknown) as u64, all.len() as u64)
    }

    /// The time below which so many percent of the calls are that began between two moments.
    pub fn percentile(
        &self,
        span: (Duration, Duration),
        at: impl Fn(usize) -> bool,
        percent: usize,
    ) -> Duration {
        let mut times: Vec<_> = self.within(span, at).map(|it| it.took).collect();
        times.sort_unstable();
        times.get(times.len() * percent / 100).copied().unwrap_or_default()
    }

    /// Everything others saw, too.
    pub fn join(&mut self, other: Witnessed) {
        self.deeds.extend(other.deeds);
        self.moments.extend(other.moments);
        for (word, count) in other.words {
            *self.words.entry(word).or_default() += count;
        }
    }
}
