//! Counted buckets that move: clients remove rows and let them expire, the property is switched off
//! and on, and the judge compares the counts of all replicas with their rows.

use super::super::counted::{draw_update, judge_count};
use super::super::mutants::check;
use super::clients::ask;
use super::world::World;
use base::properties::COUNTED;
use base::{Body, BucketId, Call, DirectoryCall, GroupId, Kind, Read, ReadLevel};
use runtime::mutants::Mutant;
use sim::{Counts, Suite};
use std::rc::Rc;

/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 12;
/// Interval between two looks of the judge, in microseconds.
const LOOK_US: u64 = 20_000;
/// Time after which a request without an answer takes no effect any more, in microseconds.
const IN_DOUBT_US: u64 = 5_000_000;
/// Number of histories within which a broken rule must be noticed.
const MUTANT_SEEDS: u64 = 500;

/// Writes and removes rows that no other client reads, until the history is over.
async fn live(world: Rc<World>) {
    while !world.is_over.get() {
        let scheduler = &world.scheduler;
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(500, 60_000))).await;
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let place = scheduler.draw(|chance| chance.index(world.buckets.len()));
        let update = scheduler.draw(draw_update);
        let answer = ask(&world, nth, &world.buckets[place], Call::Update(update), None).await;
        if let Some(Err(error)) = answer {
            assert!(error.kind() != Kind::Corrupt, "{error}");
        }
    }
}

/// Switches the property off and on, and leaves it on.
async fn switch(world: Rc<World>) {
    let scheduler = Rc::clone(&world.scheduler);
    let alter = |is_counted: bool| {
        let changes = vec![(COUNTED.to_string(), is_counted.to_string())];
        Call::Directory(DirectoryCall::AlterBucket(changes))
    };
    while world.injects() {
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(200_000, 4_000_000))).await;
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let place = scheduler.draw(|chance| chance.index(world.buckets.len()));
        let is_counted = scheduler.draw(|chance| chance.draw_bool(600));
        let answer = ask(&world, nth, &world.buckets[place], alter(is_counted), None).await;
        let is_switched = matches!(answer, Some(Ok(_)));
        world
            .journal
            .add(if is_counted { "switched on" } else { "switched off" }, is_switched.into());
    }
    // One whose answer was lost may still be under way, and would switch the property off later.
    scheduler.sleep_us(IN_DOUBT_US).await;
    for name in &world.buckets {
        while !matches!(ask(&world, 0, name, alter(true), None).await, Some(Ok(_))) {
            scheduler.sleep_us(20_000).await;
        }
    }
}

/// Judges the counts of all replicas, again and again.
async fn judge(world: Rc<World>) {
    loop {
        world.scheduler.sleep_us(LOOK_US).await;
        for nth in 0..world.count {
            for (group, id) in world.kept_buckets(nth) {
                let name = match world.judge_replica(nth, group, id) {
                    Some(true) => "complete count",
                    Some(false) => "incomplete count",
                    None => continue,
                };
                world.journal.count(name);
            }
        }
    }
}

impl World {
    /// Returns a history of counted buckets, whose first rows no count covers.
    fn counted(seed: u64) -> Rc<World> {
        let world = World::new(seed);
        world.is_counted.set(true);
        world.scheduler.spawn(None, live(Rc::clone(&world)));
        world.scheduler.spawn(None, switch(Rc::clone(&world)));
        world.scheduler.spawn(None, judge(Rc::clone(&world)));
        world
    }

    fn injects(&self) -> bool {
        self.has_faults.get()
    }

    /// Returns the buckets whose rows a node has, by its directory, with their groups.
    pub(super) fn kept_buckets(&self, nth: usize) -> Vec<(GroupId, BucketId)> {
        let Some(node) = self.running(nth) else { return Vec::new() };
        let mut kept = Vec::new();
        for name in &self.buckets {
            let bucket = node.router.locator.catalog.find(name).expect("it is never dropped");
            kept.push((bucket.group, bucket.id));
            kept.extend(bucket.moving.map(|moving| (moving.group, moving.id)));
        }
        let groups = &node.router.locator.groups;
        kept.retain(|(group, _)| groups.get(*group).is_some_and(|it| it.leadership.is_member()));
        kept
    }

    fn judge_replica(&self, nth: usize, group: GroupId, id: BucketId) -> Option<bool> {
        judge_count(group, id, &self.nodes.borrow()[nth].storage.trees)
    }

    /// Returns a bucket without a complete count. `None`: every replica of each has one.
    pub(super) fn lacks_count(&self) -> Option<String> {
        for nth in (0..self.count).filter(|_| self.is_counted.get()) {
            for (group, id) in self.kept_buckets(nth) {
                if self.judge_replica(nth, group, id) != Some(true) {
                    return Some(format!("{nth} lacks a count of {id:?} in group {group}"));
                }
            }
        }
        None
    }

    /// Asserts that every node answers with the counts of the rows that are there.
    pub(super) fn check_answers(self: &Rc<World>) {
        if !self.is_counted.get() {
            return;
        }
        let world = Rc::clone(self);
        self.scheduler.spawn(None, async move {
            for name in &world.buckets {
                for nth in 0..world.count {
                    let count = Call::Read(Read::KeyCount, ReadLevel::Consistent);
                    let answer = ask(&world, nth, name, count, None).await.expect("an answer");
                    let body = answer.expect("a count").body;
                    assert!(matches!(body, Body::Size { .. }), "not from the count: {body:?}");
                    world.journal.count("counted by all");
                }
            }
        });
        self.scheduler.run(5_000_000);
        let expected = (self.buckets.len() * self.count) as u64;
        assert_eq!(self.journal.count_of("counted by all"), expected, "all were asked");
    }
}

const SUITE: Suite = Suite {
    name: "counted buckets that move",
    seeds: 40,
    seeds_long: 3_000,
    threads: 2,
    history: counted,
    required_events: &[
        "wrote",
        "moved",
        "mover crashed",
        "switched on",
        "switched off",
        "complete count",
        "incomplete count",
        "counted by all",
    ],
};

fn counted(seed: u64) -> (u64, Counts) {
    let world = World::counted(seed);
    world.scheduler.run(SECONDS * 1_000_000);
    world.heal();
    world.finish_and_check()
}

#[test]
fn counts_of_moving_buckets_equal_rows_on_every_replica() {
    SUITE.run();
    // The property was switched off by a request that had been given up before it was switched on.
    counted(1_107);
}

#[test]
fn count_mutants_are_detected_in_moves() {
    let soon = [Mutant::SweepUncounted, Mutant::CountWithoutChanges];
    check(counted, MUTANT_SEEDS).assert_detected(&soon, &[]);
}
