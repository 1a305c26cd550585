//! Indexed buckets that move: clients change rows and let them expire, indexes are begun, built and
//! removed at whatever master a bucket has, and the judge compares the indexes of all replicas with
//! their rows. A move carries indexes on: one that is ready is ready at the target.

use super::super::indexed::{
    definition, draw_update, judge_index, judge_query, judge_tag_query, step_some,
};
use super::super::mutants::check;
use super::clients::ask;
use super::world::World;
use base::range::Direction;
use base::{BucketId, Call, GroupId, Kind};
use indexes::IndexNumber;
use replica_state::replicated_index::IndexPhase;
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::mutants::Mutant;
use sim::{Counts, Suite};
use std::rc::Rc;
use std::sync::Arc;

/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 12;
/// Interval between two looks of the judge, in microseconds.
const LOOK_US: u64 = 20_000;
/// Number of indexes of a bucket.
const INDEXES: u64 = 3;
/// Number of histories within which a broken rule must be noticed.
const MUTANT_SEEDS: u64 = 500;

/// Writes and removes rows that no other client reads, until the history is over.
pub(super) async fn live(world: Rc<World>) {
    while !world.is_over.get() {
        let scheduler = &world.scheduler;
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(500, 40_000))).await;
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let place = scheduler.draw(|chance| chance.index(world.buckets.len()));
        let update = scheduler.draw(draw_update);
        let answer = ask(&world, nth, &world.buckets[place], Call::Update(update), None).await;
        if let Some(Err(error)) = answer {
            assert!(error.kind() != Kind::Corrupt, "{error}");
        }
    }
}

/// Begins, builds, queries and removes indexes at the masters of buckets.
async fn tend(world: Rc<World>) {
    loop {
        let scheduler = &world.scheduler;
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(1_000, 60_000))).await;
        for place in 0..world.buckets.len() {
            let Some((nth, group, bucket)) = world.place_of(place) else { continue };
            let draws = scheduler.draw(|chance| (chance.below(12), chance.below(INDEXES)));
            let (number, epoch) = (IndexNumber(1 + draws.1 as u32), group.leadership.epoch());
            let rests = !world.has_faults.get();
            let name = scheduler.run_as_node(nth, || match draws.0 {
                0..3 => {
                    let begun = group.begin_index(&bucket, definition(number.0), epoch);
                    begun.ok().flatten().map(|_| "index begun")
                }
                // At the end of a history indexes come to rest.
                3 if !rests => {
                    let ended = group.end_index(&bucket, number, epoch);
                    ended.ok().flatten().map(|_| "index ended")
                }
                4 => {
                    let trees = world.nodes.borrow()[nth].storage.trees.clone();
                    let query = (number, 3, Direction::Ascending);
                    judge_query(&group, bucket.id, &*trees, query).map(|_| "index queried")
                }
                5 => {
                    let trees = world.nodes.borrow()[nth].storage.trees.clone();
                    let query = (3, Direction::Descending);
                    let found = judge_tag_query(&group, bucket.id, &*trees, query);
                    found.filter(|found| *found > 0).map(|_| "tags queried")
                }
                _ => step_some(&group, &bucket, draws.1),
            });
            if let Some(name) = name {
                world.journal.count(name);
            }
        }
    }
}

/// Judges the indexes of all replicas, again and again.
async fn judge(world: Rc<World>) {
    loop {
        world.scheduler.sleep_us(LOOK_US).await;
        for nth in 0..world.count {
            for (group, id) in world.remembered_buckets(nth) {
                for (_, phase) in world.judge_indexes(nth, group, id) {
                    // Nobody builds it there yet: all its rows came by the move.
                    if phase == IndexPhase::Ready && world.arrives(nth, id) {
                        world.journal.count("ready by a move");
                    }
                }
            }
        }
    }
}

