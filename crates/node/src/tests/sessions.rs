//! A repeated request applies once.

use super::test_cluster::{self, TestCluster};
use super::{Place, bytes, get, reason, request, set};
use crate::Node;
use base::limits::{SESSION_OUTCOME_BYTES_MAX, SESSION_TTL_MS, SESSION_WINDOW};
use base::request::SessionCall;
use base::{
    Body, BucketName, Call, DirectoryCall, GroupId, Outcome, Reason, Reply, Request, Result,
    RetryId, SessionId, Update,
};
use replica_state::layout::{self, Space, StoredSession};
use replication::clock::GroupClock;
use replication::session::SessionUse;
use std::collections::BTreeSet;

async fn open(node: &Node) -> SessionId {
    let opened = node
        .handle(&base::Principal::Node, request(Call::Session(SessionCall::Open)))
        .await
        .expect("opens");
    let Body::Session(session) = opened.body else { panic!("a session") };
    session
}

async fn attempt(node: &Node, session: SessionId, number: u64, update: Update) -> Result<Reply> {
    attempt_in(&BucketName::default(), node, session, number, update).await
}

async fn attempt_in(
    bucket: &BucketName,
    node: &Node,
    session: SessionId,
    number: u64,
    update: Update,
) -> Result<Reply> {
    let retry = Some(RetryId { session, number });
    let bucket = bucket.clone();
    let reply = node
        .handle(&base::Principal::Node, Request { bucket, retry, ..request(Call::Update(update)) })
        .await;
    // The version of what was written is told to the first attempt alone: it is not kept.
    reply.map(|reply| Reply { version: None, ..reply })
}

/// A second bucket of the group.
async fn second_bucket(node: &Node) -> BucketName {
    let bucket = BucketName::parse("second").expect("a name");
    let make = Call::Directory(DirectoryCall::CreateBucket(Vec::new()));
    let request = Request { bucket: bucket.clone(), ..request(make) };
    node.handle(&base::Principal::Node, request).await.expect("it is made");
    bucket
}

fn add() -> Update {
    Update::Add { key: bytes("n"), delta: 1 }
}

