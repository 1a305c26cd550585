//! Any node takes any request, also while mastership moves.

use super::test_cluster::{TestCluster, wait};
use super::{bytes, reason, request, set};
use crate::{Flow, Node, SubmitResult};
use base::{
    Body, BucketName, Call, DirectoryCall, GroupId, Kind, NodeId, Outcome, Read, ReadLevel, Reason,
    Reply, Request, Result, RetryId, SessionCall, SessionId, Update,
};
use replication::group::Group;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// Clients that write at the same time.
const CLIENTS: u64 = 8;
/// Number of mastership transfers meanwhile.
const MOVES: usize = 6;
/// Requests of a connection before and after a transfer.
const STEPS: usize = 50;

async fn three() -> TestCluster {
    let cluster = TestCluster::new(3, 3).await;
    for call in [DirectoryCall::CreateType(Vec::new()), DirectoryCall::CreateBucket(Vec::new())] {
        ask(&node(&cluster, 0), Call::Directory(call)).await.expect("made, wherever the master is");
    }
    cluster
}

fn node(cluster: &TestCluster, nth: usize) -> Node {
    cluster.nodes[nth].clone().expect("it runs")
}

async fn ask(node: &Node, call: Call) -> Result<Reply> {
    node.handle(&base::Principal::Node, request(call)).await
}

/// Repeats a call while nothing was executed: what a master had not proposed when it went was not
/// executed.
async fn insist(node: &Node, call: Call) {
    while let Err(error) = ask(node, call.clone()).await {
        assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    }
}

async fn value(node: &Node, key: &str, level: ReadLevel) -> Result<Option<bytes::Bytes>> {
    match ask(node, Call::Read(Read::Get(bytes(key)), level)).await?.body {
        Body::Row(row) => Ok(row.map(|row| row.value)),
        other => panic!("a get is answered with a row, not {other:?}"),
    }
}

async fn add(node: &Node, key: &str, retry: Option<RetryId>) -> Result<i64> {
    let call = Call::Update(Update::Add { key: bytes(key), delta: 1 });
    match node.handle(&base::Principal::Node, Request { retry, ..request(call) }).await?.body {
        Body::Updated(Outcome::Number(sum)) => Ok(sum),
        other => panic!("a sum is answered, not {other:?}"),
    }
}

