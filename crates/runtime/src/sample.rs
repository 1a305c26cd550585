//! Measured numbers, as `/metrics` and `INFO` show them.

/// Behaviour of a sample over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleKind {
    /// Only goes up.
    Counter,
    /// Goes up and down.
    Gauge,
}

/// One measured number. Names follow Prometheus' customs: base units, `_total` for counters.
#[derive(Clone, Debug)]
pub struct Sample {
    /// `credenza_...`, or `process_...` where every program has it.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// Counter or gauge.
    pub kind: SampleKind,
    /// Label names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The number.
    pub value: f64,
}

impl Sample {
    /// The number of the first sample of this name; 0 where there is none.
    pub fn value_of(samples: &[Sample], name: &str) -> f64 {
        samples.iter().find(|sample| sample.name == name).map_or(0.0, |sample| sample.value)
    }
}
