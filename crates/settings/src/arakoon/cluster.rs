//! Arakoon files of several nodes: the node that founds the cluster, the roles of the others,
//! preferred masters, the lease and the quorum.

use super::ini::{IniError, IniKey, IniSection};
use super::{Configuration, addresses, comma_separated, required};

/// Role of a node in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeRole {
    /// Votes and stores the data.
    Voter,
    /// Stores the data and does not vote.
    Learner,
    /// Votes and does not store the data.
    Witness,
}

/// Maximum lease in seconds.
const LEASE_SECONDS_MAX: u64 = 60;

/// Parses a number as Arakoon writes it: underscores are ignored.
fn number(key: &IniKey) -> Result<usize, IniError> {
    let text = key.value.replace('_', "");
    text.parse().map_err(|_| (key.line, format!("`{} = {}`: a number is wanted", key.name, text)))
}

/// Returns the key of this name if its value is `true`.
fn find_flag<'a>(section: &'a IniSection, name: &str) -> Result<Option<&'a IniKey>, IniError> {
    let Some(key) = section.find(name) else { return Ok(None) };
    match key.value.to_ascii_lowercase().as_str() {
        "true" => Ok(Some(key)),
        "false" => Ok(None),
        _ => Err((key.line, format!("`{name} = {}`: true or false is wanted", key.value))),
    }
}

/// Returns the role of a node, and the line that sets it.
fn role_of(section: &IniSection) -> Result<(NodeRole, usize), IniError> {
    match (find_flag(section, "learner")?, find_flag(section, "witness")?) {
        (None, None) => Ok((NodeRole::Voter, section.line)),
        (Some(key), None) => Ok((NodeRole::Learner, key.line)),
        (None, Some(key)) => Ok((NodeRole::Witness, key.line)),
        (Some(_), Some(key)) => {
            Err((key.line, "`witness` beside `learner`: a node is one of both".into()))
        }
    }
}

/// Checks that a node without a cluster votes and stores the data.
pub fn check_single_node(own_section: &IniSection) -> Result<(), IniError> {
    match role_of(own_section)? {
        (NodeRole::Voter, _) => Ok(()),
        (_, line) => Err((line, "a node that is alone votes, and holds the data".into())),
    }
}

impl Configuration {
    /// Translates all keys that concern several nodes, for one node.
    pub(super) fn translate_cluster(
        &mut self,
        global: &IniSection,
        members: &IniKey,
        nodes: &[&IniSection],
        own_section: &IniSection,
    ) -> Result<(), IniError> {
        let roles = nodes.iter().map(|node| role_of(node)).collect::<Result<Vec<_>, _>>()?;
        let count =
            |role: NodeRole| roles.iter().filter(|(node_role, _)| *node_role == role).count();
        let (voters, witnesses) = (count(NodeRole::Voter), count(NodeRole::Witness));
        if let Some((_, line)) =
            roles.first().filter(|(node_role, _)| *node_role != NodeRole::Voter)
        {
            let message = format!(
                "the first that `cluster` names, `{}`, makes the cluster: it votes and holds the \
                 data; name another one first",
                nodes[0].name
            );
            return Err((*line, message));
        }
        if witnesses > voters {
            let message = format!(
                "{witnesses} witnesses beside {voters} voters that hold the data: no more \
                 witnesses than those can be had"
            );
            return Err((members.line, message));
        }
        self.translate_peer_addresses(own_section)?;
        self.translate_masters(global, nodes, &roles)?;
        self.translate_lease(global)?;
        self.check_quorum(global, (voters, witnesses))?;
        let mut other_addresses = Vec::new();
        for other in nodes.iter().filter(|node| node.name != own_section.name) {
            other_addresses.push(addresses(other, "client_port")?[0].to_string());
        }
        let setting = if nodes[0].name == own_section.name { "bootstrap_peers" } else { "join" };
        self.add_setting(setting, other_addresses.join(","), members.line);
        match role_of(own_section)? {
            (NodeRole::Voter, _) => {}
            (NodeRole::Learner, line) => self.add_setting("join_as", "learner".into(), line),
            (NodeRole::Witness, line) => self.add_setting("join_as", "witness".into(), line),
        }
        Ok(())
    }

