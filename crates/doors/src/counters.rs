//! What the doors count: requests by operation and verdict, latencies by class, connections.

use base::{Error, Kind};
use node::{Sample, SampleKind};
use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A client language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tongue {
    /// HTTP/JSON.
    Http,
    /// Redis' protocol.
    Resp,
    /// Arakoon's client protocol.
    Arakoon,
}

/// What was asked, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// One row.
    Get,
    /// One row written.
    Put,
    /// Rows deleted.
    Delete,
    /// Rows in key order.
    Range,
    /// Many rows by key.
    MultiGet,
    /// Keys counted.
    Count,
    /// Another update.
    Update,
    /// Many updates that hold together.
    Sequence,
    /// Buckets and bucket types.
    Directory,
    /// Sessions.
    Session,
    /// Status, metrics, administration.
    Admin,
    /// What never became a request.
    Other,
}

/// How it went: one kind of error, or well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Well; an absent key too.
    Fine,
    /// With an error of this kind.
    Failed(Kind),
}

impl Verdict {
    /// Of a result.
    pub fn of<T>(result: &Result<T, Error>) -> Verdict {
        match result {
            Ok(_) => Verdict::Fine,
            Err(error) => Verdict::Failed(error.kind()),
        }
    }

    fn place(self) -> usize {
        match self {
            Verdict::Fine => 0,
            Verdict::Failed(Kind::Invalid) => 1,
            Verdict::Failed(Kind::Denied) => 2,
            Verdict::Failed(Kind::Conflict) => 3,
            Verdict::Failed(Kind::Unavailable) => 4,
            Verdict::Failed(Kind::Unknown) => 5,
            Verdict::Failed(Kind::Corrupt) => 6,
        }
    }
}

const TONGUES: [&str; 3] = ["http", "resp", "arakoon"];
const OPERATIONS: [&str; 12] = [
    "get",
    "put",
    "delete",
    "range",
    "multi_get",
    "count",
    "update",
    "sequence",
    "directory",
    "session",
    "admin",
    "other",
];
const VERDICTS: [&str; 7] =
    ["ok", "invalid", "denied", "conflict", "unavailable", "unknown", "corrupt"];
const CLASSES: [&str; 4] = ["read", "write", "scan", "other"];
/// Upper bounds of the latency histogram, microseconds; one more bucket holds the rest.
const BOUNDS_US: [u64; 15] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000,
];

impl Operation {
    fn class(self) -> usize {
        match self {
            Operation::Get | Operation::MultiGet => 0,
            Operation::Put | Operation::Delete | Operation::Update | Operation::Sequence => 1,
            Operation::Range | Operation::Count => 2,
            Operation::Directory | Operation::Session | Operation::Admin | Operation::Other => 3,
        }
    }
}

#[derive(Default)]
struct Histogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// A connection that is counted as open.
pub struct Open<'a>(&'a AtomicU64);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

type PerOperation = [[AtomicU64; VERDICTS.len()]; OPERATIONS.len()];

/// Everything the doors count. Shared by all connections; each number is exact, the set is no
/// snapshot.
pub struct Counters {
    requests: [PerOperation; TONGUES.len()],
    latencies: [[Histogram; CLASSES.len()]; TONGUES.len()],
    open: [AtomicU64; TONGUES.len()],
    accepted: AtomicU64,
    refused: AtomicU64,
    foreign: AtomicU64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            requests: array::from_fn(|_| array::from_fn(|_| array::from_fn(|_| 0.into()))),
            latencies: Default::default(),
            open: Default::default(),
            accepted: 0.into(),
            refused: 0.into(),
            foreign: 0.into(),
        }
    }
}

impl Counters {
    /// One request is answered.
    pub fn observe(&self, tongue: Tongue, operation: Operation, verdict: Verdict, took: Duration) {
        self.observe_many(tongue, operation, verdict, took, 1);
    }

    /// So many alike are answered, each in this time.
    pub fn observe_many(
        &self,
        tongue: Tongue,
        operation: Operation,
        verdict: Verdict,
        took: Duration,
        requests: u64,
    ) {
        let counts = &self.requests[tongue as usize][operation as usize];
        counts[verdict.place()].fetch_add(requests, Relaxed);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let histogram = &self.latencies[tongue as usize][operation.class()];
        let bucket = BOUNDS_US.partition_point(|&bound| bound < us);
        histogram.counts[bucket].fetch_add(requests, Relaxed);
        histogram.sum_us.fetch_add(us.saturating_mul(requests), Relaxed);
    }

