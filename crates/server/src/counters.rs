//! Counters of the front-ends: requests by operation and verdict, latencies by class, connections.

use crate::minute::MinuteCounter;
use base::{Error, Kind};
use node::{Sample, SampleKind};
use std::array;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Protocol of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientProtocol {
    /// HTTP/JSON.
    Http,
    /// Redis' protocol.
    Resp,
    /// Arakoon's client protocol.
    Arakoon,
    /// Riak's HTTP.
    Riak,
}

/// Kind of operation, as the request metrics count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    /// Read of one row.
    Get,
    /// Write of one row.
    Put,
    /// Deletion of rows.
    Delete,
    /// Read of rows in key order.
    Range,
    /// Read of many rows by key.
    MultiGet,
    /// Count of keys.
    Count,
    /// Another update.
    Update,
    /// Sequence of updates that take effect together or not at all.
    Sequence,
    /// Buckets and bucket types.
    Directory,
    /// Sessions.
    Session,
    /// Status, metrics, administration.
    Admin,
    /// Input that never became a request.
    Other,
}

/// Outcome of a request: success, or a kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Success; a read of an absent key counts as one.
    Success,
    /// Error of this kind.
    Failed(Kind),
}

impl Verdict {
    /// Returns the verdict on a result.
    pub fn from_result<T>(result: &Result<T, Error>) -> Verdict {
        match result {
            Ok(_) => Verdict::Success,
            Err(error) => Verdict::Failed(error.kind()),
        }
    }

    fn index(self) -> usize {
        match self {
            Verdict::Success => 0,
            Verdict::Failed(Kind::Invalid) => 1,
            Verdict::Failed(Kind::Denied) => 2,
            Verdict::Failed(Kind::Conflict) => 3,
            Verdict::Failed(Kind::Unavailable) => 4,
            Verdict::Failed(Kind::Unknown) => 5,
            Verdict::Failed(Kind::Corrupt) => 6,
        }
    }
}

pub(crate) const PROTOCOLS: [&str; 4] = ["http", "resp", "arakoon", "riak"];
pub(crate) const OPERATIONS: [&str; 12] = [
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
/// Upper bounds of the latency histogram in microseconds. One more bucket holds the rest.
const BOUNDS_US: [u64; 15] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 5_000_000,
];

/// Class of operations that share a latency histogram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Reads of rows by key.
    Read,
    /// Updates.
    Write,
    /// Reads of rows in key order.
    Scan,
    /// All other operations.
    Other,
}

impl OperationKind {
    fn class(self) -> Class {
        match self {
            OperationKind::Get | OperationKind::MultiGet => Class::Read,
            OperationKind::Put
            | OperationKind::Delete
            | OperationKind::Update
            | OperationKind::Sequence => Class::Write,
            OperationKind::Range | OperationKind::Count => Class::Scan,
            OperationKind::Directory
            | OperationKind::Session
            | OperationKind::Admin
            | OperationKind::Other => Class::Other,
        }
    }
}

/// Distribution of request latencies, to the resolution of the histogram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    counts: [u64; BOUNDS_US.len() + 1],
    /// Mean in microseconds.
    pub mean_us: u64,
}

impl Latency {
    /// Returns the bucket's upper bound of this percentile in microseconds; 0 without requests.
    pub fn percentile_us(&self, percent: u64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let mut remaining = (total * percent).div_ceil(100);
        for (at, count) in self.counts.iter().enumerate() {
            if remaining > 0 && *count >= remaining {
                return BOUNDS_US.get(at).copied().unwrap_or(2 * BOUNDS_US[BOUNDS_US.len() - 1]);
            }
            remaining -= (*count).min(remaining);
        }
        0
    }
}

#[derive(Default)]
struct Histogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// Guard that counts one connection as open until it is dropped.
pub struct OpenConnection<'a>(&'a AtomicU64);

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

type PerOperation = [[AtomicU64; VERDICTS.len()]; OPERATIONS.len()];

/// Counters of all front-ends. All connections share them; each number is exact, but a set of them
/// is not a consistent snapshot.
pub struct Counters {
    requests: [PerOperation; PROTOCOLS.len()],
    latencies: [[Histogram; CLASSES.len()]; PROTOCOLS.len()],
    /// Requests per second of the last minute, of Riak's clients only.
    riak_minutes: [MinuteCounter; CLASSES.len()],
    open: [AtomicU64; PROTOCOLS.len()],
    accepted: AtomicU64,
    refused: AtomicU64,
    unknown_protocol: AtomicU64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            requests: array::from_fn(|_| array::from_fn(|_| array::from_fn(|_| 0.into()))),
            latencies: Default::default(),
            riak_minutes: Default::default(),
            open: Default::default(),
            accepted: 0.into(),
            refused: 0.into(),
            unknown_protocol: 0.into(),
        }
    }
}

impl Counters {
    /// Counts one answered request and its latency.
    pub fn observe(
        &self,
        protocol: ClientProtocol,
        operation: OperationKind,
        verdict: Verdict,
        elapsed: Duration,
    ) {
        self.observe_many(protocol, operation, verdict, elapsed, 1);
    }

    /// Counts several answered requests of one kind, each with this latency.
    pub fn observe_many(
        &self,
        protocol: ClientProtocol,
        operation: OperationKind,
        verdict: Verdict,
        elapsed: Duration,
        requests: u64,
    ) {
        let counts = &self.requests[protocol as usize][operation as usize];
        counts[verdict.index()].fetch_add(requests, Relaxed);
        let us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        let histogram = &self.latencies[protocol as usize][operation.class() as usize];
        let bucket = BOUNDS_US.partition_point(|&bound| bound < us);
        histogram.counts[bucket].fetch_add(requests, Relaxed);
        histogram.sum_us.fetch_add(us.saturating_mul(requests), Relaxed);
    }

