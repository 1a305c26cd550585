//! Changes in progress: two layouts, and partitions that switch one by one.

use super::{alone, changed, join, ring_of, settled};
use crate::ring::{Ring, RingWish, Unsafe, plan};
use base::{NodeId, Partition};
use std::collections::BTreeSet;

fn begun(ring: &Ring, changes: &[RingWish]) -> Ring {
    let plan = plan(ring, changes, ring.n(), &BTreeSet::new()).expect("safe");
    ring.commit(&plan).expect("made for this ring")
}

#[test]
fn old_owners_answer_until_the_copies_have_arrived() {
    let four = ring_of(4, 64, 3);
    let moving = begun(&four, &[join(5)]);
    let copying = moving.copying(3);
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
    let done = settled(next);
    assert_eq!(done.copying(3), []);
    assert!(done.layout().nodes().contains_key(&NodeId(5)));
}

#[test]
fn who_is_left_alone_keeps_everything_and_knows_of_what_it_had_a_copy() {
    let four = ring_of(4, 64, 3);
    let copied: Vec<_> = four.copied_at(NodeId(2)).collect();
    assert_eq!(copied.len(), 48, "three copies on four nodes");
    // In the middle of a change too: no node is left that could give or get anything.
    let moving = begun(&four, &[join(5)]);
    for ring in [&four, &moving] {
        let left = ring.of_survivor(NodeId(2));
        assert_eq!(left.epoch(), ring.epoch() + 1);
        assert_eq!((left.partitions(), left.n()), (64, 3));
        assert!(left.pending().is_none() && left.copying(3).is_empty());
        assert_eq!(left.layout().nodes().keys().copied().collect::<Vec<_>>(), [NodeId(2)]);
        assert_eq!(left.copied_at(NodeId(2)).count(), 64);
        assert_eq!(Ring::decode(&left.encode()), Ok(left.clone()));
        let two = settled(begun(&left, &[join(7)]));
        assert_eq!(two.layout().nodes().len(), 2, "it changes as any other");
    }
    assert_eq!(four.copied_at(NodeId(9)).count(), 0, "a stranger has nothing");
}

#[test]
fn one_change_at_a_time_and_only_for_the_ring_it_was_made_for() {
    let four = ring_of(4, 64, 3);
    let nobody = BTreeSet::new();
    let first = plan(&four, &[join(5)], 3, &nobody).expect("safe");
    let second = plan(&four, &[join(6)], 3, &nobody).expect("safe");
    let moving = four.commit(&first).expect("made for this ring");
    let (made_for, epoch) = (four.epoch(), moving.epoch());
    assert_eq!(moving.commit(&second), Err(Unsafe::Outdated { made_for, epoch }));
    let refused = plan(&moving, &[join(6)], 3, &nobody);
    assert!(matches!(refused, Err(Unsafe::UnderWay { left }) if left > 0));
}

#[test]
fn a_change_called_off_goes_back_through_the_same_door() {
    let four = ring_of(4, 64, 3);
    let mut moving = begun(&four, &[join(5)]);
    let gone_over: Vec<_> = moving.copying(3).iter().map(|one| one.partition).take(7).collect();
    for partition in &gone_over {
        moving = moving.arrive(*partition, &[3]).expect("was on its way");
    }
    let back = moving.cancel(&[3]).expect("something is under way");
    for partition in (0..64).map(Partition) {
        assert_eq!(back.owners(partition, 3), moving.owners(partition, 3), "nothing jumps");
    }
    let returning: BTreeSet<_> = back.copying(3).iter().map(|one| one.partition).collect();
    assert_eq!(returning, gone_over.into_iter().collect());
    assert_eq!(settled(back).layout(), four.layout());
    assert_eq!(four.cancel(&[3]), None);
}

#[test]
fn nothing_arrived_and_called_off_is_as_if_nothing_had_been() {
    let four = ring_of(4, 64, 3);
    let back = begun(&four, &[join(5)]).cancel(&[3]).expect("something is under way");
    assert_eq!(back.layout(), four.layout());
    assert!(back.pending().is_none());
}

