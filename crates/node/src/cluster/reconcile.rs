//! Reconciliation loop of a node: its peers, its stored list of members, its own entry in the
//! directory; and, at a master, the needs of the directory and of its groups.

use super::full::Cramped;
use super::led_group::{LedGroup, linked};
use super::membership_controller::{MembershipStep, next_step};
use super::preferred::{Fit, PreferredWish};
use super::secret::Secrets;
use super::slow::Laggard;
use super::spread::{Sight, SpreadState, differs};
use super::step::take_step;
use super::{ClusterAgent, described, incarnations};
use base::{
    BucketName, Call, ClusterCall, ClusterDescription, DirectoryCall, GroupId, MemberDescription,
    Membership, NodeId, Reason, Request, Result,
};
use replication::group::Group;
use runtime::world;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use transport::{Incarnation, Member};

/// Pause between two checks, if nothing changes.
const PAUSE: Duration = Duration::from_millis(250);
/// Pause before a failed step is retried, in milliseconds.
const AGAIN_MS: u64 = 5_000;

/// State kept from one check to the next.
#[derive(Default)]
struct ClusterReconciler {
    /// Last description given to the peers.
    told: Option<Arc<ClusterDescription>>,
    written: Option<Arc<ClusterDescription>>,
    /// True if the members' file existed when this run began.
    is_written_down: bool,
    /// Time at which each leaving member was first seen out of all groups.
    out: BTreeMap<NodeId, u64>,
    /// Time before which the directory gets no further report of this node.
    again: u64,
    removed: bool,
    /// State of this node's own incarnation.
    own: incarnations::Own,
    /// State of the cluster's secret.
    secrets: Secrets,
    /// Candidates that are preferred masters.
    fit: Fit,
    /// Candidates because this node's disk is slow.
    laggard: Laggard,
    /// Candidates because this node's disk is full.
    cramped: Cramped,
    /// Candidates because this node is master of more groups than others.
    spread: SpreadState,
}

