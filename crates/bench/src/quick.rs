//! `credenza bench quick`: a short load of a running node, without a file of settings.

use base::BucketName;
use clap::Args;
use load_generator::config::{Config, Item, Items, TomlValue};
use load_generator::error::BenchError;
use load_generator::load::NullObserver;
use load_generator::{drivers, job, load};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Default port of a node, for RESP, HTTP and the other protocols.
const PORT: u16 = 7711;
/// Prefix of the keys, by which they can be recognized and deleted.
const PREFIX: &str = "bench:";
/// Bytes of a key: the prefix and digits.
const KEY_BYTES: i64 = 16;
const KEYS_MAX: u64 = 100_000_000;
const SECONDS_MAX: u64 = 86_400;
/// Number of clients that write all keys before the run.
const LOADERS: i64 = 64;

#[derive(Args, Debug)]
pub struct QuickArguments {
    /// The node's address
    #[arg(long, env = "CREDENZA_URL", default_value = "http://127.0.0.1:7711")]
    url: String,
    /// The bucket, `NAME` or `TYPE/NAME`
    #[arg(short = 'b', long, value_name = "BUCKET", default_value = "default/default")]
    bucket: String,
    /// Shares of reads and of writes
    #[arg(long, value_name = "READS:WRITES", default_value = "75:25", value_parser = mix)]
    mix: [u64; 2],
    /// Clients, a connection each
    #[arg(short = 'c', long, value_name = "N", default_value_t = 16)]
    clients: u64,
    /// Keys `bench:00...`; all are written before the run, and stay after it
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    keys: u64,
    /// Bytes of a value
    #[arg(long, value_name = "N", default_value_t = 100)]
    value_bytes: u64,
    /// Seconds that are measured
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: u64,
    /// Operations a second that are due [default: each client sends when it was answered]
    #[arg(long, value_name = "N")]
    rate: Option<u64>,
    /// Folder of the results
    #[arg(short = 'd', long, value_name = "DIR", default_value = "tests")]
    results_dir: PathBuf,
}

impl QuickArguments {
    /// Writes all keys, runs the load, and writes the run's folder.
    pub fn run(self, json: bool) -> Result<(), BenchError> {
        let config = self.config()?;
        self.load()?;
        let display =
            if json { job::ProgressDisplay::Nothing } else { job::ProgressDisplay::Lines };
        let (folder, report) = job::run(&config, None, display)?;
        load_generator::console::print_report(&report, &folder, json)
    }

    /// Writes each key once, so that reads find rows.
    fn load(&self) -> Result<(), BenchError> {
        let mut items = self.items()?;
        let text = |text: &str| TomlValue::Text(text.into());
        // Numbers begin at 1, as for `uniform_int`.
        let first = TomlValue::Integer(1);
        set(&mut items, "key_generator", self.keys("partitioned_sequential_int", Some(first)));
        set(&mut items, "operations", pairs(&[("put", 1)]));
        set(&mut items, "duration", text("infinity"));
        set(&mut items, "concurrent", TomlValue::Integer(LOADERS.min(self.keys as i64)));
        let config = Config::read(items)?;
        let target = drivers::prepare(&config.driver)?;
        let collected = load::run(&config, &*target, &AtomicBool::new(false), &mut NullObserver)?;
        target.close()?;
        match collected.operations.iter().flat_map(|operation| &operation.errors).next() {
            None => Ok(()),
            Some((kind, count)) => {
                let text = format!("{count} of {} keys could not be written: {kind}", self.keys);
                Err(BenchError::unavailable(text))
            }
        }
    }

    fn config(&self) -> Result<Config, BenchError> {
        let mut items = self.items()?;
        set(&mut items, "key_generator", self.keys("uniform_int", None));
        let [reads, writes] = self.mix;
        let operations = [("get", reads), ("put", writes)];
        let used: Vec<_> = operations.into_iter().filter(|(_, share)| *share > 0).collect();
        set(&mut items, "operations", pairs(&used));
        set(&mut items, "duration", TomlValue::Text(format!("{}s", self.seconds)));
        set(&mut items, "concurrent", TomlValue::Integer(signed(self.clients)));
        if let Some(rate) = self.rate {
            let rate = list(vec![TomlValue::Text("rate".into()), TomlValue::Integer(signed(rate))]);
            set(&mut items, "mode", rate);
        }
        let mut config = Config::read(items)?;
        config.test_dir.clone_from(&self.results_dir);
        Ok(config)
    }

