//! Arakoon's `statistics`: sizes and durations by kind of request, since the node started.
//!
//! Each cluster has its own. The layout matches Arakoon's field by field, because its OCaml client
//! reads it by position.

use super::values::Wire;
use node::BucketPlacement;

/// Kind of request with a series of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `set`.
    Set,
    /// `get`.
    Get,
    /// `delete`.
    Delete,
    /// `sequence` and `synced_sequence`.
    Sequence,
    /// `multi_get`.
    MultiGet,
    /// `multi_get_option`.
    MultiGetOption,
    /// `test_and_set`.
    TestAndSet,
    /// `replace`.
    Replace,
    /// `range`.
    Range,
    /// `range_entries`.
    RangeEntries,
    /// `rev_range_entries`.
    RevRangeEntries,
    /// `prefix_keys`.
    Prefix,
    /// `delete_prefix`.
    DeletePrefix,
}

/// Names of the series of durations, in the order of the wire and of [`Class`]. On the wire
/// `harvest_stats` precedes them and `op_info` follows.
const SERIES: [&str; 13] = [
    "set_info",
    "get_info",
    "del_info",
    "seq_info",
    "mget_info",
    "mget_option_info",
    "tas_info",
    "replace_info",
    "range_info",
    "range_entries_info",
    "rev_range_entries_info",
    "prefix_info",
    "delete_prefix_info",
];

/// Names of the average sizes, in the order of the wire, each with its kind of request.
const SIZES: [(&str, Class); 7] = [
    ("avg_set_size", Class::Set),
    ("avg_get_size", Class::Get),
    ("avg_range_size", Class::Range),
    ("avg_range_entries_size", Class::RangeEntries),
    ("avg_rev_range_entries_size", Class::RevRangeEntries),
    ("avg_prefix_size", Class::Prefix),
    ("avg_del_prefix_size", Class::DeletePrefix),
];

/// Running summary of a series of numbers (B. P. Welford's method).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberSeries {
    n: i32,
    min: f64,
    max: f64,
    m2: f64,
    avg: f64,
}

impl Default for NumberSeries {
    fn default() -> NumberSeries {
        NumberSeries { n: 0, min: f64::MAX, max: 0.0, m2: 0.0, avg: 0.0 }
    }
}

impl NumberSeries {
    /// Adds one number to the series.
    pub fn add(&mut self, number: f64) {
        self.n = self.n.saturating_add(1);
        self.min = self.min.min(number);
        self.max = self.max.max(number);
        let delta = number - self.avg;
        self.avg += delta / f64::from(self.n);
        self.m2 += delta * (number - self.avg);
    }

    /// Returns a series of which only the count and the average are known.
    pub fn from_average(n: u64, avg: f64) -> NumberSeries {
        NumberSeries { n: i32::try_from(n).unwrap_or(i32::MAX), avg, ..NumberSeries::default() }
    }

    fn write(&self, name: &str, out: &mut Vec<u8>) {
        let variance = if self.n > 1 { self.m2 / f64::from(self.n - 1) } else { 0.0 };
        list(out, name, 6);
        number(out, "n", self.n);
        float(out, "min", self.min);
        float(out, "max", self.max);
        float(out, "m2", self.m2);
        float(out, "avg", self.avg);
        float(out, "var", variance);
    }
}

/// Counts of one cluster.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Unix seconds of the first and the last request. `None`: there was no request.
    span: Option<(f64, f64)>,
    times: [NumberSeries; SERIES.len()],
    sizes: [f64; SERIES.len()],
    total: NumberSeries,
}

/// Values that the node contributes to the answer.
pub struct NodeFigures<'a> {
    /// Current time in Unix seconds.
    pub now: f64,
    /// Log entries, as a series: the number of entries, and the average number of updates in one.
    pub harvest: NumberSeries,
    /// Memory of the store, and of the process, in KiB.
    pub memory_kib: (f64, i32),
    /// Placement of the bucket's group.
    pub placement: &'a BucketPlacement,
}

impl Statistics {
    /// Counts a request: its kind, its duration in seconds, and the size of its answer or of the
    /// value that it wrote.
    pub fn add(&mut self, now: f64, class: Option<Class>, seconds: f64, size: u64) {
        let start = self.span.map_or(now, |(start, _)| start);
        self.span = Some((start, now));
        self.total.add(seconds);
        if let Some(class) = class {
            let series = &mut self.times[class as usize];
            series.add(seconds);
            let average = &mut self.sizes[class as usize];
            *average += (size as f64 - *average) / f64::from(series.n);
        }
    }

    /// Returns the bytes of the named field that the answer's string holds.
    pub fn write(&self, figures: &NodeFigures<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 * 1024);
        let (start, last) = self.span.unwrap_or((figures.now, figures.now));
        // Fields: 2 times, the sizes, the harvest, the series, `op_info`, 5 of memory, `node_is`.
        list(&mut out, "arakoon_stats", 2 + SIZES.len() + 1 + SERIES.len() + 1 + 5 + 1);
        float(&mut out, "start", start);
        float(&mut out, "last", last);
        for (name, class) in SIZES {
            float(&mut out, name, self.sizes[class as usize]);
        }
        figures.harvest.write("harvest_stats", &mut out);
        for (name, series) in SERIES.iter().zip(&self.times) {
            series.write(name, &mut out);
        }
        self.total.write("op_info", &mut out);
        float(&mut out, "mem_allocated", figures.memory_kib.0);
        number(&mut out, "mem_maxrss", figures.memory_kib.1);
        // Rust has no garbage collector, so these are always 0.
        for name in ["mem_minor_collections", "mem_major_collections", "mem_compactions"] {
            number(&mut out, name, 0);
        }
        list(&mut out, "node_is", figures.placement.members.len());
        for member in &figures.placement.members {
            out.int(2);
            out.text(member.name.as_bytes());
            out.long(i64::try_from(member.index.0).unwrap_or(i64::MAX));
        }
        out
    }
}

fn list(out: &mut Vec<u8>, name: &str, fields: usize) {
    out.int(5);
    out.text(name.as_bytes());
    out.count(fields);
}

fn float(out: &mut Vec<u8>, name: &str, value: f64) {
    out.int(3);
    out.text(name.as_bytes());
    out.float(value);
}

fn number(out: &mut Vec<u8>, name: &str, value: i32) {
    out.int(1);
    out.text(name.as_bytes());
    out.int(value);
}
