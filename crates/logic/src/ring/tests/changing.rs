//! Changes in progress: two layouts, and partitions that switch one by one.

use super::{apply_changes, completed, join, no_rack, ring_of};
use crate::ring::{PlanError, Ring, RingChangeRequest, plan};
use base::{NodeId, Partition};
use std::collections::BTreeSet;

fn committed(ring: &Ring, changes: &[RingChangeRequest]) -> Ring {
    let plan = plan(ring, changes, ring.n(), &BTreeSet::new()).expect("safe");
    ring.commit(&plan).expect("made for this ring")
}

#[test]
fn old_owners_serve_partition_until_copies_arrive() {
    let four = ring_of(4, 64, 3);
    let moving = committed(&four, &[join(5)]);
    let copying = moving.pending_copies(3);
    assert!(!copying.is_empty() && copying.iter().all(|one| one.to == NodeId(5)));
    for one in &copying {
        assert_eq!(moving.owners(one.partition, 3), four.owners(one.partition, 3));
        assert_eq!(moving.receivers(one.partition, 3), [NodeId(5)]);
        assert_eq!(one.from, four.owners(one.partition, 3));
    }
    let first = copying[0].partition;
    let next = moving.arrive(first, &[3]).expect("was on its way");
    assert_eq!(next.epoch(), moving.epoch() + 1);
    assert!(next.owners(first, 3).contains(&NodeId(5)));
    assert!(next.receivers(first, 3).is_empty());
    assert_eq!(next.arrive(first, &[3]), None, "it has arrived already");
    assert_eq!(next.arrive(Partition(64), &[3]), None, "there is no such partition");
    let done = completed(next);
    assert_eq!(done.pending_copies(3), []);
    assert!(done.layout().nodes().contains_key(&NodeId(5)));
}

#[test]
fn survivor_ring_has_single_owner_of_all_partitions() {
    let four = ring_of(4, 64, 3);
    let copied: Vec<_> = four.copied_partitions(NodeId(2)).collect();
    assert_eq!(copied.len(), 48, "three copies on four nodes");
    // Also during a change: no other node is left that could send or receive a copy.
    let moving = committed(&four, &[join(5)]);
    for ring in [&four, &moving] {
        let left = ring.for_sole_survivor(NodeId(2));
        assert_eq!(left.epoch(), ring.epoch() + 1);
        assert_eq!((left.partitions(), left.n()), (64, 3));
        assert!(left.pending().is_none() && left.pending_copies(3).is_empty());
        assert_eq!(left.layout().nodes().keys().copied().collect::<Vec<_>>(), [NodeId(2)]);
        assert_eq!(left.copied_partitions(NodeId(2)).count(), 64);
        assert_eq!(Ring::decode(&left.encode()), Ok(left.clone()));
        let two = completed(committed(&left, &[join(7)]));
        assert_eq!(two.layout().nodes().len(), 2, "it changes as any other");
    }
    assert_eq!(four.copied_partitions(NodeId(9)).count(), 0, "a stranger has nothing");
}

#[test]
fn concurrent_or_outdated_ring_change_is_rejected() {
    let four = ring_of(4, 64, 3);
    let no_nodes = BTreeSet::new();
    let first = plan(&four, &[join(5)], 3, &no_nodes).expect("safe");
    let second = plan(&four, &[join(6)], 3, &no_nodes).expect("safe");
    let moving = four.commit(&first).expect("made for this ring");
    let (base_epoch, epoch) = (four.epoch(), moving.epoch());
    assert_eq!(moving.commit(&second), Err(PlanError::Outdated { base_epoch, epoch }));
    let refused = plan(&moving, &[join(6)], 3, &no_nodes);
    assert!(matches!(refused, Err(PlanError::InProgress { left }) if left > 0));
}

#[test]
fn cancelled_change_returns_moved_partitions_to_old_owners() {
    let four = ring_of(4, 64, 3);
    let mut moving = committed(&four, &[join(5)]);
    let arrived: Vec<_> =
        moving.pending_copies(3).iter().map(|one| one.partition).take(7).collect();
    for partition in &arrived {
        moving = moving.arrive(*partition, &[3]).expect("was on its way");
    }
    let cancelled = moving.cancel(&[3]).expect("something is under way");
    for partition in (0..64).map(Partition) {
        assert_eq!(cancelled.owners(partition, 3), moving.owners(partition, 3), "nothing jumps");
    }
    let returning: BTreeSet<_> =
        cancelled.pending_copies(3).iter().map(|one| one.partition).collect();
    assert_eq!(returning, arrived.into_iter().collect());
    assert_eq!(completed(cancelled).layout(), four.layout());
    assert_eq!(four.cancel(&[3]), None);
}

