//! F-58: an idle cluster, without requests, does nothing.

use super::SECOND;
use systest::report::{Figures, bound, times};
use systest::rigs::{Cluster, Options, Scratch, cpu_seconds, experiment};

#[test]
fn an_idle_cluster_keeps_its_master_and_its_disks_still() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-idle");
    let mut figures = Figures::begin("F-58 idle cluster");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    cluster.must_serve();
    std::thread::sleep(2 * SECOND);
    let seconds = times(15, 600);
    let ballots = |cluster: &Cluster| -> Vec<_> {
        let said = |group| cluster.said(1, group).map(|said| said.ballot);
        [0, 1].into_iter().map(said).collect()
    };
    let syncs = |cluster: &Cluster| -> u64 {
        let one = |node| cluster.status(node).and_then(|said| said["log"]["syncs"].as_u64());
        cluster.nodes().map(|node| one(node).expect("it answers")).sum()
    };
    let cpu = |cluster: &mut Cluster| -> f64 {
        cluster.nodes().map(|node| cpu_seconds(cluster.server(node).pid())).sum()
    };
    let before = (ballots(&cluster), syncs(&cluster), cpu(&mut cluster));
    std::thread::sleep(seconds as u32 * SECOND);
    let after = (ballots(&cluster), syncs(&cluster), cpu(&mut cluster));
    let nodes = cluster.size() as f64;
    let percent = (after.2 - before.2) / nodes / seconds as f64 * 100.0;
    figures.also("master_changes", u32::from(before.0 != after.0));
    figures.also("syncs", after.1 - before.1);
    figures.also("cpu_percent_per_node", format!("{percent:.2}"));
    figures.print();
    assert_eq!(before.0, after.0, "the master changed for no reason");
    let per_second = (after.1 - before.1) / seconds as u64;
    bound("F-58 percent of a core for each idle node", percent, 1.0);
    assert!(per_second <= 3, "{per_second} syncs a second though nobody writes");
}
