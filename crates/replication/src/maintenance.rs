//! Maintenance queries of a group: the log that it still needs, the state that exists only in the
//! log, and the entries that are applied.
//!
//! Never: waits for the driver; a caller that needs a copy at the log's head waits itself.

use crate::group::Group;
use base::{LogIndex, Result};
use std::sync::mpsc::Receiver;
use store::Position;

/// Progress of applying a group's entries on this node.
#[derive(Clone, Copy, Debug)]
pub struct ApplyProgress {
    /// The last entry that is applied here.
    pub applied: LogIndex,
    /// A master's epoch, and the last entry it has taken.
    pub leads: Option<(u64, LogIndex)>,
    /// Last entry decided by the master, where another is known to be it.
    pub decided: Option<LogIndex>,
}

impl Group {
    /// Returns the position of the first record that a restart would still need.
    pub fn log_needed_from(&self) -> Option<Position> {
        let state = self.state();
        let (replica, applied, flight) =
            (&state.replica, self.applied.index(), &state.entries.in_flight);
        let ballots = [Some(replica.promised()), replica.staging()];
        let known = state.entries.positions.needed(applied, ballots, flight.adopts());
        known.into_iter().chain(flight.oldest()).min()
    }

    /// Returns true if it wrote since the last call.
    pub fn has_written(&self) -> bool {
        std::mem::take(&mut self.state().output.statement.wrote)
    }

    /// Asks the driver to log again the state that exists only in the log.
    pub fn state_again(&self) {
        self.state().output.statement.asked = true;
        self.driver.wake();
    }

    /// Asks the driver to log, at the log's head, the state that exists only in the log. The
    /// receiver is notified when that is handed to the log writer. `None`: the driver has ended.
    pub fn copy_to_head(&self) -> Result<Option<Receiver<()>>> {
        let (done, handed) = std::sync::mpsc::sync_channel(1);
        {
            let mut state = self.state();
            state.life.check()?;
            if state.life.has_ended() {
                return Ok(None);
            }
            state.output.statement.copy = Some(done);
        }
        self.driver.wake();
        Ok(Some(handed))
    }

    /// Returns how far entries are applied, and the last that may hold an update taken until now.
    pub fn apply_progress(&self) -> ApplyProgress {
        // Before what may be applied: as of one moment, or a little later.
        let leads = self.leadership.is_master();
        let state = self.state();
        let (epoch, applied) = (self.applied.epoch(), self.applied.index());
        let taken = state.queue.last().unwrap_or(applied);
        let other = state.replica.master().filter(|master| *master != self.shared.node);
        let decided = other.map(|_| state.replica.heard_decided());
        ApplyProgress { applied, leads: leads.then_some((epoch, taken)), decided }
    }
}
