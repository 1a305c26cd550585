//! Replica of a group on a witness: it keeps the entries themselves instead of rows, as long as a
//! voter with data may lack them.
//!
//! A node that joined as a witness stays one, in every group but the directory, whose rows every
//! node needs. Its store holds for each other group the applied mark, the configuration in force,
//! and the kept entries by index. So the log may collapse as on any node, and the size of the
//! entries is known exactly. From [`WitnessLog::is_full`] on the master refuses updates of clients
//! (`logic` reports it). Entries in flight are still kept, up to a fixed excess, and none beyond
//! that.
//!
//! Promises: an entry that this node helped to decide is kept until every voter that holds the data
//! has it on disk.
//! Never: answers a read; sends a snapshot.

use super::group::Group;
use super::state::GroupState;
use super::witness_log::{WitnessLog, append_entry};
use base::limits::VALUE_BATCH_BYTES;
use base::{Error, LogIndex, Reason, Result};
use bytes::Bytes;
use logic::consensus::Event;
use replica_state::layout::{self, Mark};
use runtime::log_writer::store_error;
use std::sync::MutexGuard;
use store::RowChange;

/// Maximum number of entries dropped in one batch, of which a turn has one.
const BATCH_ENTRIES_MAX: usize = 1_024;

impl Group {
    /// Returns true if this node keeps no rows of the group.
    pub fn is_witness_replica(&self) -> bool {
        self.witness_log.is_some()
    }

    /// Applies an entry on a witness: stores the mark, and the entry itself while a member with
    /// data may lack it.
    pub(super) fn append_to_witness_log(&self, index: LogIndex, payload: &Bytes) -> Result<Mark> {
        let is_needed = index > self.state().replica.reported_saved_by_all();
        let mark = append_entry(self.id, &*self.shared.trees, index, payload, is_needed)?;
        if is_needed && let Some(mut witness_log) = self.witness_log() {
            witness_log.push(index, payload.len());
        }
        Ok(mark)
    }

    /// Returns the witness's log. `None`: this node holds the rows.
    pub fn witness_log(&self) -> Option<MutexGuard<'_, WitnessLog>> {
        let witness_log = self.witness_log.as_ref()?;
        Some(witness_log.lock().expect("no one panics while holding it"))
    }

    /// Drops entries that all members with data have saved, a bounded number in each turn. Returns
    /// true if there are more.
    pub(super) fn drop_saved_entries(&self) -> Result<bool> {
        if !self.is_witness_replica() {
            return Ok(false);
        }
        let saved_by_all = self.state().replica.reported_saved_by_all();
        self.drop_entries(saved_by_all, BATCH_ENTRIES_MAX)
    }

    /// Drops entries before a mark without rows replaces those that were missed: the entries no
    /// longer reach up to it. A bounded number at a time; returns true if there are more.
    pub(super) fn drop_replaced_entries(&self) -> Result<bool> {
        self.drop_entries(LogIndex(u64::MAX), BATCH_ENTRIES_MAX)
    }

    /// Drops entries up to `last`, at most `entries_max` of them, and reports it to the replica.
    /// Returns true if there are more.
    fn drop_entries(&self, last: LogIndex, entries_max: usize) -> Result<bool> {
        let Some(mut witness_log) = self.witness_log() else { return Ok(false) };
        let mut removals = Vec::new();
        while removals.len() < entries_max && witness_log.first <= last {
            let Some(bytes) = witness_log.sizes.pop_front() else { break };
            removals.push(RowChange::Remove(layout::witness_entry_key(self.id, witness_log.first)));
            witness_log.bytes -= u64::from(bytes);
            witness_log.first = witness_log.first.next();
        }
        let has_more = witness_log.first <= last && !witness_log.sizes.is_empty();
        let is_full = witness_log.is_full();
        let is_changed = std::mem::replace(&mut witness_log.reported_full, is_full) != is_full;
        // Removed from the list before they are removed from the store: no reader looks up an entry
        // that is being removed.
        drop(witness_log);
        let has_removals = !removals.is_empty();
        if has_removals {
            self.shared.trees.apply(&mut removals.into_iter()).map_err(store_error)?;
        }
        if has_removals || is_changed {
            let mut guard = self.state();
            let state = &mut *guard;
            let floor = self.floor(state);
            self.step(state, Event::LogTruncated { last: floor }, &[]);
            self.step(state, Event::WitnessFull { is_full }, &[]);
        }
        Ok(has_more)
    }

    /// Returns the last index whose entry is in neither the log, memory nor the witness log.
    pub(super) fn floor(&self, state: &GroupState) -> LogIndex {
        let logged = state.entries.floor();
        match self.witness_log() {
            Some(witness_log) if !witness_log.sizes.is_empty() => {
                logged.min(LogIndex(witness_log.first.0.saturating_sub(1)))
            }
            _ => logged,
        }
    }

    /// Returns entries of the witness log behind `after`, as many as fit one message. Empty: they
    /// are not here.
    pub(super) fn witness_entries(&self, after: LogIndex, last: LogIndex) -> Result<Vec<Bytes>> {
        let Some(witness_log) = self.witness_log() else { return Ok(Vec::new()) };
        let (mut entries, mut bytes, mut index) = (Vec::new(), 0, after.next());
        while index <= last && bytes < VALUE_BATCH_BYTES && witness_log.contains(index) {
            let key = layout::witness_entry_key(self.id, index);
            let Some(entry) = self.shared.trees.get(&key).map_err(store_error)? else { break };
            bytes += entry.len();
            entries.push(entry);
            index = index.next();
        }
        Ok(entries)
    }

    /// Checks that updates can be accepted from clients. `OutOfSpace`: a witness's log is full.
    pub fn witness_has_room(&self, state: &GroupState) -> Result<()> {
        let Some(witness) = state.replica.blocking_witness() else { return Ok(()) };
        let text = format!(
            "the witness {witness} of group {} has reached its log_bytes_max for a voter that is \
             unreachable: start that voter, or run `credenza cluster replace` for it",
            self.id
        );
        Err(Error::new(Reason::OutOfSpace, text))
    }
}
