//! Measure of a suite: one kind of work on several servers, with its goals.

use super::bounds::{Divisor, FigureBound};
use super::file::{LoadOverrides, Server, config};
use super::published::Published;
use super::work::{Placeholders, Work};
use load_generator::config::{Config, Item, Items};
use std::collections::BTreeMap;

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
    /// Bounds on figures of the first server, or of the servers that they name.
    pub bounds: Vec<FigureBound>,
    /// Reason why the first server misses a goal, in words: what bounds it; may be empty.
    pub limited_by: String,
    /// Results of others, published elsewhere. `None`: there are none.
    pub published: Option<Published>,
    /// Number of runs. `None`: the suite's.
    pub repeat: Option<usize>,
    /// True if a quick run includes it.
    pub quick: bool,
}

/// Settings of the suite that a measure is read with.
pub struct SuiteContext<'a> {
    /// Settings of all loads.
    pub base: Items,
    /// The suite's preparation.
    pub prepare: Option<Items>,
    /// Options of the command line.
    pub overrides: &'a LoadOverrides,
    /// Share of a tool's units and of an idle time that a run takes.
    pub share: f64,
    /// The suite's servers.
    pub servers: &'a BTreeMap<String, Server>,
}

impl SuiteContext<'_> {
    /// Reads an entry of the suite's list `measure`.
    pub fn measure(&self, item: &Item) -> Result<Measure, String> {
        let mut items = item.table()?;
        let text = |item: &Item| item.text().map(str::to_string);
        let clients = |item: &Item| {
            let list = item.list()?.iter();
            list.map(|item| item.integer(1, 10_000).map(|number| number as usize)).collect()
        };
        let bounds = |item: &Item| item.list()?.iter().map(bound_of).collect();
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
            bounds: items.read("bounds", Vec::new(), bounds)?,
            limited_by: items.read("limited_by", String::new(), text)?,
            published: items.read("published", None, |item| Published::read(item).map(Some))?,
            repeat: items.read("repeat", None, |i| i.integer(1, 100).map(|n| Some(n as usize)))?,
            quick: items.read("quick", true, Item::boolean)?,
            work: Work::read(&mut items, &self.base, &self.overrides.settings, self.share)?,
            prepare,
            name,
        };
        items.finish()?;
        let peers = measure.bounds.iter().filter_map(FigureBound::peer);
        let bounded = measure.bounds.iter().flat_map(|bound| &bound.servers);
        let mut servers = measure.servers.iter().chain(peers).chain(bounded);
        if let Some(name) = servers.find(|name| !self.servers.contains_key(*name)) {
            return Err(item.error(format!("there is no server `{name}` in this suite")));
        }
        let needs_leader = matches!(measure.work, Work::Failover(_));
        let is_ready = |name: &&String| {
            let server = &self.servers[*name];
            server.leader_metric.is_some() && server.survivors.is_some()
        };
        match measure.servers.iter().find(|name| needs_leader && !is_ready(name)) {
            Some(name) => Err(item.error(format!(
                "the server `{name}` needs `leader_metric` and `survivors`: its leader is killed"
            ))),
            None => Ok(measure),
        }
    }
}

fn bound_of(item: &Item) -> Result<FigureBound, String> {
    let bound = FigureBound::read(item)?;
    match bound.divisor {
        Divisor::Start => Err(item.error("`since_start` is for soaks")),
        _ => Ok(bound),
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
    /// Returns the settings of one run. For work without a load, these only define the connection.
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
