//! Sources of readers: every slot has one, and readers stay where they are.

use super::{at, random_parts, random_slots, slots};
use crate::{FeedMove, FeedPart, FeedSources, OwnedSlots, PartPlace, SlotSet, VnodePlace};
use base::NodeId;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::slice::from_ref;

fn random_owned() -> impl Strategy<Value = Vec<OwnedSlots>> {
    let owners = proptest::collection::btree_set(1..6_u64, 0..4);
    let group = (random_slots(), owners);
    proptest::collection::vec(group, 1..6).prop_map(|groups| {
        let mut left = SlotSet::all();
        let mut owned = Vec::new();
        for (slots, owners) in groups {
            let slots = slots.intersection(&left);
            left = left.difference(&slots);
            owned.push(OwnedSlots { slots, owners: owners.into_iter().map(NodeId).collect() });
        }
        owned
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_slot_has_one_source_or_none(
        parts in random_parts(),
        owned in random_owned(),
        reached in proptest::collection::btree_set((1..6_u64).prop_map(NodeId), 0..5),
    ) {
        let place = VnodePlace::new(parts);
        let sources = FeedSources::plan(&place, &owned, &reached);
        let moved = sources.moves.iter().map(|it| &it.part);
        let all: Vec<_> = sources.owned.iter().chain(&sources.drained).chain(moved).collect();
        let count: usize = all.iter().map(|part| part.slots.len()).sum();
        let union = all.iter().fold(sources.unserved, |all, part| all.union(&part.slots));
        prop_assert_eq!((count + sources.unserved.len(), union), (1_024, SlotSet::all()));
        for slot in 0..1_024 {
            let owners = owned.iter().find(|group| group.slots.contains(slot));
            let owners = owners.map(|group| group.owners.clone()).unwrap_or_default();
            let is_in = |parts: &[FeedPart]| parts.iter().any(|part| part.slots.contains(slot));
            if let Some(part) = place.part_of(slot) {
                let stays = sources.owned.iter().any(|it| {
                    it.slots.contains(slot) && (it.node, it.place) == (part.node, part.place)
                });
                prop_assert_eq!(stays, owners.contains(&part.node), "slot {}", slot);
                prop_assert!(!is_in(&sources.drained) || reached.contains(&part.node));
            } else {
                prop_assert_eq!(is_in(&sources.owned), !owners.is_empty());
            }
        }
    }

    #[test]
    fn move_gives_each_slot_to_one_candidate(
        moved in random_slots(),
        bridged in proptest::collection::vec((1..4_u64, 1..9_u64, random_slots()), 0..6),
    ) {
        let part = FeedPart { node: NodeId(9), place: PartPlace::at_level(at(3)), slots: moved };
        let candidates = vec![NodeId(2), NodeId(3)];
        let moved = FeedMove { part, candidates: candidates.clone() };
        let answers: Vec<_> = bridged
            .into_iter()
            .map(|(node, own, slots)| (NodeId(node), vec![(at(own), slots)]))
            .collect();
        let parts = moved.resolve(&answers);
        let count: usize = parts.iter().map(|part| part.slots.len()).sum();
        let all = parts.iter().fold(SlotSet::default(), |all, part| all.union(&part.slots));
        prop_assert_eq!((count, all), (moved.part.slots.len(), moved.part.slots));
        for FeedPart { node, place, slots } in parts {
            prop_assert!(candidates.contains(&node));
            let is_bridged = |slot: u32| {
                let mut of_candidates = answers.iter().filter(|(it, _)| candidates.contains(it));
                of_candidates.any(|(_, bridges)| bridges[0].1.contains(slot))
            };
            let is_beginning = place == PartPlace::beginning(true);
            prop_assert!(slots.iter().all(|slot| is_bridged(slot) != is_beginning));
        }
    }
}

#[test]
fn reader_leaves_a_former_owner_at_its_end_and_a_lost_node_at_once() {
    let place = PartPlace::at_level(at(5));
    let part = FeedPart { node: NodeId(1), place, slots: slots(0..10) };
    let here = VnodePlace::new([part.clone()]);
    let owners = vec![NodeId(2), NodeId(3)];
    let owned = [OwnedSlots { slots: slots(0..10), owners: owners.clone() }];
    let plan = |here: &VnodePlace, reached: &[u64]| {
        let reached: BTreeSet<_> = reached.iter().copied().map(NodeId).collect();
        FeedSources::plan(here, &owned, &reached)
    };
    assert_eq!(plan(&here, &[1, 2]).drained, from_ref(&part));
    let moved = FeedMove { part, candidates: owners.clone() };
    assert_eq!(plan(&here, &[2]).moves, from_ref(&moved));
    assert!(moved.may_use_bridges());
    // A former owner hands rows off while it is scanned: its feed may lack them.
    let place = PartPlace::beginning(false).after_page(at(4), at(9), false);
    let part = FeedPart { node: NodeId(1), place, slots: slots(0..10) };
    let scan = FeedMove { part: part.clone(), candidates: owners };
    assert_eq!(plan(&VnodePlace::new([part]), &[1, 2]).moves, from_ref(&scan));
    assert!(!scan.may_use_bridges());
    let bridges = [(NodeId(2), vec![(at(3), slots(0..10))])];
    assert_eq!(scan.resolve(&bridges)[0].place, PartPlace::beginning(true));
}
