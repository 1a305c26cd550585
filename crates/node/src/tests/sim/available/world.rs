//! A cluster of three to five nodes with one ring, and what happens to it.

use super::super::chance::Chance;
use super::clients;
use super::directory::{self, COPIES, Directory, Shared};
use super::judge::Judge;
use super::mate::{Mate, Place, Told};
use super::stage::{Clock, Stage};
use super::wire::{self, Hub, Links};
use base::{BucketName, NodeId, Properties};
use logic::ring::{Change, Rack, Ring, plan};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

const CLIENTS: u64 = 4;
/// Partitions of the ring: the fewest there can be.
const PARTITIONS: u32 = 8;

pub(super) struct World {
    pub stage: Rc<Stage>,
    pub hub: Hub,
    pub count: usize,
    pub keys: usize,
    pub mates: RefCell<Vec<Mate>>,
    pub directory: Shared,
    /// The ring changes in this history, whether or not a disk is lost.
    pub moves: bool,
    /// A node hears of what was decided so late, microseconds.
    pub lag_us: u64,
    pub judge: RefCell<Judge>,
    /// By how much a clock on the wall may be off, milliseconds.
    pub wall_ms: u64,
    /// Whether a disk may lose what it had in this history; then nothing is asked of one replica.
    pub loses: bool,
    /// A disk has lost something: no other does.
    pub lost: Cell<bool>,
    /// Copies of disks, as backups make them.
    pub copies: RefCell<BTreeMap<usize, Place>>,
    troubled: Cell<bool>,
    processes: Cell<u64>,
    counts: RefCell<BTreeMap<&'static str, u64>>,
    talkative: bool,
}

fn ring(nodes: &[NodeId]) -> Ring {
    let mut ring = Ring::founded(nodes[0], Rack::default(), PARTITIONS, 3);
    let join = |node: &NodeId| Change::Join { node: *node, rack: Rack::default() };
    let changes: Vec<_> = nodes[1..].iter().map(join).collect();
    let planned = plan(&ring, &changes, COPIES, &BTreeSet::new()).expect("a plan");
    ring = ring.commit(&planned).expect("the ring is as it was");
    // There is nothing to be moved: all that was to come has come.
    for partition in (0..ring.partitions()).map(base::Partition) {
        ring = ring.arrive(partition, &[]).unwrap_or(ring);
    }
    assert!(ring.pending().is_none(), "all have arrived");
    ring
}

impl World {
    /// A cluster in trouble.
    pub(super) fn new(seed: u64) -> Rc<World> {
        let world = World::still(seed);
        world.begin();
        for _ in 0..CLIENTS {
            world.stage.begin(None, clients::live(Rc::clone(&world)));
        }
        world.stage.begin(None, super::faults::happen(Rc::clone(&world)));
        world.stage.begin(None, directory::changes(Rc::clone(&world)));
        world
    }

    /// Every node starts.
    pub(super) fn begin(self: &Rc<World>) {
        directory::open(&self.directory, &self.hub, self.count);
        for which in 0..self.count {
            self.stage.begin(None, directory::hears(Rc::clone(self), which));
        }
        (0..self.count).for_each(|which| self.start(which));
        self.stage.begin(None, wire::tend(self.hub.clone(), Rc::clone(&self.stage)));
    }

