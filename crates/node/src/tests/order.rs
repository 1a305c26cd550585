//! Order of updates as one connection, and many, may see it.

use super::many::Cluster;
use super::{Place, bytes, get, request, set, update};
use crate::{Flow, SubmitResult};
use base::{Body, Call, GroupId, LogIndex, Outcome, Read, ReadLevel, Reason, Request, Update};

#[tokio::test]
async fn connection_sees_its_undecided_updates_and_waits_for_them() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = Flow::of(base::Principal::Node);
    let written = node.submit(&mut flow, request(Call::Update(set("k", "1"))));
    let SubmitResult::Pending(first, Ok(_)) = written else { panic!("an update waits") };
    let read = Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent);
    let seen = node.submit(&mut flow, request(read.clone()));
    let SubmitResult::Pending(ticket, Ok(reply)) = seen else { panic!("the read waits with it") };
    assert!(ticket.index >= first.index);
    let Body::Row(Some(row)) = reply.body else { panic!("the row is there") };
    assert_eq!(row.value, bytes("1"));
    // Another connection does not see what is not decided.
    let other = node.submit(&mut Flow::of(base::Principal::Node), request(read));
    let SubmitResult::Ready(Ok(reply)) = other else { panic!("it does not wait") };
    assert_eq!(reply.body, Body::Row(None));
    node.wait_decided(ticket).await.expect("it is decided");
    assert_eq!(get(&node, "k").await, Some(bytes("1")));
    node.stop().await.expect("it stops");
}

/// Indexes of different groups can't be compared: that of the last update says nothing about those
/// before it.
#[tokio::test]
async fn connection_sees_its_undecided_updates_in_every_group() {
    let cluster = Cluster::new(1).await;
    cluster.create(Some(1), &[]).await;
    cluster.master(2).await;
    let node = cluster.node(0);
    let buckets =
        [cluster.bucket("one", GroupId(1)).await, cluster.bucket("two", GroupId(2)).await];
    for row in 0..20 {
        cluster.put(0, &buckets[0], &format!("row{row}"), "x").await;
    }
    let call_of =
        |bucket: &base::BucketName, call| Request { bucket: bucket.clone(), call, retry: None };
    let mut flow = Flow::of(base::Principal::Node);
    for bucket in &buckets {
        let written = node.submit(&mut flow, call_of(bucket, Call::Update(set("k", "1"))));
        let SubmitResult::Pending(_, Ok(_)) = written else { panic!("an update waits") };
    }
    for bucket in &buckets {
        let read = Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent);
        let seen = node.submit(&mut flow, call_of(bucket, read));
        let SubmitResult::Pending(_, Ok(reply)) = seen else { panic!("it waits with the update") };
        let Body::Row(Some(row)) = reply.body else { panic!("the row is there") };
        assert_eq!(row.value, bytes("1"));
    }
}

#[tokio::test]
async fn error_based_on_undecided_updates_waits_for_them() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = Flow::of(base::Principal::Node);
    node.submit(&mut flow, request(Call::Update(set("k", "1"))));
    let assert = Update::Assert { key: bytes("k"), expected: None };
    let failed = node.submit(&mut Flow::of(base::Principal::Node), request(Call::Update(assert)));
    let SubmitResult::Pending(_, Err(error)) = failed else { panic!("it waits") };
    assert_eq!(error.reason, Reason::AssertionFailed);
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_additions_apply_once_and_share_log_entries() {
    let place = Place::new();
    let node = place.start().await;
    let adds = (0..1_000).map(|_| {
        let node = node.clone();
        tokio::spawn(async move {
            update(&node, Update::Add { key: bytes("n"), delta: 1 }).await.expect("it adds")
        })
    });
    let mut sums = Vec::new();
    for add in adds.collect::<Vec<_>>() {
        let Outcome::Number(sum) = add.await.expect("it ends") else { panic!("a number") };
        sums.push(sum);
    }
    sums.sort_unstable();
    assert!(sums.into_iter().eq(1..=1_000), "each sum was answered once");
    let applied = node.status().groups[1].applied;
    assert!(applied < LogIndex(500), "updates share values: {applied} for a thousand");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn reads_at_an_index_are_refused_until_it_is_applied() {
    let place = Place::new();
    let node = place.start().await;
    let index = node
        .handle(&base::Principal::Node, request(Call::Update(set("k", "1"))))
        .await
        .expect("a set")
        .index;
    let at = |index| {
        let read = Call::Read(Read::Get(bytes("k")), ReadLevel::AtLeast(index));
        node.handle(&base::Principal::Node, request(read))
    };
    assert_eq!(at(index).await.expect("applied").index, index);
    assert_eq!(super::reason(at(index.next()).await), Reason::StaleReplica);
    node.stop().await.expect("it stops");
}
