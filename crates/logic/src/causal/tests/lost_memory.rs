//! Vnodes that forget: the scenarios of Riak's issue kv679, each without loss here.
//!
//! One key, three replicas `A`, `B`, `C` and a fallback `F`. In each scenario a replica loses a
//! part of its state and then coordinates a write; no acknowledged write may be lost by it.

use crate::causal::{Clock, Minter, RenewalReason, StartState};
use base::dots::DotContext;
use base::{Actor, NodeId};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const F: usize = 3;
/// Partition of the key.
const VNODE: u32 = 12;

type Row = Clock<Actor, &'static str>;

/// Replica: its row of the key, and its minter.
#[derive(Clone)]
struct Replica {
    minter: Minter,
    row: Row,
    /// Record of the minter on its disk.
    record: Vec<u8>,
}

struct Cluster(Vec<Replica>);

fn found(record: Option<Minter>) -> StartState {
    StartState { record, was_held: true, ..StartState::FIRST }
}

fn fresh(node: u64, vnode: u32) -> Minter {
    let nothing = StartState { was_held: false, ..found(None) };
    let (minter, doubt) = Minter::start(NodeId(node), vnode, nothing, 0);
    assert_eq!(doubt, None);
    minter
}

impl Cluster {
    fn new() -> Cluster {
        let replica = |node| {
            let minter = fresh(node, VNODE);
            Replica { minter, row: Clock::empty(), record: minter.record() }
        };
        Cluster((1..=4).map(replica).collect())
    }

    /// Carries out a client's write at one replica, and sends the row to others.
    fn put(
        &mut self,
        at: usize,
        context: &DotContext<Actor>,
        value: &'static str,
        to: &[usize],
    ) -> Option<RenewalReason> {
        let replica = &mut self.0[at];
        let row = std::mem::take(&mut replica.row);
        let written = replica.minter.write(row, context, value, 0xC0FFEE);
        replica.row = written.clock;
        replica.record = replica.minter.record();
        self.send_row(at, to);
        written.renewal
    }

    /// Merges the row of one replica at others.
    fn send_row(&mut self, from: usize, to: &[usize]) {
        for &other in to {
            let incoming = self.0[from].row.clone();
            let replica = &mut self.0[other];
            let row = std::mem::take(&mut replica.row);
            replica.row = replica.minter.merge(row, incoming, 0xBEEF).0;
            replica.record = replica.minter.record();
        }
    }

    /// Exchanges rows among all replicas until they agree; returns the values.
    fn exchange_all(&mut self) -> Vec<&'static str> {
        for _ in 0..3 {
            for from in 0..self.0.len() {
                let others: Vec<_> = (0..self.0.len()).filter(|other| *other != from).collect();
                self.send_row(from, &others);
            }
        }
        for replica in &self.0 {
            assert_eq!(replica.row, self.0[A].row);
        }
        let mut values: Vec<_> = self.0[A].row.values().copied().collect();
        values.sort_unstable();
        values
    }

    fn context(&self, at: usize) -> DotContext<Actor> {
        self.0[at].row.join()
    }

    /// Loses the replica's row, but not its minter.
    fn lose_row(&mut self, at: usize) {
        self.0[at].row = Clock::empty();
    }

    /// Restarts the node with the contents of its disk.
    fn restart(
        &mut self,
        at: usize,
        start: impl FnOnce(Minter) -> StartState,
    ) -> Option<RenewalReason> {
        let replica = &mut self.0[at];
        let record = Minter::from_record(&replica.record).expect("a record reads back");
        let actor = replica.minter.actor();
        let (minter, doubt) = Minter::start(actor.node, actor.vnode, start(record), 0xFADE);
        replica.minter = minter;
        replica.record = minter.record();
        doubt
    }
}

