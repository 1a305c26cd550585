//! Bridges between the feeds of two nodes: what a comparison notes at both.

use super::test_node::{HERE, TestNode, bucket, row};
use crate::key_owners::RingTarget;
use crate::message::VnodeQuestion;
use base::mutants::MutantList as _;
use base::{Key, NodeId, Partition};
use change_feed::{Bridge, VnodePosition};
use logic::sync::SyncAnswer;
use runtime::mutants::Mutant;
use std::pin::pin;
use vnode_rows::feed_rows::{BridgePlace, ComparedSlots, FeedQuestion, last_bridge};
use vnode_rows::slots::SlotSpan;

const OTHER: NodeId = NodeId(2);

fn at(batch: u64) -> VnodePosition {
    VnodePosition { life: 1, batch, ordinal: 0 }
}

/// Outcome of a comparison during which this node is written to.
#[derive(Debug, PartialEq, Eq)]
struct NotedBridges {
    /// Bridge that this node has noted.
    here: Option<Bridge>,
    /// Bridge that it has told the other node of.
    told: Option<FeedQuestion>,
    /// Positions of this node before and after.
    before: VnodePosition,
    after: VnodePosition,
}

async fn build_feed(node: &TestNode) {
    let store = &node.available.vnode_store;
    store.begin_feed(&bucket(), 3).expect("taken");
    node.sync().await;
    while let Some(page) = store.read_feed_page(&bucket()).expect("memory") {
        store.write_feed_page(&bucket(), page).expect("taken");
        node.sync().await;
    }
}

/// Compares a partition with another node that has the same rows, while a row comes here.
async fn compare_beside_a_write(has_feed: bool) -> NotedBridges {
    let node = TestNode::start(3);
    if has_feed {
        build_feed(&node).await;
    }
    node.put_row(&Key::from_static(b"first"), &row(2, 1, "v")).await;
    let ring = node.available.schema.ring().expect("a ring");
    let span = SlotSpan::new(&ring, Partition(0));
    let before = node.available.vnode_store.feed_position();
    let target = RingTarget { node: OTHER, epoch: ring.epoch() };
    let mut told = None;
    {
        let mut comparison = pin!(node.available.compare_copies((span, 3), target));
        loop {
            tokio::select! {
                biased;
                summary = &mut comparison => {
                    assert!(summary.expect("it is answered").is_complete);
                    break;
                }
                () = node.sync() => {}
            }
            for sent in node.take_questions() {
                let mut fields = Vec::new();
                match &sent.question {
                    VnodeQuestion::Feed(FeedQuestion::Position) => at(50).put(&mut fields),
                    VnodeQuestion::Compare { .. } => {
                        node.put_row(&Key::from_static(b"second"), &row(2, 2, "w")).await;
                        SyncAnswer::Same.write(&mut fields);
                    }
                    VnodeQuestion::Feed(question) => {
                        told = Some(question.clone());
                        at(60).put(&mut fields);
                    }
                    other => panic!("nobody asks for {other:?}"),
                }
                node.answer(&sent, &fields);
            }
        }
    }
    node.sync().await;
    let after = node.available.vnode_store.feed_position();
    let place = BridgePlace { peer: OTHER, compared: ComparedSlots::new(span, 3) };
    let here = last_bridge(&*node.available.trees.snapshot(), place).expect("memory");
    NotedBridges { here, told, before, after }
}

#[tokio::test]
async fn bridges_begin_before_a_comparison_and_end_after_it() {
    let noted = compare_beside_a_write(true).await;
    let NotedBridges { before, after, .. } = noted;
    assert!(before < after, "a row came");
    assert_eq!(noted.here, Some(Bridge { peer: at(60), own: before }));
    let told = match noted.told {
        Some(FeedQuestion::Bridge { peer, own, peer_position, .. }) => (peer, own, peer_position),
        other => panic!("a bridge, not {other:?}"),
    };
    assert_eq!(told, (HERE, at(50), after));
}

#[test]
fn bridge_that_begins_at_the_end_is_noticed() {
    let noted = Mutant::NoteBridgeAtEnd.while_active(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(compare_beside_a_write(true))
    });
    assert!(noted.here.is_some_and(|bridge| bridge.own > noted.before), "{noted:?}");
}

#[tokio::test]
async fn without_feeds_no_question_about_them_is_asked() {
    let noted = compare_beside_a_write(false).await;
    assert_eq!((noted.here, noted.told), (None, None));
}
