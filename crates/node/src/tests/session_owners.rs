//! Sessions of users: whose they are while access is on, and how many a user may have.

use super::access::{change, principal, role, turn_on, user, with_access};
use super::many::Cluster;
use super::sessions::pass;
use super::test_cluster::wait;
use super::{Place, bytes, get, reason, request, set, update};
use crate::{Flow, Node, SubmitResult};
use base::access::UserQuota;
use base::limits::SESSION_TTL_MS;
use base::request::SessionCall;
use base::{
    AccessCall, Body, Call, Principal, Reason, Reply, Request, Result, RetryId, SessionId, Update,
};
use std::sync::atomic::Ordering;

async fn open(node: &Node, principal: &Principal) -> Result<SessionId> {
    let reply = node.handle(principal, request(Call::Session(SessionCall::Open))).await?;
    let Body::Session(session) = reply.body else { panic!("a session, not {:?}", reply.body) };
    Ok(session)
}

async fn close(node: &Node, principal: &Principal, session: SessionId) -> Result<Reply> {
    node.handle(principal, request(Call::Session(SessionCall::Close(session)))).await
}

async fn add(node: &Node, principal: &Principal, session: SessionId, number: u64) -> Result<Body> {
    let retry = Some(RetryId { session, number });
    let call = Call::Update(Update::Add { key: bytes("n"), delta: 1 });
    let reply = node.handle(principal, Request { retry, ..request(call) }).await;
    reply.map(|reply| reply.body)
}

/// Starts a node with access on and two users who may do anything with keys: `ada` and `bob`.
async fn two_users(place: &Place) -> (Node, Principal, Principal) {
    let (node, ada) = with_access(place).await;
    let bob = add_bob(&node).await;
    (node, ada, bob)
}

/// Creates the user `bob`, and lets all users do anything with keys.
pub(super) async fn add_bob(node: &Node) -> Principal {
    change(node, role("tried", &["read,write,list,own:cluster"])).await.expect("changed");
    change(node, user("bob", &["tried"])).await.expect("made");
    principal(node, "bob")
}

pub(super) async fn limit_sessions(node: &Node, user: &str, sessions: u32) -> UserQuota {
    let quota = UserQuota { sessions: Some(sessions), ..UserQuota::default() };
    let set_quota = AccessCall::SetQuota { user: user.into(), quota };
    change(node, set_quota).await.expect("set");
    quota
}

