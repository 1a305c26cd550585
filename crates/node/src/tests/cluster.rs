//! Three nodes keep one history.

use super::test_cluster::{TestCluster, put, wait};
use crate::Node;
use base::{LogIndex, Part, Reason};
use std::sync::atomic::Ordering;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_reaches_all_replicas_and_followers_refuse_requests() {
    let cluster = TestCluster::new(3, 3).await;
    for round in 0..20 {
        cluster.write(&format!("k{round}"), "v").await.expect("it goes");
    }
    let index = cluster.write("last", "one").await.expect("it goes");
    for nth in 0..3 {
        cluster.applied(nth, index).await;
        assert_eq!(cluster.value(nth, "last"), Some("one".into()));
        assert_eq!(cluster.value(nth, "k19"), Some("v".into()));
    }
    let master = cluster.master().await;
    let group = cluster.group(master);
    wait("a lease", || group.leadership.can_read().then_some(())).await;
    assert!(group.read_index().await.expect("it goes") >= index);
    for nth in (0..3).filter(|nth| *nth != master) {
        let follower = cluster.group(nth);
        assert!(!follower.leadership.can_read());
        let refused = put(&follower, "k", "v").await.expect_err("refused");
        assert_eq!(refused.reason, Reason::NotMaster);
        let refused = follower.read_index().await.expect_err("refused");
        assert_eq!(refused.reason, Reason::NotMaster);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_master_is_replaced_and_catches_up_on_restart() {
    let mut cluster = TestCluster::new(3, 3).await;
    cluster.write("before", "1").await.expect("it goes");
    let first = cluster.master().await;
    cluster.stop(first).await;
    let index = cluster.write("meanwhile", "2").await.expect("it goes");
    let second = cluster.master().await;
    assert_ne!(first, second);
    cluster.start(first).await;
    cluster.applied(first, index).await;
    assert_eq!(cluster.value(first, "meanwhile"), Some("2".into()));
    assert_eq!(cluster.value(first, "before"), Some("1".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handover_to_chosen_voter_leaves_no_write_in_doubt() {
    let cluster = TestCluster::new(3, 3).await;
    cluster.write("before", "1").await.expect("it goes");
    for _ in 0..3 {
        let from = cluster.master().await;
        let to = (from + 1) % 3;
        let (group, successor) = (cluster.group(from), cluster.group(to));
        assert_eq!(
            group.hand_over(base::NodeId(7)).map_err(|error| error.reason),
            Err(Reason::NotSupported)
        );
        assert_eq!(
            successor.hand_over(cluster.ids[from]).map_err(|error| error.reason),
            Err(Reason::NotMaster)
        );
        group.hand_over(cluster.ids[to]).expect("it may lead");
        while !successor.leadership.is_master() {
            // Never in doubt: it is taken, or nothing happened.
            if let Err(error) = put(&cluster.group(from), "k", "v").await {
                assert_eq!(error.reason, Reason::NotMaster);
            }
        }
        let level = |progress: &logic::consensus::Progress| progress.saved.is_some();
        wait("word of all", || successor.progress().iter().all(level).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_fail_without_majority_and_resume_after_recovery() {
    let mut cluster = TestCluster::new(3, 3).await;
    cluster.write("before", "1").await.expect("it goes");
    let last = cluster.master().await;
    let others: Vec<_> = (0..3).filter(|nth| *nth != last).collect();
    for nth in &others {
        cluster.stop(*nth).await;
    }
    let group = cluster.group(last);
    let in_doubt = tokio::spawn(async move { put(&group, "k", "in doubt").await });
    let group = cluster.group(last);
    wait("the end of its office", || (!group.leadership.is_master()).then_some(())).await;
    assert!(!group.leadership.can_read());
    let outcome = in_doubt.await.expect("it goes").expect_err("refused");
    assert!(matches!(outcome.reason, Reason::NoLongerMaster | Reason::NotMaster), "{outcome}");
    cluster.start(others[0]).await;
    let index = cluster.write("after", "2").await.expect("it goes");
    cluster.start(others[1]).await;
    for nth in 0..3 {
        cluster.applied(nth, index).await;
        assert_eq!(cluster.value(nth, "after"), Some("2".into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn learner_joins_under_writes_and_then_replaces_the_master() {
    use logic::consensus::Member;
    let cluster = TestCluster::new(4, 3).await;
    let mut written = Vec::new();
    for round in 0..50 {
        written.push(cluster.write(&format!("k{round}"), "v").await.expect("it goes"));
    }
    let part = |nth: usize, part| Member { node: cluster.ids[nth], part };
    let (voter, learner) = (Part::Voter, Part::Learner);
    let mut members: Vec<_> = (0..3).map(|nth| part(nth, voter)).collect();
    members.push(part(3, learner));
    let master = cluster.group(cluster.master().await);
    let ticket = master.reconfigure(members.clone(), None).expect("it goes");
    let again = master.reconfigure(members.clone(), None).expect_err("refused");
    assert_eq!(again.reason, Reason::Changed);
    // What is written behind the stop-sign waits for the next configuration, and is not lost.
    let behind = put(&master, "behind", "the sign").await;
    master.wait_applied(ticket).await.expect("it goes");
    let index = behind.expect("it goes");
    cluster.applied(3, index).await;
    assert_eq!(cluster.value(3, "k0"), Some("v".into()));
    assert_eq!(cluster.value(3, "behind"), Some("the sign".into()));
    let parts = |nth: usize| cluster.group(nth).configuration().members().len();
    assert_eq!((parts(0), parts(3)), (4, 4));
    // The learner takes the master's place.
    let leaves = cluster.master().await;
    members.retain(|member| member.node != cluster.ids[leaves]);
    members.iter_mut().for_each(|member| member.part = voter);
    cluster.group(leaves).reconfigure(members, None).expect("it goes");
    let next = wait("another master", || {
        (0..4).find(|nth| *nth != leaves && cluster.group(*nth).leadership.is_master())
    })
    .await;
    let index = put(&cluster.group(next), "without", "it").await.expect("it goes");
    for nth in (0..4).filter(|nth| *nth != leaves) {
        cluster.applied(nth, index).await;
        assert_eq!(cluster.value(nth, "without"), Some("it".into()));
    }
    assert!(index > *written.last().unwrap_or(&LogIndex(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returning_follower_gets_evicted_entries_from_the_log() {
    let mut cluster = TestCluster::new(3, 3).await;
    cluster.write("before", "1").await.expect("it goes");
    let master = cluster.master().await;
    let away = (master + 1) % 3;
    cluster.stop(away).await;
    let large = "x".repeat(1 << 20);
    let mut last = LogIndex(0);
    for round in 0..40 {
        last = cluster.write(&format!("large{round}"), &large).await.expect("it goes");
    }
    let first = cluster.group(master).state().entries.get(LogIndex(5));
    assert!(first.is_none(), "it has left memory");
    cluster.start(away).await;
    cluster.applied(away, last).await;
    for round in 0..40 {
        let value = cluster.value(away, &format!("large{round}"));
        assert_eq!(value.map(|value| value.len()), Some(1 << 20), "{round}");
    }
}

/// Much less than the tests below write.
pub(super) const LOG_BYTES: u64 = 8 << 20;

/// Makes every running node drop the log that it does not need itself.
pub(super) async fn collapse(cluster: &TestCluster) {
    for node in cluster.nodes.iter().flatten() {
        let flusher = node.housekeeper.flusher.clone();
        tokio::task::spawn_blocking(move || {
            // A second time, for the first one made durable what the log was needed for.
            flusher.flush_and_collapse().expect("it goes");
            flusher.flush_and_collapse().expect("it goes");
        })
        .await
        .expect("it goes");
    }
    wait("collapsed logs", || {
        let collapsed = |node: &Node| node.housekeeper.disk.log_writer.bytes() < 8 << 20;
        cluster.nodes.iter().flatten().all(collapsed).then_some(())
    })
    .await;
}

pub(super) fn received(cluster: &TestCluster, nth: usize) -> u64 {
    let node = cluster.nodes[nth].as_ref().expect("it runs");
    node.router.metrics.snapshots_received.load(Ordering::Relaxed)
}

/// Writes until it is certain: an election on a busy machine leaves a write in doubt, and this one
/// may be done twice.
async fn surely(cluster: &TestCluster, key: &str, value: &str) -> LogIndex {
    loop {
        match cluster.write(key, value).await {
            Err(error) if error.kind() == base::Kind::Unknown => {}
            written => return written.expect("it goes"),
        }
    }
}

async fn delete(cluster: &TestCluster, key: &str) {
    let missing = base::request::OnMissing::Skip;
    let delete = base::Update::Delete { key: super::bytes(key), missing };
    while cluster.value(cluster.master().await, key).is_some() {
        let master = cluster.group(cluster.master().await);
        if let Ok((Some(ticket), ..)) = master.submit(&super::test_cluster::bucket(), &delete, None)
        {
            let _ = master.wait_applied(ticket).await; // In doubt, as above: it is looked at again.
        }
    }
}

/// Makes these the members, whichever node is master meanwhile.
async fn become_members(cluster: &TestCluster, members: &[logic::consensus::Member]) {
    wait("the members", || {
        let running = (0..cluster.nodes.len()).map(|nth| cluster.group(nth));
        let mut masters = running.filter(|group| group.leadership.is_master());
        let master = masters.next()?;
        if master.configuration().members() == members {
            return Some(());
        }
        let _ = master.reconfigure(members.to_vec(), None); // It may be under way.
        None
    })
    .await;
}

pub(super) async fn large_values(cluster: &TestCluster, rounds: std::ops::Range<u32>) -> LogIndex {
    let large = "x".repeat(1 << 20);
    let mut last = LogIndex(0);
    for round in rounds {
        last = surely(cluster, &format!("large{round}"), &large).await;
    }
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_behind_collapsed_log_recovers_by_snapshot() {
    let mut cluster = TestCluster::with_log(3, 3, LOG_BYTES).await;
    surely(&cluster, "gone", "away").await;
    surely(&cluster, "kept", "before").await;
    let away = (cluster.master().await + 1) % 3;
    cluster.stop(away).await;
    large_values(&cluster, 0..40).await;
    delete(&cluster, "gone").await;
    let last = surely(&cluster, "meanwhile", "x").await;
    collapse(&cluster).await;
    cluster.start(away).await;
    cluster.applied(away, last).await;
    // The directory may have gone on meanwhile, and need one, too.
    assert!(received(&cluster, away) >= 1, "its log ends before the others' begin");
    let same = |cluster: &TestCluster| {
        let value = |key: &str| cluster.value(away, key).map(|value| value.len());
        assert_eq!((value("gone"), value("kept")), (None, Some(6)));
        (0..40).for_each(|round| assert_eq!(value(&format!("large{round}")), Some(1 << 20)));
    };
    same(&cluster);
    // It votes: with it, and without another, all goes on.
    let other = (0..3).find(|nth| *nth != away).expect("three are there");
    cluster.stop(other).await;
    let index = surely(&cluster, "after", "y").await;
    cluster.applied(away, index).await;
    // What it has is its own: it comes back to it, by the log alone.
    cluster.start(other).await;
    cluster.stop(away).await;
    let index = surely(&cluster, "later", "z").await;
    cluster.start(away).await;
    cluster.applied(away, index).await;
    assert_eq!((received(&cluster, away), cluster.value(away, "after")), (0, Some("y".into())));
    same(&cluster);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_member_starts_from_a_snapshot_under_writes() {
    use logic::consensus::Member;
    let cluster = TestCluster::with_log(4, 3, LOG_BYTES).await;
    large_values(&cluster, 0..40).await;
    collapse(&cluster).await;
    let part = |nth: usize, part| Member { node: cluster.ids[nth], part };
    let mut members: Vec<_> = (0..3).map(|nth| part(nth, Part::Voter)).collect();
    members.push(part(3, Part::Learner));
    members.sort();
    become_members(&cluster, &members).await;
    let last = large_values(&cluster, 40..60).await;
    cluster.applied(3, last).await;
    assert!(received(&cluster, 3) >= 1);
    for round in 0..60 {
        let value = cluster.value(3, &format!("large{round}"));
        assert_eq!(value.map(|value| value.len()), Some(1 << 20), "{round}");
    }
    members.iter_mut().for_each(|member| member.part = Part::Voter);
    become_members(&cluster, &members).await;
    wait("its vote", || {
        let standing = cluster.group(3).configuration();
        standing.is_voter(cluster.ids[3]).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn snapshot_transfer_recovers_after_sender_or_receiver_stops() {
    let mut cluster = TestCluster::with_log(3, 3, LOG_BYTES).await;
    let away = (cluster.master().await + 1) % 3;
    cluster.stop(away).await;
    let last = large_values(&cluster, 0..60).await;
    collapse(&cluster).await;
    let started = |cluster: &TestCluster| {
        let node = cluster.nodes[away].as_ref().expect("it runs");
        let here =
            |one: &crate::SnapshotStatus| one.group == super::test_cluster::GROUP && one.rows > 0;
        let started = node.status().snapshots.iter().any(here) || received(cluster, away) > 0;
        started.then_some(())
    };
    cluster.start(away).await;
    wait("a snapshot's beginning", || started(&cluster)).await;
    cluster.stop(away).await;
    cluster.start(away).await;
    wait("another beginning", || started(&cluster)).await;
    // The next master has what it takes, and needs this member's vote for anything new.
    cluster.stop(cluster.master().await).await;
    cluster.applied(away, last).await;
    let index = surely(&cluster, "after", "all").await;
    cluster.applied(away, index).await;
    for round in 0..60 {
        let value = cluster.value(away, &format!("large{round}"));
        assert_eq!(value.map(|value| value.len()), Some(1 << 20), "{round}");
    }
}
