//! Faults and changes of the cluster of F-67, one at a time: deaths, a pause, a wiped disk, a move
//! of the consistent bucket, and changes of the ring and of its members.

use super::super::SECOND;
use super::await_state;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use systest::cluster::{Cluster, Options};
use systest::environment::Scratch;
use systest::report::is_long_form;

/// Group that the consistent bucket moves to and back; it begins in group 1.
const SECOND_GROUP: u64 = 2;
/// Number of nodes that never leave.
pub(super) const BASE_NODES: usize = 3;
/// Number of partitions at first; a resize doubles it, the next one halves it.
const PARTITIONS: f64 = 64.0;
/// Longest wait for the end of a change, on a busy machine.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(300);

/// Kind of fault or change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ClusterFault {
    /// SIGKILL of the master of the consistent bucket's group.
    KillMaster,
    /// SIGKILL of any node.
    KillNode,
    RestartNode,
    PauseNode,
    /// The disk of a node is lost, and an operator lets it join anew.
    WipeNode,
    /// Move of the consistent bucket to the other group; in the long form, also with a death.
    MoveBucket,
    ResizeRing,
    /// A fourth node joins the cluster and the ring, or leaves both.
    ChangeMembers,
}

use ClusterFault::*;

/// All kinds, as a deck: two changes of the members, so that who joins also leaves.
pub(super) const DECK: [ClusterFault; 9] = [
    KillMaster,
    KillNode,
    RestartNode,
    PauseNode,
    WipeNode,
    MoveBucket,
    ResizeRing,
    ChangeMembers,
    ChangeMembers,
];

/// Cluster with two groups and a ring, and what was done to it.
pub(super) struct FaultyCluster {
    pub cluster: Cluster,
    /// Group of the consistent bucket at present.
    group: u64,
    partitions: f64,
}

impl FaultyCluster {
    pub fn start(scratch: &Scratch) -> FaultyCluster {
        let mut options = Options::new(BASE_NODES);
        options.lease = Duration::from_millis(600);
        options.args.extend(["--anti-entropy-interval-ms", "300ms"].map(String::from));
        let cluster = Cluster::start(scratch, options);
        cluster.init_ring();
        cluster.run_tool(&["group", "create", "--replicas", "3"]);
        FaultyCluster { cluster, group: 1, partitions: PARTITIONS }
    }

    /// Does it, from its beginning until all nodes serve again. `set_nodes` tells the clients which
    /// nodes they may go to.
    pub fn inject(
        &mut self,
        fault: ClusterFault,
        dice: &mut StdRng,
        set_nodes: impl Fn(&[SocketAddr]),
    ) {
        let seconds = if is_long_form() { 2.0..8.0 } else { 1.5..2.5 };
        let hold = Duration::from_secs_f64(dice.random_range(seconds));
        let any_node = dice.random_range(1..=self.cluster.size());
        match fault {
            KillMaster => self.kill_for(self.group_master(), hold),
            KillNode => self.kill_for(any_node, hold),
            RestartNode => {
                assert_eq!(self.cluster.stop(any_node), Some(0));
                self.cluster.start_node(any_node);
            }
            PauseNode => {
                self.cluster.pause(any_node);
                std::thread::sleep(hold);
                self.cluster.resume(any_node);
            }
            WipeNode => self.wipe(dice.random_range(2..=self.cluster.size())),
            MoveBucket => self.move_bucket(dice),
            ResizeRing => self.resize_ring(),
            ChangeMembers if self.cluster.size() == BASE_NODES => self.add_node(set_nodes),
            ChangeMembers => self.remove_node(set_nodes),
        }
        self.cluster.must_serve();
        self.cluster.must_converge();
    }

    fn kill_for(&mut self, node: usize, hold: Duration) {
        self.cluster.kill(node);
        std::thread::sleep(hold);
        self.cluster.start_node(node);
    }

    /// Returns the node that reports itself as master of the consistent bucket's group.
    fn group_master(&self) -> usize {
        let is_master = |node: &usize| {
            let status = self.cluster.group_status(*node, self.group);
            status.is_some_and(|status| status.role == "master")
        };
        let master = self.cluster.nodes().find(is_master);
        master.unwrap_or_else(|| self.cluster.master())
    }

    fn wipe(&mut self, victim: usize) {
        self.cluster.kill(victim);
        std::thread::sleep(SECOND);
        self.cluster.replace(victim);
        self.cluster.must_converge();
        self.cluster.watch_transfers((1, victim), CHANGE_TIMEOUT, |_, _, _| {});
    }

