//! Index entries, and the difference between two sets of them.

use crate::field::IndexField;
use crate::term::Term;
use std::collections::BTreeSet;

/// Entry of an index: a record is found under this term of this field. Entries order as their rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexEntry {
    /// Field of the entry.
    pub field: IndexField,
    /// Term of the entry.
    pub term: Term,
}

/// Difference between the entries of a record before and after a change: the rows that the change
/// writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryDifference {
    /// Entries that were there before and are not there after, in order.
    pub removed: Vec<IndexEntry>,
    /// Entries that are there after and were not there before, in order.
    pub added: Vec<IndexEntry>,
}

impl EntryDifference {
    /// Returns the difference between two sets.
    pub fn between(before: &BTreeSet<IndexEntry>, after: &BTreeSet<IndexEntry>) -> EntryDifference {
        EntryDifference {
            removed: before.difference(after).cloned().collect(),
            added: after.difference(before).cloned().collect(),
        }
    }

    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }

    /// Carries the difference out on a set.
    pub fn apply(&self, entries: &mut BTreeSet<IndexEntry>) {
        for entry in &self.removed {
            entries.remove(entry);
        }
        entries.extend(self.added.iter().cloned());
    }
}
