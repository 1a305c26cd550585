//! Recovery from the permanent loss of a majority: shows the data of a stopped member, and makes it
//! the only member.
//!
//! No majority agrees on this, so a person decides it, knowing that entries may be lost which the
//! lost members decided and this one never got. Everything that it has accepted is kept, because
//! any of it may have been acknowledged: behind it a stop-sign goes into the log, with this node as
//! the only voter, and both count as decided. So the next start applies them as usual.
//!
//! The directory gets a new cluster id first: from then on no node with the old id is accepted, not
//! even a majority of the lost ones that comes back after all. After an interruption the command is
//! repeated, and continues.
//!
//! The node then keeps the whole ring of available buckets, with the copies that it has. Of
//! partitions that only the lost ones kept, only its hints are left.
//!
//! Promises: everything that this node has accepted is kept; the members left behind are refused.
//! Never: runs beside a serving node (the directory's lock); chooses the survivor.

use crate::{Node, NodeSettings};
use base::error::corrupt;
use base::{
    Ballot, ClusterDescription, ClusterId, ConfigurationId, Error, GroupId, LogIndex, NodeId, Part,
    Reason, Result,
};
use logic::consensus::Configuration;
use logic::ring::Ring;
use metadata::read_ring;
use metadata::rows::RING;
use replica_host::recovery::{Recovered, recover};
use replica_state::entry::read_entry;
use replica_state::layout::{StoredRow, row_key};
use replica_state::pending_entry::PendingEntry;
use replication::records;
use replication::recovered::RecoveredGroup;
use replication::seals::BOOKKEEPING_BUCKET;
use runtime::log_writer::{record, store_error};
use store::Log;

/// Data that a stopped member has.
#[derive(Clone, Debug)]
pub struct SurvivingData {
    /// The cluster's id.
    pub cluster: ClusterId,
    /// The member's id.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Groups of which it has data.
    pub groups: Vec<SurvivingGroup>,
    /// Groups of which it has none.
    pub absent: Vec<GroupId>,
    /// Data of available buckets. `None`: it knows no ring.
    pub ring: Option<SurvivingRing>,
}

/// Data of available buckets that a stopped member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SurvivingRing {
    /// Number of partitions.
    pub partitions: u32,
    /// Number of partitions of which it has a copy. Of the others it has only hints.
    pub copied_partitions: u32,
    /// Number of members that keep a part of the ring, without this one.
    pub other_members: u32,
}

/// Data of one group that a stopped member has. Of two members the one whose log was accepted under
/// the higher ballot has more; under the same ballot, the one with the longer log.
#[derive(Clone, Debug)]
pub struct SurvivingGroup {
    /// Id of the group.
    pub group: GroupId,
    /// Part of the member in the group.
    pub part: Part,
    /// Names of the voters, including this one.
    pub voters: Vec<String>,
    /// Ballot under which its log was accepted.
    pub ballot: Ballot,
    /// Index of the last entry that it has.
    pub last: LogIndex,
    /// The last value it knows to be decided.
    pub decided: LogIndex,
    /// The last value its store has applied.
    pub applied: LogIndex,
}

impl SurvivingData {
    /// Examines the data. Changes nothing beyond what a start changes. Blocking.
    pub fn inspect(settings: &NodeSettings) -> Result<SurvivingData> {
        let (cluster, recovered) = open(settings)?;
        SurvivingData::of(&cluster, &recovered)
    }

    fn of(cluster: &ClusterDescription, recovered: &Recovered) -> Result<SurvivingData> {
        let node = NodeId(recovered.directory.node);
        let name = |node: NodeId| {
            cluster
                .member(node)
                .map_or_else(|| format!("{:016x}", node.0), |member| member.name.clone())
        };
        let local_groups = recovered.groups.iter().filter_map(|group| {
            let replica = &group.replica;
            Some(SurvivingGroup {
                group: group.id,
                part: part_of(group, node)?,
                voters: replica.configuration().voters().map(name).collect(),
                ballot: replica.accepted_ballot(),
                last: replica.last(),
                decided: replica.decided(),
                applied: LogIndex(group.mark.applied),
            })
        });
        let groups: Vec<_> = local_groups.collect();
        let is_local = |id: GroupId| groups.iter().any(|group| group.group == id);
        let placed = cluster.groups.iter().map(|placement| placement.group);
        let absent = placed.filter(|id| !is_local(*id)).collect();
        let ring = applied_ring(recovered)?.map(|ring| SurvivingRing {
            partitions: ring.partitions(),
            copied_partitions: ring.copied_partitions(node).count() as u32,
            other_members: ring.layout().nodes().keys().filter(|other| **other != node).count()
                as u32,
        });
        Ok(SurvivingData { cluster: cluster.cluster, node, name: name(node), groups, absent, ring })
    }

