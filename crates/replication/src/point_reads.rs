//! Point reads: the rows of several keys, read in one call of the store and lent to the caller; and
//! the row of one key, if it is in memory.
//!
//! Promises: each value is what `read.rs` returns for the key, read in the order of the keys; an
//! unreadable row fails alone.

use super::group::Group;
use crate::bucket::Bucket;
use base::error::corrupt;
use base::{Body, LogIndex, Reply, Result};
use bytes::Bytes;
use replica_state::layout::{self, ROW_PREFIX_BYTES, RowView, StoredRow};
use runtime::log_writer::store_error;

/// Number of keys for which the store is called once.
const KEYS_AT_ONCE: usize = 16;
/// Bytes of keys that are expected in one such call.
const KEY_BYTES_EXPECTED: usize = 48;

/// Value of a row, lent by the store until the visitor returns.
#[derive(Clone, Copy, Debug)]
pub struct LentValue<'a> {
    row: &'a Bytes,
    value: &'a [u8],
}

impl LentValue<'_> {
    /// Returns the bytes of the value.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.value
    }

    /// Returns the value in the buffer that it lies in, to keep it.
    pub fn share(&self) -> Bytes {
        self.row.slice_ref(self.value)
    }
}

/// Visitor of the values that [`get_each`] reads: called once for each key, in their order.
/// `None`: there is no row. It returns false to end the call, and must not call the group.
pub type LentValueVisitor<'a> = dyn FnMut(Result<Option<LentValue<'_>>>) -> bool + 'a;

/// Reads the applied rows of these keys, one after the other. Returns an index at or above that of
/// every row. The caller checks before and after that this node may answer.
pub fn get_each(
    group: &Group,
    bucket: &Bucket,
    keys: &[&[u8]],
    visit: &mut LentValueVisitor<'_>,
) -> LogIndex {
    let mut tree_keys = Vec::with_capacity(KEYS_AT_ONCE.min(keys.len()) * KEY_BYTES_EXPECTED);
    let mut prefix = Vec::with_capacity(ROW_PREFIX_BYTES);
    layout::row_key(group.id, bucket.id, &[], &mut prefix);
    for keys in keys.chunks(KEYS_AT_ONCE) {
        tree_keys.clear();
        let mut ends = [0; KEYS_AT_ONCE];
        for (end, key) in ends.iter_mut().zip(keys) {
            tree_keys.extend_from_slice(&prefix);
            tree_keys.extend_from_slice(key);
            *end = tree_keys.len();
        }
        let mut parts: [&[u8]; KEYS_AT_ONCE] = [&[]; KEYS_AT_ONCE];
        let mut begin = 0;
        for (part, end) in parts.iter_mut().zip(&ends[..keys.len()]) {
            *part = &tree_keys[begin..*end];
            begin = *end;
        }
        // Before the rows, as for a single read.
        let now = group.applied.time();
        let mut goes_on = true;
        group.shared.trees.get_each(&parts[..keys.len()], &mut |row| {
            goes_on = visit(row.map_err(store_error).and_then(|row| lend_unexpired(row, now)));
            goes_on
        });
        if !goes_on {
            break;
        }
    }
    group.applied.visible_index()
}

/// Reads the applied row of a key like `read.rs`, if it is in memory. `None`: it may be on disk.
pub fn get_in_memory(group: &Group, bucket: &Bucket, key: &[u8]) -> Option<Result<Reply>> {
    let mut tree_key = Vec::with_capacity(ROW_PREFIX_BYTES + key.len());
    layout::row_key(group.id, bucket.id, key, &mut tree_key);
    // Before the row, as for any read.
    let now = group.applied.time();
    let row = group.shared.trees.get_in_memory(&tree_key)?;
    let index = group.applied.visible_index();
    let row = row.as_ref().map(StoredRow::read).transpose().map_err(corrupt);
    let visible = row.map(|row| row.filter(|row| !row.is_expired(now)));
    Some(visible.map(|row| Reply::new(index, Body::Row(row.map(|row| row.into_row(now))))))
}

/// Decodes a row. `None`: there is none, or it has expired by this group time.
fn lend_unexpired(row: Option<&Bytes>, now: u64) -> Result<Option<LentValue<'_>>> {
    let Some(row) = row else { return Ok(None) };
    let RowView { expires, value, .. } = RowView::read(row).map_err(corrupt)?;
    let is_expired = expires.is_some_and(|expires| expires <= now);
    Ok((!is_expired).then_some(LentValue { row, value }))
}
