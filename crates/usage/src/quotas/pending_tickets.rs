//! Updates of a user that wait for their decision, by the log that decides them.

use base::limits::DECIDED_MS_MAX;
use base::{GroupId, LogIndex};
use runtime::submit::Ticket;
use std::collections::{BTreeMap, VecDeque};

/// Tickets that were not known to be settled when they were looked at last.
#[derive(Debug, Default)]
pub(super) struct PendingTickets {
    /// Indexes by group and leadership epoch, in the order in which they were given out, each with
    /// the time of its request.
    logs: BTreeMap<(GroupId, u64), VecDeque<(LogIndex, u64)>>,
    count: usize,
}

impl PendingTickets {
    /// Returns the number of tickets.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Adds a ticket.
    pub fn push(&mut self, ticket: Ticket, now_ms: u64) {
        let Ticket { group, index, epoch } = ticket;
        self.logs.entry((group, epoch)).or_default().push_back((index, now_ms));
        self.count += 1;
    }

    /// Removes the tickets that are settled, and those whose requests were answered because they
    /// took too long. Looks at the first ones of each log only: a log settles in its order.
    pub fn settle(&mut self, now_ms: u64, is_settled: &dyn Fn(Ticket) -> bool) {
        let mut settled = 0;
        self.logs.retain(|(group, epoch), tickets| {
            while let Some((index, began_ms)) = tickets.front().copied() {
                let ticket = Ticket { group: *group, index, epoch: *epoch };
                let is_late = now_ms.saturating_sub(began_ms) >= DECIDED_MS_MAX;
                if !is_late && !is_settled(ticket) {
                    break;
                }
                tickets.pop_front();
                settled += 1;
            }
            !tickets.is_empty()
        });
        self.count -= settled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(group: u32, epoch: u64, index: u64) -> Ticket {
        Ticket { group: GroupId(group), index: LogIndex(index), epoch }
    }

    #[test]
    fn tickets_are_removed_once_their_log_settles_them_or_they_are_too_old() {
        let mut pending = PendingTickets::default();
        for (group, epoch, index) in [(1, 4, 7), (1, 4, 8), (2, 1, 3), (1, 5, 9)] {
            pending.push(ticket(group, epoch, index), 100);
        }
        pending.settle(100, &|_| false);
        assert_eq!(pending.len(), 4);
        pending.settle(100, &|it| it.group == GroupId(1) && it.index.0 <= 7);
        assert_eq!(pending.len(), 3);
        // An epoch that has ended settles its tickets, not those of the next one.
        pending.settle(100, &|it| it.epoch == 4);
        assert_eq!(pending.len(), 2);
        pending.push(ticket(2, 1, 4), 101);
        pending.settle(100 + DECIDED_MS_MAX, &|_| false);
        assert_eq!(pending.len(), 1);
        pending.settle(101 + DECIDED_MS_MAX, &|_| false);
        assert_eq!((pending.len(), pending.logs.len()), (0, 0));
    }
}
