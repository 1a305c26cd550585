//! What a node tells operators of its available side: how many copies are behind, who is waited
//! for, and what was done about it.

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
    /// Hints kept here, by the name of the node that is to get them.
    pub hints: Vec<HintsStatus>,
    /// Nodes that others stand in for, by name.
    pub spared: Vec<String>,
}

/// What is kept for one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HintsStatus {
    /// The node's name.
    pub node: String,
    /// Rows that are kept for it.
    pub rows: u64,
    /// Since when there has always been one, in this life of this node.
    pub since_ms_ago: u64,
}

impl Available {
    /// A read found this.
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
        let hints = self.shelf.kept().into_iter().map(|(node, kept)| HintsStatus {
            node: self.members.name_of(node),
            rows: kept.rows,
            since_ms_ago: now.saturating_sub(kept.since_ms),
        });
        let nodes = ring.layout().nodes().keys();
        let spared =
            nodes.filter(|node| !self.reaches(**node)).map(|node| self.members.name_of(*node));
        AvailableStatus {
            ring_epoch: ring.epoch(),
            partitions: (0..ring.partitions()).filter(mine).count() as u64,
            hints: hints.collect(),
            spared: spared.collect(),
        }
    }

    /// In a word, what this node thinks of another: `up`, `suspect`, `down`.
    pub fn standing_word(&self, node: NodeId) -> &'static str {
        match self.watching.standing(node) {
            _ if node == self.node => "up",
            Health::Up => "up",
            Health::Suspect => "suspect",
            Health::Down => "down",
        }
    }

    /// Samples for `/metrics`.
    pub fn samples(&self) -> Vec<Sample> {
        let status = self.status();
        let (kept, home) = self.shelf.hints_ever();
        let counted = counters(&self.metrics.available).into_iter().chain([
            ("credenza_hints_kept_total", "Rows kept for a node that was away.", kept),
            ("credenza_hints_home_total", "Of them handed to the node they were for.", home),
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
        let spared = "Nodes of the ring in whose place others are asked.";
        all.push(sample(gauge, "credenza_ring_spared", spared, status.spared.len() as u64));
        for hints in status.hints {
            let named = |name, help, value| Sample {
                labels: vec![("member", hints.node.clone())],
                ..sample(gauge, name, help, value)
            };
            all.push(named("credenza_hints_waiting", "Rows kept for a member.", hints.rows));
            let oldest = "Since when something has been kept for a member.";
            let age = Sample {
                value: hints.since_ms_ago as f64 / 1e3,
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
            "Writes of available buckets sent on to a node that keeps the key.",
            of(&counts.redirected),
        ),
        (
            "credenza_available_too_few_total",
            "Requests that fewer replicas met than were asked for.",
            of(&counts.too_few),
        ),
        (
            "credenza_available_reads_with_siblings_total",
            "Reads that found several values.",
            of(&counts.with_siblings),
        ),
        (
            "credenza_available_siblings_read_total",
            "The values that those reads found.",
            of(&counts.siblings),
        ),
        (
            "credenza_available_too_many_siblings_total",
            "Writes refused because of a key's many siblings.",
            of(&counts.too_many_siblings),
        ),
        (
            "credenza_read_repairs_total",
            "Copies that were sent what a read had found them to lack.",
            of(&counts.read_repairs),
        ),
        (
            "credenza_copies_rounds_total",
            "Rounds in which every copy here was compared.",
            of(&counts.rounds),
        ),
        (
            "credenza_copies_compared_total",
            "Pairs of copies of a partition that were compared.",
            of(&counts.compared),
        ),
        (
            "credenza_copies_not_compared_total",
            "Pairs of copies of which one could not be asked.",
            of(&counts.not_compared),
        ),
        (
            "credenza_copies_rows_differed_total",
            "Rows that differed between two copies.",
            of(&counts.differed),
        ),
        ("credenza_copies_rows_sent_total", "Of them sent to the other copy.", of(&counts.sent)),
        (
            "credenza_copies_rows_fetched_total",
            "Of them fetched from the other copy.",
            of(&counts.fetched),
        ),
        (
            "credenza_members_standings_total",
            "Changes of mind about whether another node can be asked.",
            of(&counts.standings),
        ),
    ]
}
