//! The values in flight, and how many of them there may be.

use super::effect::Refusal;
use super::event::ValueHandle;
use base::limits;
use std::collections::VecDeque;

/// Most values one master may have in flight. Each takes all updates that waited for it, so this
/// bounds bookkeeping, not clients.
pub const VALUES_IN_FLIGHT_MAX: usize = 1_024;

/// Values proposed by this master and not yet decided, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Window {
    values: VecDeque<ValueHandle>,
    bytes: usize,
    updates: usize,
}

impl Window {
    /// Whether one more value may fly.
    pub(super) fn admits(&self, value: ValueHandle) -> Result<(), Refusal> {
        let (bytes, updates) = (value.bytes as usize, value.updates as usize);
        if bytes > limits::LOG_RECORD_BYTES_MAX || updates > limits::VALUE_UPDATES_MAX {
            return Err(Refusal::TooLarge);
        }
        let full = self.values.len() >= VALUES_IN_FLIGHT_MAX
            || self.bytes + bytes > limits::UNDECIDED_BYTES_MAX
            || self.updates + updates > limits::UNDECIDED_UPDATES_MAX;
        if full { Err(Refusal::Full) } else { Ok(()) }
    }

    /// Takes off with an admitted value.
    pub(super) fn push(&mut self, value: ValueHandle) {
        self.bytes += value.bytes as usize;
        self.updates += value.updates as usize;
        self.values.push_back(value);
    }

    /// How many values are in flight.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The oldest values landed; `left` are still in flight.
    pub(super) fn land(&mut self, left: usize) {
        while self.values.len() > left {
            let value = self.values.pop_front().expect("there are more than `left`");
            self.bytes -= value.bytes as usize;
            self.updates -= value.updates as usize;
        }
    }
}
