//! Changes of rows: whatever changes a row, its hash tree follows.

use super::logged_node::{LoggedNode, block_on, policy, remote_row, write};
use super::test_node::bucket;
use crate::vnode_ops::{KeyRef, SeenVersions};
use base::{Content, Partition};
use bytes::Bytes;
use logic::sync::HashTree;
use proptest::prelude::*;
use runtime::world;
use vnode_rows::hash_trees::{TreeId, hash};
use vnode_rows::layout::StoredValue;
use vnode_rows::slots::SlotSpan;

/// One change of a row, by one of the ways that a row changes.
#[derive(Clone, Debug)]
enum RowAction {
    Write(u8),
    Overwrite(u8),
    Delete(u8),
    Merge(u8, u64, u64),
    Expire(u8),
    Reap(u8),
    HandOff(u8),
    Lose(u8),
    Apply,
}

fn step() -> impl Strategy<Value = RowAction> {
    let key = 0_u8..6;
    prop_oneof![
        key.clone().prop_map(RowAction::Write),
        key.clone().prop_map(RowAction::Overwrite),
        key.clone().prop_map(RowAction::Delete),
        (key.clone(), 2_u64..4, 1_u64..9)
            .prop_map(|(key, node, count)| RowAction::Merge(key, node, count)),
        key.clone().prop_map(RowAction::Expire),
        key.clone().prop_map(RowAction::Reap),
        key.clone().prop_map(RowAction::HandOff),
        key.prop_map(RowAction::Lose),
        Just(RowAction::Apply),
    ]
}

fn key_ref(number: u8) -> KeyRef {
    KeyRef::new(bucket(), vec![b'k', number].into())
}

fn value(text: u64) -> StoredValue {
    let content = Content::plain(Bytes::from(format!("{text}")));
    StoredValue::new(Some(&content), world::unix_ms()).with_expiry(world::unix_ms() + text % 2)
}

async fn take(node: &LoggedNode, step: RowAction, number: u64) {
    let store = node.store();
    match step {
        RowAction::Write(key) => {
            write(store, &key_ref(key), value(number), SeenVersions::Nothing).expect("taken");
        }
        RowAction::Overwrite(key) => {
            write(store, &key_ref(key), value(number), SeenVersions::Everything).expect("taken");
        }
        RowAction::Delete(key) => {
            let tombstone = StoredValue::new(None, number);
            write(store, &key_ref(key), tombstone, SeenVersions::Everything).expect("taken");
        }
        RowAction::Merge(key, from, count) => {
            let row = remote_row(from, count, value(count));
            store.merge(&key_ref(key), row, policy(), None).expect("taken");
        }
        RowAction::Expire(key) => store.expire(&key_ref(key), policy()).expect("taken"),
        RowAction::Reap(key) => {
            node.run().await;
            let Some(row) = store.read(&key_ref(key)).expect("memory") else { return };
            let digest = hash(&key_ref(key).row_key(), &row).digest;
            let epoch = node.node.available.schema.ring_epoch();
            let rows = vec![(key_ref(key), digest)];
            let reaped = node.node.available.check_tombstones(rows, epoch, true);
            assert_eq!(node.during(reaped).await.expect("no faults"), [true]);
        }
        RowAction::HandOff(key) => {
            node.run().await;
            let Some(row) = store.read(&key_ref(key)).expect("memory") else { return };
            let rows = vec![(key_ref(key).row_key(), row)];
            node.node.available.remove_rows(rows).expect("taken");
        }
        RowAction::Lose(key) => {
            let mut state = store.admit().expect("it takes changes");
            store.change(&mut state, [(key_ref(key).row_key(), None)], false);
        }
        RowAction::Apply => node.run().await,
    }
}

/// Returns the trees of all partitions of the ring, as far as they are complete.
fn trees(node: &LoggedNode) -> Vec<(TreeId, HashTree)> {
    let spans = (0..8).map(|partition| SlotSpan { partition: Partition(partition), partitions: 8 });
    let tree = |span| {
        let tree = node.store().with_tree((span, 3), HashTree::clone);
        ((span, 3), tree.expect("it is built"))
    };
    spans.map(tree).collect()
}

async fn trees_follow(steps: Vec<RowAction>) {
    let node = LoggedNode::start();
    for partition in (0..8).map(Partition) {
        node.store().build_tree((SlotSpan { partition, partitions: 8 }, 3)).expect("memory");
    }
    for (number, step) in (1..).zip(steps) {
        take(&node, step, number).await;
    }
    node.run().await;
    let followed = trees(&node);
    node.store().state().hash_trees.clear();
    for (tree_id, followed) in followed {
        node.store().build_tree(tree_id).expect("memory");
        let built = node.store().with_tree(tree_id, HashTree::clone).expect("it is built");
        assert!(followed == built, "{tree_id:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn hash_trees_follow_rows_whatever_changes_them(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        block_on(trees_follow(steps));
    }
}
