//! Indexes of available buckets on three nodes: built over earlier rows, kept by writes, queried at
//! every node, and removed.

use super::three::{three, wait_settled};
use super::{bucket, call, remove, store};
use crate::Node;
use crate::tests::index_queries::{self, query_at};
use crate::tests::indexed::{call as index_call, create, spec};
use crate::tests::reason;
use crate::tests::test_cluster::wait;
use base::index::{IndexCall, IndexContent, IndexQuery, IndexSpec, TermSelection};
use base::range::Direction;
use base::reply::IndexRecord;
use base::{
    AvailableCall, Bound, Content, Headers, IndexPage, Quorum, ReadLevel, Reason, Result, Store,
};
use bytes::Bytes;
use vnode_rows::index_rows::{IndexPhase, differences};

fn all() -> IndexQuery {
    let want = IndexContent::Terms;
    IndexQuery { index: "by-count".into(), want, ..IndexQuery::default() }
}

async fn query(node: &Node, query: IndexQuery) -> Result<IndexPage> {
    query_at(node, &bucket(), query, ReadLevel::Consistent).await
}

/// Returns the terms and keys of all pages.
async fn pages(node: &Node, asked: IndexQuery) -> Vec<String> {
    index_queries::pages(node, &bucket(), asked).await.0
}

/// Waits until an index is in this state by a node's directory.
async fn reaches(node: &Node, index: &str, expected: &str) {
    wait("a state of the index", || {
        let found = node.router.locator.catalog.indexes.find(&bucket());
        let found = found.map(|indexes| indexes.describe()).unwrap_or_default();
        let found = found.into_iter().find(|found| found.spec.name == index);
        (found.map_or("gone", |found| found.state.name()) == expected).then_some(())
    })
    .await;
}

/// Waits until a node has this many indexes beside that of tags, all ready, and judges its entries.
async fn has_ready(node: &Node, count: usize) {
    wait("the indexes of a node", || {
        let store = &node.router.available.vnode_store;
        let statuses = store.index_statuses().expect("readable");
        let is_ready = statuses.iter().all(|status| status.phase == IndexPhase::Ready);
        (statuses.len() == count + 1 && is_ready).then_some(())
    })
    .await;
    assert_eq!(differences(&*node.status.trees.snapshot()), Ok(Vec::new()));
}

