//! The cluster's secret: there from the founding on, and given to a cluster of a version before
//! while it runs.

use super::many::{Cluster, ask};
use super::test_cluster::wait;
use base::request::OnMissing;
use base::{Body, BucketName, Call, ClusterCall, DirectoryCall, Part, Reason, Result, Update};
use bytes::Bytes;
use metadata::rows::SECRET;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use transport::Credential;

impl Cluster {
    /// Returns the credential that a node greets with.
    fn credential(&self, nth: usize) -> Option<Credential> {
        self.node(nth).cluster.links.peers.get().and_then(|peers| peers.credential())
    }

    fn secret_file(&self, nth: usize) -> PathBuf {
        self.places[nth].path().join("SECRET")
    }

    /// Returns true if all running nodes require this secret, and have written that down.
    fn all_require(&self, known: &Credential) -> bool {
        let running = (0..self.nodes.len()).filter(|nth| self.nodes[*nth].is_some());
        running.into_iter().all(|nth| {
            let text = std::fs::read_to_string(self.secret_file(nth)).unwrap_or_default();
            self.credential(nth).as_ref() == Some(known) && text.contains(" required\n")
        })
    }

    /// Makes a cluster of three that never had a secret.
    async fn of_before() -> Cluster {
        let mut cluster = Cluster::new(3).await;
        let key = Bytes::from_static(SECRET);
        let delete = Update::Delete { key, missing: OnMissing::Fail };
        cluster.update_directory(&delete).await;
        let removed = || {
            let mut running = cluster.nodes.iter().flatten();
            running.all(|node| node.router.locator.catalog.secret().is_none()).then_some(())
        };
        wait("the row is gone everywhere", removed).await;
        for nth in 0..3 {
            cluster.stop(nth).await;
            std::fs::remove_file(cluster.secret_file(nth)).expect("it was there");
        }
        for nth in 0..3 {
            cluster.start(nth).await;
        }
        assert!((0..3).all(|nth| cluster.credential(nth).is_none()));
        cluster
    }

    async fn make_secret(&self, nth: usize) -> Result<Body> {
        let call = Call::Directory(DirectoryCall::Cluster(ClusterCall::MakeSecret));
        ask(self.node(nth), &BucketName::default(), call).await.map(|reply| reply.body)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn founded_cluster_requires_its_secret_of_every_member() {
    let mut cluster = Cluster::new(3).await;
    let known = cluster.credential(0).expect("it was founded with one");
    assert!(known.is_required);
    wait("all require it", || cluster.all_require(&known).then_some(())).await;
    for nth in 0..3 {
        let mode = std::fs::metadata(cluster.secret_file(nth)).expect("there").permissions();
        assert_eq!(mode.mode() & 0o077, 0, "nobody but its owner reads it");
    }
    assert_eq!(cluster.make_secret(1).await, Ok(Body::Done), "there is one");
    // A damaged file keeps no node away: the applied rows have the secret, too.
    cluster.stop(2).await;
    std::fs::write(cluster.secret_file(2), "no secret").expect("it is ours");
    cluster.start(2).await;
    wait("it is written anew", || cluster.all_require(&known).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_without_secret_adopts_a_secret_while_running() {
    let mut cluster = Cluster::of_before().await;
    let bucket = BucketName::default();
    cluster.put(0, &bucket, "before", "1").await;
    // A member that is away can't be given it, so the others go on without requiring it.
    cluster.stop(2).await;
    let offered = wait("a secret is offered", || cluster.credential(0));
    let asking = async {
        loop {
            match cluster.make_secret(0).await {
                Err(error) if error.reason == Reason::NoQuorum && error.text().contains("n2") => {
                    return;
                }
                Ok(_) | Err(_) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            }
        }
    };
    let (offered, ()) = tokio::join!(offered, asking);
    assert!(!offered.is_required);
    cluster.put(0, &bucket, "offered", "2").await;
    // It comes back without, is let in, hears of it, and then it is required of all.
    cluster.start(2).await;
    let known = Credential { is_required: true, ..offered };
    wait("all require it", || cluster.all_require(&known).then_some(())).await;
    assert_eq!(cluster.make_secret(2).await, Ok(Body::Done));
    cluster.put(1, &bucket, "required", "3").await;
    // Every connection is one that was proven: the others ended. A node that joins is told.
    let joined = cluster.join_as(Part::Voter).await;
    wait("the new one, too", || cluster.all_require(&known).then_some(())).await;
    for key in ["before", "offered", "required"] {
        assert!(cluster.get(joined, &bucket, key).await.is_some(), "{key}");
    }
}
