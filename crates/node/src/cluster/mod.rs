//! Cluster membership of this node: the members that it knows, joining, its reports, and the steps
//! by which a group's master brings the group to its desired members.
//!
//! Promises: a node knows after a start the members that it knew last. Members only change by the
//! log: the desired ones stand in the directory, the present ones in each group's configuration.
//! Never: changes a group's members without a decided stop-sign.
//! Read next: `membership_controller.rs`, `reconcile.rs`, then `../metadata/members.rs` (what is
//! wanted).

#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod hand_over;
pub(crate) mod incarnations;
mod join;
mod led_group;
mod level_state;
mod master_lookup;
mod master_placement;
mod membership_controller;
mod reconcile;
pub(crate) mod recover;
mod rejoin;
mod report;
pub(crate) mod secret;
mod step;
mod view;

use crate::levels::LevelKeeper;
use crate::route::Router;
use crate::settings::NodeSettings;
use base::{
    ClusterDescription, ClusterId, Error, GroupId, JoinToken, LogIndex, MemberDescription,
    Membership, NodeId, Reason, Result,
};
pub(crate) use incarnations::OwnIncarnations;
pub use join::PendingJoin;
pub(crate) use master_lookup::{MemberCalls, on_member_call};
use membership_controller::Parts;
use metadata::Directory;
pub(crate) use reconcile::reconcile;
pub use recover::{SurvivingData, SurvivingGroup, SurvivingRing};
pub use rejoin::DamagedMember;
use replica_host::{DiskHealth, GroupHost, Groups, Lifecycle, OpenDataDir, PeerLinks};
use replication::group::Group;
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use std::sync::Arc;
use store::DataDir;
pub(crate) use view::ClusterView;
pub use view::{ClusterStatus, MemberStatus, PartStatus, PlaceStatus};

/// Returns the members by the file of the last run, and true if that file exists. Without the file
/// there are none: the node was always the sole member.
pub(crate) fn load_members(
    data: &DataDir,
    settings: &NodeSettings,
) -> Result<(ClusterDescription, bool)> {
    let description = data.members().map_err(store_error)?;
    let is_stored = description.is_some();
    let cluster = ClusterId(data.cluster);
    let no_members = || ClusterDescription { cluster, ..ClusterDescription::default() };
    let description = description.unwrap_or_else(no_members);
    check(&description, settings).map(|()| (description, is_stored))
}

/// Checks that a member of this cluster can start with these settings.
fn check(cluster: &ClusterDescription, settings: &NodeSettings) -> Result<()> {
    if cluster.members.len() < 2 {
        return Ok(());
    }
    let count = cluster.members.len();
    if settings.peers.is_none() {
        let text = format!(
            "this node is one of {count} members of a cluster: start it with --peer-listen ADDRESS"
        );
        return Err(Error::new(Reason::Malformed, text));
    }
    let (wanted, found) = (cluster.lease_ms, settings.lease_ms);
    if wanted != found {
        let text = format!("the cluster's lease is {wanted} ms: start with --lease-ms {wanted}");
        return Err(Error::new(Reason::Malformed, text));
    }
    Ok(())
}

/// Describes this node by its settings.
fn describe_member(settings: &NodeSettings, node: NodeId) -> MemberDescription {
    MemberDescription {
        node,
        name: settings.name.clone(),
        peer: settings.peers.as_ref().map_or_else(String::new, |place| place.advertise.clone()),
        client: settings.client_address.clone(),
        incarnation: 0,
        membership: Membership::Member,
    }
}

/// Returns each member's part in a group, by the configuration in force.
fn parts_of(group: &Group) -> Parts {
    let configuration = group.configuration();
    configuration.members().iter().map(|member| (member.node, member.part)).collect()
}

/// Returns the last saved index of each member of a group, as far as it is known here.
fn saved(group: &Group) -> BTreeMap<NodeId, LogIndex> {
    let progress = group.progress().into_iter();
    progress.filter_map(|progress| Some((progress.node, progress.saved?))).collect()
}

/// Cluster agent of a node: maintains its own member row, and the groups that it is master of.
pub(crate) struct ClusterAgent {
    pub settings: Arc<NodeSettings>,
    pub incarnations: OwnIncarnations,
    pub groups: Arc<Groups>,
    pub directory: Arc<Directory>,
    pub links: Arc<PeerLinks>,
    pub data: Arc<OpenDataDir>,
    pub disk: Arc<DiskHealth>,
    pub calls: Arc<MemberCalls>,
    pub host: Arc<GroupHost>,
    pub router: Arc<Router>,
    pub levels: Arc<LevelKeeper>,
    pub lifecycle: Arc<Lifecycle>,
}

impl ClusterAgent {
    /// Creates the rows that every cluster has, if they are absent, and fills the catalog.
    pub(crate) async fn found_cluster(&self) -> Result<()> {
        let founder = describe_member(&self.settings, self.links.node);
        let groups = [GroupId::DIRECTORY, GroupId::DEFAULT];
        let token = self.settings.join_token.as_ref().map(JoinToken::digest);
        self.directory.open(&founder, self.settings.lease_ms, &groups, token).await
    }
}
