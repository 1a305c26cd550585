//! What a suite's file says: servers, loads, and which of them meet.

use crate::config::{Config, Item, Items};
use std::collections::BTreeMap;

/// A suite.
pub struct Suite {
    /// Its name.
    pub name: String,
    /// What it is about, for the results.
    pub about: String,
    /// How often each point is run.
    pub repeat: usize,
    /// The core the servers are bound to; none: any.
    pub server_core: Option<usize>,
    /// The core the load is bound to; none: any.
    pub driver_core: Option<usize>,
    /// By name.
    pub servers: BTreeMap<String, Server>,
    /// In the order of the file.
    pub measures: Vec<Measure>,
}

/// A server: how it is started, made ready and spoken to.
pub struct Server {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Commands that are run when it answers.
    pub setup: Vec<Vec<String>>,
    /// The driver's settings.
    pub driver: Items,
}

/// A load that some servers get.
pub struct Measure {
    /// Its name.
    pub name: String,
    /// Who gets it; the first is compared with each of the others.
    pub servers: Vec<String>,
    /// Numbers of clients.
    pub clients: Vec<usize>,
    /// The load's settings, those of the whole suite included.
    pub load: Items,
    /// A load that is run before and not measured; none: nothing.
    pub prepare: Option<Items>,
}

/// Placeholders and what stands for them.
pub type Words = BTreeMap<&'static str, String>;

impl Suite {
    /// Reads the file; `settings` replace those of every load.
    pub fn read(mut items: Items, settings: &Items) -> Result<Suite, String> {
        let text = |item: &Item| item.text().map(str::to_string);
        let core = |item: &Item| item.integer(0, 1023).map(|core| Some(core as usize));
        let mut base = items.read("load", Items::default(), Item::table)?;
        let servers = items.need("a suite", "server", Item::table)?.rest().into_iter();
        let servers = servers.map(|(name, item)| Ok((name, Server::read(&item)?)));
        let servers: BTreeMap<_, _> = servers.collect::<Result<_, String>>()?;
        let prepare = items.read("prepare", None, |item| item.table().map(Some))?;
        base.merge(settings.clone());
        let measures = items.need("a suite", "measure", |item| {
            let list = item.list()?.iter();
            list.map(|item| Measure::read(item, &base, &prepare, settings, &servers))
                .collect::<Result<Vec<_>, _>>()
        })?;
        let suite = Suite {
            name: items.need("a suite", "name", text)?,
            about: items.read("about", String::new(), text)?,
            repeat: items.read("repeat", 5, |item| item.integer(1, 100))? as usize,
            server_core: items.read("server_core", None, core)?,
            driver_core: items.read("driver_core", None, core)?,
            servers,
            measures,
        };
        items.end()?;
        suite.check()?;
        Ok(suite)
    }

    /// Every load is read once, so that a mistake in the last one is found before the first.
    fn check(&self) -> Result<(), String> {
        for (measure, clients) in self.points() {
            for name in &measure.servers {
                let words = ["data", "port", "port2", "program", "peers"];
                let words = words.map(|word| (word, "1".to_string())).into();
                measure.config(&self.servers[name], clients, &words, self.driver_core)?;
            }
        }
        Ok(())
    }

    /// Every measure with every number of clients.
    pub fn points(&self) -> impl Iterator<Item = (&Measure, usize)> {
        self.measures
            .iter()
            .flat_map(|measure| measure.clients.iter().map(move |clients| (measure, *clients)))
    }
}

impl Server {
    fn read(item: &Item) -> Result<Server, String> {
        let mut items = item.table()?;
        let commands = |item: &Item| item.list()?.iter().map(Item::texts).collect();
        let server = Server {
            command: items.need("a server", "command", Item::texts)?,
            setup: items.read("setup", Vec::new(), commands)?,
            driver: items.need("a server", "driver", Item::table)?,
        };
        items.end()?;
        if server.command.is_empty() {
            return Err(item.error("wants a command with a program"));
        }
        Ok(server)
    }
}

impl Measure {
    fn read(
        item: &Item,
        base: &Items,
        prepare: &Option<Items>,
        settings: &Items,
        servers: &BTreeMap<String, Server>,
    ) -> Result<Measure, String> {
        let mut items = item.table()?;
        let mut load = base.clone();
        load.merge(items.read("load", Items::default(), Item::table)?);
        load.merge(settings.clone());
        let clients = |item: &Item| {
            let list = item.list()?.iter();
            list.map(|item| item.integer(1, 10_000).map(|many| many as usize)).collect()
        };
        let prepared = items.read("prepare", false, Item::boolean)?;
        let measure = Measure {
            name: items.need("a measure", "name", |item| item.text().map(str::to_string))?,
            servers: items.need("a measure", "servers", Item::texts)?,
            clients: items.need("a measure", "clients", clients)?,
            load,
            prepare: prepare.clone().filter(|_| prepared),
        };
        items.end()?;
        if let Some(unknown) = measure.servers.iter().find(|name| !servers.contains_key(*name)) {
            return Err(item.error(format!("there is no server `{unknown}` in this suite")));
        }
        Ok(measure)
    }

    /// The settings of one run.
    pub fn config(
        &self,
        server: &Server,
        clients: usize,
        words: &Words,
        core: Option<usize>,
    ) -> Result<Config, String> {
        config(&self.load, server, Some(clients), words, core)
    }
}

/// The settings of a load on a server.
pub fn config(
    load: &Items,
    server: &Server,
    clients: Option<usize>,
    words: &Words,
    core: Option<usize>,
) -> Result<Config, String> {
    let mut items = load.clone();
    let mut driver = server.driver.clone();
    driver.each_text(&mut |text| *text = filled(text, words));
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

/// A text with the words put in for `{word}`.
pub fn filled(text: &str, words: &Words) -> String {
    words.iter().fold(text.to_string(), |text, (word, stands_for)| {
        text.replace(&format!("{{{word}}}"), stands_for)
    })
}
