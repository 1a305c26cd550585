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

mod cluster;
mod ini;
mod keys;
mod listeners;

#[cfg(test)]
mod tests;

use ini::{IniError, IniKey, IniSection};
use keys::{GLOBAL, KeyEffect, NODE};
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
    pub settings: Vec<IniSetting>,
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
    let named = |(line, what): IniError| Failure::invalid(format!("{shown}:{line}: {what}"));
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
) -> Result<Configuration, IniError> {
    let sections = ini::parse(text)?;
    let section = |name: &str| sections.iter().find(|section| section.name == name);
    let global = section("global").ok_or((1, "there is no section [global]".to_string()))?;
    let members = required(global, "cluster")?;
    let names: Vec<&str> = comma_separated(&members.value).collect();
    let node_name = own_name(members, &names, node)?;
    let own_section = section(node_name).ok_or_else(|| {
        (members.line, format!("the node `{node_name}` has no section [{node_name}] in this file"))
    })?;
    let mut configuration = Configuration::default();
    configuration.check_keys(global, GLOBAL, names.len())?;
    configuration.check_keys(own_section, NODE, names.len())?;
    configuration.translate_identity(global, own_section, node_name)?;
    configuration.translate_listeners(own_section, names.len(), listen)?;
    configuration.translate_home(own_section)?;
    if names.len() > 1 {
        let nodes = sections_of(&sections, members, &names)?;
        configuration.translate_cluster(global, members, &nodes, own_section)?;
    } else {
        cluster::check_single_node(own_section)?;
    }
    let is_known = |name: &str| name == "global" || names.contains(&name);
    let is_referenced = |section: &IniSection| {
        [own_section.find("log_config"), own_section.find("batched_transaction_config")]
            .into_iter()
            .flatten()
            .any(|key| key.value == section.name)
    };
    for unknown in
        sections.iter().filter(|unknown| !is_known(&unknown.name) && !is_referenced(unknown))
    {
        configuration.warn(unknown.line, &format!("[{}]", unknown.name), "means nothing here");
    }
    Ok(configuration)
}

/// Returns the sections of the nodes that `cluster` names, in that order.
fn sections_of<'a>(
    sections: &'a [IniSection],
    members: &IniKey,
    names: &[&str],
) -> Result<Vec<&'a IniSection>, IniError> {
    let find = |name: &&str| {
        let found = sections.iter().find(|section| section.name == *name);
        found.ok_or_else(|| {
            (members.line, format!("the node `{name}` has no section [{name}] in this file"))
        })
    };
    names.iter().map(find).collect()
}

/// Returns the name of this node. `node` is required if the file has several nodes.
fn own_name<'a>(
    members: &IniKey,
    names: &[&'a str],
    node: Option<&'a str>,
) -> Result<&'a str, IniError> {
    let node_name = match (node, names) {
        (Some(node), _) => node,
        (None, [only]) => only,
        (None, _) => {
            return Err((members.line, "say which of these nodes this one is: --name NAME".into()));
        }
    };
    if !names.contains(&node_name) {
        let all = names.join(", ");
        return Err((
            members.line,
            format!("there is no node `{node_name}` in the cluster: {all}"),
        ));
    }
    Ok(node_name)
}

fn required<'a>(section: &'a IniSection, name: &str) -> Result<&'a IniKey, IniError> {
    section
        .find(name)
        .ok_or_else(|| (section.line, format!("`{name}` is missing in [{}]", section.name)))
}

/// Returns the addresses of a node, from its `ip` and the port under this key; at least one.
fn addresses(section: &IniSection, port: &str) -> Result<Vec<SocketAddr>, IniError> {
    let (ip, port) = (required(section, "ip")?, required(section, port)?);
    let number: u16 =
        port.value.replace('_', "").parse().map_err(|_| {
            (port.line, format!("`{} = {}`: a port is wanted", port.name, port.value))
        })?;
    let mut addresses = Vec::new();
    for word in comma_separated(&ip.value) {
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

fn comma_separated(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

impl Configuration {
    fn warn(&mut self, line: usize, what: &str, why: &str) {
        self.warnings.push(format!("{line}: {what} {why}"));
    }

    fn add_setting(&mut self, name: &'static str, text: String, line: usize) {
        self.settings.push(IniSetting { name, text, line });
    }

    /// Checks every key of a section, and warns of keys without effect. Fails on an unsupported
    /// value.
    fn check_keys(
        &mut self,
        section: &IniSection,
        table: &[keys::KeyRow],
        nodes: usize,
    ) -> Result<(), IniError> {
        for key in &section.keys {
            let name = format!("`{}`", key.name);
            let Some(row) = table.iter().find(|row| row.names.contains(&key.name.as_str())) else {
                self.warn(key.line, &name, "is no key of Arakoon that is known here");
                continue;
            };
            match row.effect {
                KeyEffect::Translated => {}
                KeyEffect::InCluster(_) if nodes > 1 => {}
                KeyEffect::InCluster(why) | KeyEffect::NoEffect(why) => {
                    self.warn(key.line, &name, why)
                }
                KeyEffect::OnlyValues(allowed, why) => {
                    if !allowed.contains(&key.value.to_ascii_lowercase().as_str()) {
                        let message = format!("`{} = {}`: {why}", key.name, key.value);
                        return Err((key.line, message));
                    }
                }
            }
        }
        Ok(())
    }

    fn translate_identity(
        &mut self,
        global: &IniSection,
        own_section: &IniSection,
        node_name: &str,
    ) -> Result<(), IniError> {
        self.add_setting("name", node_name.into(), own_section.line);
        let id = required(global, "cluster_id")?;
        self.add_setting("arakoon_clusters", id.value.clone(), id.line);
        Ok(())
    }

    fn translate_home(&mut self, own_section: &IniSection) -> Result<(), IniError> {
        let home = required(own_section, "home")?;
        // Credenza has a folder of its own, so Arakoon's files stay unchanged.
        let data = Path::new(&home.value).join("credenza").display().to_string();
        self.add_setting("data_dir", data, home.line);
        self.translate_log_level(own_section)
    }

    fn translate_log_level(&mut self, own_section: &IniSection) -> Result<(), IniError> {
        if let Some(level) = own_section.find("log_level") {
            let level_name = match level.value.to_ascii_lowercase().as_str() {
                "debug" => "debug",
                "info" | "notice" => "info",
                "warning" => "warn",
                "error" | "fatal" => "error",
                _ => {
                    let message = format!("`log_level = {}` is no level of Arakoon", level.value);
                    return Err((level.line, message));
                }
            };
            self.add_setting("log_level", level_name.into(), level.line);
        }
        Ok(())
    }
}
