//! Declared indexes of buckets that move: clients create and drop indexes by the directory, the
//! keepers of all nodes tend them, and at the end the directory and the groups agree.

use super::super::indexed::judge_index;
use super::clients::ask;
use super::indexed::live;
use super::world::World;
use base::index::{IndexCall, IndexSpec};
use base::{Call, DirectoryCall};
use replica_state::replicated_index::IndexPhase;
use sim::{Counts, Suite};
use std::rc::Rc;

/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 12;
/// Interval between two looks of the judge, in microseconds.
const LOOK_US: u64 = 20_000;
/// Paths of the indexes that clients create. The index of the second is unique.
const PATHS: [&str; 3] = ["$.n", "$.u", "$.l[*]"];

fn create(number: usize) -> Call {
    let spec = IndexSpec {
        name: format!("i{number}"),
        path: PATHS[number].into(),
        value_type: "int".into(),
        format: "json".into(),
        is_unique: number == 1,
        is_strict: false,
    };
    Call::Directory(DirectoryCall::Index(IndexCall::Create(spec)))
}

/// Creates and drops indexes, and creates all of them at the end.
async fn declare(world: Rc<World>) {
    let scheduler = Rc::clone(&world.scheduler);
    while world.has_faults.get() {
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(50_000, 1_500_000))).await;
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let place = scheduler.draw(|chance| chance.index(world.buckets.len()));
        let number = scheduler.draw(|chance| chance.index(PATHS.len()));
        let (call, event) = match scheduler.draw(|chance| chance.draw_bool(600)) {
            true => (create(number), "index created"),
            false => {
                let drop = IndexCall::Drop { name: format!("i{number}") };
                (Call::Directory(DirectoryCall::Index(drop)), "index dropped")
            }
        };
        let answer = ask(&world, nth, &world.buckets[place], call, None).await;
        world.journal.add(event, matches!(answer, Some(Ok(_))).into());
    }
    for name in &world.buckets {
        for number in 0..PATHS.len() {
            // One that is being dropped is created again when its entries are gone.
            while !matches!(ask(&world, 0, name, create(number), None).await, Some(Ok(_))) {
                scheduler.sleep_us(20_000).await;
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
                let trees = world.nodes.borrow()[nth].storage.trees.clone();
                for (_, phase) in judge_index(group, id, &*trees) {
                    world.journal.add("ready index", (phase == IndexPhase::Ready).into());
                }
            }
        }
    }
}

impl World {
    /// Returns a history of buckets whose indexes the directory declares.
    fn declared(seed: u64) -> Rc<World> {
        let world = World::new(seed);
        world.is_declared.set(true);
        for nth in 0..world.count {
            world.scheduler.run_as_node(nth, || world.nodes.borrow()[nth].tend_indexes());
        }
        world.scheduler.spawn(None, live(Rc::clone(&world)));
        world.scheduler.spawn(None, declare(Rc::clone(&world)));
        world.scheduler.spawn(None, judge(Rc::clone(&world)));
        world
    }

    /// Returns a bucket whose indexes are not at rest, by a node's directory or by its group there.
    /// `None`: there is none.
    pub(super) fn lacks_declared(&self) -> Option<String> {
        for nth in (0..self.count).filter(|_| self.is_declared.get()) {
            let catalog = self.running(nth)?.router.locator.catalog.clone();
            for name in &self.buckets {
                let found = catalog.indexes.find(name);
                let declared = found.map(|found| found.describe()).unwrap_or_default();
                let states: Vec<_> = declared.iter().map(|index| index.state.name()).collect();
                let rests = |state: &&str| ["ready", "failed"].contains(state);
                if states.len() != PATHS.len() || !states.iter().all(rests) {
                    return Some(format!("{nth}: {states:?} of {name}"));
                }
            }
            for (group, id) in self.kept_buckets(nth) {
                let records = judge_index(group, id, &*self.nodes.borrow()[nth].storage.trees);
                let rests = |phase| matches!(phase, IndexPhase::Ready | IndexPhase::Failed);
                if records.len() != PATHS.len() || !records.iter().all(|(_, phase)| rests(*phase)) {
                    return Some(format!("{nth}: {records:?} of {id:?} in group {group}"));
                }
            }
        }
        None
    }
}

const SUITE: Suite = Suite {
    name: "declared indexes of buckets that move",
    seeds: 40,
    seeds_long: 10_000,
    threads: 2,
    history: declared,
    required_events: &[
        "wrote",
        "moved",
        "mover crashed",
        "index created",
        "index dropped",
        "ready index",
    ],
};

fn declared(seed: u64) -> (u64, Counts) {
    let world = World::declared(seed);
    world.scheduler.run(SECONDS * 1_000_000);
    world.heal();
    world.finish_and_check()
}

#[test]
fn declared_indexes_of_moving_buckets_come_to_rest_at_every_replica() {
    SUITE.run();
}
