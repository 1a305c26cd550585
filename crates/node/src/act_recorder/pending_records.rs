//! Records of updates that wait for their decision: by group, in the order of its log.

use super::RecordedAct;
use base::{GroupId, Result};
use runtime::submit::Ticket;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Record of an update, with the answer that holds once its ticket is decided.
pub(crate) struct PendingRecord {
    pub ticket: Ticket,
    pub recorded: RecordedAct,
    pub answer: Result<()>,
}

/// Records that wait. Those of a group have one task, which waits for the first of their tickets: a
/// log decides in its order.
#[derive(Default)]
pub(crate) struct PendingRecords(Mutex<BTreeMap<GroupId, VecDeque<PendingRecord>>>);

impl PendingRecords {
    /// Adds a record. Returns true if no task takes the records of its group: the caller begins
    /// one.
    pub(crate) fn push(&self, record: PendingRecord) -> bool {
        match self.lock().entry(record.ticket.group) {
            Entry::Vacant(entry) => {
                entry.insert(VecDeque::from([record]));
                true
            }
            Entry::Occupied(mut entry) => {
                entry.get_mut().push_back(record);
                false
            }
        }
    }

    /// Takes the first record of a group. `None`: none waits, and the group's task ends.
    pub(crate) fn take(&self, group: GroupId) -> Option<PendingRecord> {
        let mut groups = self.lock();
        let next = groups.get_mut(&group)?.pop_front();
        if next.is_none() {
            groups.remove(&group);
        }
        next
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<GroupId, VecDeque<PendingRecord>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::LogIndex;

    fn record(group: u32, index: u64) -> PendingRecord {
        let ticket = Ticket { group: GroupId(group), index: LogIndex(index), epoch: 1 };
        PendingRecord { ticket, recorded: RecordedAct::UNRECORDED, answer: Ok(()) }
    }

    #[test]
    fn records_of_a_group_are_taken_in_order_by_one_task_until_none_waits() {
        let pending = PendingRecords::default();
        let take = |group| pending.take(GroupId(group)).map(|record| record.ticket.index.0);
        assert!(pending.push(record(1, 5)), "a task begins");
        assert!(!pending.push(record(1, 6)) && pending.push(record(2, 9)));
        assert_eq!((take(1), take(1)), (Some(5), Some(6)));
        assert!(!pending.push(record(1, 7)), "the task waits for the last one that it took");
        assert_eq!((take(1), take(1)), (Some(7), None));
        assert!(pending.push(record(1, 8)), "it has ended");
        assert_eq!((take(2), take(2), take(3)), (Some(9), None, None));
    }
}
