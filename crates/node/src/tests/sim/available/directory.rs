//! Simulated directory: a log of rings and members. It stands in for group 0, is a node of its own
//! on the network, and never fails, as a group with a majority. Nodes call it on the lane on which
//! they call a master. Each node learns its decisions separately: with a delay, in order, and only
//! while it has a link to it. After a crash a node may know less than before, as one that has not
//! yet received the latest decisions.

use super::super::transport::Port;
use super::node::Decision;
use super::world::World;
use base::wire::write_answer;
use base::{
    Body, Call, DirectoryCall, IndexCall, LogIndex, NodeId, Reply, Request, Result, RingCall,
    RingTransfer,
};
use bytes::Bytes;
use logic::ring::{Rack, Ring, RingChangeRequest, plan};
use sim::FaultTarget as _;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use transport::{Broken, Incarnation, IncomingCall, IncomingMessage, Peers, Receiver, Sink};

/// Node that stands for the directory's master.
pub(super) const DIRECTORY: NodeId = NodeId(9_000);
/// Number of copies of a key, unless its bucket's type says otherwise.
pub(super) const COPIES: usize = 3;
/// Length in bytes of the header of a forwarded request: kind of the call, and applied index of the
/// caller's directory.
const LETTER_HEAD: usize = 9;

/// Log of all decisions.
pub(super) struct Directory {
    log: Vec<Decision>,
    /// Its endpoint in the network. `None`: not opened yet.
    peers: Option<Peers>,
}

/// Shared handle of the directory.
pub(super) type Shared = Arc<Mutex<Directory>>;

pub(super) fn at(directory: &Shared) -> MutexGuard<'_, Directory> {
    directory.lock().expect("one thread")
}

impl Directory {
    pub(super) fn new(first: Decision) -> Shared {
        Arc::new(Mutex::new(Directory { log: vec![first], peers: None }))
    }

    /// Returns the decision in force.
    pub(super) fn newest(&self) -> &Decision {
        self.log.last().expect("there is a first")
    }

    /// Returns the decision at this position of the log.
    pub(super) fn entry(&self, at: usize) -> Option<&Decision> {
        self.log.get(at)
    }

    /// Returns the position of the newest decision.
    pub(super) fn last(&self) -> usize {
        self.log.len() - 1
    }

    pub(super) fn decide(&mut self, next: Decision) {
        let changes = self.newest().changes + 1;
        self.log.push(Decision { changes, ..next });
    }

    fn decide_ring(&mut self, ring: Ring) {
        self.decide(Decision { ring, ..self.newest().clone() });
    }

    /// Renews the ring, as a change of some other partition does.
    pub(super) fn renew_ring(&mut self) {
        self.decide_ring(self.newest().ring.clone().with_next_epoch());
    }

    /// Applies a node's report, as `directory/ring.rs` does.
    fn apply_report(&mut self, call: &RingCall) {
        let (ring, numbers) = (&self.newest().ring, self.newest().numbers());
        let next = match call {
            RingCall::Received { since, partition, node } => {
                ring.receive(*since, (*partition, *node), &numbers)
            }
            RingCall::Cleared { partition, partitions, node } => {
                ring.clear_leftovers((*partition, *partitions), *node)
            }
            other => panic!("no node says {other:?}"),
        };
        next.into_iter().for_each(|ring| self.decide_ring(ring));
    }

    /// Removes nodes that are no members any more from those that the ring waits for.
    fn remove_former_members(&mut self) {
        let Decision { ring, nodes, .. } = self.newest();
        let (removed, numbers) = (|node| !nodes.contains(&node), self.newest().numbers());
        let next =
            ring.clone().without_leftovers_of(removed).without_receivers_of(removed, &numbers);
        if next != *ring {
            self.decide_ring(next.with_next_epoch());
        }
    }

    /// Replaces a member that has lost its data by a new one.
    pub(super) fn replace_member(&mut self, nth: usize, new: NodeId) {
        let mut next = self.newest().clone();
        next.nodes[nth] = new;
        self.decide(next);
        self.remove_former_members();
    }
}

/// Receiver of calls to the directory.
struct DirectoryReceiver(Weak<Mutex<Directory>>);

