//! Decisions about needs: without the directory's master, and before a request is known.

use super::access::{ROLE, change, role, with_access};
use super::{Place, bytes, reason, request};
use crate::Flow;
use crate::access::Authorizer;
use base::access::{ListenerRights, Verb};
use base::rights::{KeySet, Need, Operate};
use base::{
    AccessCall, BucketName, Call, DirectoryCall, GroupId, Principal, Read, ReadLevel, Reason,
};
use runtime::world;

#[tokio::test]
async fn acts_on_the_cluster_are_refused_after_thirty_seconds_without_the_directorys_master() {
    let place = Place::new();
    let (node, user) = with_access(&place).await;
    let all: Vec<_> = Verb::ALL.into_iter().map(Verb::name).collect();
    change(&node, role(ROLE, &[&format!("{}:cluster", all.join(","))])).await.expect("set");
    // An authorizer of its own, which the node does not tell of its contacts.
    let locator = &node.router.locator;
    let access = Authorizer::new(locator.catalog.clone(), locator.groups.clone(), 0);
    let at = |milliseconds: u64| world::set_time(Some(milliseconds * 1_000_000));
    let check = |act: Operate| access.check(&user, &act.needs());
    let admit = |request| access.admit(&mut Flow::of(user.clone()), request).map(drop);
    let move_bucket = request(Call::Directory(DirectoryCall::MoveBucket { group: GroupId(99) }));
    let acts = [Operate::Reload, Operate::TransferMaster, Operate::ShowAccess];
    at(30_000);
    acts.iter().for_each(|act| assert_eq!(check(*act), Ok(()), "{act:?}"));
    assert_eq!(admit(&move_bucket), Ok(()));
    at(30_001);
    for act in acts {
        assert_eq!(reason(check(act)), Reason::StaleReplica, "{act:?}");
    }
    assert_eq!(reason(admit(&move_bucket)), Reason::StaleReplica);
    // Status and data go on, and the local socket keeps all rights.
    assert_eq!(check(Operate::ShowStatus), Ok(()));
    let get = request(Call::Read(Read::Get(bytes("k")), ReadLevel::Dirty));
    assert_eq!(admit(&get), Ok(()));
    let local = Principal::LocalOperator;
    acts.iter().for_each(|act| assert_eq!(access.check(&local, &act.needs()), Ok(())));
    access.note_contact();
    at(60_001);
    acts.iter().for_each(|act| assert_eq!(check(*act), Ok(()), "{act:?} after a contact"));
    world::set_time(None);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn any_of_several_needs_admits_a_request_and_each_is_decided_in_its_own_bucket() {
    let place = Place::new();
    let (node, user) = with_access(&place).await;
    change(&node, role(ROLE, &["read:logs/a", "watch:cluster"])).await.expect("set");
    let [a, b] = ["logs/a", "logs/b"].map(|name| BucketName::parse(name).expect("a name"));
    let read = |bucket| Need::Keys(Verb::Read, bucket, KeySet::Part);
    let write = Need::Keys(Verb::Write, &a, KeySet::Part);
    let mut flow = Flow::of(user);
    // What was looked up for one bucket is not used for another.
    for _ in 0..2 {
        assert_eq!(node.authorize_any(&mut flow, None, [read(&a)]), Ok(()));
        assert_eq!(reason(node.authorize_any(&mut flow, None, [read(&b)])), Reason::Forbidden);
        assert_eq!(node.authorize_any(&mut flow, None, [write, read(&a)]), Ok(()));
        assert_eq!(node.authorize_any(&mut flow, None, [Need::Cluster(Verb::Watch)]), Ok(()));
        let place = [Need::Cluster(Verb::Place)];
        assert_eq!(reason(node.authorize_any(&mut flow, None, place)), Reason::Forbidden);
    }
    let mut stranger = Flow::of(Principal::Anonymous(ListenerRights::default()));
    assert_eq!(node.authorize_any(&mut stranger, None, []), Ok(()));
    let refused = node.authorize_any(&mut stranger, None, [read(&a)]);
    assert_eq!(reason(refused), Reason::Unauthenticated);
    change(&node, AccessCall::Switch { on: false }).await.expect("turned off");
    assert_eq!(node.authorize_any(&mut stranger, None, [read(&a)]), Ok(()));
    let refused = node.authorize_any(&mut stranger, None, [Need::Cluster(Verb::Watch)]);
    assert_eq!(reason(refused), Reason::Forbidden, "the listener decides");
    node.stop().await.expect("it stops");
}