    /// Makes this member the only one of a new cluster, with everything it has.
    pub async fn recover(settings: NodeSettings) -> Result<SurvivingData> {
        let (surviving_data, sole_settings) = isolate(settings).await?;
        let node = Node::start(sole_settings).await?;
        let groups: Vec<_> = surviving_data.groups.iter().map(|group| group.group).collect();
        let super::ClusterAgent { directory, data, .. } = &*node.cluster;
        let reduced = directory.reduce_to(surviving_data.node, &groups).await;
        let stored = reduced.and_then(|()| {
            let data = data.get();
            let cluster = directory.catalog.cluster();
            data.as_ref().map_or(Ok(()), |data| data.write_members(&cluster).map_err(store_error))
        });
        node.stop().await?;
        stored.map(|()| surviving_data)
    }
}

/// Takes over while no node runs. Returns the settings with which the node starts: without peers,
/// because no other node may connect yet.
pub(crate) async fn isolate(settings: NodeSettings) -> Result<(SurvivingData, NodeSettings)> {
    let (restart_settings, work) = (settings.clone(), move || take_over_offline(&settings));
    let result = tokio::task::spawn_blocking(work).await;
    let (surviving_data, lease_ms) = result.unwrap_or_else(|_| {
        Err(Error::new(Reason::StoreFailed, "the recovery ended abnormally"))
    })?;
    let name = surviving_data.name.clone();
    Ok((surviving_data, NodeSettings { peers: None, name, lease_ms, ..restart_settings }))
}

/// Returns the ring by the applied rows.
fn applied_ring(recovered: &Recovered) -> Result<Option<Ring>> {
    let mut key = Vec::new();
    row_key(GroupId::DIRECTORY, BOOKKEEPING_BUCKET, RING, &mut key);
    let Some(row) = recovered.trees.snapshot().get(&key).map_err(store_error)? else {
        return Ok(None);
    };
    let row = StoredRow::read(&row).map_err(corrupt)?;
    read_ring(&row.value).map(Some)
}

/// Returns the node's part in the configuration in force. `None`: it has none.
fn part_of(group: &RecoveredGroup, node: NodeId) -> Option<Part> {
    group.replica.configuration().part(node)
}

fn open(settings: &NodeSettings) -> Result<(ClusterDescription, Recovered)> {
    let recovered = recover(&settings.host(), None)?;
    let cluster = recovered.directory.members().map_err(store_error)?;
    let cluster = cluster.ok_or_else(|| {
        let text = "this node was never a member of a larger cluster: there is nothing to recover";
        Error::new(Reason::Changed, text)
    })?;
    Ok((cluster, recovered))
}

fn take_over_offline(settings: &NodeSettings) -> Result<(SurvivingData, u64)> {
    let (cluster, mut recovered) = open(settings)?;
    let surviving_data = SurvivingData::of(&cluster, &recovered)?;
    if recovered.is_witness {
        let text = "this member is a witness and has no rows: recover a member that holds the data";
        return Err(Error::new(Reason::NotSupported, text));
    }
    if surviving_data.groups.iter().all(|group| group.group != GroupId::DIRECTORY) {
        let text = "this member has no part in the directory (group 0): recover another";
        return Err(Error::new(Reason::NotSupported, text));
    }
    let own = cluster.members.iter().filter(|member| member.node == surviving_data.node).cloned();
    let sole_member = ClusterDescription { members: own.collect(), ..cluster.clone() };
    // Before the logs: from here on no lost member is accepted, even after an interruption.
    let new_cluster = recovered.directory.found_new_cluster(&sole_member).map_err(store_error)?;
    for group in &recovered.groups {
        if part_of(group, surviving_data.node).is_some() {
            decide_as_sole_member(&mut recovered.log, group, surviving_data.node)?;
        }
    }
    let Recovered { log, .. } = recovered;
    log.close().map_err(store_error)?;
    Ok((SurvivingData { cluster: ClusterId(new_cluster), ..surviving_data }, cluster.lease_ms))
}

/// Decides all accepted entries, and after them a stop-sign with this node as the sole member.
fn decide_as_sole_member(log: &mut Log, group: &RecoveredGroup, node: NodeId) -> Result<()> {
    let replica = &group.replica;
    let mut id = replica.configuration().id();
    let (mut time, mut next_version) = (group.mark.time, group.mark.next_version);
    for payload in group.tail.values() {
        let (head, _) = read_entry(payload).map_err(corrupt)?;
        (time, next_version) = (head.time, head.first_version + u64::from(head.updates));
        id = head.sign.map_or(id, |sign| sign.id());
    }
    let members = replica.configuration().members();
    // An earlier attempt was interrupted after this step.
    if group.tail.is_empty() && members.len() == 1 {
        return Ok(());
    }
    let configuration = Configuration::single_member(ConfigurationId(id.0 + 1), node);
    let configuration =
        configuration.map_err(|error| Error::new(Reason::Corrupt, error.to_string()))?;
    let (last, index) = (replica.last(), replica.last().next());
    let ballot = replica.promised().max(Ballot { round: 1, node });
    let sign = PendingEntry::sign(index, time, next_version, configuration).close();
    let accepted = records::accept(group.id, ballot, index, last, sign, true);
    for append in [accepted, records::decided(group.id, index, true)] {
        log.append(&record(&append)).map_err(store_error)?;
    }
    log.commit(true).map(|_| ()).map_err(store_error)
}
