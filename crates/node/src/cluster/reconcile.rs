//! Reconciliation loop of a node: its peers, its stored list of members, its own entry in the
//! directory; and, at a master, the needs of the directory and of its groups.

use super::led_group::{LedGroup, linked};
use super::level_state::{self, LevelState};
use super::master_placement::full::FullDiskHandover;
use super::master_placement::preferred::{PreferredHandover, PreferredMasters};
use super::master_placement::slow::SlowDiskHandover;
use super::master_placement::spread::{LedGroups, SpreadState, should_hand_over};
use super::membership_controller::{MembershipStep, next_step};
use super::secret::SecretState;
use super::step::take_step;
use super::{ClusterAgent, describe_member, incarnations};
use base::{
    BucketName, ClusterCall, ClusterDescription, DirectoryCall, GroupId, MemberDescription,
    Membership, NodeId, Reason, Result,
};
use replication::group::Group;
use runtime::{round, world};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use transport::{Incarnation, Member};

/// Period of the checks if nothing changes.
const PERIOD: Duration = Duration::from_millis(250);
/// Pause before a failed step is retried, in milliseconds.
const RETRY_MS: u64 = 5_000;

/// State kept from one check to the next.
#[derive(Default)]
struct ClusterReconciler {
    /// Description that was last passed to the peer connections.
    sent: Option<Arc<ClusterDescription>>,
    stored: Option<Arc<ClusterDescription>>,
    /// True if the members' file existed when this run began.
    is_stored: bool,
    /// Time since which each leaving member is out of all groups, in milliseconds.
    out_ms: BTreeMap<NodeId, u64>,
    /// Time before which this node does not update its own member row again, in milliseconds.
    retry_ms: u64,
    is_removed: bool,
    /// State of this node's own incarnation.
    own: incarnations::OwnIncarnationState,
    secrets: SecretState,
    levels: LevelState,
    /// Hand-overs to preferred masters.
    preferred: PreferredHandover,
    /// Hand-overs because this node's disk is slow.
    slow_disk: SlowDiskHandover,
    /// Hand-overs because this node's disk is full.
    full_disk: FullDiskHandover,
    /// Hand-overs because this node is master of more groups than others.
    spread: SpreadState,
}

/// Reconciles until the node stops. `is_stored`: true if the data directory listed members when
/// this run began.
pub(crate) async fn reconcile(agent: Arc<ClusterAgent>, is_stored: bool) {
    let stop = agent.lifecycle.stop_signal();
    let mut changes = agent.directory.catalog.watch_cluster();
    let mut reconciler = ClusterReconciler { is_stored, ..ClusterReconciler::default() };
    while !stop.is_cancelled() {
        reconciler.check(&agent).await;
        world::sleep_or_changed(&stop, &mut changes, world::until_next(PERIOD)).await;
    }
}

impl ClusterReconciler {
    async fn check(&mut self, agent: &ClusterAgent) {
        let cluster = agent.directory.catalog.cluster();
        if cluster.members.is_empty() {
            return; // The cluster is not founded yet.
        }
        self.secrets.check(agent).await;
        self.levels.check(agent, &cluster).await;
        // First, since the following steps may need a connection to a new member.
        self.send_members(agent, &cluster);
        let forced = agent.settings.forced_master_id(&cluster);
        agent.directory.group.shared.forced_master.store(forced.0, Ordering::Release);
        // A restart must find the description by which this run starts and stops groups.
        self.store_members(agent, &cluster).await;
        self.start_groups(agent, &cluster);
        self.stop_groups(agent, &cluster);
        self.own.check(agent).await;
        self.update_own_row(agent, &cluster).await;
        let leads_directory = agent.directory.group.leadership.is_master();
        if leads_directory {
            log_error("the directory", self.maintain_directory(agent, &cluster).await);
        }
        for group in agent.groups.all() {
            round::progress();
            if group.leadership.is_master() {
                log_error("a group's members", take_step(&agent.links, &group, &cluster));
                let handed = self.hand_to_preferred(agent, &group, &cluster).await;
                log_error("the preferred master", handed);
                let handed = self.hand_to_faster_disk(agent, &group, &cluster);
                log_error("a master with a faster disk", handed);
                let handed = self.hand_to_free_disk(agent, &group, &cluster).await;
                log_error("a master with free disk space", handed);
            } else {
                self.preferred.forget(group.id);
                self.slow_disk.forget(group.id);
            }
        }
        log_error("the balance of masters", self.balance(agent, &cluster).await);
    }

