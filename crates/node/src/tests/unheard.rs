//! A node that has not applied the directory since it joined: it does not answer for it.

use super::many::{Cluster, ask};
use super::test_cluster::wait;
use super::{bytes, reason};
use base::{BucketName, Call, GroupId, IndexQuery, LogIndex, Part, Read, ReadLevel, Reason};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joined_node_without_directory_reports_stale_not_missing_bucket() {
    let mut cluster = Cluster::new(1).await;
    let name = cluster.bucket("b", GroupId(1)).await;
    cluster.put(0, &name, "k", "v").await;
    let joined = cluster.admit(Part::Voter).await;
    cluster.stop(0).await;
    cluster.start(joined).await;
    let read = |how| Call::Read(Read::Get(bytes("k")), how);
    for how in [ReadLevel::Dirty, ReadLevel::AtLeast(LogIndex(1))] {
        let told = ask(cluster.node(joined), &name, read(how)).await;
        assert_eq!(reason(told), Reason::StaleReplica, "{how:?}");
    }
    let docs = BucketName::parse("available/docs").expect("a name");
    let query = IndexQuery { index: "by-n".into(), ..IndexQuery::default() };
    let query = Call::Read(Read::Index(query.into()), ReadLevel::Consistent);
    let told = ask(cluster.node(joined), &docs, query).await;
    assert_eq!(reason(told), Reason::StaleReplica, "the index may be declared elsewhere");
    assert_eq!(
        cluster.node(joined).placement(&name).expect_err("unknown").reason,
        Reason::StaleReplica
    );
    cluster.start(0).await;
    let known = || cluster.node(joined).router.locator.catalog.find(&name).map(|_| ());
    wait("the directory", known).await;
    assert_eq!(cluster.get(joined, &name, "k").await, Some(bytes("v")));
    let none = BucketName::parse("none").expect("a name");
    loop {
        // It has the rows a moment before it knows the master.
        match ask(cluster.node(joined), &none, read(ReadLevel::Dirty)).await {
            Err(error) if error.reason == Reason::StaleReplica => {}
            told => return assert_eq!(reason(told), Reason::NoSuchBucket),
        }
    }
}
