//! Laws of hash trees: a tree kept up to date equals the tree built from scratch.

use super::PartitionCopy;
use crate::sync::{HashTree, LEAVES, leaf_of, row_hash};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn incrementally_updated_tree_equals_rebuilt_tree(
        changes in proptest::collection::vec((0..60_u32, 0..4_u8), 0..120),
    ) {
        let mut copy = PartitionCopy::default();
        for (number, bytes) in changes {
            if bytes == 0 { copy.remove(number) } else { copy.set(number, &[bytes]) }
        }
        prop_assert_eq!(copy.tree.rows(), copy.rows.len() as u64);
        prop_assert!(copy.tree == copy.rebuilt());
        let mut emptied = copy.clone();
        (0..60).for_each(|number| emptied.remove(number));
        prop_assert!(emptied.tree == HashTree::new());
    }
}

/// Changes during the build of a tree are added to it at the end.
#[test]
fn changes_during_tree_build_are_merged_at_end() {
    let mut copy = PartitionCopy::of(100);
    let mut built = copy.rebuilt();
    copy.tree = HashTree::new();
    (0..30).for_each(|number| copy.remove(number));
    (50..150).for_each(|number| copy.set(number, b"another"));
    built.add_all(&copy.tree);
    assert!(built == copy.rebuilt());
    assert_eq!(built.rows(), 120);
}

#[test]
fn rows_spread_uniformly_over_tree_leaves() {
    let leaves: BTreeSet<_> = (0..LEAVES).map(|key| leaf_of(&key.to_be_bytes())).collect();
    // Of n things in n places, one place in e stays empty: 41,426 are expected to be taken.
    assert!((41_000..41_900).contains(&leaves.len()), "{}", leaves.len());
}

#[test]
fn row_digest_separates_key_from_value() {
    assert_ne!(row_hash(b"a", b"bc").digest, row_hash(b"ab", b"c").digest);
    assert_ne!(row_hash(b"a", b"b").digest, row_hash(b"a", b"c").digest);
}

/// Two values that exchange their keys leave the set of row contents unchanged.
#[test]
fn tree_root_changes_when_two_keys_swap_values() {
    let (mut one, mut other) = (PartitionCopy::default(), PartitionCopy::default());
    for (number, bytes) in [(1, b"x"), (2, b"y")] {
        one.set(number, bytes);
        other.set(3 - number, bytes);
    }
    assert_ne!(one.tree.root(), other.tree.root());
}
