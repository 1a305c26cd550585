//! A run as numbers that are written down and read again.

use super::measured::{Measured, Returned};
use super::study::StudyLoad;
use bench::{Machine, Percentiles, short};
use serde::{Deserialize, Serialize};

/// The whole study.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Study {
    /// Time of its beginning, UTC.
    pub started: String,
    /// The version of this program.
    pub credenza: String,
    /// Machine it ran on.
    pub machine: Machine,
    /// Length of each run, in seconds of the study's own time.
    pub seconds: f64,
    /// Clients.
    pub clients: usize,
    /// Keys.
    pub keys: u64,
    /// Seed of everything that chance decided.
    pub seed: u64,
    /// Every run.
    pub outcomes: Vec<LoadOutcome>,
    /// Runs of the same mixes on the database itself.
    pub product: Vec<Product>,
}

/// One load with one kind of clock.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadOutcome {
    /// The kind of clock.
    pub kind: String,
    /// The mix.
    pub mix: String,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Operations a second of the study's own time.
    pub throughput: f64,
    /// Gets.
    pub reads: Percentiles,
    /// Puts.
    pub writes: Percentiles,
    /// Clocks as Erlang terms, by returned object.
    pub terms: Bytes,
    /// Clocks written tightly, by returned object.
    pub coded: Bytes,
    /// Values, by returned object.
    pub values: f64,
    /// Values, by returned object but those of the hot key.
    pub values_without_spike: f64,
    /// Values, by key at the end.
    pub values_at_end: f64,
    /// Reads that returned objects.
    pub objects: u64,
    /// Reads that returned a value which had been replaced.
    pub false_reads: u64,
    /// Such values.
    pub false_values: usize,
    /// Writes lost.
    pub lost: usize,
    /// Those of them that had been written without a context.
    pub lost_blind: u64,
    /// This machine's time for the clocks of one get, and of one put, microseconds.
    pub work_us: [f64; 2],
    /// Mean clock second by second: as Erlang terms, and written tightly.
    pub growth: Vec<[f64; 2]>,
}

/// Sizes of clocks over returned objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bytes {
    /// Mean of all.
    pub mean: f64,
    /// 99th percentile.
    pub p99: u64,
    /// Longest.
    pub max: u64,
    /// Mean of those in the last tenth of the run.
    pub last_tenth: f64,
    /// Mean of all but those of the key that the distribution's cut makes hot.
    pub without_spike: f64,
}

/// One mix on six nodes of the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Product {
    /// The mix.
    pub mix: String,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Length of the run, in seconds.
    pub seconds: f64,
    /// Operations a second.
    pub throughput: f64,
    /// Gets, and the gets of updates.
    pub reads: Percentiles,
    /// Puts, and the puts of updates.
    pub writes: Percentiles,
    /// Bytes of contexts before base 64, by object found.
    pub clock_mean: f64,
    /// 99 % have at most so many.
    pub clock_p99: u64,
    /// Values, by object found.
    pub values: f64,
    /// Objects found.
    pub objects: u64,
    /// Operations that failed.
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
        // What is still answered when nobody begins any more is no second of the run.
        let seconds = (load.time.as_secs_f64().ceil() as usize).min(measured.seconds.len());
        LoadOutcome {
            kind: kind.into(),
            mix: load.mix.name.into(),
            value_bytes: load.value_bytes,
            throughput: measured.operations as f64 / load.time.as_secs_f64(),
            reads: Percentiles::of(&measured.reads),
            writes: Percentiles::of(&measured.writes),
            terms: bytes(&measured.term_bytes, |one| one.term_bytes),
            coded: bytes(&measured.coded_bytes, |one| one.coded_bytes),
            values: all.mean(all.values),
            values_without_spike: cold.mean(cold.values),
            values_at_end: measured.keys.1 as f64 / measured.keys.0.max(1) as f64,
            objects: all.objects,
            false_reads: measured.wrong.false_reads,
            false_values: measured.wrong.false_values.len(),
            lost: measured.wrong.lost.len(),
            lost_blind: measured.wrong.lost_blind,
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