    fn send_members(&mut self, agent: &ClusterAgent, cluster: &Arc<ClusterDescription>) {
        let Some(peers) = agent.links.peers.get() else { return };
        if self.sent.as_ref().is_some_and(|sent| Arc::ptr_eq(sent, cluster)) {
            return;
        }
        let reachable = cluster.members.iter().filter(|member| !member.peer.is_empty());
        let members = reachable.map(|member| Member {
            node: member.node,
            name: member.name.clone(),
            address: member.peer.clone(),
            incarnation: Incarnation(member.incarnation),
            incarnation_id: agent.directory.catalog.incarnation_id(member.node),
        });
        peers.set_members(members.collect());
        self.sent = Some(cluster.clone());
    }

    /// Stores the list of members. A sole member without created groups stores nothing.
    async fn store_members(&mut self, agent: &ClusterAgent, cluster: &Arc<ClusterDescription>) {
        let is_written = self.is_stored || self.stored.is_some();
        let is_unneeded = cluster.members.len() == 1 && !is_written;
        let has_created_groups =
            cluster.groups.iter().any(|placement| !placement.founders.is_empty());
        if self.has_stored(cluster) || (is_unneeded && !has_created_groups) {
            return;
        }
        let list = cluster.clone();
        match agent.data.write(move |data| data.write_members(&list)).await {
            Ok(()) => self.stored = Some(cluster.clone()),
            Err(error) => {
                tracing::warn!(target: "node", %error, "the list of members could not be stored")
            }
        }
    }

    fn has_stored(&self, cluster: &Arc<ClusterDescription>) -> bool {
        self.stored.as_ref().is_some_and(|stored| Arc::ptr_eq(stored, cluster))
    }

    /// Starts groups with a replica here. Their founders must be stored before any message is sent.
    fn start_groups(&self, agent: &ClusterAgent, cluster: &Arc<ClusterDescription>) {
        if !self.has_stored(cluster) {
            return;
        }
        let created = cluster.groups.iter().filter(|placement| !placement.founders.is_empty());
        for placement in created.filter(|placement| placement.involves(agent.links.node)) {
            log_error("a new group", agent.host.begin(placement));
        }
    }

    /// Stops the replicas of dropped groups, once the description without them is on disk: the next
    /// start then skips their log records.
    fn stop_groups(&self, agent: &ClusterAgent, cluster: &Arc<ClusterDescription>) {
        if !self.has_stored(cluster) {
            return;
        }
        for group in agent.groups.all() {
            if group.id > GroupId::DEFAULT && cluster.placement(group.id).is_none() {
                agent.host.end(group);
            }
        }
    }

    /// Updates this node's row in the directory if its name or addresses changed.
    async fn update_own_row(&mut self, agent: &ClusterAgent, cluster: &ClusterDescription) {
        let Some(row) = cluster.member(agent.links.node) else {
            if !std::mem::replace(&mut self.is_removed, true) {
                tracing::warn!(target: "node", "this node was removed from the cluster: stop it");
            }
            return;
        };
        let own = describe_member(&agent.settings, agent.links.node);
        let MemberDescription { node: id, name, peer, client, .. } = own;
        let is_same = (&name, &peer, &client) == (&row.name, &row.peer, &row.client);
        if is_same || row.membership == Membership::Leaving || world::milliseconds() < self.retry_ms
        {
            return;
        }
        self.retry_ms = world::milliseconds() + RETRY_MS;
        let call = ClusterCall::UpdateMember { node: id, name, peer, client };
        let call = DirectoryCall::Cluster(call);
        match agent.router.call_directory(BucketName::default(), call).await {
            Ok(()) => tracing::info!(
                target: "node", "this node's addresses are stored in the directory"
            ),
            Err(error) => tracing::warn!(
                target: "node", %error, "this node's addresses could not be stored in the directory"
            ),
        }
    }

