//! One run's settings.

use super::drivers::DriverConfig;
use super::items::{Item, Items, TomlValue};
use super::{generators, terms};
use crate::generators::{KeyGenerator, KeyShape, Numbers, SEAL_BYTES, ValueGenerator};
use std::path::PathBuf;
use std::time::Duration;

/// Largest number of logical clients.
pub const CLIENTS_MAX: u64 = 10_000;
/// Largest number of requests that one client may have in flight.
const PIPELINE_MAX: u64 = 1_000;

/// Pacing of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Closed: every client sends its next request when it has an answer.
    Max,
    /// Open: this many operations a second in all, started by the schedule, not by the answers.
    Rate(f64),
}

/// Spacing of the starts of an open load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Independent arrivals: exponential gaps.
    Poisson,
    /// Equal gaps.
    Fixed,
}

/// Kind of operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a row; an absent one is counted, and is no error.
    Get,
    /// Reads a row; an absent one is the error `not_found`.
    GetExisting,
    /// Writes a row.
    Put,
    /// Deletes a row.
    Delete,
    /// A get, then a put of the same key: one operation, timed as one.
    Update,
    /// Writes a row if it holds the value that the thread last read or wrote.
    TestAndSet,
    /// Reads `range_rows` rows from a key on.
    Range,
    /// Writes `sequence_steps` rows that hold together or not at all.
    Sequence,
    /// Checks whether a row exists.
    Exists,
    /// Reads `multi_get_keys` rows in one request.
    MultiGet,
    /// Writes a row that expires after a time drawn from `expiry_s`. RESP only, as are all below.
    PutExpiring,
    /// Adds one to a counter.
    Increment,
    /// Counts all keys of the bucket; the key that is drawn does not matter.
    Count,
    /// Appends the key to the end of `queue`: keys are pushed in ascending order.
    Push,
    /// Removes the first key of `queue`: a read, then the removal of the key found; timed as one.
    Pop,
    /// Opens a session, writes a row through it, and closes it. Credenza only.
    SessionPut,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 16] = {
        use Operation::*;
        [
            Get,
            GetExisting,
            Put,
            Delete,
            Update,
            TestAndSet,
            Range,
            Sequence,
            Exists,
            MultiGet,
            PutExpiring,
            Increment,
            Count,
            Push,
            Pop,
            SessionPut,
        ]
    };

    /// Returns its name in configs.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Get => "get",
            Operation::GetExisting => "get_existing",
            Operation::Put => "put",
            Operation::Delete => "delete",
            Operation::Update => "update",
            Operation::TestAndSet => "test_and_set",
            Operation::Range => "range",
            Operation::Sequence => "sequence",
            Operation::Exists => "exists",
            Operation::MultiGet => "multi_get",
            Operation::PutExpiring => "put_expiring",
            Operation::Increment => "increment",
            Operation::Count => "count",
            Operation::Push => "push",
            Operation::Pop => "pop",
            Operation::SessionPut => "session_put",
        }
    }

    /// Returns true if only the RESP driver supports the operation.
    pub fn is_resp_only(self) -> bool {
        use Operation::*;
        matches!(self, PutExpiring | Increment | Count | Push | Pop | SessionPut)
    }
}

/// An operation with its weight in the mix.
#[derive(Clone, Debug, PartialEq)]
pub struct Weighted {
    /// Label in reports.
    pub label: String,
    /// Kind of operation.
    pub operation: Operation,
    /// Weight; its share is this divided by the sum of all weights.
    pub weight: u64,
}