    /// Counts a request of a Riak client in this Unix second.
    pub fn record_second(&self, operation: OperationKind, second: u64) {
        self.riak_minutes[operation.class() as usize].record(second);
    }

    /// Returns the number of Riak requests of a class in the minute that ends with this second.
    pub fn last_minute(&self, class: Class, second: u64) -> u64 {
        self.riak_minutes[class as usize].sum(second)
    }

    /// Returns the requests of this kind answered since the start, over one protocol.
    pub fn total(&self, protocol: ClientProtocol, operation: OperationKind) -> u64 {
        let counts = &self.requests[protocol as usize][operation as usize];
        counts.iter().map(|count| count.load(Relaxed)).sum()
    }

    /// Returns the latency of a class of requests since the start, over one protocol.
    pub fn latency(&self, protocol: ClientProtocol, class: Class) -> Latency {
        let histogram = &self.latencies[protocol as usize][class as usize];
        let counts = array::from_fn(|at| histogram.counts[at].load(Relaxed));
        let total: u64 = counts.iter().sum();
        let mean_us = histogram.sum_us.load(Relaxed).checked_div(total).unwrap_or(0);
        Latency { counts, mean_us }
    }

    /// Counts an accepted connection.
    pub fn count_accepted(&self) {
        self.accepted.fetch_add(1, Relaxed);
    }

    /// Counts a connection refused because of a limit.
    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Counts a connection whose protocol is not served.
    pub fn count_unknown_protocol(&self) {
        self.unknown_protocol.fetch_add(1, Relaxed);
    }

    /// Counts a connection of this protocol as open until the returned guard is dropped.
    pub fn open_connection(&self, protocol: ClientProtocol) -> OpenConnection<'_> {
        let open = &self.open[protocol as usize];
        open.fetch_add(1, Relaxed);
        OpenConnection(open)
    }

    /// Returns the number of connections open now, over all protocols.
    pub fn connections(&self) -> u64 {
        self.open.iter().map(|open| open.load(Relaxed)).sum()
    }

    /// Returns the number of connections accepted since the start.
    pub fn connections_total(&self) -> u64 {
        self.accepted.load(Relaxed)
    }

    /// Returns the number of requests answered since the start, over one protocol.
    pub fn requests_total(&self, protocol: ClientProtocol) -> u64 {
        self.requests[protocol as usize].iter().flatten().map(|count| count.load(Relaxed)).sum()
    }

    /// Returns the counters as samples. [`Counters::write_latencies`] writes the histograms.
    pub fn samples(&self) -> Vec<Sample> {
        let mut samples = Vec::new();
        for (protocol, operations) in PROTOCOLS.iter().zip(&self.requests) {
            for (operation, verdicts) in OPERATIONS.iter().zip(operations) {
                for (verdict, count) in VERDICTS.iter().zip(verdicts) {
                    let value = count.load(Relaxed);
                    if value > 0 {
                        samples.push(Sample {
                            name: "credenza_requests_total",
                            help: "Requests answered, by protocol, operation and result.",
                            kind: SampleKind::Counter,
                            labels: vec![
                                ("protocol", protocol.to_string()),
                                ("operation", operation.to_string()),
                                ("result", verdict.to_string()),
                            ],
                            value: value as f64,
                        });
                    }
                }
            }
        }
        for (protocol, open) in PROTOCOLS.iter().zip(&self.open) {
            samples.push(Sample {
                name: "credenza_connections",
                help: "Open client connections, by protocol.",
                kind: SampleKind::Gauge,
                labels: vec![("protocol", protocol.to_string())],
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
            "Client connections accepted.",
            &self.accepted,
        ));
        samples.push(plain(
            "credenza_connections_refused_total",
            "Client connections refused by a connection limit.",
            &self.refused,
        ));
        samples.push(plain(
            "credenza_connections_unknown_protocol_total",
            "Client connections closed because of an unsupported protocol.",
            &self.unknown_protocol,
        ));
        samples
    }

    /// Writes the latency histograms in Prometheus' text format.
    pub fn write_latencies(&self, text: &mut String) {
        use std::fmt::Write;
        let name = "credenza_request_seconds";
        let _ = writeln!(text, "# HELP {name} Seconds from a request read to its answer ready.");
        let _ = writeln!(text, "# TYPE {name} histogram");
        for (protocol, classes) in PROTOCOLS.iter().zip(&self.latencies) {
            for (class, histogram) in CLASSES.iter().zip(classes) {
                let counts: Vec<u64> = histogram.counts.iter().map(|c| c.load(Relaxed)).collect();
                let total: u64 = counts.iter().sum();
                if total == 0 {
                    continue;
                }
                let labels = format!("protocol=\"{protocol}\",class=\"{class}\"");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_percentile_is_the_upper_bound_of_its_bucket() {
        let counters = Counters::default();
        assert_eq!(counters.latency(ClientProtocol::Riak, Class::Read).percentile_us(50), 0);
        for us in [10, 60, 60, 6_000_000] {
            let elapsed = Duration::from_micros(us);
            counters.observe(ClientProtocol::Riak, OperationKind::Get, Verdict::Success, elapsed);
        }
        let latency = counters.latency(ClientProtocol::Riak, Class::Read);
        let percentiles = [1, 25, 26, 75, 76, 100].map(|percent| latency.percentile_us(percent));
        assert_eq!(percentiles, [50, 50, 100, 100, 10_000_000, 10_000_000]);
        assert_eq!(counters.total(ClientProtocol::Riak, OperationKind::Get), 4);
        assert_eq!(latency.mean_us, (10 + 60 + 60 + 6_000_000) / 4);
    }
}
