//! Store without a server, which its own benchmark program drives in its process: RocksDB's
//! `db_bench`.

use load_generator::config::{Item, Items};
use std::collections::BTreeMap;

/// A store and the runs of its benchmark program.
pub struct StoreProgram {
    /// Command that installs the program, for the message that says it is absent; may be empty.
    pub install: String,
    /// Runs in order; the first one fills the store.
    pub steps: Vec<ProgramStep>,
}

/// One run of the program.
pub struct ProgramStep {
    /// Name of its figures, such as `writers` or `gets`.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// File to which the program writes its rate at intervals. `None`: it writes none.
    pub report: Option<String>,
    /// True if the time of the whole run, from its start to its end, is that of a restart.
    pub is_restart: bool,
}

/// Result that the program printed. Times are microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProgramResult {
    /// Number of operations.
    pub operations: u64,
    /// Time that they took, seconds.
    pub seconds: f64,
    /// Median time of one operation or batch.
    pub p50_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p99_9_us: f64,
    /// Longest time.
    pub max_us: f64,
}

impl StoreProgram {
    /// Reads the suite's table `program`.
    pub fn read_all(item: &Item) -> Result<BTreeMap<String, StoreProgram>, String> {
        let entries = item.table()?.rest().into_iter();
        entries.map(|(name, item)| Ok((name, StoreProgram::read(&item)?))).collect()
    }

    fn read(item: &Item) -> Result<StoreProgram, String> {
        let mut items = item.table()?;
        let steps = |item: &Item| item.list()?.iter().map(ProgramStep::read).collect();
        let program = StoreProgram {
            install: items.read("install", String::new(), |i| i.text().map(String::from))?,
            steps: items.need("a program", "step", steps)?,
        };
        items.finish()?;
        match program.steps.is_empty() {
            true => Err(item.error("wants a `step`")),
            false => Ok(program),
        }
    }

    /// Returns the program that its steps run.
    pub fn command(&self) -> &str {
        self.steps.first().and_then(|step| step.command.first()).map_or("", String::as_str)
    }
}

impl ProgramStep {
    fn read(item: &Item) -> Result<ProgramStep, String> {
        let mut items: Items = item.table()?;
        let text = |item: &Item| item.text().map(String::from);
        let step = ProgramStep {
            name: items.need("a step", "name", text)?,
            command: items.need("a step", "command", Item::texts)?,
            report: items.read("report", None, |item| text(item).map(Some))?,
            is_restart: items.read("restart", false, Item::boolean)?,
        };
        items.finish()?;
        match step.command.is_empty() {
            true => Err(item.error("wants a command with a program")),
            false => Ok(step),
        }
    }
}

/// Parses the output of `db_bench --histogram=1`: its last benchmark that counts operations.
/// `None`: there is none.
pub fn parse_db_bench(output: &str) -> Option<ProgramResult> {
    // Progress is printed with carriage returns before the lines that matter.
    let lines = || output.split(['\n', '\r']);
    let result = lines().rfind(|line| line.contains(" micros/op "))?;
    let number_before = |word: &str| -> Option<f64> {
        result.split_once(word)?.0.split_whitespace().next_back()?.parse().ok()
    };
    let value_of = |name: &str| -> Option<f64> {
        let line = lines().rfind(|line| line.contains(name))?;
        line.split_once(name)?.1.split_whitespace().next()?.parse().ok()
    };
    Some(ProgramResult {
        operations: number_before(" operations")? as u64,
        seconds: number_before(" seconds")?,
        p50_us: value_of("P50: ")?,
        p99_us: value_of("P99: ")?,
        p99_9_us: value_of("P99.9: ")?,
        max_us: value_of("  Max: ")?,
    })
}

/// Returns the version that `db_bench` prints. Empty: it printed none.
pub fn db_bench_version(output: &str) -> String {
    let line = output.lines().find_map(|line| line.strip_prefix("RocksDB:"));
    line.map_or(String::new(), |line| format!("rocksdb{}", line.trim().replace("version", "")))
}

/// Parses a report file of `db_bench`: seconds and operations a second, one line each.
pub fn parse_report(text: &str) -> Vec<(f64, f64)> {
    let pair = |line: &str| {
        let (seconds, rate) = line.split_once(',')?;
        Some((seconds.parse().ok()?, rate.parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "RocksDB:    version 7.8.3\n\
        ... finished 256 ops \r... finished 512 ops \r\
        filluniquerandom :       3.888 micros/op 257201 ops/sec 0.777 seconds 199936 operations;\
        \x20  28.5 MB/s\nMicroseconds per write:\n\
        Count: 781 Average: 995.1844  StdDev: 1422.99\n\
        Min: 449  Median: 865.7239  Max: 39079\n\
        Percentiles: P50: 865.72 P75: 1091.12 P99: 3042.50 P99.9: 36723.00 P99.99: 39079.00\n";

    #[test]
    fn db_bench_output_is_parsed() {
        let result = ProgramResult {
            operations: 199_936,
            seconds: 0.777,
            p50_us: 865.72,
            p99_us: 3042.5,
            p99_9_us: 36_723.0,
            max_us: 39_079.0,
        };
        assert_eq!(parse_db_bench(OUTPUT), Some(result));
        assert_eq!(db_bench_version(OUTPUT), "rocksdb 7.8.3");
        assert_eq!(parse_db_bench("waitforcompaction(/data): finished\n"), None);
        // Of two benchmarks the last one counts.
        let two = format!(
            "{OUTPUT}readrandom : 12.6 micros/op 78781 ops/sec 0.063 seconds 5000 operations;\n\
             Min: 2  Median: 7.3  Max: 5401\n\
             Percentiles: P50: 7.32 P75: 9.14 P99: 21.10 P99.9: 1300.00 P99.99: 5401.00\n"
        );
        let last = parse_db_bench(&two).expect("a result");
        assert_eq!((last.operations, last.max_us), (5_000, 5_401.0));
    }

    #[test]
    fn db_bench_report_is_parsed_without_its_heading() {
        let text = "secs_elapsed,interval_qps\n1,250000\n2,240000\n";
        assert_eq!(parse_report(text), [(1.0, 250_000.0), (2.0, 240_000.0)]);
        assert!(parse_report("").is_empty());
    }

    #[test]
    fn program_without_steps_is_rejected() {
        let read = |text: &str| {
            let mut items = Items::parse("a.toml", text)?;
            items.read("program", BTreeMap::new(), StoreProgram::read_all)
        };
        let step = "[[program.r.step]]\nname = 'writers'\ncommand = ['db_bench']";
        assert_eq!(read(step).expect("whole")["r"].command(), "db_bench");
        for (text, expected) in [
            ("[program.r]\nstep = []", "wants a `step`"),
            ("[[program.r.step]]\nname = 'writers'\ncommand = []", "wants a command"),
            ("[program.r]", "needs the key `step`"),
        ] {
            let error = read(text).err().unwrap_or_default();
            assert!(error.contains(expected), "{error}");
        }
    }
}