    fn move_bucket(&mut self, dice: &mut StdRng) {
        let target = if self.group == SECOND_GROUP { 1 } else { SECOND_GROUP };
        let group = target.to_string();
        self.cluster.run_tool(&["bucket", "move", "docs", "--group", &group, "--no-wait"]);
        if is_long_form() && dice.random_bool(0.5) {
            std::thread::sleep(Duration::from_millis(dice.random_range(0..400)));
            self.kill_for(dice.random_range(1..=self.cluster.size()), SECOND);
        }
        await_state("the end of the move", CHANGE_TIMEOUT, || {
            let output = self.cluster.tool(1, &["bucket", "status", "docs", "--json"]);
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            match (status["group"].as_u64(), status["to"].is_null()) {
                (Some(current), true) if current == target => Ok(()),
                _ => Err(format!("{status} {}", String::from_utf8_lossy(&output.stderr))),
            }
        });
        self.group = target;
    }

    fn resize_ring(&mut self) {
        self.partitions = if self.partitions == PARTITIONS { 2.0 * PARTITIONS } else { PARTITIONS };
        let partitions = format!("{}", self.partitions);
        self.change_ring(&["resize", &partitions], |_| true);
    }

    /// A fourth node joins the cluster, then the ring, and clients go to it, too.
    fn add_node(&mut self, set_nodes: impl Fn(&[SocketAddr])) {
        let node = self.cluster.add();
        self.cluster.must_converge();
        let has_part = |cluster: &Cluster| partitions_of(cluster, node) > 0.0;
        self.change_ring(&["join", &format!("n{node}")], has_part);
        set_nodes(&self.cluster.client_addresses());
    }

    /// The fourth node leaves: no client goes to it any more, it hands off its part of the ring,
    /// and an operator removes it.
    fn remove_node(&mut self, set_nodes: impl Fn(&[SocketAddr])) {
        let node = self.cluster.size();
        set_nodes(&self.cluster.client_addresses()[..node - 1]);
        let name = format!("n{node}");
        let has_no_part = |cluster: &Cluster| partitions_of(cluster, node) == 0.0;
        self.change_ring(&["leave", &name], has_no_part);
        // A node that has rows left to delete still holds data, and is not removed.
        await_state("nothing left at n4", CHANGE_TIMEOUT, || self.ring_at_rest(true));
        self.cluster.run_tool(&["cluster", "remove", &name]);
        // Its process may end once it is informed of its removal; it is killed in any case.
        std::thread::sleep(2 * SECOND);
        let data = self.cluster.setup_mut(node).data.clone();
        self.cluster.remove_last();
        // The next node of its name is another one, with an empty disk.
        std::fs::remove_dir_all(&data).expect("it is ours");
    }

    /// Makes a change of the ring, and waits until its data are where they belong. Rows that former
    /// owners still have to delete are awaited before the next change.
    fn change_ring(&mut self, command: &[&str], is_made: impl Fn(&Cluster) -> bool) {
        await_state("a ring at rest", CHANGE_TIMEOUT, || self.ring_at_rest(true));
        self.cluster.run_tool(&[&["cluster", "ring"], command].concat());
        self.cluster.run_tool(&["cluster", "ring", "commit"]);
        await_state("the changed ring", CHANGE_TIMEOUT, || {
            self.ring_at_rest(false)?;
            let all = self.cluster.nodes().map(|node| partitions_of(&self.cluster, node));
            let all: Vec<_> = all.collect();
            let is_expected = all.iter().sum::<f64>() == self.partitions;
            let text = || format!("{all:?} of {} partitions", self.partitions);
            if is_expected && is_made(&self.cluster) { Ok(()) } else { Err(text()) }
        });
    }

    /// Returns Ok if no transfer is in progress. `must_be_cleared`: and no node has rows left to
    /// delete.
    fn ring_at_rest(&self, must_be_cleared: bool) -> Result<(), String> {
        let report = self.cluster.transfers(1).ok_or("node 1 does not answer")?;
        let mut nodes = report["nodes"].as_array().into_iter().flatten();
        let has_cleared = nodes.all(|node| node["clearing"] == 0);
        let is_at_rest = report["remaining"] == 0 && (has_cleared || !must_be_cleared);
        if is_at_rest { Ok(()) } else { Err(report.to_string()) }
    }
}

fn partitions_of(cluster: &Cluster, node: usize) -> f64 {
    cluster.metric(node, "credenza_ring_partitions")
}