#[tokio::test]
async fn session_retry_returns_first_answer_even_after_restart() {
    let place = Place::new();
    let mut node = place.start().await;
    let session = open(&node).await;
    let first = attempt(&node, session, 1, add()).await.expect("adds");
    assert_eq!(first.body, Body::Updated(Outcome::Number(1)));
    assert_eq!(attempt(&node, session, 1, add()).await, Ok(first.clone()));
    node.stop().await.expect("it stops");
    node = place.start().await;
    assert_eq!(attempt(&node, session, 1, add()).await, Ok(first));
    let second = attempt(&node, session, 2, add()).await.expect("adds").body;
    assert_eq!(second, Body::Updated(Outcome::Number(2)));
    let other = open(&node).await;
    assert_ne!(other, session, "a session's number is never given twice");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn failed_assertion_outcome_is_replayed_on_retry() {
    let place = Place::new();
    let node = place.start().await;
    let session = open(&node).await;
    let assert = Update::AssertExists { key: bytes("k") };
    let failed = attempt(&node, session, 7, assert.clone()).await;
    super::update(&node, set("k", "v")).await.expect("a set");
    assert_eq!(attempt(&node, session, 7, assert).await, failed, "the same answer again");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn update_outside_session_window_or_open_session_is_refused() {
    let place = Place::new();
    let node = place.start().await;
    let session = open(&node).await;
    attempt(&node, session, 5, add()).await.expect("adds");
    attempt(&node, session, 5 + SESSION_WINDOW, add()).await.expect("adds");
    assert_eq!(reason(attempt(&node, session, 5, add()).await), Reason::RequestExpired);
    attempt(&node, session, 6, add()).await.expect("the oldest number of the window");
    let foreign = SessionId(session.0 + 1_000);
    assert_eq!(reason(attempt(&node, foreign, 1, add()).await), Reason::SessionExpired);
    let close = Call::Session(SessionCall::Close(session));
    node.handle(&base::Principal::Node, request(close)).await.expect("closes");
    assert_eq!(reason(attempt(&node, session, 6, add()).await), Reason::SessionExpired);
    assert_eq!(get(&node, "n").await, Some(bytes("3")));
    assert_eq!(node.status().groups[1].sessions, 0);
    node.stop().await.expect("it stops");
}

/// Returns a first use of a session, by nobody in particular.
fn first_use(session: SessionId) -> SessionUse {
    SessionUse { retry: RetryId { session, number: 1 }, user: None }
}

#[tokio::test]
async fn session_refusal_waits_for_the_undecided_entry_that_it_read() {
    let mut cluster = TestCluster::with_long_lease(3, 3).await;
    let (master, bucket) = (cluster.master().await, test_cluster::bucket());
    let group = cluster.group(master);
    let (opened, session) = group.open_session(&bucket, None).expect("it opens");
    group.wait_applied(opened).await.expect("a majority is there");
    for follower in (0..3).filter(|nth| *nth != master) {
        cluster.stop(follower).await;
    }
    // Nobody accepts the entry that closes the session: another master may still find it open.
    let closed = group.close_session(&bucket, session, None).expect("it leads").expect("an entry");
    let (ticket, _, outcome) =
        group.submit(&bucket, &add(), Some(first_use(session))).expect("it leads");
    assert_eq!(outcome.expect_err("it is closed").reason, Reason::SessionExpired);
    assert_eq!(ticket.map(|ticket| ticket.index), Some(closed.index));
    cluster.stop(master).await;
}

#[tokio::test]
async fn answer_about_an_unknown_session_is_confirmed_by_an_entry_if_no_lease_allows_reads() {
    let mut cluster = TestCluster::without_lease_reads(3, 3).await;
    let (master, bucket) = (cluster.master().await, test_cluster::bucket());
    let group = cluster.group(master);
    test_cluster::put(&group, "k", "v").await.expect("a majority is there");
    let unknown = SessionId(9);
    let (refused, _, outcome) =
        group.submit(&bucket, &add(), Some(first_use(unknown))).expect("it leads");
    assert_eq!(outcome.expect_err("it was never opened").reason, Reason::SessionExpired);
    group.wait_applied(refused.expect("an entry")).await.expect("a majority is there");
    let closed = group.close_session(&bucket, unknown, None).expect("it leads");
    group.wait_applied(closed.expect("an entry")).await.expect("a majority is there");
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}

/// Lets this much group time pass.
pub(super) fn pass(node: &Node, ms: u64) {
    let group = node.router.locator.groups.find(base::GroupId(1)).expect("it is there");
    let mut state = group.state();
    let now = state.queue.clock.now();
    state.queue.clock = GroupClock::starting_at(now + ms);
}

#[tokio::test]
async fn session_expires_only_after_its_idle_time() {
    let place = Place::new();
    let node = place.start().await;
    let session = open(&node).await;
    // A minute is left for the test itself.
    for number in 1..4 {
        attempt(&node, session, number, add()).await.expect("it was used in time");
        pass(&node, SESSION_TTL_MS - 60_000);
    }
    attempt(&node, session, 4, add()).await.expect("it was used in time");
    pass(&node, SESSION_TTL_MS);
    assert_eq!(reason(attempt(&node, session, 5, add()).await), Reason::SessionExpired);
    assert_eq!(get(&node, "n").await, Some(bytes("4")));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn session_outcomes_up_to_byte_limit_are_replayed_whole() {
    let place = Place::new();
    let node = place.start().await;
    let session = open(&node).await;
    let mut retained = Vec::new();
    let lengths = SESSION_OUTCOME_BYTES_MAX - 40..=SESSION_OUTCOME_BYTES_MAX + 1;
    for (number, length) in (1..).zip(lengths) {
        super::update(&node, set("k", &"v".repeat(length))).await.expect("a set");
        let replace = Update::Replace { key: bytes("k"), wanted: Some(bytes("w")) };
        let first = attempt(&node, session, number, replace.clone()).await.expect("replaces");
        let again = attempt(&node, session, number, replace).await.expect("the same again");
        assert_eq!(again.index, first.index);
        if again == first {
            retained.push(length);
        } else {
            assert_eq!(again.body, Body::Updated(Outcome::AppliedAt(first.index)));
        }
    }
    // Beside the value an outcome is its index, its kind and a length: 14 bytes.
    let limit = SESSION_OUTCOME_BYTES_MAX - 14;
    assert_eq!((retained.first(), retained.last()), (Some(&(limit - 26)), Some(&limit)));
    assert_eq!(retained.len(), 27, "none below the limit is left out");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn session_ids_are_random() {
    let place = Place::new();
    let node = place.start().await;
    let mut ids = BTreeSet::new();
    for _ in 0..16 {
        ids.insert(open(&node).await.0);
    }
    assert_eq!(ids.len(), 16, "none is given twice");
    // Versions of a group stayed below 2^48 and next to each other: sixteen of them had one upper
    // half. Of sixteen draws two have the same once in 2^25.
    let upper: BTreeSet<_> = ids.iter().map(|id| id >> 32).collect();
    assert!(upper.len() >= 15, "{ids:x?}");
    for id in ids {
        for guess in [id ^ 1, id.wrapping_add(1), id.wrapping_sub(1)] {
            let guessed = attempt(&node, SessionId(guess), 1, add()).await;
            assert_eq!(reason(guessed), Reason::SessionExpired);
        }
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn session_id_given_to_client_is_stored_on_every_replica() {
    let mut cluster = TestCluster::new(3, 3).await;
    let (master, bucket) = (cluster.group(cluster.master().await), test_cluster::bucket());
    let (ticket, session) = master.open_session(&bucket, None).expect("it opens");
    master.wait_applied(ticket).await.expect("it is decided");
    let (mut key, mut low) = (Vec::new(), Vec::new());
    layout::session_key(test_cluster::GROUP, session, &mut key);
    layout::space_key(test_cluster::GROUP, Space::Session, &mut low);
    for nth in 0..3 {
        cluster.applied(nth, ticket.index).await;
        let trees = &cluster.nodes[nth].as_ref().expect("it runs").status.trees;
        let rows = store::Chunk::read(&*trees.snapshot(), &low, None, usize::MAX);
        let rows = rows.expect("it reads").rows;
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].0, key);
        let stored = StoredSession::read(&rows[0].1).expect("a session");
        assert_eq!((stored.highest, stored.bucket, stored.user), (0, Some(bucket.digest), None));
    }
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}

#[tokio::test]
async fn session_is_valid_only_in_its_bucket_even_after_a_clear() {
    let place = Place::new();
    let mut node = place.start().await;
    let second = second_bucket(&node).await;
    let session = open(&node).await;
    let first = attempt(&node, session, 1, add()).await.expect("adds");
    for number in [1, 2] {
        let foreign = attempt_in(&second, &node, session, number, add()).await;
        let error = foreign.expect_err("it was opened elsewhere");
        assert_eq!(error.reason, Reason::SessionExpired);
        assert!(error.text().contains("opened in another bucket"), "{error}");
    }
    let close = Call::Session(SessionCall::Close(session));
    let close = |bucket: &BucketName| Request { bucket: bucket.clone(), ..request(close.clone()) };
    assert_eq!(
        reason(node.handle(&base::Principal::Node, close(&second)).await),
        Reason::SessionExpired
    );
    assert_eq!(attempt(&node, session, 1, add()).await, Ok(first), "it is still open");
    // Emptied, the bucket has another number, and is the same to its clients.
    let clear = Call::Directory(DirectoryCall::ClearBucket);
    node.handle(&base::Principal::Node, request(clear)).await.expect("it is emptied");
    node.stop().await.expect("it stops");
    node = place.start().await;
    let second = attempt(&node, session, 2, add()).await.expect("adds");
    assert_eq!(second.body, Body::Updated(Outcome::Number(1)));
    node.handle(&base::Principal::Node, close(&BucketName::default())).await.expect("it closes");
    assert_eq!(reason(attempt(&node, session, 2, add()).await), Reason::SessionExpired);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn different_update_under_used_session_number_is_refused() {
    let place = Place::new();
    let mut node = place.start().await;
    super::update(&node, set("k", "secret")).await.expect("a set");
    let session = open(&node).await;
    let replace = Update::Replace { key: bytes("k"), wanted: Some(bytes("v")) };
    let first = attempt(&node, session, 1, replace.clone()).await.expect("replaces");
    let assert = Update::Assert { key: bytes("k"), expected: Some(bytes("w")) };
    let failed = attempt(&node, session, 2, assert.clone()).await;
    assert_eq!(reason(failed.clone()), Reason::AssertionFailed);
    for _ in 0..2 {
        for number in [1, 2] {
            for other in [set("k", "w"), add(), Update::Nop] {
                let error = attempt(&node, session, number, other).await.expect_err("another");
                assert_eq!(error.reason, Reason::RetryMismatch);
                assert_eq!(error.kind(), base::Kind::Invalid);
                assert!(error.text().contains("with a new number"), "it names the remedy");
                assert!(!error.text().contains("secret"), "{error}");
            }
        }
        assert_eq!(attempt(&node, session, 1, replace.clone()).await, Ok(first.clone()));
        assert_eq!(attempt(&node, session, 2, assert.clone()).await, failed);
        assert_eq!(get(&node, "k").await, Some(bytes("v")));
        assert_eq!(get(&node, "n").await, None);
        node.stop().await.expect("it stops");
        node = place.start().await;
    }
    // What failed for the request itself took no number.
    let no_number = attempt(&node, session, 3, Update::Add { key: bytes("k"), delta: 1 }).await;
    assert_eq!(reason(no_number), Reason::NotANumber);
    attempt(&node, session, 3, set("k", "w")).await.expect("the number is free");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn session_of_previous_version_works_until_expiry() {
    let place = Place::new();
    let node = place.start().await;
    let second = second_bucket(&node).await;
    let session = SessionId(8);
    let group = node.router.locator.groups.find(GroupId(1)).expect("it is there");
    // As that version wrote them: two words; the index, which outcome, a number.
    let (used, retained) = (group.now(), [&5_u64.to_le_bytes()[..], &[6], &41_u64.to_le_bytes()]);
    let written = group.write_bookkeeping(
        0,
        |view| {
            layout::session_key(view.group, session, view.scratch);
            let row = [used.to_le_bytes(), 3_u64.to_le_bytes()].concat();
            view.open.put_raw(view.scratch, &row);
            view.put_outcome(session, 3, &retained.concat());
            view.put_session_expiry(session, used + SESSION_TTL_MS);
            Ok(())
        },
        |_| {},
    );
    let (ticket, ()) = written.expect("it is written");
    group.wait_applied(ticket.expect("a value")).await.expect("it is decided");
    let old = Body::Updated(Outcome::Number(41));
    for update in [add(), set("k", "v")] {
        let answer = attempt(&node, session, 3, update).await.expect("the outcome");
        assert_eq!((answer.index.0, answer.body), (5, old.clone()));
    }
    // In any bucket of its group; what is applied from here on has a digest.
    let first = attempt_in(&second, &node, session, 4, add()).await.expect("adds");
    assert_eq!(attempt(&node, session, 4, add()).await, Ok(first));
    assert_eq!(reason(attempt(&node, session, 4, set("k", "v")).await), Reason::RetryMismatch);
    assert_eq!(get(&node, "k").await, None);
    pass(&node, SESSION_TTL_MS);
    assert_eq!(reason(attempt(&node, session, 3, add()).await), Reason::SessionExpired);
    node.stop().await.expect("it stops");
}
