//! Send window: a bound on the bytes of entries in flight to each follower.
//!
//! Consensus counts entries, and allows many in flight. But an entry may be large, and a stalled
//! follower acknowledges none. Without a bound in bytes all of them would be sent to it, and all of
//! them again after a lost connection.
//!
//! Entries beyond the bound wait as if the send queue were full, until some are acknowledged. If
//! the replica goes back to an earlier index, the entries behind it count as lost: they leave the
//! window, and are sent again within the same bound.

use base::{LogIndex, NodeId};
use logic::consensus::Configuration;
use std::collections::{BTreeMap, VecDeque};

/// Maximum bytes in flight to one follower: enough for 1 Gbit/s over 100 ms.
const FLIGHT_BYTES_MAX: usize = 16 << 20;

/// Entries in flight to each follower.
#[derive(Default)]
pub struct SendWindows(BTreeMap<NodeId, SendWindow>);

#[derive(Default)]
struct SendWindow {
    /// Last index and bytes of each message in flight.
    sent: VecDeque<(LogIndex, usize)>,
    bytes: usize,
}

impl SendWindows {
    /// Returns true if entries behind `after` may be sent to a follower that has acknowledged those
    /// up to `acknowledged`. If none are in flight a message may be sent, however large.
    pub(super) fn has_room(&mut self, to: NodeId, after: LogIndex, acknowledged: LogIndex) -> bool {
        let window = self.0.entry(to).or_default();
        window.remove(|last| last <= acknowledged || last > after);
        window.bytes < FLIGHT_BYTES_MAX
    }

    /// Notes that entries up to `last` were sent. `bytes`: their size.
    pub(super) fn note_sent(&mut self, to: NodeId, last: LogIndex, bytes: usize) {
        let window = self.0.entry(to).or_default();
        window.sent.push_back((last, bytes));
        window.bytes += bytes;
    }

    /// Drops the windows of nodes that are no members any more.
    pub(super) fn retain_members(&mut self, members: &Configuration) {
        self.0.retain(|node, _| members.part(*node).is_some());
    }
}

impl SendWindow {
    /// Removes messages by their last index. Messages are sent in the order of their indexes, so
    /// those to remove are at either end.
    fn remove(&mut self, is_done: impl Fn(LogIndex) -> bool) {
        while let Some((_, bytes)) = self.sent.pop_front_if(|(last, _)| is_done(*last)) {
            self.bytes -= bytes;
        }
        while let Some((_, bytes)) = self.sent.pop_back_if(|(last, _)| is_done(*last)) {
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn_output::TurnOutput;
    use base::{ConfigurationId, Part};
    use logic::consensus::Member;

    const NODE: NodeId = NodeId(3);
    const PART: usize = FLIGHT_BYTES_MAX / 4;

    fn full() -> SendWindows {
        let mut windows = SendWindows::default();
        for index in 1..=4 {
            assert!(windows.has_room(NODE, LogIndex(index - 1), LogIndex(0)));
            windows.note_sent(NODE, LogIndex(index), PART);
        }
        windows
    }

    #[test]
    fn full_send_window_has_room_once_entries_are_acknowledged() {
        let mut windows = full();
        assert!(!windows.has_room(NODE, LogIndex(4), LogIndex(0)));
        assert!(windows.has_room(NodeId(4), LogIndex(4), LogIndex(0)), "another is on his own");
        assert!(windows.has_room(NODE, LogIndex(4), LogIndex(1)));
        windows.note_sent(NODE, LogIndex(5), 100 * PART);
        assert!(
            !windows.has_room(NODE, LogIndex(5), LogIndex(4)),
            "one message is never too large"
        );
        assert!(windows.has_room(NODE, LogIndex(5), LogIndex(5)));
        assert_eq!(windows.0[&NODE].bytes, 0);
    }

    #[test]
    fn resent_entries_are_bounded_by_the_send_window() {
        let mut windows = full();
        assert!(windows.has_room(NODE, LogIndex(2), LogIndex(0)), "two are taken for lost");
        assert_eq!(windows.0[&NODE].bytes, 2 * PART);
        windows.note_sent(NODE, LogIndex(3), PART);
        windows.note_sent(NODE, LogIndex(4), PART);
        assert!(!windows.has_room(NODE, LogIndex(4), LogIndex(0)));
        assert!(windows.has_room(NODE, LogIndex(0), LogIndex(0)), "all are");
        let member = Member { node: NodeId(4), part: Part::Voter };
        let others = Configuration::new(ConfigurationId(1), vec![member]).expect("a voter");
        windows.retain_members(&others);
        assert!(windows.0.is_empty());
    }

    #[test]
    fn send_window_of_a_removed_member_is_dropped_at_end_of_turn() {
        let mut output = TurnOutput::new();
        output.flow_control.windows = full();
        let used = std::mem::take(&mut output.flow_control);
        let others = Configuration::single_member(ConfigurationId(1), NodeId(4)).expect("a voter");
        output.return_flow_control(used, &others);
        assert!(output.flow_control.windows.0.is_empty());
    }
}
