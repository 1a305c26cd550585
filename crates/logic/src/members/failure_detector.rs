//! Failure detector: state machine from observations of each node to its health.

use super::latency::NodeLatency;
use base::{Millis, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Time without a link after which a node is down.
const DOWN_AFTER: Millis = Millis(1_000);
/// Requests in a row without an answer after which a node with a link is a suspect.
const MISSES_MAX: u32 = 3;
/// Interval of probes to a suspect with a link.
const PROBE_EVERY: Millis = Millis(500);
/// Probes in a row that a suspect must answer well; twice as many each time the node becomes
/// suspect again within [`RELAPSE_WITHIN`].
const PROBES_GOOD: u32 = 2;
const PROBES_GOOD_MAX: u32 = 32;
const RELAPSE_WITHIN: Millis = Millis(30_000);

/// Health of a node as another sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Health {
    /// Healthy: it is asked first.
    Up,
    /// Suspect: another node is asked in its place, and it is watched.
    Suspect,
    /// Down: another node is asked in its place.
    Down,
}

/// Observation of a node. Times are monotonic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The other members changed; nodes that are not listed are forgotten.
    Members {
        /// All other members.
        nodes: BTreeSet<NodeId>,
        /// The time.
        now: Millis,
    },
    /// A link began.
    Connected {
        /// Node at the other end.
        node: NodeId,
    },
    /// A link ended.
    Broken {
        /// Node at the other end.
        node: NodeId,
        /// The time.
        now: Millis,
    },
    /// Answer of a node to a request or a probe.
    Answered {
        /// Node that answered.
        node: NodeId,
        /// Time that it took.
        after: Millis,
        /// The time.
        now: Millis,
    },
    /// Failure: the node could not be asked, or could not carry out the request (overloaded, disk
    /// full).
    Failed {
        /// Node that failed.
        node: NodeId,
        /// The time.
        now: Millis,
    },
    /// Silence: the node has not answered a request or a probe.
    Unanswered {
        /// Node that was asked.
        node: NodeId,
        /// Time waited so far.
        after: Millis,
        /// The time.
        now: Millis,
    },
    /// Passage of time; several times a second.
    Tick {
        /// The time.
        now: Millis,
    },
}

/// Effect of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Change of a node's health.
    Changed {
        /// The node.
        node: NodeId,
        /// Its new health.
        to: Health,
    },
    /// Probe: ask it something small, and report the outcome.
    Probe {
        /// Node to probe.
        node: NodeId,
    },
}

/// State of one node.
#[derive(Clone, Debug)]
struct NodeRecord {
    /// Time since which there is no link. `None`: there is one.
    unlinked: Option<Millis>,
    misses: u32,
    pace: NodeLatency,
    doubt: Option<Doubt>,
    /// Time at which it was last trusted again, and the number of good probes that took. `None`:
    /// never.
    recovered: Option<(Millis, u32)>,
    told: Health,
}

/// Doubt about a node with a link, and the probes that end it.
#[derive(Clone, Copy, Debug)]
struct Doubt {
    good: u32,
    needed: u32,
    probe_at: Millis,
}

/// Failure detector of one node for all others.
#[derive(Clone, Debug, Default)]
pub struct FailureDetector {
    nodes: BTreeMap<NodeId, NodeRecord>,
}

impl FailureDetector {
    /// Builds a detector that knows no node yet.
    pub fn new() -> FailureDetector {
        FailureDetector::default()
    }

    /// Returns the health of this node; an unknown node is down.
    pub fn standing(&self, node: NodeId) -> Health {
        self.nodes.get(&node).map_or(Health::Down, |known| known.told)
    }

    /// Returns true if requests to the node give reason for doubt, though there may be a link to
    /// it.
    pub fn doubts(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|known| known.doubt.is_some())
    }

    /// Returns the members in whose place another node is asked.
    pub fn down(&self) -> BTreeSet<NodeId> {
        let shunned = self.nodes.iter().filter(|(_, known)| known.told != Health::Up);
        shunned.map(|(node, _)| *node).collect()
    }

    /// Returns all other members and their health, by node.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, Health)> {
        self.nodes.iter().map(|(node, known)| (*node, known.told))
    }

    /// Handles an observation; appends the effects.
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

    /// Handles a new link: the node runs and is a member, and earlier trouble may be gone, as after
    /// a restart.
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

    /// Returns the latencies of all other trusted nodes.
    fn others(&self, node: NodeId) -> Vec<NodeLatency> {
        // Nodes in doubt do not count: a slow one must not make slowness the norm.
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
    /// Returns the state of a member without a link so far: it is given time to be reached.
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
            // Only a link ends `Down`, not a clock that stands still.
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