impl Sink for DirectoryReceiver {
    fn deliver(&self, _: IncomingMessage) {}
    fn connected(&self, _: NodeId, _: Incarnation) {}
    fn broken(&self, _: NodeId, _: &Broken) {}
}

impl Receiver for DirectoryReceiver {
    fn deliver_call(&self, asked: IncomingCall) {
        let directory = self.0.upgrade().expect("it never falls");
        let request = Request::read(&asked.payload.slice(LETTER_HEAD..)).expect("it reads");
        match &request.call {
            Call::Directory(DirectoryCall::Ring(call)) => {
                at(&directory).apply_report(call);
                at(&directory).remove_former_members();
            }
            Call::Directory(DirectoryCall::Index(IndexCall::Report(report))) => {
                at(&directory).apply_index_report(report);
            }
            other => panic!("no node asks the directory that: {other:?}"),
        }
        let answer: Result<Reply> = Ok(Reply::new(LogIndex(0), Body::Done));
        let mut bytes = Vec::new();
        write_answer(&answer, usize::MAX, &mut bytes);
        let peers = at(&directory).peers.clone().expect("it has its place");
        let _ = peers.answer(&asked, Bytes::from(bytes));
    }
}

/// Opens the directory's endpoint in the network.
pub(super) fn open(directory: &Shared, port: Port) {
    let clerk = Arc::new(DirectoryReceiver(Arc::downgrade(directory)));
    at(directory).peers = Some(port.connect((DIRECTORY, 1), 0, clerk));
}

/// Delivers decisions to a node, for ever.
pub(super) async fn deliver_decision(world: Rc<World>, nth: usize) {
    loop {
        let lag = world.lag_us;
        let pause = world.scheduler.draw(|chance| chance.between(lag / 20, lag));
        world.scheduler.sleep_us(pause).await;
        let linked = world.network.is_open(nth, world.count);
        if !linked || world.scheduler.is_paused(nth) {
            continue;
        }
        let node = &mut world.nodes.borrow_mut()[nth];
        let directory = at(&world.directory);
        let (heard, last) = (node.place.delivered, directory.last());
        if heard == last {
            continue;
        }
        // Decisions come in order, all or some of them. A node that is far behind gets a snapshot,
        // and misses those in between.
        let (how, some) = world.scheduler.draw(|chance| {
            (chance.below(10), chance.between(heard as u64 + 1, last as u64) as usize)
        });
        let end = if how < 3 { some } else { last };
        let from = if how == 9 { last } else { heard + 1 };
        for next in from..=end {
            let decision = directory.entry(next).expect("it was decided");
            world.scheduler.run_as_node(nth, || node.deliver(next, decision));
        }
    }
}

/// Changes the ring until the trouble ends.
pub(super) async fn changes(world: Rc<World>) {
    let scheduler = &world.scheduler;
    while world.injects_faults() {
        let pause = scheduler.draw(|chance| chance.between(100_000, 2_500_000));
        scheduler.sleep_us(pause).await;
        let name = world.change_ring();
        world.tell(|| format!("ring: {name}"));
        world.journal.count(name);
    }
}

fn rack() -> Rack {
    Rack::default()
}

