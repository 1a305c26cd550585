//! F-19: nodes join, leave and are replaced while clients write and the master is killed.

use super::{Trial, plan};
use std::time::{Duration, Instant};
use systest::rigs::{Cluster, Options, Scratch, experiment};

#[test]
fn members_come_go_and_are_replaced_while_clients_write() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-members");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let mut trial = Trial::begin("F-19 members change", &cluster, plan(19));
    let joined = joins(&mut trial, &mut cluster);
    leaves(&mut trial, &mut cluster);
    let replaced = replaced(&mut trial, &mut cluster);
    old_id_refused(&mut trial, &mut cluster);
    trial.figures.also("joined_after_ms", joined.as_millis());
    trial.figures.also("replaced_after_ms", replaced.as_millis());
    trial.end(&cluster);
}

/// A fourth node joins, and the master dies meanwhile.
fn joins(trial: &mut Trial, cluster: &mut Cluster) -> Duration {
    let begun = Instant::now();
    trial.fault(cluster, |cluster| {
        let master = cluster.master();
        cluster.add();
        cluster.kill(master);
        cluster.begin(master);
        cluster.must_settle();
    });
    begun.elapsed()
}

/// The fourth node leaves again.
fn leaves(trial: &mut Trial, cluster: &mut Cluster) {
    trial.fault(cluster, |cluster| {
        cluster.operate(&["cluster", "remove", "n4"]);
        // Its process may end once it has learned of its removal; it is killed in any case.
        std::thread::sleep(2 * cluster.lease());
        cluster.forget_last();
        cluster.must_settle();
    });
}

/// A node loses its disk: no node can join under its name until an operator permits it, and then
/// under another id.
fn replaced(trial: &mut Trial, cluster: &mut Cluster) -> Duration {
    let mut took = Duration::ZERO;
    trial.fault(cluster, |cluster| {
        let before = node_id(cluster, 3);
        cluster.kill(3);
        let data = cluster.how(3).data.clone();
        std::fs::remove_dir_all(&data).expect("it is ours");
        let refusal = cluster.try_to_begin(3).expect_err("the name is taken");
        assert!(refusal.words.contains("cluster replace"), "{refusal}");
        cluster.operate(&["cluster", "replace", "n3"]);
        let begun = Instant::now();
        cluster.begin(3);
        cluster.must_settle();
        took = begun.elapsed();
        assert_ne!(node_id(cluster, 3), before, "a fresh disk is a fresh node");
    });
    took
}

/// A node that kept its id and lost its promises must not vote again.
fn old_id_refused(trial: &mut Trial, cluster: &mut Cluster) {
    trial.fault(cluster, |cluster| {
        cluster.kill(2);
        let data = cluster.how(2).data.clone();
        let whole = data.with_extension("whole");
        std::fs::rename(&data, &whole).expect("both are in one folder");
        std::fs::create_dir(&data).expect("it is ours");
        for entry in std::fs::read_dir(&whole).expect("it is ours").flatten() {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), data.join(entry.file_name())).expect("it is ours");
            }
        }
        // It would rejoin under another id; under this one it never does.
        cluster.how(2).words.extend(["--auto-repair", "off"].map(String::from));
        let refusal = cluster.try_to_begin(2).expect_err("it has forgotten what it promised");
        assert!(!refusal.words.is_empty(), "no reason is given");
        std::fs::remove_dir_all(&data).expect("it is ours");
        std::fs::rename(&whole, &data).expect("both are in one folder");
        cluster.begin(2);
        cluster.must_settle();
    });
}

fn node_id(cluster: &Cluster, node: usize) -> serde_json::Value {
    cluster.status(node).expect("it answers")["node"].clone()
}
