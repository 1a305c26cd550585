//! The machine: what is heard of each node, and what follows.

use super::latency::NodeLatency;
use base::{Millis, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Without a link for so long, a node is down.
const DOWN_AFTER: Millis = Millis(1_000);
/// So many requests in a row that got no answer make a suspect of a node with a link.
const MISSES_MAX: u32 = 3;
/// A suspect with a link is probed so often.
const PROBE_EVERY: Millis = Millis(500);
/// So many probes in a row must be answered well; twice as many each time the node becomes suspect
/// again within [`RELAPSE_WITHIN`].
const PROBES_GOOD: u32 = 2;
const PROBES_GOOD_MAX: u32 = 32;
const RELAPSE_WITHIN: Millis = Millis(30_000);

/// What this node thinks of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// It is asked first.
    Up,
    /// Somebody else is asked in its place, and it is watched.
    Suspect,
    /// Somebody else is asked in its place.
    Down,
}

/// What was heard. Times are monotonic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// These are the other members; whoever is not named is forgotten.
    Members {
        /// All others.
        nodes: BTreeSet<NodeId>,
        /// The time.
        now: Millis,
    },
    /// There is a link to it.
    Connected {
        /// Whom.
        node: NodeId,
    },
    /// The link is gone.
    Broken {
        /// Whose.
        node: NodeId,
        /// The time.
        now: Millis,
    },
    /// It answered a request or a probe.
    Answered {
        /// Who.
        node: NodeId,
        /// How long it took.
        after: Millis,
        /// The time.
        now: Millis,
    },
    /// It could not be asked, or it could not do what was asked (overloaded, its disk is full).
    Failed {
        /// Who.
        node: NodeId,
        /// The time.
        now: Millis,
    },
    /// It has not answered.
    Unanswered {
        /// Who.
        node: NodeId,
        /// How long it was waited for.
        after: Millis,
        /// The time.
        now: Millis,
    },
    /// Time has passed; several times a second.
    Tick {
        /// The time.
        now: Millis,
    },
}

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This node is thought of otherwise from now on.
    Changed {
        /// Who.
        node: NodeId,
        /// As what from now on.
        to: Health,
    },
    /// Ask it something small, and tell how that went.
    Probe {
        /// Whom.
        node: NodeId,
    },
}

/// What is known of one node.
#[derive(Clone, Debug)]
struct NodeRecord {
    /// Since when there is no link; `None`: there is one.
    unlinked: Option<Millis>,
    misses: u32,
    pace: NodeLatency,
    doubt: Option<Doubt>,
    /// When it was last trusted again, and after how many good probes.
    recovered: Option<(Millis, u32)>,
    told: Health,
}

/// Why a node with a link is not trusted, and what it still has to show.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    good: u32,
    needed: u32,
    probe_at: Millis,
}

/// What one node knows of all others.
#[derive(Clone, Debug, Default)]
pub struct FailureDetector {
    nodes: BTreeMap<NodeId, NodeRecord>,
}

impl FailureDetector {
    /// Knows nobody yet.
    pub fn new() -> FailureDetector {
        FailureDetector::default()
    }

    /// What is thought of this node; a stranger is down.
    pub fn standing(&self, node: NodeId) -> Health {
        self.nodes.get(&node).map_or(Health::Down, |known| known.told)
    }

