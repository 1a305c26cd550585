//! Counts of one run of the study.

use hdrhistogram::Histogram;
use load_generator::load::new_histogram;
use std::collections::BTreeSet;
use std::time::Duration;

/// Largest number of values and clock size that the histograms distinguish; larger ones count as
/// this.
const COUNTED_MAX: u64 = 1 << 24;

/// Sums over the objects that reads returned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Returned {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of their clocks as Erlang terms.
    pub term_bytes: u64,
    /// Bytes of their clocks in compact form.
    pub coded_bytes: u64,
    /// Number of their values.
    pub values: u64,
}

impl Returned {
    /// Adds another sum.
    pub fn add(&mut self, other: &Returned) {
        self.objects += other.objects;
        self.term_bytes += other.term_bytes;
        self.coded_bytes += other.coded_bytes;
        self.values += other.values;
    }

    /// Returns the mean of a sum over the objects.
    pub fn mean(&self, part: u64) -> f64 {
        part as f64 / self.objects.max(1) as f64
    }
}

/// Errors of the clocks, found by comparison with the truth.
#[derive(Clone, Debug, Default)]
pub struct ClockErrors {
    /// Reads that returned a value which had been replaced.
    pub false_reads: u64,
    /// False values, each counted once: key and write.
    pub false_values: BTreeSet<(u32, u32)>,
    /// Writes that are missing though nothing replaced them, each counted once.
    pub lost: BTreeSet<(u32, u32)>,
    /// Number of the lost writes that had no context.
    pub lost_blind: u64,
}

/// Measurements of one run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Number of operations that ended.
    pub operations: u64,
    /// Number of gets and of puts that the operations consist of.
    pub calls: [u64; 2],
    /// Time of gets, in simulated nanoseconds.
    pub reads: Histogram<u64>,
    /// Time of puts, in simulated nanoseconds.
    pub writes: Histogram<u64>,
    /// Objects returned, second by second.
    pub seconds: Vec<Returned>,
    /// Objects of the hot key that the distribution's truncation makes.
    pub spike: Returned,
    /// Bytes of each object's clock as Erlang terms.
    pub term_bytes: Histogram<u64>,
    /// Bytes of each object's clock in compact form.
    pub coded_bytes: Histogram<u64>,
    /// Number of each object's values.
    pub values: Histogram<u64>,
    /// Errors of the clocks.
    pub errors: ClockErrors,
    /// Number of keys that have values at the end, and of their values.
    pub keys: (u64, u64),
    /// Time that the clocks took on this machine, in reads and in writes.
    pub work: [Duration; 2],
}

impl Default for Measured {
    fn default() -> Measured {
        let counts =
            || Histogram::new_with_bounds(1, COUNTED_MAX, 3).expect("the bounds are in order");
        Measured {
            operations: 0,
            calls: [0, 0],
            reads: new_histogram(),
            writes: new_histogram(),
            seconds: Vec::new(),
            spike: Returned::default(),
            term_bytes: counts(),
            coded_bytes: counts(),
            values: counts(),
            errors: ClockErrors::default(),
            keys: (0, 0),
            work: [Duration::ZERO; 2],
        }
    }
}

impl Measured {
    /// Counts an object that was returned in this second of the run.
    pub fn returned(&mut self, second: usize, object: Returned, is_spike: bool) {
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Returned::default());
        }
        self.seconds[second].add(&object);
        if is_spike {
            self.spike.add(&object);
        }
        self.term_bytes.saturating_record(object.term_bytes);
        self.coded_bytes.saturating_record(object.coded_bytes);
        self.values.saturating_record(object.values);
    }

    /// Returns the sum over all objects.
    pub fn all(&self) -> Returned {
        self.seconds.iter().fold(Returned::default(), |mut sum, second| {
            sum.add(second);
            sum
        })
    }

    /// Returns the sum over all objects but those of the hot key.
    pub fn without_spike(&self) -> Returned {
        let (all, spike) = (self.all(), self.spike);
        Returned {
            objects: all.objects - spike.objects,
            term_bytes: all.term_bytes - spike.term_bytes,
            coded_bytes: all.coded_bytes - spike.coded_bytes,
            values: all.values - spike.values,
        }
    }

    /// Returns the sum over the objects of the last tenth of the run.
    pub fn last_tenth(&self) -> Returned {
        let from = self.seconds.len() - self.seconds.len().div_ceil(10);
        self.seconds[from..].iter().fold(Returned::default(), |mut sum, second| {
            sum.add(second);
            sum
        })
    }
}
