//! Quotas of users on a node: which requests are counted, refused and left alone.
//!
//! A quota of one byte or operation a second leaves whoever exceeds it in debt for longer than a
//! test takes.

use super::access::{change, principal, role, user, with_access};
use super::{Place, bytes, reason, request, set};
use crate::{Flow, Node, SubmitResult};
use base::access::UserQuota;
use base::request::SequenceMode;
use base::{
    AccessCall, AvailableCall, Body, Call, FetchOptions, Principal, Read, ReadLevel, Reason, Reply,
    Request, Result, Update,
};

const QUOTA: UserQuota = UserQuota {
    connections: None,
    requests: None,
    operations: None,
    bytes: None,
    burst_ms: UserQuota::BURST_MS_DEFAULT,
    sessions: None,
};

async fn set_quota(node: &Node, user: &str, quota: UserQuota) {
    let call = AccessCall::SetQuota { user: user.into(), quota };
    change(node, call).await.expect("set");
}

/// Starts a node with access on and two users who may do anything with keys: `ada` and `bob`.
async fn two_users(place: &Place) -> (Node, Principal, Principal) {
    let (node, ada) = with_access(place).await;
    change(&node, role("tried", &["read,write,list,own:cluster"])).await.expect("changed");
    change(&node, user("bob", &["tried"])).await.expect("made");
    let bob = principal(&node, "bob");
    (node, ada, bob)
}

fn get() -> Request {
    request(Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent))
}

/// Returns a request of many operations and bytes.
fn large() -> Request {
    let steps = vec![set("k", "v"); 10_000];
    request(Call::Update(Update::Sequence { steps, mode: SequenceMode::AllOrNothing }))
}

async fn ask(node: &Node, flow: &mut Flow, request: Request) -> Result<Reply> {
    let submitted = node.submit(flow, request);
    node.router.wait_reply(submitted).await
}

