//! F-46 and F-47: copies that lack rows, or have old ones, come together by comparison alone and by
//! reads alone.

use super::{Done, SECOND};
use std::collections::BTreeMap;
use systest::attentive::{Hand, ShownValues};
use systest::checkers::causal::CallAnswer;
use systest::report::{Figures, bound, times};
use systest::rigs::Cluster;

/// A node misses rows, and writes to rows it has; nobody reads them.
pub fn comparison(cluster: &mut Cluster) -> Done {
    let place = "available/trial46";
    let mut figures = Figures::begin("F-46 comparison");
    let mut hand = Hand::new(&cluster.clients(), place, "hand");
    let all = times(1_000, 100_000);
    let mut known = BTreeMap::new();
    for at in 0..all {
        change(&mut hand, &mut known, at, 1 + at % 3);
    }
    cluster.must_be_quiet();
    for (round, differ) in [0, 10, times(200, 1_000)].into_iter().enumerate() {
        // The trees are in memory alone: the node begins without any, and builds them again.
        let behind = 1 + round;
        let here: Vec<_> = cluster.nodes().filter(|node| *node != behind).collect();
        cluster.kill(behind);
        figures.faults += 1;
        std::thread::sleep(SECOND);
        for count in 0..differ {
            // Half of them it has as they were, half not at all.
            let at = if count % 2 == 0 { count } else { all + round * all + count };
            change(&mut hand, &mut known, at, here[count % 2]);
        }
        // What the others count, for the one that was killed counts anew.
        let before = cluster.mended();
        cluster.begin(behind);
        cluster.must_settle();
        cluster.must_reach_all();
        hand.connect_anew();
        let took = cluster.must_be_quiet();
        // Quiet is two rounds of everybody in which nothing differed: equal copies move nothing.
        let after = cluster.mended();
        let moved = after.moved - before.moved;
        figures.also(&format!("of_{differ}_moved"), moved);
        figures.also(&format!("of_{differ}_ms"), took.as_millis());
        bound(&format!("F-46 until {differ} rows are equal, s"), took.as_secs_f64(), 30.0);
        assert_eq!(after.hints, 0.0, "three nodes keep nothing for each other");
        // Two others have each row; both may have brought it at one time.
        let enough = (differ as f64..=2.0 * differ as f64).contains(&moved);
        assert!(enough, "{differ} rows differed, {moved} were moved");
    }
    Done::of(figures, place, hand.witnessed())
}

/// Writes a key with what is known of it.
fn change(hand: &mut Hand, known: &mut BTreeMap<usize, ShownValues>, at: usize, node: usize) {
    let key = format!("k{at:06}");
    let seen = known.remove(&at).unwrap_or_default();
    assert_eq!(hand.put(node, &key, &seen, ""), CallAnswer::Done, "{key}");
    if at < 1_000 {
        known.insert(at, hand.get(node, &key, "").expect("it is read"));
    }
}

/// Where nothing is compared, and there is nobody to stand in, reads alone mend what they read.
pub fn read_repair(cluster: &mut Cluster) {
    let place = "available/trial47";
    let mut figures = Figures::begin("F-47 read repair alone");
    let mut hand = Hand::new(&cluster.clients(), place, "hand");
    let keys = times(60, 1_000);
    let key = |at: usize| format!("r{at:04}");
    let mut seen = Vec::new();
    for at in 0..keys {
        assert_eq!(
            hand.put(1 + at % 3, &key(at), &ShownValues::default(), "w=all"),
            CallAnswer::Done
        );
        seen.push(hand.get(1 + at % 3, &key(at), "").expect("it is read"));
    }
    cluster.kill(3);
    figures.faults += 1;
    std::thread::sleep(SECOND);
    for at in 0..2 * keys {
        let old = seen.get(at).cloned().unwrap_or_default();
        assert_eq!(hand.put(1 + at % 2, &key(at), &old, ""), CallAnswer::Done);
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
        // What a read repairs it repairs behind its answer.
        std::thread::sleep(SECOND);
        repairs.push(cluster.mended().read_repairs - before);
    }
    figures.also("repairs_of_each_round", format!("{repairs:?}").replace(' ', ""));
    figures.also("repairs_a_read", repairs[0] / (2 * keys) as f64);
    assert!(repairs[0] >= 2.0 * keys as f64 * 0.9, "{repairs:?}: the first read repairs");
    assert_eq!(repairs[2], 0.0, "{repairs:?}: what is equal is left alone");
    let mut done = Done::of(figures, place, hand.witnessed());
    // Nothing compares here, so nothing but the reads can have made the copies equal.
    let copies = cluster.copies(super::COPIES);
    done.judge(&copies.of(place));
    assert_eq!(copies.differences(), Vec::<String>::new());
}