    /// A connection came in.
    pub fn accepted(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    /// A connection was refused for being one too many.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// A connection spoke a language that is not served.
    pub fn foreign(&self) {
        self.foreign.fetch_add(1, Relaxed);
    }

    /// A connection of this tongue begins; it ends when what is given is dropped.
    pub fn open(&self, tongue: Tongue) -> Open<'_> {
        let open = &self.open[tongue as usize];
        open.fetch_add(1, Relaxed);
        Open(open)
    }

    /// Connections open now, in all tongues.
    pub fn connections(&self) -> u64 {
        self.open.iter().map(|open| open.load(Relaxed)).sum()
    }

    /// Connections accepted since the start.
    pub fn connections_total(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Requests answered since the start, in one tongue.
    pub fn requests_total(&self, tongue: Tongue) -> u64 {
        self.requests[tongue as usize].iter().flatten().map(|count| count.load(Relaxed)).sum()
    }

    /// The plain counters as samples; latencies are told apart by [`Counters::write_latencies`].
    pub fn samples(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for (tongue, operations) in TONGUES.iter().zip(&self.requests) {
            for (operation, verdicts) in OPERATIONS.iter().zip(operations) {
                for (verdict, count) in VERDICTS.iter().zip(verdicts) {
                    let value = count.load(Relaxed);
                    if value > 0 {
                        samples.push(Sample {
                            name: "credenza_requests_total",
                            help: "Requests answered, by tongue, operation and result.",
                            kind: SampleKind::Counter,
                            labels: vec![
                                ("tongue", tongue.to_string()),
                                ("operation", operation.to_string()),
                                ("result", verdict.to_string()),
                            ],
                            value: value as f64,
                        });
                    }
                }
            }
        }
        for (tongue, open) in TONGUES.iter().zip(&self.open) {
            samples.push(Sample {
                name: "credenza_connections",
                help: "Client connections open now, by tongue.",
                kind: SampleKind::Gauge,
                labels: vec![("tongue", tongue.to_string())],
                value: open.load(Relaxed) as f64,
            });
        }
        let plain = |name, help, count: &AtomicU64| Sample {
            name,
            help,
            kind: SampleKind::Counter,
            labels: Vec::new(),
            value: count.load(Relaxed) as f64,
        };
        samples.push(plain(
            "credenza_connections_accepted_total",
            "Client connections accepted since the start.",
            &self.accepted,
        ));
        samples.push(plain(
            "credenza_connections_refused_total",
            "Client connections refused for being too many.",
            &self.refused,
        ));
        samples.push(plain(
            "credenza_connections_foreign_total",
            "Client connections that spoke a language that is not served.",
            &self.foreign,
        ));
        samples
    }

    /// The latency histograms in Prometheus' text form.
    pub fn write_latencies(&self, text: &mut String) {
        use std::fmt::Write;
        let name = "credenza_request_seconds";
        let _ = writeln!(text, "# HELP {name} Time from a request read to its answer ready.");
        let _ = writeln!(text, "# TYPE {name} histogram");
        for (tongue, classes) in TONGUES.iter().zip(&self.latencies) {
            for (class, histogram) in CLASSES.iter().zip(classes) {
                let counts: Vec<u64> = histogram.counts.iter().map(|c| c.load(Relaxed)).collect();
                let total: u64 = counts.iter().sum();
                if total == 0 {
                    continue;
                }
                let labels = format!("tongue=\"{tongue}\",class=\"{class}\"");
                let mut below = 0;
                for (bound, count) in BOUNDS_US.iter().zip(&counts) {
                    below += count;
                    let seconds = *bound as f64 / 1e6;
                    let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{seconds}\"}} {below}");
                }
                let sum = histogram.sum_us.load(Relaxed) as f64 / 1e6;
                let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {total}");
                let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}");
                let _ = writeln!(text, "{name}_count{{{labels}}} {total}");
            }
        }
    }
}
