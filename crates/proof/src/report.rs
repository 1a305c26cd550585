//! How an experiment speaks: one line of figures, or one line that says why it was skipped.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

/// The figures of one experiment.
#[derive(Clone, Debug)]
pub struct Figures {
    name: String,
    begun: Instant,
    /// Calls that were acknowledged.
    pub ok: u64,
    /// Calls that surely did nothing.
    pub fail: u64,
    /// Calls whose outcome stays unknown.
    pub info: u64,
    /// Faults that were injected.
    pub faults: u64,
    /// Acknowledged calls whose effect was gone.
    pub lost: u64,
    extra: Vec<(String, String)>,
}

impl Figures {
    /// Begins an experiment; its seconds count from here.
    pub fn begin(name: &str) -> Figures {
        Figures {
            name: name.into(),
            begun: Instant::now(),
            ok: 0,
            fail: 0,
            info: 0,
            faults: 0,
            lost: 0,
            extra: Vec::new(),
        }
    }

    /// A figure that only this experiment has.
    pub fn also(&mut self, name: &str, value: impl ToString) {
        self.extra.push((name.into(), value.to_string()));
    }

    /// Milliseconds since it began.
    pub fn milliseconds(&self) -> u128 {
        self.begun.elapsed().as_millis()
    }

    /// Prints the line, past the test harness' capture: the figures of a passing run matter too.
    pub fn print(&self) {
        let mut line = format!(
            "{}: calls ok={} fail={} info={} faults={} lost={}",
            self.name, self.ok, self.fail, self.info, self.faults, self.lost
        );
        for (name, value) in &self.extra {
            let _ = write!(line, " {name}={value}");
        }
        let _ = write!(line, " seconds={:.1}", self.begun.elapsed().as_secs_f64());
        say(&line);
    }
}

/// Prints a line past the test harness' capture.
pub fn say(line: &str) {
    let mut out = std::io::stderr().lock();
    let _ = writeln!(out, "{line}");
}

/// Says that an experiment did not run, and why. Skipping is never silent.
pub fn skipped(name: &str, why: &str) {
    say(&format!("{name}: skipped: {why}"));
}

/// Whether the long counts are wanted (`make test-long`).
pub fn long() -> bool {
    std::env::var("CREDENZA_TEST_LONG").is_ok_and(|word| word == "1")
}

/// The short count, or the long one.
pub fn times(short: usize, long_count: usize) -> usize {
    if long() { long_count } else { short }
}
