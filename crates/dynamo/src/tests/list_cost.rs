//! Cost of lists beside the plan that they had before, in which each partition was asked of its
//! first owner: questions to other nodes, and rows that all nodes read for each row returned.

use super::list_model::{block_on, keys};
use super::test_node::{HERE, TestNode, bucket, row};
use crate::Available;
use crate::coverage_plans::CoverageNeeds;
use crate::coverage_read::CoverageRead;
use crate::list::ListedNames;
use crate::message::VnodeQuestion;
use crate::reply;
use base::{Key, NodeId};
use logic::ring::Ring;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use store::RowChange;
use vnode_rows::layout::{row_key, write_row};
use vnode_rows::name_pages::{NamePage, scan_keys};
use vnode_rows::slots::SlotSpan;

const KEYS: usize = 1_200;
const QUORUM: CoverageNeeds = CoverageNeeds { copies: 3, replicas: 2, use_fallbacks: true };

/// Questions to other nodes, and rows that all nodes have read.
#[derive(Clone, Copy, Debug, Default)]
struct ListCost {
    questions: u64,
    rows: u64,
}

/// Returns the first node of a ring. Its store has the rows of all nodes: what a node reads depends
/// only on the partitions that it is asked for.
fn start(nodes: u64) -> TestNode {
    let node = TestNode::start(nodes);
    let value = write_row(&row(2, 1, "v"));
    let put = |key: Key| RowChange::Put(row_key(&bucket(), &key), value.clone());
    node.available.trees.apply(&mut keys(KEYS).into_iter().map(put)).expect("memory");
    node
}

/// Runs a future, and answers the questions of the node. Returns their number, too.
async fn drive<T>(node: &TestNode, future: impl Future<Output = T>) -> (T, u64) {
    let (mut future, mut questions) = (pin!(future), 0);
    loop {
        tokio::select! {
            biased;
            output = &mut future => return (output, questions),
            () = tokio::task::yield_now() => {}
        }
        for sent in node.take_questions() {
            questions += 1;
            let VnodeQuestion::Keys { spans, bucket, after, rows_max } = &sent.question else {
                panic!("a list asks for keys, not {:?}", sent.question);
            };
            let snapshot = node.available.trees.snapshot();
            let page = scan_keys(&*snapshot, spans, bucket, after.as_deref(), *rows_max);
            let (names, more) = page.expect("memory");
            let mut fields = Vec::new();
            reply::put_names(&names, more, &mut fields);
            node.answer(&sent, &fields);
        }
    }
}

/// Lists all keys by these pages; each is made of the last key before it, and adds its questions.
async fn list_all(
    node: &TestNode,
    mut next_page: impl AsyncFnMut(Option<Key>, &mut ListCost) -> NamePage,
) -> ListCost {
    let before = node.available.trees.statistics().rows_returned;
    let (mut cost, mut found) = (ListCost::default(), Vec::new());
    loop {
        let (names, more) = next_page(found.last().cloned(), &mut cost).await;
        found.extend(names);
        if !more {
            break;
        }
    }
    assert!(found.iter().eq(&keys(KEYS)));
    cost.rows = node.available.trees.statistics().rows_returned - before;
    cost
}

/// Returns the partitions by the plan that lists had before: this node's where it is an owner, and
/// elsewhere the first owner's.
fn first_owners(ring: &Ring) -> BTreeMap<NodeId, Vec<SlotSpan>> {
    let mut plan: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for span in SlotSpan::all(ring) {
        let owners = ring.owners(span.partition, 3);
        let node = if owners.contains(&HERE) { HERE } else { owners[0] };
        plan.entry(node).or_default().push(span);
    }
    plan
}

/// Returns a page by the plan of first owners.
fn former_page(
    available: &Available,
    after: Option<Key>,
    rows_max: usize,
    cost: &mut ListCost,
) -> NamePage {
    let ring = available.schema.ring().expect("a ring");
    let (mut names, mut is_partial) = (BTreeSet::new(), false);
    for (node, spans) in first_owners(&ring) {
        cost.questions += u64::from(node != HERE);
        let snapshot = available.trees.snapshot();
        let page = scan_keys(&*snapshot, &spans, &bucket(), after.as_deref(), rows_max);
        let (page, more) = page.expect("memory");
        is_partial |= more;
        names.extend(page);
    }
    let more = is_partial || names.len() > rows_max;
    (names.into_iter().take(rows_max).collect(), more)
}

/// Returns a page of a list that asks for R replicas.
async fn page_of(
    available: &Arc<Available>,
    after: Option<Key>,
    (needs, rows_max): (CoverageNeeds, usize),
) -> NamePage {
    let names = ListedNames::Keys(bucket());
    let mut read = CoverageRead::plan(available, names, needs, after).expect("all are up");
    let mut names = Vec::new();
    while names.len() < rows_max {
        let row = read.next(rows_max - names.len()).await.expect("all are up");
        let Some(row) = row else { break };
        assert!(row.is_agreed);
        names.push(row.position);
    }
    (names, read.has_more())
}

/// Returns the costs of the former plan, of a list, and of a read of two replicas.
async fn costs(nodes: u64, rows_max: usize) -> [ListCost; 3] {
    let node = start(nodes);
    let available = &node.available;
    let former = list_all(&node, async |after, cost: &mut ListCost| {
        former_page(available, after, rows_max, cost)
    });
    let former = former.await;
    let list = list_all(&node, async |after, cost: &mut ListCost| {
        let bucket = bucket();
        let (page, asked) = drive(&node, available.list_keys(&bucket, after, rows_max)).await;
        cost.questions += asked;
        let page = page.expect("all are up");
        (page.keys, page.more)
    });
    let list = list.await;
    let quorum = list_all(&node, async |after, cost: &mut ListCost| {
        let (page, asked) = drive(&node, page_of(available, after, (QUORUM, rows_max))).await;
        cost.questions += asked;
        page
    });
    [former, list, quorum.await]
}

#[test]
fn list_asks_fewer_questions_and_reads_no_more_rows_than_by_the_plan_of_first_owners() {
    for (nodes, rows_max) in
        [3, 5, 8].into_iter().flat_map(|it| [100, 500, 10_000].map(|n| (it, n)))
    {
        let [former, list, quorum] = block_on(costs(nodes, rows_max));
        let per_row = |cost: ListCost| cost.rows as f64 / KEYS as f64;
        println!(
            "{nodes} nodes, pages of {rows_max}: questions {} before, {} now, {} of two replicas; \
             rows read per row {:.2}, {:.2}, {:.2}",
            former.questions,
            list.questions,
            quorum.questions,
            per_row(former),
            per_row(list),
            per_row(quorum)
        );
        assert!(list.questions <= former.questions && list.rows <= former.rows);
        assert!(nodes == 3 || list.questions < former.questions);
    }
}