async fn open(node: &Node) -> SessionId {
    match ask(node, Call::Session(SessionCall::Open)).await.expect("it opens").body {
        Body::Session(session) => session,
        other => panic!("a session is answered, not {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_through_any_node_is_served_and_visible_at_all() {
    let cluster = three().await;
    for writer in 0..3 {
        let key = format!("k{writer}");
        let written =
            ask(&node(&cluster, writer), Call::Update(set(&key, "v"))).await.expect("taken");
        for reader in 0..3 {
            let reader = node(&cluster, reader);
            let seen = value(&reader, &key, ReadLevel::Consistent).await.expect("read");
            assert_eq!(seen, Some(bytes("v")));
        }
        for reader in 0..3 {
            cluster.applied(reader, written.index).await;
            let at = ReadLevel::AtLeast(written.index);
            let seen = value(&node(&cluster, reader), &key, at).await.expect("it is here");
            assert_eq!(seen, Some(bytes("v")));
        }
    }
    let count = Call::Read(Read::KeyCount, ReadLevel::Consistent);
    for nth in 0..3 {
        let counted = ask(&node(&cluster, nth), count.clone()).await.expect("a long read");
        assert_eq!(counted.body, Body::Count(3));
        let failed = Update::Assert { key: bytes("k0"), expected: None };
        let told = ask(&node(&cluster, nth), Call::Update(failed)).await;
        assert_eq!(reason(told), Reason::AssertionFailed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirected_client_gets_master_name_and_local_dirty_reads() {
    let cluster = three().await;
    let master = cluster.master().await;
    let other = node(&cluster, (master + 1) % 3);
    wait("word of the master", || other.remote_master(&Default::default())).await;
    for call in [
        Call::Update(set("k", "v")),
        Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent),
        Call::Session(SessionCall::Open),
    ] {
        let answer = other.submit(&mut Flow::with_redirects(base::Principal::Node), request(call));
        let SubmitResult::Ready(Err(error)) = answer else { panic!("it is told at once") };
        assert_eq!(error.reason, Reason::NotMaster);
        let place = other.placement(&Default::default()).expect("it is here");
        assert_eq!(Some(error.text()), place.master);
    }
    let dirty = request(Call::Read(Read::Get(bytes("k")), ReadLevel::Dirty));
    let answer = other.submit(&mut Flow::with_redirects(base::Principal::Node), dirty);
    assert!(matches!(answer, SubmitResult::Ready(Ok(_))));
    let (there, mut flow) = (node(&cluster, master), Flow::with_redirects(base::Principal::Node));
    let answer = there.submit(&mut flow, request(Call::Update(set("k", "v"))));
    there.router.wait_reply(answer).await.expect("it is the master");
}

/// Hands a group over, as soon as the other node has been heard lately.
async fn hand_over_soon(group: &Group, to: NodeId) {
    while let Err(error) = group.hand_over(to) {
        assert_eq!(error.reason, Reason::Overloaded, "{error}");
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_order_holds_across_mastership_moves() {
    let cluster = three().await;
    let first = cluster.master().await;
    let (mut flow, here) = (Flow::of(base::Principal::Node), node(&cluster, first));
    for round in 0..MOVES {
        let mut pending = Vec::new();
        let (mut elsewhere, mut step) = (0, 0);
        while elsewhere < STEPS {
            step += 1;
            if step == STEPS {
                let to = cluster.ids[(first + 1 + round % 2) % 3];
                hand_over_soon(&cluster.group(first), to).await;
            }
            let value = format!("{round}.{step}");
            // As a front-end does it: what comes later is waited for with everything before.
            match here.submit(&mut flow, request(Call::Update(set("k", &value)))) {
                SubmitResult::Later(answer) | SubmitResult::Independent(_, answer) => {
                    for ticket in pending.drain(..) {
                        // What was not proposed before it went did not happen; nothing is in doubt.
                        if let Err(error) = here.wait_decided(ticket).await {
                            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
                        }
                    }
                    answer.await.expect("it is passed on");
                    elsewhere += 1;
                }
                SubmitResult::Pending(ticket, Ok(_)) => pending.push(ticket),
                SubmitResult::Pending(_, Err(error)) | SubmitResult::Ready(Err(error)) => {
                    panic!("{error}")
                }
                SubmitResult::Ready(Ok(reply)) => panic!("an update waits: {reply:?}"),
            }
            // On a busy machine the move may take longer than it takes to fill the queue.
            match pending.len() % 1_000 {
                999 => tokio::time::sleep(Duration::from_millis(1)).await,
                _ => tokio::task::yield_now().await,
            }
        }
        let read = request(Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent));
        let seen = here.submit(&mut flow, read);
        let Body::Row(Some(row)) = here.router.wait_reply(seen).await.expect("read").body else {
            panic!("it was written")
        };
        assert_eq!(row.value, bytes(&format!("{round}.{step}")), "the last one wins");
        // Back, so that the next round begins here.
        while !cluster.group(first).leadership.is_master() {
            let _ = cluster.group(cluster.master().await).hand_over(cluster.ids[first]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_clear_is_visible_at_every_node_under_any_masters() {
    let cluster = three().await;
    let directory = |nth: usize| {
        node(&cluster, nth).router.locator.groups.find(GroupId(0)).expect("it is there")
    };
    for round in 0..12 {
        // The directory's master and the data's are another pair every time.
        let from = wait("a directory's master", || {
            (0..3).find(|nth| directory(*nth).leadership.is_master())
        });
        let to = cluster.ids[round % 3];
        let _ = directory(from.await).hand_over(to);
        let _ = cluster.group(cluster.master().await).hand_over(cluster.ids[round / 3 % 3]);
        let at = |step: usize| node(&cluster, (round + step) % 3);
        insist(&at(0), Call::Update(set("gone", "v"))).await;
        ask(&at(1), Call::Directory(DirectoryCall::ClearBucket)).await.expect("cleared");
        let seen = value(&at(2), "gone", ReadLevel::Consistent).await.expect("read");
        assert_eq!(seen, None, "round {round}: it was cleared before it was asked for");
        insist(&at(3), Call::Update(set("kept", "v"))).await;
        for step in 0..3 {
            let seen = value(&at(step), "kept", ReadLevel::Consistent).await.expect("read");
            assert_eq!(seen, Some(bytes("v")), "round {round}: it was written behind the clear");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn created_bucket_is_immediately_usable_at_every_node() {
    let cluster = three().await;
    for round in 0..12 {
        let bucket = BucketName::parse(&format!("b{round}")).expect("a name");
        let here = |call| Request { bucket: bucket.clone(), call, retry: None };
        let at = |step: usize| node(&cluster, (round + step) % 3);
        let none = at(0).handle(&base::Principal::Node, here(Call::Update(set("k", "v")))).await;
        assert_eq!(reason(none), Reason::NoSuchBucket);
        let make = Call::Directory(DirectoryCall::CreateBucket(Vec::new()));
        at(1).handle(&base::Principal::Node, here(make)).await.expect("made");
        at(2)
            .handle(&base::Principal::Node, here(Call::Update(set("k", "v"))))
            .await
            .expect("it is there");
        let read = Call::Read(Read::KeyCount, ReadLevel::Consistent);
        assert_eq!(
            at(0).handle(&base::Principal::Node, here(read)).await.expect("read").body,
            Body::Count(1)
        );
    }
}

/// One client: adds to its own counter through one node after the other, and reads it through
/// another yet. Gives how many additions were acknowledged, and how many are in doubt.
async fn client(cluster: Arc<TestCluster>, number: u64, ends: Arc<AtomicBool>) -> (u64, u64) {
    let key = format!("n{number}");
    let session = match number % 2 {
        0 => Some(open(&node(&cluster, number as usize % 3)).await),
        _ => None,
    };
    let (mut acknowledged, mut in_doubt) = (0, 0);
    let mut attempt = 0;
    while !ends.load(Ordering::Relaxed) {
        attempt += 1;
        let retry = session.map(|session| RetryId { session, number: attempt });
        let mut through = number as usize + attempt as usize;
        loop {
            match add(&node(&cluster, through % 3), &key, retry).await {
                Ok(sum) => {
                    acknowledged += 1;
                    let sum = sum as u64;
                    assert!(sum >= acknowledged && sum <= acknowledged + in_doubt, "{key}: {sum}");
                    break;
                }
                // Its number makes a repeated attempt apply once.
                Err(error) if retry.is_some() && error.kind() != Kind::Invalid => {}
                Err(error) if error.kind() == Kind::Unavailable => {}
                Err(error) => {
                    assert_eq!(error.kind(), Kind::Unknown, "{error}");
                    in_doubt += 1;
                    break;
                }
            }
            through += 1;
        }
        let reader = node(&cluster, (through + 1) % 3);
        if let Ok(seen) = value(&reader, &key, ReadLevel::Consistent).await {
            let seen: u64 = seen.map_or(0, |text| {
                std::str::from_utf8(&text).expect("text").parse().expect("a number")
            });
            assert!(seen >= acknowledged, "{key}: {seen} seen, {acknowledged} acknowledged");
            assert!(seen <= acknowledged + in_doubt, "{key}: {seen} seen");
        }
    }
    (acknowledged, in_doubt)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwarded_session_additions_apply_once_across_handovers() {
    let cluster = Arc::new(three().await);
    let ends = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(client(cluster.clone(), number, ends.clone())))
        .collect();
    for _ in 0..MOVES {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let from = cluster.master().await;
        let to = (from + 1) % 3;
        if cluster.group(from).hand_over(cluster.ids[to]).is_ok() {
            wait("the next master", || cluster.group(to).leadership.is_master().then_some(()))
                .await;
        }
    }
    ends.store(true, Ordering::Relaxed);
    let mut total = 0;
    for (number, client) in clients.into_iter().enumerate() {
        let (acknowledged, in_doubt) = client.await.expect("no client panics");
        let key = format!("n{number}");
        let seen = value(&node(&cluster, number % 3), &key, ReadLevel::Consistent).await;
        let seen = seen.expect("read").map_or(0, |text| {
            std::str::from_utf8(&text).expect("text").parse::<u64>().expect("a number")
        });
        assert!(
            (acknowledged..=acknowledged + in_doubt).contains(&seen),
            "{key}: {acknowledged} acknowledged, {in_doubt} in doubt, {seen} there"
        );
        assert!(number % 2 == 1 || seen == acknowledged, "{key}: a number applies once");
        total += acknowledged;
    }
    assert!(total > CLIENTS, "they got somewhere: {total}");
    let passed_on =
        |nth: usize| node(&cluster, nth).router.metrics.forwarded_out.load(Ordering::Relaxed);
    assert!((0..3).map(passed_on).sum::<u64>() > total / 2, "two of three requests go elsewhere");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn request_waits_for_election_and_fails_without_majority() {
    let mut cluster = three().await;
    let master = cluster.master().await;
    let other = node(&cluster, (master + 1) % 3);
    ask(&other, Call::Update(set("before", "1"))).await.expect("taken");
    cluster.stop(master).await;
    ask(&other, Call::Update(set("after", "2"))).await.expect("nobody told it to try again");
    let seen = value(&other, "before", ReadLevel::Consistent).await.expect("read");
    assert_eq!(seen, Some(bytes("1")));
    // The ring is the first node's alone: that it was looked for long enough takes a moment.
    wait("a node that is ready", || other.ready().then_some(())).await;
    // Without a majority it is said what is missing.
    let last = (master + 2) % 3;
    let remaining = if cluster.group(last).leadership.is_master() { 1 } else { 2 };
    let (stays, goes) = match remaining {
        1 => ((master + 1) % 3, last),
        _ => (last, (master + 1) % 3),
    };
    drop(other);
    cluster.stop(goes).await;
    let stays = node(&cluster, stays);
    let told = ask(&stays, Call::Update(set("k", "v"))).await.expect_err("there is no majority");
    assert_eq!(told.kind(), Kind::Unavailable, "{told}");
    assert!(!stays.ready());
    value(&stays, "before", ReadLevel::Dirty).await.expect("it has that");
}
