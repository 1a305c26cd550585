//! Simulated cluster of three to six nodes with one ring.

use super::super::process::QUICK;
use super::super::transport::{Port, SimNetwork};
use super::directory::{self, COPIES, Directory, Shared};
use super::feeds::FeedFollower;
use super::judge::Judge;
use super::node::{Decision, Place, RingNode};
use super::{clients, faults};
use base::{BucketName, FeedMode, Key, NodeId, Properties, Replication};
use logic::ring::{Rack, Ring, RingChangeRequest, plan};
use sim::{Chance, FaultProfile, Journal, Scheduler, SimClock};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

const CLIENTS: u64 = 4;
/// Largest number of the directory's latest decisions that a node forgets in a crash.
const FORGETS_MAX: usize = 10;
/// Rate of straggling messages, per mille; their requests count as late.
const STRAGGLERS: u64 = 20;
const STRAGGLER_DELAY_US: (u64, u64) = (550_000, 825_000);
/// Number of partitions of the ring: the smallest possible one.
const PARTITIONS: u32 = 8;
/// Type of the second bucket.
const FEW: &str = "few";

pub(super) struct World {
    pub scheduler: Rc<Scheduler>,
    pub network: SimNetwork,
    pub journal: Arc<Journal>,
    pub count: usize,
    pub keys: usize,
    /// Number of copies of the second bucket's keys. `None`: there is no second bucket.
    pub few: Option<u8>,
    /// True if the ring's changes are the only trouble; then reads are judged, too.
    pub calm: bool,
    /// True if, in a calm history, stragglers make coordinators ask fallbacks. Hints then exist
    /// while the ring changes, and only the owners' own answers ensure that reads meet writes.
    pub has_stragglers: bool,
    /// True if a crashed node restarts with an old copy of the directory, and acts on it for a
    /// while.
    pub forgets_directory: bool,
    pub nodes: RefCell<Vec<RingNode>>,
    pub directory: Shared,
    /// True if the ring changes, whether or not a disk is lost.
    pub moves: bool,
    /// Longest time until a node hears of a decision, in microseconds.
    pub lag_us: u64,
    pub judge: RefCell<Judge>,
    /// Largest error of a wall clock, in milliseconds.
    pub wall_ms: u64,
    /// True if a disk may lose data in this history; then no write asks for one replica only.
    pub may_lose_disk: bool,
    /// True once a disk has lost data: no other one does.
    pub lost: Cell<bool>,
    /// Copies of disks, as backups make them.
    pub copies: RefCell<BTreeMap<usize, Place>>,
    pub has_faults: Cell<bool>,
    /// True if indexes are declared.
    pub is_indexed: Cell<bool>,
    /// True if the buckets have feeds.
    pub is_fed: bool,
    /// Readers of feeds, as they were at some of their tokens.
    pub followers: RefCell<Vec<FeedFollower>>,
    processes: Cell<u64>,
}

fn ring(nodes: &[NodeId]) -> Ring {
    let mut ring = Ring::initial(nodes[0], Rack::default(), PARTITIONS, 3);
    let join = |node: &NodeId| RingChangeRequest::Join { node: *node, rack: Rack::default() };
    let changes: Vec<_> = nodes[1..].iter().map(join).collect();
    let planned = plan(&ring, &changes, COPIES, &BTreeSet::new()).expect("a plan");
    ring = ring.commit(&planned).expect("the ring is as it was");
    // Nothing needs to be transferred: every partition counts as arrived.
    for partition in (0..ring.partitions()).map(base::Partition) {
        ring = ring.arrive(partition, &[]).unwrap_or(ring);
    }
    assert!(ring.pending().is_none(), "all have arrived");
    ring
}

fn properties(ttl_ms: u64, feed_keep_ms: Option<u64>) -> Properties {
    let properties = Properties { ttl_ms, ..Properties::available() };
    match feed_keep_ms {
        Some(feed_keep_ms) => Properties { feed: FeedMode::Keys, feed_keep_ms, ..properties },
        None => properties,
    }
}

