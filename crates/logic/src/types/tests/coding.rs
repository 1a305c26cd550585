//! Codec of data types: one form; any other is refused.

use super::{Replica, add, field, update};
use crate::types::Typed;
use base::Actor;
use base::datatype::{FieldKind, FieldStep, TypeOperation};
use bytes::Bytes;
use proptest::prelude::*;

fn bytes(typed: &Typed<Actor>) -> Vec<u8> {
    let mut out = Vec::new();
    typed.encode(&mut out);
    out
}

/// A map with one of each kind, changed at two replicas, and a waiting remove.
fn everything() -> Typed<Actor> {
    let (mut a, mut b) = (Replica::new(1, FieldKind::Map), Replica::new(2, FieldKind::Map));
    for replica in [&mut a, &mut b] {
        replica.apply(&TypeOperation::Fields(vec![
            FieldStep::Update(field("c", FieldKind::Counter), TypeOperation::Add(-300)),
            FieldStep::Update(field("s", FieldKind::Set), add("element")),
            FieldStep::Update(field("g", FieldKind::Gset), add("element")),
            FieldStep::Update(
                field("r", FieldKind::Register),
                TypeOperation::Assign(super::text("value")),
            ),
            FieldStep::Update(field("f", FieldKind::Flag), TypeOperation::Enable),
            FieldStep::Update(field("h", FieldKind::Hll), add("distinct")),
            FieldStep::Update(
                field("m", FieldKind::Map),
                update(field("in", FieldKind::Flag), TypeOperation::Disable),
            ),
        ]));
    }
    a.merge_from(&b);
    let mut later = Replica::new(3, FieldKind::Map);
    later.apply(&update(field("s", FieldKind::Set), add("later")));
    let unknown = later.typed.context().clone();
    for operation in [
        super::drop_field(field("f", FieldKind::Flag)),
        update(field("s", FieldKind::Set), super::remove("element")),
        update(field("f", FieldKind::Flag), TypeOperation::Disable),
    ] {
        a.change(&operation, Some(&unknown)).expect("applies");
    }
    assert_eq!(a.typed.waiting.len(), 3);
    a.typed
}

#[test]
fn typed_value_round_trips_and_malformed_bytes_are_rejected() {
    let good = bytes(&everything());
    assert_eq!(Typed::decode(&good.clone().into()), Ok(everything()));
    for cut in 0..good.len() {
        assert!(Typed::<Actor>::decode(&Bytes::copy_from_slice(&good[..cut])).is_err(), "{cut}");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(Typed::<Actor>::decode(&longer.into()).is_err());
    let newer = [&[2], &good[1..]].concat();
    assert!(Typed::<Actor>::decode(&newer.into()).is_err());
}

/// Half of the registers are in use: they are encoded in a row.
#[test]
fn sparse_and_dense_hll_round_trip_within_size_limit() {
    for count in [1, 5_000, 6_000, 60_000] {
        let mut replica = Replica::new(1, FieldKind::Hll);
        let steps = (0..count).map(|at: u32| {
            base::datatype::ElementStep::Add(Bytes::copy_from_slice(&at.to_le_bytes()))
        });
        replica.apply(&TypeOperation::Elements(steps.collect()));
        let coded = bytes(&replica.typed);
        assert!(coded.len() < (1 << 14) + 40, "{count}: {}", coded.len());
        assert_eq!(Typed::decode(&coded.into()), Ok(replica.typed));
    }
}

/// One counter with three replicas, as of page views.
#[test]
fn counter_of_three_replicas_takes_51_bytes() {
    let mut all = Replica::new(1, FieldKind::Counter);
    for node in 1..4 {
        let mut one = Replica::new(node, FieldKind::Counter);
        (0..50).for_each(|_| one.apply(&TypeOperation::Add(1)));
        all.merge_from(&one);
    }
    assert_eq!(bytes(&all.typed).len(), 51);
}

#[test]
fn map_encoding_matches_golden_bytes() {
    let mut replica = Replica::new(1, FieldKind::Map);
    replica.apply(&update(field("f", FieldKind::Flag), TypeOperation::Enable));
    let hex: String = bytes(&replica.typed).iter().map(|byte| format!("{byte:02x}")).collect();
    // Version, a map; one actor, one known dot; one field, a flag `f`, present and on; no waiting
    // remove.
    let expected =
        ["01", "05", "01", "0501000000000000000702 00", "01", "040166", "010001", "010001", "00"];
    assert_eq!(hex, expected.concat().replace(' ', ""));
}

proptest! {
    /// Decodable bytes encode to themselves: there is no second form.
    #[test]
    fn arbitrary_bytes_decode_to_canonical_type_or_error(
        random in proptest::collection::vec(any::<u8>(), 0..60),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
    ) {
        let mut near = bytes(&everything());
        for (at, byte) in flips {
            let at = usize::from(at) % near.len();
            near[at] = byte;
        }
        for input in [random, near] {
            if let Ok(typed) = Typed::<Actor>::decode(&input.clone().into()) {
                prop_assert_eq!(bytes(&typed), input);
                prop_assert_eq!(typed.clone().merge(typed.clone()).value(), typed.value());
            }
        }
    }
}
