//! Two nodes with the data and a witness: any one of the three may die.

use super::many::{Cluster, ask, leads};
use super::test_cluster::wait;
use super::{bytes, reason, set};
use base::{AlarmCode, Body, BucketName, Call, Error, GroupId, Part, Read, ReadLevel, Reason};

/// The two, and the witness as the third.
async fn pair() -> Cluster {
    let mut cluster = Cluster::new(2).await;
    assert_eq!(cluster.join_as(Part::Witness).await, 2);
    cluster
}

fn default() -> BucketName {
    BucketName::default()
}

async fn put_all(cluster: &Cluster, nth: usize, name: &BucketName, round: &str, count: usize) {
    for number in 0..count {
        cluster.put(nth, name, &format!("{round} {number}"), "v").await;
    }
}

async fn all_there(cluster: &Cluster, nth: usize, name: &BucketName, round: &str, count: usize) {
    for number in 0..count {
        let key = format!("{round} {number}");
        assert_eq!(cluster.get(nth, name, &key).await, Some(bytes("v")), "{key}");
    }
}

/// Number of entries that the witness keeps of a group.
fn kept(cluster: &Cluster, group: u32) -> u64 {
    let groups = cluster.node(2).status().groups;
    groups.iter().find(|found| found.id == GroupId(group)).map_or(0, |found| found.kept_values)
}

/// Flushes a node's store, and drops the log that it does not need.
async fn collapse(cluster: &Cluster, nth: usize) {
    let flusher = cluster.node(nth).housekeeper.flusher.clone();
    let flushed = tokio::task::spawn_blocking(move || {
        flusher.flush_and_collapse()?;
        flusher.flush_and_collapse()
    });
    flushed.await.expect("it ends").expect("it goes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pair_with_witness_survives_loss_of_any_single_node() {
    let mut cluster = pair().await;
    for dies in 0..3 {
        put_all(&cluster, 0, &default(), &format!("before {dies}"), 5).await;
        cluster.stop(dies).await;
        let other = (dies + 1) % 3;
        put_all(&cluster, other, &default(), &format!("without {dies}"), 5).await;
        cluster.start(dies).await;
    }
    for nth in 0..3 {
        for round in 0..3 {
            all_there(&cluster, nth, &default(), &format!("before {round}"), 5).await;
            all_there(&cluster, nth, &default(), &format!("without {round}"), 5).await;
        }
    }
    for group in [0, 1] {
        assert!(!leads(&cluster.group(2, group)), "a witness never leads");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returning_voter_gets_missed_entries_from_the_witness() {
    let mut cluster = pair().await;
    put_all(&cluster, 0, &default(), "both", 5).await;
    cluster.stop(1).await;
    put_all(&cluster, 0, &default(), "one", 200).await;
    let all_kept = |cluster: &Cluster| (kept(cluster, 1) >= 200).then_some(());
    wait("all that one disk with the data holds", || all_kept(&cluster)).await;
    collapse(&cluster, 2).await;
    cluster.stop(0).await;
    // It forgets what is in memory: what is kept lasts.
    cluster.stop(2).await;
    cluster.start(2).await;
    wait("the same", || all_kept(&cluster)).await;
    cluster.start(1).await;
    all_there(&cluster, 1, &default(), "both", 5).await;
    all_there(&cluster, 1, &default(), "one", 200).await;
    put_all(&cluster, 2, &default(), "later", 5).await;
    cluster.start(0).await;
    all_there(&cluster, 0, &default(), "later", 5).await;
    wait("that both have it", || (kept(&cluster, 1) == 0).then_some(())).await;
    // Dropped entries are gone from its store, and every data member has the rows.
    cluster.stop(1).await;
    all_there(&cluster, 0, &default(), "one", 200).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_witness_stops_writers_until_the_voter_returns() {
    let mut cluster = Cluster::new(2).await;
    cluster.log_bytes_max = 4 << 20;
    cluster.join_as(Part::Witness).await;
    cluster.put(0, &default(), "k", "v").await;
    cluster.stop(1).await;
    // For a lease's length the master counts on the stopped member.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let large = "x".repeat(1 << 20);
    let refused: Error = loop {
        let answer = ask(cluster.node(0), &default(), Call::Update(set("large", &large))).await;
        match answer {
            Err(error) if error.reason == Reason::OutOfSpace => break error,
            Err(error) => assert_ne!(error.kind(), base::Kind::Corrupt, "{error}"),
            Ok(_) => assert!(kept(&cluster, 1) < 40, "it keeps more and more"),
        }
    };
    assert!(refused.text().contains("witness"), "{refused}");
    let alarms = cluster.node(0).status().alarms;
    assert!(alarms.iter().any(|alarm| alarm.code == AlarmCode::WitnessFull), "{alarms:?}");
    // Reads go on, and so does whatever mends it.
    assert_eq!(cluster.get(0, &default(), "k").await, Some(bytes("v")));
    cluster.start(1).await;
    cluster.put(0, &default(), "k", "again").await;
    assert_eq!(cluster.get(1, &default(), "k").await, Some(bytes("again")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_joining_witness_takes_no_rows_and_votes() {
    let mut cluster = Cluster::with_log(2, 8 << 20).await;
    let large = "x".repeat(512 << 10);
    for number in 0..40 {
        cluster.put(0, &default(), &format!("large {number}"), &large).await;
    }
    for nth in [0, 1] {
        let group = cluster.group(nth, 1);
        let last = group.applied.index();
        group.state().entries.release_applied(last, true);
        collapse(&cluster, nth).await;
    }
    cluster.join_as(Part::Witness).await;
    put_all(&cluster, 0, &default(), "after", 5).await;
    cluster.stop(1).await;
    put_all(&cluster, 2, &default(), "without", 5).await;
    let rows = cluster.node(2).status().store;
    assert!(rows.disk_bytes + rows.memory_bytes < 8 << 20, "no rows, and not the log: {rows:?}");
    // A witness passes a request for rows on to a node that has them, whatever the read level.
    for level in [ReadLevel::Consistent, ReadLevel::Dirty] {
        let call = Call::Read(Read::Get(bytes("large 7")), level);
        match ask(cluster.node(2), &default(), call).await.expect("passed on").body {
            Body::Row(row) => assert_eq!(row.map(|row| row.value), Some(bytes(&large))),
            other => panic!("a get is answered with a row, not {other:?}"),
        }
    }
    let copy = super::Place::new();
    let refused = cluster.node(2).checkpoint(copy.path().to_path_buf()).await;
    assert_eq!(reason(refused), Reason::NotSupported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn created_group_with_witness_survives_restarts() {
    let mut cluster = pair().await;
    let created = cluster.create(None, &["n0", "n1", "n2"]).await;
    assert_eq!((created.founders.len(), created.witnesses(), created.voters()), (2, 1, 3));
    let name = cluster.bucket("b", created.group).await;
    put_all(&cluster, 0, &name, "both", 5).await;
    let own = cluster.node(2).cluster.links.node;
    let votes = || {
        let group = cluster.node(0).router.locator.groups.get(created.group)?;
        group.configuration().is_voter(own).then_some(())
    };
    wait("the witness's vote", votes).await;
    cluster.stop(1).await;
    cluster.stop(2).await;
    cluster.start(2).await;
    put_all(&cluster, 2, &name, "one", 20).await;
    wait("what it keeps", || (kept(&cluster, created.group.0) >= 20).then_some(())).await;
    cluster.stop(0).await;
    cluster.start(1).await;
    all_there(&cluster, 1, &name, "one", 20).await;
}
