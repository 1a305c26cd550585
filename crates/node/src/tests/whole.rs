//! Requests of front-ends with guarantees of their own: ranges at one moment, sequences that are
//! synced whatever their bucket's policy, and the placement of a bucket.

use super::{Place, bytes, read, reason, set, update};
use crate::Node;
use base::limits::{ROW_OVERHEAD_BYTES, VALUES_BYTES_MAX, WHOLE_RANGE_BYTES_MAX};
use base::range::Extent;
use base::request::SequenceMode;
use base::{
    Body, BucketName, Call, DirectoryCall, Page, Range, Read, Reason, Request, RowContent, Update,
};
use replica_host::housekeeping::LogHeadRequests;

async fn page(node: &Node, range: Range) -> base::Result<Page> {
    match read(node, Read::Range(range)).await?.body {
        Body::Page(page) => Ok(page),
        other => panic!("a range is answered with a page, not {other:?}"),
    }
}

#[tokio::test]
async fn whole_range_is_a_single_page_or_too_large() {
    let place = Place::new();
    let node = place.start().await;
    let value = "v".repeat(8 << 20);
    for key in ["a", "b", "c"] {
        update(&node, set(key, &value)).await.expect("written");
    }
    let whole = Range { extent: Extent::Whole, ..Range::default() };
    assert!(page(&node, Range::default()).await.expect("a page").more, "a page ends early");
    let all = page(&node, whole.clone()).await.expect("it fits");
    assert_eq!((all.entries.len(), all.more), (3, false));
    let limit = Range { rows_max: Some(2), ..whole.clone() };
    let first = page(&node, limit).await.expect("it fits");
    assert_eq!((first.entries.len(), first.more), (2, false), "that much was asked for");
    // A row more fits behind so many bytes, and none behind one byte more.
    let rest = WHOLE_RANGE_BYTES_MAX - 3 * value.len() - 4 * (1 + ROW_OVERHEAD_BYTES);
    update(&node, set("e", "one more")).await.expect("written");
    for (bytes, fits) in [(rest - 1, true), (rest, false)] {
        update(&node, set("d", &value[..bytes])).await.expect("written");
        match page(&node, whole.clone()).await {
            Ok(all) => assert_eq!((all.entries.len(), fits), (5, true)),
            Err(error) => assert_eq!((error.reason, fits), (Reason::TooLarge, false)),
        }
    }
    let keys = Range { want: RowContent::Keys, ..whole };
    let keys = page(&node, keys).await.expect("keys alone fit").entries;
    assert_eq!(keys.len(), 5);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn multi_get_value_bytes_are_bounded() {
    let place = Place::new();
    let node = place.start().await;
    let value = "v".repeat(8 << 20);
    update(&node, set("a", &value)).await.expect("written");
    update(&node, set("b", "one more")).await.expect("written");
    let fit = VALUES_BYTES_MAX / value.len();
    let mut keys = vec![bytes("a"); fit];
    let reads = |keys: &[bytes::Bytes]| {
        [
            Read::MultiGet(keys.to_vec()),
            Read::MultiGetAll(keys.to_vec()),
            Read::Exists(keys.to_vec()),
        ]
    };
    for one in reads(&keys) {
        read(&node, one).await.expect("it fits");
    }
    let step = |keys: &[bytes::Bytes]| Update::Read(Read::MultiGet(keys.to_vec()));
    update_read(&node, step(&keys)).await.expect("it fits in a sequence, too");
    keys.push(bytes("b"));
    let [many, all, exists] = reads(&keys);
    assert_eq!(reason(read(&node, many).await), Reason::TooLarge);
    assert_eq!(reason(read(&node, all).await), Reason::TooLarge);
    assert_eq!(reason(update_read(&node, step(&keys)).await), Reason::TooLarge);
    read(&node, exists).await.expect("no value is answered");
    node.stop().await.expect("it stops");
}

/// A read among the steps of a sequence.
async fn update_read(node: &Node, step: Update) -> base::Result<base::Outcome> {
    update(node, Update::Sequence { steps: vec![step], mode: SequenceMode::AllOrNothing }).await
}

#[tokio::test]
async fn synced_sequence_is_synced_in_an_interval_bucket() {
    let place = Place::new();
    let settings = crate::NodeSettings { sync_interval_ms: 60_000, ..place.settings() };
    let node = Node::start(settings).await.expect("it starts");
    let bucket = BucketName::parse("relaxed").expect("a name");
    let ask = |call| Request { bucket: bucket.clone(), call, retry: None };
    let changes = vec![("sync".to_string(), "interval".to_string())];
    let created = node
        .handle(&base::Principal::Node, ask(Call::Directory(DirectoryCall::CreateBucket(changes))))
        .await;
    created.expect("made");
    let syncs = || node.status().log.syncs;
    let sequence = |mode| ask(Call::Update(Update::Sequence { steps: vec![set("k", "v")], mode }));
    let before = syncs();
    node.handle(&base::Principal::Node, sequence(SequenceMode::AllOrNothing))
        .await
        .expect("applied");
    // What is said again for the log's own sake waits for none, either.
    node.housekeeper.request_log_heads(&mut LogHeadRequests::default());
    node.handle(&base::Principal::Node, sequence(SequenceMode::AllOrNothing))
        .await
        .expect("applied");
    assert_eq!(syncs(), before, "an interval bucket waits for no sync");
    node.handle(&base::Principal::Node, sequence(SequenceMode::Synced)).await.expect("applied");
    assert!(syncs() > before, "a synced sequence waits for one");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn failing_step_undoes_a_synced_sequence() {
    let place = Place::new();
    let node = place.start().await;
    let steps = vec![set("a", "1"), Update::AssertExists { key: bytes("none") }];
    let sequence = Update::Sequence { steps, mode: SequenceMode::Synced };
    assert_eq!(reason(update(&node, sequence).await), Reason::AssertionFailed);
    assert_eq!(super::get(&node, "a").await, None);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn bucket_place_names_master_by_its_configured_name() {
    let place = Place::new();
    let settings = crate::NodeSettings { name: "arakoon_0".into(), ..place.settings() };
    let node = Node::start(settings).await.expect("it starts");
    let before = node.placement(&BucketName::default()).expect("it is here");
    assert_eq!(
        (before.node_name.as_str(), before.master.as_deref()),
        ("arakoon_0", Some("arakoon_0"))
    );
    assert_eq!((before.role, before.members.len()), ("master", 1));
    assert_eq!(before.members[0].name, "arakoon_0");
    update(&node, set("k", "v")).await.expect("written");
    let after = node.placement(&BucketName::default()).expect("it is here");
    assert!(after.applied > before.applied && after.members[0].index == after.applied);
    let none = BucketName::parse("none").expect("a name");
    assert_eq!(reason(node.placement(&none)), Reason::NoSuchBucket);
    node.stop().await.expect("it stops");
}
