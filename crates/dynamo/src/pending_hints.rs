//! Count of the hints that are kept here for nodes that are down: figures for operators.

use base::NodeId;
use std::collections::BTreeMap;

/// Hints that are kept for one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredHints {
    /// Rows.
    pub rows: u64,
    /// Time since which there has always been one, in this incarnation, in milliseconds.
    pub since_ms: u64,
}

/// Hints, by the node they name.
#[derive(Debug, Default)]
pub(super) struct PendingHints {
    kept: BTreeMap<NodeId, StoredHints>,
    /// Number of hints ever kept, and of those handed back, in this incarnation.
    pub total: u64,
    pub home: u64,
}

impl PendingHints {
    /// One more row is kept for this node.
    pub fn keeps(&mut self, node: NodeId, now_ms: u64) {
        self.total += 1;
        self.found(node, 1, now_ms);
    }

    /// Adds the hints of a node that were found at the start.
    pub fn found(&mut self, node: NodeId, rows: u64, now_ms: u64) {
        if rows == 0 {
            return;
        }
        let kept = self.kept.entry(node).or_insert(StoredHints { rows: 0, since_ms: now_ms });
        kept.rows += rows;
    }

    /// Clears the counts before the store is read.
    pub fn forget(&mut self) {
        self.kept.clear();
    }

    /// One went home.
    pub fn went_home(&mut self, node: NodeId) {
        self.home += 1;
        if let Some(kept) = self.kept.get_mut(&node) {
            kept.rows = kept.rows.saturating_sub(1);
            if kept.rows == 0 {
                self.kept.remove(&node);
            }
        }
    }

    /// Returns the hints that are kept, by node.
    pub fn all(&self) -> BTreeMap<NodeId, StoredHints> {
        self.kept.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_home_is_kept_no_more_and_age_begins_anew() {
        let (mut waiting, node) = (PendingHints::default(), NodeId(7));
        waiting.found(node, 2, 10);
        waiting.keeps(node, 20);
        assert_eq!(waiting.all(), BTreeMap::from([(node, StoredHints { rows: 3, since_ms: 10 })]));
        (0..3).for_each(|_| waiting.went_home(node));
        assert_eq!((waiting.all().len(), waiting.total, waiting.home), (0, 1, 3));
        waiting.keeps(node, 30);
        assert_eq!(waiting.all()[&node], StoredHints { rows: 1, since_ms: 30 });
    }
}