/// Shows the harm without a minter: after the loss a vnode counts from 1 again, and its new write
/// has a dot that others have seen replaced.
#[test]
fn vnode_without_minter_loses_write_after_row_loss() {
    let id = Actor { node: NodeId(1), vnode: VNODE, incarnation: 1 };
    let first: Row = Clock::empty().update(&DotContext::empty(), "x", id);
    let second = first.clone().update(&first.join(), "x2", id);
    let after_loss: Row = Clock::empty().update(&DotContext::empty(), "y", id);
    assert_eq!(second.sync(after_loss).values().collect::<Vec<_>>(), [&"x2"]);
}

#[test]
fn blind_write_after_row_loss_keeps_both_values() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B, C]);
    let seen = cluster.context(A);
    cluster.put(A, &seen, "x2", &[B, C]);
    cluster.lose_row(A);
    assert_eq!(cluster.put(A, &DotContext::empty(), "y", &[]), None, "no new actor is needed");
    assert_eq!(cluster.exchange_all(), ["x2", "y"]);
}

#[test]
fn context_write_after_row_loss_replaces_covered_value() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B, C]);
    let seen = cluster.context(B);
    cluster.lose_row(A);
    cluster.put(A, &seen, "y", &[]);
    assert_eq!(cluster.exchange_all(), ["y"]);
}

/// The row comes back from a replica that had missed some of its writes; counting on from there
/// would mint the missed dots again.
#[test]
fn row_repaired_from_stale_replica_keeps_all_writes() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x1", &[B, C]);
    cluster.put(A, &DotContext::empty(), "x2", &[C]);
    cluster.put(A, &DotContext::empty(), "x3", &[C]);
    cluster.lose_row(A);
    cluster.send_row(B, &[A]);
    cluster.put(A, &DotContext::empty(), "y", &[]);
    assert_eq!(cluster.exchange_all(), ["x1", "x2", "x3", "y"]);
}

#[test]
fn missing_minter_record_renews_actor_and_keeps_writes() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B, C]);
    cluster.lose_row(A);
    let before = cluster.0[A].minter.actor();
    assert_eq!(cluster.restart(A, |_| found(None)), Some(RenewalReason::RecordMissing));
    assert_ne!(cluster.0[A].minter.actor(), before);
    cluster.put(A, &DotContext::empty(), "y", &[]);
    assert_eq!(cluster.exchange_all(), ["x", "y"]);
}

#[test]
fn fallback_without_row_keeps_its_context_and_blind_writes() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B, C]);
    let seen = cluster.context(B);
    // A, B and C can't be reached: the fallback has no row, and a client that read before.
    cluster.put(F, &seen, "y", &[]);
    cluster.put(F, &DotContext::empty(), "z", &[]);
    assert_eq!(cluster.exchange_all(), ["y", "z"]);
}

/// The fallback hands its row off, drops it, and is needed again: its counters continue above those
/// it handed off.
#[test]
fn fallback_write_after_handoff_and_row_loss_is_kept() {
    let mut cluster = Cluster::new();
    cluster.put(F, &DotContext::empty(), "x", &[]);
    cluster.put(F, &DotContext::empty(), "x2", &[]);
    cluster.send_row(F, &[A]);
    let all = cluster.context(A);
    cluster.put(A, &all, "x3", &[B, C]);
    cluster.lose_row(F);
    assert_eq!(cluster.put(F, &DotContext::empty(), "y", &[]), None);
    assert_eq!(cluster.exchange_all(), ["x3", "y"]);
}

/// Two fallbacks for one partition, on two nodes, both without a row: each mints as its own actor.
#[test]
fn concurrent_writes_on_two_fallbacks_are_both_kept() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B]);
    let seen = cluster.context(A);
    cluster.lose_row(C);
    cluster.put(F, &seen, "y", &[]);
    cluster.put(C, &seen, "z", &[]);
    assert_eq!(cluster.exchange_all(), ["y", "z"]);
}

