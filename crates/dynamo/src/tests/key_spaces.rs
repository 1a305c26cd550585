//! Key spaces of a node: no scan of rows reads what lies behind the slots.

use super::logged_node::LoggedNode;
use super::test_node::{bucket, ring_of, row};
use crate::list::ListedNames;
use crate::message::WriteAdmission;
use base::NodeId;
use bytes::Bytes;
use logic::ring::{Rack, Ring};
use std::ops::Bound;
use std::sync::Arc;
use store::RowChange;
use vnode_rows::layout::{NodeSpace, Space, node_space_prefix, row_key_in, row_tail, write_row};
use vnode_rows::migrate_v1::migrate;
use vnode_rows::slots::{Slot, SlotSpan};

/// Returns keys in the spaces behind the slots that look like a row, a hint and their former forms.
fn planted_keys() -> Vec<Bytes> {
    let key = row_key_in(Slot(7), &bucket(), b"k");
    let kinds = [0, Space::FormerRow as u8, Space::FormerHint as u8, Space::Row as u8];
    let spaces = [NodeSpace::Index, NodeSpace::Feed, NodeSpace::Views];
    let keys = spaces.into_iter().flat_map(|space| {
        kinds.map(|kind| [&node_space_prefix(space, kind)[..], row_tail(&key)].concat().into())
    });
    keys.collect()
}

#[tokio::test]
async fn scans_of_rows_stop_before_the_spaces_of_the_node() {
    let node = LoggedNode::start();
    let (available, ring) = (&node.node.available, Arc::new(ring_of(1)));
    let value = write_row(&row(1, 1, "value"));
    let planted = planted_keys().into_iter().map(|key| RowChange::Put(key, value.clone()));
    node.trees().apply(&mut planted.collect::<Vec<_>>().into_iter()).expect("memory");

    assert!(!available.local_has_rows(WriteAdmission::Open).await.expect("memory"));
    // By this ring the node keeps nothing.
    let other = Arc::new(Ring::initial(NodeId(9), Rack::default(), 8, 3));
    assert!(available.orphaned_partitions(&other).await.expect("memory").is_empty());
    assert_eq!(available.size_estimate().await.expect("memory").rows, 0);
    assert_eq!(migrate(node.trees()).expect("memory"), 0);
    for span in SlotSpan::all(&ring) {
        let page = available.rows_page((span, 3), None, usize::MAX).await.expect("memory");
        assert_eq!((page.rows, page.last), (Vec::new(), None));
        node.store().build_tree((span, 3)).expect("memory");
        let rows = node.store().with_tree((span, 3), |tree| tree.rows());
        assert_eq!(rows, Some(0), "{span:?}");
    }
    let spans: Vec<_> = SlotSpan::all(&ring).collect();
    for names in [ListedNames::Keys(bucket()), ListedNames::Buckets("available".into())] {
        let page = available.local_names(spans.clone(), names, None, 9).await.expect("memory");
        assert_eq!(page, (Vec::new(), false));
    }
    let snapshot = node.trees().snapshot();
    let left = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
    assert_eq!(left.count(), planted_keys().len(), "nothing was removed");
}
