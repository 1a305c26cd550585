//! Reads of `$key` and `$bucket`: the pages together are what the model's keys say.

use super::list_model::{ModelCluster, ReadEvent, block_on};
use super::test_node::bucket;
use crate::KeyIndexRead;
use base::index::{IndexContent, IndexQuery, TermSelection};
use base::{Body, Bound, IndexRow, Key, Quorum, ReadLevel, Reason, Result};
use indexes::KeyQuery;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NODES: u64 = 5;

fn read_of(query: &IndexQuery) -> Result<KeyIndexRead> {
    Ok(KeyIndexRead {
        bucket: bucket(),
        query: KeyQuery::new(&bucket(), query)?,
        rows_max: query.rows_max,
        r: query.r,
        level: ReadLevel::Consistent,
        timeout_ms: query.timeout_ms,
    })
}

/// Asks the node under test for all pages.
async fn all_pages(cluster: &mut ModelCluster, mut query: IndexQuery) -> Result<Vec<IndexRow>> {
    let (available, mut rows) = (cluster.node.available.clone(), Vec::new());
    loop {
        cluster.begin_read();
        let page = available.read_key_index(read_of(&query)?);
        let Body::IndexPage(page) = cluster.drive(page).await?.body else {
            panic!("a query is answered with a page");
        };
        assert!(query.rows_max.is_none_or(|most| page.rows.len() <= most));
        rows.extend(page.rows);
        query.after = page.after;
        if query.after.is_none() {
            return Ok(rows);
        }
    }
}

/// Returns keys, among them those that are next to each other.
fn key() -> impl Strategy<Value = Key> {
    let byte = prop_oneof![Just(0), Just(0xFE), Just(0xFF), Just(b'a'), Just(b'b')];
    prop::collection::vec(byte, 1..5).prop_map(Key::from)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(100)
    })]

    #[test]
    fn pages_of_keys_show_each_selected_key_once_though_a_node_is_lost(
        keys in prop::collection::btree_set(key(), 0..40),
        bounds in (key(), key()),
        rows_max in prop::option::of(1..6_usize),
        lost in prop::option::of((0..6_usize, 2..=NODES)),
    ) {
        block_on(async move {
            let mut cluster = ModelCluster::start(NODES, keys.clone());
            cluster.events.extend(lost.map(|(at, node)| (at, ReadEvent::Lose(node))));
            let (low, high) = bounds;
            let terms =
                TermSelection::Between(Bound::Included(low.clone()), Bound::Included(high.clone()));
            let want = IndexContent::Terms;
            let query =
                IndexQuery { index: "$key".into(), terms, want, rows_max, ..Default::default() };
            let rows = all_pages(&mut cluster, query).await.expect("enough nodes answer");
            assert!(rows.iter().all(|row| row.term.as_ref() == Some(&row.key)));
            let found: Vec<Key> = rows.into_iter().map(|row| row.key).collect();
            let expected = keys.iter().filter(|key| **key >= low && **key <= high);
            assert!(found.iter().eq(expected), "{found:?}");
            let all = IndexQuery { index: "$bucket".into(), rows_max, ..Default::default() };
            let rows = all_pages(&mut cluster, all).await.expect("enough nodes answer");
            assert!(rows.iter().map(|row| &row.key).eq(&keys));
            assert!(rows.iter().all(|row| row.term.is_none()));
        });
    }
}

#[test]
fn equality_finds_one_key_and_more_replicas_are_refused() {
    block_on(async {
        let keys = ["a", "a\0", "b"].map(Key::from);
        let mut cluster = ModelCluster::start(NODES, BTreeSet::from(keys.clone()));
        for key in keys {
            let terms = TermSelection::Equal(key.clone());
            let query = IndexQuery { index: "$key".into(), terms, ..Default::default() };
            let rows = all_pages(&mut cluster, query).await.expect("enough nodes answer");
            assert_eq!(rows.iter().map(|row| &row.key).collect::<Vec<_>>(), [&key]);
        }
        let r = Some(Quorum::Quorum);
        let query = IndexQuery { index: "$key".into(), r, ..Default::default() };
        let refused = all_pages(&mut cluster, query).await.expect_err("it asks one of each");
        assert_eq!(refused.reason, Reason::NotSupported);
    });
}
