//! Maintenance queries of a group: the log that it still needs, the state that exists only in the
//! log, and the entries that are applied.
//!
//! Never: waits for the driver; a caller that needs a copy at the log's head waits itself.

use crate::group::Group;
use base::{Ballot, LogIndex, Millis, Result};
use runtime::world;
use std::sync::mpsc::Receiver;
use store::Position;

/// Progress of applying a group's entries on this node.
#[derive(Clone, Copy, Debug)]
pub struct ApplyProgress {
    /// Index of the last entry that is applied here.
    pub applied: LogIndex,
    /// Epoch of this master, and the last entry with an accepted update. `None`: this node is not
    /// master.
    pub last_accepted: Option<(u64, LogIndex)>,
    /// Ballot of another master, and an index at or behind every entry that was decided under it
    /// or before when it last sent a message, within twice `lease_ms`. `None`: this node hears no
    /// other master, or does not have its log yet.
    pub followed_end: Option<(Ballot, LogIndex)>,
}

impl Group {
    /// Returns the position of the first record that a restart would still need.
    pub fn log_needed_from(&self) -> Option<Position> {
        let state = self.state();
        let (replica, applied, in_flight) =
            (&state.replica, self.applied.index(), &state.entries.in_flight);
        let ballots = [Some(replica.promised()), replica.staging()];
        let needed = state.entries.positions.needed(applied, ballots, in_flight.has_adoption());
        let for_snapshot = state.snapshot.log_needed_from();
        needed.into_iter().chain(in_flight.oldest()).chain(for_snapshot).min()
    }

    /// Returns true if a record was written since the last call.
    pub fn has_written(&self) -> bool {
        std::mem::take(&mut self.state().output.head_request.has_new_records)
    }

    /// Requests that the driver logs again the state that exists only in the log.
    pub fn request_log_head(&self) {
        self.state().output.head_request.is_requested = true;
        self.driver.wake();
    }

    /// Requests that the driver logs, at the log's head, the state that exists only in the log. The
    /// receiver is notified when the log writer has the records. `None`: the driver has ended.
    pub fn request_head_copy(&self) -> Result<Option<Receiver<()>>> {
        let (head_copied, receiver) = std::sync::mpsc::sync_channel(1);
        {
            let mut state = self.state();
            state.lifecycle.check()?;
            if state.lifecycle.has_ended() {
                return Ok(None);
            }
            state.output.head_request.head_copied = Some(head_copied);
        }
        self.driver.wake();
        Ok(Some(receiver))
    }

    /// Forgets which rows were removed, before the space of a dropped bucket is freed: no update
    /// removes its rows. A key that was absent before counts as possibly written since.
    pub fn forget_removals(&self) {
        self.state().queue.forget_removals();
    }

    /// Returns how far entries are applied, and the last entry that may hold an update accepted
    /// until now.
    pub fn apply_progress(&self) -> ApplyProgress {
        // Read before the applied index: the result is as of one moment, or a little later.
        let is_master = self.leadership.is_master();
        let state = self.state();
        let (epoch, applied) = (self.applied.epoch(), self.applied.index());
        let last_accepted = state.queue.last().unwrap_or(applied);
        let followed_end = state.replica.followed_log_end(Millis(world::milliseconds()));
        let last_accepted = is_master.then_some((epoch, last_accepted));
        ApplyProgress { applied, last_accepted, followed_end }
    }
}
