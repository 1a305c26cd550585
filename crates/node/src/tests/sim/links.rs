//! The network between nodes: links that break and come back, and messages that are late, lost,
//! doubled or overtaken, as long as both ends live the lives they lived when it was sent.
//!
//! A link is refused to a life that the other side, or the cluster, has outlived: as greetings do
//! (`peers/handshake.rs`).

use super::chance::Chance;
use super::stage::{Stage, here};
use base::{GroupId, NodeId};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use transport::{
    Boxed, Broken, CallKind, Credit, Incarnation, IncomingMessage, Lane, Member, Message, Network,
    PeerStatus, Sending, Sink,
};

/// Every message takes at least so long, microseconds.
const WAY_US: u64 = 100;
/// A link is looked at so often, and breaks when nothing was heard for so long.
const LOOK_US: u64 = 100_000;
const SILENCE_US: u64 = 1_500_000;

/// What a member of a group said may come again when it is so old, microseconds.
const OLD_US: (u64, u64) = (50_000, 10_000_000);

/// One end: a node in one of its lives.
#[derive(Clone)]
pub(super) struct End {
    pub node: NodeId,
    pub incarnation: u64,
    /// Which process lives it.
    pub process: u64,
    pub sink: Arc<dyn Sink>,
}

/// What a process knows of another node's lives.
#[derive(Clone, Copy, Default)]
struct Known {
    incarnation: u64,
    process: Option<u64>,
}

/// All links.
#[derive(Default)]
pub(super) struct Links {
    ends: Vec<Option<End>>,
    /// Numbers of links, by the lower end and the higher.
    links: BTreeMap<(usize, usize), u64>,
    /// Since when nothing is heard on a link, one way or the other.
    silent: BTreeMap<(usize, usize), u64>,
    /// How many cuts lie on each way.
    cuts: BTreeMap<(usize, usize), u32>,
    /// What each process knows of the others.
    known: BTreeMap<(usize, NodeId), Known>,
    /// The highest life of each node that is on record.
    recorded: BTreeMap<NodeId, u64>,
    next: u64,
    /// Messages lost and doubled, in thousandths, and how late they may be, microseconds.
    pub weather: (u64, u64, u64),
    /// Of those of a group's members that come twice so many, in thousandths, come again when they
    /// are old.
    pub old: u64,
    /// Some, in thousandths, are later still, by this or up to a half more, microseconds.
    pub stragglers: (u64, u64),
    pub trace: DefaultHasher,
    pub messages: u64,
    pub bytes: u64,
}

/// The links, shared by all who send.
pub(super) type Hub = Arc<Mutex<Links>>;

pub(super) fn at(hub: &Hub) -> MutexGuard<'_, Links> {
    hub.lock().expect("one thread")
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

impl Links {
    pub(super) fn of(count: usize) -> Links {
        Links { ends: (0..count).map(|_| None).collect(), ..Links::default() }
    }

    /// A node begins a life.
    pub(super) fn begins(&mut self, which: usize, end: End) {
        self.known.retain(|(knows, _), _| *knows != which);
        self.ends[which] = Some(end);
    }

    pub(super) fn cut(&mut self, from: usize, to: usize) {
        *self.cuts.entry((from, to)).or_default() += 1;
    }

    pub(super) fn mend(&mut self, from: usize, to: usize) {
        let cuts = self.cuts.entry((from, to)).or_default();
        *cuts = cuts.saturating_sub(1);
    }

    /// No more trouble.
    pub(super) fn heal(&mut self) {
        self.cuts.clear();
        self.weather = (0, 0, 500);
        self.old = 0;
        self.stragglers = (0, 0);
    }

    /// Whether what one says reaches the other now, and the other way round.
    pub(super) fn is_open(&self, one: usize, other: usize) -> bool {
        let linked = self.is_linked(one, other);
        linked && !self.is_cut(one, other) && !self.is_cut(other, one)
    }

    /// Whether there is a link, cut or not.
    pub(super) fn is_linked(&self, one: usize, other: usize) -> bool {
        self.links.contains_key(&pair(one, other))
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.cuts.get(&(from, to)).is_some_and(|cuts| *cuts > 0)
    }

    /// Whether this process lets that one in.
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
            let known = Known { incarnation: end.incarnation, process: Some(end.process) };
            let recorded = self.recorded.entry(end.node).or_default();
            *recorded = (*recorded).max(end.incarnation);
            self.known.insert((here, end.node), known);
        }
    }

    fn find(&self, node: NodeId) -> Option<usize> {
        self.ends.iter().position(|end| end.as_ref().is_some_and(|end| end.node == node))
    }
}

/// A node ends: its links break.
pub(super) fn ends(hub: &Hub, which: usize) {
    let count = at(hub).ends.len();
    (0..count).filter(|other| *other != which).for_each(|other| unlink(hub, which, other));
    at(hub).ends[which] = None;
}

fn unlink(hub: &Hub, one: usize, other: usize) {
    let mut links = at(hub);
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
            here().begin(Some(to), async move { end.sink.broken(node, &Broken::Ended) });
        }
    }
}

/// Looks after the links for ever.
pub(super) async fn run(hub: Hub, stage: Rc<Stage>) {
    let count = at(&hub).ends.len();
    loop {
        for one in 0..count {
            for other in one + 1..count {
                look(&hub, &stage, one, other);
            }
        }
        stage.rest(LOOK_US).await;
    }
}

