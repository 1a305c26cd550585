//! Join tokens in the directory: how they end, and how many there are.

use super::{Place, reason};
use crate::Node;
use base::limits::JOIN_TOKENS_MAX;
use base::{
    Body, BucketName, Call, ClusterCall, DirectoryCall, JoinToken, MemberDescription, NodeId, Part,
    Reason, Request, Result, Stay,
};
use std::time::Duration;

async fn ask(node: &Node, call: ClusterCall) -> Result<Body> {
    let call = Call::Directory(DirectoryCall::Cluster(call));
    let request = Request { bucket: BucketName::default(), call, retry: None };
    node.handle(request).await.map(|reply| reply.body)
}

/// What a node asks that joins.
fn join(node: u64) -> ClusterCall {
    let member = MemberDescription {
        node: NodeId(node),
        name: format!("n{node}"),
        peer: format!("127.0.0.1:{node}"),
        client: format!("127.0.0.1:1{node}"),
        incarnation: 0,
        stay: Stay::Member,
    };
    ClusterCall::AddMember { member, part: Part::Learner, lease_ms: 600 }
}

fn shown(token: &JoinToken, call: ClusterCall) -> ClusterCall {
    ClusterCall::Shown { digest: token.digest(), call: Box::new(call) }
}

#[tokio::test]
async fn tokens_end_by_themselves_and_are_bounded() {
    let place = Place::new();
    let node = place.start().await;
    let short = node.make_join_token(Some(1)).await.expect("made");
    for _ in 1..JOIN_TOKENS_MAX {
        node.make_join_token(Some(600_000)).await.expect("made");
    }
    // Group time goes on by itself, a step at a time.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(reason(ask(&node, shown(&short, join(2))).await), Reason::Forbidden);
    node.make_join_token(Some(600_000)).await.expect("in the place of the one that ended");
    let many = node.make_join_token(None).await.expect_err("too many");
    assert_eq!(many.reason, Reason::TooMany);
    assert!(many.text().contains("--revoke"), "{many}");
    assert_eq!(ask(&node, ClusterCall::RevokeTokens).await, Ok(Body::Done));
    node.make_join_token(None).await.expect("there is room");
    node.stop().await.expect("it stops");
}
