//! Suite file: servers, loads, and the combinations that are run.

use super::coupons::check_queries;
use super::feeds::check_feed;
use super::measure::{Measure, SuiteContext};
use super::sizes::expand_sizes;
use super::soak::{self, SizeSummary, Soak};
use super::store_program::StoreProgram;
use super::work::{
    LEADER, PORTS, Placeholders, RELAYS, SURVIVORS, Work, failover_config, fill_placeholders,
};
use load_generator::config::{Config, Item, Items, duration_of};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, PathBuf};
use std::time::Duration;

/// Servers that suites with `standard_servers = true` may name.
const STANDARD_SERVERS: &str = include_str!("../../suites/servers.toml");

/// A suite.
pub struct Suite {
    /// Its name.
    pub name: String,
    /// Title of its document; empty: its name.
    pub title: String,
    /// Subject of the suite, for the results.
    pub about: String,
    /// True if its document begins with the goals of all suites.
    pub has_overview: bool,
    /// Number of runs of each point.
    pub repeat: usize,
    /// Core that the servers are bound to. `None`: not bound.
    pub server_core: Option<usize>,
    /// Core that the load is bound to. `None`: not bound.
    pub driver_core: Option<usize>,
    /// Time for which each implementation of the codec is measured. Zero: not at all.
    pub codec: Duration,
    /// Servers by name.
    pub servers: BTreeMap<String, Server>,
    /// Measures in the order of the file.
    pub measures: Vec<Measure>,
    /// Soaks in the order of the file.
    pub soaks: Vec<Soak>,
    /// Stores without a server, by name; soaks name them as servers.
    pub programs: BTreeMap<String, StoreProgram>,
    /// Table and charts over all sizes of the soaks. `None`: there is none.
    pub summary: Option<SizeSummary>,
    /// Path of the results within a folder of documents; their charts go into a folder of that
    /// name. `None`: it has no document.
    pub document: Option<PathBuf>,
}

/// A server: commands that start and prepare it, and the driver's settings.
#[derive(Clone)]
pub struct Server {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Commands of the cluster's other members, which run beside it; empty: a single server.
    pub other_commands: Vec<Vec<String>>,
    /// Commands to run when the server answers.
    pub setup: Vec<Vec<String>>,
    /// The driver's settings.
    pub driver: Items,
    /// Command that installs its program, for the message that says it is absent; may be empty.
    pub install: String,
    /// Delay of each packet between its processes, and between them and the load. `None`: no
    /// relays.
    pub delay: Option<Duration>,
    /// Metric that is above 0 at the process that leads. `None`: unknown.
    pub leader_metric: Option<String>,
    /// The driver's settings for clients of the processes that survive the leader. `None`: the
    /// leader is never killed.
    pub survivors: Option<Items>,
    /// The driver's settings for queries of an index. `None`: those of `driver`.
    pub queries: Option<Items>,
}

/// Options of a suite from the command line that change its loads.
#[derive(Clone, Debug, Default)]
pub struct LoadOverrides {
    /// True for a quick run: the file's table `quick` applies.
    pub quick: bool,
    /// Settings that override those of every load.
    pub settings: Items,
    /// Sizes of soaks that have several, in millions of rows; empty: the file's.
    pub sizes: Vec<u64>,
}

/// The file's table `quick`.
struct Quick {
    repeat: usize,
    share: f64,
    load: Items,
}

impl Suite {
    /// Reads the file.
    pub fn read(mut items: Items, overrides: &LoadOverrides) -> Result<Suite, String> {
        let text = |item: &Item| item.text().map(str::to_string);
        let core = |item: &Item| item.integer(0, 1023).map(|core| Some(core as usize));
        let mut base = items.read("load", Items::default(), Item::table)?;
        let servers = servers_of(&mut items)?;
        let prepare = items.read("prepare", None, |item| item.table().map(Some))?;
        let repeat = items.read("repeat", 5, |item| item.integer(1, 100))? as usize;
        let quick = items.read("quick", None, |item| Quick::read(item).map(Some))?;
        let quick = quick.filter(|_| overrides.quick);
        if let Some(quick) = &quick {
            base.merge(quick.load.clone());
        }
        base.merge(overrides.settings.clone());
        let share = quick.as_ref().map_or(1.0, |quick| quick.share);
        let programs = items.read("program", BTreeMap::new(), StoreProgram::read_all)?;
        let soak_context = soak::SoakContext {
            base: &base.clone(),
            settings: &overrides.settings,
            quick: quick.is_some(),
            servers: &servers,
            programs: &programs,
        };
        let soaks = items.read("soak", Vec::new(), |item| {
            let mut soaks = Vec::new();
            for item in item.list()? {
                for (item, size) in expand_sizes(item, &overrides.sizes, quick.is_some())? {
                    soaks.push(Soak { size, ..Soak::read(&item, &soak_context)? });
                }
            }
            Ok(soaks)
        })?;
        let context = SuiteContext { base, prepare, overrides, share, servers: &servers };
        let measures = items.read("measure", Vec::new(), |item| {
            item.list()?.iter().map(|item| context.measure(item)).collect::<Result<Vec<_>, _>>()
        })?;
        if measures.is_empty() && soaks.is_empty() {
            return Err("a suite needs a `measure` or a `soak`".into());
        }
        let suite = Suite {
            name: items.need("a suite", "name", text)?,
            title: items.read("title", String::new(), text)?,
            about: items.read("about", String::new(), text)?,
            has_overview: items.read("overview", false, Item::boolean)?,
            repeat: quick.as_ref().map_or(repeat, |quick| quick.repeat),
            server_core: items.read("server_core", None, core)?,
            driver_core: items.read("driver_core", None, core)?,
            codec: items.read("codec", Duration::ZERO, |item| duration_of(item, 1.0))?,
            document: items.read("document", None, |item| path_of(item).map(Some))?,
            summary: items.read("summary", None, |item| SizeSummary::read(item).map(Some))?,
            servers,
            measures,
            soaks,
            programs,
        };
        items.finish()?;
        suite.check()?;
        Ok(suite)
    }

