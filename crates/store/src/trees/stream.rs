//! All rows of one prefix in chunks of bounded size, from one snapshot.

use super::compaction::bounds_of;
use super::{Snapshot, TreeRow};
use crate::StoreError;
use bytes::Bytes;
use std::ops::Bound;

/// Some rows of a prefix, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chunk {
    /// The rows.
    pub rows: Vec<TreeRow>,
    /// Last key of this chunk, after which the next chunk continues. `None`: there are no more
    /// rows.
    pub more_after: Option<Bytes>,
}

impl Chunk {
    /// Reads rows under `prefix` behind the key `after` (`None`: from the first), up to `bytes_max`
    /// of keys and values. Returns one row at least, if there is one, however large.
    ///
    /// A chunk depends on nothing but the snapshot, so a receiver that lost it can have it read
    /// again. All chunks of one stream must come from one snapshot: its content belongs to one
    /// applied mark, which is read from it too.
    pub fn read(
        snapshot: &dyn Snapshot,
        prefix: &[u8],
        after: Option<&Bytes>,
        bytes_max: usize,
    ) -> Result<Chunk, StoreError> {
        let (first, high) = bounds_of(prefix);
        let low = match after {
            Some(key) if key.as_ref() >= prefix => Bound::Excluded(key.clone()),
            _ => first,
        };
        let mut chunk = Chunk::default();
        let mut bytes = 0;
        for row in snapshot.range(low, high, false) {
            let (key, value) = row?;
            bytes += key.len() + value.len();
            if bytes > bytes_max && !chunk.rows.is_empty() {
                chunk.more_after = chunk.rows.last().map(|(key, _)| key.clone());
                break;
            }
            chunk.rows.push((key, value));
        }
        Ok(chunk)
    }
}
