//! Laws of feeds: whatever changes rows and feeds, and wherever a crash cuts the log, the last
//! entry of each key tells of its row; and no position is used twice.

use super::logged_node::{LoggedNode, block_on, policy, remote_row, write};
use crate::vnode_ops::{KeyRef, SeenVersions, WritePolicy};
use base::mutants::MutantList;
use base::{BucketName, Content, Key};
use change_feed::{SlotSet, VnodePosition};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use runtime::mutants::Mutant;
use runtime::world;
use vnode_rows::feed_rows::{
    DeadEntryBounds, FeedAnswer, FeedDifference, FeedSection, VnodeFeedPage, VnodeFeedPhase,
    VnodeFeedQuery, feed_differences, read_feed_answer,
};
use vnode_rows::hash_trees::hash;
use vnode_rows::layout::StoredValue;

/// Something that happens to a node with feeds.
#[derive(Clone, Debug)]
enum FeedStep {
    /// A write of a value, or of a tombstone.
    Write(u8, bool),
    /// The row of another node, its write of this count.
    Merge(u8, u64),
    /// A value that expires is written, and removed once it has.
    Expire(u8),
    Reap(u8),
    HandOff(u8),
    Begin,
    Drop,
    /// A page of a build or a removal.
    Work,
    /// A page of retention, by which everything is old.
    Retain,
    Apply,
    Restart,
}

fn feed_event() -> impl Strategy<Value = FeedStep> {
    let key = 0_u8..5;
    prop_oneof![
        8 => (key.clone(), any::<bool>()).prop_map(|(key, is_put)| FeedStep::Write(key, is_put)),
        6 => (key.clone(), 1_u64..9).prop_map(|(key, count)| FeedStep::Merge(key, count)),
        2 => key.clone().prop_map(FeedStep::Expire),
        3 => key.clone().prop_map(FeedStep::Reap),
        2 => key.prop_map(FeedStep::HandOff),
        4 => Just(FeedStep::Begin),
        1 => Just(FeedStep::Drop),
        24 => Just(FeedStep::Work),
        3 => Just(FeedStep::Retain),
        4 => Just(FeedStep::Apply),
        1 => Just(FeedStep::Restart),
    ]
}

fn bucket() -> BucketName {
    BucketName::new(BucketName::AVAILABLE, "b").expect("a name")
}

fn key_ref(number: u8) -> KeyRef {
    KeyRef::new(bucket(), vec![b'k', number].into())
}

fn value(text: &str) -> StoredValue {
    let content = Content::plain(text.to_string().into());
    StoredValue::new(Some(&content), world::unix_ms())
}

/// Node with a feed.
struct FedNode {
    node: LoggedNode,
    incarnation: u64,
}

impl FedNode {
    fn start() -> FedNode {
        FedNode { node: LoggedNode::start(), incarnation: 1 }
    }

    /// Takes a step of a build or a removal. Returns false if there is none.
    fn work(&self) -> bool {
        let store = self.node.store();
        let page = store.read_feed_page(&bucket()).expect("memory");
        let Some(page) = page else { return false };
        store.write_feed_page(&bucket(), page).expect("taken");
        true
    }

    /// Builds the feed.
    async fn settle(&self) {
        self.node.run().await;
        while self.work() {
            self.node.run().await;
        }
    }

    async fn take(mut self, event: FeedStep) -> FedNode {
        let store = self.node.store().clone();
        match event {
            FeedStep::Write(key, is_put) => {
                let value = if is_put { value("v") } else { StoredValue::new(None, 5) };
                let seen = SeenVersions::Everything;
                write(&store, &key_ref(key), value, seen).expect("taken");
            }
            FeedStep::Merge(key, count) => {
                let row = remote_row(2, count, value(&count.to_string()));
                store.merge(&key_ref(key), row, policy(), None).expect("taken");
            }
            FeedStep::Expire(key) => {
                let value = value("v").with_expiry(world::unix_ms() + 1);
                write(&store, &key_ref(key), value, SeenVersions::Everything).expect("taken");
                self.node.node.pass_ms(2);
                store.expire(&key_ref(key), policy()).expect("taken");
            }
            FeedStep::Reap(key) => self.reap(&key_ref(key)).await,
            FeedStep::HandOff(key) => {
                self.node.run().await;
                if let Some(row) = store.read(&key_ref(key)).expect("memory") {
                    let rows = vec![(key_ref(key).row_key(), row)];
                    self.node.node.available.remove_rows(rows).expect("taken");
                }
            }
            FeedStep::Begin => drop(store.begin_feed(&bucket(), 3).expect("taken")),
            FeedStep::Drop => store.drop_feed(&bucket()).expect("taken"),
            FeedStep::Work => drop(self.work()),
            FeedStep::Retain => {
                let bounds = DeadEntryBounds { old_ms: u64::MAX, excess_bytes: 0 };
                let page = store.read_dead_entries(&bucket(), VnodePosition::START, bounds);
                store.remove_dead_entries(&bucket(), page.expect("memory")).expect("taken");
            }
            FeedStep::Apply => self.node.run().await,
            FeedStep::Restart => {
                self.incarnation += 1;
                self.node = self.node.restart(self.incarnation);
            }
        }
        self
    }