#[test]
fn twice_as_many_partitions_move_nothing_and_half_as_many_lead_back() {
    let five = ring_of(5, 64, 3);
    let double = begun(&five, &[RingWish::Double]);
    assert!(double.pending().is_none(), "done at once");
    assert_eq!(double.partitions(), 128);
    for partition in 0..128 {
        let (fine, coarse) = (Partition(partition), Partition(partition / 2));
        assert_eq!(double.preference(fine, 3), five.preference(coarse, 3));
    }
    let half = begun(&double, &[RingWish::Halve]);
    assert!(half.pending().is_none(), "each two have one owner already");
    assert_eq!(half.layout(), five.layout());

    let even = changed(&double, &[]);
    let loads: BTreeSet<_> = even.layout().loads().into_values().collect();
    assert_eq!(loads, [25, 26].into());
    let half = begun(&even, &[RingWish::Halve]);
    assert_eq!(half.partitions(), 128, "first the copies move");
    let half = settled(half);
    assert_eq!(half.partitions(), 64);
    let loads: BTreeSet<_> = half.layout().loads().into_values().collect();
    assert_eq!(loads, [12, 13].into());
}

#[test]
fn a_replacement_needs_no_other_copies() {
    let five = ring_of(5, 64, 3);
    let replace = RingWish::Replace { old: NodeId(2), new: NodeId(9), rack: alone() };
    let moving = begun(&five, &[replace]);
    assert!(moving.copying(3).iter().all(|one| one.to == NodeId(9)));
    assert_eq!(moving.copying(3).len(), five.layout().copies(3)[&NodeId(2)]);
}

#[test]
fn a_partition_goes_over_when_all_have_received_it_and_former_owners_clear_it_then() {
    let four = ring_of(4, 64, 3);
    let moving = begun(&four, &[RingWish::Leave { node: NodeId(2) }]).without_idle(&[3]);
    let since = moving.pending().expect("something moves").since();
    let Some(one) = moving.copying(3).into_iter().next() else { panic!("something moves") };
    let (partition, to) = (one.partition, one.to);
    assert_eq!(moving.receive(since + 1, (partition, to), &[3]), None, "another change");
    assert_eq!(moving.receive(since, (partition, NodeId(2)), &[3]), None, "it waits for nothing");
    let next = moving.receive(since, (partition, to), &[3]).expect("it was awaited");
    assert_eq!(next.receive(since, (partition, to), &[3]), None, "told twice");
    assert!(next.owners(partition, 3).contains(&to));
    let former: Vec<_> = next.leftovers(partition).collect();
    assert_eq!(former, [NodeId(2)]);
    assert_eq!(next.left_at(NodeId(2)).collect::<Vec<_>>(), [partition]);
    let clear = next.clear((partition, 64), NodeId(2)).expect("it had leftovers");
    assert_eq!(clear.leftovers(partition).count(), 0);
    assert_eq!(clear.clear((partition, 64), NodeId(2)), None);
    assert_eq!(clear.epoch(), moving.epoch() + 2);
}