    /// Hands a group over to its preferred master, unless that node's disk hangs.
    async fn hand_to_preferred(
        &mut self,
        agent: &ClusterAgent,
        group: &Group,
        cluster: &ClusterDescription,
    ) -> Result<()> {
        let is_set = agent.settings.has_configured_masters();
        let Some(led) = LedGroup::read(&agent.links, group, cluster).filter(|_| is_set) else {
            return Ok(());
        };
        let order = agent.settings.desired_masters(cluster);
        let linked = linked(&agent.links, &order);
        let preferred =
            PreferredMasters { order: &order, pause_ms: agent.settings.preferred_master_delay_ms };
        let successor =
            self.preferred.pick(group.id, &led.view(), preferred, &linked, world::milliseconds());
        let Some(successor) = successor else { return Ok(()) };
        // A successor whose disk hangs would stop the group and hand it back.
        if agent.calls.ask_disk_hangs(successor).await {
            return Ok(());
        }
        group.hand_over(successor)?;
        let name = agent.links.name_of(successor);
        tracing::info!(
            target: "node", group = group.id.0, name,
            "mastership is transferred to the preferred master"
        );
        Ok(())
    }

    /// Hands a group over to a faster disk, if this disk is slow and no masters are set.
    fn hand_to_faster_disk(
        &mut self,
        agent: &ClusterAgent,
        group: &Group,
        cluster: &ClusterDescription,
    ) -> Result<()> {
        let is_set = agent.settings.has_configured_masters();
        let is_due = !is_set && agent.disk.metrics.is_slow();
        let Some(led) = LedGroup::read(&agent.links, group, cluster).filter(|_| is_due) else {
            self.slow_disk.forget(group.id);
            return Ok(());
        };
        let linked = linked(&agent.links, led.current.keys());
        let successor = self.slow_disk.pick(group.id, &led.view(), &linked, world::milliseconds());
        let Some(successor) = successor else { return Ok(()) };
        let (name, sync_us) = (agent.links.name_of(successor), agent.disk.metrics.sync_mean_us());
        tracing::warn!(
            target: "node", group = group.id.0, name, sync_us,
            "slow disk: mastership is transferred to a node with a faster disk"
        );
        group.hand_over(successor)
    }

    /// Hands a group over to a node with free space, if this disk is full and no masters are set.
    async fn hand_to_free_disk(
        &mut self,
        agent: &ClusterAgent,
        group: &Group,
        cluster: &ClusterDescription,
    ) -> Result<()> {
        let is_full = agent.disk.space.is_full() && !agent.settings.has_configured_masters();
        let Some(led) = LedGroup::read(&agent.links, group, cluster).filter(|_| is_full) else {
            return Ok(());
        };
        let linked = linked(&agent.links, led.current.keys());
        let successor = self.full_disk.pick(group.id, &led.view(), &linked, world::milliseconds());
        let Some(successor) = successor else { return Ok(()) };
        if agent.calls.ask_led_count(successor).await.is_none() {
            return Ok(()); // Full, slow, stopping, or asked by another node.
        }
        let name = agent.links.name_of(successor);
        tracing::warn!(
            target: "node", group = group.id.0, name,
            "full disk: mastership is transferred to a node with free space"
        );
        group.hand_over(successor)
    }

