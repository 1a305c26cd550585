//! Second decision about a forwarded request: the matrix of rights through a node that forwards and
//! decides nothing itself.

use super::access::{ROLE, change, check_matrix, role, turn_on};
use super::many::Cluster;
use super::test_cluster::wait;
use super::{bytes, reason, request, set};
use crate::Node;
use base::access::ListenerRights;
use base::mutants::MutantList;
use base::rights::Operate;
use base::{Call, Principal, Read, ReadLevel, Reason, Reply, Request, Result};
use runtime::mutants::Mutant;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// Attempts of a request while no master is known.
const ATTEMPTS: usize = 100;

/// Runs a future at whose polls this thread does not decide about what enters a node. The node that
/// opens a forwarded request does so on another thread, or in another flow.
async fn without_entry_decision<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    std::future::poll_fn(move |context| -> Poll<T> {
        Mutant::SkipFrontEndRights.while_active(|| future.as_mut().poll(context))
    })
    .await
}

/// Asks a node that decides nothing itself, and again while no master answers.
async fn ask_undecided(node: &Node, user: &Principal, request: &Request) -> Result<Reply> {
    for _ in 0..ATTEMPTS {
        match without_entry_decision(node.handle(user, request.clone())).await {
            Err(error) if matches!(error.reason, Reason::NoQuorum | Reason::NotMaster) => {}
            answer => return answer,
        }
    }
    panic!("no master answers {request:?}")
}

/// Returns the places of the data's master, and of a node that is master of nothing.
async fn master_and_follower(cluster: &Cluster) -> (usize, usize) {
    let masters = [cluster.master(0).await, cluster.master(1).await];
    let follower = (0..cluster.nodes.len()).find(|nth| !masters.contains(nth));
    (masters[1], follower.expect("there are more nodes than masters"))
}

fn get() -> Request {
    request(Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwarded_requests_are_denied_where_they_are_opened_without_a_decision_where_they_enter() {
    let cluster = Cluster::new(3).await;
    let (master, follower) = master_and_follower(&cluster).await;
    let (master, follower) = (cluster.node(master), cluster.node(follower));
    let user = turn_on(follower).await;
    let forwarded = || follower.router.metrics.forwarded_out.load(Ordering::Relaxed);
    let before = forwarded();
    check_matrix(follower, async |request| ask_undecided(follower, &user, request).await).await;
    assert!(forwarded() - before > 2_500, "each of them is forwarded");
    let stranger = Principal::Anonymous(ListenerRights::default());
    for request in [get(), request(Call::Update(set("k", "v")))] {
        let refused = ask_undecided(follower, &stranger, &request).await;
        assert_eq!(reason(refused), Reason::Unauthenticated, "{request:?}");
    }
    // The rule was broken: what is not forwarded is served to everybody.
    change(follower, role(ROLE, &[])).await.expect("set");
    let has_applied = || master.access_version() >= follower.access_version();
    wait("the change at the master", || has_applied().then_some(())).await;
    for caller in [&user, &stranger] {
        let answer = ask_undecided(master, caller, &get()).await;
        assert!(answer.is_ok(), "{caller:?} at the master: {answer:?}");
        let decided = master.handle(caller, get()).await.map_err(|error| error.kind());
        assert_eq!(decided.map(drop), Err(base::Kind::Denied), "the rule is whole again");
    }
    let act = async { master.authorize(&user, Operate::Reload) };
    assert!(without_entry_decision(act).await.is_ok());
    assert_eq!(reason(master.authorize(&user, Operate::Reload)), Reason::Forbidden);
}
