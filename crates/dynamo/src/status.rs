//! Status of a node's available side for operators: copies that lag, missing nodes, and repairs
//! done.

use crate::Available;
use base::{Error, NodeId, Reason};
use logic::members::Health;
use runtime::metrics::{AvailableCounters, Metrics};
use runtime::sample::{Sample, SampleKind};
use runtime::world;
use std::sync::atomic::{AtomicU64, Ordering};
use vnode_rows::layout::Row;

/// Status of the available side, as this node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AvailableStatus {
    /// Epoch of the ring. 0: none is known.
    pub ring_epoch: u64,
    /// Partitions of which this node is the first owner.
    pub partitions: u64,
    /// Hints stored here, by the name of their node.
    pub hints: Vec<HintsStatus>,
    /// Names of ring nodes that this node suspects; coordinators ask others instead.
    pub suspected_nodes: Vec<String>,
}

/// Hints stored for one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintsStatus {
    /// Name of the node.
    pub node: String,
    /// Number of hints.
    pub rows: u64,
    /// Milliseconds for which hints have been pending without a break, in this incarnation of this
    /// node.
    pub age_ms: u64,
}

impl Available {
    /// Counts the siblings found by a read.
    pub(super) fn count_siblings(&self, row: &Row) {
        let living = row.values().filter(|value| !value.is_tombstone()).count() as u64;
        if living > 1 {
            Metrics::count(&self.metrics.available.with_siblings);
            self.metrics.available.siblings.fetch_add(living, Ordering::Relaxed);
        }
    }

    /// Counts a refused request by its reason.
    pub(super) fn count_refusal(&self, error: &Error) {
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

    /// Returns the status; see [`AvailableStatus`].
    pub fn status(&self) -> AvailableStatus {
        let Some(ring) = self.schema.ring() else { return AvailableStatus::default() };
        let is_primary = |partition: &u32| {
            ring.owners(base::Partition(*partition), 1).first() == Some(&self.node)
        };
        let now = world::milliseconds();
        let hints =
            self.vnode_store.pending_hints().into_iter().map(|(node, stored)| HintsStatus {
                node: self.members.name_of(node),
                rows: stored.rows,
                age_ms: now.saturating_sub(stored.since_ms),
            });
        let nodes = ring.layout().nodes().keys();
        let suspected =
            nodes.filter(|node| !self.reaches(**node)).map(|node| self.members.name_of(*node));
        AvailableStatus {
            ring_epoch: ring.epoch(),
            partitions: (0..ring.partitions()).filter(is_primary).count() as u64,
            hints: hints.collect(),
            suspected_nodes: suspected.collect(),
        }
    }

    /// Returns another node's health as this node sees it: `up`, `suspect`, `down`.
    pub fn health_name(&self, node: NodeId) -> &'static str {
        match self.failure_detector.health(node) {
            _ if node == self.node => "up",
            Health::Up => "up",
            Health::Suspect => "suspect",
            Health::Down => "down",
        }
    }

    /// Returns the samples for `/metrics`.
    pub fn samples(&self) -> Vec<Sample> {
        let status = self.status();
        let (stored, delivered) = self.vnode_store.hint_totals();
        let counted = counters(&self.metrics.available).into_iter().chain([
            ("credenza_hints_stored_total", "Rows stored as hints for unreachable nodes.", stored),
            (
                "credenza_hints_delivered_total",
                "Hints delivered to the nodes they are for.",
                delivered,
            ),
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
        let epoch = "Epoch of the ring that this node knows; 0: no ring.";
        all.push(sample(gauge, "credenza_ring_epoch", epoch, status.ring_epoch));
        let mine = "Number of partitions of which this node is the first owner.";
        all.push(sample(gauge, "credenza_ring_partitions", mine, status.partitions));
        let suspected = "Number of ring nodes that this node suspects; coordinators skip them.";
        let nodes = status.suspected_nodes.len() as u64;
        all.push(sample(gauge, "credenza_ring_suspected_nodes", suspected, nodes));
        for hints in status.hints {
            let named = |name, help, value| Sample {
                labels: vec![("member", hints.node.clone())],
                ..sample(gauge, name, help, value)
            };
            all.push(named(
                "credenza_hints_pending",
                "Number of undelivered hints, by member.",
                hints.rows,
            ));
            let oldest = "Time in seconds since which there has been at least one undelivered \
                          hint, by member.";
            let age = Sample {
                value: hints.age_ms as f64 / 1e3,
                ..named("credenza_hints_age_seconds", oldest, 0)
            };
            all.push(age);
        }
        all
    }
}

/// Name, help and value of a counter.
type NamedCounter = (&'static str, &'static str, u64);

fn counters(counts: &AvailableCounters) -> Vec<NamedCounter> {
    [&request_counters(counts)[..], &repair_counters(counts)[..]].concat()
}

fn request_counters(counts: &AvailableCounters) -> [NamedCounter; 6] {
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
            "Reads that found siblings.",
            of(&counts.with_siblings),
        ),
        (
            "credenza_available_siblings_read_total",
            "Siblings returned by reads that found siblings.",
            of(&counts.siblings),
        ),
        (
            "credenza_available_too_many_siblings_total",
            "Writes refused because the key has too many siblings.",
            of(&counts.too_many_siblings),
        ),
        (
            "credenza_available_contexts_refused_total",
            "Contexts refused because the cluster did not return them for their key.",
            of(&counts.contexts_refused),
        ),
    ]
}

fn repair_counters(counts: &AvailableCounters) -> [NamedCounter; 8] {
    let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    [
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
