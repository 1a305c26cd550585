//! Samples: measured numbers, as `/metrics` and `INFO` show them.

/// Kind of a sample, by its behaviour over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// Counter: only goes up.
    Counter,
    /// Gauge: goes up and down.
    Gauge,
}

/// One measured number. Names follow Prometheus' conventions: base units, `_total` for counters.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Name: `credenza_...`, or `process_...` for numbers that every program has.
    pub name: &'static str,
    /// Help text of one line.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: SampleKind,
    /// Label names and values.
    pub labels: Vec<(&'static str, String)>,
    /// Value.
    pub value: f64,
}

impl Sample {
    /// Returns the value of the first sample with this name. 0 if there is none.
    pub fn value_of(samples: &[Sample], name: &str) -> f64 {
        samples.iter().find(|sample| sample.name == name).map_or(0.0, |sample| sample.value)
    }
}