/// One run's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// Pacing: a closed or an open load.
    pub mode: Mode,
    /// Spacing of the starts of an open load.
    pub schedule: Schedule,
    /// Length of the measured part. `None`: until stopped.
    pub duration: Option<Duration>,
    /// Length of the warm-up before the measured part, which is counted nowhere.
    pub warm_up: Duration,
    /// Logical clients (connections, where the driver has any).
    pub concurrent: usize,
    /// Threads that drive the clients.
    pub threads: usize,
    /// Cores that the threads are bound to, in turn; empty: not bound.
    pub pin: Vec<usize>,
    /// Number of requests that each client sends at once.
    pub pipeline: usize,
    /// Mix of operations.
    pub operations: Vec<Weighted>,
    /// Key generator.
    pub key_generator: KeyGenerator,
    /// Value generator.
    pub value_generator: ValueGenerator,
    /// Length of the blob that values are cut from, in bytes.
    pub value_source_bytes: usize,
    /// File whose bytes are that blob. `None`: random bytes.
    pub value_source_file: Option<PathBuf>,
    /// Time that a client waits between the get and the put of an update; counted nowhere.
    pub think_time: Duration,
    /// Length of one window of the reports.
    pub report_interval: Duration,
    /// Seed of the random generator.
    pub rng_seed: u64,
    /// True if the first error ends the run.
    pub shutdown_on_error: bool,
    /// Folder of the runs.
    pub test_dir: PathBuf,
    /// True if values carry their key and a checksum, and gets verify them.
    pub verify: bool,
    /// Time limit of an operation; one that takes longer is the error `timeout`.
    pub operation_timeout: Duration,
    /// Number of rows of a `range`.
    pub range_rows: usize,
    /// Number of keys of a `multi_get`.
    pub multi_get_keys: usize,
    /// Number of puts in a `sequence`.
    pub sequence_steps: usize,
    /// Least and greatest time to live of a `put_expiring`, in seconds.
    pub expiry_s: [u64; 2],
    /// Name of the queue of `push` and `pop`: a sorted set in Redis, a prefix of keys in Credenza.
    pub queue: String,
    /// Directory on the disk whose fdatasync time the report shows. `None`: not measured.
    pub disk_dir: Option<PathBuf>,
    /// Server to drive.
    pub driver: DriverConfig,
    /// The effective settings as TOML.
    pub text: String,
}

impl Config {
    /// Reads all settings; absent ones have their defaults.
    pub fn read(mut items: Items) -> Result<Config, String> {
        let text = items.text();
        let seconds = Duration::from_secs;
        let concurrent = items.read("concurrent", 3, |i| i.integer(1, CLIENTS_MAX))? as usize;
        let count = |max| move |item: &Item| item.integer(1, max).map(|number| number as usize);
        let path = |item: &Item| item.text().map(PathBuf::from);
        let config = Config {
            mode: items.read("mode", Mode::Max, |i| terms::mode_of(i, concurrent))?,
            schedule: items.read("schedule", Schedule::Poisson, schedule_of)?,
            duration: items.read("duration", Some(seconds(300)), terms::duration_or_infinite)?,
            warm_up: items.read("warm_up", Duration::ZERO, |i| terms::duration_of(i, 1.0))?,
            concurrent,
            threads: items.read("threads", 1, count(256))?.min(concurrent),
            pin: items.read("pin", Vec::new(), cores_of)?,
            pipeline: items.read("pipeline", 1, count(PIPELINE_MAX))?,
            operations: items.read("operations", default_operations(), terms::operations_of)?,
            key_generator: items.read("key_generator", default_keys(), generators::keys_of)?,
            value_generator: items.read(
                "value_generator",
                ValueGenerator::Fixed { bytes: 100 },
                generators::values_of,
            )?,
            value_source_bytes: items.read("value_generator_source_size", 16 << 20, |item| {
                item.integer(1, 1 << 30).map(|bytes| bytes as usize)
            })?,
            value_source_file: items
                .read("value_generator_blob_file", None, |i| path(i).map(Some))?,
            think_time: items.read("think_time", Duration::ZERO, |i| terms::duration_of(i, 1.0))?,
            report_interval: items.read("report_interval", seconds(10), interval_of)?,
            rng_seed: items.read("rng_seed", combine_seed(&[42, 23, 12]), seed_of)?,
            shutdown_on_error: items.read("shutdown_on_error", false, Item::boolean)?,
            test_dir: items.read("test_dir", PathBuf::from("tests"), path)?,
            verify: items.read("verify", false, Item::boolean)?,
            operation_timeout: items.read("operation_timeout", seconds(10), interval_of)?,
            range_rows: items.read("range_rows", 100, count(100_000))?,
            multi_get_keys: items.read("multi_get_keys", 10, count(10_000))?,
            sequence_steps: items.read("sequence_steps", 10, count(10_000))?,
            expiry_s: items.read("expiry_s", [1, 30], seconds_range)?,
            queue: items.read("queue", "queue:".into(), |item| item.text().map(String::from))?,
            disk_dir: items.read("disk_dir", None, |i| path(i).map(Some))?,
            driver: DriverConfig::read(&mut items)?,
            text,
        };
        items.finish()?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        if self.value_source_bytes < self.value_generator.bytes_max() {
            return Err(format!(
                "`value_generator_source_size` is {} bytes, but values may have {}",
                self.value_source_bytes,
                self.value_generator.bytes_max()
            ));
        }
        let key_bytes = self.key_generator.bytes_max();
        let value_bytes = match self.value_generator {
            ValueGenerator::Integer { .. } | ValueGenerator::Coupon { .. } => 0,
            ValueGenerator::Fixed { bytes }
            | ValueGenerator::Repeated { bytes, .. }
            | ValueGenerator::Characters { bytes } => bytes,
            _ => usize::MAX,
        };
        if self.verify && value_bytes < SEAL_BYTES + key_bytes {
            return Err(format!(
                "with `verify` a value needs room for its key and {SEAL_BYTES} bytes more"
            ));
        }
        if self.pipeline > 1 && !self.driver.pipelines() {
            return Err(format!("the driver `{}` has no pipeline", self.driver.name()));
        }
        Ok(())
    }

