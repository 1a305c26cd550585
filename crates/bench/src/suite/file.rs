//! Suite file: servers, loads, and the combinations that are run.

use super::soak::{self, Soak};
use super::work::{PORTS, Placeholders, Work, fill_placeholders};
use crate::config::{Config, Item, Items, duration_of};
use std::collections::BTreeMap;
use std::path::{Component, PathBuf};
use std::time::Duration;

/// A suite.
pub struct Suite {
    /// Its name.
    pub name: String,
    /// Subject of the suite, for the results.
    pub about: String,
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
    /// Path of the results within a folder of documents; their charts go into a folder of that
    /// name.
    pub document: PathBuf,
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
}

/// A measure: one kind of work on several servers.
pub struct Measure {
    /// Its name.
    pub name: String,
    /// Name of the point that it belongs to; several measures may belong to one point.
    pub point: String,
    /// Remark for the results; may be empty.
    pub note: String,
    /// Servers that are measured; the first is compared with each of the others.
    pub servers: Vec<String>,
    /// Numbers of clients; each makes a point.
    pub clients: Vec<usize>,
    /// Kind of work.
    pub work: Work,
    /// Load that is run before and not measured. `None`: no load.
    pub prepare: Option<Items>,
    /// Goal by the number of clients: the first server's throughput divided by each other's.
    pub goal: BTreeMap<usize, f64>,
    /// Goal for the first server's operations a second. `None`: no goal.
    pub goal_rate: Option<f64>,
    /// Number of runs. `None`: the suite's.
    pub repeat: Option<usize>,
    /// True if a quick run includes it.
    pub quick: bool,
}

/// Options of a suite from the command line that change its loads.
#[derive(Clone, Debug, Default)]
pub struct LoadOverrides {
    /// True for a quick run: the file's table `quick` applies.
    pub quick: bool,
    /// Settings that override those of every load.
    pub settings: Items,
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
        let servers = items.need("a suite", "server", Item::table)?.rest().into_iter();
        let servers = servers.map(|(name, item)| Ok((name, Server::read(&item)?)));
        let servers: BTreeMap<_, _> = servers.collect::<Result<_, String>>()?;
        let prepare = items.read("prepare", None, |item| item.table().map(Some))?;
        let repeat = items.read("repeat", 5, |item| item.integer(1, 100))? as usize;
        let quick = items.read("quick", None, |item| Quick::read(item).map(Some))?;
        let quick = quick.filter(|_| overrides.quick);
        if let Some(quick) = &quick {
            base.merge(quick.load.clone());
        }
        base.merge(overrides.settings.clone());
        let share = quick.as_ref().map_or(1.0, |quick| quick.share);
        let soak_context = soak::SoakContext {
            base: &base.clone(),
            settings: &overrides.settings,
            quick: quick.is_some(),
            servers: &servers,
        };
        let soaks = items.read("soak", Vec::new(), |item| {
            item.list()?
                .iter()
                .map(|item| Soak::read(item, &soak_context))
                .collect::<Result<_, _>>()
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
            about: items.read("about", String::new(), text)?,
            repeat: quick.as_ref().map_or(repeat, |quick| quick.repeat),
            server_core: items.read("server_core", None, core)?,
            driver_core: items.read("driver_core", None, core)?,
            codec: items.read("codec", Duration::ZERO, |item| duration_of(item, 1.0))?,
            document: items.read("document", "performance.md".into(), path_of)?,
            servers,
            measures,
            soaks,
        };
        items.finish()?;
        suite.check()?;
        Ok(suite)
    }

    /// Reads every load once, so that a mistake in the last one is found before the first is run.
    fn check(&self) -> Result<(), String> {
        let placeholders = ["data", "program", "peers"].into_iter().chain(PORTS);
        let placeholders: Placeholders =
            placeholders.map(|placeholder| (placeholder, "1".to_string())).collect();
        for soak in &self.soaks {
            for name in &soak.servers {
                let server = &self.servers[name];
                soak.configs(name, server, &placeholders, self.driver_core)?;
                soak.follow_up_configs(server, &placeholders, self.driver_core)?;
            }
        }
        for (measure, clients) in self.points() {
            for name in &measure.servers {
                measure.config(&self.servers[name], clients, &placeholders, self.driver_core)?;
            }
        }
        Ok(())
    }

