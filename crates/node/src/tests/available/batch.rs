//! Batches: several keys changed by one request, each by itself.

use super::three::three;
use super::{assert_refused, bucket, get, live_values};
use crate::Node;
use crate::tests::many::ask;
use crate::tests::{Place, bytes, set};
use base::limits::VALUE_BYTES_MAX;
use base::request::{Expiry, OnMissing, SequenceMode};
use base::{
    Body, BucketName, Call, Error, Outcome, Reason, Request, Result, RetryId, SessionId, Update,
};

fn delete(key: &str, missing: OnMissing) -> Update {
    Update::Delete { key: bytes(key), missing }
}

fn sequence(steps: Vec<Update>, mode: SequenceMode) -> Call {
    Call::Update(Update::Sequence { steps, mode })
}

async fn batch(node: &Node, steps: Vec<Update>) -> Result<Vec<Result<Outcome>>> {
    match ask(node, &bucket(), sequence(steps, SequenceMode::Batch)).await?.body {
        Body::Updated(Outcome::Steps(outcomes)) => Ok(outcomes),
        other => panic!("a batch gives what came of its steps, not {other:?}"),
    }
}

#[tokio::test]
async fn batch_steps_are_answered_in_order_and_applied_in_order_per_key() {
    let place = Place::new();
    let node = place.start().await;
    let sets = (0..200).map(|number| set(&format!("k{number}"), "v")).collect();
    let done = batch(&node, sets).await.expect("all are taken");
    assert_eq!(done, vec![Ok(Outcome::Done); 200]);
    let existed = |existed| Ok(Outcome::Existed(existed));
    for _ in 0..20 {
        let skipped = OnMissing::Skip;
        let steps = vec![
            delete("k7", skipped),
            delete("k7", skipped),
            set("k7", "1"),
            set("k7", "2"),
            delete("nowhere", skipped),
            delete("k7", skipped),
            set("k7", "3"),
        ];
        let found = batch(&node, steps).await.expect("all are taken");
        let (done, removed) = (Ok(Outcome::Done), existed(false));
        let expected = [
            existed(true),
            removed.clone(),
            done.clone(),
            done.clone(),
            removed,
            existed(true),
            done,
        ];
        assert_eq!(found, expected);
        assert_eq!(live_values(&node, "k7").await, [bytes("3")], "nothing stands beside it");
    }
    assert_eq!(batch(&node, Vec::new()).await, Ok(Vec::new()));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn invalid_batch_changes_nothing_and_late_failure_keeps_earlier_steps() {
    let place = Place::new();
    let node = place.start().await;
    let large = Update::Set {
        key: bytes("b"),
        value: vec![0; VALUE_BYTES_MAX + 1].into(),
        expiry: Expiry::Default,
    };
    assert_refused(batch(&node, vec![set("a", "1"), large]).await, Reason::TooLarge);
    for other in [Update::Nop, Update::Add { key: bytes("b"), delta: 1 }] {
        assert_refused(batch(&node, vec![set("a", "1"), other]).await, Reason::NotSupported);
    }
    let nested = Update::Sequence { steps: vec![set("a", "1")], mode: SequenceMode::Batch };
    assert_refused(batch(&node, vec![nested]).await, Reason::NotSupported);
    for mode in [SequenceMode::AllOrNothing, SequenceMode::Synced, SequenceMode::EachAlone] {
        let together = sequence(vec![set("a", "1"), set("b", "2")], mode);
        assert_refused(ask(&node, &bucket(), together).await, Reason::NotSupported);
    }
    let call = sequence(vec![set("a", "1"), set("b", "2")], SequenceMode::Batch);
    let retry = Some(RetryId { session: SessionId(1), number: 1 });
    assert_refused(
        node.handle(&base::Principal::Node, Request { bucket: bucket(), call, retry }).await,
        Reason::NotSupported,
    );
    assert_eq!(get(&node, "a").await, Ok(None));
    let late = vec![set("a", "1"), delete("nowhere", OnMissing::Fail), set("a", "2")];
    assert_eq!(batch(&node, late).await, Err(Error::key(Reason::NotFound, &bytes("nowhere"))));
    assert_eq!(get(&node, "a").await, Ok(Some(bytes("1"))), "what came before it is done");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn batch_in_consistent_bucket_is_atomic() {
    let place = Place::new();
    let node = place.start().await;
    let name = BucketName::default();
    let failing = vec![set("a", "1"), delete("nowhere", OnMissing::Fail)];
    assert_refused(
        ask(&node, &name, sequence(failing, SequenceMode::Batch)).await,
        Reason::NotFound,
    );
    let there = Call::Update(delete("a", OnMissing::Skip));
    let found = ask(&node, &name, there).await.expect("an answer").body;
    assert_eq!(found, Body::Updated(Outcome::Existed(false)), "all or nothing");
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batch_through_any_node_is_visible_at_all_nodes() {
    let mut cluster = three().await;
    for taker in 0..3 {
        let keys: Vec<String> = (0..40).map(|key| format!("{taker}-{key}")).collect();
        let write = |value| keys.iter().map(move |key| set(key, value));
        let twice = write("old").chain(write("new")).collect();
        batch(cluster.node(taker), twice).await.expect("all are taken");
        for key in &keys {
            for reader in 0..3 {
                assert_eq!(live_values(cluster.node(reader), key).await, [bytes("new")], "{key}");
            }
        }
    }
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}
