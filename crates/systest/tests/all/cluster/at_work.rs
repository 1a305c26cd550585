//! F-22, at work: bytes that change in files of a running node.

use super::damage::{checked, fill_up};
use super::{DAMAGED, SECOND, waits_for_the_long_tests};
use std::path::{Path, PathBuf};
use systest::report::Figures;
use systest::rigs::rot::{Rot, end, files, spoil};
use systest::rigs::{Cluster, Options, Scratch, experiment};
use systest::workload::ledger::Ledger;

/// Way in which the damage was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
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
fn damage_that_comes_at_work_is_found_and_never_served() {
    let name = "F-22 damage at work";
    if waits_for_the_long_tests(name) {
        return;
    }
    let _permit = experiment();
    let scratch = Scratch::new("cluster-damage-at-work");
    let mut figures = Figures::begin(name);
    let mut options = Options::of(3);
    // Background comparison is off: only the command compares.
    options.words.extend(["--scrub-bytes-per-second", "0"].map(String::from));
    let mut cluster = Cluster::start(&scratch, options);
    let (mut told, mut all, mut verified) = (Ledger::default(), Vec::new(), 0);
    for (round, rot) in [Rot::Flip, Rot::Zeros, Rot::Flip, Rot::Zeros].into_iter().enumerate() {
        let victim = if cluster.master() == 3 { 2 } else { 3 };
        told.join(fill_up(&mut cluster, victim, 780 + 10 * round));
        cluster.must_be_level();
        let before = cluster.server(victim).said().len();
        let table = largest_table(&cluster.how(victim).data.clone());
        for percent in [20, 50, 80] {
            spoil(&table, end(&table) * percent / 100, rot);
        }
        figures.faults += 1;
        let output = cluster.tool(1, &["group", "verify"]);
        verified += usize::from(output.status.code() == Some(DAMAGED));
        all.push(found(&mut cluster, victim, before));
        cluster.must_settle();
        cluster.must_be_level();
    }
    let output = cluster.tool(1, &["group", "verify"]);
    assert!(output.status.success(), "nothing differs any more: {output:?}");
    (figures.ok, figures.fail, figures.info) = (told.ok, told.fail, told.info);
    for node in cluster.nodes() {
        told.judge(cluster.client(node)).expect("it is readable").must_be_clean();
    }
    for one in [Found::Ended, Found::Unread, Found::Merged] {
        let count = all.iter().filter(|found| **found == one).count();
        figures.also(&format!("{one:?}").to_lowercase(), count);
    }
    figures.also("verify_ended_with_7", verified);
    figures.print();
    assert!(all.contains(&Found::Ended), "nobody read what was damaged");
}

/// Returns the way in which the damage was found; afterwards the node is repaired. `before`: length
/// of its output before the damage, which may contain a report of earlier damage.
fn found(cluster: &mut Cluster, victim: usize, before: usize) -> Found {
    if cluster.server(victim).wait(3 * SECOND).is_some() {
        let said = cluster.server(victim).said();
        assert!(said.contains("damage"), "it ended for another reason: {said}");
        cluster.kill(victim);
        if let Err(refusal) = cluster.try_to_begin(victim) {
            assert_eq!(refusal.code, Some(DAMAGED), "{refusal}");
            cluster.replace(victim);
        }
        return Found::Ended;
    }
    if let Ok(rows) = cluster.try_store(victim) {
        assert!(rows == cluster.store(cluster.master()), "damaged rows were served");
    }
    let said = cluster.server(victim).said().split_off(before);
    assert!(!said.contains("is damaged at byte"), "it met damage and lives on: {said}");
    cluster.stop(victim);
    let (code, words) = checked(&cluster.how(victim).data.clone());
    if code == Some(0) {
        cluster.begin(victim);
        return Found::Merged;
    }
    assert_eq!(code, Some(DAMAGED), "{words}");
    cluster.replace(victim);
    Found::Unread
}

fn largest_table(data: &Path) -> PathBuf {
    let all = files(&data.join("store/tables")).into_iter();
    all.max_by_key(|path| end(path)).expect("something was flushed")
}