#[test]
fn write_after_tombstone_collection_survives_stale_context() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B, C]);
    let seen = cluster.context(A);
    cluster.put(A, &seen, "tombstone", &[B, C]);
    let old = cluster.context(A);
    (0..4).for_each(|at| cluster.lose_row(at));
    cluster.put(A, &DotContext::empty(), "y", &[B, C]);
    assert_eq!(cluster.0[A].row.ids().len(), 1, "no entry for each delete");
    assert_eq!(cluster.exchange_all(), ["y"]);
    // A client whose context is from before the delete does not replace the new value.
    cluster.put(B, &old, "z", &[A, C]);
    assert_eq!(cluster.exchange_all(), ["y", "z"]);
}

/// One replica had not reaped the tombstone yet, and sends it to the one that had.
#[test]
fn stale_tombstone_does_not_cover_new_value() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B, C]);
    let seen = cluster.context(A);
    cluster.put(A, &seen, "tombstone", &[B, C]);
    [A, B].iter().for_each(|at| cluster.lose_row(*at));
    cluster.put(A, &DotContext::empty(), "y", &[B]);
    assert_eq!(cluster.exchange_all(), ["tombstone", "y"]);
    cluster.put(A, &DotContext::empty(), "z", &[]);
    assert_eq!(cluster.exchange_all(), ["tombstone", "y", "z"]);
}

#[test]
fn wiped_node_with_new_id_reuses_no_dots() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B, C]);
    // The node is wiped, and refused under its old id: it returns under another.
    let minter = fresh(99, VNODE);
    cluster.0[A] = Replica { minter, row: Clock::empty(), record: minter.record() };
    cluster.put(A, &DotContext::empty(), "y", &[]);
    assert_eq!(cluster.exchange_all(), ["x", "y"]);
}

#[test]
fn vnodes_on_same_node_are_distinct_actors() {
    let (mut one, mut other) = (fresh(1, VNODE), fresh(1, VNODE + 1));
    let first = one.write(Clock::empty(), &DotContext::empty(), "x", 0);
    let second = other.write(Clock::empty(), &DotContext::empty(), "y", 0);
    assert_eq!(first.dot.count, second.dot.count);
    assert_eq!(first.clock.sync(second.clock).values().collect::<Vec<_>>(), [&"x", &"y"]);
}

#[test]
fn reported_restore_from_old_copy_renews_actor() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B, C]);
    let copy = cluster.0[A].clone();
    let seen = cluster.context(A);
    cluster.put(A, &seen, "x2", &[B, C]);
    cluster.0[A] = copy;
    let restored = |record| StartState { is_restored: true, ..found(Some(record)) };
    assert_eq!(cluster.restart(A, restored), Some(RenewalReason::Restored));
    cluster.put(A, &DotContext::empty(), "y", &[]);
    assert_eq!(cluster.exchange_all(), ["x2", "y"]);
}

/// Without a report that the directory is an old copy, the first dot that other replicas have and
/// the record lacks reveals it.
#[test]
fn unreported_old_copy_is_detected_from_write_context() {
    let mut cluster = Cluster::new();
    let copy = cluster.0[A].clone();
    for value in ["x", "x2", "x3"] {
        cluster.put(A, &DotContext::empty(), value, &[B, C]);
    }
    let seen = cluster.context(B);
    cluster.0[A] = copy;
    assert_eq!(cluster.restart(A, |record| found(Some(record))), None);
    assert_eq!(cluster.put(A, &seen, "y", &[]), Some(RenewalReason::Ahead));
    assert_eq!(cluster.exchange_all(), ["y"]);
}

#[test]
fn unreported_old_copy_is_detected_on_merge() {
    let mut cluster = Cluster::new();
    let copy = cluster.0[A].clone();
    cluster.put(A, &DotContext::empty(), "x", &[B, C]);
    cluster.0[A] = copy;
    let before = cluster.0[A].minter.actor();
    cluster.send_row(B, &[A]);
    assert_ne!(cluster.0[A].minter.actor(), before);
    cluster.put(A, &DotContext::empty(), "y", &[]);
    assert_eq!(cluster.exchange_all(), ["x", "y"]);
}

