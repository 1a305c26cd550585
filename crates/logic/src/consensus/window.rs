//! Window of a master: entries in flight, and its limits.

use super::effect::Refusal;
use super::event::EntrySize;
use base::limits;
use std::collections::VecDeque;

/// Most entries that one master may have in flight. Each holds all updates that waited for it, so
/// this bounds bookkeeping, not clients.
pub const VALUES_IN_FLIGHT_MAX: usize = 1_024;

/// Entries that this master proposed and that are not decided yet, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Window {
    values: VecDeque<EntrySize>,
    bytes: usize,
    updates: usize,
}

impl Window {
    /// Checks that one more entry may be proposed. Errors: `Full`, `TooLarge`.
    pub(super) fn admits(&self, value: EntrySize) -> Result<(), Refusal> {
        let (bytes, updates) = (value.bytes as usize, value.updates as usize);
        if bytes > limits::LOG_RECORD_BYTES_MAX || updates > limits::VALUE_UPDATES_MAX {
            return Err(Refusal::TooLarge);
        }
        let full = self.values.len() >= VALUES_IN_FLIGHT_MAX
            || self.bytes + bytes > limits::UNDECIDED_BYTES_MAX
            || self.updates + updates > limits::UNDECIDED_UPDATES_MAX;
        if full { Err(Refusal::Full) } else { Ok(()) }
    }

    /// Adds an admitted entry.
    pub(super) fn push(&mut self, value: EntrySize) {
        self.bytes += value.bytes as usize;
        self.updates += value.updates as usize;
        self.values.push_back(value);
    }

    /// Returns the number of entries in flight.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Removes the oldest entries, which are decided; `left` are still in flight.
    pub(super) fn remove_decided(&mut self, left: usize) {
        while self.values.len() > left {
            let value = self.values.pop_front().expect("there are more than `left`");
            self.bytes -= value.bytes as usize;
            self.updates -= value.updates as usize;
        }
    }
}
