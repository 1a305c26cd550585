//! Commit order: the records that the log writer commits next.
//!
//! A large record takes the disk milliseconds, and a commit answers all its records together. So
//! small records that are not behind a large one of their own group go first, in a commit of their
//! own, and a large one follows. Records that were submitted meanwhile join the choice.
//!
//! Promises: records of one group keep their order; a record that is chosen keeps its place; a
//! large record waits for one commit of small ones at most before its turn.
//! Never: delays anything while all records are small, or all are large.

use super::Append;
use base::GroupId;
use std::collections::{BTreeSet, VecDeque};

/// Length of a payload from which a record is large: its write takes much longer than a sync.
pub const LARGE_RECORD_BYTES: usize = 512 * 1024;

/// See the head of this file.
#[derive(Debug, Default)]
pub(super) struct CommitOrder {
    /// Number of records at the front of the queue that are chosen.
    chosen: usize,
    /// True if small records went before a large one, which is next.
    is_large_next: bool,
}

impl CommitOrder {
    /// Chooses the records of the next commit, unless some are chosen, and moves them to the front
    /// of the queue. Returns their number.
    pub(super) fn choose(&mut self, queue: &mut VecDeque<Append>) -> usize {
        if self.chosen == 0 {
            self.chosen = self.choose_from(queue);
        }
        self.chosen
    }

    /// Returns the number of chosen records that are left in the queue.
    pub(super) fn chosen(&self) -> usize {
        self.chosen
    }

    /// Notes that the first chosen record has left the queue.
    pub(super) fn mark_taken(&mut self) {
        self.chosen -= 1;
    }

    /// Notes that all records have left the queue.
    pub(super) fn clear(&mut self) {
        self.chosen = 0;
    }

    fn choose_from(&mut self, queue: &mut VecDeque<Append>) -> usize {
        let large = queue.iter().filter(|append| is_large(append)).count();
        if large == 0 || large == queue.len() {
            self.is_large_next = false;
            return queue.len();
        }
        let small = if self.is_large_next { 0 } else { move_small_first(queue) };
        self.is_large_next = small > 0;
        if small > 0 {
            return small;
        }
        // Those behind it wait for it in any case; the next large one must not delay them further.
        let first = usize::from(queue.front().is_some_and(is_large));
        first + queue.iter().skip(first).take_while(|append| !is_large(append)).count()
    }
}

fn is_large(append: &Append) -> bool {
    append.payload.len() >= LARGE_RECORD_BYTES
}

/// Moves the small records that are not behind a large one of their group to the front. Returns
/// their number.
fn move_small_first(queue: &mut VecDeque<Append>) -> usize {
    let mut blocked: BTreeSet<GroupId> = BTreeSet::new();
    let (mut first, mut rest) = (VecDeque::with_capacity(queue.len()), VecDeque::new());
    for append in queue.drain(..) {
        if is_large(&append) {
            blocked.insert(append.group);
        }
        let is_behind = blocked.contains(&append.group);
        if is_behind { rest.push_back(append) } else { first.push_back(append) }
    }
    let count = first.len();
    first.append(&mut rest);
    *queue = first;
    count
}
