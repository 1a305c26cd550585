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
    Disconnected {
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
    /// Passage of time; several times a second unless the detector is at rest.
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
    unlinked_since: Option<Millis>,
    misses: u32,
    latency: NodeLatency,
    suspicion: Option<Suspicion>,
    /// Time at which the last suspicion ended, and the number of good probes that this required.
    /// `None`: never.
    recovered: Option<(Millis, u32)>,
    reported: Health,
}

/// Suspicion of a node with a link, and the probes that end it.
#[derive(Clone, Copy, Debug)]
struct Suspicion {
    good_probes: u32,
    probes_needed: u32,
    next_probe: Millis,
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
    pub fn health(&self, node: NodeId) -> Health {
        self.nodes.get(&node).map_or(Health::Down, |record| record.reported)
    }

    /// Returns true if requests to the node give reason for doubt, though there may be a link to
    /// it.
    pub fn is_suspected(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|record| record.suspicion.is_some())
    }

    /// Returns the members in whose place another node is asked.
    pub fn down_nodes(&self) -> BTreeSet<NodeId> {
        let unhealthy = self.nodes.iter().filter(|(_, record)| record.reported != Health::Up);
        unhealthy.map(|(node, _)| *node).collect()
    }

    /// Returns all other members and their health, by node.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, Health)> {
        self.nodes.iter().map(|(node, record)| (*node, record.reported))
    }

    /// Returns true if passing time alone changes nothing: no node is suspect.
    pub fn is_at_rest(&self) -> bool {
        self.nodes.values().all(|record| match record.unlinked_since {
            Some(_) => record.reported == Health::Down,
            None => record.reported == Health::Up && record.suspicion.is_none(),
        })
    }

    /// Handles an observation; appends the effects.
    pub fn step(&mut self, event: Event, effects: &mut Vec<Effect>) {
        let now = match event {
            Event::Members { nodes, now } => {
                self.nodes.retain(|node, _| nodes.contains(node));
                for node in nodes {
                    self.nodes.entry(node).or_insert_with(|| NodeRecord::new(now));
                }
                now
            }
            Event::Connected { node } => {
                self.on_connected(node, effects);
                return;
            }
            Event::Disconnected { node, now } => {
                if let Some(record) = self.nodes.get_mut(&node) {
                    record.unlinked_since = record.unlinked_since.or(Some(now));
                }
                now
            }
            Event::Answered { node, after, now } => {
                self.on_answered(node, after, now);
                now
            }
            Event::Failed { node, now } => {
                self.on_missed(node, None, now);
                now
            }
            Event::Unanswered { node, after, now } => {
                self.on_missed(node, Some(after), now);
                now
            }
            Event::Tick { now } => {
                self.send_probes(now, effects);
                now
            }
        };
        self.report_changes(now, effects);
    }

    /// Handles a new link: the node runs and is a member, and earlier trouble may be gone, as after
    /// a restart.
    fn on_connected(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        let Some(record) = self.nodes.get_mut(&node) else { return };
        if record.unlinked_since.take().is_some() {
            record.misses = 0;
            record.latency.reset();
            record.suspicion = None;
        }
        let to = if record.suspicion.is_some() { Health::Suspect } else { Health::Up };
        if std::mem::replace(&mut record.reported, to) != to {
            effects.push(Effect::Changed { node, to });
        }
    }

    fn on_answered(&mut self, node: NodeId, after: Millis, now: Millis) {
        let other_latencies = self.other_latencies(node);
        let Some(record) = self.nodes.get_mut(&node) else { return };
        record.misses = 0;
        record.latency.record(after);
        match &mut record.suspicion {
            None if record.latency.is_slow(&other_latencies) => record.begin_suspicion(now),
            None => {}
            Some(suspicion) => {
                let good = NodeLatency::is_normal(after, &other_latencies);
                suspicion.good_probes = if good { suspicion.good_probes + 1 } else { 0 };
                if suspicion.good_probes >= suspicion.probes_needed {
                    record.recovered = Some((now, suspicion.probes_needed));
                    record.suspicion = None;
                    record.latency.reset();
                }
            }
        }
    }

    fn on_missed(&mut self, node: NodeId, after: Option<Millis>, now: Millis) {
        let other_latencies = self.other_latencies(node);
        let Some(record) = self.nodes.get_mut(&node) else { return };
        record.misses = record.misses.saturating_add(1);
        if let Some(after) = after {
            record.latency.record(after);
        }
        match &mut record.suspicion {
            Some(suspicion) => suspicion.good_probes = 0,
            None if record.misses >= MISSES_MAX || record.latency.is_slow(&other_latencies) => {
                record.begin_suspicion(now);
            }
            None => {}
        }
    }

    /// Returns the latencies of all other nodes that have a link and are not suspect.
    fn other_latencies(&self, node: NodeId) -> Vec<NodeLatency> {
        // Suspects do not count: a slow node must not raise the median.
        let trusted = self.nodes.iter().filter(|(other, record)| {
            **other != node && record.suspicion.is_none() && record.unlinked_since.is_none()
        });
        trusted.map(|(_, record)| record.latency).collect()
    }

    fn send_probes(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        for (node, record) in &mut self.nodes {
            if let Some(suspicion) =
                record.suspicion.as_mut().filter(|suspicion| suspicion.next_probe <= now)
                && record.unlinked_since.is_none()
            {
                suspicion.next_probe = Millis(now.0.saturating_add(PROBE_EVERY.0));
                effects.push(Effect::Probe { node: *node });
            }
        }
    }

    fn report_changes(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        for (node, record) in &mut self.nodes {
            let to = record.health(now);
            if std::mem::replace(&mut record.reported, to) != to {
                effects.push(Effect::Changed { node: *node, to });
            }
        }
    }
}

impl NodeRecord {
    /// Returns the state of a member without a link so far: suspect until the timeout for a link.
    fn new(now: Millis) -> NodeRecord {
        NodeRecord {
            unlinked_since: Some(now),
            misses: 0,
            latency: NodeLatency::default(),
            suspicion: None,
            recovered: None,
            reported: Health::Suspect,
        }
    }

    fn health(&self, now: Millis) -> Health {
        match self.unlinked_since {
            // Only a link ends `Down`, not a stopped clock.
            Some(since) if now.0.saturating_sub(since.0) >= DOWN_AFTER.0 => Health::Down,
            Some(_) if self.reported == Health::Down => Health::Down,
            Some(_) => Health::Suspect,
            None if self.suspicion.is_some() => Health::Suspect,
            None => Health::Up,
        }
    }

    fn begin_suspicion(&mut self, now: Millis) {
        let relapse = self.recovered.filter(|(at, _)| now.0 < at.0 + RELAPSE_WITHIN.0);
        let probes_needed = match relapse {
            Some((_, before)) => (before * 2).min(PROBES_GOOD_MAX),
            None => PROBES_GOOD,
        };
        self.suspicion = Some(Suspicion { good_probes: 0, probes_needed, next_probe: now });
    }
}
