//! Recent removals: versions of rows that a group's master has removed, by the hashes of their
//! keys.
//!
//! A key that is absent may have been written and removed since a client saw it absent (Redis'
//! `WATCH`). No row tells it. So the master notes the version of each row that it removes, in a
//! table of fixed size. A slot keeps the highest version of all keys with its hash.
//!
//! Promises: a row that was written at or after a version, and was removed, is never missed. A key
//! may seem written without cause: if another master may have removed it, once the space of a
//! dropped bucket was freed (no update removes its rows), and if a row with the same hash was
//! written and removed meanwhile.
//! Never: grows; takes memory before the first removal.

use base::{Version, codec};
use runtime::world;

/// Number of slots: 32 KiB for a group whose rows are removed. After `n` other rows were written
/// and removed since a version, an absent key seems written with a probability of about
/// `n` / 4,096.
const SLOTS: usize = 4_096;

/// See the head of this file. The default knows nothing: each key may have been written.
#[derive(Debug)]
pub struct RecentRemovals {
    /// Lowest version of rows whose removals are all noted. An earlier master may have removed
    /// rows of lower versions.
    known_from: u64,
    /// Highest version of a removed row, in the slot of its key's hash. Empty: none was removed.
    slots: Vec<u64>,
}

impl Default for RecentRemovals {
    fn default() -> RecentRemovals {
        RecentRemovals::known_from(u64::MAX)
    }
}

impl RecentRemovals {
    /// Creates an empty table. `version`: that of the master's first update.
    pub(super) fn known_from(version: u64) -> RecentRemovals {
        RecentRemovals { known_from: version, slots: Vec::new() }
    }

    /// Notes the removal of a row with this version, or a lower one. An undone removal may stay
    /// noted.
    pub(super) fn note(&mut self, tree_key: &[u8], version: Version) {
        if self.known_from == u64::MAX {
            return; // It answers without its slots.
        }
        if self.slots.is_empty() {
            self.slots = vec![0; SLOTS];
        }
        if let Some(highest) = self.slots.get_mut(slot(tree_key)) {
            *highest = version.0.max(*highest);
        }
    }

    /// Returns true if a row of this version or a higher one may have been removed under the tree
    /// key.
    pub(super) fn may_have(&self, tree_key: &[u8], since: Version) -> bool {
        if since.0 < self.known_from {
            return true;
        }
        self.slots.get(slot(tree_key)).is_some_and(|highest| *highest >= since.0)
    }
}

/// Returns the slot of a key. The hash has a salt: no client can choose keys that share a slot with
/// another's.
fn slot(tree_key: &[u8]) -> usize {
    codec::checksum(tree_key, world::salt()) as usize % SLOTS
}

#[cfg(test)]
mod tests;
