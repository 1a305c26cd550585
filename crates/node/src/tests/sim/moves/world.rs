//! Simulated cluster whose buckets move.

use super::super::process::QUICK;
use super::super::transport::{Port, SimNetwork};
use super::judge::Judge;
use super::node::{LEASE_MS, MoveNode};
use super::{clients, faults};
use crate::Node;
use base::{
    BucketDescription, BucketId, BucketName, ClusterDescription, ClusterId, FeatureLevel, GroupId,
    MemberDescription, Membership, NodeId, Part, Placement, Properties, Version,
};
use bytes::Bytes;
use metadata::levels::{self, LevelRow};
use metadata::rows::{
    CLUSTER, ClusterRow, LEVEL, NEXT_BUCKET, bucket_key, group_key, member_key, type_key,
    write_bucket, write_cluster, write_group, write_member, write_properties,
};
use replica_state::layout::{StoredRow, row_key};
use replication::group::Group;
use replication::seals::BOOKKEEPING_BUCKET;
use sim::{Chance, FaultProfile, Journal, Scheduler, SimClock};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// Number of clients that read and write.
const CLIENTS: usize = 4;
/// Number of clients that count.
const COUNTERS: usize = 2;
/// Groups between which buckets move.
pub(super) const GROUPS: [GroupId; 2] = [GroupId(1), GroupId(2)];
/// Number of rows of each bucket that nobody changes: enough for several parts of a copy.
pub(super) const FILLERS: usize = 60;

pub(super) struct World {
    pub scheduler: Rc<Scheduler>,
    pub network: SimNetwork,
    pub journal: Arc<Journal>,
    pub count: usize,
    pub buckets: Vec<BucketName>,
    pub nodes: RefCell<Vec<MoveNode>>,
    pub judge: RefCell<Judge>,
    known: ClusterDescription,
    pub has_faults: Cell<bool>,
    /// True if the buckets are counted.
    pub is_counted: Cell<bool>,
    /// True if the buckets have indexes.
    pub is_indexed: Cell<bool>,
    /// True if the directory declares the indexes of buckets, and nodes tend them.
    pub is_declared: Cell<bool>,
    /// True if clients turn feeds of buckets on, and nodes tend them.
    pub is_fed: Cell<bool>,
    /// True once clients start no more calls.
    pub is_over: Cell<bool>,
    /// Ids that the buckets have had.
    pub bucket_ids: RefCell<BTreeSet<BucketId>>,
    /// Ids whose rows in the directory were removed: groups forget what they know of such buckets,
    /// and a node that was down may still have their rows.
    pub forgotten_ids: RefCell<BTreeSet<BucketId>>,
    processes: Cell<u64>,
}

fn known(count: usize) -> ClusterDescription {
    let node = |nth: usize| NodeId(nth as u64 + 1);
    let member = |nth: usize| MemberDescription {
        node: node(nth),
        name: format!("n{}", nth + 1),
        peer: "simulated".into(),
        client: String::new(),
        incarnation: 0,
        membership: Membership::Member,
    };
    let placement = |group: GroupId, nodes: Vec<NodeId>| Placement {
        group,
        members: nodes.iter().map(|node| (*node, Part::Voter)).collect(),
        replicas: nodes.len() as u32,
        founders: nodes,
        quorum: None,
    };
    let all = (0..count).map(node).collect();
    let some = |skipped: usize| (0..count).filter(move |at| count < 4 || *at != skipped).map(node);
    ClusterDescription {
        cluster: ClusterId(77),
        founder: node(0),
        lease_ms: LEASE_MS,
        changes: 1,
        level: FeatureLevel::HIGHEST,
        members: (0..count).map(member).collect(),
        groups: vec![
            placement(GroupId::DIRECTORY, all),
            placement(GROUPS[0], some(3).collect()),
            placement(GROUPS[1], some(0).collect()),
        ],
    }
}

/// Returns key and value of a row that nobody changes.
pub(super) fn filler(number: usize) -> (Bytes, Bytes) {
    (format!("filler{number:03}").into(), format!("value{number}").repeat(20).into())
}

