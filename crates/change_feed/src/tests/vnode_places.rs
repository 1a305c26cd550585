//! Places of readers: one encoding, a bound on it, and what a page changes.

use super::{at, random_parts, slots};
use crate::{CatchUp, FeedPart, PartPlace, SlotSet, VnodePlace, VnodePosition};
use base::NodeId;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn place_round_trips_and_a_cut_one_is_malformed(parts in random_parts()) {
        let place = VnodePlace::new(parts.clone());
        for part in &parts {
            for slot in part.slots.iter() {
                let found = place.part_of(slot).map(|part| (part.node, part.place));
                prop_assert_eq!(found, Some((part.node, part.place)));
            }
        }
        let bytes = place.encode();
        prop_assert_eq!(VnodePlace::decode(&bytes), Ok(place));
        for end in 0..bytes.len() {
            prop_assert!(VnodePlace::decode(&bytes[..end]).is_err());
        }
    }

    #[test]
    fn fitted_place_loses_no_slot_and_begins_no_later(
        parts in random_parts(),
        max in 0..600_usize,
    ) {
        let place = VnodePlace::new(parts);
        let fitted = place.clone().fit(max);
        prop_assert_eq!(fitted.slots(), place.slots());
        let nodes = |place: &VnodePlace| {
            let mut nodes: Vec<_> = place.parts().iter().map(|part| part.node).collect();
            nodes.dedup();
            nodes
        };
        prop_assert!(fitted.encode().len() <= max || fitted.parts().len() == nodes(&fitted).len());
        for slot in place.slots().iter() {
            let (before, after) = (place.part_of(slot), fitted.part_of(slot));
            let (before, after) = (before.expect("it has one"), after.expect("it has one"));
            prop_assert_eq!(before.node, after.node);
            prop_assert!(after.place.position <= before.place.position);
            prop_assert!(after.place.covered <= before.place.covered);
        }
    }
}

#[test]
fn place_has_its_kept_bytes_and_one_form() {
    let catch_up = CatchUp { through: at(9), is_scan: false, is_again: true };
    let place = PartPlace { position: at(7), covered: at(5), catch_up };
    let one = FeedPart { node: NodeId(2), place, slots: slots(0..512) };
    let place = PartPlace::at_level(at(3));
    let other = FeedPart { node: NodeId(3), place, slots: slots(512..1_024) };
    let place = VnodePlace::new([other.clone(), one.clone()]);
    let kept = b"\x02\x02\0\0\0\0\0\0\0\x0b\x01\x07\x01\x01\x05\x01\x01\x09\x01\x01\0\x80\x04\
                 \x03\0\0\0\0\0\0\0\0\x01\x03\x01\x01\x80\x04\x80\x04";
    assert_eq!(place.encode(), kept);
    assert_eq!(place.slots(), SlotSet::all());
    // Parts in another order, a slot in two parts, flags that say what is not so.
    let swapped = [&kept[..1], &kept[23..], &kept[1..23]].concat();
    let twice = [&kept[..1], &kept[1..23], &kept[1..23]].concat();
    let mut unknown = kept.to_vec();
    unknown[9] = 0x10;
    for bytes in [swapped, twice, unknown] {
        assert!(VnodePlace::decode(&bytes).is_err(), "{bytes:?}");
    }
    assert_eq!(VnodePlace::decode(b"\0"), Ok(VnodePlace::default()));
}

#[test]
fn page_at_the_end_covers_what_the_node_has() {
    let begun = PartPlace::beginning(true);
    assert!(begun.may_repeat(at(50)) && !begun.is_below(at(50)), "it knows nothing yet");
    let middle = begun.after_page(at(5), at(20), false);
    let catch_up = CatchUp { through: at(20), is_scan: true, is_again: true };
    assert_eq!(middle, PartPlace { position: at(5), covered: VnodePosition::START, catch_up });
    assert!(!middle.is_below(at(20)), "it has not seen what was deleted before it came");
    assert!(middle.is_below(at(21)), "it may have");
    assert!(middle.may_repeat(at(20)) && !middle.may_repeat(at(21)));
    // The node has written more meanwhile.
    let behind = middle.after_page(at(22), at(30), false);
    assert_eq!((behind.position, behind.covered), (at(22), VnodePosition::START));
    assert_eq!(behind.catch_up, CatchUp::default());
    let level = behind.after_page(at(30), at(30), true);
    assert_eq!(level, PartPlace::at_level(at(30)));
    assert!(level.is_below(at(31)) && !level.is_below(at(30)) && !level.may_repeat(at(31)));
    assert_eq!(level.after_page(at(29), at(29), true), level, "a page of slots further back");
}

#[test]
fn reader_behind_a_bridge_knows_what_lies_before() {
    let bridged = PartPlace::behind_bridge(at(7));
    assert!(bridged.is_below(at(8)) && !bridged.is_below(at(7)), "it needs every delete behind");
    let page = bridged.after_page(at(8), at(9), false);
    assert_eq!((page.position, page.covered), (at(8), at(7)));
    assert!(page.may_repeat(at(9)) && !page.may_repeat(at(10)) && page.is_below(at(9)));
}