#[test]
fn change_cancelled_before_any_arrival_restores_old_layout() {
    let four = ring_of(4, 64, 3);
    let cancelled = committed(&four, &[join(5)]).cancel(&[3]).expect("something is under way");
    assert_eq!(cancelled.layout(), four.layout());
    assert!(cancelled.pending().is_none());
}

#[test]
fn partition_doubling_moves_nothing_and_halving_restores_layout() {
    let five = ring_of(5, 64, 3);
    let double = committed(&five, &[RingChangeRequest::Double]);
    assert!(double.pending().is_none(), "done at once");
    assert_eq!(double.partitions(), 128);
    for partition in 0..128 {
        let (fine, coarse) = (Partition(partition), Partition(partition / 2));
        assert_eq!(double.preference_list(fine, 3), five.preference_list(coarse, 3));
    }
    let half = committed(&double, &[RingChangeRequest::Halve]);
    assert!(half.pending().is_none(), "each two have one owner already");
    assert_eq!(half.layout(), five.layout());

    let even = apply_changes(&double, &[]);
    let loads: BTreeSet<_> = even.layout().loads().into_values().collect();
    assert_eq!(loads, [25, 26].into());
    let half = committed(&even, &[RingChangeRequest::Halve]);
    assert_eq!(half.partitions(), 128, "first the copies move");
    let half = completed(half);
    assert_eq!(half.partitions(), 64);
    let loads: BTreeSet<_> = half.layout().loads().into_values().collect();
    assert_eq!(loads, [12, 13].into());
}

#[test]
fn node_replacement_copies_only_to_new_node() {
    let five = ring_of(5, 64, 3);
    let replace = RingChangeRequest::Replace { old: NodeId(2), new: NodeId(9), rack: no_rack() };
    let moving = committed(&five, &[replace]);
    assert!(moving.pending_copies(3).iter().all(|one| one.to == NodeId(9)));
    assert_eq!(moving.pending_copies(3).len(), five.layout().copies(3)[&NodeId(2)]);
}

#[test]
fn partition_switches_when_received_and_old_owner_clears_leftovers() {
    let four = ring_of(4, 64, 3);
    let moving =
        committed(&four, &[RingChangeRequest::Leave { node: NodeId(2) }]).mark_idle_arrived(&[3]);
    let since = moving.pending().expect("something moves").start_epoch();
    let Some(one) = moving.pending_copies(3).into_iter().next() else { panic!("something moves") };
    let (partition, to) = (one.partition, one.to);
    assert_eq!(moving.receive(since + 1, (partition, to), &[3]), None, "another change");
    assert_eq!(moving.receive(since, (partition, NodeId(2)), &[3]), None, "it waits for nothing");
    let next = moving.receive(since, (partition, to), &[3]).expect("it was awaited");
    assert_eq!(next.receive(since, (partition, to), &[3]), None, "told twice");
    assert!(next.owners(partition, 3).contains(&to));
    let former: Vec<_> = next.leftovers(partition).collect();
    assert_eq!(former, [NodeId(2)]);
    assert_eq!(next.leftover_partitions(NodeId(2)).collect::<Vec<_>>(), [partition]);
    let clear = next.clear_leftovers((partition, 64), NodeId(2)).expect("it had leftovers");
    assert_eq!(clear.leftovers(partition).count(), 0);
    assert_eq!(clear.clear_leftovers((partition, 64), NodeId(2)), None);
    assert_eq!(clear.epoch(), moving.epoch() + 2);
}

#[test]
fn partition_switch_waits_for_receivers_of_all_used_n_vals() {
    let five = ring_of(5, 64, 3);
    let leave = [RingChangeRequest::Leave { node: NodeId(3) }];
    let moving = committed(&five, &leave);
    let partition = moving.pending_copies(3).first().expect("something moves").partition;
    let (few, many) =
        (moving.clone().mark_idle_arrived(&[1]), moving.mark_idle_arrived(&[1, 2, 3]));
    assert!(few.pending_copies(1).len() < many.pending_copies(3).len());
    let since = many.pending().expect("something moves").start_epoch();
    let mut ring = many.clone();
    let numbers = [1, 2, 3];
    let receivers: BTreeSet<_> =
        numbers.iter().flat_map(|n| many.receivers(partition, *n)).collect();
    for (count, node) in receivers.iter().enumerate() {
        assert!(!ring.pending().expect("it moves").has_arrived(partition), "{count}");
        ring = ring.receive(since, (partition, *node), &numbers).expect("it was awaited");
    }
    assert!(ring.pending().expect("it moves").has_arrived(partition));
}