    /// Hands a group over to a node that is master of fewer, unless masters are configured.
    async fn balance(&mut self, agent: &ClusterAgent, cluster: &ClusterDescription) -> Result<()> {
        if agent.settings.has_configured_masters() || cluster.groups.len() < 3 {
            return Ok(());
        }
        let led = led_groups(agent, cluster);
        let (now, pause_ms) = (world::milliseconds(), agent.settings.preferred_master_delay_ms);
        let Some((id, successor)) = self.spread.pick(&led, pause_ms, now) else {
            return Ok(());
        };
        let Some(fewer) = agent.calls.ask_led_count(successor).await else { return Ok(()) };
        self.spread.record_report(successor, fewer, pause_ms, now);
        let Some(group) = agent.groups.get(id) else { return Ok(()) };
        // Counted again: groups may have been handed to either node meanwhile.
        if !should_hand_over(agent.calls.led_count(), fewer) || !group.leadership.is_master() {
            return Ok(());
        }
        group.hand_over(successor)?;
        let name = agent.links.name_of(successor);
        tracing::info!(
            target: "node", group = id.0, name,
            "mastership is transferred to a node that leads fewer groups"
        );
        Ok(())
    }

    /// Maintains the directory; called at group 0's master only.
    async fn maintain_directory(
        &mut self,
        agent: &ClusterAgent,
        cluster: &ClusterDescription,
    ) -> Result<()> {
        incarnations::record(agent, cluster).await?;
        level_state::record(agent, cluster).await?;
        self.secrets.require(agent, cluster).await?;
        let (now, pause_ms) = (world::milliseconds(), agent.settings.farewell_ms);
        for member in
            cluster.members.iter().filter(|member| member.membership == Membership::Leaving)
        {
            if !is_out(agent, cluster, member.node).await {
                self.out_ms.remove(&member.node);
            } else if now.saturating_sub(*self.out_ms.entry(member.node).or_insert(now)) >= pause_ms
            {
                agent.directory.remove_member(member.node).await?;
                tracing::info!(target: "node", name = member.name, "a member has left the cluster");
            }
        }
        self.out_ms.retain(|node, _| cluster.member(*node).is_some());
        Ok(())
    }
}

/// Returns true if a node is in no group any more. Asks the master of a group that has no replica
/// here.
async fn is_out(agent: &ClusterAgent, cluster: &ClusterDescription, node: NodeId) -> bool {
    for placement in &cluster.groups {
        let local = agent.groups.get(placement.group).filter(|group| group.leadership.is_member());
        let is_out = match local {
            Some(group) => group.configuration().part(node).is_none(),
            None => {
                let members = agent.calls.ask_members(placement).await;
                members.is_some_and(|members| !members.contains(&node))
            }
        };
        if !is_out {
            return false;
        }
    }
    true
}

/// Returns the number of groups that each node leads, and the candidates to take over this node's.
fn led_groups(agent: &ClusterAgent, cluster: &ClusterDescription) -> LedGroups {
    let mut led_groups = LedGroups::default();
    for group in agent.groups.all().into_iter().filter(|group| group.id != GroupId::DIRECTORY) {
        let Some(master) = group.leadership.subscribe().borrow().master else { continue };
        *led_groups.counts.entry(master).or_default() += 1;
        if !group.leadership.is_master() {
            continue;
        }
        let Some(led) = LedGroup::read(&agent.links, &group, cluster) else { continue };
        let view = led.view();
        let is_idle = next_step(&view) == MembershipStep::Idle;
        let candidates = led.current.keys().copied().filter(|node| {
            let is_other = *node != agent.links.node;
            is_idle && is_other && view.could_lead(*node, |node| agent.links.is_linked(node))
        });
        let candidates = candidates.collect();
        led_groups.own_groups.insert(group.id, candidates);
    }
    led_groups
}

/// Logs an error: transient ones, which a retry resolves, at debug level.
pub(super) fn log_error(what: &str, result: Result<()>) {
    if let Err(error) = result {
        let is_transient = matches!(
            error.reason,
            Reason::Changed
                | Reason::NotMaster
                | Reason::NoLongerMaster
                | Reason::DeadlinePassed
                | Reason::InDoubt
                | Reason::MetadataChanged
                | Reason::Starting
                | Reason::ShuttingDown
        );
        match is_transient {
            true => tracing::debug!(target: "node", %error, "{what}: postponed"),
            false => tracing::warn!(target: "node", %error, "{what}: failed; it is retried"),
        }
    }
}
