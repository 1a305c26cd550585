//! A load and its outcome in plain words, for readers who have not read the settings.

use super::RunReport;
use crate::config::{Config, Mode};
use crate::generators::ValueGenerator;
use program::units::show_count;

/// Describes a run before it starts: server, duration, operations, and pacing.
pub fn describe_load(config: &Config, server: &str) -> String {
    let clients = number(config.concurrent as f64);
    let time = match config.duration {
        Some(duration) => format!("for {:.1} s", duration.as_secs_f64()),
        None => "until it is stopped".into(),
    };
    let warm_up = match config.warm_up.as_secs_f64() {
        0.0 => String::new(),
        seconds => format!(" after {seconds:.1} s that are not counted"),
    };
    let pace = match config.mode {
        Mode::Max => "each client sends its next operation when the last one was answered".into(),
        Mode::Rate(rate) => {
            format!("{} operations a second are due, whatever the server does", number(rate))
        }
    };
    let checked = if config.verify { ", every value that is read is checked" } else { "" };
    let place = config.driver.addresses().map_or(String::new(), |place| format!(" at {place}"));
    format!(
        "load: {clients} clients of {server}{place}, {time}{warm_up}: {}, {}{checked}; {pace}\n",
        mix(config),
        values(&config.value_generator),
    )
}

/// Returns the title of a run's charts after their subject: the run's name, then on a second line
/// the server, the time and the load.
pub fn title(config: &Config, report: &RunReport) -> String {
    format!(
        "{}\n{} with {}, {} clients, {}, {}, {} UTC",
        report.name,
        report.server,
        report.driver,
        config.concurrent,
        mix(config),
        values(&config.value_generator),
        report.started
    )
}

impl RunReport {
    /// Describes the outcome in one sentence.
    pub fn verdict(&self) -> String {
        let failed = match self.failed {
            0 => "none failed".into(),
            failed => format!("{} FAILED", number(failed as f64)),
        };
        let latency = &self.latency_us;
        if latency.count == 0 {
            return format!("verdict: nothing succeeded, {failed}\n");
        }
        format!(
            "verdict: {} operations a second, {failed}; half took at most {}, 99 of 100 at most \
             {}, the longest {}\n",
            number(self.throughput.round()),
            time(latency.p50),
            time(latency.p99),
            time(latency.max),
        )
    }
}

/// Formats the mix as `get 75 %, put 25 %`.
fn mix(config: &Config) -> String {
    let total_weight: u64 = config.operations.iter().map(|weighted| weighted.weight).sum();
    let shares = config.operations.iter().map(|weighted| {
        let percent = weighted.weight as f64 * 100.0 / total_weight.max(1) as f64;
        let percent = format!("{percent:.1}");
        format!("{} {} %", weighted.label, percent.trim_end_matches(".0"))
    });
    shares.collect::<Vec<_>>().join(", ")
}

fn values(generator: &ValueGenerator) -> String {
    match generator {
        ValueGenerator::Fixed { bytes }
        | ValueGenerator::Repeated { bytes, .. }
        | ValueGenerator::Characters { bytes } => format!("values of {bytes} bytes"),
        ValueGenerator::Exponential { min, mean } => {
            format!("values of {} bytes on average", min + mean)
        }
        ValueGenerator::Uniform { min, max } => format!("values of {min} to {max} bytes"),
        ValueGenerator::Integer { min, max } => format!("numbers from {min} to {max} as values"),
        ValueGenerator::Coupon { .. } => "JSON documents of about 300 bytes".into(),
    }
}

/// Formats a number, rounded, in groups of three digits.
fn number(number: f64) -> String {
    show_count(number.round_ties_even() as u64)
}

/// Formats microseconds in the unit that is easiest to read.
fn time(microseconds: f64) -> String {
    match microseconds {
        long if long >= 1e6 => format!("{:.1} s", long / 1e6),
        long if long >= 1e4 => format!("{:.0} ms", long / 1e3),
        short => format!("{:.2} ms", short / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Items;
    use crate::load::Collected;
    use crate::report::Percentiles;

    #[test]
    fn load_description_states_clients_target_mix_and_rate() {
        let text = "driver = 'resp'\nduration = '5s'\nwarm_up = '1s'\nconcurrent = 1000\n\
                    operations = [['get', 2], ['put', 1]]\nmode = ['rate', 20000]";
        let config = Config::read(Items::parse("a.toml", text).expect("TOML")).expect("settings");
        assert_eq!(
            describe_load(&config, "credenza 0.1.0"),
            "load: 1,000 clients of credenza 0.1.0 at 127.0.0.1:7711, for 5.0 s after 1.0 s that \
             are not counted: get 66.7 %, put 33.3 %, values of 100 bytes; 20,000 operations a \
             second are due, whatever the server does\n"
        );
    }

    #[test]
    fn verdict_states_rate_failures_and_latencies_in_one_line() {
        let collected =
            Collected { seconds: 5.0, operations: Vec::new(), unstarted: 0, unanswered: 0 };
        let latency_us = Percentiles {
            count: 9,
            p50: 312.0,
            p99: 14_500.0,
            max: 1.25e6,
            ..Percentiles::default()
        };
        let report = RunReport { throughput: 20_691.4, latency_us, ..RunReport::of(&collected) };
        assert_eq!(
            report.verdict(),
            "verdict: 20,691 operations a second, none failed; half took at most 0.31 ms, 99 of \
             100 at most 14 ms, the longest 1.2 s\n"
        );
        let report = RunReport { failed: 1_200, latency_us: Percentiles::default(), ..report };
        assert_eq!(report.verdict(), "verdict: nothing succeeded, 1,200 FAILED\n");
    }
}
