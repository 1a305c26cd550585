//! Network between simulated nodes: links that break and are restored; messages that are delayed,
//! lost, duplicated or overtaken. A message arrives only over the link on which it was sent.
//!
//! A link is refused to an incarnation that the peer or the cluster knows to be outdated.

use crate::leaks;
use crate::profile::{Cuts, FaultProfile, ways_between, ways_from, ways_to};
use crate::scheduler::Scheduler;
use base::NodeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Interval between two checks of the links, in microseconds.
const LOOK_US: u64 = 100_000;
/// Silence after which a link breaks, in microseconds.
const SILENCE_US: u64 = 1_500_000;

/// Receiver of a node's messages and of events of its links.
pub trait Inbox<M>: Send + Sync {
    /// Takes a message from a node in this incarnation.
    fn deliver(&self, from: NodeId, incarnation: u64, message: M);
    /// Learns that a link to a node in this incarnation is up.
    fn connected(&self, node: NodeId, incarnation: u64);
    /// Learns that the link to a node is broken.
    fn broken(&self, node: NodeId);
}

/// Endpoint of a node in one incarnation.
pub struct NetworkEnd<M> {
    /// The node.
    pub node: NodeId,
    /// Incarnation of the node.
    pub incarnation: u64,
    /// Number of the process; two processes may claim one incarnation.
    pub process: u64,
    /// Receiver of its messages.
    pub inbox: Arc<dyn Inbox<M>>,
}

impl<M> Clone for NetworkEnd<M> {
    fn clone(&self) -> NetworkEnd<M> {
        NetworkEnd { inbox: Arc::clone(&self.inbox), ..*self }
    }
}

/// Link from one endpoint to another; it ends when either of them ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct NetworkLink {
    from: usize,
    /// The other end.
    pub to: usize,
    number: u64,
}

/// Link of a message, and the faults that may hit the message.
pub struct Posting {
    /// The link.
    pub link: NetworkLink,
    /// True if the network may duplicate the message.
    pub may_repeat: bool,
    /// True if the duplicate may arrive long after the original.
    pub may_age: bool,
}

/// Latest incarnation of another node that a process knows, and the process that had it.
#[derive(Clone, Copy, Default)]
struct KnownLife {
    incarnation: u64,
    process: Option<u64>,
}

/// Network between all nodes; see the head of this file. Clones share its state.
pub struct FaultyNetwork<M>(Arc<Mutex<Links<M>>>);

impl<M> Clone for FaultyNetwork<M> {
    fn clone(&self) -> FaultyNetwork<M> {
        FaultyNetwork(Arc::clone(&self.0))
    }
}

/// State of the network.
struct Links<M> {
    ends: Vec<Option<NetworkEnd<M>>>,
    /// Link numbers, by the lower endpoint and the higher.
    links: BTreeMap<(usize, usize), u64>,
    /// Start of the silence of a link, in either direction.
    silent: BTreeMap<(usize, usize), u64>,
    cuts: Cuts,
    /// Incarnations of other nodes that each process knows.
    known: BTreeMap<(usize, NodeId), KnownLife>,
    /// Highest incarnation of each node that was ever linked.
    recorded: BTreeMap<NodeId, u64>,
    next: u64,
    profile: FaultProfile,
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

impl<M> Links<M> {
    /// Returns true if messages are cut off in at least one direction between two nodes.
    fn is_cut_off(&self, one: usize, other: usize) -> bool {
        self.cuts.is_cut(one, other) || self.cuts.is_cut(other, one)
    }

    /// Returns true if the process at `here` admits the one at `there`: an incarnation that is not
    /// outdated, and not one that another process had.
    fn admits(&self, here: usize, there: usize) -> bool {
        let Some(Some(end)) = self.ends.get(there) else { return false };
        let known = self.known.get(&(here, end.node)).copied().unwrap_or_default();
        let recorded = self.recorded.get(&end.node).copied().unwrap_or(0);
        let seen = known.incarnation.max(recorded);
        let twice = known.incarnation == end.incarnation
            && known.process.is_some_and(|process| process != end.process);
        end.incarnation >= seen && !twice
    }