impl World {
    /// Returns a history of indexed buckets.
    fn indexed(seed: u64) -> Rc<World> {
        let world = World::new(seed);
        world.is_indexed.set(true);
        world.scheduler.spawn(None, live(Rc::clone(&world)));
        world.scheduler.spawn(None, tend(Rc::clone(&world)));
        world.scheduler.spawn(None, judge(Rc::clone(&world)));
        world
    }

    /// Returns the master of a bucket, and the bucket as the master's node knows it.
    fn place_of(&self, place: usize) -> Option<(usize, Arc<Group>, Arc<Bucket>)> {
        (0..self.count).find_map(|nth| {
            let node = self.running(nth)?;
            let router = &node.router;
            let bucket = router.locator.catalog.find(&self.buckets[place])?;
            let group = router.locator.groups.get(bucket.group)?;
            group.leadership.is_master().then_some((nth, group, bucket))
        })
    }

    /// Returns the buckets that a node's replicas keep, without those that the directory has
    /// forgotten since the node last heard of it: there records of indexes go before their entries.
    pub(super) fn remembered_buckets(&self, nth: usize) -> Vec<(GroupId, BucketId)> {
        let forgotten = self.forgotten_ids.borrow();
        let kept = self.kept_buckets(nth).into_iter();
        kept.filter(|(_, id)| !forgotten.contains(id)).collect()
    }

    /// Returns true if a node's directory says that a bucket is on its way to this number.
    fn arrives(&self, nth: usize, id: BucketId) -> bool {
        let Some(node) = self.running(nth) else { return false };
        let moving = |name| node.router.locator.catalog.find(name).and_then(|it| it.moving);
        self.buckets.iter().filter_map(moving).any(|moving| moving.id == id)
    }

    fn judge_indexes(
        &self,
        nth: usize,
        group: GroupId,
        id: BucketId,
    ) -> Vec<(IndexNumber, IndexPhase)> {
        judge_index(group, id, &*self.nodes.borrow()[nth].storage.trees)
    }

    /// Returns an index that is not at rest, or a bucket that has left and has indexes. `None`:
    /// there is none.
    pub(super) fn lacks_index(&self) -> Option<String> {
        for nth in (0..self.count).filter(|_| self.is_indexed.get()) {
            let kept = self.kept_buckets(nth);
            for (group, id) in &kept {
                let records = self.judge_indexes(nth, *group, *id);
                let rests = |phase| matches!(phase, IndexPhase::Ready | IndexPhase::Failed);
                let is_whole = records.len() == INDEXES as usize;
                if !is_whole || !records.iter().all(|(_, phase)| rests(*phase)) {
                    return Some(format!("{nth}: {records:?} of {id:?} in group {group}"));
                }
            }
            for group in self.running(nth)?.router.locator.groups.all() {
                let is_kept = |id: &BucketId| kept.contains(&(group.id, *id));
                let recorded = &group.indexes.buckets() | &group.indexes.tagged();
                let left = recorded.into_iter().find(|id| !is_kept(id));
                if let Some(left) = left.filter(|_| group.leadership.is_member()) {
                    return Some(format!("{nth}: indexes of {left:?} in group {}", group.id));
                }
            }
        }
        None
    }
}

const SUITE: Suite = Suite {
    name: "indexed buckets that move",
    seeds: 40,
    seeds_long: 20_000,
    threads: 2,
    history: indexed,
    required_events: &[
        "wrote",
        "moved",
        "mover crashed",
        "index begun",
        "index built",
        "index ended",
        "index removed",
        "index queried",
        "tags queried",
        "ready by a move",
    ],
};

fn indexed(seed: u64) -> (u64, Counts) {
    let world = World::indexed(seed);
    world.scheduler.run(SECONDS * 1_000_000);
    world.heal();
    world.finish_and_check()
}

#[test]
fn indexes_of_moving_buckets_equal_rows_on_every_replica() {
    SUITE.run();
}

#[test]
fn index_mutants_are_detected_in_moves() {
    let soon = [Mutant::KeepOldIndexEntries, Mutant::SkipUniqueCheck, Mutant::SweepUncounted];
    check(indexed, MUTANT_SEEDS).assert_detected(&soon, &[]);
}
