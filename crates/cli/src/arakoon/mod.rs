//! Translation of an Arakoon configuration into settings of one node. A key is translated, or
//! refused with its line if Credenza can't do what it asks, or reported once if it has no effect.
//!
//! In a file with several nodes, the first node founds the cluster once most nodes are connected
//! and none has one, and the others join it. Nodes connect to each other at `ip` and
//! `messaging_port`. `listeners.rs` determines the addresses for clients.
//!
//! Promises: a key that would change a node's behaviour is never ignored silently.
//! Never: reads a configuration from etcd or from an Arakoon; changes anything.
//! Read next: `keys.rs`, which lists every key of Arakoon with its effect.

mod ini;
mod keys;
mod listeners;
mod several;

#[cfg(test)]
mod tests;

use ini::{IniComplaint, IniKey, IniSection};
use keys::{Fate, GLOBAL, NODE};
use program::{Failure, Outcome};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Setting that the file sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IniSetting {
    /// The setting's name.
    pub name: &'static str,
    /// The setting's text, as a settings file would have it.
    pub text: String,
    /// Number of the line it comes from.
    pub line: usize,
}

/// Result of translating a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Settings that the file sets.
    pub given: Vec<IniSetting>,
    /// Warnings about keys without effect, one sentence each.
    pub warnings: Vec<String>,
}

/// Reads the file for one of its nodes. `listen`: value of that setting from another source.
pub fn read(path: &Path, node: Option<&str>, listen: Option<&str>) -> Outcome<Configuration> {
    let shown = path.display();
    if shown.to_string().contains("://") {
        return Err(Failure::invalid(format!(
            "{shown}: an Arakoon configuration is read from a file: write it into one first"
        )));
    }
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))?;
    let named = |(line, what): IniComplaint| Failure::invalid(format!("{shown}:{line}: {what}"));
    let mut configuration = configure(&text, node, listen).map_err(named)?;
    for warning in &mut configuration.warnings {
        *warning = format!("{shown}:{warning}");
    }
    Ok(configuration)
}

/// Translates the text for one node. Warnings begin with their line number.
fn configure(
    text: &str,
    node: Option<&str>,
    listen: Option<&str>,
) -> Result<Configuration, IniComplaint> {
    let sections = ini::parse(text)?;
    let section = |name: &str| sections.iter().find(|section| section.name == name);
    let global = section("global").ok_or((1, "there is no section [global]".to_string()))?;
    let members = required(global, "cluster")?;
    let names: Vec<&str> = list(&members.value).collect();
    let me = me(members, &names, node)?;
    let own = section(me).ok_or_else(|| {
        (members.line, format!("the node `{me}` has no section [{me}] in this file"))
    })?;
    let mut configuration = Configuration::default();
    configuration.judge(global, GLOBAL, names.len())?;
    configuration.judge(own, NODE, names.len())?;
    configuration.take(global, own, me)?;
    configuration.take_listeners(own, names.len(), listen)?;
    configuration.take_home(own)?;
    if names.len() > 1 {
        let nodes = sections_of(&sections, members, &names)?;
        configuration.take_several(global, members, &nodes, own)?;
    } else {
        several::alone(own)?;
    }
    let known = |name: &str| name == "global" || names.contains(&name);
    let refers = |section: &IniSection| {
        [own.find("log_config"), own.find("batched_transaction_config")]
            .into_iter()
            .flatten()
            .any(|key| key.value == section.name)
    };
    for other in sections.iter().filter(|other| !known(&other.name) && !refers(other)) {
        configuration.warn(other.line, &format!("[{}]", other.name), "means nothing here");
    }
    Ok(configuration)
}

/// Returns the sections of the nodes that `cluster` names, in that order.
fn sections_of<'a>(
    sections: &'a [IniSection],
    members: &IniKey,
    names: &[&str],
) -> Result<Vec<&'a IniSection>, IniComplaint> {
    let find = |name: &&str| {
        let found = sections.iter().find(|section| section.name == *name);
        found.ok_or_else(|| {
            (members.line, format!("the node `{name}` has no section [{name}] in this file"))
        })
    };
    names.iter().map(find).collect()
}

