//! Network between simulated nodes: links that break and are restored; messages that are delayed,
//! lost, duplicated or overtaken. A message arrives only over the link on which it was sent.
//!
//! A link is refused to an incarnation that the peer or the cluster knows to be outdated.

use crate::leaks;
use crate::profile::{Cuts, FaultProfile, directions_between, directions_from, directions_to};
use crate::scheduler::Scheduler;
use base::NodeId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Interval between two checks of the links, in microseconds.
const LINK_CHECK_US: u64 = 100_000;
/// Silence after which a link breaks, in microseconds.
const SILENCE_US: u64 = 1_500_000;

/// Receiver of a node's messages and of events of its links.
pub trait Inbox<M>: Send + Sync {
    /// Receives a message from a node in this incarnation.
    fn deliver(&self, from: NodeId, incarnation: u64, message: M);
    /// Receives the event that a link to a node in this incarnation is up.
    fn connected(&self, node: NodeId, incarnation: u64);
    /// Receives the event that the link to a node is broken.
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
    pub may_be_stale: bool,
}

/// Latest incarnation of another node that a process has seen, and the process that had it.
#[derive(Clone, Copy, Default)]
struct KnownIncarnation {
    incarnation: u64,
    process: Option<u64>,
}

/// Messages that a node sent to another.
#[derive(Clone, Copy, Debug, Default)]
pub struct SentMessages {
    /// Number of messages.
    pub messages: u64,
    /// Number of milliseconds in which at least one was sent: they share a write.
    pub writes: u64,
    /// The last such millisecond.
    last_ms: Option<u64>,
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
    endpoints: Vec<Option<NetworkEnd<M>>>,
    /// Link numbers, by the lower endpoint and the higher.
    links: BTreeMap<(usize, usize), u64>,
    /// Start of the silence of a link, in either direction.
    silent_since: BTreeMap<(usize, usize), u64>,
    cuts: Cuts,
    /// Incarnations of other nodes that each process has seen.
    known_incarnations: BTreeMap<(usize, NodeId), KnownIncarnation>,
    /// Highest incarnation of each node that was ever linked.
    highest_incarnations: BTreeMap<NodeId, u64>,
    /// Messages sent, by the sending endpoint and the receiving one.
    sent: BTreeMap<(usize, usize), SentMessages>,
    last_link: u64,
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
        let Some(Some(end)) = self.endpoints.get(there) else { return false };
        let known = self.known_incarnations.get(&(here, end.node)).copied().unwrap_or_default();
        let recorded = self.highest_incarnations.get(&end.node).copied().unwrap_or(0);
        let newest = known.incarnation.max(recorded);
        let is_duplicate = known.incarnation == end.incarnation
            && known.process.is_some_and(|process| process != end.process);
        end.incarnation >= newest && !is_duplicate
    }

    fn link(&mut self, one: usize, other: usize) {
        self.last_link += 1;
        self.links.insert(pair(one, other), self.last_link);
        for (here, there) in [(one, other), (other, one)] {
            let Some(end) = &self.endpoints[there] else { continue };
            let known =
                KnownIncarnation { incarnation: end.incarnation, process: Some(end.process) };
            let recorded = self.highest_incarnations.entry(end.node).or_default();
            *recorded = (*recorded).max(end.incarnation);
            self.known_incarnations.insert((here, end.node), known);
        }
    }

    fn count_sent(&mut self, link: NetworkLink, now_ms: u64) {
        let sent = self.sent.entry((link.from, link.to)).or_default();
        sent.messages += 1;
        sent.writes += u64::from(sent.last_ms.replace(now_ms) != Some(now_ms));
    }

    fn endpoint_of(&self, node: NodeId) -> Option<usize> {
        self.endpoints.iter().position(|end| end.as_ref().is_some_and(|end| end.node == node))
    }
}

