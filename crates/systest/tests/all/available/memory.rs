//! F-44: a node that has lost rows that it wrote, and writes on.

use super::FinishedTrial;
use systest::cluster::{Cluster, wait_until};
use systest::environment::{Scratch, path_str, run_ok};
use systest::report::{Figures, short_or_long};
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::{ManualClient, ReadValues};

/// Number of keys of each kind.
const KEYS: usize = 12;
const BUCKET_PATH: &str = "available/trial44";

/// A node loses rows without a trace, and writes on. Anti-entropy is off meanwhile.
pub fn lose_rows(cluster: &mut Cluster) -> FinishedTrial {
    let mut figures = Figures::start("F-44 rows lost without a trace, then written");
    let mut client = ManualClient::new(&cluster.client_addresses(), BUCKET_PATH, "hand");
    let mut lost = 0;
    for round in 0..short_or_long(1, 6) {
        let victim = 1 + round % 3;
        lost += lose_rows_of_node(cluster, &mut client, victim, round);
        figures.faults += 1;
    }
    figures.add("rows_taken_away", lost);
    FinishedTrial::new(figures, BUCKET_PATH, client.history())
}

/// Writes keys through one node, some several times; removes their rows there; writes them again
/// there: without a context, with an old one, with a new one, as deletes. Returns the number of
/// rows removed.
fn lose_rows_of_node(
    cluster: &mut Cluster,
    client: &mut ManualClient,
    node: usize,
    round: usize,
) -> usize {
    let key = |kind: &str, at: usize| format!("{kind}-{round}-{at:02}");
    let kinds = ["blind", "known", "fresh", "deleted", "again", "unread"];
    let mut contents = Vec::new();
    for kind in kinds {
        for at in 0..KEYS {
            let (key, mut read_values) = (key(kind, at), ReadValues::default());
            for _ in 0..1 + at % 4 {
                assert_eq!(client.put(node, &key, &read_values, "w=all"), Acknowledged(()));
                read_values = client.get(node, &key, "").expect("it is read");
            }
            if kind == "again" {
                assert_eq!(client.delete(node, &key, &read_values, "w=all"), Acknowledged(()));
            }
            contents.push(read_values);
        }
    }
    assert_eq!(cluster.stop(node), Some(0));
    let lost = cluster.remove_rows(node, BUCKET_PATH, |key| {
        !key.starts_with("unread") && key.contains(&format!("-{round}-"))
    });
    assert_eq!(lost, (kinds.len() - 1) * KEYS, "every row is there to be lost");
    cluster.start_node(node);
    cluster.must_converge();
    cluster.must_suspect_none();
    client.drop_connections();
    for (kind, contents) in kinds.iter().zip(contents.chunks(KEYS)) {
        for (at, contents) in contents.iter().enumerate() {
            let key = key(kind, at);
            let outcome = match *kind {
                // No value may be lost, for this write has seen none.
                "blind" | "again" => client.put(node, &key, &ReadValues::default(), ""),
                "known" => client.put(node, &key, contents, ""),
                "deleted" => client.delete(node, &key, contents, ""),
                _ => {
                    let read_values = client.get(node, &key, "").expect("it is read");
                    assert_eq!(
                        read_values.values, contents.values,
                        "{key}: what it lost, the others have"
                    );
                    client.put(node, &key, &read_values, "")
                }
            };
            assert_eq!(outcome, Acknowledged(()), "{key}");
        }
    }
    lost
}

/// An operator restores an old copy of a data directory without a command that announces it.
pub fn restore_old_copy(cluster: &mut Cluster, scratch: &Scratch) -> FinishedTrial {
    let bucket_path = "available/copied";
    let mut figures = Figures::start("F-44 an old copy of a directory put back");
    let mut client = ManualClient::new(&cluster.client_addresses(), bucket_path, "hand");
    let key = |at: usize| format!("copy-{at:03}");
    let keys = short_or_long(64, 200);
    let write_without_context = |client: &mut ManualClient, node: usize| {
        let no_context = ReadValues::default();
        (0..keys)
            .filter(|at| client.put(node, &key(*at), &no_context, "") == Acknowledged(()))
            .count()
    };
    // The vnodes must exist before the copy is made.
    for at in 0..keys {
        assert_eq!(
            client.put(3, &format!("before-{at:03}"), &ReadValues::default(), ""),
            Acknowledged(())
        );
    }
    assert_eq!(cluster.stop(3), Some(0));
    let data = cluster.setup_mut(3).data.clone();
    let copy = scratch.join("kept");
    run_ok(&["cp", "-a", path_str(&data), path_str(&copy)]);
    cluster.start_node(3);
    cluster.must_converge();
    cluster.must_suspect_none();
    client.drop_connections();
    // The copy lacks the dots of these writes.
    assert_eq!(write_without_context(&mut client, 3), keys);
    cluster.kill(3);
    let newest = scratch.join("newest");
    run_ok(&["mv", path_str(&data), path_str(&newest)]);
    run_ok(&["cp", "-a", path_str(&copy), path_str(&data)]);
    figures.faults += 1;
    // The others refuse the node, and it ends; in its next incarnation it refuses itself.
    if cluster.try_start(3).is_ok() {
        wait_until("the copy's end", || match cluster.server(3).is_alive() {
            true => Err("it runs".into()),
            false => Ok(()),
        });
        cluster.kill(3);
    }
    let refusal = cluster.try_start(3).expect_err("it knows that it is an old copy");
    figures.add("exit_code", refusal.code.unwrap_or_default());
    // The newest directory is accepted as before.
    std::fs::remove_dir_all(&data).expect("it is ours");
    run_ok(&["mv", path_str(&newest), path_str(&data)]);
    cluster.start_node(3);
    cluster.must_converge();
    cluster.must_suspect_none();
    client.drop_connections();
    assert_eq!(write_without_context(&mut client, 3), keys);
    FinishedTrial::new(figures, bucket_path, client.history())
}
