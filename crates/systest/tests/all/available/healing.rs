//! F-46 and F-47: copies that lack rows, or have old ones, become equal by anti-entropy alone and
//! by read repair alone.

use super::{FinishedTrial, SECOND};
use std::collections::BTreeMap;
use systest::cluster::Cluster;
use systest::report::{Figures, check_bound, short_or_long};
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::{ManualClient, ReadValues};

/// A node misses rows, and writes to rows it has; no client reads them.
pub fn repair_by_anti_entropy(cluster: &mut Cluster) -> FinishedTrial {
    let bucket_path = "available/trial46";
    let mut figures = Figures::start("F-46 comparison");
    let mut client = ManualClient::new(&cluster.client_addresses(), bucket_path, "hand");
    let row_count = short_or_long(1_000, 100_000);
    let mut last_read = BTreeMap::new();
    for at in 0..row_count {
        write_key(&mut client, &mut last_read, at, 1 + at % 3);
    }
    cluster.must_finish_repair();
    for (round, differ) in [0, 10, short_or_long(200, 1_000)].into_iter().enumerate() {
        // The hash trees are in memory only: the node starts without any, and rebuilds them.
        let stale_node = 1 + round;
        let live_nodes: Vec<_> = cluster.nodes().filter(|node| *node != stale_node).collect();
        cluster.kill(stale_node);
        figures.faults += 1;
        std::thread::sleep(SECOND);
        for count in 0..differ {
            // The node has an old version of half of the rows, and lacks the other half.
            let at = if count % 2 == 0 { count } else { row_count + round * row_count + count };
            write_key(&mut client, &mut last_read, at, live_nodes[count % 2]);
        }
        // Only the counters of the others count, for those of the killed node restart.
        let before = cluster.repair_counts();
        cluster.start_node(stale_node);
        cluster.must_converge();
        cluster.must_suspect_none();
        client.drop_connections();
        let repair_time = cluster.must_finish_repair();
        // Quiet means two rounds of every node without a difference: equal copies transfer nothing.
        let after = cluster.repair_counts();
        let transferred = after.transferred - before.transferred;
        figures.add(&format!("of_{differ}_moved"), transferred);
        figures.add(&format!("of_{differ}_ms"), repair_time.as_millis());
        check_bound(
            &format!("F-46 until {differ} rows are equal, s"),
            repair_time.as_secs_f64(),
            30.0,
        );
        assert_eq!(after.hints, 0.0, "three nodes keep nothing for each other");
        // Two others have each row; both may have sent it at the same time.
        let transferred_plausibly = (differ as f64..=2.0 * differ as f64).contains(&transferred);
        assert!(transferred_plausibly, "{differ} rows differed, {transferred} were moved");
    }
    FinishedTrial::new(figures, bucket_path, client.history())
}

/// Writes a key with its last known context.
fn write_key(
    client: &mut ManualClient,
    last_read: &mut BTreeMap<usize, ReadValues>,
    at: usize,
    node: usize,
) {
    let key = format!("k{at:06}");
    let read_values = last_read.remove(&at).unwrap_or_default();
    assert_eq!(client.put(node, &key, &read_values, ""), Acknowledged(()), "{key}");
    if at < 1_000 {
        last_read.insert(at, client.get(node, &key, "").expect("it is read"));
    }
}

/// Without anti-entropy and hints, reads alone must repair the rows that they read.
pub fn repair_by_reads(cluster: &mut Cluster) {
    let bucket_path = "available/trial47";
    let mut figures = Figures::start("F-47 read repair alone");
    let mut client = ManualClient::new(&cluster.client_addresses(), bucket_path, "hand");
    let keys = short_or_long(60, 1_000);
    let key = |at: usize| format!("r{at:04}");
    let mut read_values = Vec::new();
    for at in 0..keys {
        assert_eq!(
            client.put(1 + at % 3, &key(at), &ReadValues::default(), "w=all"),
            Acknowledged(())
        );
        read_values.push(client.get(1 + at % 3, &key(at), "").expect("it is read"));
    }
    cluster.kill(3);
    figures.faults += 1;
    std::thread::sleep(SECOND);
    for at in 0..2 * keys {
        let context = read_values.get(at).cloned().unwrap_or_default();
        assert_eq!(client.put(1 + at % 2, &key(at), &context, ""), Acknowledged(()));
    }
    cluster.start_node(3);
    cluster.must_converge();
    cluster.must_suspect_none();
    client.drop_connections();
    let mut repairs = Vec::new();
    for _ in 0..3 {
        let before = cluster.repair_counts().read_repairs;
        for at in 0..2 * keys {
            let found = client.get(1 + at % 2, &key(at), "").expect("it is read");
            assert_eq!(found.values.len(), 1, "{}", key(at));
        }
        // A read repairs after it has answered.
        std::thread::sleep(SECOND);
        repairs.push(cluster.repair_counts().read_repairs - before);
    }
    figures.add("repairs_of_each_round", format!("{repairs:?}").replace(' ', ""));
    figures.add("repairs_a_read", repairs[0] / (2 * keys) as f64);
    assert!(repairs[0] >= 2.0 * keys as f64 * 0.9, "{repairs:?}: the first read repairs");
    assert_eq!(repairs[2], 0.0, "{repairs:?}: what is equal is left alone");
    let mut finished = FinishedTrial::new(figures, bucket_path, client.history());
    // Anti-entropy is off, so only the reads can have made the copies equal.
    let copies = cluster.copies(super::COPIES);
    finished.judge(&copies.of_bucket(bucket_path));
    assert_eq!(copies.differences(), Vec::<String>::new());
}
