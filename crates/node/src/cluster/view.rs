//! View of the cluster on this node: members and their connections, desired and present members of
//! each group. It is not agreed on, and needs no quorum.

use super::membership_controller::{MembershipView, Parts, describe_step, next_step, plan_steps};
use super::{parts_of, saved};
use base::{ClusterId, FeatureLevel, GroupId, LogIndex, MemberDescription, NodeId, Part};
use dynamo::Available;
use metadata::catalog::Catalog;
use replica_host::{Groups, PeerLinks, ReplicaAudit};
use replica_state::comparison::ComparisonStatus;
use replication::group::Group;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use transport::PeerStatus;

/// A cluster as one of its nodes sees it.
#[derive(Clone, Debug, Default)]
pub struct ClusterStatus {
    /// The cluster's durable id.
    pub cluster: ClusterId,
    /// The node that made it.
    pub founder: NodeId,
    /// Time for which voters wait for a silent master, in milliseconds.
    pub lease_ms: u64,
    /// Number of changes of members and placement that this node knows of.
    pub changes: u64,
    /// Feature level in force.
    pub level: FeatureLevel,
    /// Name of the node that reports this.
    pub name: String,
    /// Every member.
    pub members: Vec<MemberStatus>,
    /// Every group that has a place.
    pub groups: Vec<PlaceStatus>,
}

/// A member, and this node's connection with it.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// Description of the member in the directory.
    pub member: MemberDescription,
    /// True if it is connected. A node is connected to itself.
    pub connected: bool,
    /// Milliseconds since its last message.
    pub last_heard_ms_ago: Option<u64>,
    /// Milliseconds without a connection. `None`: there is one, or this node does not dial it.
    pub unreachable_ms: Option<u64>,
    /// There and back, microseconds; 0: not measured.
    pub rtt_us: u64,
    /// Error of the last connection attempt, while there is no connection.
    pub connection_error: Option<String>,
    /// Its health by this node's failure detector: `up`, `suspect` or `down`. Coordinators of
    /// available buckets ask others instead of a suspected node.
    pub health: &'static str,
    /// Rows of available buckets stored here as hints for it.
    pub hints: u64,
    /// Highest feature level that its program knows. `None`: group 0's master has not met it yet.
    pub level: Option<FeatureLevel>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartStatus {
    /// Id of the node.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Part of the node.
    pub part: Part,
    /// Highest log index known to be on its disk; the master knows it of all members.
    pub match_index: Option<LogIndex>,
}

/// Placement of a group: desired members, present members, and the steps between.
#[derive(Clone, Debug)]
pub struct PlaceStatus {
    /// Id of the group.
    pub group: GroupId,
    /// True if this node is a member of the group; otherwise `members` is unknown.
    pub local: bool,
    /// The master's name, if known.
    pub master: Option<String>,
    /// Members as configured.
    pub desired: Vec<PartStatus>,
    /// Members at present.
    pub members: Vec<PartStatus>,
    /// Number of voters that save an entry before it is decided, and number that elect a master. 0,
    /// 0: not known here.
    pub quorums: (usize, usize),
    /// Steps from the present members to the desired ones, in words.
    pub plan: Vec<String>,
    /// Conditions that the next step waits for, in words; only the master knows them.
    pub waits_for: Vec<String>,
    /// True if this node may be restarted without stopping the group.
    pub expect_progress_possible: bool,
    /// Comparison of its replicas. `None` if this node is not the master.
    pub comparison: Option<ComparisonStatus>,
}

impl PlaceStatus {
    /// Records that a group waits for its master: only the master can tell which steps are left.
    pub(super) fn note_unknown_master(&mut self) {
        let has_no_plan = self.plan.is_empty() && self.waits_for.is_empty();
        let parts = |members: &[PartStatus]| -> BTreeMap<NodeId, Part> {
            members.iter().map(|member| (member.node, member.part)).collect()
        };
        if has_no_plan && parts(&self.desired) != parts(&self.members) {
            self.waits_for.push("its master is unknown".into());
        }
    }
}

/// Reader of the cluster's state as this node observes it.
pub(crate) struct ClusterView {
    pub cluster: ClusterId,
    pub groups: Arc<Groups>,
    pub catalog: Arc<Catalog>,
    pub links: Arc<PeerLinks>,
    pub available: Arc<Available>,
    pub audit: Arc<ReplicaAudit>,
}

impl ClusterView {
    /// See [`ClusterStatus`].
    pub(crate) fn status(&self) -> ClusterStatus {
        let cluster = self.catalog.cluster();
        let mut peers: BTreeMap<_, _> =
            self.links.status().into_iter().map(|peer| (peer.node, peer)).collect();
        let levels = self.catalog.levels().members;
        let member = |member: &MemberDescription| MemberStatus {
            level: levels.get(&member.node).copied(),
            ..self.member_status(member, peers.remove(&member.node))
        };
        ClusterStatus {
            cluster: self.cluster,
            founder: cluster.founder,
            lease_ms: cluster.lease_ms,
            changes: cluster.changes,
            level: cluster.level,
            name: self.links.name_of(self.links.node),
            members: cluster.members.iter().map(member).collect(),
            groups: cluster
                .groups
                .iter()
                .map(|place| {
                    let desired = place.members.iter().copied().collect();
                    self.place_status(place.group, &desired)
                })
                .collect(),
        }
    }