    fn link(&mut self, one: usize, other: usize) {
        self.next += 1;
        self.links.insert(pair(one, other), self.next);
        for (here, there) in [(one, other), (other, one)] {
            let Some(end) = &self.ends[there] else { continue };
            let known = KnownLife { incarnation: end.incarnation, process: Some(end.process) };
            let recorded = self.recorded.entry(end.node).or_default();
            *recorded = (*recorded).max(end.incarnation);
            self.known.insert((here, end.node), known);
        }
    }

    fn find(&self, node: NodeId) -> Option<usize> {
        self.ends.iter().position(|end| end.as_ref().is_some_and(|end| end.node == node))
    }
}

impl<M: Clone + Send + 'static> FaultyNetwork<M> {
    /// Returns a network of this many nodes, all of them down.
    pub fn new(count: usize, profile: FaultProfile) -> FaultyNetwork<M> {
        let links = Arc::new(Mutex::new(Links {
            ends: (0..count).map(|_| None).collect(),
            links: BTreeMap::new(),
            silent: BTreeMap::new(),
            cuts: Cuts::default(),
            known: BTreeMap::new(),
            recorded: BTreeMap::new(),
            next: 0,
            profile,
        }));
        leaks::watch("the network", &links);
        FaultyNetwork(links)
    }

