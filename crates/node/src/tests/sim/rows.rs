//! Judge of replicas: equal applied indexes imply equal rows.

use base::{GroupId, LogIndex};
use bytes::Bytes;
use std::collections::BTreeMap;
use store::{Chunk, MemoryTrees, Trees};

/// Asserts that nodes that have applied a group's log to the same index have the same rows.
pub(super) fn assert_same_rows<'a>(
    group: GroupId,
    replicas: impl Iterator<Item = (LogIndex, &'a MemoryTrees)>,
) {
    let mut states = BTreeMap::<LogIndex, Vec<(Bytes, Bytes)>>::new();
    for (index, trees) in replicas {
        let all = Chunk::read(&*trees.snapshot(), &group.0.to_be_bytes(), None, usize::MAX);
        let rows = all.expect("memory").rows;
        let known = states.entry(index).or_insert_with(|| rows.clone());
        assert!(*known == rows, "nodes differ at index {index} of group {group}");
    }
}
