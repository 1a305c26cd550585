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
mod follow_up;
mod page;
mod run;
#[cfg(test)]
mod tests;
mod watch;

pub use bounds::{FigureBound, verdicts};
pub use follow_up::FollowUp;
pub use page::{charts, section};
pub use run::run;

use super::file::{Server, config};
use super::work::Placeholders;
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
    /// Loads that follow, one after the other.
    pub follow_ups: Vec<FollowUp>,
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
    pub ends_soak: bool,
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
    /// The machine's load average before it began; above `BUSY_LOAD_AVERAGE`, other processes were
    /// running.
    pub load_average: f64,
    /// Median time of a 4 KiB write with fdatasync just before, microseconds.
    pub fdatasync_us: f64,
    /// Figures of the whole soak by name, such as `lone p99.9`; latencies in milliseconds.
    pub whole: BTreeMap<String, f64>,
    /// The figures of each second, by the same names.
    pub series: BTreeMap<String, Series>,
}

/// Load average before a soak, above which its figures are marked as those of a busy machine.
pub const BUSY_LOAD_AVERAGE: f64 = 0.7;

/// Name of the figure for the server's CPU time for one operation.
pub const SERVER_US: &str = "server us/op";
/// Name of the figure for the memory that the server holds.
pub const MEMORY: &str = "memory MiB";
/// Name of the figure for what the server wrote to its disk, divided by the operations of all
/// loads.
pub const DISK_BYTES: &str = "disk bytes/op";
/// Name of the same figure at the end of the loads that follow: with merges that were still due.
pub const DISK_BYTES_MERGED: &str = "merged disk bytes/op";
/// Name of the figure for rows that range reads visited, divided by rows that they returned.
pub const ROWS_WALKED: &str = "rows walked per row returned";

/// Settings of the suite that a soak is read with.
pub struct SoakContext<'a> {
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
    pub fn read(item: &Item, context: &SoakContext<'_>) -> Result<Soak, String> {
        let mut items = item.table()?;
        let text = |item: &Item| item.text().map(str::to_string);
        let table = |item: &Item| item.table().map(Some);
        let mut prepare = items.read("prepare", None, table)?;
        let quick_prepare = items.read("quick_prepare", None, table)?;
        if let (Some(prepare), Some(quick_prepare), true) =
            (&mut prepare, quick_prepare, context.quick)
        {
            prepare.merge(quick_prepare);
        }
        let loads = |item: &Item| {
            item.list()?.iter().map(|item| SoakLoad::read(item, context)).collect::<Result<_, _>>()
        };
        let follow_ups = |item: &Item| {
            item.list()?.iter().map(|item| FollowUp::read(item, context)).collect::<Result<_, _>>()
        };
        let bounds = |item: &Item| item.list()?.iter().map(FigureBound::read).collect();
        let soak = Soak {
            name: items.need("a soak", "name", text)?,
            note: items.read("note", String::new(), text)?,
            servers: items.need("a soak", "servers", Item::texts)?,
            prepare,
            loads: items.need("a soak", "load", loads)?,
            follow_ups: items.read("after", Vec::new(), follow_ups)?,
            bounds: items.read("bounds", Vec::new(), bounds)?,
            quick: items.read("quick", true, Item::boolean)?,
        };
        items.finish()?;
        let load_servers = soak.loads.iter().flat_map(|load| &load.servers);
        let peers = soak.bounds.iter().filter_map(FigureBound::peer);
        let mut servers = soak.servers.iter().chain(load_servers).chain(peers);
        match servers.find(|name| !context.servers.contains_key(*name)) {
            Some(name) => Err(item.error(format!("there is no server `{name}` in this suite"))),
            None => Ok(soak),
        }
    }

    /// Returns the loads that a server gets, each with its settings.
    pub fn configs(
        &self,
        name: &str,
        server: &Server,
        placeholders: &Placeholders,
        core: Option<usize>,
    ) -> Result<Vec<(&SoakLoad, Config)>, String> {
        let applies = |load: &&SoakLoad| {
            load.servers.is_empty() || load.servers.iter().any(|server_name| server_name == name)
        };
        let loads = self.loads.iter().filter(applies);
        loads
            .map(|load| Ok((load, config(&load.items, server, None, placeholders, core)?)))
            .collect()
    }

    /// Returns true if the command line selects it.
    pub fn is_selected(&self, only: &[String], quick: bool) -> bool {
        if only.is_empty() { self.quick || !quick } else { only.contains(&self.name) }
    }
}

impl SoakLoad {
    fn read(item: &Item, context: &SoakContext<'_>) -> Result<SoakLoad, String> {
        SoakLoad::from_items(item.table()?, context)
    }

    fn from_items(mut items: Items, context: &SoakContext<'_>) -> Result<SoakLoad, String> {
        let name = items.need("a soak's load", "name", |item| item.text().map(String::from))?;
        let servers = items.read("servers", Vec::new(), Item::texts)?;
        let is_probe = items.read("probe", false, Item::boolean)?;
        let ends_soak = items.read("ends", false, Item::boolean)?;
        let mut settings = context.base.clone();
        settings.merge(items);
        settings.merge(context.settings.clone());
        Ok(SoakLoad { name, servers, is_probe, ends_soak, items: settings })
    }
}
