//! Mending of entries that a check found wrong: what is mended, and what is right by now.

use super::*;
use replica_state::index_check::{CheckBounds, CheckCursor, IndexMismatch, check_page};
use replica_state::layout::{Space, bucket_key};
use store::Chunk;

impl IndexedGroup {
    /// Returns the applied entries of the bucket's indexes.
    fn applied_entries(&self) -> Vec<(Bytes, Bytes)> {
        let mut prefix = Vec::new();
        bucket_key(GROUP, Space::Index, INDEXED, &[], &mut prefix);
        let snapshot = self.trees.snapshot();
        Chunk::read(&*snapshot, &prefix, None, usize::MAX).expect("memory").rows
    }

    fn damage(&mut self, changes: Vec<RowChange>) -> Vec<IndexMismatch> {
        self.trees.apply(&mut changes.into_iter()).expect("memory");
        check_indexes(&*self.trees.snapshot(), GROUP, INDEXED, 100).expect("memory")
    }

    fn mend(&mut self, mismatches: &[IndexMismatch]) -> u64 {
        self.write(|overlay| overlay.mend_entries(INDEXED, mismatches)).expect("memory")
    }
}

/// Returns a group with five rows, a common and a unique index.
fn indexed() -> IndexedGroup {
    let mut group = IndexedGroup::new();
    for number in 0..5 {
        group.update(&set(&format!("k{number}"), &format!("{{\"n\":{number}}}"))).expect("memory");
    }
    group.build_index(definition(1, "$.n", ValueType::Int));
    group.build_index(unique(2, "$.n"));
    group.apply();
    group
}

#[test]
fn missing_surplus_and_foreign_entries_are_mended_once() {
    let mut group = indexed();
    let entries = group.applied_entries();
    assert_eq!(entries.len(), 10);
    let ((common, row), (unique, holder)) = (entries[0].clone(), entries[9].clone());
    let mut foreign = common.to_vec();
    // The number of the index: behind the prefix and the kind of the field.
    foreign[replica_state::layout::ROW_PREFIX_BYTES + 4] = 9;
    let found = group.damage(vec![
        RowChange::Remove(common.clone()),
        RowChange::Put([&common[..], b"x"].concat().into(), row.clone()),
        RowChange::Put(foreign.into(), row),
        RowChange::Put(unique, b"\0k0".to_vec().into()),
    ]);
    assert!(found.len() >= 5, "{found:?}");
    assert_eq!(group.mend(&found), 4);
    assert_eq!(group.mend(&found), 1, "a term whose holder was wrong is free since");
    group.apply();
    assert_eq!(group.applied_entries().len(), 10);
    assert!(group.applied_entries().iter().any(|(_, row)| *row == holder));
    assert_eq!(group.mend(&found), 0);
}

#[test]
fn difference_that_is_no_more_is_not_mended() {
    let mut group = indexed();
    let removed = group.applied_entries()[2].0.clone();
    let found = group.damage(vec![RowChange::Remove(removed)]);
    assert_eq!(found.len(), 1);
    group.update(&set("k2", "{\"n\":7}")).expect("memory");
    assert_eq!(group.mend(&found), 0, "the row has another term by now");
    group.apply();
    let mut group = indexed();
    let removed = group.applied_entries()[2].0.clone();
    let found = group.damage(vec![RowChange::Remove(removed)]);
    group.end_index(1);
    assert_eq!(group.mend(&found), 0, "nothing maintains the index");
}

#[test]
fn pages_of_a_check_find_what_a_whole_check_finds() {
    let mut group = indexed();
    let entries = group.applied_entries();
    let whole = group.damage(vec![
        RowChange::Remove(entries[1].0.clone()),
        RowChange::Remove(entries[4].0.clone()),
        RowChange::Put([&entries[2].0[..], b"x"].concat().into(), entries[2].1.clone()),
    ]);
    assert_eq!(whole.len(), 3);
    for keys in [1, 2, 100] {
        let bounds = CheckBounds { keys, bytes: usize::MAX, mismatches: usize::MAX };
        let (mut cursor, mut found, mut pages) = (CheckCursor::Rows(None), Vec::new(), 0);
        loop {
            let snapshot = group.trees.snapshot();
            let page = check_page(&*snapshot, (GROUP, INDEXED), &cursor, bounds).expect("memory");
            found.extend(page.mismatches);
            pages += 1;
            match page.next {
                Some(next) => cursor = next,
                None => break,
            }
        }
        assert_eq!(found, whole, "{keys}");
        assert_eq!(pages == 2, keys == 100, "{pages}");
    }
}
