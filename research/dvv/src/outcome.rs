//! Results of a run as numbers that are written to and read from a file.

use super::measured::{Measured, Returned};
use super::study::StudyLoad;
use load_generator::charts::short;
use load_generator::machine::Machine;
use load_generator::report::Percentiles;
use serde::{Deserialize, Serialize};

/// Results of the whole study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Study {
    /// Time of its beginning, UTC.
    pub started: String,
    /// The version of this program.
    pub credenza: String,
    /// Machine it ran on.
    pub machine: Machine,
    /// Length of each run, in simulated seconds.
    pub seconds: f64,
    /// Number of clients.
    pub clients: usize,
    /// Number of keys.
    pub keys: u64,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Results of every run.
    pub outcomes: Vec<LoadOutcome>,
    /// Results of the same mixes on the database itself.
    pub product: Vec<Product>,
}

/// Results of one load with one kind of clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// Name of the kind of clock.
    pub kind: String,
    /// Name of the mix.
    pub mix: String,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Operations a simulated second.
    pub throughput: f64,
    /// Latency of gets.
    pub reads: Percentiles,
    /// Latency of puts.
    pub writes: Percentiles,
    /// Sizes of clocks as Erlang terms, over returned objects.
    pub terms: Bytes,
    /// Sizes of clocks in compact form, over returned objects.
    pub coded: Bytes,
    /// Mean number of values of a returned object.
    pub values: f64,
    /// Mean number of values of a returned object, without those of the hot key.
    pub values_without_spike: f64,
    /// Mean number of values of a key at the end.
    pub values_at_end: f64,
    /// Number of reads that returned objects.
    pub objects: u64,
    /// Number of reads that returned a value which had been replaced.
    pub false_reads: u64,
    /// Number of such values.
    pub false_values: usize,
    /// Number of writes lost.
    pub lost: usize,
    /// Number of the lost writes that had no context.
    pub lost_blind: u64,
    /// Time that the clocks of one get, and of one put, took on this machine, microseconds.
    pub work_us: [f64; 2],
    /// Mean size of a clock in each second, bytes: as Erlang terms, and in compact form.
    pub growth: Vec<[f64; 2]>,
}

/// Sizes of clocks over returned objects, bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bytes {
    /// Mean of all.
    pub mean: f64,
    /// 99th percentile.
    pub p99: u64,
    /// Largest.
    pub max: u64,
    /// Mean over the last tenth of the run.
    pub last_tenth: f64,
    /// Mean without those of the hot key that the distribution's truncation makes.
    pub without_spike: f64,
}

/// Results of one mix on six nodes of the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Product {
    /// Name of the mix.
    pub mix: String,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Length of the run, in seconds.
    pub seconds: f64,
    /// Operations a second.
    pub throughput: f64,
    /// Latency of gets, and of the gets of updates.
    pub reads: Percentiles,
    /// Latency of puts, and of the puts of updates.
    pub writes: Percentiles,
    /// Mean length of an object's context before base 64, bytes.
    pub clock_mean: f64,
    /// 99th percentile of these lengths, bytes.
    pub clock_p99: u64,
    /// Mean number of values of an object found.
    pub values: f64,
    /// Number of objects found.
    pub objects: u64,
    /// Number of operations that failed.
    pub failed: u64,
}

impl Study {
    /// Returns it as JSON.
    pub fn json(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| error.to_string())
    }
}

impl LoadOutcome {
    /// Sums up a run.
    pub fn of(kind: &str, load: &StudyLoad, measured: &Measured) -> LoadOutcome {
        let (all, last, cold) = (measured.all(), measured.last_tenth(), measured.without_spike());
        let bytes = |histogram: &hdrhistogram::Histogram<u64>, of: fn(&Returned) -> u64| Bytes {
            mean: all.mean(of(&all)),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
            last_tenth: last.mean(of(&last)),
            without_spike: cold.mean(of(&cold)),
        };
        let work = |part: usize| {
            measured.work[part].as_secs_f64() * 1e6 / measured.calls[part].max(1) as f64
        };
        let second = |one: &Returned| [one.mean(one.term_bytes), one.mean(one.coded_bytes)];
        // Answers that come when no client begins any more belong to no second of the run.
        let seconds = (load.time.as_secs_f64().ceil() as usize).min(measured.seconds.len());
        LoadOutcome {
            kind: kind.into(),
            mix: load.mix.name.into(),
            value_bytes: load.value_bytes,
            throughput: measured.operations as f64 / load.time.as_secs_f64(),
            reads: Percentiles::from_histogram(&measured.reads),
            writes: Percentiles::from_histogram(&measured.writes),
            terms: bytes(&measured.term_bytes, |one| one.term_bytes),
            coded: bytes(&measured.coded_bytes, |one| one.coded_bytes),
            values: all.mean(all.values),
            values_without_spike: cold.mean(cold.values),
            values_at_end: measured.keys.1 as f64 / measured.keys.0.max(1) as f64,
            objects: all.objects,
            false_reads: measured.errors.false_reads,
            false_values: measured.errors.false_values.len(),
            lost: measured.errors.lost.len(),
            lost_blind: measured.errors.lost_blind,
            work_us: [work(0), work(1)],
            growth: measured.seconds[..seconds].iter().map(second).collect(),
        }
    }

    /// Returns it in one line.
    pub fn line(&self) -> String {
        format!(
            "{:>6}/s  clock {:>6} ({} tight)  values {:.3}  false {}  lost {}",
            short(self.throughput),
            short(self.terms.mean),
            short(self.coded.mean),
            self.values,
            self.false_values,
            self.lost
        )
    }
}
