//! Examples of the ring in numbers that can be checked by hand.

use super::{Rack, Ring, apply_changes, join, joins, no_rack, rack, ring_of};
use crate::ring::{PlanError, RingChangeRequest, plan, point};
use base::{NodeId, Partition};
use std::collections::BTreeSet;

fn no_nodes() -> BTreeSet<NodeId> {
    BTreeSet::new()
}

/// The classic failure: a fifth node joins four, and one of them ends up with a quarter. Here the
/// fifth takes 12 of 64, three from each, and each has 13 or 12.
#[test]
fn fifth_node_takes_even_share_from_four_nodes() {
    let four = ring_of(4, 64, 3);
    let plan = plan(&four, &[join(5)], 3, &no_nodes()).expect("safe");
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
fn key_point_and_partition_are_stable() {
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
fn keys_spread_evenly_over_partitions() {
    let mut counts = [0_usize; 64];
    for key in 0..64_000_u32 {
        let name = format!("user:{key}");
        counts[point(b"t/b", name.as_bytes()).partition(64).0 as usize] += 1;
    }
    // 1,000 expected, standard deviation 32: six of them are allowed.
    assert!(counts.iter().all(|count| (808..1_192).contains(count)), "{counts:?}");
}

#[test]
fn leaving_node_moves_only_its_own_partitions() {
    let five = ring_of(5, 64, 3);
    let plan =
        plan(&five, &[RingChangeRequest::Leave { node: NodeId(2) }], 3, &no_nodes()).expect("safe");
    assert_eq!(plan.moves.len(), five.layout().loads()[&NodeId(2)]);
    assert!(plan.moves.iter().all(|one| one.from == NodeId(2)));
    assert!(plan.next_layout().loads().values().all(|load| *load == 16));
}

#[test]
fn node_replacement_keeps_preference_lists_except_node_id() {
    let five = ring_of(5, 64, 3);
    let replace = RingChangeRequest::Replace { old: NodeId(2), new: NodeId(9), rack: no_rack() };
    let after = apply_changes(&five, &[replace]);
    for partition in (0..64).map(Partition) {
        let mut before = five.preference_list(partition, 3);
        before.iter_mut().filter(|node| **node == NodeId(2)).for_each(|node| *node = NodeId(9));
        assert_eq!(after.preference_list(partition, 3), before);
    }
}

#[test]
fn owners_span_distinct_racks_when_racks_suffice() {
    let ring = Ring::initial(NodeId(1), rack("a"), 64, 3);
    let place = |node, name: &str| RingChangeRequest::Join { node: NodeId(node), rack: rack(name) };
    let joins = [place(2, "a"), place(3, "b"), place(4, "b"), place(5, "c"), place(6, "c")];
    let ring = apply_changes(&ring, &joins);
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
fn unsafe_ring_plan_is_rejected_with_remedy() {
    let three = ring_of(3, 8, 3);
    let refused = |changes: &[RingChangeRequest], down: &[u64]| {
        let down = down.iter().map(|node| NodeId(*node)).collect();
        plan(&three, changes, 3, &down).expect_err("refused")
    };
    let leave = RingChangeRequest::Leave { node: NodeId(3) };
    assert_eq!(refused(&[leave], &[]), PlanError::TooFewNodes { nodes: 2, n: 3 });
    assert_eq!(refused(&[], &[]), PlanError::NoChange);
    assert_eq!(refused(&[join(3)], &[]), PlanError::AlreadyInRing(NodeId(3)));
    assert_eq!(
        refused(&[RingChangeRequest::Leave { node: NodeId(7) }], &[]),
        PlanError::NotInRing(NodeId(7))
    );
    let nine = joins(4..=9);
    assert_eq!(refused(&nine, &[]), PlanError::TooFewPartitions { nodes: 9, partitions: 8 });
    assert_eq!(refused(&[RingChangeRequest::Halve], &[]), PlanError::Partitions { partitions: 4 });
    assert_eq!(refused(&[RingChangeRequest::Double, join(4)], &[]), PlanError::ResizeNotAlone);
    assert_eq!(refused(&[join(4)], &[4]), PlanError::DownReceiver(NodeId(4)));
    let partition = Partition(0);
    assert_eq!(refused(&[join(4)], &[1, 2, 3]), PlanError::NoSource { partition });
    let odd = RingChangeRequest::Rack { node: NodeId(1), rack: rack("a\nb") };
    assert_eq!(refused(&[odd], &[]), PlanError::RackName);
    let words = refused(&[RingChangeRequest::Leave { node: NodeId(3) }], &[]).to_string();
    assert!(words.contains("let another node join first"), "{words}");
}

#[test]
fn ring_plan_warns_of_too_few_nodes_and_racks() {
    let one = Ring::initial(NodeId(1), rack("a"), 64, 3);
    let second = RingChangeRequest::Join { node: NodeId(2), rack: rack("a") };
    let plan = plan(&one, &[second], 3, &no_nodes()).expect("safe");
    let text = plan.warnings.join("\n");
    assert!(text.contains("2 of 3 copies of each key"), "{text}");
    assert!(text.contains("1 racks for 3 copies"), "{text}");
}
