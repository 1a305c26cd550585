//! Examples of the ring in numbers that can be checked by hand.

use super::{Rack, Ring, alone, changed, join, joins, rack, ring_of};
use crate::ring::{RingWish, Unsafe, plan, point};
use base::{NodeId, Partition};
use std::collections::BTreeSet;

fn nobody() -> BTreeSet<NodeId> {
    BTreeSet::new()
}

/// The classic failure: a fifth node joins four, and one of them ends up with a quarter. Here the
/// fifth takes 12 of 64, three from each, and each has 13 or 12.
#[test]
fn four_nodes_become_five() {
    let four = ring_of(4, 64, 3);
    let plan = plan(&four, &[join(5)], 3, &nobody()).expect("safe");
    let text = plan.text(|node| format!("n{}", node.0));
    let expected = "node  partitions    copies\n\
                    n1      16 -> 13      48 -> 39\n\
                    n2      16 -> 13      48 -> 39\n\
                    n3      16 -> 13      48 -> 39\n\
                    n4      16 -> 13      48 -> 39\n\
                    n5       - -> 12       0 -> 36\n\
                    12 of 64 partitions change their owner, 36 of 192 copies move\n";
    assert_eq!(text, expected);
    assert!(plan.moves.iter().all(|one| one.to == NodeId(5)));
}

#[test]
fn a_key_lies_where_it_always_did() {
    let place = point(b"default/users", b"anna");
    assert_eq!(hex(&place.0), "71763343332e9fdba9f2a7640422a94949134c3b");
    assert_eq!(place.partition(64), Partition(28));
    assert_eq!(place.partition(128).0 / 2, 28);
    assert_ne!(point(b"ab", b"c"), point(b"a", b"bc"));
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn keys_spread_over_the_partitions() {
    let mut counts = [0_usize; 64];
    for key in 0..64_000_u32 {
        let name = format!("user:{key}");
        counts[point(b"t/b", name.as_bytes()).partition(64).0 as usize] += 1;
    }
    // 1,000 expected, standard deviation 32: six of them are allowed.
    assert!(counts.iter().all(|count| (808..1_192).contains(count)), "{counts:?}");
}

#[test]
fn a_leaving_node_gives_everything_and_nobody_else_moves() {
    let five = ring_of(5, 64, 3);
    let plan = plan(&five, &[RingWish::Leave { node: NodeId(2) }], 3, &nobody()).expect("safe");
    assert_eq!(plan.moves.len(), five.layout().loads()[&NodeId(2)]);
    assert!(plan.moves.iter().all(|one| one.from == NodeId(2)));
    assert!(plan.next().loads().values().all(|load| *load == 16));
}

#[test]
fn a_replaced_nodes_lists_are_the_same_but_for_its_name() {
    let five = ring_of(5, 64, 3);
    let replace = RingWish::Replace { old: NodeId(2), new: NodeId(9), rack: alone() };
    let after = changed(&five, &[replace]);
    for partition in (0..64).map(Partition) {
        let mut before = five.preference(partition, 3);
        before.iter_mut().filter(|node| **node == NodeId(2)).for_each(|node| *node = NodeId(9));
        assert_eq!(after.preference(partition, 3), before);
    }
}

#[test]
fn racks_hold_one_copy_each_where_they_are_enough() {
    let ring = Ring::founded(NodeId(1), rack("a"), 64, 3);
    let place = |node, name: &str| RingWish::Join { node: NodeId(node), rack: rack(name) };
    let joins = [place(2, "a"), place(3, "b"), place(4, "b"), place(5, "c"), place(6, "c")];
    let ring = changed(&ring, &joins);
    for partition in (0..64).map(Partition) {
        let owners = ring.owners(partition, 3);
        let racks: BTreeSet<&Rack> =
            owners.iter().map(|node| &ring.layout().nodes()[node]).collect();
        assert_eq!(racks.len(), 3, "{owners:?}");
    }
    // 32 each, if 64 were a multiple of six.
    let copies = ring.layout().copies(3);
    assert!(copies.values().all(|copies| (29..=35).contains(copies)), "{copies:?}");
}

#[test]
fn what_is_unsafe_is_refused_with_the_remedy() {
    let three = ring_of(3, 8, 3);
    let refused = |changes: &[RingWish], down: &[u64]| {
        let down = down.iter().map(|node| NodeId(*node)).collect();
        plan(&three, changes, 3, &down).expect_err("refused")
    };
    let leave = RingWish::Leave { node: NodeId(3) };
    assert_eq!(refused(&[leave], &[]), Unsafe::TooFewNodes { nodes: 2, n: 3 });
    assert_eq!(refused(&[], &[]), Unsafe::Nothing);
    assert_eq!(refused(&[join(3)], &[]), Unsafe::Known(NodeId(3)));
    assert_eq!(refused(&[RingWish::Leave { node: NodeId(7) }], &[]), Unsafe::Unknown(NodeId(7)));
    let nine = joins(4..=9);
    assert_eq!(refused(&nine, &[]), Unsafe::TooFewPartitions { nodes: 9, partitions: 8 });
    assert_eq!(refused(&[RingWish::Halve], &[]), Unsafe::Partitions { partitions: 4 });
    assert_eq!(refused(&[RingWish::Double, join(4)], &[]), Unsafe::OnItsOwn);
    assert_eq!(refused(&[join(4)], &[4]), Unsafe::DownReceiver(NodeId(4)));
    let partition = Partition(0);
    assert_eq!(refused(&[join(4)], &[1, 2, 3]), Unsafe::NoSource { partition });
    let odd = RingWish::Rack { node: NodeId(1), rack: rack("a\nb") };
    assert_eq!(refused(&[odd], &[]), Unsafe::RackName);
    let words = refused(&[RingWish::Leave { node: NodeId(3) }], &[]).to_string();
    assert!(words.contains("let another node join first"), "{words}");
}

#[test]
fn a_plan_says_what_should_be_known() {
    let one = Ring::founded(NodeId(1), rack("a"), 64, 3);
    let second = RingWish::Join { node: NodeId(2), rack: rack("a") };
    let plan = plan(&one, &[second], 3, &nobody()).expect("safe");
    let text = plan.warnings.join("\n");
    assert!(text.contains("2 of 3 copies of each key"), "{text}");
    assert!(text.contains("1 racks for 3 copies"), "{text}");
}