fn clock(chance: &mut Chance, wall_ms: u64) -> SimClock {
    let clock = SimClock::new(1_000_000 + chance.below(1 << 40), 990_000 + chance.below(20_000));
    let wall_offset_ms = chance.below(2 * wall_ms + 1) as i64 - wall_ms as i64;
    SimClock { wall_offset_ms, ..clock }
}

fn profile(chance: &mut Chance) -> FaultProfile {
    match chance.below(3) {
        0 => FaultProfile::calm(),
        1 => FaultProfile::new(10, 20, 5_000),
        _ => {
            let (loss, duplicates) = (chance.below(150), chance.below(150));
            FaultProfile::new(loss, duplicates, chance.between(1_000, 100_000))
        }
    }
}

impl World {
    /// Returns a running cluster with clients and faults.
    pub(super) fn new(seed: u64) -> Rc<World> {
        let world = World::idle(seed);
        world.begin();
        world.begin_trouble();
        world
    }

    /// Starts clients, faults, and changes of the ring.
    pub(super) fn begin_trouble(self: &Rc<World>) {
        for _ in 0..CLIENTS {
            self.scheduler.spawn(None, clients::live(Rc::clone(self)));
        }
        if !self.calm {
            self.scheduler.spawn(None, faults::SCHEDULE.run(Rc::clone(self)));
        }
        self.scheduler.spawn(None, directory::changes(Rc::clone(self)));
    }

    /// Starts all nodes.
    pub(super) fn begin(self: &Rc<World>) {
        directory::open(&self.directory, self.port(self.count));
        for nth in 0..self.count {
            self.scheduler.spawn(None, directory::deliver_decision(Rc::clone(self), nth));
        }
        (0..self.count).for_each(|nth| self.start(nth));
        self.scheduler.spawn(None, self.network.clone().run());
    }

    /// Returns a cluster in which no node has started.
    pub(super) fn idle(seed: u64) -> Rc<World> {
        World::with_feeds(seed, None)
    }

    /// Returns such a cluster with buckets that have feeds, if this is the time for which these
    /// keep dead entries, in milliseconds.
    pub(super) fn with_feeds(seed: u64, keep_ms: Option<u64>) -> Rc<World> {
        let mut chance = Chance::new(seed);
        let moves = chance.draw_bool(400);
        // Where the ring changes, some nodes have no place in it yet.
        let (placed, count) = match moves {
            true => [(3, 4), (4, 5), (4, 6), (5, 6)][chance.below(4) as usize],
            false => [(3, 3), (3, 3), (4, 4), (5, 5)][chance.below(4) as usize],
        };
        // Where values expire, wall clocks differ by seconds; elsewhere by up to an hour.
        let mortal = chance.draw_bool(250);
        let wall_ms = if mortal { 2_000 } else { 3_600_000 };
        // One more clock, for the directory.
        let clocks = (0..=count).map(|_| clock(&mut chance, wall_ms)).collect();
        let scheduler = Scheduler::install(seed, clocks);
        let mut profile = profile(&mut chance);
        let nodes: Vec<_> = (1..=count as u64).map(NodeId).collect();
        let ttl_ms = if mortal { 3_000 } else { 0 };
        let properties = properties(ttl_ms, keep_ms);
        let kind = (BucketName::AVAILABLE.to_string(), Arc::new(properties.clone()));
        let mut types = BTreeMap::from([kind]);
        let ring = ring(&nodes[..placed]);
        let lag_us = [20_000, 200_000, 1_500_000][chance.below(3) as usize];
        let (keys, loses) = (chance.between(1, 6) as usize, chance.draw_bool(400));
        // With fewer copies than three, a row that one node drops too early is lost.
        let few = [Some(1), Some(1), Some(2), None][chance.below(4) as usize].filter(|_| moves);
        if let Some(n_val) = few {
            let replication = Replication { n_val, ..properties.replication };
            types.insert(FEW.into(), Arc::new(Properties { replication, ..properties }));
        }
        let calm = moves && chance.draw_bool(250);
        if calm {
            profile = FaultProfile::new(0, 20, 5_000);
        }
        let straggling = calm && chance.draw_bool(500);
        if straggling {
            (profile.stragglers, profile.straggler_delay) = (STRAGGLERS, STRAGGLER_DELAY_US);
        }
        let forgetful = moves && chance.draw_bool(300);
        let forgets_max = if forgetful { usize::MAX } else { FORGETS_MAX };
        let (network, journal) = (SimNetwork::new(count + 1, profile), Arc::<Journal>::default());
        let port = |nth| Port { which: nth, network: network.clone(), journal: journal.clone() };
        let sim_nodes = (0..count).map(|nth| RingNode::new(port(nth), forgets_max)).collect();
        let first = Decision { changes: 0, ring, nodes, types, indexes: Default::default() };
        Rc::new(World {
            scheduler,
            network,
            journal,
            count,
            keys,
            few,
            calm,
            has_stragglers: straggling,
            forgets_directory: forgetful,
            nodes: RefCell::new(sim_nodes),
            directory: Directory::new(first),
            moves,
            lag_us,
            judge: RefCell::new(Judge::new(mortal)),
            wall_ms,
            // A key with one copy is lost with its disk.
            may_lose_disk: loses && few != Some(1),
            lost: Cell::new(false),
            copies: RefCell::default(),
            has_faults: Cell::new(true),
            is_indexed: Cell::new(false),
            is_fed: keep_ms.is_some(),
            followers: RefCell::default(),
            processes: Cell::new(0),
        })
    }

