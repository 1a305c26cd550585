//! Arakoon files of several nodes: the node that founds the cluster, the roles of the others,
//! preferred masters, the lease and the quorum.

use super::ini::{IniComplaint, IniKey, IniSection};
use super::{Configuration, addresses, list, required};

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
fn number(key: &IniKey) -> Result<usize, IniComplaint> {
    let text = key.value.replace('_', "");
    text.parse().map_err(|_| (key.line, format!("`{} = {}`: a number is wanted", key.name, text)))
}

/// Returns the key of this name if its value is `true`.
fn said<'a>(section: &'a IniSection, name: &str) -> Result<Option<&'a IniKey>, IniComplaint> {
    let Some(key) = section.find(name) else { return Ok(None) };
    match key.value.to_ascii_lowercase().as_str() {
        "true" => Ok(Some(key)),
        "false" => Ok(None),
        _ => Err((key.line, format!("`{name} = {}`: true or false is wanted", key.value))),
    }
}

/// Returns the role of a node, and the line that sets it.
fn part(section: &IniSection) -> Result<(NodeRole, usize), IniComplaint> {
    match (said(section, "learner")?, said(section, "witness")?) {
        (None, None) => Ok((NodeRole::Voter, section.line)),
        (Some(key), None) => Ok((NodeRole::Learner, key.line)),
        (None, Some(key)) => Ok((NodeRole::Witness, key.line)),
        (Some(_), Some(key)) => {
            Err((key.line, "`witness` beside `learner`: a node is one of both".into()))
        }
    }
}

/// Checks that a node without a cluster votes and stores the data.
pub fn alone(own: &IniSection) -> Result<(), IniComplaint> {
    match part(own)? {
        (NodeRole::Voter, _) => Ok(()),
        (_, line) => Err((line, "a node that is alone votes, and holds the data".into())),
    }
}

impl Configuration {
    /// Takes all keys that concern several nodes, for one of them.
    pub(super) fn take_several(
        &mut self,
        global: &IniSection,
        members: &IniKey,
        nodes: &[&IniSection],
        own: &IniSection,
    ) -> Result<(), IniComplaint> {
        let parts = nodes.iter().map(|node| part(node)).collect::<Result<Vec<_>, _>>()?;
        let count = |wanted: NodeRole| parts.iter().filter(|(part, _)| *part == wanted).count();
        let (voters, witnesses) = (count(NodeRole::Voter), count(NodeRole::Witness));
        if let Some((_, line)) = parts.first().filter(|(part, _)| *part != NodeRole::Voter) {
            let what = format!(
                "the first that `cluster` names, `{}`, makes the cluster: it votes and holds the \
                 data; name another one first",
                nodes[0].name
            );
            return Err((*line, what));
        }
        if witnesses > voters {
            let what = format!(
                "{witnesses} witnesses beside {voters} voters that hold the data: no more \
                 witnesses than those can be had"
            );
            return Err((members.line, what));
        }
        self.take_peers(own)?;
        self.take_masters(global, nodes, &parts)?;
        self.take_lease(global)?;
        self.take_quorum(global, (voters, witnesses))?;
        let mut others = Vec::new();
        for other in nodes.iter().filter(|node| node.name != own.name) {
            others.push(addresses(other, "client_port")?[0].to_string());
        }
        let setting = if nodes[0].name == own.name { "bootstrap_peers" } else { "join" };
        self.give(setting, others.join(","), members.line);
        match part(own)? {
            (NodeRole::Voter, _) => {}
            (NodeRole::Learner, line) => self.give("join_as", "learner".into(), line),
            (NodeRole::Witness, line) => self.give("join_as", "witness".into(), line),
        }
        Ok(())
    }

    /// Takes the lease. Arakoon counts it in seconds, with the same meaning.
    fn take_lease(&mut self, global: &IniSection) -> Result<(), IniComplaint> {
        let Some(key) = global.find("lease_period") else { return Ok(()) };
        let seconds = number(key)? as u64;
        if !(1..=LEASE_SECONDS_MAX).contains(&seconds) {
            let what = format!(
                "`lease_period = {}`: 1 to {LEASE_SECONDS_MAX} seconds are wanted",
                key.value
            );
            return Err((key.line, what));
        }
        self.give("lease_ms", format!("{seconds}s"), key.line);
        Ok(())
    }

    /// Checks the quorum. A majority needs no setting. An operator sets another safe number once
    /// the nodes are members, because the group must agree on it. A number that could lose
    /// acknowledged writes is not supported.
    fn take_quorum(
        &mut self,
        global: &IniSection,
        (voters, witnesses): (usize, usize),
    ) -> Result<(), IniComplaint> {
        let Some(key) = global.find("quorum") else { return Ok(()) };
        let (quorum, all) = (number(key)?, voters + witnesses);
        let majority = all / 2 + 1;
        if quorum == majority {
            return Ok(());
        }
        let is_safe = quorum >= 2 && quorum < all && quorum > witnesses;
        let why = match is_safe {
            true => format!(
                "is not the majority ({majority} of {all}) that counts at first: once all nodes \
                 are members, `credenza group quorum 1 {quorum}` sets it"
            ),
            false => format!(
                "means nothing here: {majority} of {all} nodes agree; with {quorum} an \
                 acknowledged write could be lost, or no node be missed"
            ),
        };
        self.warn(key.line, "`quorum`", &why);
        Ok(())
    }

    /// Takes the addresses for connections from other nodes.
    fn take_peers(&mut self, own: &IniSection) -> Result<(), IniComplaint> {
        let peers = addresses(own, "messaging_port")?;
        let line = required(own, "messaging_port")?.line;
        self.give("peer_listen", peers[0].to_string(), line);
        if peers.len() > 1 {
            let why = format!("means less here: nodes speak to each other at {} alone", peers[0]);
            self.warn(line, "`messaging_port`", &why);
        }
        Ok(())
    }

    /// Takes the masters: a forced one, or preferred ones.
    fn take_masters(
        &mut self,
        global: &IniSection,
        nodes: &[&IniSection],
        parts: &[(NodeRole, usize)],
    ) -> Result<(), IniComplaint> {
        let master = global.find("master");
        let preferred = global.find("preferred_masters");
        if let (Some(_), Some(preferred)) = (master, preferred) {
            let what = "`preferred_masters` beside `master`: say one of both";
            return Err((preferred.line, what.into()));
        }
        let Some(key) = master.or(preferred) else { return Ok(()) };
        for name in list(&key.value) {
            let Some(at) = nodes.iter().position(|node| node.name == name) else {
                let what = format!("`{}`: there is no node `{name}` in the cluster", key.name);
                return Err((key.line, what));
            };
            if parts[at].0 != NodeRole::Voter {
                let what = format!("`{}`: a learner or witness as `{name}` is no master", key.name);
                return Err((key.line, what));
            }
        }
        let is_preferred = global
            .find("preferred_master")
            .is_some_and(|key| key.value.eq_ignore_ascii_case("true"));
        let forced = master.is_some() && !is_preferred;
        let setting = if forced { "forced_master" } else { "preferred_masters" };
        let chosen: Vec<_> = list(&key.value).collect();
        if forced && chosen.len() != 1 {
            return Err((key.line, format!("`master = {}`: one node is wanted", key.value)));
        }
        self.give(setting, chosen.join(","), key.line);
        Ok(())
    }
}
