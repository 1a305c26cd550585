//! A group's part on a witness: where others keep rows, it keeps the values themselves, as long as
//! a voter that holds the data may lack them.
//!
//! A node that joined as a witness is one for life, in every group but the directory, whose rows
//! every node needs. Its store holds for each other group the applied mark, the configuration in
//! force, and the kept values by index. So the log may collapse as anybody's does, and what is kept
//! is counted exactly. From [`Keeping::is_full`] on the master takes nothing new from clients
//! (`logic` tells it); what is under way then finds room, and nothing beyond that is taken at all.
//!
//! Promises: a value that this node helped to decide is kept until every voter that holds the data
//! has it on disk.
//! Never: answers a read; gives a snapshot.

use super::group::Group;
use super::keeping::{Keeping, keep_value};
use super::layout::{self, Mark};
use super::state::GroupState;
use base::limits::VALUE_BATCH_BYTES;
use base::{Error, LogIndex, Reason, Result};
use bytes::Bytes;
use logic::consensus::Event;
use runtime::log_writer::store_error;
use std::sync::MutexGuard;
use store::RowChange;

/// Values let go of in one turn.
const TURN_VALUES_MAX: usize = 1_024;

impl Group {
    /// Returns true if this node keeps no rows of the group.
    pub fn is_bare(&self) -> bool {
        self.keeping.is_some()
    }

    /// Applies a value as a witness does.
    pub(super) fn keep(&self, index: LogIndex, payload: &Bytes) -> Result<Mark> {
        let is_needed = index > self.state().replica.kept();
        let mark = keep_value(self.id, &*self.shared.trees, index, payload, is_needed)?;
        if is_needed && let Some(mut keeping) = self.keeping() {
            keeping.push(index, payload.len());
        }
        Ok(mark)
    }

    /// What this witness keeps; none: this node holds the rows.
    pub fn keeping(&self) -> Option<MutexGuard<'_, Keeping>> {
        let keeping = self.keeping.as_ref()?;
        Some(keeping.lock().expect("no one panics while holding it"))
    }

    /// Lets go of what all who hold the data have by now, a part of it each turn; `true`: there is
    /// more.
    pub(super) fn let_go(&self) -> Result<bool> {
        if !self.is_bare() {
            return Ok(false);
        }
        let kept = self.state().replica.kept();
        self.let_go_upto(kept, TURN_VALUES_MAX)
    }

    /// A bare mark took the place of what was missed: what is kept no longer leads up to it.
    pub(super) fn let_go_all(&self) -> Result<()> {
        self.let_go_upto(LogIndex(u64::MAX), usize::MAX).map(|_| ())
    }

    fn let_go_upto(&self, upto: LogIndex, most: usize) -> Result<bool> {
        let Some(mut keeping) = self.keeping() else { return Ok(false) };
        let mut gone = Vec::new();
        while gone.len() < most && keeping.first <= upto {
            let Some(bytes) = keeping.sizes.pop_front() else { break };
            gone.push(RowChange::Remove(layout::kept_key(self.id, keeping.first)));
            keeping.bytes -= u64::from(bytes);
            keeping.first = keeping.first.next();
        }
        let more = keeping.first <= upto && !keeping.sizes.is_empty();
        let full = keeping.is_full();
        let news = std::mem::replace(&mut keeping.told_full, full) != full;
        drop(keeping);
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

    /// The last index whose value can't be had any more.
    pub(super) fn floor(&self, state: &GroupState) -> LogIndex {
        let logged = state.values.floor();
        match self.keeping() {
            Some(keeping) if !keeping.sizes.is_empty() => {
                logged.min(LogIndex(keeping.first.0.saturating_sub(1)))
            }
            _ => logged,
        }
    }

    /// Kept values behind `after`, as many as go into one message; none: they are not kept here.
    pub(super) fn kept_values(&self, after: LogIndex, upto: LogIndex) -> Result<Vec<Bytes>> {
        let Some(keeping) = self.keeping() else { return Ok(Vec::new()) };
        let (mut values, mut bytes, mut index) = (Vec::new(), 0, after.next());
        while index <= upto && bytes < VALUE_BATCH_BYTES && keeping.holds(index) {
            let key = layout::kept_key(self.id, index);
            let Some(value) = self.shared.trees.get(&key).map_err(store_error)? else { break };
            bytes += value.len();
            values.push(value);
            index = index.next();
        }
        Ok(values)
    }

    /// Why nothing new can be taken from clients, where a witness keeps all it may.
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
