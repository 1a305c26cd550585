//! F-19: nodes join, leave and are replaced while clients write and the master is killed.

use super::{Trial, plan};
use std::time::{Duration, Instant};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};

#[test]
fn member_joins_removals_and_replacements_under_load_lose_nothing() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-members");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let mut trial = Trial::start("F-19 members change", &cluster, plan(19));
    let join_time = join_while_master_dies(&mut trial, &mut cluster);
    remove_fourth(&mut trial, &mut cluster);
    let replace_time = replace_disk(&mut trial, &mut cluster);
    refuse_old_id(&mut trial, &mut cluster);
    trial.figures.add("joined_after_ms", join_time.as_millis());
    trial.figures.add("replaced_after_ms", replace_time.as_millis());
    trial.end(&cluster);
}

/// A fourth node joins, and the master dies meanwhile.
fn join_while_master_dies(trial: &mut Trial, cluster: &mut Cluster) -> Duration {
    let started = Instant::now();
    trial.fault(cluster, |cluster| {
        let master = cluster.master();
        cluster.add();
        cluster.kill(master);
        cluster.start_node(master);
        cluster.must_converge();
    });
    started.elapsed()
}

/// The fourth node leaves again.
fn remove_fourth(trial: &mut Trial, cluster: &mut Cluster) {
    trial.fault(cluster, |cluster| {
        cluster.run_tool(&["cluster", "remove", "n4"]);
        // Its process may end once it is informed of its removal; it is killed in any case.
        std::thread::sleep(2 * cluster.lease());
        cluster.remove_last();
        cluster.must_converge();
    });
}

/// A node loses its disk: no node can join under its name until an operator permits it, and then
/// under another id.
fn replace_disk(trial: &mut Trial, cluster: &mut Cluster) -> Duration {
    let mut replace_time = Duration::ZERO;
    trial.fault(cluster, |cluster| {
        let before = node_id(cluster, 3);
        cluster.kill(3);
        let data = cluster.setup_mut(3).data.clone();
        std::fs::remove_dir_all(&data).expect("it is ours");
        let refusal = cluster.try_start(3).expect_err("the name is taken");
        assert!(refusal.output.contains("cluster replace"), "{refusal}");
        cluster.run_tool(&["cluster", "replace", "n3"]);
        let started = Instant::now();
        cluster.start_node(3);
        cluster.must_converge();
        replace_time = started.elapsed();
        assert_ne!(node_id(cluster, 3), before, "a fresh disk is a fresh node");
    });
    replace_time
}

/// A node that kept its id and lost its promises must not vote again.
fn refuse_old_id(trial: &mut Trial, cluster: &mut Cluster) {
    trial.fault(cluster, |cluster| {
        cluster.kill(2);
        let data = cluster.setup_mut(2).data.clone();
        let intact = data.with_extension("whole");
        std::fs::rename(&data, &intact).expect("both are in one folder");
        std::fs::create_dir(&data).expect("it is ours");
        for entry in std::fs::read_dir(&intact).expect("it is ours").flatten() {
            if entry.path().is_file() {
                std::fs::copy(entry.path(), data.join(entry.file_name())).expect("it is ours");
            }
        }
        // It would rejoin under another id; under this one it never does.
        cluster.setup_mut(2).args.extend(["--auto-repair", "off"].map(String::from));
        let refusal = cluster.try_start(2).expect_err("it has forgotten what it promised");
        assert!(!refusal.output.is_empty(), "no reason is given");
        std::fs::remove_dir_all(&data).expect("it is ours");
        std::fs::rename(&intact, &data).expect("both are in one folder");
        cluster.start_node(2);
        cluster.must_converge();
    });
}

fn node_id(cluster: &Cluster, node: usize) -> serde_json::Value {
    cluster.status(node).expect("it answers")["node"].clone()
}
