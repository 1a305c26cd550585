//! Status of a node's available side for operators: copies that lag, missing nodes, and repairs
//! done.

use crate::Available;
use base::{Error, NodeId, Reason};
use logic::members::Health;
use runtime::metrics::Metrics;
use runtime::named_counters::named_counters;
use runtime::sample::{Sample, SampleKind};
use runtime::world;
use std::sync::atomic::Ordering;
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
        let counted = named_counters(&self.metrics.available).into_iter().chain([
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