    /// Reads every load once, so that a mistake in the last one is found before the first is run.
    fn check(&self) -> Result<(), String> {
        let paths = ["data", "program", "peers", LEADER].into_iter();
        let placeholders = paths.chain(PORTS).chain(RELAYS).chain(SURVIVORS);
        let placeholders: Placeholders =
            placeholders.map(|placeholder| (placeholder, "1".to_string())).collect();
        for soak in &self.soaks {
            for name in &soak.servers {
                let Some(server) = self.servers.get(name) else { continue };
                soak.configs(name, server, &placeholders, self.driver_core)?;
                soak.follow_up_configs(server, &placeholders, self.driver_core)?;
            }
        }
        for (measure, clients) in self.points() {
            for name in &measure.servers {
                let (server, core) = (&self.servers[name], self.driver_core);
                measure.config(server, clients, &placeholders, core)?;
                match &measure.work {
                    Work::Failover(failover) => {
                        failover_config(failover, server, clients, &placeholders, core)?;
                    }
                    Work::Coupons(_) => check_queries(name, server, &placeholders)?,
                    Work::Feed(_) => check_feed(name, server, &placeholders)?,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the names of all servers and stores that a measure or a soak uses.
    pub fn used_servers(&self) -> BTreeSet<&String> {
        let measures = self.measures.iter().flat_map(|measure| &measure.servers);
        measures.chain(self.soaks.iter().flat_map(|soak| &soak.servers)).collect()
    }

    /// Returns every measure with every number of clients.
    pub fn points(&self) -> impl Iterator<Item = (&Measure, usize)> {
        self.measures
            .iter()
            .flat_map(|measure| measure.clients.iter().map(move |clients| (measure, *clients)))
    }
}

/// Reads the suite's servers; with `standard_servers = true` those of `servers.toml`, too.
fn servers_of(items: &mut Items) -> Result<BTreeMap<String, Server>, String> {
    let mut all = Items::default();
    if items.read("standard_servers", false, Item::boolean)? {
        let mut standard = Items::parse("servers.toml", STANDARD_SERVERS)?;
        all = standard.need("the file of servers", "server", Item::table)?;
    }
    all.merge(items.read("server", Items::default(), Item::table)?);
    let servers = all.rest().into_iter();
    servers.map(|(name, item)| Ok((name, Server::read(&item)?))).collect()
}

impl Quick {
    fn read(item: &Item) -> Result<Quick, String> {
        let mut items = item.table()?;
        let quick = Quick {
            repeat: items.read("repeat", 1, |item| item.integer(1, 100))? as usize,
            share: items.read("share", 1.0, Item::positive)?,
            load: items.read("load", Items::default(), Item::table)?,
        };
        items.finish()?;
        Ok(quick)
    }
}

impl Server {
    fn read(item: &Item) -> Result<Server, String> {
        let mut items = item.table()?;
        let commands = |item: &Item| item.list()?.iter().map(Item::texts).collect();
        let text = |item: &Item| item.text().map(String::from);
        let server = Server {
            command: items.need("a server", "command", Item::texts)?,
            other_commands: items.read("others", Vec::new(), commands)?,
            setup: items.read("setup", Vec::new(), commands)?,
            driver: items.need("a server", "driver", Item::table)?,
            install: items.read("install", String::new(), text)?,
            delay: items.read("delay", None, |item| duration_of(item, 1.0).map(Some))?,
            leader_metric: items.read("leader_metric", None, |item| text(item).map(Some))?,
            survivors: items.read("survivors", None, |item| item.table().map(Some))?,
            queries: items.read("queries", None, |item| item.table().map(Some))?,
        };
        items.finish()?;
        if server.command.is_empty() || server.other_commands.iter().any(Vec::is_empty) {
            return Err(item.error("wants a command with a program"));
        }
        Ok(server)
    }
}

/// Reads the path of a Markdown file within a folder of documents.
fn path_of(item: &Item) -> Result<PathBuf, String> {
    let path = PathBuf::from(item.text()?);
    let is_inside = path.components().all(|component| matches!(component, Component::Normal(_)));
    match is_inside && path.extension().is_some_and(|extension| extension == "md") {
        true => Ok(path),
        false => Err(item.error("wants a path such as \"performance.md\"")),
    }
}

/// Returns the settings of a load on a server.
pub fn config(
    load: &Items,
    server: &Server,
    clients: Option<usize>,
    placeholders: &Placeholders,
    core: Option<usize>,
) -> Result<Config, String> {
    let mut items = load.clone();
    let mut driver = server.driver.clone();
    driver.each_text(&mut |text| *text = fill_placeholders(text, placeholders));
    items.merge(driver);
    let mut own = String::new();
    if let Some(clients) = clients {
        own.push_str(&format!("concurrent = {clients}\n"));
    }
    if let Some(core) = core {
        own.push_str(&format!("pin = [{core}]\n"));
    }
    items.merge(Items::parse("suite", &own)?);
    Config::read(items)
}
