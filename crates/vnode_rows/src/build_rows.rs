//! Pages of rows in the order of their tree keys, for builds of what is derived from rows.
//!
//! Promises: a page ends after a bounded number of rows, bytes and slots; pages that follow each
//! other have each row once that is there throughout.

use crate::layout::{bucket_prefix, row_tail, rows_prefix, slot_of};
use crate::slots::{SLOTS, Slot};
use base::range::prefix_end;
use base::{BucketName, Result};
use bytes::Bytes;
use runtime::log_writer::store_error;
use std::ops::Bound;
use store::Snapshot;

/// Maximum number of rows in a page, of their bytes, and of slots that are looked into for them;
/// one row may exceed the bytes.
const PAGE_ROWS_MAX: usize = 256;
const PAGE_BYTES_MAX: usize = 1 << 20;
const PAGE_SLOTS_MAX: u32 = 64;

/// Rows of a snapshot.
#[derive(Debug)]
pub struct BuildRows {
    /// Rows, each with its tree key.
    pub rows: Vec<(Bytes, Bytes)>,
    /// Tree key through which the rows are read, a row's or its place.
    pub cursor: Bytes,
    /// Cursor of the page before.
    pub after: Bytes,
    /// True if no row follows.
    pub is_last: bool,
    /// Number of bytes of the rows.
    pub bytes: usize,
}

/// Reads the rows of a bucket, or of all buckets, after a tree key. Empty: from the first.
pub fn read_build_rows(
    snapshot: &dyn Snapshot,
    bucket: Option<&BucketName>,
    after: Bytes,
) -> Result<BuildRows> {
    let first = slot_of(&after).map_or(0, |slot| slot.0);
    let mut page =
        BuildRows { rows: Vec::new(), cursor: after.clone(), after, is_last: false, bytes: 0 };
    for slot in (first..SLOTS).map(Slot) {
        if slot.0 >= first + PAGE_SLOTS_MAX {
            return Ok(page);
        }
        let prefix = bucket.map_or_else(|| rows_prefix(slot), |it| bucket_prefix(slot, it));
        let low = Bytes::from(prefix.clone());
        let low = match page.after > low {
            true => Bound::Excluded(page.after.clone()),
            false => Bound::Included(low),
        };
        for row in snapshot.range(low, Bound::Unbounded, false) {
            let (tree_key, row) = row.map_err(store_error)?;
            if !tree_key.starts_with(&prefix) {
                break;
            }
            page.bytes += row_tail(&tree_key).len() + row.len();
            page.cursor = tree_key.clone();
            page.rows.push((tree_key, row));
            if page.rows.len() == PAGE_ROWS_MAX || page.bytes >= PAGE_BYTES_MAX {
                return Ok(page);
            }
        }
        page.cursor = end_of_slot(slot, bucket);
    }
    page.is_last = true;
    Ok(page)
}

/// Returns a place behind all rows of a bucket in a slot, or of all buckets.
fn end_of_slot(slot: Slot, bucket: Option<&BucketName>) -> Bytes {
    let end = match bucket {
        Some(bucket) => prefix_end(&bucket_prefix(slot, bucket)),
        // No name is as long as these bytes say.
        None => Some([&rows_prefix(slot)[..], &[0xff; 2]].concat()),
    };
    end.unwrap_or_default().into()
}
