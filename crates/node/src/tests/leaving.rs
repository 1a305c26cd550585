//! Stop of a node under load: clients of the node, and of others that forwarded to it, get the
//! outcome of their requests.

use super::many::{Cluster, ask, leads};
use super::test_cluster::wait;
use super::{Place, set};
use crate::Node;
use base::{BucketName, Call, Kind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Writers of one node, each of a key of its own.
struct Writers {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    at_work: Vec<JoinHandle<(String, u64)>>,
}

impl Writers {
    fn begin(node: &Node, name: &str) -> Writers {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let begin = |at: usize| {
            let (node, stop, answered) = (node.clone(), stop.clone(), answered.clone());
            let key = format!("{name}-{at}");
            tokio::spawn(async move {
                let mut last = 0;
                while !stop.load(Ordering::Acquire) {
                    let call = Call::Update(set(&key, &(last + 1).to_string()));
                    match ask(&node, &BucketName::default(), call).await {
                        Ok(_) => last += 1,
                        Err(error) if error.kind() == Kind::Unavailable => {}
                        Err(error) => panic!("{key}: nobody knows what came of it: {error}"),
                    }
                    answered.fetch_add(1, Ordering::AcqRel);
                }
                (key, last)
            })
        };
        let at_work = (0..8).map(begin).collect();
        Writers { stop, answered, at_work }
    }

    /// Waits until so many more requests are answered.
    async fn answers(&self, count: u64) {
        let upto = self.answered.load(Ordering::Acquire) + count;
        let is_present = || (self.answered.load(Ordering::Acquire) >= upto).then_some(());
        wait("answers", is_present).await;
    }

    /// Returns each key with the value written last.
    async fn end(self) -> Vec<(String, u64)> {
        self.stop.store(true, Ordering::Release);
        let mut last = Vec::new();
        for writer in self.at_work {
            last.push(writer.await.expect("it was told everything"));
        }
        last
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_master_leaves_no_write_in_doubt() {
    let mut cluster = Cluster::new(3).await;
    for round in 0..3 {
        let leaving = cluster.master(1).await;
        let others = (0..3).filter(|which| *which != leaving);
        let others = others.map(|which| (cluster.node(which), format!("{round}-{which}")));
        let others: Vec<_> = others.map(|(node, name)| Writers::begin(node, &name)).collect();
        let own = Writers::begin(cluster.node(leaving), &format!("{round}-own"));
        own.answers(40).await;
        cluster.node(leaving).step_down().await;
        let group = cluster.group(leaving, 1);
        let master = group.leadership.subscribe().borrow().master;
        assert!(
            !leads(&group)
                && master.is_some_and(|it| it != cluster.node(leaving).cluster.links.node)
        );
        // It is asked until the front-ends are closed, and the new master answers.
        own.answers(40).await;
        let mut written = own.end().await;
        cluster.stop(leaving).await;
        for others in others {
            others.answers(40).await;
            written.extend(others.end().await);
        }
        cluster.start(leaving).await;
        for (key, last) in written {
            let found = cluster.get(leaving, &BucketName::default(), &key).await;
            assert_eq!(found, Some(last.to_string().into()), "{key} in round {round}");
        }
    }
}

#[tokio::test]
async fn sole_node_keeps_serving_after_step_down() {
    let place = Place::new();
    let node = Node::start(place.settings()).await.expect("it starts");
    node.step_down().await;
    let call = Call::Update(set("k", "v"));
    ask(&node, &BucketName::default(), call).await.expect("it is the only one");
    node.stop().await.expect("it stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn step_down_without_majority_ends_in_bounded_time() {
    let mut cluster = Cluster::new(3).await;
    let last = cluster.master(1).await;
    for nth in (0..3).filter(|nth| *nth != last) {
        cluster.stop(nth).await;
    }
    let (node, call) = (cluster.node(last).clone(), Call::Update(set("k", "v")));
    let undecided = tokio::spawn(async move { ask(&node, &BucketName::default(), call).await });
    let ended = tokio::time::timeout(Duration::from_secs(20), cluster.node(last).step_down());
    ended.await.expect("it waits for a while only");
    undecided.abort();
}
