//! Repair of a member's log that has holes, in place, if nothing is lost for good.
//!
//! The log repeats now and then the state that must not be lost (`Housekeeper::state_again`). If
//! that stands behind the damage, only entries can be missing. Entries that the store has applied
//! are not needed, and any other member that knows the rest to be decided returns them. So several
//! damaged members repair themselves as long as one sound member has what they lost. No majority is
//! needed, because nothing is decided. Source: Alagappan et al., *Protocol-Aware Recovery for
//! Consensus-Based Storage*, FAST 2018.
//!
//! Promises: the repaired log holds what it would hold without the damage.
//! Never: guesses; repairs anything for which the log does not vouch.

use super::replay::{Lost, RepairedEntries, replay, survey};
use super::{Opened, Terms, open, unusable};
use crate::NodeSettings;
use base::limits::MENDED_BYTES_MAX;
use base::{ClusterDescription, Error, GroupId, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use dynamo::batch::last_batch;
use replication::records;
use replication::recovered::RecoveredGroup;
use runtime::log_writer::{Append, record, store_error};
use store::{DataDir, Hole, Log, Trees};

/// A log with holes, and the entries to fetch before its node can go on.
#[derive(Clone, Debug, Default)]
pub struct LogRepair {
    /// Client addresses of the other members.
    pub members: Vec<String>,
    holes: Vec<Hole>,
    lost: Vec<Lost>,
    found: RepairedEntries,
    bytes: usize,
}

impl LogRepair {
    /// Finds the entries that the node's log lost. Blocking; the node must not run.
    ///
    /// Errors: `Corrupt`, with the reason for which the log can't be repaired in place.
    pub fn look(settings: &NodeSettings) -> Result<LogRepair> {
        let data = DataDir::open(&settings.data_dir).map_err(unusable)?;
        let known = data.members().map_err(store_error)?;
        let others = |known: &ClusterDescription| known.clients_of_others(NodeId(data.node));
        let members = known.as_ref().map(others).unwrap_or_default();
        let Opened { trees, log, records, terms } = open(settings, &data, None, true)?;
        let (lost, holes) = survey(&log, records, &*trees, &terms)?;
        Ok(LogRepair { members, holes, lost, ..LogRepair::default() })
    }

    /// Returns true if a repair makes sense: the log is damaged, and lost nothing, or other members
    /// may have it.
    pub fn is_of_use(&self) -> bool {
        let nothing = self.lost.is_empty();
        !self.holes.is_empty() && (nothing || !self.members.is_empty())
    }

    /// Returns the next entry to fetch. `None`: all are here.
    pub fn next(&self) -> Option<(GroupId, LogIndex)> {
        self.lost.iter().find_map(|Lost { group, first, last }| {
            let found = self.found.get(group);
            let lacks = |index: &u64| !found.is_some_and(|it| it.contains_key(&LogIndex(*index)));
            (first.0..=last.0).find(lacks).map(|index| (*group, LogIndex(index)))
        })
    }

    /// Takes an entry that a member reports as decided.
    ///
    /// Errors: `TooLarge` if so much was lost that the whole state should be fetched instead.
    pub fn take(&mut self, (group, index): (GroupId, LogIndex), value: Bytes) -> Result<()> {
        self.bytes += value.len();
        if self.bytes > MENDED_BYTES_MAX {
            let text = format!("more than {MENDED_BYTES_MAX} bytes of the log are lost");
            return Err(Error::new(Reason::TooLarge, text));
        }
        self.found.entry(group).or_default().insert(index, value);
        Ok(())
    }

    /// Writes everything that is needed of the log to a fresh segment, and drops what is before.
    /// Then the node starts as usual. Blocking. After a crash in its midst the repair is repeated.
    ///
    /// Errors: `Corrupt` if an entry is still to be fetched.
    pub fn mend(&self, settings: &NodeSettings) -> Result<()> {
        let data = DataDir::open(&settings.data_dir).map_err(unusable)?;
        let Opened { trees, mut log, records, terms } = open(settings, &data, None, true)?;
        write_anew(&mut log, records, &*trees, &terms, &self.found)?;
        log.close().map_err(store_error)?;
        data.forget_damage().map_err(store_error)
    }

    /// Number of lost entries that are still needed.
    pub fn values(&self) -> u64 {
        self.lost.iter().map(|lost| lost.last.0 + 1 - lost.first.0).sum()
    }

    /// Describes the damage: each file, with the offset of its first hole.
    pub fn places(&self) -> String {
        let place = |hole: &Hole| format!("{} at byte {}", hole.file, hole.offset);
        self.holes.iter().map(place).collect::<Vec<_>>().join(", ")
    }
}

/// Applies a log with holes and the entries that were fetched, and writes everything needed again
/// into a segment of its own. Drops what is before.
pub(crate) fn write_anew(
    log: &mut Log,
    records: store::Replay,
    trees: &dyn Trees,
    terms: &Terms,
    found: &RepairedEntries,
) -> Result<()> {
    let (groups, vnodes) = replay(log, records, trees, terms, found)?;
    // Fetched entries stand nowhere else: from now on the store holds them.
    trees.rotate().map_err(store_error)?;
    trees.flush().map_err(store_error)?;
    // A segment of its own: everything before it, the damage with it, can go as whole segments.
    let start = log.begin_segment().map_err(store_error)?;
    let jobs = groups.iter().flat_map(again).chain([last_batch(vnodes.applied, true)]);
    for job in jobs {
        log.append(&record(&job)).map_err(store_error)?;
    }
    log.commit(true).map_err(store_error)?;
    // Only after the sync: until then a repeated repair still finds the old segments.
    log.collapse(start).map_err(store_error)?;
    Ok(())
}

/// Returns the first records of a group's log: entries that are accepted and not decided, and the
/// state that exists only in the log.
fn again(group: &RecoveredGroup) -> impl Iterator<Item = Append> {
    let (id, replica) = (group.id, &group.replica);
    let (ballot, decided) = (replica.accepted_ballot(), replica.decided());
    let accept = move |(index, value): (&LogIndex, &Bytes)| {
        records::accept(id, ballot, *index, decided, value.clone(), true)
    };
    group.tail.iter().map(accept).chain(records::LogHead::of(replica).records(id, true))
}
