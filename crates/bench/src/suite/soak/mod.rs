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
//! Read next: `run.rs`, then `verdicts.rs` and `page.rs`.

mod follow_up;
mod page;
mod program;
mod run;
mod summary;
#[cfg(test)]
mod tests;
mod verdicts;
mod watch;

pub use follow_up::FollowUp;
pub use page::{charts, section};
pub use run::run;
pub use summary::SizeSummary;
pub use verdicts::verdicts;

use super::bounds::FigureBound;
use super::file::{Server, config};
use super::store_program::StoreProgram;
use super::work::Placeholders;
use load_generator::config::{Config, Item, Items};
use load_generator::machine::Machine;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A soak: its loads, its servers, and the bounds on the first of them.
pub struct Soak {
    /// Its name.
    pub name: String,
    /// Remark for the results; may be empty.
    pub note: String,
    /// Servers that are loaded, and stores that their own programs load; the bounds hold for the
    /// first.
    pub servers: Vec<String>,
    /// Load that is run before and not measured. `None`: no load.
    pub prepare: Option<Items>,
    /// Loads that run at the same time.
    pub loads: Vec<SoakLoad>,
    /// Loads that follow, one after the other.
    pub follow_ups: Vec<FollowUp>,
    /// True if the server is killed and started again at the end, and the time is measured.
    pub restart: bool,
    /// Bounds on the first server's figures.
    pub bounds: Vec<FigureBound>,
    /// Reason why the first server misses a bound, in words; may be empty.
    pub limited_by: String,
    /// Size in millions of rows, if it is one of several. `None`: it has none.
    pub size: Option<u64>,
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
    /// Commit of the program that was measured. Empty: unknown.
    #[serde(default)]
    pub commit: String,
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
/// Name of the figure for the disk space that the server's data takes right after the soak, MiB.
pub const DISK_SPACE: &str = "disk MiB";
/// Name of the figure for the disk space at the end of the loads that follow.
pub const DISK_SPACE_MERGED: &str = "merged disk MiB";
/// Name of the figure for the most memory that the server held, MiB.
pub const MEMORY_PEAK: &str = "peak memory MiB";
/// Name of the figure for the time from the start after a kill to the first answer, milliseconds.
pub const RESTART: &str = "restart ms";
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
    /// The suite's stores without a server.
    pub programs: &'a BTreeMap<String, StoreProgram>,
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
        let bounds = |item: &Item| item.list()?.iter().map(bound_of).collect();
        let soak = Soak {
            name: items.need("a soak", "name", text)?,
            note: items.read("note", String::new(), text)?,
            servers: items.need("a soak", "servers", Item::texts)?,
            prepare,
            loads: items.need("a soak", "load", loads)?,
            follow_ups: items.read("after", Vec::new(), follow_ups)?,
            restart: items.read("restart", false, Item::boolean)?,
            bounds: items.read("bounds", Vec::new(), bounds)?,
            limited_by: items.read("limited_by", String::new(), text)?,
            size: None,
            quick: items.read("quick", true, Item::boolean)?,
        };
        items.finish()?;
        let load_servers = soak.loads.iter().flat_map(|load| &load.servers);
        let peers = soak.bounds.iter().filter_map(FigureBound::peer);
        let mut servers = soak.servers.iter().chain(load_servers).chain(peers);
        let is_known = |name: &&String| {
            context.servers.contains_key(*name) || context.programs.contains_key(*name)
        };
        match servers.find(|name| !is_known(name)) {
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

fn bound_of(item: &Item) -> Result<FigureBound, String> {
    let bound = FigureBound::read(item)?;
    match (bound.clients.is_empty(), bound.servers.is_empty()) {
        (true, true) => Ok(bound),
        (false, _) => Err(item.error("`clients` is for measures")),
        (true, false) => Err(item.error("`servers` is for measures")),
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