#[test]
fn cancelled_change_marks_partial_copies_as_leftovers() {
    let four = ring_of(4, 64, 3);
    let moving = committed(&four, &[join(5)]);
    let cancelled = moving.cancel(&[3]).expect("something is under way");
    let copies = moving.pending_copies(3).len();
    assert_eq!(cancelled.leftover_partitions(NodeId(5)).count(), copies);
    assert_eq!(
        cancelled.leftover_partitions(NodeId(1)).count(),
        four.leftover_partitions(NodeId(1)).count()
    );
}

#[test]
fn leftovers_survive_partition_doubling_and_halving() {
    let ring = apply_changes(&ring_of(4, 64, 3), &[join(5)]);
    let left =
        |ring: &Ring| ring.leftover_partitions(NodeId(1)).map(|it| it.0).collect::<BTreeSet<_>>();
    let coarse = left(&ring);
    assert!(!coarse.is_empty(), "a fifth node took from the first");
    let fine = committed(&ring, &[RingChangeRequest::Double]);
    let both: BTreeSet<_> = coarse.iter().flat_map(|it| [it * 2, it * 2 + 1]).collect();
    assert_eq!(left(&fine), both);
    // A report from the former ring does not concern this one: it removes only the mark that it
    // names.
    let one = Partition(*both.first().expect("there is one"));
    assert_eq!(fine.clear_leftovers((one, 64), NodeId(1)), None);
    assert!(
        fine.clear_leftovers((one, 128), NodeId(1)).is_some()
            && fine.clear_leftovers((one, 0), NodeId(1)).is_some()
    );
    let halved = completed(committed(&fine, &[RingChangeRequest::Halve]));
    assert_eq!((halved.partitions(), left(&halved)), (64, coarse));
}

#[test]
fn cancelled_halving_keeps_finer_ring() {
    let even = apply_changes(&committed(&ring_of(5, 64, 3), &[RingChangeRequest::Double]), &[]);
    let mut half = committed(&even, &[RingChangeRequest::Halve]);
    for one in half.pending_copies(3).iter().map(|one| one.partition).take(9).collect::<Vec<_>>() {
        half = half.arrive(one, &[3]).unwrap_or(half);
    }
    let cancelled = completed(half.cancel(&[3]).expect("something is under way"));
    assert_eq!((cancelled.partitions(), cancelled.layout()), (128, even.layout()));
}

#[test]
fn change_completes_without_permanently_lost_receiver() {
    let five = ring_of(5, 64, 3);
    let moving =
        committed(&five, &[RingChangeRequest::Leave { node: NodeId(5) }]).mark_idle_arrived(&[3]);
    let since = moving.pending().expect("something moves").start_epoch();
    let dead = NodeId(1);
    assert!(moving.awaited_receivers(&[3]).contains(&dead));
    let same = moving.clone().without_receivers_of(|node| node == NodeId(9), &[3]);
    assert_eq!(same, moving);
    // Partitions of which it is the only receiver arrive without it; others are still awaited.
    let next = moving.clone().without_receivers_of(|node| node == dead, &[3]);
    assert!(!next.awaited_receivers(&[3]).contains(&dead) && next.pending().is_some());
    let arrived = |ring: &Ring| ring.pending().map_or(64, |it| it.arrived());
    assert!(arrived(&next) > arrived(&moving));
    let mut ring = next;
    for one in moving.pending_copies(3).iter().filter(|one| one.to != dead) {
        ring = ring.receive(since, (one.partition, one.to), &[3]).unwrap_or(ring);
        ring = ring.without_receivers_of(|node| node == dead, &[3]);
    }
    assert!(ring.pending().is_none() && ring.awaited_receivers(&[3]).is_empty());
    assert_eq!(ring.clone().with_next_epoch().epoch(), ring.epoch() + 1);
}

#[test]
fn sole_copy_switches_to_lost_receiver_only_if_source_is_lost() {
    let four = ring_of(4, 64, 1);
    let moving = committed(&four, &[join(5)]).mark_idle_arrived(&[1]);
    assert_eq!(moving.awaited_receivers(&[1]), [NodeId(5)].into());
    let kept = moving.clone().without_receivers_of(|node| node == NodeId(5), &[1]);
    assert_eq!(kept, moving, "who has the copy lives");
    let all = moving.without_receivers_of(|_| true, &[1]);
    assert!(all.pending().is_none(), "nobody has one");
}
