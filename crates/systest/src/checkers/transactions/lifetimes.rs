//! Check of times to live: compares the times at which reads found a row expired with the times at
//! which reads returned it. The reads already have their positions.
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
    pub(super) fn may_have_expired(
        &self,
        key: &str,
        position: StatePosition,
        moment: u64,
    ) -> Option<bool> {
        let (began, ttl_ms) = self.row_ttl(key, position)?;
        Some(moment + TTL_TOLERANCE_NS >= began + ttl_ms * 1_000_000)
    }

    /// Returns the time of the request that wrote the row that a key holds, or held until it
    /// expired, in nanoseconds, and the row's time to live in milliseconds. `None`: it has none.
    fn row_ttl(&self, key: &str, position: StatePosition) -> Option<(u64, u64)> {
        let maker = &self.history[self.makers[self.last_client_write(key, position)?]?];
        maker.op.steps.iter().find_map(|step| match step {
            TransactionStep::Set(set, _, Some(ttl_ms)) if set == key => {
                Some((maker.began, *ttl_ms))
            }
            _ => None,
        })
    }

    /// Returns the position of the last effect on a key that a client requested.
    fn last_client_write(&self, key: &str, position: StatePosition) -> Option<StatePosition> {
        let last = self.log.maker(key, position)?;
        match self.makers[last] {
            Some(_) => Some(last),
            None => self.log.maker(key, last - 1),
        }
    }

    /// Records the rows with a time to live that a transaction at this position returned or found
    /// expired.
    pub(super) fn record_ttl_observations(&mut self, at: usize, position: StatePosition) {
        let transaction = &self.history[at];
        let CallOutcome::Acknowledged(TransactionAnswer::Done(answers)) = &transaction.outcome
        else {
            return;
        };
        for (step, answers) in transaction.op.steps.iter().zip(answers) {
            let (TransactionStep::Get(key), StepAnswer::Row(row)) = (step, answers) else {
                continue;
            };
            if self.row_ttl(key, position).is_none() || transaction.op.level != Level::Consistent {
                continue;
            }
            let Some(written) = self.last_client_write(key, position) else { continue };
            let (first_gone, last_shown) = self.ttl_observations.entry(written).or_default();
            match row {
                None => {
                    *first_gone = Some(
                        first_gone
                            .map_or(transaction.ended, |earlier| earlier.min(transaction.ended)),
                    );
                    self.report.expired += 1;
                }
                Some(_) => {
                    *last_shown = Some(
                        last_shown
                            .map_or(transaction.began, |earlier| earlier.max(transaction.began)),
                    )
                }
            }
        }
    }

    /// Checks the records: a row that one read found expired is not returned by a later read.
    pub(super) fn check_ttl_observations(&mut self) {
        for (position, (first_gone, last_shown)) in &self.ttl_observations {
            if let (Some(first_gone), Some(last_shown)) = (first_gone, last_shown)
                && last_shown > first_gone
            {
                let effect = &self.log.effect(*position).2;
                let problem = format!(
                    "{effect:?} was gone at {first_gone}, and is shown again at {last_shown}"
                );
                self.report.violations.push(problem);
            }
        }
    }
}