    fn member_status(&self, member: &MemberDescription, peer: Option<PeerStatus>) -> MemberStatus {
        let is_own = member.node == self.links.node;
        let connected = is_own || peer.as_ref().is_some_and(|peer| peer.connected.is_some());
        let unreachable_peer = peer.as_ref().filter(|_| !connected);
        MemberStatus {
            member: member.clone(),
            connected,
            last_heard_ms_ago: peer.as_ref().and_then(|peer| peer.received_ms_ago),
            unreachable_ms: peer.as_ref().filter(|_| !is_own).and_then(|peer| peer.disconnected_ms),
            rtt_us: peer.as_ref().map_or(0, |peer| peer.rtt_us),
            connection_error: unreachable_peer
                .and_then(|peer| peer.last_failure.clone().or(peer.last_disconnect.clone())),
            health: self.available.health_name(member.node),
            hints: self
                .available
                .vnode_store
                .pending_hints()
                .get(&member.node)
                .map_or(0, |hints| hints.rows),
            level: None,
        }
    }

    fn place_status(&self, id: GroupId, desired: &Parts) -> PlaceStatus {
        let group = self.groups.get(id).filter(|group| group.leadership.is_member());
        let mut status = PlaceStatus {
            group: id,
            local: group.is_some(),
            master: None,
            desired: self.part_status(desired, &BTreeMap::new()),
            members: Vec::new(),
            quorums: (0, 0),
            plan: Vec::new(),
            waits_for: Vec::new(),
            // A node without a replica of the group may restart.
            expect_progress_possible: group.is_none(),
            comparison: None,
        };
        let Some(group) = group else { return status };
        let master = group.leadership.subscribe().borrow().master;
        let (current, saved) = (parts_of(&group), saved(&group));
        let name = |node| self.links.name_of(node);
        status.master = master.map(name);
        status.members = self.part_status(&current, &saved);
        let quorums = group.configuration().quorums();
        status.quorums = (quorums.save, quorums.elect);
        if let Some(master) = master {
            let steps = plan_steps(desired, &current, master);
            status.plan = steps
                .iter()
                .flat_map(|(current, step)| describe_step(current, step, name))
                .collect();
        }
        if group.leadership.is_master() {
            let membership = MembershipView {
                desired,
                current: &current,
                saved: &saved,
                master: self.links.node,
            };
            let next = next_step(&membership);
            if matches!(next, super::membership_controller::MembershipStep::Wait(_)) {
                status.waits_for = describe_step(&current, &next, name);
            }
        }
        status.expect_progress_possible = self.may_restart(&group);
        status.comparison = self.audit.comparison(&group);
        status
    }

    pub(super) fn part_status(
        &self,
        parts: &Parts,
        saved: &BTreeMap<NodeId, LogIndex>,
    ) -> Vec<PartStatus> {
        let status = |(node, part): (&NodeId, &Part)| PartStatus {
            node: *node,
            name: self.links.name_of(*node),
            part: *part,
            match_index: saved.get(node).copied(),
        };
        parts.iter().map(status).collect()
    }

    /// Returns the members of a group, with their last saved index if it is known.
    pub(crate) fn members_of(&self, group: &Group) -> Vec<PartStatus> {
        self.part_status(&parts_of(group), &saved(group))
    }

    /// Returns true if the group continues while this node restarts: enough other voters are
    /// connected and nearly level, and the master (this node or another) is reachable.
    pub(crate) fn may_restart(&self, group: &Group) -> bool {
        let (current, saved) = (parts_of(group), saved(group));
        let linked: BTreeSet<_> = self
            .links
            .status()
            .into_iter()
            .filter(|peer| peer.connected.is_some())
            .map(|peer| peer.node)
            .collect();
        let master = group.leadership.subscribe().borrow().master;
        let is_master_reachable =
            master.is_some_and(|node| node == self.links.node || linked.contains(&node));
        let membership = MembershipView {
            desired: &current,
            current: &current,
            saved: &saved,
            master: self.links.node,
        };
        let is_master = master == Some(self.links.node);
        let voters = current.iter().filter(|(_, part)| part.can_vote());
        let is_available = |node: &NodeId| {
            *node != self.links.node
                && linked.contains(node)
                && (!is_master || membership.is_near(*node))
        };
        let needed = group.configuration().quorums().required_connected();
        is_master_reachable && voters.filter(|(node, _)| is_available(node)).count() >= needed
    }
}
