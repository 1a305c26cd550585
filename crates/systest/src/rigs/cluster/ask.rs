//! Status queries of a cluster's nodes, and waits until the nodes agree.

use super::Cluster;
use crate::client::{Http, Resp, RespReply};
use crate::server::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time limit for one node's answer.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Time limit for a cluster to agree on a master and to reach one applied index, on a busy machine.
const SETTLE_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// A node's status of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupAnswer {
    /// Number of the node.
    pub node: usize,
    /// `master`, `follower`, `candidate`.
    pub role: String,
    /// Name of the master that the node knows. `None`: it knows none.
    pub master: Option<String>,
    /// Its ballot.
    pub ballot: String,
    /// Its applied index.
    pub applied: u64,
    /// Name and role of each member.
    pub members: Vec<(String, String)>,
}

impl Cluster {
    /// Returns a node's status. `None`: it does not answer.
    pub fn status(&self, node: usize) -> Option<Value> {
        let address = self.operators(node);
        self.on(node, || {
            let mut web = Http::with_patience(address, ANSWER_MAX).ok()?;
            let answer = web.ask("GET", "/status", b"").ok()?;
            (answer.status == 200).then(|| answer.json())
        })
    }

    /// Returns a metric of a node, summed over its labels; 0 if it does not answer.
    pub fn metric(&self, node: usize, name: &str) -> f64 {
        let address = self.operators(node);
        let text = self.on(node, || {
            let mut web = Http::with_patience(address, ANSWER_MAX).ok()?;
            Some(web.ask("GET", "/metrics", b"").ok()?.text())
        });
        let text = text.unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
        lines.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
    }

    /// Returns a node's status of a group. `None`: it does not answer, or has no such group.
    pub fn said(&self, node: usize, group: u64) -> Option<GroupAnswer> {
        let status = self.status(node)?;
        let groups = status["groups"].as_array()?;
        let about = groups.iter().find(|about| about["id"].as_u64() == Some(group))?;
        let word = |value: &Value| value.as_str().map(String::from);
        let member = |member: &Value| Some((word(&member["name"])?, word(&member["part"])?));
        Some(GroupAnswer {
            node,
            role: word(&about["role"])?,
            master: word(&about["master"]),
            ballot: word(&about["ballot"])?,
            applied: about["applied"].as_u64()?,
            members: about["members"].as_array()?.iter().filter_map(member).collect(),
        })
    }

    /// Returns the nodes that can answer.
    fn awake(&self) -> Vec<usize> {
        self.nodes().filter(|node| self.members[node - 1].is_awake()).collect()
    }

    /// Returns the status of a group from every node that is awake. `None`: one does not answer.
    fn all_said(&self, group: u64) -> Option<Vec<GroupAnswer>> {
        self.awake().into_iter().map(|node| self.said(node, group)).collect()
    }

    /// Returns the node that reports itself as master of the data's group and that a majority of
    /// the nodes knows as master. `None`: there is none at the moment.
    pub fn master_now(&self) -> Option<usize> {
        let said: Vec<_> =
            self.awake().into_iter().filter_map(|node| self.said(node, DATA)).collect();
        said.iter().map(|one| one.node).find(|node| {
            let name = &self.members[node - 1].name;
            let masters = said.iter().filter(|one| one.role == "master").count();
            let believers = said.iter().filter(|one| one.master.as_ref() == Some(name)).count();
            masters == 1 && believers * 2 > self.size()
        })
    }

    /// Waits until there is a master, and returns it.
    pub fn master(&self) -> usize {
        let mut master = None;
        wait("a master", || {
            master = self.master_now();
            if master.is_some() { Ok(()) } else { Err(self.words()) }
        });
        master.expect("it was waited for")
    }

    /// Makes a node the master of the data's group.
    pub fn lead(&self, node: usize) {
        let (name, group) = (format!("n{node}"), DATA.to_string());
        wait("the wanted master", || {
            let master = self.master();
            if master == node {
                return Ok(());
            }
            // The command goes to the master: behind the switch, operators reach each node only at
            // that node.
            let words = ["cluster", "move-master", &name, "--group", &group];
            let output = self.tool(master, &words);
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        });
    }

    /// Returns a node that is awake and is not the master.
    pub fn follower(&self) -> usize {
        let master = self.master();
        let awake = self.awake().into_iter().find(|node| *node != master);
        awake.expect("somebody follows")
    }

    /// Waits until every node that is awake knows the same master, and each is a voter of every
    /// group.
    pub fn must_settle(&self) {
        let names: BTreeSet<_> = self.members.iter().map(|member| member.name.clone()).collect();
        wait("a settled cluster", || {
            for group in [DIRECTORY, DATA] {
                let said = self.all_said(group).ok_or_else(|| self.words())?;
                let masters: BTreeSet<_> = said.iter().map(|one| one.master.clone()).collect();
                let one = masters.len() == 1 && !masters.contains(&None);
                let voters = said.iter().all(|one| {
                    let voters = one.members.iter().filter(|(_, part)| part == "voter");
                    voters.map(|(name, _)| name.clone()).collect::<BTreeSet<_>>() == names
                });
                if !one || !voters {
                    return Err(format!("group {group}: {said:?}\n{}", self.last_words()));
                }
            }
            Ok(())
        });
    }