#[tokio::test]
async fn exhausted_user_is_refused_at_once_and_another_is_unharmed() {
    let place = Place::new();
    let (node, ada, bob) = two_users(&place).await;
    for quota in [UserQuota { operations: Some(1), ..QUOTA }, UserQuota { bytes: Some(1), ..QUOTA }]
    {
        set_quota(&node, "ada", quota).await;
        let mut flow = Flow::of(ada.clone());
        ask(&node, &mut flow, large()).await.expect("a full bucket admits it");
        let version = node.access_version();
        for _ in 0..3 {
            let SubmitResult::Ready(Err(refused)) = node.submit(&mut flow, get()) else {
                panic!("it is refused without waiting")
            };
            assert_eq!(refused.reason, Reason::Quota, "{refused}");
            assert_eq!(reason(node.handle(&ada, get()).await), Reason::Quota, "in any connection");
            node.handle(&bob, get()).await.expect("the quota is ada's");
        }
        // Plain gets in a row are not answered together past the quota.
        assert!(node.begin_gets(&mut flow, &Default::default()).is_none());
        assert!(node.begin_sets(&flow, &Default::default()).is_none());
        let (shown, used) = node.user_quota("ada").expect("it has one");
        let used = used.expect("it is counted");
        assert_eq!((shown, used.refused, used.requests), (quota, 6, 0));
        assert!(used.operations >= 10_000 && used.bytes > 10_000, "{used:?}");
        assert_eq!((node.access_version(), used.connections), (version, 1));
        // On the connection that was refused: the new quota counts from the next request on.
        set_quota(&node, "ada", QUOTA).await;
        ask(&node, &mut flow, get()).await.expect("it has no quota any more");
        assert_eq!(node.user_quota("ada"), None);
        assert!(node.begin_gets(&mut flow, &Default::default()).is_some(), "nor is it counted");
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn nodes_operators_acts_and_forwarded_requests_count_against_no_quota() {
    let place = Place::new();
    let (node, ada, _) = two_users(&place).await;
    change(&node, role("tried", &["read,write,secure,watch:cluster"])).await.expect("changed");
    set_quota(&node, "ada", UserQuota { operations: Some(1), ..QUOTA }).await;
    node.handle(&ada, large()).await.expect("a full bucket admits it");
    assert_eq!(reason(node.handle(&ada, get()).await), Reason::Quota);
    node.handle(&Principal::Node, get()).await.expect("a node has no quota");
    node.handle(&Principal::LocalOperator, get()).await.expect("nor has a local operator");
    // As another node's request for the user, which was counted there.
    node.router.handle(&ada, get()).await.expect("it is not counted again");
    // The user may still take its quota away, and see what is wrong.
    let call = AccessCall::SetQuota { user: "ada".into(), quota: QUOTA };
    let call = Call::Directory(base::DirectoryCall::Access(call));
    node.handle(&ada, request(call)).await.expect("an act on the cluster");
    node.handle(&ada, get()).await.expect("it has no quota any more");
    // While access is off nobody is counted.
    set_quota(&node, "ada", UserQuota { operations: Some(1), ..QUOTA }).await;
    change(&node, AccessCall::Switch { on: false }).await.expect("turned off");
    for _ in 0..3 {
        node.handle(&ada, large()).await.expect("it is not counted");
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn requests_under_way_are_counted_until_they_are_answered_or_dropped() {
    let place = Place::new();
    let (node, ada, bob) = two_users(&place).await;
    set_quota(&node, "ada", UserQuota { requests: Some(1), ..QUOTA }).await;
    let (mut one, mut two) = (Flow::of(ada.clone()), Flow::of(ada.clone()));
    // Nothing of it runs before it is awaited.
    let fetch = AvailableCall::Fetch { key: bytes("k"), options: FetchOptions::default() };
    let under_way = node.submit(&mut one, request(Call::Available(fetch)));
    assert!(matches!(under_way, SubmitResult::Later(_)));
    assert_eq!(reason(ask(&node, &mut two, get()).await), Reason::Quota);
    ask(&node, &mut Flow::of(bob), get()).await.expect("the quota is ada's");
    let answer = node.router.wait_reply(under_way).await.expect("it is answered");
    assert!(matches!(answer.body, Body::Siblings(_)));
    // Each of these waits for the disk, and is not under way any more once it is answered.
    for number in 0..20 {
        let put = request(Call::Update(set("k", &number.to_string())));
        ask(&node, &mut two, put).await.expect("one at a time");
    }
    let (_, used) = node.user_quota("ada").expect("it has one");
    assert_eq!(used.map(|used| used.requests), Some(0));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn connections_of_a_user_are_bounded_and_end_with_their_flow_or_login() {
    let place = Place::new();
    let (node, ada, bob) = two_users(&place).await;
    set_quota(&node, "ada", UserQuota { connections: Some(2), ..QUOTA }).await;
    let mut flows = [(); 3].map(|()| Flow::of(ada.clone()));
    let [one, two, three] = &mut flows;
    for _ in 0..3 {
        ask(&node, one, get()).await.expect("the first");
        ask(&node, two, get()).await.expect("the second");
        assert_eq!(reason(ask(&node, three, get()).await), Reason::Quota);
    }
    node.handle(&ada, get()).await.expect("part of an answer is no connection");
    two.set_principal(bob);
    ask(&node, three, get()).await.expect("the second has another user now");
    assert_eq!(reason(ask(&node, &mut Flow::of(ada.clone()), get()).await), Reason::Quota);
    drop(flows);
    let (_, used) = node.user_quota("ada").expect("it has one");
    assert_eq!(used.map(|used| used.connections), Some(0));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn quota_needs_its_user_survives_a_restart_and_goes_with_the_user() {
    let place = Place::new();
    let (node, ..) = two_users(&place).await;
    let quota = UserQuota { connections: Some(3), bytes: Some(1 << 20), ..QUOTA };
    let call = |user: &str, quota| AccessCall::SetQuota { user: user.into(), quota };
    assert_eq!(reason(change(&node, call("eve", quota)).await), Reason::NotFound);
    let zero = UserQuota { operations: Some(0), ..QUOTA };
    assert_eq!(reason(change(&node, call("ada", zero)).await), Reason::Malformed);
    set_quota(&node, "ada", quota).await;
    set_quota(&node, "bob", quota).await;
    node.stop().await.expect("it stops");
    let node = place.start().await;
    assert_eq!(node.user_quota("ada"), Some((quota, None)), "nothing is used yet");
    change(&node, AccessCall::RemoveUser { name: "ada".into() }).await.expect("removed");
    change(&node, user("ada", &["tried"])).await.expect("made again");
    assert_eq!((node.user_quota("ada"), node.user_quota("bob")), (None, Some((quota, None))));
    node.stop().await.expect("it stops");
}