    /// Returns a node's endpoint in the network.
    fn port(&self, nth: usize) -> Port {
        Port { which: nth, network: self.network.clone(), journal: self.journal.clone() }
    }

    /// Returns the bucket and the name of a key, by its number.
    pub(super) fn place(&self, number: usize) -> (BucketName, Key) {
        let kind = match self.few {
            Some(_) if number.is_multiple_of(2) => FEW,
            _ => BucketName::AVAILABLE,
        };
        (BucketName::new(kind, "b").expect("a name"), clients::key(number))
    }

    /// Returns the number of copies of a bucket's keys.
    pub(super) fn copies(&self, bucket: &BucketName) -> usize {
        self.few.filter(|_| bucket.kind() == FEW).map_or(COPIES, usize::from)
    }

    /// Prints an event if tracing is on.
    pub(super) fn tell(&self, what: impl FnOnce() -> String) {
        self.journal.trace(self.scheduler.now(), what);
    }

    /// Starts an incarnation of a node that is down.
    pub(super) fn start(&self, which: usize) {
        if self.nodes.borrow()[which].process.is_some() {
            return;
        }
        self.processes.set(self.processes.get() + 1);
        let heard = self.nodes.borrow()[which].place.delivered;
        let decision = directory::at(&self.directory).entry(heard).expect("it was decided").clone();
        self.tell(|| format!("{which} starts"));
        self.scheduler.run_as_node(which, || {
            let process = self.processes.get();
            self.nodes.borrow_mut()[which].start(&decision, process);
        });
    }

    /// Returns the directory's decision in force.
    pub(super) fn decision(&self) -> Decision {
        directory::at(&self.directory).newest().clone()
    }

    pub(super) fn crash(&self, nth: usize) {
        self.nodes.borrow_mut()[nth].crash(&self.scheduler);
    }

    /// Returns true if a disk may lose data now.
    pub(super) fn may_lose(&self) -> bool {
        self.may_lose_disk && !self.lost.get()
    }

    /// Ends the trouble: all nodes run, are linked, and have fast disks.
    pub(super) fn heal(self: &Rc<World>) {
        self.has_faults.set(false);
        self.network.heal();
        for nth in 0..self.count {
            self.scheduler.resume_now(nth);
            *self.nodes.borrow()[nth].write_time.lock().expect("one thread") = QUICK;
        }
        // Nodes that are stopping finish first.
        self.scheduler.run(10_000_000);
        (0..self.count).for_each(|nth| self.start(nth));
    }
}
