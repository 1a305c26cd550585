//! Sets of slots are sets, and have one encoding; positions order as their bytes do.

use super::{random_position, random_slots, slots};
use crate::{SlotSet, VnodePosition};
use base::codec::Reader;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn encoded(set: &SlotSet) -> Vec<u8> {
    let mut out = Vec::new();
    set.put(&mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slot_sets_equal_ordinary_sets(one in random_slots(), other in random_slots()) {
        let (a, b): (BTreeSet<u32>, BTreeSet<u32>) = (one.iter().collect(), other.iter().collect());
        let is_equal =
            |set: SlotSet, expected: Vec<u32>| set.iter().collect::<Vec<_>>() == expected;
        prop_assert!(is_equal(one.union(&other), a.union(&b).copied().collect()));
        prop_assert!(is_equal(one.intersection(&other), a.intersection(&b).copied().collect()));
        prop_assert!(is_equal(one.difference(&other), a.difference(&b).copied().collect()));
        prop_assert_eq!((one.len(), one.is_empty()), (a.len(), a.is_empty()));
        prop_assert!((0..1_100).all(|slot| one.contains(slot) == a.contains(&slot)));
        let of_runs: Vec<u32> = one.runs().into_iter().flatten().collect();
        prop_assert!(is_equal(one, of_runs));
    }

    #[test]
    fn slot_set_round_trips_and_a_cut_one_is_malformed(set in random_slots()) {
        let bytes = encoded(&set);
        let mut from = Reader::new(&bytes);
        prop_assert_eq!(SlotSet::take(&mut from), Ok(set));
        prop_assert!(from.is_empty());
        for end in 0..bytes.len() {
            prop_assert!(SlotSet::take(&mut Reader::new(&bytes[..end])).is_err());
        }
    }

    #[test]
    fn positions_order_as_their_key_bytes_and_round_trip(
        one in random_position(),
        other in random_position(),
    ) {
        prop_assert_eq!(one.cmp(&other), one.key_bytes().cmp(&other.key_bytes()));
        prop_assert_eq!(VnodePosition::from_key_bytes(&one.key_bytes()), one);
        let mut bytes = Vec::new();
        one.put(&mut bytes);
        prop_assert_eq!(VnodePosition::take(&mut Reader::new(&bytes)), Ok(one));
    }
}

#[test]
fn slot_sets_have_their_kept_bytes_and_one_form() {
    let kept = [
        (SlotSet::default(), &b"\0"[..]),
        (SlotSet::all(), b"\x01\0\x80\x08"),
        (slots([0, 1, 5]), b"\x02\0\x02\x03\x01"),
        (slots([1_023]), b"\x01\xff\x07\x01"),
    ];
    for (set, bytes) in kept {
        assert_eq!(encoded(&set), bytes, "{set:?}");
    }
    // An empty run, two runs that touch, one that leaves the ring, more runs than bytes.
    for bytes in [&b"\x01\0\0"[..], b"\x02\0\x01\0\x01", b"\x01\xff\x07\x02", b"\x09\0\x01"] {
        assert!(SlotSet::take(&mut Reader::new(bytes)).is_err(), "{bytes:?}");
    }
}

#[test]
fn position_has_its_kept_bytes() {
    let position = VnodePosition { life: 258, batch: 7, ordinal: 3 };
    assert_eq!(position.key_bytes(), *b"\0\0\x01\x02\0\0\0\0\0\0\0\x07\0\0\0\x03");
    let mut bytes = Vec::new();
    position.put(&mut bytes);
    VnodePosition::end_of(1, 7).put(&mut bytes);
    assert_eq!(bytes, b"\x82\x02\x07\x04\x01\x07\0");
    assert!(VnodePosition::START < VnodePosition::start_of(1));
    assert!(VnodePosition::start_of(2) > VnodePosition::end_of(1, u64::MAX));
}
