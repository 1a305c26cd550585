//! Comparison of a group's replicas, in the background: all of them must hold the same rows.
//!
//! Replicas apply the same entries in the same order, so at one index their stores must be equal.
//! The master puts a *marker* into an entry. Each replica that applies the entry opens a snapshot
//! of its store right then, before the next entry. So all compare the state at the same index of
//! the log, and none waits. The master then reads its rows piece by piece, and requests from the
//! others the digest of the same range of keys. If one differs, the range is halved until it holds
//! one row of the master's. A snapshot keeps files from being removed, so it is closed after
//! seconds, and the next marker continues where the last one ended: a *pass* over a large group has
//! many markers.
//!
//! Rows of buckets that are not in force are skipped: every node frees their space at a time of its
//! own.
//!
//! Promises: a reported difference existed at one index; applying never waits; bytes a second are
//! bounded by a setting; at most one snapshot for each group, and few in all.
//! Never: repairs anything; decides which replica is right (it reports which replicas agree).
//! Read next: `digests.rs` (every replica), `replication/compare.rs` (the master).

mod digests;
pub mod message;
mod report;
mod status;

pub use digests::{Comparisons, digest_piece, read_keys};
pub use report::{ComparisonReport, DIFFERENCES_MAX, Difference};
pub use status::{ComparisonStatus, DifferenceStatus};

use super::layout::{self, Space};
use base::GroupId;
use base::codec::{Malformed, Reader};

/// Writes the key of a group's marker into `key`.
pub fn marker_key(group: GroupId, key: &mut Vec<u8>) {
    layout::space_key(group, Space::Comparison, key);
}

/// Returns true if a tree key is that of a marker.
#[inline]
pub fn is_marker(key: &[u8]) -> bool {
    key.len() == 5 && key[4] == Space::Comparison as u8
}

/// Decodes the number of the round that a marker begins.
pub fn read_marker(value: &[u8]) -> std::result::Result<u64, Malformed> {
    let mut reader = Reader::new(value);
    let round = reader.u64("comparison's round")?;
    reader.end("comparison's marker").map(|()| round)
}
