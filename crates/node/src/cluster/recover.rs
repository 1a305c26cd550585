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

use crate::recovery::{Recovered, recover};
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
use replication::entry::read_entry;
use replication::layout::{StoredRow, row_key};
use replication::pending_entry::PendingEntry;
use replication::records;
use replication::recovered::RecoveredGroup;
use replication::seals::OWN;
use runtime::log_writer::{record, store_error};
use store::Log;

/// Data that a stopped member has.
#[derive(Clone, Debug)]
pub struct Remains {
    /// The cluster's id.
    pub cluster: ClusterId,
    /// The member's id.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Groups of which it has data.
    pub groups: Vec<GroupRemains>,
    /// Groups of which it has none.
    pub absent: Vec<GroupId>,
    /// Data of available buckets. `None`: it knows no ring.
    pub ring: Option<RingRemains>,
}

/// Data of available buckets that a stopped member has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRemains {
    /// Number of partitions.
    pub partitions: u32,
    /// Number of partitions of which it has a copy. Of the others it has only hints.
    pub copied: u32,
    /// Number of members that keep a part of the ring, without this one.
    pub others: u32,
}

/// Data of one group that a stopped member has. Of two members the one whose log was accepted under
/// the higher ballot has more; under the same ballot, the one with the longer log.
#[derive(Clone, Debug)]
pub struct GroupRemains {
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

impl Remains {
    /// Examines the data. Changes nothing beyond what a start changes. Blocking.
    pub fn look(settings: &NodeSettings) -> Result<Remains> {
        let (known, found) = open(settings)?;
        Remains::of(&known, &found)
    }

    fn of(known: &ClusterDescription, found: &Recovered) -> Result<Remains> {
        let node = NodeId(found.directory.node);
        let name = |node: NodeId| {
            known
                .member(node)
                .map_or_else(|| format!("{:016x}", node.0), |known| known.name.clone())
        };
        let here = found.groups.iter().filter_map(|group| {
            let replica = &group.replica;
            Some(GroupRemains {
                group: group.id,
                part: part_of(group, node)?,
                voters: replica.configuration().voters().map(name).collect(),
                ballot: replica.accepted_ballot(),
                last: replica.last(),
                decided: replica.decided(),
                applied: LogIndex(group.mark.applied),
            })
        });
        let groups: Vec<_> = here.collect();
        let is_here = |id: GroupId| groups.iter().any(|group| group.group == id);
        let placed = known.groups.iter().map(|placement| placement.group);
        let absent = placed.filter(|id| !is_here(*id)).collect();
        let ring = ring_of(found)?.map(|ring| RingRemains {
            partitions: ring.partitions(),
            copied: ring.copied_at(node).count() as u32,
            others: ring.layout().nodes().keys().filter(|other| **other != node).count() as u32,
        });
        Ok(Remains { cluster: known.cluster, node, name: name(node), groups, absent, ring })
    }

