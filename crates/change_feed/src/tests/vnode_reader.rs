//! Rounds of a reader: no slot is lost, and a page is level only if everything was read.

use super::{at, random_parts, random_slots, slots};
use crate::{
    FeedPart, OwnedSlots, PageOutline, PartPlace, SlotSet, VnodePlace, VnodePosition, VnodeReader,
};
use base::NodeId;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn nodes(numbers: impl IntoIterator<Item = u64>) -> BTreeSet<NodeId> {
    numbers.into_iter().map(NodeId).collect()
}

fn owned(of: &[(SlotSet, &[u64])]) -> Vec<OwnedSlots> {
    let group = |(slots, owners): &(SlotSet, &[u64])| {
        let owners = owners.iter().copied().map(NodeId).collect();
        OwnedSlots { slots: *slots, owners }
    };
    of.iter().map(group).collect()
}

fn part(node: u64, slots: SlotSet) -> FeedPart {
    FeedPart { node: NodeId(node), place: PartPlace::at_level(at(5)), slots }
}

fn page(end: u64, level: u64, floor: u64) -> PageOutline {
    let floor = if floor == 0 { VnodePosition::START } else { at(floor) };
    let (end, level) = (at(end), at(level));
    PageOutline { end, level, floor, joined: Vec::new(), is_level: end == level }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn round_loses_no_slot_whatever_nodes_answer(
        parts in random_parts(),
        first in random_slots(),
        answers in proptest::collection::vec(0..3_u8, 12..13),
    ) {
        let place = VnodePlace::new(parts);
        let rest = SlotSet::all().difference(&first);
        let owned = owned(&[(first, &[1, 2]), (rest, &[3])]);
        let mut reader = VnodeReader::new(place.clone());
        let sources = reader.begin_round(&owned, &nodes(1..6));
        let moves: Vec<_> = sources.moves.iter().map(|it| (it.clone(), Vec::new())).collect();
        let round = reader.ask(sources, &moves);
        let mut is_level = round.unserved.is_empty();
        for (ask, answer) in round.asks.iter().zip(answers.into_iter().cycle()) {
            is_level &= answer == 0 && !ask.of_former_owner;
            let is_taken = match answer {
                0 => reader.take_page(ask, page(u64::MAX, u64::MAX, 0)),
                1 => reader.take_page(ask, page(500, 1_000, 0)),
                _ => {
                    reader.take_failure(ask, true);
                    true
                }
            };
            prop_assert!(is_taken, "nothing was removed");
        }
        prop_assert_eq!(reader.is_level(), is_level);
        let after = reader.place();
        let count: usize = after.parts().iter().map(|part| part.slots.len()).sum();
        prop_assert_eq!(count, SlotSet::all().len(), "each slot once");
    }
}

#[test]
fn reader_drains_a_former_owner_and_then_moves() {
    let part = part(1, SlotSet::all());
    let mut reader = VnodeReader::new(VnodePlace::new([part]));
    let owned = owned(&[(SlotSet::all(), &[2])]);
    let reached = nodes([1, 2]);
    let sources = reader.begin_round(&owned, &reached);
    assert!(sources.moves.is_empty());
    let round = reader.ask(sources, &[]);
    assert!(round.asks.len() == 1 && round.asks[0].of_former_owner);
    assert!(reader.take_page(&round.asks[0], page(9, 9, 0)));
    assert!(reader.must_go_on() && !reader.is_level(), "its owner may have more");
    let sources = reader.begin_round(&owned, &reached);
    let moved = sources.moves[0].clone();
    assert_eq!(moved.part.place.covered, at(9), "bridges from its end count");
    let bridges = vec![(NodeId(2), vec![(at(3), SlotSet::all())])];
    let round = reader.ask(sources, &[(moved, bridges)]);
    assert_eq!(round.asks[0].parts[0].place, PartPlace::behind_bridge(at(3)));
    assert!(reader.take_page(&round.asks[0], page(4, 4, 0)));
    assert!(reader.is_level() && !reader.must_go_on());
    let place = PartPlace::at_level(at(4));
    let part = FeedPart { node: NodeId(2), place, slots: SlotSet::all() };
    assert_eq!(reader.place(), VnodePlace::new([part]));
}

#[test]
fn reader_below_a_floor_starts_over_with_all_slots() {
    let (one, other) = (slots(0..512), slots(512..1_024));
    let mut reader = VnodeReader::new(VnodePlace::new([part(1, one), part(2, other)]));
    let owned = owned(&[(one, &[1]), (other, &[2])]);
    let sources = reader.begin_round(&owned, &nodes([1, 2]));
    let round = reader.ask(sources, &[]);
    assert!(reader.take_page(&round.asks[0], page(9, 9, 5)), "it has passed the floor");
    assert!(!reader.take_page(&round.asks[1], page(9, 9, 6)));
    assert!(reader.is_restarted() && reader.must_go_on());
    assert_eq!(reader.place(), VnodePlace::default());
    let sources = reader.begin_round(&owned, &nodes([1, 2]));
    let round = reader.ask(sources, &[]);
    assert!(round.asks.iter().all(|ask| ask.parts[0].place == PartPlace::beginning(false)));
    assert!(reader.take_page(&round.asks[0], page(3, 9, 6)), "a scan needs no earlier deletes");
}

#[test]
fn token_of_a_former_ownership_starts_over_and_a_scan_does_not() {
    let owned = owned(&[(SlotSet::all(), &[1])]);
    let joined = vec![(at(6), slots([7]))];
    let page = PageOutline { joined, ..page(9, 9, 0) };
    let takes = |part: FeedPart| {
        let mut reader = VnodeReader::new(VnodePlace::new([part]));
        let sources = reader.begin_round(&owned, &nodes([1]));
        let round = reader.ask(sources, &[]);
        reader.take_page(&round.asks[0], page.clone())
    };
    assert!(!takes(part(1, slots([7]))) && takes(part(1, slots([8]))));
    let scan = PartPlace::beginning(false).after_page(at(2), at(9), false);
    assert!(takes(FeedPart { place: scan, ..part(1, slots([7])) }), "it began later");
    let scan = PartPlace::beginning(false).after_page(at(2), at(5), false);
    assert!(!takes(FeedPart { place: scan, ..part(1, slots([7])) }));
}

#[test]
fn failed_node_is_left_for_another_owner_and_the_last_one_leaves_slots_unserved() {
    let part = part(1, SlotSet::all());
    let mut reader = VnodeReader::new(VnodePlace::new([part.clone()]));
    let both = owned(&[(SlotSet::all(), &[1, 2])]);
    let sources = reader.begin_round(&both, &nodes([1, 2]));
    let round = reader.ask(sources, &[]);
    reader.take_failure(&round.asks[0], true);
    assert_eq!((reader.failed(), reader.must_go_on()), (&nodes([1]), true));
    // The caller leaves failed nodes out of the owners.
    let sources = reader.begin_round(&owned(&[(SlotSet::all(), &[2])]), &nodes([1, 2]));
    assert_eq!(sources.moves[0].candidates, [NodeId(2)]);
    let mut reader = VnodeReader::new(VnodePlace::new([part.clone()]));
    let sources = reader.begin_round(&owned(&[(SlotSet::all(), &[])]), &BTreeSet::new());
    let round = reader.ask(sources, &[]);
    assert_eq!((round.asks.len(), round.unserved), (0, SlotSet::all()));
    assert_eq!((reader.place(), reader.is_level()), (VnodePlace::new([part]), false));
}
