//! Indexes of available buckets: declared, built, dropped and queried at all nodes while those
//! crash, lose rows, and while the ring changes. The entries of every node are what its rows say,
//! always; and queries show what reads would show.

use super::super::mutants::check;
use super::directory::{self, COPIES, Directory};
use super::index_walks::{query, write_untouched};
use super::world::World;
use base::index::{IndexReport, ReportPlace, ReportedState};
use base::{BucketName, NodeId, Partition};
use indexes::{IndexDefinition, IndexName, IndexNumber, JsonPath, ValueFormat, ValueType};
use runtime::mutants::Mutant;
use sim::{Counts, FaultTarget as _, Suite};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use vnode_rows::index_rows::{IndexPhase, differences};

/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 12;
/// Interval between two looks of the judge, in microseconds.
const LOOK_US: u64 = 50_000;
/// Number of indexes of each bucket.
pub(super) const INDEXES: usize = 2;
/// Number of histories within which every broken rule must be noticed.
const MUTANT_SEEDS: u64 = 500;

/// Declared index, as the directory has it.
#[derive(Clone)]
pub(super) struct DeclaredIndex {
    pub bucket: BucketName,
    pub definition: IndexDefinition,
    /// Nodes that have reported it complete.
    complete: BTreeSet<NodeId>,
    pub is_ready: bool,
}

/// Declared indexes by their numbers, and the number of all that there ever were.
#[derive(Clone, Default)]
pub(super) struct DeclaredIndexes {
    pub given: u32,
    pub all: BTreeMap<IndexNumber, DeclaredIndex>,
}

/// Returns a definition: the values of clients are numbers, which are documents.
fn definition(number: u32, name: &str) -> IndexDefinition {
    IndexDefinition {
        number: IndexNumber(number),
        name: IndexName::parse(name).expect("a name"),
        path: JsonPath::parse("$").expect("a path"),
        value_type: ValueType::Int,
        format: ValueFormat::Json,
        is_unique: false,
        is_strict: false,
    }
}

impl Directory {
    fn find_index(&self, bucket: &BucketName, name: &str) -> Option<IndexNumber> {
        let mut all = self.newest().indexes.all.iter();
        let is_named = |index: &DeclaredIndex| {
            index.bucket == *bucket && index.definition.name.as_str() == name
        };
        all.find(|(_, index)| is_named(index)).map(|(number, _)| *number)
    }

    fn create_index(&mut self, bucket: &BucketName, name: &str) {
        let mut next = self.newest().clone();
        next.indexes.given += 1;
        let definition = definition(next.indexes.given, name);
        let (bucket, complete, is_ready) = (bucket.clone(), BTreeSet::new(), false);
        let index = DeclaredIndex { bucket, definition, complete, is_ready };
        next.indexes.all.insert(index.definition.number, index);
        self.decide(next);
    }

    fn drop_index(&mut self, number: IndexNumber) {
        let mut next = self.newest().clone();
        next.indexes.all.remove(&number);
        self.decide(next);
    }

    /// Applies a node's report, as `metadata/index/lifecycle.rs` does.
    pub(super) fn apply_index_report(&mut self, report: &IndexReport) {
        let IndexReport { number, place: ReportPlace::Node(node), state } = report else {
            panic!("vnodes report by node: {report:?}")
        };
        let mut next = self.newest().clone();
        let Some(index) = next.indexes.all.get_mut(&IndexNumber(*number)) else { return };
        if index.is_ready || !matches!(state, ReportedState::Complete(_)) {
            return;
        }
        index.complete.insert(*node);
        let kind = next.types.get(index.bucket.kind());
        let copies = kind.map_or(COPIES, |it| it.replication.n_val.into());
        index.is_ready = (0..next.ring.partitions()).map(Partition).all(|partition| {
            let owners = next.ring.owners(partition, copies);
            owners.iter().filter(|owner| index.complete.contains(owner)).count() * 2 > owners.len()
        });
        self.decide(next);
    }
}

pub(super) fn index_name(number: usize) -> String {
    format!("i{number}")
}

impl World {
    /// Returns the buckets of the history.
    pub(super) fn buckets(&self) -> BTreeSet<BucketName> {
        (0..2).map(|number| self.place(number).0).collect()
    }

    pub(super) fn draw_bucket(&self) -> BucketName {
        let buckets: Vec<_> = self.buckets().into_iter().collect();
        buckets[self.scheduler.draw(|chance| chance.index(buckets.len()))].clone()
    }

