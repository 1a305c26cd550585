//! Status of a node's available side for operators: copies that lag, missing nodes, and repairs
//! done.

use super::layout::Row;
use crate::Available;
use base::{Error, NodeId, Reason};
use logic::members::Health;
use runtime::metrics::{AvailableCounters, Metrics};
use runtime::sample::{Sample, SampleKind};
use runtime::world;
use std::sync::atomic::{AtomicU64, Ordering};

/// The available side as this node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AvailableStatus {
    /// The ring's epoch; 0: none is known.
    pub ring_epoch: u64,
    /// Partitions of which this node is the first owner.
    pub partitions: u64,
    /// Hints kept here, by the name of the node that gets them.
    pub hints: Vec<HintsStatus>,
    /// Names of ring nodes that this node suspects; coordinators ask others instead.
    pub suspected_nodes: Vec<String>,
}

/// Hints that are kept for one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintsStatus {
    /// The node's name.
    pub node: String,
    /// Rows that are kept for it.
    pub rows: u64,
    /// Milliseconds for which hints have been pending without a break, in this incarnation of this
    /// node.
    pub age_ms: u64,
}

impl Available {
    /// Counts the siblings that a read found.
    pub(super) fn saw_siblings(&self, row: &Row) {
        let living = row.values().filter(|value| !value.is_tombstone()).count() as u64;
        if living > 1 {
            Metrics::count(&self.metrics.available.with_siblings);
            self.metrics.available.siblings.fetch_add(living, Ordering::Relaxed);
        }
    }

    /// A request was refused for this.
    pub(super) fn saw_refusal(&self, error: &Error) {
        match error.reason {
            Reason::WriteQuorumUnmet | Reason::ReadQuorumUnmet => {
                Metrics::count(&self.metrics.available.too_few);
            }
            Reason::TooManySiblings => {
                Metrics::count(&self.metrics.available.too_many_siblings);
            }
            _ => {}
        }
    }

    /// See [`AvailableStatus`].
    pub fn status(&self) -> AvailableStatus {
        let Some(ring) = self.schema.ring() else { return AvailableStatus::default() };
        let mine = |partition: &u32| {
            ring.owners(base::Partition(*partition), 1).first() == Some(&self.node)
        };
        let now = world::milliseconds();
        let hints = self.vnode_store.kept().into_iter().map(|(node, kept)| HintsStatus {
            node: self.members.name_of(node),
            rows: kept.rows,
            age_ms: now.saturating_sub(kept.since_ms),
        });
        let nodes = ring.layout().nodes().keys();
        let suspected =
            nodes.filter(|node| !self.reaches(**node)).map(|node| self.members.name_of(*node));
        AvailableStatus {
            ring_epoch: ring.epoch(),
            partitions: (0..ring.partitions()).filter(mine).count() as u64,
            hints: hints.collect(),
            suspected_nodes: suspected.collect(),
        }
    }

    /// Returns another node's health as this node sees it: `up`, `suspect`, `down`.
    pub fn health_word(&self, node: NodeId) -> &'static str {
        match self.failure_detector.standing(node) {
            _ if node == self.node => "up",
            Health::Up => "up",
            Health::Suspect => "suspect",
            Health::Down => "down",
        }
    }

    /// Samples for `/metrics`.
    pub fn samples(&self) -> Vec<Sample> {
        let status = self.status();
        let (stored, delivered) = self.vnode_store.hints_ever();
        let counted = counters(&self.metrics.available).into_iter().chain([
            (
                "credenza_hints_stored_total",
                "Rows stored as hints for an unreachable node.",
                stored,
            ),
            ("credenza_hints_delivered_total", "Hints delivered to their node.", delivered),
        ]);
        let sample = |kind, name, help, value: u64| Sample {
            name,
            help,
            kind,
            labels: Vec::new(),
            value: value as f64,
        };
        let mut all: Vec<_> = counted
            .map(|(name, help, value)| sample(SampleKind::Counter, name, help, value))
            .collect();
        let gauge = SampleKind::Gauge;
        let epoch = "The epoch of the ring this node knows; 0: none.";
        all.push(sample(gauge, "credenza_ring_epoch", epoch, status.ring_epoch));
        let mine = "Partitions of which this node is the first owner.";
        all.push(sample(gauge, "credenza_ring_partitions", mine, status.partitions));
        let suspected = "Nodes of the ring that this node suspects: others are asked instead.";
        let nodes = status.suspected_nodes.len() as u64;
        all.push(sample(gauge, "credenza_ring_suspected_nodes", suspected, nodes));
        for hints in status.hints {
            let named = |name, help, value| Sample {
                labels: vec![("member", hints.node.clone())],
                ..sample(gauge, name, help, value)
            };
            all.push(named(
                "credenza_hints_pending",
                "Hints not yet delivered, by member.",
                hints.rows,
            ));
            let oldest = "Time for which hints have been pending without a break, by member.";
            let age = Sample {
                value: hints.age_ms as f64 / 1e3,
                ..named("credenza_hints_age_seconds", oldest, 0)
            };
            all.push(age);
        }
        all
    }
}

fn counters(counts: &AvailableCounters) -> [(&'static str, &'static str, u64); 13] {
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    [
        (
            "credenza_available_redirected_total",
            "Writes of available buckets forwarded to an owner of the key.",
            of(&counts.redirected),
        ),
        (
            "credenza_available_quorum_unmet_total",
            "Requests refused because their quorum was not met.",
            of(&counts.too_few),
        ),
        (
            "credenza_available_reads_with_siblings_total",
            "Reads that found several values.",
            of(&counts.with_siblings),
        ),
        (
            "credenza_available_siblings_read_total",
            "Siblings found by reads of several values.",
            of(&counts.siblings),
        ),
        (
            "credenza_available_too_many_siblings_total",
            "Writes refused because of a key's many siblings.",
            of(&counts.too_many_siblings),
        ),
        (
            "credenza_read_repairs_total",
            "Replicas repaired after a read (read repair).",
            of(&counts.read_repairs),
        ),
        (
            "credenza_anti_entropy_rounds_total",
            "Anti-entropy rounds: comparisons of every partition replica of this node.",
            of(&counts.anti_entropy_rounds),
        ),
        (
            "credenza_anti_entropy_exchanges_total",
            "Anti-entropy exchanges: pairs of replicas of a partition that were compared.",
            of(&counts.anti_entropy_exchanges),
        ),
        (
            "credenza_anti_entropy_exchanges_failed_total",
            "Anti-entropy exchanges that failed because a replica did not answer.",
            of(&counts.anti_entropy_failed),
        ),
        (
            "credenza_anti_entropy_rows_differed_total",
            "Rows that differed between two replicas.",
            of(&counts.rows_differed),
        ),
        (
            "credenza_anti_entropy_rows_sent_total",
            "Differing rows sent to the other replica.",
            of(&counts.rows_sent),
        ),
        (
            "credenza_anti_entropy_rows_fetched_total",
            "Differing rows fetched from the other replica.",
            of(&counts.rows_fetched),
        ),
        (
            "credenza_failure_detector_transitions_total",
            "Changes of another node's health (up, suspect, down).",
            of(&counts.failure_detector_transitions),
        ),
    ]
}