#[tokio::test]
async fn session_of_a_user_is_to_others_as_if_it_had_never_been_opened() {
    let place = Place::new();
    let (mut node, ada, bob) = two_users(&place).await;
    let session = open(&node, &ada).await.expect("opened");
    let first = add(&node, &ada, session, 1).await.expect("added");
    for _ in 0..2 {
        for number in [1, 2] {
            let refused = add(&node, &bob, session, number).await.expect_err("it is ada's");
            assert_eq!(refused.reason, Reason::SessionExpired);
            let unknown = SessionId(session.0 ^ 1);
            let absent = add(&node, &bob, unknown, number).await.expect_err("there is none");
            let text = absent.text().replace(&unknown.to_string(), &session.to_string());
            assert_eq!(refused.text(), text, "nobody learns that it exists");
        }
        assert_eq!(close(&node, &bob, session).await.map(|reply| reply.body), Ok(Body::Done));
        assert_eq!(add(&node, &ada, session, 1).await.as_ref(), Ok(&first), "it is still open");
        assert_eq!(get(&node, "n").await, Some(bytes("1")));
        node.stop().await.expect("it stops");
        node = place.start().await;
    }
    // An operator at the node closes it.
    close(&node, &Principal::LocalOperator, session).await.expect("closed");
    assert_eq!(reason(add(&node, &ada, session, 1).await), Reason::SessionExpired);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn session_without_a_user_is_open_to_all_and_while_access_is_off_every_session_is() {
    let place = Place::new();
    let (node, ada, bob) = two_users(&place).await;
    let unowned = open(&node, &Principal::LocalOperator).await.expect("opened");
    let owned = open(&node, &ada).await.expect("opened");
    for (number, user) in [(1, &ada), (2, &bob)] {
        add(&node, user, unowned, number).await.expect("it is nobody's");
    }
    assert_eq!(reason(add(&node, &bob, owned, 1).await), Reason::SessionExpired);
    change(&node, AccessCall::Switch { on: false }).await.expect("switched");
    add(&node, &bob, owned, 1).await.expect("nobody logs in now");
    change(&node, AccessCall::Switch { on: true }).await.expect("switched");
    let bob = principal(&node, "bob");
    assert_eq!(reason(add(&node, &bob, owned, 2).await), Reason::SessionExpired, "it is ada's");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn sessions_of_a_user_are_bounded_by_its_quota_also_after_restart() {
    let place = Place::new();
    let (mut node, ada, bob) = two_users(&place).await;
    let quota = limit_sessions(&node, "ada", 2).await;
    let first = open(&node, &ada).await.expect("the first");
    open(&node, &ada).await.expect("the second");
    // This node counts none of the user's requests: gets and sets in a row stay together.
    assert_eq!(node.user_quota("ada"), Some((quota, None)));
    let mut flow = Flow::of(ada.clone());
    let get = request(Call::Read(base::Read::Get(bytes("n")), base::ReadLevel::Consistent));
    let submitted = node.submit(&mut flow, get);
    node.router.wait_reply(submitted).await.expect("read");
    assert!(node.begin_gets(&mut flow, &Default::default()).is_some());
    for _ in 0..2 {
        let refused = open(&node, &ada).await.expect_err("the third");
        assert_eq!(refused.reason, Reason::Quota);
        assert!(refused.text().contains("2 open sessions"), "{refused}");
        add(&node, &ada, first, 1).await.expect("those that are open stay");
        // Others, and those without a user, have places of their own.
        for principal in [&bob, &Principal::LocalOperator] {
            let session = open(&node, principal).await.expect("a place");
            close(&node, principal, session).await.expect("closed");
        }
        node.stop().await.expect("it stops");
        node = place.start().await;
    }
    close(&node, &ada, first).await.expect("closed");
    open(&node, &ada).await.expect("its place is free");
    assert_eq!(reason(open(&node, &ada).await), Reason::Quota);
    let without = UserQuota::default();
    let set_quota = AccessCall::SetQuota { user: "ada".into(), quota: without };
    change(&node, set_quota).await.expect("removed");
    open(&node, &ada).await.expect("far below the share of a user");
    assert_eq!(node.status().groups[1].sessions, 3);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn session_that_has_expired_counts_against_no_quota() {
    let place = Place::new();
    let (node, ada, _) = two_users(&place).await;
    limit_sessions(&node, "ada", 1).await;
    for _ in 0..2 {
        open(&node, &ada).await.expect("the first, or the one before has expired");
        assert_eq!(reason(open(&node, &ada).await), Reason::Quota);
        pass(&node, SESSION_TTL_MS);
        // An update makes the master look at the time, and sweep.
        update(&node, set("k", "v")).await.expect("a set");
        wait("the sweep", || (node.status().groups[1].sessions == 0).then_some(())).await;
    }
    open(&node, &ada).await.expect("its place is free");
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_that_is_used_through_another_node_is_judged_by_its_user() {
    let cluster = Cluster::new(3).await;
    let nodes: Vec<_> = (0..3).map(|nth| cluster.node(nth)).collect();
    let first = nodes[cluster.master(0).await];
    let ada = turn_on(first).await;
    let bob = add_bob(first).await;
    limit_sessions(first, "ada", 1).await;
    let version = first.access_version();
    let is_known = |node: &&Node| node.access_version() >= version;
    wait("the users everywhere", || nodes.iter().all(is_known).then_some(())).await;
    let master = cluster.master(1).await;
    let (there, other) = (nodes[master], nodes[(master + 1) % 3]);
    let session = open(other, &ada).await.expect("opened");
    let sum = add(other, &ada, session, 1).await.expect("added");
    for (number, node) in [(1, other), (2, other), (1, there), (2, there)] {
        assert_eq!(reason(add(node, &bob, session, number).await), Reason::SessionExpired);
    }
    assert_eq!(close(other, &bob, session).await.map(|reply| reply.body), Ok(Body::Done));
    for node in [other, there] {
        assert_eq!(add(node, &ada, session, 1).await.as_ref(), Ok(&sum), "it is ada's, and open");
        assert_eq!(reason(open(node, &ada).await), Reason::Quota, "it counts as ada's");
    }
    assert!(other.router.metrics.forwarded_out.load(Ordering::Relaxed) > 0);
}

/// Whose a session is, and how many its user may have, rests on the directory: a master that may
/// lack changes of it waits for it first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_is_opened_and_closed_only_by_a_current_directory() {
    let cluster = Cluster::new(3).await;
    let elsewhere = (cluster.master(0).await + 1) % 3;
    let made = cluster.create(None, &[&format!("n{elsewhere}")]).await;
    let bucket = cluster.bucket("here", made.group).await;
    assert_eq!(cluster.master(made.group.0).await, elsewhere, "the directory is led by another");
    let (node, group) = (cluster.node(elsewhere), cluster.group(elsewhere, made.group.0));
    let mut session = None;
    for call in [SessionCall::Open, SessionCall::Close(SessionId(0))] {
        let call = match (call, session) {
            (SessionCall::Close(_), Some(opened)) => SessionCall::Close(opened),
            (call, _) => call,
        };
        let ask = || Request { bucket: bucket.clone(), ..request(Call::Session(call)) };
        // As in a new epoch: its number is 1 at least.
        group.leadership.mark_directory_current(0);
        let submitted = node.submit(&mut Flow::of(Principal::Node), ask());
        assert!(matches!(submitted, SubmitResult::Later(_)), "{call:?} waits for the directory");
        let reply = node.router.wait_reply(submitted).await.expect("the directory is there");
        if let Body::Session(opened) = reply.body {
            session = Some(opened);
        }
        assert!(group.leadership.is_directory_current(group.leadership.epoch()));
        let submitted = node.submit(&mut Flow::of(Principal::Node), ask());
        assert!(!matches!(submitted, SubmitResult::Later(_)), "{call:?} is evaluated at once");
        node.router.wait_reply(submitted).await.expect("done");
    }
    assert!(session.is_some());
}
