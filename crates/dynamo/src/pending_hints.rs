//! Counts of the hints stored here for unreachable nodes, for operators.

use base::NodeId;
use std::collections::BTreeMap;

/// Hints stored for one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredHints {
    /// Number of rows.
    pub rows: u64,
    /// Time since which there has always been a hint, in this incarnation, in milliseconds.
    pub since_ms: u64,
}

/// Counts of hints, by the node that they name.
#[derive(Debug, Default)]
pub(super) struct PendingHints {
    by_node: BTreeMap<NodeId, StoredHints>,
    /// Numbers of hints stored and delivered in this incarnation.
    pub stored: u64,
    pub delivered: u64,
}

impl PendingHints {
    /// Counts a new hint of a node.
    pub fn add(&mut self, node: NodeId, now_ms: u64) {
        self.stored += 1;
        self.add_existing(node, 1, now_ms);
    }

    /// Adds the hints of a node that were found at the start.
    pub fn add_existing(&mut self, node: NodeId, rows: u64, now_ms: u64) {
        if rows == 0 {
            return;
        }
        let entry = self.by_node.entry(node).or_insert(StoredHints { rows: 0, since_ms: now_ms });
        entry.rows += rows;
    }

    /// Clears the counts before the store is read.
    pub fn clear(&mut self) {
        self.by_node.clear();
    }

    /// Counts a delivered hint of a node.
    pub fn remove(&mut self, node: NodeId) {
        self.delivered += 1;
        if let Some(entry) = self.by_node.get_mut(&node) {
            entry.rows = entry.rows.saturating_sub(1);
            if entry.rows == 0 {
                self.by_node.remove(&node);
            }
        }
    }

    /// Returns the stored hints, by node.
    pub fn all(&self) -> BTreeMap<NodeId, StoredHints> {
        self.by_node.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handed_off_hints_leave_the_count_and_reset_its_age() {
        let (mut pending, node) = (PendingHints::default(), NodeId(7));
        pending.add_existing(node, 2, 10);
        pending.add(node, 20);
        assert_eq!(pending.all(), BTreeMap::from([(node, StoredHints { rows: 3, since_ms: 10 })]));
        (0..3).for_each(|_| pending.remove(node));
        assert_eq!((pending.all().len(), pending.stored, pending.delivered), (0, 1, 3));
        pending.add(node, 30);
        assert_eq!(pending.all()[&node], StoredHints { rows: 1, since_ms: 30 });
    }
}
