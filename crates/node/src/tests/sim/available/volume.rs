//! Traffic of anti-entropy: many keys of which few differ, and none.

use super::clients::bucket;
use super::world::World;
use base::{Actor, Content};
use bytes::Bytes;
use logic::causal::Dot;
use logic::ring::point;
use sim::is_long;
use std::collections::BTreeMap;
use std::rc::Rc;
use vnode_rows::layout::{Row, StoredValue, row_key, write_row};

const BYTES: usize = 100;

/// Plants keys, a few of which one owner lacks. Returns the bytes sent until all are equal, and
/// those of a later round without differences.
fn comparison_traffic(keys: u64, differ: u64) -> (u64, u64) {
    let world = World::idle(1);
    world.network.heal();
    let decision = world.decision();
    let mut planted: BTreeMap<usize, Vec<(Bytes, Bytes)>> = BTreeMap::new();
    let mut lacking = Vec::new();
    for number in 0..keys {
        let (bucket, key) = (bucket(), Bytes::from(format!("key-{number:08}")));
        let partition = decision.ring.partition(&point(bucket.full().as_bytes(), &key));
        let owners = decision.ring.owners(partition, 3);
        let mut row = Row::empty();
        let content = Content::plain(vec![number as u8; BYTES].into());
        let id = Actor { node: owners[0], vnode: partition.0, incarnation: 1 };
        row.event(Dot { id, count: number + 1 }, StoredValue::new(Some(&content), 1));
        let (tree_key, row) = (row_key(&bucket, &key), write_row(&row));
        let lacks = number * differ / keys != (number + 1) * differ / keys;
        for (at, node) in owners.iter().enumerate() {
            let nth = decision.nodes.iter().position(|it| it == node).expect("it is known");
            if lacks && at == 1 + number as usize % 2 {
                lacking.push((nth, tree_key.clone(), row.clone()));
            } else {
                planted.entry(nth).or_default().push((tree_key.clone(), row.clone()));
            }
        }
    }
    assert_eq!(lacking.len() as u64, differ);
    for (nth, rows) in planted {
        world.nodes.borrow()[nth].place.storage.plant(rows);
    }
    world.begin();
    // Time for the links, and for two rounds, each of which compares all pairs.
    let bytes = |world: &Rc<World>| world.journal.count_of("bytes sent");
    world.scheduler.run(25_000_000);
    let moved = bytes(&world);
    for (nth, tree_key, row) in lacking {
        let nodes = world.nodes.borrow();
        let has =
            nodes[nth].running().expect("it lives").status.trees.get(&tree_key).expect("memory");
        assert_eq!(has, Some(row), "what was missing has come");
    }
    world.scheduler.run(10_000_000);
    let quiet = bytes(&world) - moved;
    world.scheduler.uninstall();
    (moved, quiet)
}

#[test]
fn anti_entropy_traffic_is_proportional_to_differences() {
    let keys = if is_long() { 1_000_000 } else { 30_000 };
    let (base, quiet) = comparison_traffic(keys, 0);
    println!("{keys} keys, none differs: {base} bytes, then {quiet} in 10 s");
    for differ in [10, 1_000] {
        let (moved, after) = comparison_traffic(keys, differ);
        let each = moved.saturating_sub(base) / differ;
        println!("{keys} keys, {differ} differ: {moved} bytes, {each} for each; then {after}");
        assert!(each < 20 * BYTES as u64, "{each} bytes for each of {differ} rows");
        assert!(after <= quiet + quiet / 4 + 4_096, "{after} bytes when nothing differs any more");
    }
}