    /// Returns true if the schedule, not the answers, starts operations.
    pub fn is_open(&self) -> bool {
        matches!(self.mode, Mode::Rate(_))
    }
}

fn default_operations() -> Vec<Weighted> {
    let weighted = |operation: Operation, weight| {
        let label = operation.name().to_string();
        Weighted { label, operation, weight }
    };
    vec![weighted(Operation::Get, 4), weighted(Operation::Put, 4), weighted(Operation::Delete, 1)]
}

fn default_keys() -> KeyGenerator {
    let numbers = Numbers::Uniform { start: 1, count: 100_000 };
    KeyGenerator::Number { numbers, shape: KeyShape::Decimal }
}

fn schedule_of(item: &Item) -> Result<Schedule, String> {
    match item.text()? {
        "poisson" => Ok(Schedule::Poisson),
        "fixed" => Ok(Schedule::Fixed),
        _ => Err(item.error("wants \"poisson\" or \"fixed\"")),
    }
}

fn cores_of(item: &Item) -> Result<Vec<usize>, String> {
    let core = |item: &Item| item.integer(0, 1023).map(|core| core as usize);
    item.list()?.iter().map(core).collect()
}

/// Reads `[least, greatest]` seconds.
fn seconds_range(item: &Item) -> Result<[u64; 2], String> {
    let seconds = |item: &Item| item.integer(1, 1_000_000_000);
    match item.list()? {
        [least, greatest] if seconds(least)? <= seconds(greatest)? => {
            Ok([seconds(least)?, seconds(greatest)?])
        }
        _ => Err(item.error("wants [least, greatest] seconds")),
    }
}

fn interval_of(item: &Item) -> Result<Duration, String> {
    match terms::duration_of(item, 1.0)? {
        interval if interval >= Duration::from_millis(10) => Ok(interval),
        _ => Err(item.error("wants at least \"10ms\"")),
    }
}

fn seed_of(item: &Item) -> Result<u64, String> {
    match &item.value {
        TomlValue::List(list) => {
            let parts = list.iter().map(|item| item.integer(0, i64::MAX as u64));
            parts.collect::<Result<Vec<_>, _>>().map(|parts| combine_seed(&parts))
        }
        TomlValue::Text(text) if text == "now" => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            Ok(now.map_or(0, |since| since.as_nanos() as u64))
        }
        _ => item.integer(0, i64::MAX as u64),
    }
}

fn combine_seed(parts: &[u64]) -> u64 {
    parts.iter().fold(0, |seed: u64, part| seed.wrapping_mul(0x0100_0000_01B3).wrapping_add(*part))
}
