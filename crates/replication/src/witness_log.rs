//! Log of a witness: the entries that it keeps of a group in place of rows.

use super::shared::Shared;
use base::error::corrupt;
use base::limits::UNDECIDED_BYTES_MAX;
use base::{Error, GroupId, LogIndex, Reason, Result};
use bytes::Bytes;
use replica_state::entry::{EntryHead, read_entry};
use replica_state::layout::{self, Mark};
use runtime::log_writer::store_error;
use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Mutex;
use store::{RowChange, Trees};

/// Bytes that may arrive once a witness is full: those that the master had in flight.
const OVERFLOW_BYTES: u64 = 2 * UNDECIDED_BYTES_MAX as u64;

/// Entries that a witness keeps of one group: consecutive, up to the last applied one.
pub struct WitnessLog {
    /// Index of the first entry.
    pub(super) first: LogIndex,
    /// Size of each entry in bytes.
    pub(super) sizes: VecDeque<u32>,
    pub(super) bytes: u64,
    /// Number of bytes at which the witness is full.
    bytes_max: u64,
    /// True if the replica was last notified that the log is full.
    pub(super) reported_full: bool,
}

impl WitnessLog {
    /// Loads the entries from the store.
    pub fn load(group: GroupId, shared: &Shared) -> Result<Mutex<WitnessLog>> {
        let (empty, bytes_max) = (VecDeque::new(), shared.limits.kept_bytes_max);
        let mut witness_log = WitnessLog {
            first: LogIndex(0),
            sizes: empty,
            bytes: 0,
            bytes_max,
            reported_full: false,
        };
        let (low, high) =
            (layout::witness_entry_key(group, LogIndex(0)), layout::witness_entries_end(group));
        let snapshot = shared.trees.snapshot();
        for row in snapshot.range(Bound::Included(low), Bound::Excluded(high), false) {
            let (key, value) = row.map_err(store_error)?;
            let index = layout::read_witness_entry_key(&key).ok_or_else(|| {
                Error::new(Reason::Corrupt, format!("a kept value of group {group} has no index"))
            })?;
            witness_log.push(index, value.len());
        }
        Ok(Mutex::new(witness_log))
    }

    pub(super) fn push(&mut self, index: LogIndex, bytes: usize) {
        if self.sizes.is_empty() {
            self.first = index;
        }
        self.sizes.push_back(u32::try_from(bytes).unwrap_or(u32::MAX));
        self.bytes += bytes as u64;
    }

    pub(super) fn contains(&self, index: LogIndex) -> bool {
        let offset = index.0.checked_sub(self.first.0);
        offset.is_some_and(|offset| offset < self.sizes.len() as u64)
    }

    /// Number of bytes of the kept entries.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of entries that are kept.
    pub fn count(&self) -> usize {
        self.sizes.len()
    }

    /// Returns true if the log is full.
    pub fn is_full(&self) -> bool {
        self.bytes >= self.bytes_max
    }

    /// Returns true if the log exceeds its bound by more than the entries that may have been in
    /// flight when it became full.
    pub fn is_overflowing(&self) -> bool {
        self.bytes >= self.bytes_max.saturating_add(OVERFLOW_BYTES)
    }
}

/// Applies an entry to a witness's store: the mark, the configuration that it begins and, unless
/// all members with data have it, the entry itself.
pub fn append_entry(
    group: GroupId,
    trees: &dyn Trees,
    index: LogIndex,
    payload: &Bytes,
    is_needed: bool,
) -> Result<Mark> {
    let (EntryHead { time, first_version, updates, sign }, _) =
        read_entry(payload).map_err(corrupt)?;
    let mark = Mark { applied: index.0, time, next_version: first_version + u64::from(updates) };
    let kept =
        is_needed.then(|| RowChange::Put(layout::witness_entry_key(group, index), payload.clone()));
    let configured = sign.map(|configuration| {
        let mut key = Vec::new();
        layout::configuration_key(group, &mut key);
        RowChange::Put(key.into(), layout::write_configuration(index, &configuration))
    });
    let mut key = Vec::new();
    layout::mark_key(group, &mut key);
    let marked = RowChange::Put(key.into(), mark.write());
    let mut all = kept.into_iter().chain(configured).chain([marked]);
    trees.apply(&mut all).map_err(store_error)?;
    Ok(mark)
}