impl<M: Clone + Send + 'static> FaultyNetwork<M> {
    /// Returns a network of this many nodes, all of them down.
    pub fn new(count: usize, profile: FaultProfile) -> FaultyNetwork<M> {
        let links = Arc::new(Mutex::new(Links {
            endpoints: (0..count).map(|_| None).collect(),
            links: BTreeMap::new(),
            silent_since: BTreeMap::new(),
            cuts: Cuts::default(),
            known_incarnations: BTreeMap::new(),
            highest_incarnations: BTreeMap::new(),
            sent: BTreeMap::new(),
            last_link: 0,
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
    pub fn start_node(&self, node: usize, end: NetworkEnd<M>) {
        let mut links = self.links();
        links.known_incarnations.retain(|(process, _), _| *process != node);
        links.endpoints[node] = Some(end);
    }

    /// Ends a node's incarnation: its links break.
    pub fn stop_node(&self, node: usize) {
        self.end_links(node);
        self.links().endpoints[node] = None;
    }

    /// Ends the links of a node, which lives on: both ends of each get the event.
    pub fn end_links(&self, node: usize) {
        let count = self.links().endpoints.len();
        (0..count).filter(|other| *other != node).for_each(|other| self.unlink(node, other));
    }

    fn unlink(&self, one: usize, other: usize) {
        let mut links = self.links();
        links.silent_since.remove(&pair(one, other));
        if links.links.remove(&pair(one, other)).is_none() {
            return;
        }
        let ends = [(one, other), (other, one)].map(|(to, of)| {
            let node = links.endpoints[of].as_ref().map(|end| end.node);
            (to, links.endpoints[to].clone(), node)
        });
        drop(links);
        for (to, end, node) in ends {
            if let (Some(end), Some(node)) = (end, node) {
                let broken = async move { end.inbox.broken(node) };
                Scheduler::current().spawn(Some(to), broken);
            }
        }
    }

    /// Connects and breaks links until the history ends.
    pub async fn run(self) {
        let count = self.links().endpoints.len();
        let scheduler = Scheduler::current();
        loop {
            for one in 0..count {
                (one + 1..count).for_each(|other| self.check_link(&scheduler, one, other));
            }
            scheduler.sleep_us(LINK_CHECK_US).await;
        }
    }

    fn check_link(&self, scheduler: &Scheduler, one: usize, other: usize) {
        let mut links = self.links();
        let both_up = links.endpoints[one].is_some() && links.endpoints[other].is_some();
        let is_paused = scheduler.is_paused(one) || scheduler.is_paused(other);
        let is_silent = links.is_cut_off(one, other) || is_paused;
        let is_linked = links.links.contains_key(&pair(one, other));
        if !is_silent {
            links.silent_since.remove(&pair(one, other));
        }
        if is_linked && is_silent {
            let since = *links.silent_since.entry(pair(one, other)).or_insert(scheduler.now());
            if since + SILENCE_US <= scheduler.now() {
                drop(links);
                self.unlink(one, other);
            }
            return;
        }
        if is_linked
            || is_silent
            || !both_up
            || !links.admits(one, other)
            || !links.admits(other, one)
        {
            return;
        }
        links.link(one, other);
        for (to, of) in [(one, other), (other, one)] {
            let (Some(end), Some(peer)) =
                (links.endpoints[to].clone(), links.endpoints[of].clone())
            else {
                continue;
            };
            let connected = async move { end.inbox.connected(peer.node, peer.incarnation) };
            scheduler.spawn(Some(to), connected);
        }
    }

    /// Returns the link from a node to another. `None`: there is no link.
    pub fn link(&self, from: usize, to: NodeId) -> Option<NetworkLink> {
        let links = self.links();
        let to = links.endpoint_of(to)?;
        let number = *links.links.get(&pair(from, to))?;
        Some(NetworkLink { from, to, number })
    }

    /// Returns what a node has sent to another since the start of the history.
    pub fn sent(&self, from: usize, to: usize) -> SentMessages {
        self.links().sent.get(&(from, to)).copied().unwrap_or_default()
    }

    /// Sends a message over a link.
    pub fn send(&self, posting: &Posting, message: &M) {
        let scheduler = Scheduler::current();
        self.links().count_sent(posting.link, scheduler.now() / 1_000);
        let mut profile = self.links().profile;
        if !posting.may_be_stale {
            profile.stale = 0;
        }
        let copies =
            if posting.may_repeat { scheduler.draw(|chance| profile.copies(chance)) } else { 1 };
        for copy in 0..copies {
            if scheduler.draw(|chance| chance.draw_bool(profile.loss)) {
                continue;
            }
            let (delay, _) = scheduler.draw(|chance| profile.delay(copy, chance));
            let (network, message, link) = (self.clone(), message.clone(), posting.link);
            scheduler.spawn_after(delay, move || network.handle_arrival(link, message));
        }
    }

    fn handle_arrival(&self, link: NetworkLink, message: M) {
        let links = self.links();
        let NetworkLink { from, to, number } = link;
        if links.links.get(&pair(from, to)) != Some(&number) || links.cuts.is_cut(from, to) {
            return;
        }
        let (Some(sender), Some(end)) =
            (links.endpoints[from].clone(), links.endpoints[to].clone())
        else {
            return;
        };
        drop(links);
        let deliver = async move { end.inbox.deliver(sender.node, sender.incarnation, message) };
        Scheduler::current().spawn(Some(to), deliver);
    }

    /// Returns the duration of the silence on a link, in milliseconds. `None`: there is no link.
    pub fn silent_ms(&self, from: usize, to: NodeId) -> Option<u64> {
        let links = self.links();
        let ends = pair(from, links.endpoint_of(to)?);
        let since = links.silent_since.get(&ends).copied();
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
        Scheduler::current().spawn_after(time_us, mend);
    }

    /// Cuts a node off from all others for `time_us` microseconds.
    pub fn isolate_for(&self, node: usize, time_us: u64) {
        let count = self.links().endpoints.len();
        self.cut_for(directions_from(node, count).chain(directions_to(node, count)), time_us);
    }

    /// Partitions the nodes into two sides for `time_us` microseconds. `half`: bit mask of the
    /// nodes on one side.
    pub fn split_for(&self, half: u64, time_us: u64) {
        let count = self.links().endpoints.len();
        self.cut_for(directions_between(half, count), time_us);
    }

    /// Removes all cuts and message faults.
    pub fn heal(&self) {
        let mut links = self.links();
        links.cuts.heal();
        links.profile = FaultProfile::calm();
    }
}