    /// A cluster of which no node has started.
    pub(super) fn still(seed: u64) -> Rc<World> {
        let mut chance = Chance::new(seed);
        let moves = chance.often(400);
        // Where the ring changes, some have no place in it yet.
        let (placed, count) = match moves {
            true => [(3, 4), (4, 5), (4, 6), (5, 6)][chance.below(4) as usize],
            false => [(3, 3), (3, 3), (4, 4), (5, 5)][chance.below(4) as usize],
        };
        // Where values go by themselves, walls differ by seconds; elsewhere by as much as you like.
        let mortal = chance.often(250);
        let wall_ms = if mortal { 2_000 } else { 3_600_000 };
        let clock = |chance: &mut Chance| Clock {
            monotonic: (1_000_000 + chance.below(1 << 40), 990_000 + chance.below(20_000)),
            wall_off_ms: chance.below(2 * wall_ms + 1) as i64 - wall_ms as i64,
            paused_until: 0,
        };
        // One more: the directory's.
        let clocks = (0..=count).map(|_| clock(&mut chance)).collect();
        let stage = Stage::set(seed, clocks);
        let mut links = Links::of(count + 1);
        links.weather = match chance.below(3) {
            0 => (0, 0, 500),
            1 => (10, 20, 5_000),
            _ => (chance.below(150), chance.below(150), chance.between(1_000, 100_000)),
        };
        let nodes: Vec<_> = (1..=count as u64).map(NodeId).collect();
        let properties = Properties { ttl_ms: 3_000, ..Properties::available() };
        let kind = mortal.then(|| (BucketName::AVAILABLE.to_string(), Arc::new(properties)));
        let (ring, types) = (ring(&nodes[..placed]), kind.into_iter().collect());
        let lag_us = [20_000, 200_000, 1_500_000][chance.below(3) as usize];
        Rc::new(World {
            stage,
            hub: Arc::new(Mutex::new(links)),
            count,
            keys: chance.between(1, 6) as usize,
            mates: RefCell::new((0..count).map(Mate::new).collect()),
            directory: Directory::new(Told { changes: 0, ring, nodes, types }),
            moves,
            lag_us,
            judge: RefCell::new(Judge::new(mortal)),
            wall_ms,
            loses: chance.often(400),
            lost: Cell::new(false),
            copies: RefCell::default(),
            troubled: Cell::new(true),
            processes: Cell::new(0),
            counts: RefCell::default(),
            talkative: std::env::var_os("CREDENZA_TOLD").is_some(),
        })
    }

    /// Says what happens, if anyone wants to know.
    pub(super) fn stage_told(&self, what: impl FnOnce() -> String) {
        if self.talkative {
            eprintln!("{:>10} {}", self.stage.now(), what());
        }
    }

    pub(super) fn count(&self, what: &'static str) {
        self.add(what, 1);
    }

    /// What is counted under a name.
    pub(super) fn add(&self, what: &'static str, many: u64) {
        *self.counts.borrow_mut().entry(what).or_default() += many;
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.borrow().clone()
    }

    pub(super) fn is_troubled(&self) -> bool {
        self.troubled.get()
    }

    /// A node begins a life, unless it lives.
    pub(super) fn start(&self, which: usize) {
        if self.mates.borrow()[which].life.is_some() {
            return;
        }
        self.processes.set(self.processes.get() + 1);
        let heard = self.mates.borrow()[which].place.heard;
        let told = directory::at(&self.directory).entry(heard).expect("it was decided").clone();
        self.stage_told(|| format!("{which} starts"));
        self.stage.within(which, || {
            let process = self.processes.get();
            self.mates.borrow_mut()[which].start(&self.hub, &told, process);
        });
    }

    /// What the directory holds.
    pub(super) fn told(&self) -> Told {
        directory::at(&self.directory).newest().clone()
    }

    pub(super) fn crash(&self, which: usize) {
        self.mates.borrow_mut()[which].crash(&self.stage, &self.hub);
    }

    /// Whether a disk may lose what it has now.
    pub(super) fn may_lose(&self) -> bool {
        self.loses && !self.lost.get() && self.told().ring.pending().is_none()
    }

    /// No more trouble: everyone lives, hears everyone, and has a quick disk.
    pub(super) fn heal(self: &Rc<World>) {
        self.troubled.set(false);
        wire::at(&self.hub).heal();
        for which in 0..self.count {
            self.stage.clock(which, |clock| clock.paused_until = 0);
            self.stage.wake(which);
            *self.mates.borrow()[which].slow_disk.lock().expect("one thread") = false;
        }
        // What is stopping comes to its end first.
        self.stage.run(10_000_000);
        (0..self.count).for_each(|which| self.start(which));
    }
}
