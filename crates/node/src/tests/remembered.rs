//! A connection that keeps asking for one bucket, whatever happens to it meanwhile.

use super::many::{Cluster, leads};
use super::test_cluster::wait;
use super::{Place, bytes, request, set};
use crate::{Flow, Node};
use base::{
    Body, BucketName, Call, ClusterCall, DirectoryCall, GroupId, Part, Read, ReadLevel, Request,
    Result, Value,
};

/// The row of a key, or the error, as this connection sees it.
async fn look(
    node: &Node,
    flow: &mut Flow,
    bucket: &BucketName,
    key: &str,
) -> Result<Option<Value>> {
    let call = Call::Read(Read::Get(bytes(key)), ReadLevel::Consistent);
    loop {
        let request = Request { bucket: bucket.clone(), ..request(call.clone()) };
        let submitted = node.submit(flow, request);
        match node.router.wait_reply(submitted).await {
            Err(error) if error.kind() == base::Kind::Unavailable => {}
            answer => match answer?.body {
                Body::Row(row) => return Ok(row.map(|row| row.value)),
                other => panic!("a get is answered with a row, not {other:?}"),
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_follows_its_bucket_across_group_moves() {
    let cluster = Cluster::new(3).await;
    cluster.create(None, &["n0"]).await;
    let name = cluster.bucket("b", GroupId(2)).await;
    let mut flows: Vec<Flow> = (0..3).map(|_| Flow::of(base::Principal::Node)).collect();
    for (round, to) in ["n0", "n1", "n0", "n2", "n0"].into_iter().enumerate() {
        let place = ClusterCall::PlaceGroup {
            group: GroupId(2),
            members: vec![(to.to_string(), Part::Voter)],
        };
        cluster.directory(DirectoryCall::Cluster(place)).await;
        let which = usize::from(to.as_bytes()[1] - b'0');
        wait("the way there", || {
            let group = cluster.node(which).router.locator.groups.get(GroupId(2))?;
            leads(&group).then_some(())
        })
        .await;
        let value = format!("{round}");
        cluster.put(which, &name, "k", &value).await;
        for (which, flow) in flows.iter_mut().enumerate() {
            let seen = look(cluster.node(which), flow, &name, "k").await;
            assert_eq!(seen, Ok(Some(bytes(&value))), "at n{which}, when it lives at {to}");
        }
    }
}

#[tokio::test]
async fn connection_sees_bucket_dropped_and_recreated() {
    let place = Place::new();
    let node = place.start().await;
    let name = BucketName::parse("b").expect("a name");
    let mut flow = Flow::of(base::Principal::Node);
    let of = |call| Request { bucket: name.clone(), ..request(call) };
    for round in 0..3 {
        let make = Call::Directory(DirectoryCall::CreateBucket(Vec::new()));
        node.handle(&base::Principal::Node, of(make)).await.expect("made");
        assert_eq!(look(&node, &mut flow, &name, "k").await, Ok(None), "round {round}");
        node.handle(&base::Principal::Node, of(Call::Update(set("k", "v")))).await.expect("put");
        assert_eq!(look(&node, &mut flow, &name, "k").await, Ok(Some(bytes("v"))));
        node.handle(&base::Principal::Node, of(Call::Directory(DirectoryCall::DropBucket)))
            .await
            .expect("dropped");
        let refused = look(&node, &mut flow, &name, "k").await;
        assert_eq!(super::reason(refused), base::Reason::NoSuchBucket);
    }
    // Another bucket, and back.
    look(&node, &mut flow, &BucketName::default(), "k").await.expect("it is there");
    node.stop().await.expect("it stops");
}

/// The data of a stopped node may be opened anew, though clients keep their connections; and the
/// group that such a connection remembers of the former run is not used in the next.
#[tokio::test]
async fn connection_uses_no_group_of_a_previous_run() {
    let place = Place::new();
    let (name, mut flow) = (BucketName::default(), Flow::of(base::Principal::Node));
    let mut before = None;
    for _ in 0..2 {
        let node = place.start().await;
        let groups = node.router.locator.groups.clone();
        assert!(flow.cached_bucket(&name, &groups).is_none());
        look(&node, &mut flow, &name, "k").await.expect("it is there");
        assert!(flow.cached_bucket(&name, &groups).is_some());
        node.stop().await.expect("it stops");
        // As a thread does that has not seen yet that the node has stopped.
        before = Some(groups.get(GroupId(1)).expect("it is there"));
    }
    drop(before);
}

/// A group that has ended may outlive its place in the table for a moment: it is not used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connection_uses_no_group_removed_from_the_table() {
    let cluster = Cluster::new(1).await;
    let created = cluster.create(None, &[]).await;
    let name = cluster.bucket("b", created.group).await;
    let mut flow = Flow::of(base::Principal::Node);
    look(cluster.node(0), &mut flow, &name, "k").await.expect("it is there");
    let groups = &cluster.node(0).router.locator.groups;
    assert!(flow.cached_bucket(&name, groups).is_some());
    let held = groups.get(created.group).expect("it is there");
    groups.remove(created.group);
    assert!(flow.cached_bucket(&name, groups).is_none());
    groups.add(held);
    look(cluster.node(0), &mut flow, &name, "k").await.expect("it is there again");
}