#[test]
fn what_nobody_asks_for_is_not_waited_for_and_buckets_with_more_copies_are() {
    let five = ring_of(5, 64, 3);
    let leave = [RingWish::Leave { node: NodeId(3) }];
    let moving = begun(&five, &leave);
    let partition = moving.copying(3).first().expect("something moves").partition;
    let (few, many) = (moving.clone().without_idle(&[1]), moving.without_idle(&[1, 2, 3]));
    assert!(few.copying(1).len() < many.copying(3).len());
    let since = many.pending().expect("something moves").since();
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
fn who_had_part_of_a_copy_when_the_change_was_called_off_has_leftovers() {
    let four = ring_of(4, 64, 3);
    let moving = begun(&four, &[join(5)]);
    let back = moving.cancel(&[3]).expect("something is under way");
    let copies = moving.copying(3).len();
    assert_eq!(back.left_at(NodeId(5)).count(), copies);
    assert_eq!(back.left_at(NodeId(1)).count(), four.left_at(NodeId(1)).count());
}

#[test]
fn leftovers_stay_known_when_their_partitions_fall_in_two_or_become_one() {
    let ring = changed(&ring_of(4, 64, 3), &[join(5)]);
    let left = |ring: &Ring| ring.left_at(NodeId(1)).map(|it| it.0).collect::<BTreeSet<_>>();
    let coarse = left(&ring);
    assert!(!coarse.is_empty(), "a fifth node took from the first");
    let fine = begun(&ring, &[RingWish::Double]);
    let both: BTreeSet<_> = coarse.iter().flat_map(|it| [it * 2, it * 2 + 1]).collect();
    assert_eq!(left(&fine), both);
    // A report from the former ring does not concern this one: it removes only the mark that it
    // names.
    let one = Partition(*both.first().expect("there is one"));
    assert_eq!(fine.clear((one, 64), NodeId(1)), None);
    assert!(
        fine.clear((one, 128), NodeId(1)).is_some() && fine.clear((one, 0), NodeId(1)).is_some()
    );
    let again = settled(begun(&fine, &[RingWish::Halve]));
    assert_eq!((again.partitions(), left(&again)), (64, coarse));
}

#[test]
fn halving_called_off_leaves_the_finer_ring() {
    let even = changed(&begun(&ring_of(5, 64, 3), &[RingWish::Double]), &[]);
    let mut half = begun(&even, &[RingWish::Halve]);
    for one in half.copying(3).iter().map(|one| one.partition).take(9).collect::<Vec<_>>() {
        half = half.arrive(one, &[3]).unwrap_or(half);
    }
    let back = settled(half.cancel(&[3]).expect("something is under way"));
    assert_eq!((back.partitions(), back.layout()), (128, even.layout()));
}

#[test]
fn nobody_waits_for_a_receiver_that_is_gone_for_good() {
    let five = ring_of(5, 64, 3);
    let moving = begun(&five, &[RingWish::Leave { node: NodeId(5) }]).without_idle(&[3]);
    let since = moving.pending().expect("something moves").since();
    let dead = NodeId(1);
    assert!(moving.awaited(&[3]).contains(&dead));
    let same = moving.clone().without_receivers_of(|node| node == NodeId(9), &[3]);
    assert_eq!(same, moving);
    // What it alone was to receive arrives without it; other receivers are still awaited.
    let next = moving.clone().without_receivers_of(|node| node == dead, &[3]);
    assert!(!next.awaited(&[3]).contains(&dead) && next.pending().is_some());
    let gone_over = |ring: &Ring| ring.pending().map_or(64, |it| it.arrived());
    assert!(gone_over(&next) > gone_over(&moving));
    let mut ring = next;
    for one in moving.copying(3).iter().filter(|one| one.to != dead) {
        ring = ring.receive(since, (one.partition, one.to), &[3]).unwrap_or(ring);
        ring = ring.without_receivers_of(|node| node == dead, &[3]);
    }
    assert!(ring.pending().is_none() && ring.awaited(&[3]).is_empty());
    assert_eq!(ring.clone().renewed().epoch(), ring.epoch() + 1);
}

#[test]
fn the_only_copy_does_not_go_over_to_who_is_gone_unless_it_is_gone_too() {
    let four = ring_of(4, 64, 1);
    let moving = begun(&four, &[join(5)]).without_idle(&[1]);
    assert_eq!(moving.awaited(&[1]), [NodeId(5)].into());
    let kept = moving.clone().without_receivers_of(|node| node == NodeId(5), &[1]);
    assert_eq!(kept, moving, "who has the copy lives");
    let all = moving.without_receivers_of(|_| true, &[1]);
    assert!(all.pending().is_none(), "nobody has one");
}