    /// Returns the settings that loading and measuring have in common.
    fn items(&self) -> Result<Items, BenchError> {
        BucketName::parse(&self.bucket)
            .map_err(|error| format!("--bucket {}: {}", self.bucket, error.text()))?;
        let mut items = Items::default();
        set(&mut items, "driver", TomlValue::Text("resp".into()));
        set(&mut items, "resp_address", TomlValue::Text(authority(&self.url)?));
        set(&mut items, "resp_bucket", TomlValue::Text(self.bucket.clone()));
        set(&mut items, "report_interval", TomlValue::Text("1s".into()));
        set(&mut items, "verify", TomlValue::Boolean(true));
        let values =
            vec![TomlValue::Text("fixed_bin".into()), TomlValue::Integer(signed(self.value_bytes))];
        set(&mut items, "value_generator", list(values));
        Ok(items)
    }

    /// Returns `["fixed_width", 16, "bench:", [NUMBERS, keys]]`, with `first` before `keys` if it
    /// is given.
    fn keys(&self, numbers: &str, first: Option<TomlValue>) -> TomlValue {
        let mut elements = vec![TomlValue::Text(numbers.into())];
        elements.extend(first);
        elements.push(TomlValue::Integer(signed(self.keys)));
        let numbers = list(elements);
        let [name, prefix] = ["fixed_width", PREFIX].map(|text| TomlValue::Text(text.into()));
        list(vec![name, TomlValue::Integer(KEY_BYTES), prefix, numbers])
    }
}

/// Returns the host and port of `http://HOST[:PORT]` or `HOST[:PORT]`.
fn authority(url: &str) -> Result<String, String> {
    let authority = url.strip_prefix("http://").unwrap_or(url).trim_end_matches('/');
    if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
        return Err(format!("--url {url}: expected http://HOST:PORT, or HOST:PORT"));
    }
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    Ok(if has_port { authority.into() } else { format!("{authority}:{PORT}") })
}

/// Parses `75:25`: shares, of which at least one is above 0.
fn mix(text: &str) -> Result<[u64; 2], String> {
    let shares = text.split_once(':');
    let shares = shares.and_then(|(reads, writes)| {
        Some([reads.parse::<u32>().ok()?, writes.parse::<u32>().ok()?].map(u64::from))
    });
    let expected = "expected shares of reads and of writes, as in 75:25";
    shares.filter(|shares| *shares != [0, 0]).ok_or_else(|| expected.into())
}

fn pairs(operations: &[(&str, u64)]) -> TomlValue {
    let pair = |(name, share): &(&str, u64)| {
        list(vec![TomlValue::Text(name.to_string()), TomlValue::Integer(signed(*share))])
    };
    list(operations.iter().map(pair).collect())
}

fn list(values: Vec<TomlValue>) -> TomlValue {
    TomlValue::List(values.into_iter().map(item).collect())
}

fn set(items: &mut Items, key: &str, value: TomlValue) {
    items.set(key, item(value));
}

fn item(value: TomlValue) -> Item {
    Item::new("bench quick".into(), 1, value)
}

/// Converts a number for TOML; the reader of the settings refuses numbers that are too large.
fn signed(number: u64) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_with_and_without_scheme_and_port() {
        let read = |url| authority(url);
        assert_eq!(read("http://127.0.0.1:7712/"), Ok("127.0.0.1:7712".into()));
        assert_eq!(read("localhost"), Ok("localhost:7711".into()));
        for wrong in ["", "http://", "http://a/b", "https://a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn mix_parses_as_two_shares_that_are_not_both_zero() {
        assert_eq!(mix("75:25"), Ok([75, 25]));
        assert_eq!(mix("1:0"), Ok([1, 0]));
        for wrong in ["", "75", "0:0", "-1:2", "a:b", "1:2:3"] {
            assert!(mix(wrong).is_err(), "{wrong}");
        }
    }
}
