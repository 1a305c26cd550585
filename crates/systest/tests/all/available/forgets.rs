//! F-44, the long form: a node loses the rows it wrote while it keeps hints for a node that is
//! down, and after the rows it deleted have been reaped.

use super::{
    ANTI_ENTROPY_INTERVAL, COPIES, FinishedTrial, SECOND, judge_all, set_anti_entropy_interval,
};
use std::time::{Duration, Instant};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};
use systest::report::{Figures, is_long_form, skipped};
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::{ManualClient, ReadValues};

/// Number of keys of each kind: many enough that every node owns some and keeps hints for others.
const KEYS: usize = 40;
/// Kinds of keys, by the context of their second write: none, that of an old read, that of a read
/// just before.
const KINDS: [&str; 3] = ["blind", "known", "fresh"];
/// Node that loses its rows, and the node that is down meanwhile.
const VICTIM: usize = 2;
const DOWN: usize = 4;
/// Tombstones are confirmed twice, 150 s apart, page by page, before they are reaped.
const REAP_AFTER: Duration = Duration::from_secs(200);

#[test]
fn row_loss_during_handoff_and_after_tombstone_reap_loses_no_value() {
    let name = "F-44 forgotten in a handoff, and after deletes are gone";
    if !is_long_form() {
        return skipped(name, "waits until tombstones are gone: CREDENZA_TEST_LONG=1");
    }
    let _permit = experiment();
    let scratch = Scratch::new("available-forgets");
    let mut options = Options::new(4);
    // Anti-entropy is off; otherwise it would restore the lost rows before the next write.
    options.args.extend(["--anti-entropy-interval-ms", "0"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    cluster.init_ring();
    let trials = vec![lose_rows_during_handoff(&mut cluster), lose_rows_after_reap(&mut cluster)];
    set_anti_entropy_interval(&mut cluster, ANTI_ENTROPY_INTERVAL);
    cluster.must_finish_repair();
    judge_all(&cluster.copies(COPIES), trials);
}

fn key(kind: &str, at: usize) -> String {
    format!("{kind}-{at:02}")
}

/// Writes every key through the node that will lose them; returns the contents that were read after
/// each write.
fn write_all_keys(client: &mut ManualClient) -> Vec<ReadValues> {
    let mut contents = Vec::new();
    for kind in KINDS {
        for at in 0..KEYS {
            let (key, mut read_values) = (key(kind, at), ReadValues::default());
            for _ in 0..1 + at % 3 {
                assert_eq!(client.put(VICTIM, &key, &read_values, ""), Acknowledged(()), "{key}");
                read_values = client.get(VICTIM, &key, "").expect("it is read");
            }
            contents.push(read_values);
        }
    }
    contents
}

/// Writes every key once more through that node.
fn rewrite_all_keys(client: &mut ManualClient, known: &[ReadValues]) {
    for (kind, known) in KINDS.iter().zip(known.chunks(KEYS)) {
        for (at, known) in known.iter().enumerate() {
            let key = key(kind, at);
            let seen = match *kind {
                "blind" => ReadValues::default(),
                "known" => known.clone(),
                _ => client.get(VICTIM, &key, "").expect("it is read"),
            };
            assert_eq!(client.put(VICTIM, &key, &seen, ""), Acknowledged(()), "{key}");
        }
    }
}

/// Removes the rows of that node; returns their number.
fn remove_all_rows(cluster: &mut Cluster, bucket_path: &str) -> usize {
    assert_eq!(cluster.stop(VICTIM), Some(0));
    let lost = cluster.remove_rows(VICTIM, bucket_path, |_| true);
    cluster.start_node(VICTIM);
    lost
}

/// While one node is down, a node that wrote rows, and keeps hints of some for it, loses its own
/// rows and writes on; then it dies with these hints.
fn lose_rows_during_handoff(cluster: &mut Cluster) -> FinishedTrial {
    let bucket_path = "available/handed";
    let mut figures = Figures::start("F-44 rows lost in a handoff, then written");
    let mut client = ManualClient::new(&cluster.client_addresses(), bucket_path, "hand");
    cluster.kill(DOWN);
    std::thread::sleep(3 * SECOND);
    let contents = write_all_keys(&mut client);
    let hints_stored = cluster.hints();
    let lost = remove_all_rows(cluster, bucket_path);
    client.drop_connections();
    wait_until("a node that serves", || client.get(VICTIM, "probe", "").map(|_| ()));
    rewrite_all_keys(&mut client, &contents);
    cluster.kill(VICTIM);
    cluster.start_node(VICTIM);
    figures.faults += 3;
    cluster.start_node(DOWN);
    cluster.must_converge();
    cluster.must_suspect_none();
    wait_until("hints at home", || match cluster.hints() {
        0.0 => Ok(()),
        remaining => Err(remaining.to_string()),
    });
    figures.add("hints", hints_stored);
    figures.add("rows_taken_away", lost);
    assert!(hints_stored > 0.0 && lost > 0, "{hints_stored} hints, {lost} rows lost");
    FinishedTrial::new(figures, bucket_path, client.history())
}

/// Deletes rows, which are reaped. Half of them are rewritten before the node that wrote them
/// loses all its rows, and writes with its old contexts.
fn lose_rows_after_reap(cluster: &mut Cluster) -> FinishedTrial {
    let bucket_path = "available/reaped";
    let mut figures = Figures::start("F-44 rows lost after deletes are gone, then written");
    let mut client = ManualClient::new(&cluster.client_addresses(), bucket_path, "hand");
    let contents = write_all_keys(&mut client);
    for (kind, contents) in KINDS.iter().zip(contents.chunks(KEYS)) {
        for (at, seen) in contents.iter().enumerate() {
            assert_eq!(client.delete(VICTIM, &key(kind, at), seen, "w=all"), Acknowledged(()));
        }
    }
    let started = Instant::now();
    std::thread::sleep(REAP_AFTER);
    let copies_left = cluster.copies(COPIES).of_bucket(bucket_path).len();
    figures.add("left_of_deleted", copies_left);
    figures.add("looked_after_ms", started.elapsed().as_millis());
    assert_eq!(copies_left, 0, "tombstones did not go");
    cluster.must_suspect_none();
    client.drop_connections();
    for kind in KINDS {
        for at in (0..KEYS).step_by(2) {
            let key = key(kind, at);
            assert_eq!(
                client.put(VICTIM, &key, &ReadValues::default(), "w=all"),
                Acknowledged(()),
                "{key}"
            );
        }
    }
    let lost = remove_all_rows(cluster, bucket_path);
    figures.faults += 1;
    figures.add("rows_taken_away", lost);
    assert!(lost > 0, "nothing was there to be lost");
    cluster.must_converge();
    cluster.must_suspect_none();
    client.drop_connections();
    rewrite_all_keys(&mut client, &contents);
    FinishedTrial::new(figures, bucket_path, client.history())
}
