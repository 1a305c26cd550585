//! Times to live: when a row was seen gone, and shown, by reads that already have their places.
//!
//! A row whose time is over is absent for readers, and an update that nobody asked for removes it
//! from the log some time later. So an absent row is held against its lifetime in both cases.

use super::judge::Judge;
use super::state::StatePosition;
use super::{Level, StepAnswer, TTL_TOLERANCE_NS, TransactionOutcome, TransactionStep};

impl Judge<'_> {
    /// True if the time of a row may be over at a moment: since it was asked for, that time has
    /// passed. None if no row with a time to live stands there, or stood there last.
    pub(super) fn may_be_over(&self, key: &str, place: StatePosition, moment: u64) -> Option<bool> {
        let (began, ttl_ms) = self.lifetime(key, place)?;
        Some(moment + TTL_TOLERANCE_NS >= began + ttl_ms * 1_000_000)
    }

    /// When a row that a key holds, or held until its time was over, was asked for, and how long it
    /// lives.
    fn lifetime(&self, key: &str, place: StatePosition) -> Option<(u64, u64)> {
        let maker = &self.history[self.makers[self.written_at(key, place)?]?];
        maker.steps.iter().find_map(|step| match step {
            TransactionStep::Set(set, _, Some(ttl_ms)) if set == key => {
                Some((maker.began, *ttl_ms))
            }
            _ => None,
        })
    }

    /// The place of the last effect on a key that somebody asked for.
    fn written_at(&self, key: &str, place: StatePosition) -> Option<StatePosition> {
        let last = self.log.maker(key, place)?;
        match self.makers[last] {
            Some(_) => Some(last),
            None => self.log.maker(key, last - 1),
        }
    }

    /// Notes what a transaction that was done at a place was shown of rows with a time to live.
    pub(super) fn note_lifetimes(&mut self, at: usize, place: StatePosition) {
        let one = &self.history[at];
        let TransactionOutcome::Done(told) = &one.outcome else { return };
        for (step, told) in one.steps.iter().zip(told) {
            let (TransactionStep::Get(key), StepAnswer::Row(row)) = (step, told) else { continue };
            if self.lifetime(key, place).is_none() || one.level != Level::Consistent {
                continue;
            }
            let Some(written) = self.written_at(key, place) else { continue };
            let (gone, shown) = self.gone.entry(written).or_default();
            match row {
                None => {
                    *gone = Some(gone.map_or(one.ended, |before| before.min(one.ended)));
                    self.report.expired += 1;
                }
                Some(_) => *shown = Some(shown.map_or(one.began, |before| before.max(one.began))),
            }
        }
    }

    /// Holds all notes against each other: what was seen gone does not come back.
    pub(super) fn lifetimes(&mut self) {
        for (place, (gone, shown)) in &self.gone {
            if let (Some(gone), Some(shown)) = (gone, shown)
                && shown > gone
            {
                let effect = &self.log.effect(*place).2;
                let words = format!("{effect:?} was gone at {gone}, and is shown again at {shown}");
                self.report.violations.push(words);
            }
        }
    }
}