impl World {
    /// Starts, cancels or skips one change. Returns its name for the counts.
    fn change_ring(&self) -> &'static str {
        let pending = self.decision().ring.pending().is_some();
        if !pending && let Some(name) = self.replace_lost() {
            return name;
        }
        if !self.moves {
            return "ring stays";
        }
        if pending {
            // No partition is handed back to a node that no longer exists.
            let off = self.lost().is_none() && self.scheduler.draw(|chance| chance.draw_bool(250));
            return if off { self.cancel_change() } else { "ring still changes" };
        }
        let decision = self.decision();
        let (here, spare): (Vec<_>, Vec<_>) = decision
            .nodes
            .iter()
            .partition(|node| decision.ring.layout().nodes().contains_key(node));
        let (kind, one, other) = self.scheduler.draw(|chance| {
            let one = chance.below(here.len() as u64) as usize;
            (chance.below(5), here[one], spare.get(chance.below(spare.len() as u64) as usize))
        });
        let (change, name) = match (kind, other) {
            (0, Some(node)) => (RingChangeRequest::Join { node: *node, rack: rack() }, "ring join"),
            (1, Some(new)) => {
                (RingChangeRequest::Replace { old: one, new: *new, rack: rack() }, "ring replace")
            }
            (3, _) if decision.ring.partitions() < 32 => (RingChangeRequest::Double, "ring double"),
            (3 | 4, _) => (RingChangeRequest::Halve, "ring halve"),
            _ => (RingChangeRequest::Leave { node: one }, "ring leave"),
        };
        if self.begin_change(change) { name } else { "ring change refused" }
    }

    fn cancel_change(&self) -> &'static str {
        let (decision, numbers) = (self.decision(), self.decision().numbers());
        let cancelled = decision.ring.cancel(&numbers);
        let ring = cancelled.expect("a change is under way").mark_idle_arrived(&numbers);
        let down = self.down();
        if ring.awaited_receivers(&numbers).iter().any(|node| down.contains(node)) {
            return "ring change goes on";
        }
        at(&self.directory).decide_ring(ring);
        "ring change called off"
    }

    /// Returns a node that has a place in the ring and is no member any more.
    fn lost(&self) -> Option<NodeId> {
        let decision = self.decision();
        decision.ring.layout().nodes().keys().find(|node| !decision.nodes.contains(node)).copied()
    }

    /// Gives the place of a node that lost its disk to its successor, which has a new id.
    fn replace_lost(&self) -> Option<&'static str> {
        let (decision, old) = (self.decision(), self.lost()?);
        let new = decision.nodes.iter().find(|node| node.0 == old.0 + 100).expect("it has come");
        let has_place = decision.ring.layout().nodes().contains_key(new);
        let change = match has_place {
            true => RingChangeRequest::Leave { node: old },
            false => RingChangeRequest::Replace { old, new: *new, rack: rack() },
        };
        Some(if self.begin_change(change) { "ring rejoin" } else { "ring rejoin refused" })
    }

    /// Returns the nodes that are down, among the members and those with a place in the ring.
    fn down(&self) -> BTreeSet<NodeId> {
        let (decision, nodes) = (self.decision(), self.nodes.borrow());
        let is_alive =
            |node: &NodeId| nodes.iter().any(|it| it.id == *node && it.process.is_some());
        let all = decision.ring.layout().nodes().keys().chain(&decision.nodes);
        all.copied().filter(|node| !is_alive(node)).collect()
    }

    /// Starts a change, unless it is unsafe.
    pub(super) fn begin_change(&self, change: RingChangeRequest) -> bool {
        let decision = self.decision();
        let down = self.down();
        let Ok(planned) = plan(&decision.ring, &[change], COPIES, &down) else { return false };
        let ring = decision.ring.commit(&planned).expect("the ring is as it was");
        at(&self.directory).decide_ring(ring.mark_idle_arrived(&decision.numbers()));
        true
    }

    /// Returns the work that the ring still has once the trouble has ended. `None`: it is settled.
    pub(super) fn ring_work(&self) -> Option<String> {
        let decision = self.decision();
        if let Some(pending) = decision.ring.pending() {
            return Some(format!("{} partitions have gone over", pending.arrived()));
        }
        if let Some(name) = self.replace_lost() {
            return Some(name.into());
        }
        let remaining = decision
            .nodes
            .iter()
            .find(|node| decision.ring.leftover_partitions(**node).next().is_some());
        if let Some(node) = remaining {
            let nodes = self.nodes.borrow();
            let is_present = nodes.iter().find(|it| it.id == *node);
            let running = is_present.and_then(|it| it.running()).expect("everyone lives");
            let mut how = RingTransfer::default();
            running.router.available.handoff_tracker.fill_transfer(&mut how);
            let partitions: Vec<_> = decision.ring.leftover_partitions(*node).collect();
            return Some(format!("node {node} has {partitions:?} left: {}", how.waits_for));
        }
        let last = at(&self.directory).last();
        let nodes = self.nodes.borrow();
        let late = nodes.iter().find(|node| node.place.delivered < last);
        late.map(|node| format!("node {} has not heard", node.id))
    }
}
