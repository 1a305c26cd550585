//! Work of one measurement: a load of this tool, a foreign tool, or nothing at all.

use super::coupons::CouponWork;
use super::feeds::FeedWork;
use super::file::{Server, config};
use load_generator::config::{Config, Item, Items, duration_of};
use load_generator::report::Percentiles;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// Placeholders with their values.
pub type Placeholders = BTreeMap<&'static str, String>;

/// Placeholders that stand for free ports.
pub const PORTS: [&str; 6] = ["port", "port2", "port3", "port4", "port5", "port6"];

/// Placeholders of the relays, one before each port, of a server with a `delay`.
pub const RELAYS: [&str; 6] = ["relay", "relay2", "relay3", "relay4", "relay5", "relay6"];

/// Placeholders of the client ports of the two processes that survive the leader.
pub const SURVIVORS: [&str; 2] = ["survivor", "survivor2"];

/// Placeholder of the client port of the process that leads; without a leader the first one's.
pub const LEADER: &str = "leader";

/// Kind of work of a measure.
pub enum Work {
    /// A load of this tool with these settings.
    Load(Items),
    /// A foreign program that loads the server and may measure it.
    Tool(Tool),
    /// No load for this time.
    Idle(Duration),
    /// A load during which the leader is killed.
    Failover(Failover),
    /// The experiment of coupons: documents that are found by an index.
    Coupons(CouponWork),
    /// Reader of a feed, or readers that wait for it.
    Feed(FeedWork),
}

/// A load through the processes that survive, while the leader is killed.
pub struct Failover {
    /// Settings of the load.
    pub load: Items,
    /// Time from the start of the load to the kill.
    pub after: Duration,
}

/// A program that generates load.
pub struct Tool {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Number of operations: `{units}` in its arguments.
    pub units: u64,
    /// True if `{records}` is replaced by the path of a file with `units` records.
    pub records: bool,
    /// Source of the speed.
    pub speed_source: SpeedSource,
    /// Command that installs the program, for the message that says it is absent; may be empty.
    pub install: String,
}

/// Source of a tool's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpeedSource {
    /// The table of `redis-benchmark --csv`.
    RedisBenchmark,
    /// The time in which the program does its units.
    Time,
}

impl Work {
    /// Reads `load`, `tool`, `idle`, `failover`, `coupons` or `feed`; without any of them the work
    /// is the suite's load.
    pub fn read(
        items: &mut Items,
        base: &Items,
        settings: &Items,
        share: f64,
    ) -> Result<Work, String> {
        if let Some(item) = items.take("idle") {
            return Ok(Work::Idle(duration_of(&item, 1.0)?.mul_f64(share)));
        }
        if let Some(item) = items.take("tool") {
            return Tool::read(&item, share).map(Work::Tool);
        }
        if let Some(item) = items.take("coupons") {
            return CouponWork::read(&item, share).map(Work::Coupons);
        }
        if let Some(item) = items.take("feed") {
            return FeedWork::read(&item, share).map(Work::Feed);
        }
        let failover = items.take("failover");
        let mut load = items.read("load", Items::default(), Item::table)?;
        let mut merged = base.clone();
        load.merge(settings.clone());
        merged.merge(load);
        let Some(item) = failover else { return Ok(Work::Load(merged)) };
        let mut items = item.table()?;
        let after = items.need("a failover", "after", |item| duration_of(item, 1.0))?;
        items.finish()?;
        Ok(Work::Failover(Failover { load: merged, after }))
    }
}

impl Tool {
    fn read(item: &Item, share: f64) -> Result<Tool, String> {
        let mut items = item.table()?;
        let units = items.need("a tool", "units", |item| item.integer(1, 1_000_000_000))?;
        let tool = Tool {
            command: items.need("a tool", "command", Item::texts)?,
            units: ((units as f64 * share) as u64).max(1),
            records: items.read("records", false, Item::boolean)?,
            speed_source: items.read("gives", SpeedSource::Time, |item| match item.text()? {
                "redis-benchmark" => Ok(SpeedSource::RedisBenchmark),
                "time" => Ok(SpeedSource::Time),
                _ => Err(item.error("wants \"redis-benchmark\" or \"time\"")),
            })?,
            install: items.read("install", String::new(), |i| i.text().map(String::from))?,
        };
        items.finish()?;
        match tool.command.is_empty() {
            true => Err(item.error("wants a command with a program")),
            false => Ok(tool),
        }
    }
}

/// Returns the settings of a load through the survivors of a server's leader.
pub fn failover_config(
    failover: &Failover,
    server: &Server,
    clients: usize,
    placeholders: &Placeholders,
    core: Option<usize>,
) -> Result<Config, String> {
    let driver = server.survivors.clone().unwrap_or_else(|| server.driver.clone());
    let server = Server { driver, ..server.clone() };
    config(&failover.load, &server, Some(clients), placeholders, core)
}

/// Replaces each `{word}` in a text by its value.
pub fn fill_placeholders(text: &str, placeholders: &Placeholders) -> String {
    placeholders
        .iter()
        .fold(text.to_string(), |text, (word, value)| text.replace(&format!("{{{word}}}"), value))
}

/// Parses the last row of `redis-benchmark --csv`: operations a second and latency. `None`:
/// malformed.
pub fn redis_benchmark(output: &str) -> Option<(f64, Percentiles)> {
    let mut lines = output.lines().filter(|line| line.starts_with('"'));
    let names: Vec<_> = lines.next()?.split(',').map(|name| name.trim_matches('"')).collect();
    let row: Vec<_> = lines.next_back()?.split(',').map(|field| field.trim_matches('"')).collect();
    let field = |name: &str| -> Option<f64> {
        row.get(names.iter().position(|known| *known == name)?)?.parse().ok()
    };
    let us = |name: &str| Some(field(name)? * 1000.0);
    let latency = Percentiles {
        min: us("min_latency_ms")?,
        mean: us("avg_latency_ms")?,
        p50: us("p50_latency_ms")?,
        p95: us("p95_latency_ms")?,
        p99: us("p99_latency_ms")?,
        max: us("max_latency_ms")?,
        ..Percentiles::default()
    };
    Some((field("rps")?, latency))
}

/// Writes a file of `count` records: one a line, a key of 20 bytes, a tab, a value of 100 bytes.
pub fn write_records(file: &Path, count: u64) -> Result<(), String> {
    let write = || {
        let mut out = std::io::BufWriter::new(std::fs::File::create(file)?);
        for number in 0..count {
            // Values differ from each other, so that compression gains little.
            write!(out, "key:{number:016}\t")?;
            let mut mixed = number.wrapping_add(1);
            for _ in 0..5 {
                mixed = mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
                write!(out, "{mixed:020}")?;
            }
            writeln!(out)?;
        }
        out.flush()
    };
    write().map_err(|error: std::io::Error| format!("{}: {error}", file.display()))
}
