//! F-58: an idle cluster, without requests, does nothing.

use super::SECOND;
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, cpu_seconds, experiment};
use systest::report::{Figures, check_bound, short_or_long};

#[test]
fn idle_cluster_keeps_its_master_and_rarely_syncs() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-idle");
    let mut figures = Figures::start("F-58 idle cluster");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    cluster.must_serve();
    std::thread::sleep(2 * SECOND);
    let seconds = short_or_long(15, 600);
    let ballots = |cluster: &Cluster| -> Vec<_> {
        let status = |group| cluster.group_status(1, group).map(|status| status.ballot);
        [0, 1].into_iter().map(status).collect()
    };
    let syncs = |cluster: &Cluster| -> u64 {
        let syncs_of =
            |node| cluster.status(node).and_then(|status| status["log"]["syncs"].as_u64());
        cluster.nodes().map(|node| syncs_of(node).expect("it answers")).sum()
    };
    let cpu = |cluster: &mut Cluster| -> f64 {
        cluster.nodes().map(|node| cpu_seconds(cluster.server(node).pid())).sum()
    };
    let before = (ballots(&cluster), syncs(&cluster), cpu(&mut cluster));
    std::thread::sleep(seconds as u32 * SECOND);
    let after = (ballots(&cluster), syncs(&cluster), cpu(&mut cluster));
    let nodes = cluster.size() as f64;
    let percent = (after.2 - before.2) / nodes / seconds as f64 * 100.0;
    figures.add("master_changes", u32::from(before.0 != after.0));
    figures.add("syncs", after.1 - before.1);
    figures.add("cpu_percent_per_node", format!("{percent:.2}"));
    figures.print();
    assert_eq!(before.0, after.0, "the master changed for no reason");
    let per_second = (after.1 - before.1) / seconds as u64;
    check_bound("F-58 percent of a core for each idle node", percent, 1.0);
    assert!(per_second <= 3, "{per_second} syncs a second though nobody writes");
}
