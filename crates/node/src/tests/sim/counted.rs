//! Counted buckets: histories in which counts begin, end and are completed, rows expire, and
//! clients remove rows; and the judge of counts: rows and their count are equal on every replica,
//! always.

use super::clients::bucket;
use super::flavours::{FROZEN, Flavour};
use super::mutants::check;
use super::node::group_id;
use super::world::World;
use base::request::{Expiry, OnMissing, SequenceMode, When};
use base::{BucketId, GroupId, Update};
use bytes::Bytes;
use replica_state::layout::{StoredRow, row_key};
use replication::count_scan::CountScan;
use replication::counts::{BucketCount, count_tree_key};
use runtime::mutants::Mutant;
use sim::{Chance, Counts, Suite};
use store::{Chunk, MemoryTrees, Trees};

/// Longest time to live of a client's row, in milliseconds.
const TTL_MS_MAX: u64 = 1_500;
/// Number of keys of these clients.
const KEYS: u64 = 6;
/// Bytes of one part of a scan: a few rows.
const PART_BYTES: usize = 200;
/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 15;
/// Number of histories within which a broken rule must be noticed.
const MUTANT_SEEDS: u64 = 500;

/// Scan of a bucket in progress, at one process of one node.
pub(super) struct SimScan {
    node: usize,
    process: u64,
    scan: CountScan,
    is_read: bool,
}

/// Asserts that a complete count of a bucket equals its rows. Returns whether the count is
/// complete. `None`: the bucket has no count.
pub(super) fn judge_count(group: GroupId, id: BucketId, trees: &MemoryTrees) -> Option<bool> {
    // One snapshot: it has the rows and their count as of one entry.
    let snapshot = trees.snapshot();
    let mut key = Vec::new();
    count_tree_key(group, id, &mut key);
    let row = snapshot.get(&key).expect("memory")?;
    let count = BucketCount::read_row(&row).expect("a count");
    if !count.is_complete {
        return Some(false);
    }
    row_key(group, id, &[], &mut key);
    let rows = Chunk::read(&*snapshot, &key, None, usize::MAX).expect("memory").rows;
    let value_bytes = |row| StoredRow::read(row).expect("a row").value.len();
    let bytes = rows.iter().map(|(name, row)| name.len() - key.len() + value_bytes(row));
    let found = (rows.len() as u64, bytes.sum::<usize>() as u64);
    let counted = (count.keys, count.bytes);
    assert!(counted == found, "a count is wrong: {counted:?} of {found:?} in {group}, {id:?}");
    Some(true)
}

/// Draws an update that writes or removes rows which no judge of answers reads.
pub(super) fn draw_update(chance: &mut Chance) -> Update {
    let key = |chance: &mut Chance| Bytes::from(format!("t{}", chance.below(KEYS)));
    let value = |chance: &mut Chance| Bytes::from(vec![b'v'; chance.below(30) as usize]);
    let expiry = |chance: &mut Chance| match chance.below(3) {
        0 => Expiry::Never,
        _ => Expiry::After(chance.below(TTL_MS_MAX)),
    };
    let set = |chance: &mut Chance| {
        let (key, value, expiry) = (key(chance), value(chance), expiry(chance));
        Update::Set { key, value, expiry }
    };
    let delete = |chance: &mut Chance, missing| Update::Delete { key: key(chance), missing };
    match chance.below(8) {
        0..=2 => set(chance),
        3 => delete(chance, OnMissing::Skip),
        4 => Update::DeletePrefix { prefix: Bytes::from_static(b"t") },
        5 => {
            let (from, to) = (key(chance), key(chance));
            Update::Rename { from, to, when: When::Always }
        }
        // A step that fails takes with it what it has counted, or all that came before.
        _ => {
            let nested = vec![set(chance), delete(chance, OnMissing::Fail)];
            let nested = Update::Sequence { steps: nested, mode: SequenceMode::AllOrNothing };
            let steps = vec![set(chance), nested, delete(chance, OnMissing::Fail), set(chance)];
            let modes = [SequenceMode::EachAlone, SequenceMode::AllOrNothing];
            Update::Sequence { steps, mode: modes[chance.below(2) as usize] }
        }
    }
}

