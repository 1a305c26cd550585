//! Tests of the proposal queue: which entry an update joins, and what an epoch's end drops.

use super::*;
use base::{Ballot, ConfigurationId, NodeId};
use logic::consensus::{LeaseClock, RestoredState};
use store::MemoryTrees;

/// Returns the replica of a sole voter in its first life.
pub fn replica() -> Replica {
    replica_at(LogIndex(0))
}

/// Returns a replica of the same group whose log ends at this index, decided.
pub fn replica_at(last: LogIndex) -> Replica {
    let configuration =
        Configuration::single_member(ConfigurationId(0), NodeId(1)).expect("a voter");
    let restored = RestoredState {
        node: NodeId(1),
        configuration,
        base: last,
        signs: Vec::new(),
        promised: Ballot::default(),
        accepted_ballot: Ballot::default(),
        last,
        decided: last,
        tear: None,
        lease: LeaseClock::default(),
    };
    Replica::restore(restored).expect("a first life")
}

fn queue() -> ProposalQueue {
    let mark = Mark { applied: 0, time: 0, next_version: 0 };
    ProposalQueue::new(GroupId(1), mark, 100)
}

/// Adds an update of these bytes; returns its index.
fn add(queue: &mut ProposalQueue, value: &[u8]) -> LogIndex {
    let trees = MemoryTrees::new(1 << 20);
    let (is_first, begun_bytes) = queue.begin(&replica());
    queue.overlay(&trees).open.put_raw(b"key", value);
    assert!(queue.changed(begun_bytes));
    queue.add(is_first, true).0
}

#[test]
fn updates_share_the_open_entry_and_later_ones_join_the_next() {
    let mut queue = queue();
    assert_eq!((add(&mut queue, b"1"), add(&mut queue, b"2")), (LogIndex(1), LogIndex(1)));
    queue.close();
    assert_eq!(add(&mut queue, b"3"), LogIndex(2));
    assert_eq!(queue.first_unproposed(), Some(LogIndex(1)));
    assert!(queue.has_unproposed() && !queue.is_proposed());
    assert_eq!(queue.undecided().0, 3);
    let versions: Vec<_> = queue.pending().map(|closed| closed.first_version).collect();
    assert_eq!((versions, queue.version()), (vec![1], Some(Version(4))));
}

#[test]
fn empty_open_entry_is_recreated_and_never_closed() {
    let mut queue = queue();
    assert!(queue.begin(&replica()).0 && queue.begin(&replica()).0);
    queue.close();
    assert_eq!((queue.pending().count(), queue.last()), (0, None));
    assert!(!queue.has_unproposed());
    assert_eq!(queue.ticket(&Applied::default()), None);
}

#[test]
fn full_queue_rejects_updates_until_its_entries_are_applied() {
    let mut queue = queue();
    queue.check_room().expect("it is empty");
    add(&mut queue, &[0; 100]);
    let refused = queue.check_room().expect_err("it is full");
    assert_eq!(refused.reason, Reason::Overloaded);
    queue.close();
    queue.mark_proposed();
    queue.release_applied(LogIndex(1));
    queue.check_room().expect("there is room");
    assert!(queue.is_proposed());
}

#[test]
fn undecided_entries_are_dropped_when_the_term_ends() {
    let (mut queue, applied) = (queue(), Applied::default());
    for value in [b"1", b"2", b"3"] {
        add(&mut queue, value);
        queue.close();
    }
    queue.mark_proposed();
    queue.mark_proposed();
    assert!(queue.has_in_flight(LogIndex(1)) && !queue.has_in_flight(LogIndex(2)));
    let epoch = applied.epoch();
    queue.end_epoch(LogIndex(1), &applied);
    assert_eq!(applied.epoch(), epoch + 1);
    assert_eq!((queue.pending().count(), queue.first_unproposed()), (1, None));
    queue.end_epoch(LogIndex(1), &applied);
    assert_eq!(applied.epoch(), epoch + 1, "nobody holds a ticket for anything beyond");
}

#[test]
fn undecided_size_counts_open_and_closed_entries_until_they_leave() {
    let (mut queue, applied) = (queue(), Applied::default());
    let counted = |queue: &ProposalQueue| {
        let all = queue.pending.iter().chain(queue.open.as_ref());
        all.fold((0, 0), |(updates, bytes), entry| {
            (updates + u64::from(entry.updates), bytes + entry.payload_bytes())
        })
    };
    let check = |queue: &mut ProposalQueue, updates: u64| {
        assert_eq!(queue.undecided(), counted(queue));
        assert_eq!(queue.undecided().0, updates);
    };
    for number in 1..=6 {
        add(&mut queue, &vec![0; number]);
        check(&mut queue, number as u64);
        if number % 2 == 0 {
            queue.close();
            check(&mut queue, number as u64);
        }
    }
    add(&mut queue, b"open");
    check(&mut queue, 7);
    queue.mark_proposed();
    queue.mark_proposed();
    queue.release_applied(LogIndex(1));
    check(&mut queue, 5);
    queue.end_epoch(LogIndex(2), &applied);
    check(&mut queue, 2);
    queue.release_applied(LogIndex(2));
    check(&mut queue, 0);
}

#[test]
fn large_update_closes_the_entry_before_it_and_its_own() {
    let mut queue = queue();
    assert!(!queue.begin_large(), "nothing smaller came before");
    let first = add(&mut queue, b"large");
    queue.close_large(None);
    assert!(!queue.begin_large(), "its own update does not count");
    let small = add(&mut queue, b"small");
    assert!(queue.begin_large());
    let second = add(&mut queue, b"large");
    queue.close_large(None);
    let last = add(&mut queue, b"small");
    assert_eq!([first, small, second, last], [1, 2, 3, 4].map(LogIndex));
}