    /// Returns every measure with every number of clients.
    pub fn points(&self) -> impl Iterator<Item = (&Measure, usize)> {
        self.measures
            .iter()
            .flat_map(|measure| measure.clients.iter().map(move |clients| (measure, *clients)))
    }
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
        let server = Server {
            command: items.need("a server", "command", Item::texts)?,
            other_commands: items.read("others", Vec::new(), commands)?,
            setup: items.read("setup", Vec::new(), commands)?,
            driver: items.need("a server", "driver", Item::table)?,
        };
        items.finish()?;
        if server.command.is_empty() || server.other_commands.iter().any(Vec::is_empty) {
            return Err(item.error("wants a command with a program"));
        }
        Ok(server)
    }
}

/// Settings of the suite that a measure is read with.
struct SuiteContext<'a> {
    base: Items,
    prepare: Option<Items>,
    overrides: &'a LoadOverrides,
    share: f64,
    servers: &'a BTreeMap<String, Server>,
}

impl SuiteContext<'_> {
    fn measure(&self, item: &Item) -> Result<Measure, String> {
        let mut items = item.table()?;
        let text = |item: &Item| item.text().map(str::to_string);
        let clients = |item: &Item| {
            let list = item.list()?.iter();
            list.map(|item| item.integer(1, 10_000).map(|number| number as usize)).collect()
        };
        let name = items.need("a measure", "name", text)?;
        let prepare = match items.take("prepare") {
            None => None,
            Some(item) if item.boolean().is_ok() => {
                self.prepare.clone().filter(|_| item.boolean() == Ok(true))
            }
            Some(item) => Some(item.table()?),
        };
        let measure = Measure {
            point: items.read("point", name.clone(), text)?,
            note: items.read("note", String::new(), text)?,
            servers: items.need("a measure", "servers", Item::texts)?,
            clients: items.need("a measure", "clients", clients)?,
            goal: items.read("goal", BTreeMap::new(), goals_of)?,
            goal_rate: items.read("goal_rate", None, |item| item.positive().map(Some))?,
            repeat: items.read("repeat", None, |i| i.integer(1, 100).map(|n| Some(n as usize)))?,
            quick: items.read("quick", true, Item::boolean)?,
            work: Work::read(&mut items, &self.base, &self.overrides.settings, self.share)?,
            prepare,
            name,
        };
        items.finish()?;
        match measure.servers.iter().find(|name| !self.servers.contains_key(*name)) {
            Some(name) => Err(item.error(format!("there is no server `{name}` in this suite"))),
            None => Ok(measure),
        }
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

/// Reads goals: `{ 64 = 5.0 }` is five times at 64 clients.
fn goals_of(item: &Item) -> Result<BTreeMap<usize, f64>, String> {
    let goals = item.table()?.rest().into_iter().map(|(clients, goal)| {
        let clients = clients.parse().map_err(|_| goal.error("wants a number of clients"))?;
        Ok((clients, goal.positive()?))
    });
    goals.collect()
}

impl Measure {
    /// Returns the settings of one run. For work other than a load, these only define the
    /// connection.
    pub fn config(
        &self,
        server: &Server,
        clients: usize,
        placeholders: &Placeholders,
        core: Option<usize>,
    ) -> Result<Config, String> {
        match &self.work {
            Work::Load(load) => config(load, server, Some(clients), placeholders, core),
            _ => config(&Items::default(), server, Some(clients), placeholders, core),
        }
    }

    /// Returns true if the command line selects it.
    pub fn is_selected(&self, only: &[String], quick: bool) -> bool {
        match only {
            [] => self.quick || !quick,
            names => names.contains(&self.name) || names.contains(&self.point),
        }
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
