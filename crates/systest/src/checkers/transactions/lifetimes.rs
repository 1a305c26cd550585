//! Check of times to live: compares when a row was seen gone with when it was shown, by reads that
//! already have their places.
//!
//! An expired row is absent for readers, and an update that no client requested removes it from the
//! log some time later. So an absent row is checked against its time to live in both cases.

use super::TTL_TOLERANCE_NS;
use super::judge::Judge;
use super::state::StatePosition;
use crate::workload::CallOutcome;
use crate::workload::transactions::{Level, StepAnswer, TransactionAnswer, TransactionStep};

impl Judge<'_> {
    /// Returns true if a row may have expired at a moment: its time to live has passed since it was
    /// requested. `None`: no row with a time to live is there, or was there last.
    pub(super) fn may_be_over(&self, key: &str, place: StatePosition, moment: u64) -> Option<bool> {
        let (began, ttl_ms) = self.lifetime(key, place)?;
        Some(moment + TTL_TOLERANCE_NS >= began + ttl_ms * 1_000_000)
    }

    /// Returns when a row was requested that a key holds, or held until it expired, in nanoseconds,
    /// and its time to live in milliseconds. `None`: it has none.
    fn lifetime(&self, key: &str, place: StatePosition) -> Option<(u64, u64)> {
        let maker = &self.history[self.makers[self.written_at(key, place)?]?];
        maker.op.steps.iter().find_map(|step| match step {
            TransactionStep::Set(set, _, Some(ttl_ms)) if set == key => {
                Some((maker.began, *ttl_ms))
            }
            _ => None,
        })
    }

    /// Returns the place of the last effect on a key that a client requested.
    fn written_at(&self, key: &str, place: StatePosition) -> Option<StatePosition> {
        let last = self.log.maker(key, place)?;
        match self.makers[last] {
            Some(_) => Some(last),
            None => self.log.maker(key, last - 1),
        }
    }

    /// Records which rows with a time to live a transaction at this place was shown or found gone.
    pub(super) fn note_lifetimes(&mut self, at: usize, place: StatePosition) {
        let one = &self.history[at];
        let CallOutcome::Acknowledged(TransactionAnswer::Done(told)) = &one.outcome else { return };
        for (step, told) in one.op.steps.iter().zip(told) {
            let (TransactionStep::Get(key), StepAnswer::Row(row)) = (step, told) else { continue };
            if self.lifetime(key, place).is_none() || one.op.level != Level::Consistent {
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

    /// Checks the records: a row that was seen gone is not shown later.
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