    /// Makes this member the only one of a new cluster, with everything it has.
    pub async fn take_over(settings: NodeSettings) -> Result<Remains> {
        let (remains, alone) = cut_off(settings).await?;
        let node = Node::start(alone).await?;
        let groups: Vec<_> = remains.groups.iter().map(|group| group.group).collect();
        let super::ClusterAgent { directory, data, .. } = &*node.cluster;
        let settled = directory.survive(remains.node, &groups).await;
        let written = settled.and_then(|()| {
            let data = data.get();
            let known = directory.catalog.cluster();
            data.as_ref().map_or(Ok(()), |data| data.write_members(&known).map_err(store_error))
        });
        node.stop().await?;
        written.map(|()| remains)
    }
}

/// Takes over, offline. Returns the settings with which the node starts: alone it needs no peers,
/// and none may reach it yet.
pub(crate) async fn cut_off(settings: NodeSettings) -> Result<(Remains, NodeSettings)> {
    let (again, offline) = (settings.clone(), move || take(&settings));
    let taken = tokio::task::spawn_blocking(offline).await;
    let (remains, lease_ms) =
        taken.unwrap_or_else(|_| Err(Error::new(Reason::StoreFailed, "it broke off")))?;
    let name = remains.name.clone();
    Ok((remains, NodeSettings { peers: None, name, lease_ms, ..again }))
}

/// The ring, as it is applied here.
fn ring_of(found: &Recovered) -> Result<Option<Ring>> {
    let mut key = Vec::new();
    row_key(GroupId::DIRECTORY, OWN, RING, &mut key);
    let Some(row) = found.trees.snapshot().get(&key).map_err(store_error)? else {
        return Ok(None);
    };
    let row = StoredRow::read(&row).map_err(corrupt)?;
    read_ring(&row.value).map(Some)
}

/// Returns the node's part in force in a group of which it has data. `None`: it has none.
fn part_of(group: &RecoveredGroup, node: NodeId) -> Option<Part> {
    group.replica.configuration().part(node)
}

fn open(settings: &NodeSettings) -> Result<(ClusterDescription, Recovered)> {
    let found = recover(settings, None)?;
    let known = found.directory.members().map_err(store_error)?;
    let known = known.ok_or_else(|| {
        let text = "this node never knew others: nothing of it is anywhere else";
        Error::new(Reason::Changed, text)
    })?;
    Ok((known, found))
}

fn take(settings: &NodeSettings) -> Result<(Remains, u64)> {
    let (known, mut found) = open(settings)?;
    let remains = Remains::of(&known, &found)?;
    if found.witness {
        let text = "this member is a witness: it holds no rows to go on with. Recover one that \
                    holds the data";
        return Err(Error::new(Reason::NotSupported, text));
    }
    if remains.groups.iter().all(|group| group.group != GroupId::DIRECTORY) {
        let text = "this member has no part in the directory (group 0): recover another";
        return Err(Error::new(Reason::NotSupported, text));
    }
    let left = known.members.iter().filter(|member| member.node == remains.node).cloned();
    let alone = ClusterDescription { members: left.collect(), ..known.clone() };
    // Before the logs: from here on no lost member is accepted, even if this breaks off.
    let cluster = found.directory.refound(&alone).map_err(store_error)?;
    for group in &found.groups {
        if part_of(group, remains.node).is_some() {
            seal(&mut found.log, group, remains.node)?;
        }
    }
    let Recovered { log, .. } = found;
    log.close().map_err(store_error)?;
    Ok((Remains { cluster: ClusterId(cluster), ..remains }, known.lease_ms))
}

/// Decides all accepted entries, and behind them a stop-sign with this node as the only member.
fn seal(log: &mut Log, group: &RecoveredGroup, node: NodeId) -> Result<()> {
    let replica = &group.replica;
    let mut id = replica.configuration().id();
    let (mut time, mut next_version) = (group.mark.time, group.mark.next_version);
    for payload in group.tail.values() {
        let (head, _) = read_entry(payload).map_err(corrupt)?;
        (time, next_version) = (head.time, head.first_version + u64::from(head.updates));
        id = head.sign.map_or(id, |sign| sign.id());
    }
    let members = replica.configuration().members();
    // An earlier attempt came this far.
    if group.tail.is_empty() && members.len() == 1 {
        return Ok(());
    }
    let alone = Configuration::alone(ConfigurationId(id.0 + 1), node);
    let alone = alone.map_err(|error| Error::new(Reason::Corrupt, error.to_string()))?;
    let (last, index) = (replica.last(), replica.last().next());
    let ballot = replica.promised().max(Ballot { round: 1, node });
    let sign = PendingEntry::sign(index, time, next_version, alone).close();
    let accepted = records::accept(group.id, ballot, index, last, sign, true);
    for job in [accepted, records::decided(group.id, index, true)] {
        log.append(&record(&job)).map_err(store_error)?;
    }
    log.commit(true).map(|_| ()).map_err(store_error)
}
