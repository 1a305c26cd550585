//! Properties of a bucket that a move keeps, and the cancellation of a move.

use super::{MovePoint, all_rows, at_gate, begin, close_gate, filled, name, open_gate, rests};
use crate::tests::access::turn_on;
use crate::tests::many::{Cluster, ask};
use crate::tests::session_owners::{add_bob, limit_sessions};
use crate::tests::test_cluster::wait;
use crate::tests::{bytes, reason, set};
use base::request::Expiry;
use base::{
    Body, BucketName, BucketPlace, Call, DirectoryCall, GroupId, MoveStep, Outcome, Read,
    ReadLevel, Reason, Reply, Request, Result, RetryId, Row, SessionCall, SessionId, Update,
};

async fn directory(cluster: &Cluster, bucket: &BucketName, call: DirectoryCall) -> Result<Reply> {
    ask(cluster.node(0), bucket, Call::Directory(call)).await
}

async fn update(cluster: &Cluster, bucket: &BucketName, update: Update) -> Outcome {
    match ask(cluster.node(0), bucket, Call::Update(update)).await.expect("it goes").body {
        Body::Updated(outcome) => outcome,
        other => panic!("an outcome, not {other:?}"),
    }
}

async fn row(cluster: &Cluster, bucket: &BucketName, key: &str) -> Option<Row> {
    let call = Call::Read(Read::Get(bytes(key)), ReadLevel::Consistent);
    match ask(cluster.node(0), bucket, call).await.expect("it goes").body {
        Body::Row(row) => row,
        other => panic!("a row, not {other:?}"),
    }
}

async fn open(cluster: &Cluster, bucket: &BucketName) -> SessionId {
    let opened = ask(cluster.node(0), bucket, Call::Session(SessionCall::Open)).await;
    match opened.expect("open").body {
        Body::Session(session) => session,
        other => panic!("a session, not {other:?}"),
    }
}

