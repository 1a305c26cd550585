//! Replica of a group on a witness: it keeps the entries themselves instead of rows, as long as a
//! voter with data may lack them.
//!
//! A node that joined as a witness stays one, in every group but the directory, whose rows every
//! node needs. Its store holds for each other group the applied mark, the configuration in force,
//! and the kept entries by index. So the log may collapse as anybody's does, and the size of the
//! entries is known exactly. From [`WitnessLog::is_full`] on the master takes nothing new from
//! clients (`logic` tells it). Entries under way are still kept, up to a fixed excess, and none
//! beyond that.
//!
//! Promises: an entry that this node helped to decide is kept until every voter that holds the data
//! has it on disk.
//! Never: answers a read; gives a snapshot.

use super::group::Group;
use super::layout::{self, Mark};
use super::state::GroupState;
use super::witness_log::{WitnessLog, append_entry};
use base::limits::VALUE_BATCH_BYTES;
use base::{Error, LogIndex, Reason, Result};
use bytes::Bytes;
use logic::consensus::Event;
use runtime::log_writer::store_error;
use std::sync::MutexGuard;
use store::RowChange;

/// Maximum number of entries dropped in one turn.
const TURN_VALUES_MAX: usize = 1_024;

impl Group {
    /// Returns true if this node keeps no rows of the group.
    pub fn is_bare(&self) -> bool {
        self.witness_log.is_some()
    }

    /// Applies an entry as a witness does.
    pub(super) fn keep(&self, index: LogIndex, payload: &Bytes) -> Result<Mark> {
        let is_needed = index > self.state().replica.kept();
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

    /// Drops entries that all members with data have by now, some each turn. Returns true if there
    /// are more.
    pub(super) fn let_go(&self) -> Result<bool> {
        if !self.is_bare() {
            return Ok(false);
        }
        let kept = self.state().replica.kept();
        self.let_go_upto(kept, TURN_VALUES_MAX)
    }

    /// Drops all entries: a bare mark replaced what was missed, and the entries no longer lead up
    /// to it.
    pub(super) fn let_go_all(&self) -> Result<()> {
        self.let_go_upto(LogIndex(u64::MAX), usize::MAX).map(|_| ())
    }

    fn let_go_upto(&self, upto: LogIndex, most: usize) -> Result<bool> {
        let Some(mut witness_log) = self.witness_log() else { return Ok(false) };
        let mut gone = Vec::new();
        while gone.len() < most && witness_log.first <= upto {
            let Some(bytes) = witness_log.sizes.pop_front() else { break };
            gone.push(RowChange::Remove(layout::kept_key(self.id, witness_log.first)));
            witness_log.bytes -= u64::from(bytes);
            witness_log.first = witness_log.first.next();
        }
        let more = witness_log.first <= upto && !witness_log.sizes.is_empty();
        let full = witness_log.is_full();
        let news = std::mem::replace(&mut witness_log.told_full, full) != full;
        // Out of the list before they leave the store: no reader looks for one that is being
        // removed.
        drop(witness_log);
        let any = !gone.is_empty();
        if any {
            self.shared.trees.apply(&mut gone.into_iter()).map_err(store_error)?;
        }
        if any || news {
            let mut guard = self.state();
            let state = &mut *guard;
            let floor = self.floor(state);
            self.step(state, Event::Collapsed { upto: floor }, &[]);
            self.step(state, Event::Full { full }, &[]);
        }
        Ok(more)
    }

    /// Last index whose entry is gone.
    pub(super) fn floor(&self, state: &GroupState) -> LogIndex {
        let logged = state.entries.floor();
        match self.witness_log() {
            Some(witness_log) if !witness_log.sizes.is_empty() => {
                logged.min(LogIndex(witness_log.first.0.saturating_sub(1)))
            }
            _ => logged,
        }
    }

    /// Kept entries behind `after`, as many as go into one message; none: they are not kept here.
    pub(super) fn kept_values(&self, after: LogIndex, upto: LogIndex) -> Result<Vec<Bytes>> {
        let Some(witness_log) = self.witness_log() else { return Ok(Vec::new()) };
        let (mut entries, mut bytes, mut index) = (Vec::new(), 0, after.next());
        while index <= upto && bytes < VALUE_BATCH_BYTES && witness_log.holds(index) {
            let key = layout::kept_key(self.id, index);
            let Some(entry) = self.shared.trees.get(&key).map_err(store_error)? else { break };
            bytes += entry.len();
            entries.push(entry);
            index = index.next();
        }
        Ok(entries)
    }

    /// Checks that new updates can be taken from clients. `OutOfSpace`: a witness keeps all it may.
    pub fn witness_has_room(&self, state: &GroupState) -> Result<()> {
        let Some(witness) = state.replica.waits_for() else { return Ok(()) };
        let text = format!(
            "the witness {witness} of group {} keeps all it may (its log_bytes_max) for a voter \
             that is away: start that one, or `credenza cluster replace` it",
            self.id
        );
        Err(Error::new(Reason::OutOfSpace, text))
    }
}