    /// Waits until every node that is awake accepts a write.
    pub fn must_serve(&self) {
        for node in self.awake() {
            let address = self.client(node);
            self.from_clients(|| {
                wait("a write", || {
                    let mut redis = Resp::with_patience(address, ANSWER_MAX)
                        .map_err(|error| format!("node {node}: {error}\n{}", self.last_words()))?;
                    match redis.say("SET probe served") {
                        Ok(RespReply::Simple(_)) => Ok(()),
                        other => Err(format!("node {node}: {other:?}\n{}", self.words())),
                    }
                });
            });
        }
    }

    /// Waits until a node has applied the master's applied index of now.
    pub fn must_catch_up(&self, node: usize) {
        let wanted = self.said(self.master(), DATA).expect("a master answers").applied;
        wait("what the master has", || match self.said(node, DATA) {
            Some(said) if said.applied >= wanted => Ok(()),
            said => Err(format!("{wanted} is not reached: {said:?}")),
        });
    }

    /// Waits until all nodes that are awake have the same applied index, then compares every row.
    /// Calls that clients gave up may still be decided meanwhile: then it begins again.
    pub fn must_be_level(&self) {
        let mut stores = Vec::new();
        wait("rows as of one index", || {
            self.level(DIRECTORY)?;
            let before = self.level(DATA)?;
            stores = self.awake().into_iter().map(|node| (node, self.store(node))).collect();
            let after = self.level(DATA)?;
            if before == after { Ok(()) } else { Err(format!("{before}, then {after}")) }
        });
        for (node, rows) in &stores[1..] {
            let (first, expected) = &stores[0];
            let same = rows == expected;
            let at = rows.iter().zip(expected).find(|(row, other)| row != other);
            assert!(
                same,
                "node {first} has {} rows, node {node} has {}; first difference: {at:?}\n{}",
                expected.len(),
                rows.len(),
                self.words()
            );
        }
    }

    /// Returns the applied index of a group that all nodes that are awake share. Fails if they
    /// differ.
    fn level(&self, group: u64) -> Result<u64, String> {
        let said = self.all_said(group).ok_or_else(|| self.words())?;
        let indexes: BTreeSet<_> = said.iter().map(|one| one.applied).collect();
        match indexes.first() {
            Some(index) if indexes.len() == 1 => Ok(*index),
            _ => Err(format!("{said:?}")),
        }
    }

    /// Returns every row of the default bucket at one node, a line each, with its version.
    pub fn store(&self, node: usize) -> Vec<String> {
        self.try_store(node).unwrap_or_else(|why| panic!("node {node}: {why}"))
    }

    /// Returns every row of the default bucket at one node, a line each. Fails with the node's
    /// answer if it does not return them.
    pub fn try_store(&self, node: usize) -> Result<Vec<String>, String> {
        let address = self.client(node);
        let answer = self.on(node, || {
            let mut web = Http::connect(address)?;
            web.ask("GET", "/v1/buckets/default/default/stream?consistency=dirty", b"")
        });
        let answer = answer.map_err(|error| error.to_string())?;
        let rows: Vec<_> = answer.text().lines().map(String::from).collect();
        let failed = rows.last().filter(|row| row.starts_with("{\"error\""));
        match (answer.status, failed) {
            (200, None) => Ok(rows),
            _ => Err(answer.text()),
        }
    }

    /// Returns the last lines of each process's output.
    pub(super) fn last_words(&self) -> String {
        const LINES: usize = 80;
        let servers = self.members.iter().filter_map(|member| member.server.as_ref());
        let last = servers.map(|server| {
            let said = server.said();
            let lines: Vec<_> = said.lines().rev().take(LINES).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        });
        last.collect::<Vec<_>>().join("\n--\n")
    }

    /// Returns the status of every node, for a message.
    pub fn words(&self) -> String {
        let words = self.nodes().map(|node| match self.members[node - 1].is_awake() {
            true => format!("{:?}", self.said(node, DATA)),
            false => format!("node {node} is down"),
        });
        words.collect::<Vec<_>>().join("\n")
    }

    /// Returns the last `lines` lines of each running node's log.
    pub fn last_log_lines(&self, lines: usize) -> String {
        let mut text = String::new();
        for member in &self.members {
            let said = member.server.as_ref().map(Server::said).unwrap_or_default();
            let all: Vec<_> = said.lines().collect();
            for line in &all[all.len().saturating_sub(lines)..] {
                text.push_str(&format!("      {}: {line}\n", member.name));
            }
        }
        text
    }
}

/// Group of the directory: members, buckets and types.
const DIRECTORY: u64 = 0;
/// Group of the default bucket.
pub(super) const DATA: u64 = 1;

/// Retries until an attempt succeeds; fails the test with the last error.
pub fn wait(what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let until = Instant::now() + SETTLE_MAX;
    loop {
        match attempt() {
            Ok(()) => return,
            Err(why) => assert!(Instant::now() < until, "{what} did not come: {why}"),
        }
        std::thread::sleep(LOOK);
    }
}