async fn attempt(
    cluster: &Cluster,
    bucket: &BucketName,
    session: SessionId,
    number: u64,
) -> Result<Body> {
    let call = Call::Update(Update::Add { key: bytes("sum"), delta: 1 });
    let retry = Some(RetryId { session, number });
    let request = Request { bucket: bucket.clone(), call, retry };
    cluster.node(0).handle(&base::Principal::Node, request).await.map(|reply| reply.body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_move_keeps_the_count_of_the_bucket() {
    let (cluster, bucket) = filled(1).await;
    let changes = vec![("counted".to_string(), "true".to_string())];
    directory(&cluster, &bucket, DirectoryCall::AlterBucket(changes)).await.expect("altered");
    let mut sizes = Vec::new();
    for group in [1, 2, 1] {
        begin(&cluster, &bucket, group).await;
        rests(&cluster, &bucket, group).await;
        let node = cluster.node(0);
        wait("a complete count", || node.has_count(&bucket).then_some(())).await;
        update(&cluster, &bucket, set("row0003", "shorter")).await;
        let call = Call::Read(Read::KeyCount, ReadLevel::Consistent);
        sizes.push(ask(node, &bucket, call).await.expect("counted").body);
        // The count of the bucket that has left ends.
        wait("one count", || {
            let counts = [1, 2].map(|group| cluster.group(0, group).counted_buckets().len());
            (counts.iter().sum::<usize>() == 1).then_some(())
        })
        .await;
    }
    assert!(matches!(sizes[0], Body::Size { keys: 120, .. }), "{sizes:?}");
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
}

/// Waits until nothing of the move is left: no seal, no intake, no bucket to be dropped.
async fn tidy(cluster: &Cluster) {
    wait("tidiness", || {
        let node = cluster.node(0);
        let clean = |group: u32| {
            let marks = cluster.group(0, group).seals.all();
            marks.sealed.is_empty() && marks.intakes.len() <= 1
        };
        node.housekeeper.pacer.maintenance.raise();
        let dropped = node.router.directory.dropped_buckets().expect("readable");
        (clean(1) && clean(2) && dropped.is_empty()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_move_keeps_versions_ttls_and_sessions() {
    let (cluster, bucket) = filled(1).await;
    let session = open(&cluster, &bucket).await;
    let first = attempt(&cluster, &bucket, session, 7).await.expect("added");
    let short = Update::Set { key: bytes("t"), value: bytes("v"), expiry: Expiry::After(60_000) };
    update(&cluster, &bucket, short).await;
    let before = row(&cluster, &bucket, "row0003").await.expect("it is there");
    let last = row(&cluster, &bucket, "t").await.expect("it is there");
    begin(&cluster, &bucket, 2).await;
    rests(&cluster, &bucket, 2).await;
    all_rows(&cluster, &bucket).await;
    assert_eq!(row(&cluster, &bucket, "row0003").await.expect("it is there"), before);
    let left = row(&cluster, &bucket, "t").await.expect("it lives").expires_in_ms;
    assert!(left.is_some_and(|left| left > 30_000 && left <= 60_000), "{left:?}");
    assert_eq!(attempt(&cluster, &bucket, session, 7).await, Ok(first), "it was applied once");
    let second = attempt(&cluster, &bucket, session, 8).await.expect("added");
    assert_eq!(second, Body::Updated(Outcome::Number(2)));
    update(&cluster, &bucket, set("new", "v")).await;
    let new = row(&cluster, &bucket, "new").await.expect("it is there");
    assert!(new.version > last.version, "no version is given twice");
    // What was expected of a version that was seen before still holds, or does not.
    let stale = Update::AssertVersion { key: bytes("new"), version: Some(last.version) };
    let stale = ask(cluster.node(0), &bucket, Call::Update(stale)).await;
    assert_eq!(reason(stale), Reason::Changed);
    tidy(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_moves_only_with_its_bucket_and_remains_bound() {
    let (cluster, bucket) = filled(1).await;
    let beside = name("beside");
    let place = BucketPlace::Group(GroupId(2));
    let make = DirectoryCall::PlaceBucket { changes: Vec::new(), place };
    directory(&cluster, &beside, make).await.expect("made");
    let (goes, stays) = (open(&cluster, &bucket).await, open(&cluster, &name("default")).await);
    let first = attempt(&cluster, &bucket, goes, 1).await.expect("added");
    begin(&cluster, &bucket, 2).await;
    rests(&cluster, &bucket, 2).await;
    let refused = async |bucket: &BucketName, session, words: &str| {
        let error = attempt(&cluster, bucket, session, 2).await.expect_err("refused");
        assert_eq!(error.reason, Reason::SessionExpired);
        assert!(error.text().contains(words), "{error}");
    };
    refused(&beside, goes, "another bucket").await;
    refused(&bucket, stays, "never opened").await;
    assert_eq!(cluster.group(0, 2).state().master.sessions.total(), 1, "one came along");
    // The digest of what was applied there is known here.
    let other = Call::Update(Update::Add { key: bytes("sum"), delta: 2 });
    let retry = Some(RetryId { session: goes, number: 1 });
    let request = Request { bucket: bucket.clone(), call: other, retry };
    assert_eq!(
        reason(cluster.node(0).handle(&base::Principal::Node, request).await),
        Reason::RetryMismatch
    );
    assert_eq!(attempt(&cluster, &bucket, goes, 1).await, Ok(first), "it was applied once");
    attempt(&cluster, &name("default"), stays, 1).await.expect("it stayed with its bucket");
    directory(&cluster, &bucket, DirectoryCall::ClearBucket).await.expect("cleared");
    let cleared = attempt(&cluster, &bucket, goes, 2).await.expect("it is still the bucket's");
    assert_eq!(cleared, Body::Updated(Outcome::Number(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn moved_session_of_a_user_stays_its_own_and_counts_at_the_target() {
    let (cluster, bucket) = filled(1).await;
    let node = cluster.node(0);
    let ada = turn_on(node).await;
    let bob = add_bob(node).await;
    limit_sessions(node, "ada", 1).await;
    let ask = async |user, call, retry| {
        let request = Request { bucket: bucket.clone(), call, retry };
        node.handle(user, request).await.map(|reply| reply.body)
    };
    let open = async |user| ask(user, Call::Session(SessionCall::Open), None).await;
    let Ok(Body::Session(session)) = open(&ada).await else { panic!("a session") };
    let add = async |user, number| {
        let call = Call::Update(Update::Add { key: bytes("sum"), delta: 1 });
        ask(user, call, Some(RetryId { session, number })).await
    };
    let first = add(&ada, 1).await.expect("added");
    begin(&cluster, &bucket, 2).await;
    rests(&cluster, &bucket, 2).await;
    for number in [1, 2] {
        assert_eq!(reason(add(&bob, number).await), Reason::SessionExpired, "it is ada's");
    }
    assert_eq!(add(&ada, 1).await, Ok(first), "it was applied once");
    assert_eq!(reason(open(&ada).await), Reason::Quota, "it came along");
    open(&bob).await.expect("the quota is ada's");
    ask(&ada, Call::Session(SessionCall::Close(session)), None).await.expect("closed");
    open(&ada).await.expect("its place is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_rows_do_not_return_during_a_bucket_move() {
    let (cluster, bucket) = filled(1).await;
    for which in 0..40 {
        let (key, value) = (bytes(&format!("t{which}")), bytes("v"));
        let expiry = Expiry::After(20 + 10 * which);
        update(&cluster, &bucket, Update::Set { key, value, expiry }).await;
    }
    begin(&cluster, &bucket, 2).await;
    let mut gone = 0;
    while gone < 40 {
        let found = row(&cluster, &bucket, &format!("t{gone}")).await;
        gone += u64::from(found.is_none());
        for before in 0..gone {
            assert_eq!(row(&cluster, &bucket, &format!("t{before}")).await, None, "t{before}");
        }
    }
    rests(&cluster, &bucket, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_move_can_be_cancelled_at_any_step_and_restarted() {
    let (cluster, bucket) = filled(1).await;
    for (round, step) in super::STEPS.into_iter().enumerate() {
        close_gate(&cluster, step);
        begin(&cluster, &bucket, 2).await;
        at_gate(&cluster, &bucket).await;
        directory(&cluster, &bucket, DirectoryCall::CancelMove).await.expect("given up");
        open_gate(&cluster);
        // A request that met the seal waits until it is taken away.
        update(&cluster, &bucket, set("after", &round.to_string())).await;
        let found = row(&cluster, &bucket, "after").await.map(|row| row.value);
        assert_eq!(found, Some(bytes(&round.to_string())));
        let movement = cluster.node(0).move_status(&bucket).await.expect("it is known");
        assert_eq!((movement.group, movement.to), (GroupId(1), None));
    }
    tidy(&cluster).await;
    begin(&cluster, &bucket, 2).await;
    rests(&cluster, &bucket, 2).await;
    all_rows(&cluster, &bucket).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_is_altered_cleared_and_dropped_during_a_move() {
    let (cluster, bucket) = filled(1).await;
    for step in super::STEPS {
        close_gate(&cluster, step);
        begin(&cluster, &bucket, 2).await;
        at_gate(&cluster, &bucket).await;
        let changes = vec![("ttl_ms".to_string(), "3600000".to_string())];
        directory(&cluster, &bucket, DirectoryCall::AlterBucket(changes)).await.expect("altered");
        directory(&cluster, &bucket, DirectoryCall::ClearBucket).await.expect("cleared");
        open_gate(&cluster);
        update(&cluster, &bucket, set("only", "one")).await;
        rests(&cluster, &bucket, 2).await;
        let count = Call::Read(Read::KeyCount, ReadLevel::Consistent);
        let count = ask(cluster.node(0), &bucket, count).await.expect("counted").body;
        assert_eq!(count, Body::Count(1), "what was cleared did not move: {step:?}");
        let only = row(&cluster, &bucket, "only").await.expect("it moved");
        assert!(only.expires_in_ms.is_some(), "as the bucket was altered");
        begin(&cluster, &bucket, 1).await;
        rests(&cluster, &bucket, 1).await;
    }
    close_gate(&cluster, MovePoint::Sealed);
    begin(&cluster, &bucket, 2).await;
    at_gate(&cluster, &bucket).await;
    directory(&cluster, &bucket, DirectoryCall::DropBucket).await.expect("dropped");
    open_gate(&cluster);
    let removed = ask(cluster.node(0), &bucket, Call::Update(set("k", "v"))).await;
    assert_eq!(reason(removed), Reason::NoSuchBucket);
    tidy(&cluster).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_is_placed_as_requested_and_invalid_moves_are_refused() {
    let (cluster, bucket) = filled(1).await;
    let place = |place| DirectoryCall::PlaceBucket { changes: Vec::new(), place };
    let at = |group| BucketPlace::Group(GroupId(group));
    directory(&cluster, &name("there"), place(at(2))).await.expect("made");
    let incarnations = |bucket: &str| cluster.node(0).router.locator.catalog.find(&name(bucket));
    assert_eq!(incarnations("there").map(|bucket| bucket.group), Some(GroupId(2)));
    // Group 1 has two buckets, group 2 has one.
    directory(&cluster, &name("few"), place(BucketPlace::Replicas(1))).await.expect("made");
    assert_eq!(incarnations("few").map(|bucket| bucket.group), Some(GroupId(2)));
    for (wrong, why) in [
        (at(0), Reason::NotSupported),
        (at(99), Reason::NotFound),
        (BucketPlace::Replicas(5), Reason::NotFound),
    ] {
        assert_eq!(reason(directory(&cluster, &name("no"), place(wrong)).await), why);
    }
    let to = |group| DirectoryCall::MoveBucket { group: GroupId(group) };
    assert_eq!(reason(directory(&cluster, &bucket, to(0)).await), Reason::NotSupported);
    assert_eq!(reason(directory(&cluster, &bucket, to(99)).await), Reason::NotFound);
    assert_eq!(reason(directory(&cluster, &name("nowhere"), to(2)).await), Reason::NoSuchBucket);
    directory(&cluster, &bucket, to(1)).await.expect("it lives there");
    close_gate(&cluster, MovePoint::Copied);
    begin(&cluster, &bucket, 2).await;
    begin(&cluster, &bucket, 2).await;
    assert_eq!(reason(directory(&cluster, &bucket, to(1)).await), Reason::Changed);
    at_gate(&cluster, &bucket).await;
    let movement = cluster.node(0).move_status(&bucket).await.expect("it is known");
    assert_eq!((movement.group, movement.to), (GroupId(1), Some(GroupId(2))));
    let progress = movement.progress.expect("it is driven here");
    assert_eq!(progress.rows_total, super::ROWS as u64);
    assert_eq!(progress.rows, progress.rows_total);
    let moving = incarnations("moved").and_then(|bucket| bucket.moving).expect("it moves");
    // Told of a move that was another.
    let id = incarnations("there").expect("it is there").id;
    let step = DirectoryCall::StepMove { id, moving: moving.id, step: MoveStep::Finish };
    assert_eq!(reason(directory(&cluster, &bucket, step).await), Reason::Changed);
    open_gate(&cluster);
    rests(&cluster, &bucket, 2).await;
    tidy(&cluster).await;
}