    async fn reap(&self, key_ref: &KeyRef) {
        self.node.run().await;
        let Some(row) = self.node.store().read(key_ref).expect("memory") else { return };
        let digest = hash(&key_ref.row_key(), &row).digest;
        let available = &self.node.node.available;
        let rows = vec![(key_ref.clone(), digest)];
        let reaped = available.check_tombstones(rows, available.schema.ring_epoch(), true);
        self.node.during(reaped).await.expect("no faults");
    }

    /// Reads the feed behind a position. `None`: it is not ready.
    fn page(&self, position: VnodePosition) -> Option<VnodeFeedPage> {
        let sections = vec![FeedSection { position, slots: SlotSet::all() }];
        let query = VnodeFeedQuery {
            sections,
            entries_max: 1_000,
            with_rows: false,
            of_former_owner: false,
        };
        let (snapshot, life) = (self.node.trees().snapshot(), self.node.store().life());
        match read_feed_answer(&*snapshot, life, &bucket(), &query).expect("memory") {
            FeedAnswer::Page(page) => Some(page),
            FeedAnswer::Absent | FeedAnswer::Building(..) => None,
        }
    }
}

fn events() -> impl Strategy<Value = Vec<FeedStep>> {
    prop::collection::vec(feed_event(), 10..80)
}

/// Runs a history; returns true if its feed got ready, and the differences after any record of the
/// log.
async fn history(events: Vec<FeedStep>) -> (bool, Vec<FeedDifference>) {
    let mut node = FedNode::start();
    for event in events {
        node = node.take(event).await;
    }
    node.settle().await;
    let (mut found, mut is_ready) = (Vec::new(), false);
    node.node.check_each_crash(|trees| {
        found.extend(feed_differences(&*trees.snapshot()).expect("memory"));
    });
    node.node
        .store()
        .with_feeds(|feeds| {
            is_ready = feeds.iter().any(|(_, record)| record.phase == VnodeFeedPhase::Ready);
        })
        .expect("memory");
    (is_ready, found)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(150)
    })]

    #[test]
    fn last_entry_of_each_key_tells_of_its_row_after_every_record_of_the_log(events in events()) {
        let (_, found) = block_on(history(events));
        prop_assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn feeds_of_histories_get_ready_and_merges_without_entries_are_noticed() {
    let mut runner = TestRunner::deterministic();
    let mut draw = || events().new_tree(&mut runner).expect("a history").current();
    let ready = (0..20).filter(|_| block_on(history(draw())).0).count();
    assert!(ready > 8, "{ready}");
    let is_noticed = |events| {
        let history = || block_on(history(events));
        !Mutant::MergeWithoutFeedEntry.while_active(history).1.is_empty()
    };
    assert!((0..60).any(|_| is_noticed(draw())));
}

/// Returns the keys that a reader gets behind the last page of a life that lost what it had shown.
async fn keys_after_a_loss_of_power() -> Vec<Key> {
    let mut node = FedNode::start();
    for event in [FeedStep::Write(0, true), FeedStep::Begin] {
        node = node.take(event).await;
    }
    node.settle().await;
    // A write with a sync takes all before it along.
    node = node.take(FeedStep::Write(1, true)).await;
    node.node.run().await;
    let unsynced = WritePolicy { sync: false, ..policy() };
    let merge = |node: &FedNode, key| {
        let row = remote_row(2, 1, value("v"));
        node.node.store().merge(&key_ref(key), row, unsynced, None).expect("taken");
    };
    merge(&node, 2);
    node.node.run().await;
    let page = node.page(VnodePosition::START).expect("it is ready");
    assert_eq!((page.entries.len(), page.is_level), (3, true));
    node = FedNode { node: node.node.lose_power(2), incarnation: 2 };
    merge(&node, 3);
    node.node.run().await;
    let page = node.page(page.end).expect("it is ready");
    page.entries.into_iter().map(|entry| entry.key).collect()
}

#[test]
fn change_after_a_loss_of_power_has_a_position_of_its_own() {
    assert_eq!(block_on(keys_after_a_loss_of_power()), [key_ref(3).key]);
    let keys = Mutant::ReuseFeedLife.while_active(|| block_on(keys_after_a_loss_of_power()));
    assert_eq!(keys, Vec::<Key>::new(), "the rule is what makes the difference");
}

#[test]
fn feed_that_begins_again_tells_readers_of_the_former_one() {
    block_on(async {
        let mut node = FedNode::start();
        for event in [FeedStep::Write(0, true), FeedStep::Begin] {
            node = node.take(event).await;
        }
        node.settle().await;
        let before = node.page(VnodePosition::START).expect("it is ready");
        assert_eq!(before.floor, VnodePosition::START);
        node = node.take(FeedStep::Drop).await;
        node.settle().await;
        assert_eq!(node.page(VnodePosition::START), None);
        node = node.take(FeedStep::Begin).await;
        node.settle().await;
        let after = node.page(VnodePosition::START).expect("it is ready");
        assert_eq!(after.entries.len(), 1);
        assert!(after.floor > before.end, "{:?} {:?}", after.floor, before.end);
    });
}