    /// Translates the lease. Arakoon gives it in seconds, with the same meaning.
    fn translate_lease(&mut self, global: &IniSection) -> Result<(), IniError> {
        let Some(key) = global.find("lease_period") else { return Ok(()) };
        let seconds = number(key)? as u64;
        if !(1..=LEASE_SECONDS_MAX).contains(&seconds) {
            let message = format!(
                "`lease_period = {}`: 1 to {LEASE_SECONDS_MAX} seconds are wanted",
                key.value
            );
            return Err((key.line, message));
        }
        self.add_setting("lease_ms", format!("{seconds}s"), key.line);
        Ok(())
    }

    /// Checks the quorum. A majority needs no setting. An operator sets another safe number once
    /// the nodes are members, because the group must agree on it. A number that could lose
    /// acknowledged writes is not supported.
    fn check_quorum(
        &mut self,
        global: &IniSection,
        (voters, witnesses): (usize, usize),
    ) -> Result<(), IniError> {
        let Some(key) = global.find("quorum") else { return Ok(()) };
        let (quorum, all) = (number(key)?, voters + witnesses);
        let majority = all / 2 + 1;
        if quorum == majority {
            return Ok(());
        }
        let is_safe = quorum >= 2 && quorum < all && quorum > witnesses;
        let explanation = match is_safe {
            true => format!(
                "is not the majority ({majority} of {all}) that counts at first: once all nodes \
                 are members, `credenza group quorum 1 {quorum}` sets it"
            ),
            false => format!(
                "means nothing here: {majority} of {all} nodes agree; with {quorum} an \
                 acknowledged write could be lost, or no node be missed"
            ),
        };
        self.warn(key.line, "`quorum`", &explanation);
        Ok(())
    }

    /// Translates the addresses for connections from other nodes.
    fn translate_peer_addresses(&mut self, own_section: &IniSection) -> Result<(), IniError> {
        let peers = addresses(own_section, "messaging_port")?;
        let line = required(own_section, "messaging_port")?.line;
        self.add_setting("peer_listen", peers[0].to_string(), line);
        if peers.len() > 1 {
            let explanation =
                format!("means less here: nodes speak to each other at {} alone", peers[0]);
            self.warn(line, "`messaging_port`", &explanation);
        }
        Ok(())
    }

    /// Translates the masters: one forced master, or preferred masters.
    fn translate_masters(
        &mut self,
        global: &IniSection,
        nodes: &[&IniSection],
        roles: &[(NodeRole, usize)],
    ) -> Result<(), IniError> {
        let master = global.find("master");
        let preferred = global.find("preferred_masters");
        if let (Some(_), Some(preferred)) = (master, preferred) {
            let message = "`preferred_masters` beside `master`: say one of both";
            return Err((preferred.line, message.into()));
        }
        let Some(key) = master.or(preferred) else { return Ok(()) };
        for name in comma_separated(&key.value) {
            let Some(position) = nodes.iter().position(|node| node.name == name) else {
                let message = format!("`{}`: there is no node `{name}` in the cluster", key.name);
                return Err((key.line, message));
            };
            if roles[position].0 != NodeRole::Voter {
                let message =
                    format!("`{}`: a learner or witness as `{name}` is no master", key.name);
                return Err((key.line, message));
            }
        }
        let is_preferred = global
            .find("preferred_master")
            .is_some_and(|key| key.value.eq_ignore_ascii_case("true"));
        let is_forced = master.is_some() && !is_preferred;
        let setting = if is_forced { "forced_master" } else { "preferred_masters" };
        let names: Vec<_> = comma_separated(&key.value).collect();
        if is_forced && names.len() != 1 {
            return Err((key.line, format!("`master = {}`: one node is wanted", key.value)));
        }
        self.add_setting(setting, names.join(","), key.line);
        Ok(())
    }
}