    /// Whether requests speak against a node, though there may be a link to it.
    pub fn doubts(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|known| known.doubt.is_some())
    }

    /// The members for whom somebody else is asked.
    pub fn down(&self) -> BTreeSet<NodeId> {
        let shunned = self.nodes.iter().filter(|(_, known)| known.told != Health::Up);
        shunned.map(|(node, _)| *node).collect()
    }

    /// All other members and what is thought of them, by node.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, Health)> {
        self.nodes.iter().map(|(node, known)| (*node, known.told))
    }

    /// Takes in what was heard; appends what follows.
    pub fn step(&mut self, event: Event, effects: &mut Vec<Effect>) {
        let now = match event {
            Event::Members { nodes, now } => {
                self.nodes.retain(|node, _| nodes.contains(node));
                for node in nodes {
                    self.nodes.entry(node).or_insert_with(|| NodeRecord::unheard_of(now));
                }
                now
            }
            Event::Connected { node } => {
                self.connected(node, effects);
                return;
            }
            Event::Broken { node, now } => {
                if let Some(known) = self.nodes.get_mut(&node) {
                    known.unlinked = known.unlinked.or(Some(now));
                }
                now
            }
            Event::Answered { node, after, now } => {
                self.answered(node, after, now);
                now
            }
            Event::Failed { node, now } => {
                self.missed(node, None, now);
                now
            }
            Event::Unanswered { node, after, now } => {
                self.missed(node, Some(after), now);
                now
            }
            Event::Tick { now } => {
                self.probe(now, effects);
                now
            }
        };
        self.tell(now, effects);
    }

    /// A link says that the node runs and is a member; what was wrong before the link broke may be
    /// gone with it, as after a restart.
    fn connected(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        let Some(known) = self.nodes.get_mut(&node) else { return };
        if known.unlinked.take().is_some() {
            known.misses = 0;
            known.pace.forget();
            known.doubt = None;
        }
        let to = if known.doubt.is_some() { Health::Suspect } else { Health::Up };
        if std::mem::replace(&mut known.told, to) != to {
            effects.push(Effect::Changed { node, to });
        }
    }

    fn answered(&mut self, node: NodeId, after: Millis, now: Millis) {
        let others = self.others(node);
        let Some(known) = self.nodes.get_mut(&node) else { return };
        known.misses = 0;
        known.pace.took(after);
        match &mut known.doubt {
            None if known.pace.is_slow(&others) => known.begin_doubt(now),
            None => {}
            Some(doubt) => {
                let good = NodeLatency::is_usual(after, &others);
                doubt.good = if good { doubt.good + 1 } else { 0 };
                if doubt.good >= doubt.needed {
                    known.recovered = Some((now, doubt.needed));
                    known.doubt = None;
                    known.pace.forget();
                }
            }
        }
    }

    fn missed(&mut self, node: NodeId, after: Option<Millis>, now: Millis) {
        let others = self.others(node);
        let Some(known) = self.nodes.get_mut(&node) else { return };
        known.misses = known.misses.saturating_add(1);
        if let Some(after) = after {
            known.pace.took(after);
        }
        match &mut known.doubt {
            Some(doubt) => doubt.good = 0,
            None if known.misses >= MISSES_MAX || known.pace.is_slow(&others) => {
                known.begin_doubt(now);
            }
            None => {}
        }
    }

    /// How long all others take that are trusted.
    fn others(&self, node: NodeId) -> Vec<NodeLatency> {
        let others = self.nodes.iter().filter(|(other, known)| {
            **other != node && known.doubt.is_none() && known.unlinked.is_none()
        });
        others.map(|(_, known)| known.pace).collect()
    }

    fn probe(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        for (node, known) in &mut self.nodes {
            if let Some(doubt) = known.doubt.as_mut().filter(|doubt| doubt.probe_at <= now)
                && known.unlinked.is_none()
            {
                doubt.probe_at = Millis(now.0.saturating_add(PROBE_EVERY.0));
                effects.push(Effect::Probe { node: *node });
            }
        }
    }

    fn tell(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        for (node, known) in &mut self.nodes {
            let to = known.standing(now);
            if std::mem::replace(&mut known.told, to) != to {
                effects.push(Effect::Changed { node: *node, to });
            }
        }
    }
}

impl NodeRecord {
    /// A member without a link so far: it is given time to be reached.
    fn unheard_of(now: Millis) -> NodeRecord {
        NodeRecord {
            unlinked: Some(now),
            misses: 0,
            pace: NodeLatency::default(),
            doubt: None,
            recovered: None,
            told: Health::Suspect,
        }
    }

    fn standing(&self, now: Millis) -> Health {
        match self.unlinked {
            // Down is not taken back by a clock that stands still, only by a link.
            Some(since) if now.0.saturating_sub(since.0) >= DOWN_AFTER.0 => Health::Down,
            Some(_) if self.told == Health::Down => Health::Down,
            Some(_) => Health::Suspect,
            None if self.doubt.is_some() => Health::Suspect,
            None => Health::Up,
        }
    }

    fn begin_doubt(&mut self, now: Millis) {
        let relapse = self.recovered.filter(|(at, _)| now.0 < at.0 + RELAPSE_WITHIN.0);
        let needed = match relapse {
            Some((_, before)) => (before * 2).min(PROBES_GOOD_MAX),
            None => PROBES_GOOD,
        };
        self.doubt = Some(Doubt { good: 0, needed, probe_at: now });
    }
}