fn look(hub: &Hub, stage: &Stage, one: usize, other: usize) {
    let mut links = at(hub);
    let alive = links.ends[one].is_some() && links.ends[other].is_some();
    let quiet = links.is_cut(one, other)
        || links.is_cut(other, one)
        || stage.is_paused(one)
        || stage.is_paused(other);
    let linked = links.links.contains_key(&pair(one, other));
    if !quiet {
        links.silent.remove(&pair(one, other));
    }
    if linked && quiet {
        let since = *links.silent.entry(pair(one, other)).or_insert(stage.now());
        if since + SILENCE_US <= stage.now() {
            drop(links);
            unlink(hub, one, other);
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
        let incarnation = Incarnation(met.incarnation);
        stage.begin(Some(to), async move { end.sink.connected(met.node, incarnation) });
    }
}

/// A node's way into the network.
pub(super) struct Wire {
    pub which: usize,
    pub hub: Hub,
}

impl Network for Wire {
    fn send(&self, to: NodeId, message: Message) -> Sending {
        let stage = here();
        let mut links = at(&self.hub);
        let Some(to) = links.find(to) else { return Sending::NoLink };
        let Some(link) = links.links.get(&pair(self.which, to)).copied() else {
            return Sending::NoLink;
        };
        if message.receipt.as_ref().is_some_and(|receipt| !receipt.leave()) {
            return Sending::Sent;
        }
        let payload = Bytes::from([message.head.bytes(), &message.body].concat());
        (stage.now(), self.which, to, &payload[..]).hash(&mut links.trace);
        links.messages += 1;
        links.bytes += payload.len() as u64;
        let ((lost, doubled, late), (some, by)) = (links.weather, links.stragglers);
        let old = if message.lane == Lane::Call { 0 } else { links.old };
        let copies =
            1 + u64::from(may_come_twice(&message, &payload) && stage.dice(|d| d.often(doubled)));
        drop(links);
        for copy in 0..copies {
            if !stage.dice(|dice| dice.often(lost)) {
                let mut way = WAY_US + stage.dice(|dice| Chance::below(dice, late));
                if copy > 0 && old > 0 && stage.dice(|dice| dice.often(old)) {
                    way += stage.dice(|dice| dice.between(OLD_US.0, OLD_US.1));
                }
                if some > 0 && stage.dice(|dice| dice.often(some)) {
                    way += stage.dice(|dice| dice.between(by, by + by / 2));
                }
                let (from, payload) = (self.which, payload.clone());
                let Message { lane, group, .. } = message;
                let letter = Letter { from, to, link, lane, group, payload };
                let (hub, hall) = (self.hub.clone(), Rc::clone(&stage));
                stage.begin(None, async move {
                    hall.rest(way).await;
                    letter.arrives(&hub);
                });
            }
        }
        Sending::Sent
    }

    fn linked(&self, to: NodeId) -> bool {
        let links = at(&self.hub);
        links.find(to).is_some_and(|to| links.links.contains_key(&pair(self.which, to)))
    }

    fn silent_ms(&self, to: NodeId) -> Option<u64> {
        let links = at(&self.hub);
        let ends = pair(self.which, links.find(to)?);
        let since = links.silent.get(&ends).copied();
        links.links.get(&ends).map(|_| since.map_or(0, |since| (here().now() - since) / 1_000))
    }

    fn bulk_room(&self, _to: NodeId) -> Boxed<'_, Sending> {
        Box::pin(async { Sending::NoLink })
    }

    fn set_members(&self, _members: Vec<Member>) {}

    fn status(&self) -> Vec<PeerStatus> {
        Vec::new()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

/// What is sent between vnodes is merged, and what members of a group say may come twice; a request
/// that was passed on is a write of its own each time, and the network promises not to double it,
/// nor what the directory is told.
fn may_come_twice(message: &Message, payload: &[u8]) -> bool {
    const HEAD: usize = 13;
    const PASSED_ON: u8 = 2;
    const ENVELOPE: u8 = 8;
    if message.lane != Lane::Call {
        return true;
    }
    let kind = match payload.get(HEAD + 1) {
        Some(&ENVELOPE) => payload.get(HEAD + 11),
        other => other,
    };
    let call = payload.get(HEAD..).and_then(CallKind::of);
    let is_request = matches!(call, Some(CallKind::Request | CallKind::RequestForVersion));
    kind != Some(&PASSED_ON) && !is_request
}

struct Letter {
    from: usize,
    to: usize,
    link: u64,
    lane: Lane,
    group: GroupId,
    payload: Bytes,
}

impl Letter {
    fn arrives(self, hub: &Hub) {
        let links = at(hub);
        let Letter { from, to, link, lane, group, payload } = self;
        if links.links.get(&pair(from, to)) != Some(&link) || links.is_cut(from, to) {
            return;
        }
        let (Some(sender), Some(end)) = (links.ends[from].clone(), links.ends[to].clone()) else {
            return;
        };
        drop(links);
        let incarnation = Incarnation(sender.incarnation);
        let message = IncomingMessage {
            from: sender.node,
            incarnation,
            lane,
            group,
            payload,
            credit: Credit::none(),
        };
        here().begin(Some(to), async move { end.sink.deliver(message) });
    }
}
