//! Sets of dots against a plain list of them, and their bytes.

use super::{COUNT_MAX, CounterSet, DotContext};
use crate::codec::Reader;
use crate::{Actor, NodeId};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn counts(seen: &CounterSet) -> BTreeSet<u64> {
    seen.ranges().flat_map(|(from, to)| from..=to).collect()
}

fn seen(counts: &BTreeSet<u64>) -> CounterSet {
    let mut counts = counts.iter();
    let mut seen = CounterSet::single(*counts.next().expect("never empty")).expect("a counter");
    counts.for_each(|count| seen.add(*count));
    seen
}

fn some_counts() -> impl Strategy<Value = BTreeSet<u64>> {
    proptest::collection::btree_set(1..40_u64, 1..20)
}

proptest! {
    #[test]
    fn counter_set_matches_plain_set_model(one in some_counts(), other in some_counts()) {
        let (a, b) = (seen(&one), seen(&other));
        prop_assert_eq!(&counts(&a), &one);
        prop_assert_eq!(a.covers(&b), one.is_superset(&other));
        prop_assert_eq!(Some(a.highest()), one.last().copied());
        for count in 0..42 {
            prop_assert_eq!(a.contains(count), one.contains(&count));
        }
        let mut both = a.clone();
        both.union(&b);
        prop_assert_eq!(counts(&both), one.union(&other).copied().collect());
        let mut bytes = Vec::new();
        both.put(&mut bytes);
        prop_assert_eq!(CounterSet::take(&mut Reader::new(&bytes)), Ok(both));
    }

    #[test]
    fn decoded_counter_set_reencodes_to_same_bytes(
        bytes in proptest::collection::vec(0..9_u8, 2..12),
    ) {
        let mut from = Reader::new(&bytes);
        if let Ok(seen) = CounterSet::take(&mut from) {
            let mut reencoded = Vec::new();
            seen.put(&mut reencoded);
            prop_assert_eq!(&reencoded[..], &bytes[..bytes.len() - from.rest().len()]);
        }
    }
}

#[test]
fn counter_set_rejects_counters_outside_limits() {
    assert_eq!(CounterSet::single(0), None);
    assert_eq!(CounterSet::single(COUNT_MAX + 1), None);
    assert_eq!(CounterSet::up_to(0), None);
    let mut bytes = Vec::new();
    CounterSet::up_to(COUNT_MAX).expect("fits").put(&mut bytes);
    assert_eq!(
        CounterSet::take(&mut Reader::new(&bytes)),
        Ok(CounterSet::up_to(COUNT_MAX).expect("fits"))
    );
    // Twice the end, then the length minus one: an end above the limit, a start below 1.
    for (end, lower) in [(COUNT_MAX + 1, 0), (3, 3), (3, 4), (0, 0)] {
        let mut bytes = Vec::new();
        crate::varint::put(end << 1, &mut bytes);
        crate::varint::put(lower, &mut bytes);
        assert!(CounterSet::take(&mut Reader::new(&bytes)).is_err(), "{end} {lower}");
    }
}

#[test]
fn joined_dot_context_covers_both_inputs() {
    let actor = |node| Actor { node: NodeId(node), vnode: 3, incarnation: 1 };
    let one = DotContext::from_counts([(actor(2), 5), (actor(1), 2), (actor(3), 0)]);
    assert_eq!(one.entries().count(), 2, "no dots, no entry");
    let other = DotContext::empty().with_dot(actor(2), 7);
    assert!(!one.covers(&other) && !other.covers(&one));
    let both = one.clone().join(&other);
    assert!(both.covers(&one) && both.covers(&other));
    assert!(both.contains(&actor(2), 7) && !both.contains(&actor(2), 6));
    assert_eq!(both, DotContext::from_counts([(actor(1), 2), (actor(2), 5)]).with_dot(actor(2), 7));
    assert!(one.covers(&DotContext::empty()) && DotContext::<Actor>::empty().is_empty());
}

#[test]
fn authenticated_context_decodes_only_with_its_mac_and_version() {
    type Contexts = DotContext<Actor>;
    let actor = Actor { node: NodeId(1), vnode: 3, incarnation: 1 };
    let context = DotContext::from_counts([(actor, 5)]);
    let mac = |key: u8| move |content: &[u8]| [key ^ content[content.len() - 1]; 8];
    let bytes = context.encode_authenticated(mac(7));
    assert_eq!(Contexts::decode_authenticated(&bytes, mac(7)), Ok(context.clone()));
    assert!(Contexts::is_authenticated(&bytes) && !Contexts::is_authenticated(&context.encode(7)));
    assert!(Contexts::decode_authenticated(&bytes, mac(8)).is_err(), "another key");
    assert!(Contexts::decode_authenticated(&context.encode(7), mac(7)).is_err(), "a checksum");
    assert!(Contexts::decode(&bytes, 7).is_err(), "a MAC is no checksum");
    for at in 0..bytes.len() {
        assert!(Contexts::decode_authenticated(&bytes[..at], mac(7)).is_err(), "cut at {at}");
    }
    for at in bytes.len() - 8..bytes.len() {
        let mut forged = bytes.clone();
        forged[at] ^= 1;
        assert!(Contexts::decode_authenticated(&forged, mac(7)).is_err(), "byte {at}");
    }
}

#[test]
fn shortened_dot_context_fits_limit_and_keeps_needed_actors() {
    let context_of = |incarnations: std::ops::Range<u64>| {
        let actor = |incarnation| Actor { node: NodeId(u64::MAX), vnode: 900, incarnation };
        DotContext::from_counts(incarnations.map(|number| (actor(number << 32), 1 << 20)))
    };
    let needed = |actor: &Actor| actor.incarnation >> 32 < 10;
    let short = context_of(1..1_000);
    assert_eq!(short.clone().shorten(needed), short);
    let long = context_of(1..10_000);
    let told = long.clone().shorten(needed);
    assert!(long.covers(&told) && told.covers(&context_of(1..10)), "{told:?}");
    // One more entry would not fit, and the newest ones are kept.
    let bytes = told.encode_authenticated(|_| [7; 8]);
    assert!(
        (DotContext::<Actor>::BYTES_MAX - 20..=DotContext::<Actor>::BYTES_MAX)
            .contains(&bytes.len())
    );
    assert!(told.covers(&context_of(9_000..10_000)));
    assert_eq!(DotContext::decode_authenticated(&bytes, |_| [7; 8]), Ok(told));
}
