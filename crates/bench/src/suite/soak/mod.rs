//! Soaks: several loads at once on one server, measured every second, and checked against bounds.
//!
//! A measure says how fast a server is; a soak says whether it stays so while garbage builds up:
//! expired keys, popped queues, sessions. Its probe is a lone client whose requests are due at
//! fixed times, so that a pause of the server shows as the time that this client waited.
//!
//! Promises: all loads begin together on a fresh server; latencies count from the intended start;
//! the server's resources are read from outside (/proc), never from its own reports; each bound
//! becomes a line that says kept or missed.
//! Never: leaves out a second in which nothing was answered.
//! Read next: `run.rs`, then `bounds.rs` and `page.rs`.

mod bounds;
mod page;
mod run;
#[cfg(test)]
mod tests;
mod watch;

pub use bounds::{FigureBound, verdicts};
pub use page::{charts, section};
pub use run::run;

use super::file::{Server, config};
use super::work::Words;
use crate::config::{Config, Item, Items};
use crate::machine::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A soak: its loads, its servers, and the bounds on the first of them.
pub struct Soak {
    /// Its name.
    pub name: String,
    /// Remark for the results; may be empty.
    pub note: String,
    /// Servers that are loaded; the bounds hold for the first.
    pub servers: Vec<String>,
    /// Load that is run before and not measured. `None`: no load.
    pub prepare: Option<Items>,
    /// Loads that run at the same time.
    pub loads: Vec<SoakLoad>,
    /// Bounds on the first server's figures.
    pub bounds: Vec<FigureBound>,
    /// True if a quick run includes it.
    pub quick: bool,
}

/// One of a soak's loads.
pub struct SoakLoad {
    /// Its name.
    pub name: String,
    /// Servers that get the load; empty: all.
    pub servers: Vec<String>,
    /// True for the client whose latency is measured: its thread has priority over those of other
    /// loads.
    pub is_probe: bool,
    /// True if the soak ends when the load's keys are used up.
    pub ends: bool,
    /// Its settings.
    pub items: Items,
}

/// A time series: seconds from the start, and the value.
pub type Series = Vec<(f64, f64)>;

/// One run of a soak on one server.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SoakRun {
    /// Name of the soak.
    pub soak: String,
    /// Name of the server.
    pub server: String,
    /// Name and version of the server, as it reports them.
    pub version: String,
    /// Time at which its suite began, UTC.
    pub started: String,
    /// True if it was a quick run.
    pub quick: bool,
    /// Machine it ran on. `None`: the results' machine.
    #[serde(default)]
    pub elsewhere: Option<Machine>,
    /// The machine's load average before it began; above `BUSY`, other processes were running.
    pub load_average: f64,
    /// Median time of a 4 KiB write with fdatasync just before, microseconds.
    pub fdatasync_us: f64,
    /// Figures of the whole soak by name, such as `lone p99.9`; latencies in milliseconds.
    pub whole: BTreeMap<String, f64>,
    /// The figures of each second, by the same names.
    pub series: BTreeMap<String, Series>,
}

/// A load average above this before a soak begins marks its figures as those of a busy machine.
pub const BUSY: f64 = 0.7;

/// Names of figures that belong to the server, not to a load.
pub const SERVER_US: &str = "server us/op";
/// Name of the figure for the memory that the server holds.
pub const MEMORY: &str = "memory MiB";
/// Name of the figure for rows that range reads visited, divided by rows that they returned.
pub const WALKED: &str = "rows walked per row returned";

/// Settings of the suite that a soak is read with.
pub struct Around<'a> {
    /// The suite's settings of all loads.
    pub base: &'a Items,
    /// Settings of every load from the command line.
    pub settings: &'a Items,
    /// True for a quick run.
    pub quick: bool,
    /// The suite's servers.
    pub servers: &'a BTreeMap<String, Server>,
}

impl Soak {
    /// Reads an entry of the suite's list `soak`.
    pub fn read(item: &Item, around: &Around<'_>) -> Result<Soak, String> {
        let mut items = item.table()?;
        let text = |item: &Item| item.text().map(str::to_string);
        let table = |item: &Item| item.table().map(Some);
        let mut prepare = items.read("prepare", None, table)?;
        let short = items.read("quick_prepare", None, table)?;
        if let (Some(prepare), Some(short), true) = (&mut prepare, short, around.quick) {
            prepare.merge(short);
        }
        let loads = |item: &Item| {
            item.list()?.iter().map(|item| SoakLoad::read(item, around)).collect::<Result<_, _>>()
        };
        let bounds = |item: &Item| item.list()?.iter().map(FigureBound::read).collect();
        let soak = Soak {
            name: items.need("a soak", "name", text)?,
            note: items.read("note", String::new(), text)?,
            servers: items.need("a soak", "servers", Item::texts)?,
            prepare,
            loads: items.need("a soak", "load", loads)?,
            bounds: items.read("bounds", Vec::new(), bounds)?,
            quick: items.read("quick", true, Item::boolean)?,
        };
        items.end()?;
        let own = soak.loads.iter().flat_map(|load| &load.servers);
        let beside = soak.bounds.iter().filter_map(FigureBound::peer);
        let mut named = soak.servers.iter().chain(own).chain(beside);
        match named.find(|name| !around.servers.contains_key(*name)) {
            Some(name) => Err(item.error(format!("there is no server `{name}` in this suite"))),
            None => Ok(soak),
        }
    }

    /// Returns the loads that a server gets, each with its settings.
    pub fn configs(
        &self,
        name: &str,
        server: &Server,
        words: &Words,
        core: Option<usize>,
    ) -> Result<Vec<(&SoakLoad, Config)>, String> {
        let is_mine = |load: &&SoakLoad| {
            load.servers.is_empty() || load.servers.iter().any(|one| one == name)
        };
        let mine = self.loads.iter().filter(is_mine);
        mine.map(|load| Ok((load, config(&load.items, server, None, words, core)?))).collect()
    }

    /// Returns true if the command line selects it.
    pub fn is_asked(&self, only: &[String], quick: bool) -> bool {
        if only.is_empty() { self.quick || !quick } else { only.contains(&self.name) }
    }
}

impl SoakLoad {
    fn read(item: &Item, around: &Around<'_>) -> Result<SoakLoad, String> {
        let mut items = item.table()?;
        let name = items.need("a soak's load", "name", |item| item.text().map(String::from))?;
        let servers = items.read("servers", Vec::new(), Item::texts)?;
        let is_probe = items.read("probe", false, Item::boolean)?;
        let ends = items.read("ends", false, Item::boolean)?;
        let mut all = around.base.clone();
        all.merge(items);
        all.merge(around.settings.clone());
        Ok(SoakLoad { name, servers, is_probe, ends, items: all })
    }
}