    fn links(&self) -> MutexGuard<'_, Links<M>> {
        self.0.lock().expect("one thread")
    }

    /// Changes the fault profile.
    pub fn set_profile(&self, change: impl FnOnce(&mut FaultProfile)) {
        change(&mut self.links().profile);
    }

    /// Starts an incarnation of a node.
    pub fn begins(&self, node: usize, end: NetworkEnd<M>) {
        let mut links = self.links();
        links.known.retain(|(knows, _), _| *knows != node);
        links.ends[node] = Some(end);
    }

    /// Ends a node's incarnation: its links break.
    pub fn ends(&self, node: usize) {
        let count = self.links().ends.len();
        (0..count).filter(|other| *other != node).for_each(|other| self.unlink(node, other));
        self.links().ends[node] = None;
    }

    fn unlink(&self, one: usize, other: usize) {
        let mut links = self.links();
        links.silent.remove(&pair(one, other));
        if links.links.remove(&pair(one, other)).is_none() {
            return;
        }
        let ends = [(one, other), (other, one)].map(|(to, of)| {
            let node = links.ends[of].as_ref().map(|end| end.node);
            (to, links.ends[to].clone(), node)
        });
        drop(links);
        for (to, end, node) in ends {
            if let (Some(end), Some(node)) = (end, node) {
                let broken = async move { end.inbox.broken(node) };
                Scheduler::current().begin(Some(to), broken);
            }
        }
    }

    /// Makes and breaks links, for ever.
    pub async fn run(self) {
        let count = self.links().ends.len();
        let scheduler = Scheduler::current();
        loop {
            for one in 0..count {
                (one + 1..count).for_each(|other| self.look(&scheduler, one, other));
            }
            scheduler.sleep_us(LOOK_US).await;
        }
    }

    fn look(&self, scheduler: &Scheduler, one: usize, other: usize) {
        let mut links = self.links();
        let alive = links.ends[one].is_some() && links.ends[other].is_some();
        let is_paused = scheduler.is_paused(one) || scheduler.is_paused(other);
        let quiet = links.is_cut_off(one, other) || is_paused;
        let linked = links.links.contains_key(&pair(one, other));
        if !quiet {
            links.silent.remove(&pair(one, other));
        }
        if linked && quiet {
            let since = *links.silent.entry(pair(one, other)).or_insert(scheduler.now());
            if since + SILENCE_US <= scheduler.now() {
                drop(links);
                self.unlink(one, other);
            }
            return;
        }
        if linked || quiet || !alive || !links.admits(one, other) || !links.admits(other, one) {
            return;
        }
        links.link(one, other);
        for (to, of) in [(one, other), (other, one)] {
            let (Some(end), Some(met)) = (links.ends[to].clone(), links.ends[of].clone()) else {
                continue;
            };
            let connected = async move { end.inbox.connected(met.node, met.incarnation) };
            scheduler.begin(Some(to), connected);
        }
    }

    /// Returns the link from a node to another. `None`: there is no link.
    pub fn link(&self, from: usize, to: NodeId) -> Option<NetworkLink> {
        let links = self.links();
        let to = links.find(to)?;
        let number = *links.links.get(&pair(from, to))?;
        Some(NetworkLink { from, to, number })
    }

    /// Sends a message over a link.
    pub fn send(&self, posting: &Posting, message: &M) {
        let scheduler = Scheduler::current();
        let mut profile = self.links().profile;
        if !posting.may_age {
            profile.stale = 0;
        }
        let copies = if posting.may_repeat { scheduler.draw(|it| profile.copies(it)) } else { 1 };
        for copy in 0..copies {
            if scheduler.draw(|chance| chance.often(profile.loss)) {
                continue;
            }
            let (delay, _) = scheduler.draw(|chance| profile.delay(copy, chance));
            let (network, message, link) = (self.clone(), message.clone(), posting.link);
            scheduler.begin_after(delay, move || network.arrives(link, message));
        }
    }

    fn arrives(&self, link: NetworkLink, message: M) {
        let links = self.links();
        let NetworkLink { from, to, number } = link;
        if links.links.get(&pair(from, to)) != Some(&number) || links.cuts.is_cut(from, to) {
            return;
        }
        let (Some(sender), Some(end)) = (links.ends[from].clone(), links.ends[to].clone()) else {
            return;
        };
        drop(links);
        let deliver = async move { end.inbox.deliver(sender.node, sender.incarnation, message) };
        Scheduler::current().begin(Some(to), deliver);
    }

    /// Returns the duration of the silence on a link, in milliseconds. `None`: there is no link.
    pub fn silent_ms(&self, from: usize, to: NodeId) -> Option<u64> {
        let links = self.links();
        let ends = pair(from, links.find(to)?);
        let since = links.silent.get(&ends).copied();
        let now = Scheduler::current().now();
        links.links.get(&ends).map(|_| since.map_or(0, |since| (now - since) / 1_000))
    }

    /// Returns true if there is a link, whether or not it is cut.
    pub fn is_linked(&self, one: usize, other: usize) -> bool {
        self.links().links.contains_key(&pair(one, other))
    }

    /// Returns true if messages pass in both directions now.
    pub fn is_open(&self, one: usize, other: usize) -> bool {
        self.is_linked(one, other) && !self.links().is_cut_off(one, other)
    }

    /// Cuts the direction from one node to another.
    pub fn cut(&self, from: usize, to: usize) {
        self.links().cuts.cut(from, to);
    }

    /// Removes one cut of a direction.
    pub fn mend(&self, from: usize, to: usize) {
        self.links().cuts.mend(from, to);
    }

    /// Cuts these directions for `time_us` microseconds.
    pub fn cut_for(&self, ways: impl Iterator<Item = (usize, usize)>, time_us: u64) {
        let ways: Vec<_> = ways.collect();
        ways.iter().for_each(|(from, to)| self.cut(*from, *to));
        let network = self.clone();
        let mend = move || ways.iter().for_each(|(from, to)| network.mend(*from, *to));
        Scheduler::current().begin_after(time_us, mend);
    }

    /// Cuts a node off from all others for `time_us` microseconds.
    pub fn isolate_for(&self, node: usize, time_us: u64) {
        let count = self.links().ends.len();
        self.cut_for(ways_from(node, count).chain(ways_to(node, count)), time_us);
    }

    /// Partitions the nodes into two sides for `time_us` microseconds. `half`: bit mask of the
    /// nodes on one side.
    pub fn split_for(&self, half: u64, time_us: u64) {
        let count = self.links().ends.len();
        self.cut_for(ways_between(half, count), time_us);
    }

    /// Removes all cuts and message faults.
    pub fn heal(&self) {
        let mut links = self.links();
        links.cuts.heal();
        links.profile = FaultProfile::calm();
    }
}