/// Returns the first rows of a cluster: its directory, and the fillers of its buckets.
fn first_rows(known: &ClusterDescription, buckets: &[BucketName]) -> Vec<(Bytes, Bytes)> {
    let mut rows = Vec::new();
    let mut put = |group: GroupId, bucket: BucketId, name: &[u8], value: &[u8]| {
        let (mut key, mut row) = (Vec::new(), Vec::new());
        row_key(group, bucket, name, &mut key);
        // Rows of a group are older than its first update, which has version 1.
        let version = Version(u64::from(group == GroupId::DIRECTORY));
        StoredRow::write_head(version, None, &mut row);
        row.extend_from_slice(value);
        rows.push((Bytes::from(key), Bytes::from(row)));
    };
    let ClusterDescription { founder, lease_ms, changes, .. } = *known;
    let cluster = ClusterRow { founder, lease_ms, changes };
    put(GroupId::DIRECTORY, BOOKKEEPING_BUCKET, CLUSTER, &write_cluster(&cluster));
    let levels = LevelRow { level: known.level, ..LevelRow::default() };
    put(GroupId::DIRECTORY, BOOKKEEPING_BUCKET, LEVEL, &levels::write(&levels));
    for member in &known.members {
        put(
            GroupId::DIRECTORY,
            BOOKKEEPING_BUCKET,
            &member_key(member.node),
            &write_member(member),
        );
    }
    for placement in &known.groups {
        put(
            GroupId::DIRECTORY,
            BOOKKEEPING_BUCKET,
            &group_key(placement.group),
            &write_group(placement),
        );
    }
    let properties = Properties::default();
    put(
        GroupId::DIRECTORY,
        BOOKKEEPING_BUCKET,
        &type_key(BucketName::DEFAULT),
        &write_properties(&properties),
    );
    for (number, name) in buckets.iter().enumerate() {
        let id = BucketId(number as u32 + 1);
        let (name, properties) = (name.clone(), properties.clone());
        let key = bucket_key(&name);
        let lives = BucketDescription { name, id, group: GROUPS[0], properties, moving: None };
        put(GroupId::DIRECTORY, BOOKKEEPING_BUCKET, &key, &write_bucket(&lives));
        for (key, value) in (0..FILLERS).map(filler) {
            put(GROUPS[0], id, &key, &value);
        }
    }
    put(
        GroupId::DIRECTORY,
        BOOKKEEPING_BUCKET,
        NEXT_BUCKET,
        &(buckets.len() as u32 + 1).to_le_bytes(),
    );
    rows
}

impl World {
    /// Returns a history with clients, faults and moves.
    pub(super) fn new(seed: u64) -> Rc<World> {
        let world = World::quiet(seed);
        world.scheduler.draw(|chance| {
            world.network.set_profile(|profile| {
                if chance.draw_bool(333) {
                    let (loss, duplicates) = (chance.below(301), chance.below(501));
                    *profile = FaultProfile::new(loss, duplicates, chance.between(1_000, 60_000));
                }
                profile.stale = chance.below(501);
            });
        });
        let begin = |task| world.scheduler.spawn(None, task);
        for _ in 0..CLIENTS {
            begin(Box::pin(clients::live(Rc::clone(&world))) as ClientTask);
        }
        for number in 0..COUNTERS {
            begin(Box::pin(clients::count(Rc::clone(&world), number)));
        }
        begin(Box::pin(faults::SCHEDULE.run(Rc::clone(&world))));
        begin(Box::pin(faults::send_away(Rc::clone(&world))));
        begin(Box::pin(faults::run_maintenance(Rc::clone(&world))));
        world
    }