/// Returns the name of this node. A file with several nodes needs `node` to tell.
fn me<'a>(
    members: &IniKey,
    names: &[&'a str],
    node: Option<&'a str>,
) -> Result<&'a str, IniComplaint> {
    let me = match (node, names) {
        (Some(node), _) => node,
        (None, [only]) => only,
        (None, _) => {
            return Err((members.line, "say which of these nodes this one is: --name NAME".into()));
        }
    };
    if !names.contains(&me) {
        let all = names.join(", ");
        return Err((members.line, format!("there is no node `{me}` in the cluster: {all}")));
    }
    Ok(me)
}

fn required<'a>(section: &'a IniSection, name: &str) -> Result<&'a IniKey, IniComplaint> {
    section
        .find(name)
        .ok_or_else(|| (section.line, format!("`{name}` is missing in [{}]", section.name)))
}

/// Returns the addresses of a node, from its `ip` and the port under this key; at least one.
fn addresses(section: &IniSection, port: &str) -> Result<Vec<SocketAddr>, IniComplaint> {
    let (ip, port) = (required(section, "ip")?, required(section, port)?);
    let number: u16 =
        port.value.replace('_', "").parse().map_err(|_| {
            (port.line, format!("`{} = {}`: a port is wanted", port.name, port.value))
        })?;
    let mut addresses = Vec::new();
    for word in list(&ip.value) {
        let address: IpAddr = word
            .parse()
            .map_err(|_| (ip.line, format!("`ip = {}`: `{word}` is no address", ip.value)))?;
        addresses.push(SocketAddr::new(address, number));
    }
    if addresses.is_empty() {
        return Err((ip.line, "`ip` names no address".into()));
    }
    Ok(addresses)
}

fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

impl Configuration {
    fn warn(&mut self, line: usize, what: &str, why: &str) {
        self.warnings.push(format!("{line}: {what} {why}"));
    }

    fn give(&mut self, name: &'static str, text: String, line: usize) {
        self.given.push(IniSetting { name, text, line });
    }

    /// Checks every key of a section, and warns of keys without effect. Fails on an unsupported
    /// value.
    fn judge(
        &mut self,
        section: &IniSection,
        table: &[keys::KeyRow],
        nodes: usize,
    ) -> Result<(), IniComplaint> {
        for key in &section.keys {
            let name = format!("`{}`", key.name);
            let Some(row) = table.iter().find(|row| row.names.contains(&key.name.as_str())) else {
                self.warn(key.line, &name, "is no key of Arakoon that is known here");
                continue;
            };
            match row.fate {
                Fate::Taken => {}
                Fate::AmongSeveral(_) if nodes > 1 => {}
                Fate::AmongSeveral(why) | Fate::Nothing(why) => self.warn(key.line, &name, why),
                Fate::Only(wanted, why) => {
                    if !wanted.contains(&key.value.to_ascii_lowercase().as_str()) {
                        let what = format!("`{} = {}`: {why}", key.name, key.value);
                        return Err((key.line, what));
                    }
                }
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        global: &IniSection,
        own: &IniSection,
        me: &str,
    ) -> Result<(), IniComplaint> {
        self.give("name", me.into(), own.line);
        let id = required(global, "cluster_id")?;
        self.give("arakoon_clusters", id.value.clone(), id.line);
        Ok(())
    }

    fn take_home(&mut self, own: &IniSection) -> Result<(), IniComplaint> {
        let home = required(own, "home")?;
        // Credenza has a folder of its own, so Arakoon's files stay unchanged.
        let data = Path::new(&home.value).join("credenza").display().to_string();
        self.give("data_dir", data, home.line);
        self.take_level(own)
    }

    fn take_level(&mut self, own: &IniSection) -> Result<(), IniComplaint> {
        if let Some(level) = own.find("log_level") {
            let ours = match level.value.to_ascii_lowercase().as_str() {
                "debug" => "debug",
                "info" | "notice" => "info",
                "warning" => "warn",
                "error" | "fatal" => "error",
                _ => {
                    let what = format!("`log_level = {}` is no level of Arakoon", level.value);
                    return Err((level.line, what));
                }
            };
            self.give("log_level", ours.into(), level.line);
        }
        Ok(())
    }
}