/// Reconciles until the node stops. `is_written_down`: true if the data directory listed other
/// members when this run began.
pub(crate) async fn reconcile(agent: Arc<ClusterAgent>, is_written_down: bool) {
    let stop = agent.lifecycle.stop_signal();
    let mut changes = agent.directory.catalog.watch_cluster();
    let mut tending = ClusterReconciler { is_written_down, ..ClusterReconciler::default() };
    while !stop.is_cancelled() {
        changes.mark_unchanged();
        tending.look(&agent).await;
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = changes.changed() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

impl ClusterReconciler {
    async fn look(&mut self, agent: &ClusterAgent) {
        let known = agent.directory.catalog.cluster();
        if known.members.is_empty() {
            return; // A cluster that is not founded yet.
        }
        self.secrets.look(agent).await;
        // Before the rest, which may need a connection to a new member.
        self.tell_peers(agent, &known);
        let forced = agent.settings.forced_among(&known);
        agent.directory.group.shared.forced_master.store(forced.0, Ordering::Release);
        // Before groups begin or end by this description: a restart must know of them what this run
        // did.
        self.write(agent, &known).await;
        self.begin_groups(agent, &known);
        self.end_groups(agent, &known);
        self.own.look(agent).await;
        self.tell_of_itself(agent, &known).await;
        let leads_directory = agent.directory.group.leadership.is_master();
        if leads_directory {
            let kept = self.keep_directory(agent, &known).await;
            quietly("the directory", kept);
        }
        for group in agent.groups.all() {
            if group.leadership.is_master() {
                quietly("a group's members", take_step(&agent.links, &group, &known));
                quietly("the preferred master", self.prefer(agent, &group, &known).await);
                quietly("a quicker master", self.give_way(agent, &group, &known));
                quietly("a master with room", self.make_room(agent, &group, &known).await);
            } else {
                self.fit.forget(group.id);
                self.laggard.forget(group.id);
            }
        }
        quietly("the masters' spread", self.spread_out(agent, &known).await);
    }

    fn tell_peers(&mut self, agent: &ClusterAgent, known: &Arc<ClusterDescription>) {
        let Some(peers) = agent.links.peers.get() else { return };
        if self.told.as_ref().is_some_and(|told| Arc::ptr_eq(told, known)) {
            return;
        }
        let reached = known.members.iter().filter(|member| !member.peer.is_empty());
        let members = reached.map(|member| Member {
            node: member.node,
            name: member.name.clone(),
            address: member.peer.clone(),
            incarnation: Incarnation(member.incarnation),
            incarnation_id: agent.directory.catalog.incarnation_id(member.node),
        });
        peers.set_members(members.collect());
        self.told = Some(known.clone());
    }

    /// Stores the list of members. A node that was always alone, in the groups that every cluster
    /// has, stores nothing.
    async fn write(&mut self, agent: &ClusterAgent, known: &Arc<ClusterDescription>) {
        let is_written = self.is_written_down || self.written.is_some();
        let needless = known.members.len() == 1 && !is_written;
        let made = known.groups.iter().any(|placement| !placement.founders.is_empty());
        if self.has_written(known) || (needless && !made) {
            return;
        }
        let list = known.clone();
        match agent.data.write(move |data| data.write_members(&list)).await {
            Ok(()) => self.written = Some(known.clone()),
            Err(error) => tracing::warn!(target: "node", %error, "members not written down"),
        }
    }

    fn has_written(&self, known: &Arc<ClusterDescription>) -> bool {
        self.written.as_ref().is_some_and(|written| Arc::ptr_eq(written, known))
    }

    /// Begins the groups in which this node has or gets a replica, once their founders are on disk:
    /// before that this node must not speak in them.
    fn begin_groups(&self, agent: &ClusterAgent, known: &Arc<ClusterDescription>) {
        if !self.has_written(known) {
            return;
        }
        let made = known.groups.iter().filter(|placement| !placement.founders.is_empty());
        for placement in made.filter(|placement| placement.concerns(agent.links.node)) {
            quietly("a group that begins", agent.host.begin(placement));
        }
    }

    /// Groups that were dropped end, once it stands on disk that they are none any more: a start
    /// then passes by what the log still holds of them.
    fn end_groups(&self, agent: &ClusterAgent, known: &Arc<ClusterDescription>) {
        if !self.has_written(known) {
            return;
        }
        for group in agent.groups.all() {
            if group.id > GroupId::DEFAULT && known.placement(group.id).is_none() {
                agent.host.end(group);
            }
        }
    }

    /// The directory learns when this node has another name or other addresses than before.
    async fn tell_of_itself(&mut self, agent: &ClusterAgent, known: &ClusterDescription) {
        let Some(row) = known.member(agent.links.node) else {
            if !std::mem::replace(&mut self.removed, true) {
                tracing::warn!(target: "node", "this node was removed from the cluster: stop it");
            }
            return;
        };
        let own = described(&agent.settings, agent.links.node);
        let MemberDescription { node: id, name, peer, client, .. } = own;
        let same = (&name, &peer, &client) == (&row.name, &row.peer, &row.client);
        if same || row.membership == Membership::Leaving || world::milliseconds() < self.again {
            return;
        }
        self.again = world::milliseconds() + AGAIN_MS;
        let call = ClusterCall::UpdateMember { node: id, name, peer, client };
        let call = Call::Directory(DirectoryCall::Cluster(call));
        let request = Request { bucket: BucketName::default(), call, retry: None };
        match agent.router.handle(request).await {
            Ok(_) => tracing::info!(target: "node", "the directory knows this node's addresses"),
            Err(error) => tracing::warn!(target: "node", %error, "not told to the directory"),
        }
    }

    /// Hands a group over to one that is preferred, unless its disk hangs.
    async fn prefer(
        &mut self,
        agent: &ClusterAgent,
        group: &Group,
        known: &ClusterDescription,
    ) -> Result<()> {
        let set = agent.settings.names_masters();
        let Some(led) = LedGroup::of(&agent.links, group, known).filter(|_| set) else {
            return Ok(());
        };
        let order = agent.settings.masters_among(known);
        let linked = linked(&agent.links, &order);
        let wish =
            PreferredWish { order: &order, pause_ms: agent.settings.preferred_master_delay_ms };
        let heir = self.fit.due(group.id, &led.sight(), wish, &linked, world::milliseconds());
        let Some(heir) = heir else { return Ok(()) };
        // An heir whose disk hangs would stop the group, and hand it back.
        if agent.calls.hangs(heir).await {
            return Ok(());
        }
        group.hand_over(heir)?;
        let name = agent.links.name_of(heir);
        tracing::info!(target: "node", group = group.id.0, name, "the preferred master takes over");
        Ok(())
    }

    /// Hands a group over that this node's slow disk holds up, unless masters are set.
    fn give_way(
        &mut self,
        agent: &ClusterAgent,
        group: &Group,
        known: &ClusterDescription,
    ) -> Result<()> {
        let set = agent.settings.names_masters();
        let is_due = !set && agent.disk.metrics.is_slow();
        let Some(led) = LedGroup::of(&agent.links, group, known).filter(|_| is_due) else {
            self.laggard.forget(group.id);
            return Ok(());
        };
        let linked = linked(&agent.links, led.now.keys());
        let heir = self.laggard.due(group.id, &led.sight(), &linked, world::milliseconds());
        let Some(heir) = heir else { return Ok(()) };
        let (name, sync_us) = (agent.links.name_of(heir), agent.disk.metrics.sync_mean_us());
        tracing::warn!(
            target: "node", group = group.id.0, name, sync_us,
            "a node with a quicker disk takes over"
        );
        group.hand_over(heir)
    }

    /// Hands a group over to a node that reports space, if this node's disk is full and no
    /// preferred masters are set.
    async fn make_room(
        &mut self,
        agent: &ClusterAgent,
        group: &Group,
        known: &ClusterDescription,
    ) -> Result<()> {
        let full = agent.disk.space.is_full() && !agent.settings.names_masters();
        let Some(led) = LedGroup::of(&agent.links, group, known).filter(|_| full) else {
            return Ok(());
        };
        let linked = linked(&agent.links, led.now.keys());
        let heir = self.cramped.due(group.id, &led.sight(), &linked, world::milliseconds());
        let Some(heir) = heir else { return Ok(()) };
        if agent.calls.led_by(heir).await.is_none() {
            return Ok(()); // It is full, slow, about to stop, or was just asked by another.
        }
        let name = agent.links.name_of(heir);
        tracing::warn!(
            target: "node", group = group.id.0, name, "full disk: a node with room takes over"
        );
        group.hand_over(heir)
    }

    /// Hands a group over to a node that is master of fewer, unless masters are set.
    async fn spread_out(&mut self, agent: &ClusterAgent, known: &ClusterDescription) -> Result<()> {
        if agent.settings.names_masters() || known.groups.len() < 3 {
            return Ok(());
        }
        let sight = sight(agent, known);
        let (now, pause_ms) = (world::milliseconds(), agent.settings.preferred_master_delay_ms);
        let Some((id, heir)) = self.spread.due(&sight, pause_ms, now) else { return Ok(()) };
        let Some(fewer) = agent.calls.led_by(heir).await else { return Ok(()) };
        self.spread.heard(heir, fewer, pause_ms, now);
        let Some(group) = agent.groups.get(id) else { return Ok(()) };
        // Counted again: others may have handed groups to either node since.
        if !differs(agent.calls.led_here(), fewer) || !group.leadership.is_master() {
            return Ok(());
        }
        group.hand_over(heir)?;
        let name = agent.links.name_of(heir);
        tracing::info!(target: "node", group = id.0, name, "a node with fewer groups takes over");
        Ok(())
    }

    /// Maintains the directory. Runs only at group 0's master.
    async fn keep_directory(
        &mut self,
        agent: &ClusterAgent,
        known: &ClusterDescription,
    ) -> Result<()> {
        incarnations::record(agent, known).await?;
        self.secrets.require(agent, known).await?;
        let (now, pause_ms) = (world::milliseconds(), agent.settings.farewell_ms);
        for member in known.members.iter().filter(|member| member.membership == Membership::Leaving)
        {
            if !is_out(agent, known, member.node).await {
                self.out.remove(&member.node);
            } else if now.saturating_sub(*self.out.entry(member.node).or_insert(now)) >= pause_ms {
                agent.directory.forget_member(member.node).await?;
                tracing::info!(target: "node", name = member.name, "a member has left");
            }
        }
        self.out.retain(|node, _| known.member(*node).is_some());
        Ok(())
    }
}

/// Returns true if a node is out of every group. Asks the master of a group that has no replica
/// here.
async fn is_out(agent: &ClusterAgent, known: &ClusterDescription, node: NodeId) -> bool {
    for placement in &known.groups {
        let here = agent.groups.get(placement.group).filter(|group| group.leadership.has_part());
        let out = match here {
            Some(group) => group.configuration().part(node).is_none(),
            None => {
                let members = agent.calls.members_of(placement).await;
                members.is_some_and(|members| !members.contains(&node))
            }
        };
        if !out {
            return false;
        }
    }
    true
}

/// Returns the master of each group with buckets, and the nodes that could take over this node's.
fn sight(agent: &ClusterAgent, known: &ClusterDescription) -> Sight {
    let mut sight = Sight::default();
    for group in agent.groups.all().into_iter().filter(|group| group.id != GroupId::DIRECTORY) {
        let Some(master) = group.leadership.standing().borrow().master else { continue };
        *sight.led.entry(master).or_default() += 1;
        if !group.leadership.is_master() {
            continue;
        }
        let Some(led) = LedGroup::of(&agent.links, &group, known) else { continue };
        let seen = led.sight();
        let rests = next_step(&seen) == MembershipStep::Rest;
        let fit = led.now.keys().copied().filter(|node| {
            let other = *node != agent.links.node;
            rests && other && seen.could_lead(*node, |node| agent.links.is_linked(node))
        });
        let fit = fit.collect();
        sight.own.insert(group.id, fit);
    }
    sight
}

/// Ignores an error that a retry may mend, and logs any other.
pub(super) fn quietly(what: &str, done: Result<()>) {
    if let Err(error) = done {
        let passes = matches!(
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
        match passes {
            true => tracing::debug!(target: "node", %error, "{what}: later"),
            false => tracing::warn!(target: "node", %error, "{what}: tried again"),
        }
    }
}
