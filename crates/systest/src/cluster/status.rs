//! Status queries of a cluster's nodes, and waits until the nodes agree.

use super::Cluster;
use crate::client::{Http, Resp, RespReply};
use crate::server::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Time limit for one node's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a cluster to agree on a master and to reach one applied index, on a busy machine.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A node's status of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroupStatus {
    /// Number of the node.
    pub node: usize,
    /// `master`, `follower`, `candidate`.
    pub role: String,
    /// Name of the master that the node reports. `None`: it reports none.
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
        let address = self.admin_address(node);
        self.run_on_node(node, || {
            let mut web = Http::with_timeout(address, ANSWER_TIMEOUT).ok()?;
            let answer = web.request("GET", "/status", b"").ok()?;
            (answer.status == 200).then(|| answer.json())
        })
    }

    /// Returns a metric of a node, summed over its labels; 0 if it does not answer.
    pub fn metric(&self, node: usize, name: &str) -> f64 {
        let address = self.admin_address(node);
        let text = self.run_on_node(node, || {
            let mut web = Http::with_timeout(address, ANSWER_TIMEOUT).ok()?;
            Some(web.request("GET", "/metrics", b"").ok()?.text())
        });
        let text = text.unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
        lines.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
    }

    /// Returns a node's status of a group. `None`: it does not answer, or has no such group.
    pub fn group_status(&self, node: usize, group: u64) -> Option<NodeGroupStatus> {
        let status = self.status(node)?;
        let groups = status["groups"].as_array()?;
        let entry = groups.iter().find(|entry| entry["id"].as_u64() == Some(group))?;
        let text = |value: &Value| value.as_str().map(String::from);
        let member = |member: &Value| Some((text(&member["name"])?, text(&member["part"])?));
        Some(NodeGroupStatus {
            node,
            role: text(&entry["role"])?,
            master: text(&entry["master"]),
            ballot: text(&entry["ballot"])?,
            applied: entry["applied"].as_u64()?,
            members: entry["members"].as_array()?.iter().filter_map(member).collect(),
        })
    }

    /// Returns the nodes that can answer.
    fn awake(&self) -> Vec<usize> {
        self.nodes().filter(|node| self.members[node - 1].can_answer()).collect()
    }

    /// Returns the status of a group from every node that can answer. `None`: one does not.
    fn group_statuses(&self, group: u64) -> Option<Vec<NodeGroupStatus>> {
        self.awake().into_iter().map(|node| self.group_status(node, group)).collect()
    }

    /// Returns the node that reports itself as master of the data's group and that a majority of
    /// the nodes reports as master. `None`: there is none at the moment.
    pub fn master_now(&self) -> Option<usize> {
        let statuses: Vec<_> =
            self.awake().into_iter().filter_map(|node| self.group_status(node, DATA)).collect();
        statuses.iter().map(|status| status.node).find(|node| {
            let name = &self.members[node - 1].name;
            let masters = statuses.iter().filter(|status| status.role == "master").count();
            let supporters =
                statuses.iter().filter(|status| status.master.as_ref() == Some(name)).count();
            masters == 1 && supporters * 2 > self.size()
        })
    }

    /// Waits until there is a master, and returns it.
    pub fn master(&self) -> usize {
        let mut master = None;
        wait_until("a master", || {
            master = self.master_now();
            if master.is_some() { Ok(()) } else { Err(self.describe()) }
        });
        master.expect("it was waited for")
    }

    /// Makes a node the master of the data's group.
    pub fn make_master(&self, node: usize) {
        let (name, group) = (format!("n{node}"), DATA.to_string());
        wait_until("the wanted master", || {
            let master = self.master();
            if master == node {
                return Ok(());
            }
            // The command goes to the master: behind the switch, operators reach each node only at
            // that node.
            let args = ["cluster", "move-master", &name, "--group", &group];
            let output = self.tool(master, &args);
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        });
    }

    /// Returns a node that can answer and is not the master.
    pub fn follower(&self) -> usize {
        let master = self.master();
        let follower = self.awake().into_iter().find(|node| *node != master);
        follower.expect("somebody follows")
    }

    /// Waits until every node that can answer reports the same master, and each is a voter of every
    /// group.
    pub fn must_converge(&self) {
        let names: BTreeSet<_> = self.members.iter().map(|member| member.name.clone()).collect();
        wait_until("a settled cluster", || {
            for group in [DIRECTORY, DATA] {
                let said = self.group_statuses(group).ok_or_else(|| self.describe())?;
                let masters: BTreeSet<_> =
                    said.iter().map(|status| status.master.clone()).collect();
                let has_one_master = masters.len() == 1 && !masters.contains(&None);
                let all_vote = said.iter().all(|status| {
                    let voters = status.members.iter().filter(|(_, part)| part == "voter");
                    voters.map(|(name, _)| name.clone()).collect::<BTreeSet<_>>() == names
                });
                if !has_one_master || !all_vote {
                    return Err(format!("group {group}: {said:?}\n{}", self.last_output()));
                }
            }
            Ok(())
        });
    }

    /// Waits until every node that can answer accepts a write.
    pub fn must_serve(&self) {
        for node in self.awake() {
            let address = self.client_address(node);
            self.on_client_host(|| {
                wait_until("a write", || {
                    let mut redis = Resp::with_timeout(address, ANSWER_TIMEOUT)
                        .map_err(|error| format!("node {node}: {error}\n{}", self.last_output()))?;
                    match redis.call_line("SET probe served") {
                        Ok(RespReply::Simple(_)) => Ok(()),
                        other => Err(format!("node {node}: {other:?}\n{}", self.describe())),
                    }
                });
            });
        }
    }

    /// Waits until a node has applied the master's applied index of now.
    pub fn must_catch_up(&self, node: usize) {
        let wanted = self.group_status(self.master(), DATA).expect("a master answers").applied;
        wait_until("what the master has", || match self.group_status(node, DATA) {
            Some(said) if said.applied >= wanted => Ok(()),
            said => Err(format!("{wanted} is not reached: {said:?}")),
        });
    }

    /// Waits until all nodes that can answer have the same applied index, then compares every row.
    /// Calls that clients gave up may still be decided meanwhile: then the comparison is retried.
    pub fn must_have_equal_rows(&self) {
        let mut rows_by_node = Vec::new();
        wait_until("rows as of one index", || {
            self.level(DIRECTORY)?;
            let before = self.level(DATA)?;
            rows_by_node =
                self.awake().into_iter().map(|node| (node, self.read_rows(node))).collect();
            let after = self.level(DATA)?;
            if before == after { Ok(()) } else { Err(format!("{before}, then {after}")) }
        });
        for (node, rows) in &rows_by_node[1..] {
            let (first, expected) = &rows_by_node[0];
            let is_equal = rows == expected;
            let at = rows.iter().zip(expected).find(|(row, other)| row != other);
            assert!(
                is_equal,
                "node {first} has {} rows, node {node} has {}; first difference: {at:?}\n{}",
                expected.len(),
                rows.len(),
                self.describe()
            );
        }
    }

    /// Returns the applied index of a group, if all nodes that can answer have the same. Fails if
    /// they differ.
    fn level(&self, group: u64) -> Result<u64, String> {
        let said = self.group_statuses(group).ok_or_else(|| self.describe())?;
        let indexes: BTreeSet<_> = said.iter().map(|status| status.applied).collect();
        match indexes.first() {
            Some(index) if indexes.len() == 1 => Ok(*index),
            _ => Err(format!("{said:?}")),
        }
    }

    /// Returns every row of the default bucket at one node, a line each, with its version.
    pub fn read_rows(&self, node: usize) -> Vec<String> {
        self.try_read_rows(node).unwrap_or_else(|why| panic!("node {node}: {why}"))
    }

    /// Returns every row of the default bucket at one node, a line each. Fails with the node's
    /// answer if it does not return them.
    pub fn try_read_rows(&self, node: usize) -> Result<Vec<String>, String> {
        let address = self.client_address(node);
        let answer = self.run_on_node(node, || {
            let mut web = Http::connect(address)?;
            web.request("GET", "/v1/buckets/default/default/stream?consistency=dirty", b"")
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
    pub(super) fn last_output(&self) -> String {
        const LINES: usize = 80;
        let servers = self.members.iter().filter_map(|member| member.server.as_ref());
        let outputs = servers.map(|server| {
            let stderr = server.stderr_text();
            let lines: Vec<_> = stderr.lines().rev().take(LINES).collect();
            lines.into_iter().rev().collect::<Vec<_>>().join("\n")
        });
        outputs.collect::<Vec<_>>().join("\n--\n")
    }

    /// Returns the status of every node, for a message.
    pub fn describe(&self) -> String {
        let statuses = self.nodes().map(|node| match self.members[node - 1].can_answer() {
            true => format!("{:?}", self.group_status(node, DATA)),
            false => format!("node {node} is down"),
        });
        statuses.collect::<Vec<_>>().join("\n")
    }

    /// Returns the last `lines` lines of each running node's log.
    pub fn last_log_lines(&self, lines: usize) -> String {
        let mut text = String::new();
        for member in &self.members {
            let stderr = member.server.as_ref().map(Server::stderr_text).unwrap_or_default();
            let log_lines: Vec<_> = stderr.lines().collect();
            for line in &log_lines[log_lines.len().saturating_sub(lines)..] {
                text.push_str(&format!("      {}: {line}\n", member.name));
            }
        }
        text
    }

    /// Returns the number of log lines of all running nodes that contain a text.
    pub fn count_log_lines(&self, text: &str) -> usize {
        let logs = self.members.iter().filter_map(|member| member.server.as_ref());
        logs.map(|server| server.stderr_text().matches(text).count()).sum()
    }
}

/// Group of the directory: members, buckets and types.
const DIRECTORY: u64 = 0;
/// Group of the default bucket.
pub(super) const DATA: u64 = 1;

/// Retries until an attempt succeeds; fails the test with the last error.
pub fn wait_until(what: &str, mut attempt: impl FnMut() -> Result<(), String>) {
    let deadline = Instant::now() + AGREEMENT_TIMEOUT;
    loop {
        match attempt() {
            Ok(()) => return,
            Err(why) => assert!(Instant::now() < deadline, "{what} did not come: {why}"),
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
