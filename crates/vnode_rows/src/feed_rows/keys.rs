//! Keys of feed rows.
//!
//! ```text
//! FEED | 0 | length u16 BE | bucket | position     -> entry (entry.rs)
//! FEED | 1 | length u16 BE | bucket                -> record (record.rs)
//! FEED | 2 | peer u64 BE | first slot u16 BE | slots u16 BE | copies u8
//!          | position of the peer                  -> position of this node
//! FEED | 3                                         -> slots that came here (joined.rs)
//! position = life u32 BE | batch u64 BE | ordinal u32 BE
//! ```

use crate::layout::{NodeSpace, node_space_prefix};
use base::BucketName;
use base::codec::Malformed;
use base::range::prefix_end;
use bytes::Bytes;
use change_feed::{POSITION_KEY_BYTES, VnodePosition};
use std::ops::Bound;

/// Kinds of rows in the space of feeds.
const ENTRIES: u8 = 0;
const RECORDS: u8 = 1;
pub(super) const BRIDGES: u8 = 2;
const JOINED: u8 = 3;

/// Range of tree keys.
pub(super) type TreeKeyRange = (Bound<Bytes>, Bound<Bytes>);

fn prefix_of(kind: u8, full_name: &[u8], capacity: usize) -> Vec<u8> {
    let mut prefix = node_space_prefix(NodeSpace::Feed, kind);
    prefix.reserve(2 + full_name.len() + capacity);
    prefix.extend_from_slice(&(full_name.len() as u16).to_be_bytes());
    prefix.extend_from_slice(full_name);
    prefix
}

/// Returns the prefix of all entries of a bucket.
pub fn entries_prefix(bucket: &BucketName) -> Vec<u8> {
    prefix_of(ENTRIES, bucket.full().as_bytes(), 0)
}

/// Returns the tree key of an entry of the bucket with this full name.
pub fn entry_key(full_name: &[u8], position: VnodePosition) -> Bytes {
    let mut key = prefix_of(ENTRIES, full_name, POSITION_KEY_BYTES);
    key.extend_from_slice(&position.key_bytes());
    key.into()
}

/// Decodes the tree key of an entry: the bucket, and its position.
pub fn read_entry_key(tree_key: &[u8]) -> Result<(BucketName, VnodePosition), Malformed> {
    const KEY: Malformed = Malformed("the key of a feed entry");
    let (front, position) = tree_key.split_last_chunk().ok_or(KEY)?;
    Ok((read_name(ENTRIES, front, KEY)?, VnodePosition::from_key_bytes(position)))
}

/// Returns the position in the tree key of an entry.
pub(super) fn position_in(tree_key: &[u8]) -> Result<VnodePosition, Malformed> {
    let position = tree_key.last_chunk().ok_or(Malformed("the position of a feed entry"))?;
    Ok(VnodePosition::from_key_bytes(position))
}

/// Returns the range of a bucket's entries behind a position.
pub fn entries_behind(bucket: &BucketName, position: VnodePosition) -> TreeKeyRange {
    let low = entry_key(bucket.full().as_bytes(), position);
    (Bound::Excluded(low), end_of(&entries_prefix(bucket)))
}

/// Returns the tree key of the record of a bucket's feed.
pub fn feed_record_key(bucket: &BucketName) -> Bytes {
    prefix_of(RECORDS, bucket.full().as_bytes(), 0).into()
}

/// Decodes the tree key of a record.
pub fn read_feed_record_key(tree_key: &[u8]) -> Result<BucketName, Malformed> {
    read_name(RECORDS, tree_key, Malformed("the key of a feed's record"))
}

/// Returns the tree key of the slots that came to this node.
pub(super) fn joined_key() -> Bytes {
    node_space_prefix(NodeSpace::Feed, JOINED).into()
}

/// Returns the range of the records of all feeds.
pub(super) fn record_keys() -> TreeKeyRange {
    let prefix = node_space_prefix(NodeSpace::Feed, RECORDS);
    (Bound::Included(Bytes::from(prefix.clone())), end_of(&prefix))
}

pub(super) fn end_of(prefix: &[u8]) -> Bound<Bytes> {
    prefix_end(prefix).map_or(Bound::Unbounded, |end| Bound::Excluded(end.into()))
}

fn read_name(kind: u8, tree_key: &[u8], error: Malformed) -> Result<BucketName, Malformed> {
    let rest = tree_key.strip_prefix(&node_space_prefix(NodeSpace::Feed, kind)[..]);
    let (length, name) = rest.ok_or(error)?.split_first_chunk().ok_or(error)?;
    let is_whole = usize::from(u16::from_be_bytes(*length)) == name.len();
    let name = std::str::from_utf8(name).ok().filter(|_| is_whole).ok_or(error)?;
    BucketName::from_full(name).map_err(|_| error)
}
