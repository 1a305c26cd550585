//! Counters of the available path with their names for `/metrics`.

use crate::metrics::AvailableCounters;
use std::sync::atomic::{AtomicU64, Ordering};

/// Name, help and value of a counter.
pub type NamedCounter = (&'static str, &'static str, u64);

/// Returns the counters of the available path.
pub fn named_counters(counts: &AvailableCounters) -> Vec<NamedCounter> {
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