    /// Returns a history without clients, faults and moves.
    pub(super) fn quiet(seed: u64) -> Rc<World> {
        let mut chance = Chance::new(seed);
        let count = [3, 3, 4][chance.below(3) as usize];
        // Clock rates within the drift that leases permit: 1 % between any two.
        let clock = |chance: &mut Chance| {
            SimClock::new(1_000_000 + chance.below(1 << 40), 996_000 + chance.below(8_000))
        };
        let clocks = (0..count).map(|_| clock(&mut chance)).collect();
        let scheduler = Scheduler::install(seed, clocks);
        let profile = match chance.below(3) {
            0 => FaultProfile::calm(),
            1 => FaultProfile::new(10, 20, 5_000),
            _ => FaultProfile::new(
                chance.below(100),
                chance.below(150),
                chance.between(1_000, 40_000),
            ),
        };
        let names = ["a", "b"].iter().take(1 + chance.below(2) as usize);
        let buckets: Vec<_> = names.map(|name| BucketName::parse(name).expect("a name")).collect();
        let known = known(count);
        let rows = first_rows(&known, &buckets);
        let (network, journal) = (SimNetwork::new(count, profile), Arc::<Journal>::default());
        let port = |nth| Port { which: nth, network: network.clone(), journal: journal.clone() };
        let nodes = (0..count).map(|nth| MoveNode::new(port(nth), &rows)).collect();
        let world = Rc::new(World {
            scheduler,
            network,
            journal,
            count,
            buckets,
            nodes: RefCell::new(nodes),
            judge: RefCell::default(),
            known,
            has_faults: Cell::new(true),
            is_counted: Cell::new(false),
            is_indexed: Cell::new(false),
            is_declared: Cell::new(false),
            is_fed: Cell::new(false),
            is_over: Cell::new(false),
            bucket_ids: RefCell::default(),
            forgotten_ids: RefCell::default(),
            processes: Cell::new(0),
        });
        (0..count).for_each(|nth| world.start(nth));
        world.scheduler.spawn(None, world.network.clone().run());
        world
    }

    /// Prints an event if tracing is on.
    pub(super) fn tell(&self, what: impl FnOnce() -> String) {
        self.journal.trace(self.scheduler.now(), what);
    }

    /// Returns a running node.
    pub(super) fn running(&self, nth: usize) -> Option<Node> {
        self.nodes.borrow()[nth].running().cloned()
    }

    /// Returns the master of a group.
    pub(super) fn master(&self, group: GroupId) -> Option<(usize, Arc<Group>)> {
        (0..self.count).find_map(|nth| {
            let group = self.running(nth)?.router.locator.groups.get(group)?;
            group.leadership.is_master().then_some((nth, group))
        })
    }

    /// Starts an incarnation of a node that is down.
    pub(super) fn start(&self, which: usize) {
        if self.running(which).is_some() {
            return;
        }
        self.processes.set(self.processes.get() + 1);
        let process = self.processes.get();
        self.tell(|| format!("{which} starts"));
        self.scheduler.run_as_node(which, || {
            self.nodes.borrow_mut()[which].start(&self.known, process);
            if self.is_declared.get() {
                self.nodes.borrow()[which].tend_indexes();
            }
            if self.is_fed.get() {
                self.nodes.borrow()[which].tend_feeds();
            }
        });
    }

    pub(super) fn crash(&self, nth: usize) {
        let on_the_way = self.running(nth).is_some_and(|node| {
            let moving = node.router.locator.catalog.watch_moving();
            let moving = moving.borrow();
            let drives = |name| {
                node.router
                    .locator
                    .catalog
                    .find(name)
                    .is_some_and(|bucket| leads(&node, bucket.group))
            };
            moving.iter().any(drives)
        });
        self.journal.add("mover crashed", on_the_way.into());
        self.nodes.borrow_mut()[nth].crash(&self.scheduler);
    }

    /// Ends the trouble: all nodes run, are linked, and have fast disks.
    pub(super) fn heal(&self) {
        self.has_faults.set(false);
        self.network.heal();
        for nth in 0..self.count {
            self.scheduler.resume_now(nth);
            *self.nodes.borrow()[nth].write_time.lock().expect("one thread") = QUICK;
            self.start(nth);
        }
    }
}

pub(super) type ClientTask = std::pin::Pin<Box<dyn Future<Output = ()>>>;

fn leads(node: &Node, group: GroupId) -> bool {
    node.router.locator.groups.get(group).is_some_and(|group| group.leadership.is_master())
}
