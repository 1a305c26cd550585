//! F-46 and F-47: copies that lack rows, or have old ones, become equal by anti-entropy alone and
//! by read repair alone.

use super::{Done, SECOND};
use std::collections::BTreeMap;
use systest::report::{Figures, bound, times};
use systest::rigs::Cluster;
use systest::workload::CallOutcome::Acknowledged;
use systest::workload::siblings::{ManualClient, ShownValues};

/// A node misses rows, and writes to rows it has; no client reads them.
pub fn comparison(cluster: &mut Cluster) -> Done {
    let place = "available/trial46";
    let mut figures = Figures::begin("F-46 comparison");
    let mut hand = ManualClient::new(&cluster.clients(), place, "hand");
    let all = times(1_000, 100_000);
    let mut known = BTreeMap::new();
    for at in 0..all {
        change(&mut hand, &mut known, at, 1 + at % 3);
    }
    cluster.must_be_quiet();
    for (round, differ) in [0, 10, times(200, 1_000)].into_iter().enumerate() {
        // The hash trees are in memory only: the node starts without any, and rebuilds them.
        let behind = 1 + round;
        let here: Vec<_> = cluster.nodes().filter(|node| *node != behind).collect();
        cluster.kill(behind);
        figures.faults += 1;
        std::thread::sleep(SECOND);
        for count in 0..differ {
            // The node has an old version of half of the rows, and lacks the other half.
            let at = if count % 2 == 0 { count } else { all + round * all + count };
            change(&mut hand, &mut known, at, here[count % 2]);
        }
        // Only the counters of the others count, for those of the killed node restart.
        let before = cluster.mended();
        cluster.begin(behind);
        cluster.must_settle();
        cluster.must_reach_all();
        hand.connect_anew();
        let took = cluster.must_be_quiet();
        // Quiet means two rounds of every node without a difference: equal copies transfer nothing.
        let after = cluster.mended();
        let moved = after.moved - before.moved;
        figures.also(&format!("of_{differ}_moved"), moved);
        figures.also(&format!("of_{differ}_ms"), took.as_millis());
        bound(&format!("F-46 until {differ} rows are equal, s"), took.as_secs_f64(), 30.0);
        assert_eq!(after.hints, 0.0, "three nodes keep nothing for each other");
        // Two others have each row; both may have sent it at the same time.
        let enough = (differ as f64..=2.0 * differ as f64).contains(&moved);
        assert!(enough, "{differ} rows differed, {moved} were moved");
    }
    Done::of(figures, place, hand.history())
}

/// Writes a key with its last known context.
fn change(
    hand: &mut ManualClient,
    known: &mut BTreeMap<usize, ShownValues>,
    at: usize,
    node: usize,
) {
    let key = format!("k{at:06}");
    let seen = known.remove(&at).unwrap_or_default();
    assert_eq!(hand.put(node, &key, &seen, ""), Acknowledged(()), "{key}");
    if at < 1_000 {
        known.insert(at, hand.get(node, &key, "").expect("it is read"));
    }
}

/// Without anti-entropy and hints, reads alone must repair the rows that they read.
pub fn read_repair(cluster: &mut Cluster) {
    let place = "available/trial47";
    let mut figures = Figures::begin("F-47 read repair alone");
    let mut hand = ManualClient::new(&cluster.clients(), place, "hand");
    let keys = times(60, 1_000);
    let key = |at: usize| format!("r{at:04}");
    let mut seen = Vec::new();
    for at in 0..keys {
        assert_eq!(
            hand.put(1 + at % 3, &key(at), &ShownValues::default(), "w=all"),
            Acknowledged(())
        );
        seen.push(hand.get(1 + at % 3, &key(at), "").expect("it is read"));
    }
    cluster.kill(3);
    figures.faults += 1;
    std::thread::sleep(SECOND);
    for at in 0..2 * keys {
        let old = seen.get(at).cloned().unwrap_or_default();
        assert_eq!(hand.put(1 + at % 2, &key(at), &old, ""), Acknowledged(()));
    }
    cluster.begin(3);
    cluster.must_settle();
    cluster.must_reach_all();
    hand.connect_anew();
    let mut repairs = Vec::new();
    for _ in 0..3 {
        let before = cluster.mended().read_repairs;
        for at in 0..2 * keys {
            let found = hand.get(1 + at % 2, &key(at), "").expect("it is read");
            assert_eq!(found.values.len(), 1, "{}", key(at));
        }
        // A read repairs after it has answered.
        std::thread::sleep(SECOND);
        repairs.push(cluster.mended().read_repairs - before);
    }
    figures.also("repairs_of_each_round", format!("{repairs:?}").replace(' ', ""));
    figures.also("repairs_a_read", repairs[0] / (2 * keys) as f64);
    assert!(repairs[0] >= 2.0 * keys as f64 * 0.9, "{repairs:?}: the first read repairs");
    assert_eq!(repairs[2], 0.0, "{repairs:?}: what is equal is left alone");
    let mut done = Done::of(figures, place, hand.history());
    // Anti-entropy is off, so only the reads can have made the copies equal.
    let copies = cluster.copies(super::COPIES);
    done.judge(&copies.of(place));
    assert_eq!(copies.differences(), Vec::<String>::new());
}