/// One copy that starts twice is two actors: the random leap separates them.
#[test]
fn copy_restored_twice_becomes_two_actors() {
    let record = fresh(1, VNODE);
    let restored = StartState { is_restored: true, ..found(Some(record)) };
    let (one, _) = Minter::start(NodeId(1), VNODE, restored, 11);
    let (other, _) = Minter::start(NodeId(1), VNODE, restored, 12);
    assert_ne!(one.actor(), other.actor());
}

/// A store that returns an older state of one row: the client's context names dots that the row
/// lacks, and the next dot lies above all of them.
#[test]
fn write_on_rolled_back_row_keeps_concurrent_sibling() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x1", &[B, C]);
    let old = cluster.0[A].row.clone();
    cluster.put(A, &DotContext::empty(), "x2", &[B, C]);
    let seen = cluster.context(B);
    cluster.put(A, &DotContext::empty(), "x3", &[C]);
    cluster.0[A].row = old;
    assert_eq!(cluster.put(A, &seen, "y", &[]), None);
    assert_eq!(cluster.exchange_all(), ["x3", "y"]);
}

/// Writes that are not on disk at a power failure may have been sent to others.
#[test]
fn unclean_restart_with_unsynced_writes_renews_actor() {
    let mut cluster = Cluster::new();
    cluster.put(A, &DotContext::empty(), "x", &[B]);
    cluster.lose_row(A);
    let unsynced = |record| StartState { may_lack_writes: true, ..found(Some(record)) };
    assert_eq!(cluster.restart(A, unsynced), Some(RenewalReason::Unsynced));
    cluster.put(A, &DotContext::empty(), "y", &[]);
    assert_eq!(cluster.exchange_all(), ["x", "y"]);
    let damaged = |record| StartState { is_damaged: true, ..found(Some(record)) };
    assert_eq!(cluster.restart(A, damaged), Some(RenewalReason::Damaged));
}

/// The record reserves a block of counters, so a restart continues above all used ones, and the
/// record is written once in a thousand new keys.
#[test]
fn clean_restart_keeps_actor_and_mints_above_used_counters() {
    let mut minter = fresh(1, VNODE);
    let mut records = std::collections::BTreeSet::new();
    for _ in 0..10_000 {
        minter.write(Clock::empty(), &DotContext::empty(), "x", 0);
        records.insert(minter.record());
    }
    assert_eq!(records.len(), 10);
    let record = Minter::from_record(&minter.record()).expect("as written");
    let (mut after, doubt) = Minter::start(NodeId(1), VNODE, found(Some(record)), 0);
    assert_eq!((doubt, after.actor()), (None, minter.actor()));
    let written = after.write(Clock::empty(), &DotContext::empty(), "y", 0);
    assert!(written.dot.count > 10_000, "{}", written.dot.count);
}

#[test]
fn exhausted_counters_renew_actor() {
    let actor = fresh(1, VNODE).actor();
    let last = [&[1, 1, 0, 0, 0, 0, 0, 0, 0, 12, 1][..], &[0x80; 7], &[0x10]].concat();
    let mut minter = Minter::from_record(&last).expect("as written");
    assert_eq!(minter.actor(), actor);
    let written = minter.write(Clock::empty(), &DotContext::empty(), "x", 5);
    assert_eq!((written.renewal, written.dot.count), (Some(RenewalReason::Exhausted), 1));
    assert!(written.dot.id > actor);
}

#[test]
fn malformed_minter_record_is_rejected_and_misplaced_doubted() {
    let good = fresh(1, VNODE).record();
    for cut in 0..good.len() {
        assert!(Minter::from_record(&good[..cut]).is_err());
    }
    assert!(Minter::from_record(&[&good[..], &[0]].concat()).is_err());
    assert!(Minter::from_record(&[&[2], &good[1..]].concat()).is_err());
    // A record of another vnode is a misplaced copy.
    let (minter, doubt) = Minter::start(NodeId(2), VNODE, found(Some(fresh(1, VNODE))), 3);
    assert_eq!((doubt, minter.actor().node), (Some(RenewalReason::Restored), NodeId(2)));
}
