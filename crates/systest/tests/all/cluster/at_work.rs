//! F-22, at work: bytes that change in files of a running node.

use super::damage::{fill_until_tables, run_verify};
use super::{DAMAGED, SECOND, is_left_to_long_form};
use std::path::{Path, PathBuf};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::file_damage::{Damage, damage_file, data_end, list_files};
use systest::report::Figures;
use systest::workload::ledger::Ledger;

/// Way in which the damage was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detection {
    /// The node ended when it read the damage.
    Ended,
    /// The damage was not read: `credenza verify` found it after the node was stopped.
    Unread,
    /// The table was merged into another from cached blocks, and no longer exists.
    Merged,
}

/// Damages a table of a running node, then compares the replicas. A node that reads the damage
/// ends, and serves nothing of it.
#[test]
fn damage_in_running_node_is_detected_and_never_served() {
    let name = "F-22 damage at work";
    if is_left_to_long_form(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-damage-at-work");
    let mut figures = Figures::start(name);
    let mut options = Options::new(3);
    // Background comparison is off: only the command compares.
    options.args.extend(["--scrub-bytes-per-second", "0"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let (mut ledger, mut detections, mut verify_failures) = (Ledger::default(), Vec::new(), 0);
    for (round, damage) in
        [Damage::Flip, Damage::Zeros, Damage::Flip, Damage::Zeros].into_iter().enumerate()
    {
        let victim = if cluster.master() == 3 { 2 } else { 3 };
        ledger.join(fill_until_tables(&mut cluster, victim, 780 + 10 * round));
        cluster.must_have_equal_rows();
        let before = cluster.server(victim).stderr_text().len();
        let table = largest_table(&cluster.setup_mut(victim).data.clone());
        for percent in [20, 50, 80] {
            damage_file(&table, data_end(&table) * percent / 100, damage);
        }
        figures.faults += 1;
        let output = cluster.tool(1, &["group", "verify"]);
        verify_failures += usize::from(output.status.code() == Some(DAMAGED));
        detections.push(detect(&mut cluster, victim, before));
        cluster.must_converge();
        cluster.must_have_equal_rows();
    }
    let output = cluster.tool(1, &["group", "verify"]);
    assert!(output.status.success(), "nothing differs any more: {output:?}");
    (figures.ok, figures.fail, figures.info) = (ledger.ok, ledger.fail, ledger.info);
    for node in cluster.nodes() {
        ledger.judge(cluster.client_address(node)).expect("it is readable").must_be_clean();
    }
    for detection in [Detection::Ended, Detection::Unread, Detection::Merged] {
        let count = detections.iter().filter(|other| **other == detection).count();
        figures.add(&format!("{detection:?}").to_lowercase(), count);
    }
    figures.add("verify_ended_with_7", verify_failures);
    figures.print();
    assert!(detections.contains(&Detection::Ended), "nobody read what was damaged");
}

/// Returns the way in which the damage was found; afterwards the node is repaired. `before`: length
/// of its output before the damage, which may contain a report of earlier damage.
fn detect(cluster: &mut Cluster, victim: usize, before: usize) -> Detection {
    if cluster.server(victim).wait(3 * SECOND).is_some() {
        let stderr = cluster.server(victim).stderr_text();
        assert!(stderr.contains("damage"), "it ended for another reason: {stderr}");
        cluster.kill(victim);
        if let Err(refusal) = cluster.try_start(victim) {
            assert_eq!(refusal.code, Some(DAMAGED), "{refusal}");
            cluster.replace(victim);
        }
        return Detection::Ended;
    }
    if let Ok(rows) = cluster.try_read_rows(victim) {
        assert!(rows == cluster.read_rows(cluster.master()), "damaged rows were served");
    }
    let stderr = cluster.server(victim).stderr_text().split_off(before);
    assert!(!stderr.contains("is damaged at byte"), "it met damage and lives on: {stderr}");
    cluster.stop(victim);
    let (code, output) = run_verify(&cluster.setup_mut(victim).data.clone());
    if code == Some(0) {
        cluster.start_node(victim);
        return Detection::Merged;
    }
    assert_eq!(code, Some(DAMAGED), "{output}");
    cluster.replace(victim);
    Detection::Unread
}

fn largest_table(data: &Path) -> PathBuf {
    let tables = list_files(&data.join("store/tables")).into_iter();
    tables.max_by_key(|path| data_end(path)).expect("something was flushed")
}