    /// Returns a difference between declared indexes and those of some node. `None`: there is none.
    pub(super) fn lacks_index(&self) -> Option<String> {
        let declared = self.decision().indexes.all;
        if !self.is_indexed.get() {
            return None;
        }
        let is_whole = declared.len() == self.buckets().len() * INDEXES;
        if !is_whole || !declared.values().all(|index| index.is_ready) {
            return Some("an index is not ready by the directory".into());
        }
        self.nodes.borrow().iter().find_map(|node| {
            let store = &node.running()?.router.available.vnode_store;
            let statuses = store.index_statuses().expect("memory");
            let is_ready = statuses.iter().all(|status| status.phase == IndexPhase::Ready);
            // The index of tags stands beside them.
            let is_equal = statuses.len() == declared.len() + 1 && is_ready;
            (!is_equal).then(|| format!("node {} has {statuses:?}", node.id))
        })
    }

    /// Asserts that the entries of every node are what its rows say, and that nothing was mended.
    pub(super) fn judge_indexes(&self) {
        for node in self.nodes.borrow().iter() {
            let Some(running) = node.running() else { continue };
            let found = differences(&*running.status.trees.snapshot()).expect("memory");
            assert!(found.is_empty(), "an index is wrong: node {} has {found:?}", node.id);
            let mended = running.router.metrics.index_entries_mended.load(Ordering::Relaxed);
            assert!(mended == 0, "an index is wrong: node {} has mended {mended}", node.id);
        }
    }
}

/// Creates and drops indexes until the trouble ends, and creates all of them then.
async fn declare(world: Rc<World>) {
    while world.injects_faults() {
        let pause = world.scheduler.draw(|chance| chance.between(50_000, 2_500_000));
        world.scheduler.sleep_us(pause).await;
        let bucket = world.draw_bucket();
        let (number, drops) =
            world.scheduler.draw(|chance| (chance.index(INDEXES), chance.draw_bool(400)));
        let mut directory = directory::at(&world.directory);
        match directory.find_index(&bucket, &index_name(number)) {
            Some(number) if drops => {
                directory.drop_index(number);
                world.journal.count("index dropped");
            }
            Some(_) => {}
            None => {
                directory.create_index(&bucket, &index_name(number));
                world.journal.count("index created");
            }
        }
    }
    for bucket in world.buckets() {
        for number in 0..INDEXES {
            let mut directory = directory::at(&world.directory);
            if directory.find_index(&bucket, &index_name(number)).is_none() {
                directory.create_index(&bucket, &index_name(number));
            }
        }
    }
}

/// Judges the entries of all nodes, again and again.
async fn judge(world: Rc<World>) {
    loop {
        world.scheduler.sleep_us(LOOK_US).await;
        world.judge_indexes();
        let nodes = world.nodes.borrow();
        for node in nodes.iter().filter_map(|node| node.running()) {
            let statuses = node.router.available.vnode_store.index_statuses().expect("memory");
            let is_ready = statuses.iter().any(|status| status.phase == IndexPhase::Ready);
            world.journal.add("ready index", is_ready.into());
        }
    }
}

/// Returns a history with indexes.
fn indexed_world(seed: u64) -> Rc<World> {
    let world = World::idle(seed);
    world.is_indexed.set(true);
    world.nodes.borrow_mut().iter_mut().for_each(|node| node.tends_indexes = true);
    world.begin();
    let written = Rc::new(Cell::new(false));
    world.scheduler.spawn(None, write_untouched(Rc::clone(&world), Rc::clone(&written)));
    while !written.get() {
        world.scheduler.run(500_000);
    }
    // Until they are synced, and at all owners.
    world.scheduler.run(3_000_000);
    world.begin_trouble();
    world.scheduler.spawn(None, declare(Rc::clone(&world)));
    for _ in 0..2 {
        world.scheduler.spawn(None, query(Rc::clone(&world)));
    }
    world.scheduler.spawn(None, judge(Rc::clone(&world)));
    world
}

const SUITE: Suite = Suite {
    name: "indexes of available buckets",
    seeds: 40,
    seeds_long: 20_000,
    threads: 1,
    history,
    required_events: &[
        "write",
        "crash",
        "split",
        "lost rows",
        "wiped",
        "ring join",
        "ring leave",
        "ring replace",
        "index created",
        "index dropped",
        "ready index",
        "query",
        "query of a tag",
        "query that must meet",
        "query at the end",
    ],
};

fn history(seed: u64) -> (u64, Counts) {
    let world = indexed_world(seed);
    world.scheduler.run(SECONDS * 1_000_000);
    world.heal();
    world.finish_and_check()
}

#[test]
fn indexes_of_available_buckets_equal_rows_and_queries_miss_nothing() {
    SUITE.run();
}

#[test]
fn mutants_of_index_entries_are_detected() {
    check(history, MUTANT_SEEDS).assert_detected(&[Mutant::KeepStaleEntries], &[]);
}