fn document(count: usize) -> String {
    format!("{{\"count\":{count}}}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn declared_index_is_built_at_every_node_and_answers_at_each() {
    let mut cluster = three().await;
    for number in 0..12 {
        let (key, value) = (format!("{number:02}"), document(number % 4));
        store(cluster.node(number % 3), &key, &value, None).await.expect("a write");
    }
    create(cluster.node(1), &bucket(), spec("by-count")).await.expect("made");
    let row = |nth| format!("{} {:02}", nth / 3, nth / 3 + nth % 3 * 4);
    let expected: Vec<String> = (0..12).map(row).collect();
    for nth in 0..3 {
        reaches(cluster.node(nth), "by-count", "ready").await;
        for rows_max in [None, Some(5), Some(1)] {
            let found = pages(cluster.node(nth), IndexQuery { rows_max, ..all() }).await;
            assert_eq!(found, expected);
            let direction = Direction::Descending;
            let asked = IndexQuery { rows_max, direction, ..all() };
            let mut found = pages(cluster.node(nth), asked).await;
            found.reverse();
            assert_eq!(found, expected);
        }
    }
    for nth in 0..3 {
        has_ready(cluster.node(nth), 1).await;
    }
    // While a node is down, writes go on, and no query misses or repeats one.
    cluster.stop(2).await;
    let node = cluster.node(0);
    store(node, "new", &document(9), None).await.expect("a write");
    remove(node, "00", None).await.expect("a delete");
    let found = pages(cluster.node(1), IndexQuery { rows_max: Some(4), ..all() }).await;
    let changed = [&expected[1..], &["9 new".to_string()]].concat();
    assert_eq!(found, changed);
    cluster.start(2).await;
    wait_settled(&cluster).await;
    let found = pages(cluster.node(2), all()).await;
    assert_eq!(found, changed, "the node that was away verifies what it missed");
    has_ready(cluster.node(2), 1).await;
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_index_leaves_no_entry_and_its_name_is_free_at_once() {
    let mut cluster = three().await;
    for number in 0..6 {
        let value = format!("{{\"count\":{number},\"name\":\"n{number}\"}}");
        store(cluster.node(0), &format!("k{number}"), &value, None).await.expect("a write");
    }
    create(cluster.node(0), &bucket(), spec("by-count")).await.expect("made");
    reaches(cluster.node(0), "by-count", "ready").await;
    let drop_index = IndexCall::Drop { name: "by-count".into() };
    index_call(cluster.node(0), &bucket(), drop_index).await.expect("it goes");
    let by_name =
        IndexSpec { path: "$.name".into(), value_type: "string".into(), ..spec("by-count") };
    create(cluster.node(0), &bucket(), by_name).await.expect("the name is free");
    for nth in 0..3 {
        reaches(cluster.node(nth), "by-count", "ready").await;
        has_ready(cluster.node(nth), 1).await;
    }
    let terms = TermSelection::Prefix("n".into());
    let found = pages(cluster.node(2), IndexQuery { terms, ..all() }).await;
    assert_eq!(found.len(), 6);
    let drop_index = IndexCall::Drop { name: "by-count".into() };
    index_call(cluster.node(0), &bucket(), drop_index).await.expect("it goes");
    for nth in 0..3 {
        has_ready(cluster.node(nth), 0).await;
        let refused = query(cluster.node(nth), all()).await;
        assert_eq!(reason(refused), Reason::NoSuchIndex);
    }
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tags_of_values_are_queried_without_a_declaration() {
    let mut cluster = three().await;
    let tag = |name: &'static str, text: &str| (Bytes::from(name), Bytes::from(text.to_string()));
    for (key, number) in [("a", "7"), ("b", "10"), ("c", "7")] {
        let indexes = vec![tag("age_int", number), tag("name_bin", key)];
        let headers = Headers { indexes, ..Headers::default() };
        let content = Content { value: "no document".into(), headers };
        let written = Store { key: Bytes::from(key), content, ..Store::default() };
        let written = call(cluster.node(0), AvailableCall::Store(Box::new(written)));
        written.await.expect("a write");
    }
    // Any of them may be asked for its part.
    for nth in 0..3 {
        has_ready(cluster.node(nth), 0).await;
    }
    for nth in 0..3 {
        let ages = IndexQuery { index: "AGE_int".into(), ..all() };
        assert_eq!(pages(cluster.node(nth), ages).await, ["7 a", "7 c", "10 b"]);
        let terms = TermSelection::Between(Bound::Included("b".into()), Bound::Open);
        let names = IndexQuery { index: "name_bin".into(), terms, rows_max: Some(1), ..all() };
        assert_eq!(pages(cluster.node(nth), names).await, ["b b", "c c"]);
    }
    remove(cluster.node(1), "a", None).await.expect("a delete");
    let ages = IndexQuery { index: "age_int".into(), ..all() };
    assert_eq!(pages(cluster.node(2), ages).await, ["7 c", "10 b"]);
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn query_shows_what_is_wanted_and_refuses_what_is_not_offered() {
    let mut cluster = three().await;
    store(cluster.node(0), "k", &document(3), None).await.expect("a write");
    store(cluster.node(1), "k", &document(4), None).await.expect("a sibling");
    create(cluster.node(0), &bucket(), spec("by-count")).await.expect("made");
    reaches(cluster.node(2), "by-count", "ready").await;
    let node = cluster.node(2);
    assert_eq!(pages(node, all()).await, ["3 k", "4 k"]);
    let equal = TermSelection::Equal("4".into());
    let asked = |want| IndexQuery { terms: equal.clone(), want, ..all() };
    for want in IndexContent::ALL {
        let page = query(node, asked(want)).await.expect("it is ready");
        assert_eq!((page.rows.len(), &page.after), (1, &None));
        assert_eq!(page.rows[0].term.is_some(), want != IndexContent::Keys);
        let values = page.rows[0].record.as_ref().map(|record| match record {
            IndexRecord::Siblings(siblings) => super::values(siblings),
            IndexRecord::Row(row) => panic!("the bucket is available: {row:?}"),
        });
        let both = [document(3), document(4)].map(Bytes::from);
        assert_eq!(values, (want == IndexContent::Records).then(|| both.to_vec()));
    }
    let of_keys = |index: &'static str| IndexQuery { index: index.into(), ..all() };
    let one_key = IndexQuery { terms: TermSelection::Equal("k".into()), ..of_keys("$key") };
    assert_eq!(pages(node, one_key).await, ["k k"], "its siblings are one row");
    let all_keys = query(node, of_keys("$bucket")).await.expect("keys are always listed");
    assert_eq!((all_keys.rows.len(), &all_keys.rows[0].term), (1, &None));
    let word = TermSelection::Equal("word".into());
    let (want, regex) = (IndexContent::Records, Some("a".to_string()));
    for (refused, expected) in [
        (IndexQuery { want, ..of_keys("$key") }, Reason::NotSupported),
        (IndexQuery { regex: regex.clone(), ..of_keys("$bucket") }, Reason::NotSupported),
        // The terms are integers.
        (IndexQuery { regex, ..all() }, Reason::NotSupported),
        (IndexQuery { index: "other".into(), ..all() }, Reason::NoSuchIndex),
        (IndexQuery { terms: word, ..all() }, Reason::NotANumber),
        (IndexQuery { r: Some(Quorum::Number(4)), ..all() }, Reason::Malformed),
        (IndexQuery { rows_max: Some(0), ..all() }, Reason::Malformed),
    ] {
        assert_eq!(reason(query(node, refused).await), expected);
    }
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}
