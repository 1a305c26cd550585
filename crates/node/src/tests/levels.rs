//! The feature level: a cluster of the first level is raised while it runs, once every member's
//! data directory is marked.

use super::index_queries::tagged;
use super::indexed::{create, spec};
use super::many::{Cluster, ask};
use super::test_cluster::wait;
use base::codec::checksum;
use base::{
    Body, BucketName, Call, ClusterCall, DirectoryCall, FeatureLevel, IndexQuery, Read, ReadLevel,
    Reason, Result,
};
use bytes::Bytes;
use metadata::levels::{self, LevelRow};
use metadata::rows::{LEVEL, set};
use std::path::PathBuf;

impl Cluster {
    fn identity_file(&self, nth: usize) -> PathBuf {
        self.places[nth].path().join("IDENTITY")
    }

    fn identity(&self, nth: usize) -> String {
        std::fs::read_to_string(self.identity_file(nth)).expect("there")
    }

    /// Returns true if every running node's directory is marked with a level, and the level is in
    /// force there.
    fn all_are_at(&self, level: FeatureLevel) -> bool {
        let running = (0..self.nodes.len()).filter(|nth| self.nodes[*nth].is_some());
        running.into_iter().all(|nth| {
            let in_force = self.node(nth).router.locator.catalog.cluster().level;
            in_force == level && self.identity(nth).starts_with(&format!("credenza {level}\n"))
        })
    }

    /// Makes a cluster of three of the first level, as a program before levels leaves it.
    async fn of_first_level() -> Cluster {
        let mut cluster = Cluster::new(3).await;
        let first = set(Bytes::from_static(LEVEL), levels::write(&LevelRow::default()));
        cluster.update_directory(&first).await;
        let is_first = |cluster: &Cluster| {
            let mut running = cluster.nodes.iter().flatten();
            running.all(|node| node.router.locator.catalog.cluster().level == FeatureLevel::FIRST)
        };
        wait("the row is everywhere", || is_first(&cluster).then_some(())).await;
        for nth in 0..3 {
            cluster.stop(nth).await;
            let text = cluster.identity(nth);
            let ids: Vec<_> = text.lines().skip(1).take(2).collect();
            let front = format!("credenza 1\n{}\n", ids.join("\n"));
            let sum = checksum(front.as_bytes(), 0);
            let text = format!("{front}checksum {sum:016x}\n");
            std::fs::write(cluster.identity_file(nth), text).expect("it is ours");
        }
        for nth in 0..3 {
            cluster.start(nth).await;
        }
        assert!(cluster.all_are_at(FeatureLevel::FIRST), "a start raises nothing");
        cluster
    }

    async fn raise(&self, nth: usize, level: FeatureLevel) -> Result<Body> {
        let call = Call::Directory(DirectoryCall::Cluster(ClusterCall::RaiseLevel { level }));
        ask(self.node(nth), &BucketName::default(), call).await.map(|reply| reply.body)
    }

    async fn keep_counts(&self, nth: usize) -> Result<Body> {
        let changes = vec![("counted".to_string(), "true".to_string())];
        let call = Call::Directory(DirectoryCall::AlterBucket(changes));
        ask(self.node(nth), &BucketName::default(), call).await.map(|reply| reply.body)
    }

    /// Raises the level, and again while the members' levels are not all on record.
    async fn raise_at_last(&self, nth: usize, level: FeatureLevel) {
        for _ in 0..500 {
            match self.raise(nth, level).await {
                Ok(body) => return assert_eq!(body, Body::Done),
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
        panic!("every member knows level {level}: {:?}", self.raise(nth, level).await);
    }

    /// Asserts that a node refuses to raise the level because of a member. Others whose program the
    /// master has not met yet are named alone at first.
    async fn must_refuse_for(&self, member: &str, nth: usize, level: FeatureLevel) {
        let mut refused = String::new();
        for _ in 0..500 {
            refused = self.raise(nth, level).await.expect_err(member).text().to_string();
            if refused.contains(member) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        panic!("{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn founded_cluster_is_at_the_highest_level_and_marks_every_directory() {
    let cluster = Cluster::new(3).await;
    let highest = FeatureLevel::HIGHEST;
    wait("all are marked", || cluster.all_are_at(highest).then_some(())).await;
    assert_eq!(cluster.raise(1, highest).await, Ok(Body::Done), "it is in force");
    let beyond = cluster.raise(1, FeatureLevel(highest.0 + 1)).await.expect_err("unknown");
    assert_eq!(beyond.reason, Reason::NotSupported);
    assert!(cluster.all_are_at(highest), "nothing was changed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn level_is_raised_only_with_every_member_and_then_allows_counts_and_indexes() {
    let (mut cluster, default) = (Cluster::of_first_level().await, BucketName::default());
    let refused = cluster.keep_counts(1).await.expect_err("counts need a higher level");
    assert_eq!(refused.reason, Reason::NotSupported, "{}", refused.text());
    let refused = create(cluster.node(1), &default, spec("by-count"))
        .await
        .expect_err("indexes need a higher level");
    assert!(refused.text().contains("`index` needs feature level 2"), "{refused}");
    let refused = ask(cluster.node(1), &default, tagged("k", 1)).await.expect_err("a tag does");
    assert!(refused.text().contains("`tags` needs feature level 2"), "{refused}");
    let query = IndexQuery { index: Bytes::from_static(b"by-count"), ..IndexQuery::default() };
    let query = Call::Read(Read::Index(query.into()), ReadLevel::Consistent);
    let mut refusals = Vec::new();
    for nth in 0..3 {
        let refused = ask(cluster.node(nth), &default, query.clone()).await;
        refusals.push(refused.expect_err("there is no index").text().to_string());
    }
    // The group's master finds no index. The others do not send it the query.
    let is_not_sent = |text: &&String| text.contains("`index` needs feature level 2");
    assert!(refusals.iter().filter(is_not_sent).count() >= 2, "{refusals:?}");
    cluster.stop(2).await;
    cluster.must_refuse_for("n2", 0, FeatureLevel::HIGHEST).await;
    cluster.start(2).await;
    cluster.raise_at_last(1, FeatureLevel::HIGHEST).await;
    // The row is applied here a moment later than at the master, but no directory is unmarked.
    assert!((0..3).all(|nth| cluster.identity(nth).starts_with("credenza 2\n")));
    wait("it is in force", || cluster.all_are_at(FeatureLevel::HIGHEST).then_some(())).await;
    assert_eq!(cluster.keep_counts(1).await, Ok(Body::Done));
    create(cluster.node(1), &default, spec("by-count")).await.expect("it is allowed now");
    ask(cluster.node(1), &default, tagged("k", 1)).await.expect("so are tags");
    let bucket = BucketName::default();
    cluster.put(0, &bucket, "raised", "1").await;
    cluster.stop(1).await;
    cluster.start(1).await;
    assert!(cluster.get(1, &bucket, "raised").await.is_some());
}
