//! Repair of a member's log that has holes, in place, if nothing is lost for good.
//!
//! The log repeats now and then the state that must not be lost (`Housekeeper::request_log_heads`).
//! If that stands behind the damage, only entries can be missing. Entries that the store has
//! applied are not needed, and any other member that knows the rest to be decided returns them. So
//! several damaged members repair themselves as long as one sound member has what they lost. No
//! majority is needed, because nothing is decided. Source: Alagappan et al., *Protocol-Aware
//! Recovery for Consensus-Based Storage*, FAST 2018.
//!
//! Promises: the repaired log holds what it would hold without the damage.
//! Never: guesses; repairs anything for which the log does not vouch.

use super::replay::{LostEntries, RepairedEntries, replay, survey};
use super::{Opened, ReplayContext, data_dir_error, open};
use crate::settings::HostSettings;
use base::limits::MENDED_BYTES_MAX;
use base::{ClusterDescription, Error, GroupId, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use replication::records;
use replication::recovered::RecoveredGroup;
use runtime::log_writer::{Append, record, store_error};
use store::{DataDir, Hole, Log, Trees};
use vnode_rows::batch::log_head_record;

/// A log with holes, and the entries to fetch before its node can go on.
#[derive(Clone, Debug, Default)]
pub struct LogRepair {
    /// Client addresses of the other members.
    pub members: Vec<String>,
    holes: Vec<Hole>,
    lost: Vec<LostEntries>,
    fetched: RepairedEntries,
    bytes: usize,
}

impl LogRepair {
    /// Finds the entries that the node's log lost. Blocking; the node must not run.
    ///
    /// Errors: `Corrupt`, with the reason for which the log can't be repaired in place.
    pub fn scan(settings: &HostSettings) -> Result<LogRepair> {
        let data = DataDir::open(&settings.data_dir).map_err(data_dir_error)?;
        let cluster = data.members().map_err(store_error)?;
        let peer_clients =
            |cluster: &ClusterDescription| cluster.peer_client_addresses(NodeId(data.node));
        let members = cluster.as_ref().map(peer_clients).unwrap_or_default();
        let Opened { trees, log, records, context } = open(settings, &data, None, true)?;
        let (lost, holes) = survey(&log, records, &*trees, &context)?;
        Ok(LogRepair { members, holes, lost, ..LogRepair::default() })
    }

    /// Returns true if a repair makes sense: the log is damaged, and lost nothing, or other members
    /// may have it.
    pub fn is_possible(&self) -> bool {
        let is_lossless = self.lost.is_empty();
        !self.holes.is_empty() && (is_lossless || !self.members.is_empty())
    }

    /// Returns the next entry to fetch. `None`: all are here.
    pub fn next_missing(&self) -> Option<(GroupId, LogIndex)> {
        self.lost.iter().find_map(|LostEntries { group, first, last }| {
            let stored_entries = self.fetched.get(group);
            let is_missing = |index: &u64| {
                !stored_entries.is_some_and(|entries| entries.contains_key(&LogIndex(*index)))
            };
            (first.0..=last.0).find(is_missing).map(|index| (*group, LogIndex(index)))
        })
    }

    /// Takes an entry that a member reports as decided.
    ///
    /// Errors: `TooLarge` if so much was lost that the whole state should be fetched instead.
    pub fn add_entry(&mut self, (group, index): (GroupId, LogIndex), payload: Bytes) -> Result<()> {
        self.bytes += payload.len();
        if self.bytes > MENDED_BYTES_MAX {
            let text = format!(
                "the log lost more than {MENDED_BYTES_MAX} bytes of entries, too many to fetch"
            );
            return Err(Error::new(Reason::TooLarge, text));
        }
        self.fetched.entry(group).or_default().insert(index, payload);
        Ok(())
    }

    /// Writes everything that is needed of the log to a fresh segment, and drops what is before.
    /// Then the node starts as usual. Blocking. After a crash in its midst the repair is repeated.
    ///
    /// Errors: `Corrupt` if an entry is still to be fetched.
    pub fn repair(&self, settings: &HostSettings) -> Result<()> {
        let data = DataDir::open(&settings.data_dir).map_err(data_dir_error)?;
        let Opened { trees, mut log, records, context } = open(settings, &data, None, true)?;
        rewrite_log(&mut log, records, &*trees, &context, &self.fetched)?;
        log.close().map_err(store_error)?;
        data.clear_damage().map_err(store_error)
    }

    /// Number of lost entries that are still needed.
    pub fn lost_entries(&self) -> u64 {
        self.lost.iter().map(|lost| lost.last.0 + 1 - lost.first.0).sum()
    }

    /// Describes the damage: each file, with the offset of its first hole.
    pub fn damaged_places(&self) -> String {
        let describe_hole = |hole: &Hole| format!("{} at byte {}", hole.file, hole.offset);
        self.holes.iter().map(describe_hole).collect::<Vec<_>>().join(", ")
    }
}

/// Applies a log with holes and the entries that were fetched, and writes everything needed again
/// into a segment of its own. Drops what is before.
pub fn rewrite_log(
    log: &mut Log,
    records: store::Replay,
    trees: &dyn Trees,
    context: &ReplayContext,
    fetched: &RepairedEntries,
) -> Result<()> {
    let (groups, vnodes) = replay(log, records, trees, context, fetched)?;
    // Fetched entries stand nowhere else: from now on the store holds them.
    trees.rotate().map_err(store_error)?;
    trees.flush().map_err(store_error)?;
    // A segment of its own: everything before it, the damage with it, can go as whole segments.
    let start = log.begin_segment().map_err(store_error)?;
    let appends =
        groups.iter().flat_map(head_records).chain([log_head_record(vnodes.applied, true)]);
    for append in appends {
        log.append(&record(&append)).map_err(store_error)?;
    }
    log.commit(true).map_err(store_error)?;
    // Only after the sync: until then a repeated repair still finds the old segments.
    log.collapse(start).map_err(store_error)?;
    Ok(())
}

/// Returns the first records of a repaired log of a group: accepted entries that are not decided,
/// and the state that exists only in the log.
fn head_records(group: &RecoveredGroup) -> impl Iterator<Item = Append> {
    let (id, replica) = (group.id, &group.replica);
    let (ballot, decided) = (replica.accepted_ballot(), replica.decided());
    let accept = move |(index, payload): (&LogIndex, &Bytes)| {
        records::accept(id, ballot, *index, decided, payload.clone(), true)
    };
    group.tail.iter().map(accept).chain(records::LogHead::from_replica(replica).records(id, true))
}