impl World {
    /// Changes rows or the count of a group, as a client or the keeper of counts.
    pub(super) fn counted_request(&mut self) {
        // A sole voter does not sync what no client waits for, as sweeps write it: after a power
        // cut another entry may stand there, and the judge of consistency knows nothing of that.
        if self.nodes.len() == 1 {
            return;
        }
        let group = self.any_group();
        let Some(which) = self.master(group) else { return };
        let node = &self.nodes[which];
        let Some(process) = &node.process else { return };
        if self.queue.now() < node.clock.paused_until {
            return;
        }
        node.clock.enter(self.queue.now());
        let (part, id) = (process.group(group), bucket(group).id);
        let epoch = part.leadership.epoch();
        match self.steps.below(16) {
            // Refused where this node is master no more.
            0 => drop(part.begin_count(id, epoch)),
            1 if self.steps.draw_bool(200) => {
                let ended = part.counted_buckets().len() == 1 && part.end_count(id, epoch).is_ok();
                self.journal.add("count ended", ended.into());
            }
            1..=6 => self.scan_step(group, which),
            _ => {
                let update = draw_update(&mut self.steps);
                let _ = part.submit(&bucket(group), &update, None);
            }
        }
        self.wake(which, 10);
    }

    /// Takes the next step of the scan of a group's bucket.
    fn scan_step(&mut self, group: usize, which: usize) {
        let Some(process) = &self.nodes[which].process else { return };
        let (part, id) = (process.group(group), bucket(group).id);
        let is_same = |scan: &SimScan| (scan.node, scan.process) == (which, process.number);
        match self.scans[group].take().filter(is_same) {
            None => {
                let scan = part.begin_count_scan(id).expect("memory");
                let (node, process, is_read) = (which, process.number, false);
                self.scans[group] = scan.map(|scan| SimScan { node, process, scan, is_read });
            }
            Some(mut scan) if !scan.is_read => {
                scan.is_read = scan.scan.advance(PART_BYTES).expect("memory");
                self.scans[group] = Some(scan);
            }
            Some(scan) => {
                let completed = part.complete_count(&scan.scan).is_ok();
                self.journal.add("count completed", completed.into());
            }
        }
    }

    /// Judges the counts of a node's replicas.
    pub(super) fn judge_counts(&self, nth: usize) {
        for group in 0..self.judges.len() {
            judge_count(group_id(group), bucket(group).id, &self.nodes[nth].trees);
        }
    }

    /// Runs until the counts of all groups are complete on every replica.
    fn complete_counts(&mut self) {
        if self.nodes.len() == 1 {
            return;
        }
        let begin = self.queue.now();
        let lacks = |world: &World| {
            let has_rows = |node: &&super::node::SimNode| !node.witness;
            (0..world.judges.len()).find(|group| {
                let id = bucket(*group).id;
                let is_complete = |node: &super::node::SimNode| {
                    judge_count(group_id(*group), id, &node.trees) == Some(true)
                };
                let members = world.master(*group).and_then(|master| world.process(master));
                let is_member = |node: &&super::node::SimNode| {
                    let of_group = members.map(|process| process.group(*group).configuration());
                    of_group.is_some_and(|members| members.part(node.id).is_some())
                };
                let mut replicas = world.nodes.iter().filter(has_rows).filter(is_member);
                members.is_none() || !replicas.all(is_complete)
            })
        };
        while let Some(group) = lacks(self) {
            assert!(self.queue.now() < begin + 60_000_000, "no progress: {group} lacks a count");
            if let Some(master) = self.master(group) {
                self.nodes[master].clock.enter(self.queue.now());
                let part = self.process(master).expect("it leads").group(group).clone();
                let _ = part.begin_count(bucket(group).id, part.leadership.epoch());
                self.scan_step(group, master);
                self.wake(master, 10);
            }
            self.run(20_000);
        }
        self.journal.count("counts complete at the end");
    }
}

fn counted(seed: u64) -> (u64, Counts) {
    let mut world = World::with(seed, Flavour::Counted);
    world.run(SECONDS * 1_000_000);
    world.heal();
    world.wait_until_level();
    world.complete_counts();
    world.finish_and_check()
}

const COUNTED: Suite = Suite {
    name: "counted buckets",
    seeds: 60,
    seeds_long: 3_000,
    history: counted,
    required_events: &[
        "wrote",
        "read",
        "crash",
        "snapshot",
        "count completed",
        "count ended",
        "counts complete at the end",
    ],
    ..FROZEN
};

#[test]
fn counts_equal_rows_on_every_replica_in_histories() {
    COUNTED.run();
}

#[test]
fn count_mutants_are_detected() {
    let soon = [Mutant::SweepUncounted, Mutant::KeepUndoneCounts, Mutant::CountWithoutChanges];
    check(counted, MUTANT_SEEDS).assert_detected(&soon, &[]);
}
