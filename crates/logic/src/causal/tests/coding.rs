//! Encoded size of clocks and contexts, and the bytes that are refused.

use super::Dice;
use crate::causal::{Clock, Coded, Minter, StartState, decode, encode};
use base::codec::Malformed;
use base::dots::{COUNT_MAX, DotContext, Identity};
use base::{Actor, NodeId};
use proptest::prelude::*;

impl Coded for u64 {
    fn coded_bytes(&self) -> usize {
        8
    }
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
}

/// Decodes a value of these tests.
pub(super) fn number(bytes: &[u8]) -> Result<u64, Malformed> {
    bytes.try_into().map(u64::from_le_bytes).map_err(|_| Malformed("a number"))
}

fn bytes(clock: &Clock<Actor, u64>) -> Vec<u8> {
    let mut out = Vec::new();
    encode(clock, &mut out);
    out
}

fn actor(node: u64, vnode: u32, incarnation: u64) -> Actor {
    Actor { node: NodeId(node), vnode, incarnation }
}

/// A typical row of three replicas: each coordinated some writes, one value is left.
fn typical_clock() -> Clock<Actor, u64> {
    let mut dice = Dice(7);
    let mut clock: Clock<Actor, u64> = Clock::empty();
    for _ in 0..3 {
        let id = actor(dice.roll(), 41, 1);
        for value in 0..2 + dice.below(90) {
            let context = clock.join();
            clock = clock.update(&context, value, id);
        }
    }
    clock
}

#[test]
fn clock_of_three_replicas_takes_40_bytes_and_context_45() {
    let clock = typical_clock();
    assert_eq!(clock.ids().len(), 3);
    // The value, its length, its number and its place are not part of the clock.
    assert_eq!(bytes(&clock).len() - (8 + 1 + 1), 40);
    assert_eq!(clock.join().encode_authenticated(|_| [0; 8]).len(), 45);
}

/// A crashed replica continues as another actor, and the clock of a key that it writes names both
/// actors from then on.
#[test]
fn actor_renewal_adds_at_most_ten_bytes_to_clock() {
    const FALLS: u64 = 50;
    let mut dice = Dice(11);
    let node = NodeId(dice.roll());
    let (mut minter, _) = Minter::start(node, 41, StartState::FIRST, 0);
    let mut clock: Clock<Actor, u64> = Clock::empty();
    let mut sizes = Vec::new();
    for value in 0..=FALLS {
        for _ in 0..1 + dice.below(200) {
            let context = clock.join();
            clock = minter.write(clock, &context, value, 0).clock;
        }
        sizes.push(bytes(&clock).len());
        minter.renew(dice.roll());
    }
    let (first, last) = (sizes[0], sizes[FALLS as usize]);
    assert_eq!(clock.ids().len() as u64, FALLS + 1, "no fall is forgotten");
    assert!(last - first <= 10 * FALLS as usize, "{first} bytes, and {last} after {FALLS} falls");
}

#[test]
fn clock_encoding_matches_golden_bytes() {
    let mut clock: Clock<Actor, u64> =
        Clock::empty().update(&DotContext::empty(), 5, actor(9, 3, 1));
    clock = clock.update(&DotContext::from_counts([(actor(9, 3, 1), 1)]), 6, actor(9, 3, 300));
    clock = clock.update(&DotContext::empty().with_dot(actor(10, 4, 1), 70), 7, actor(10, 4, 1));
    let expected = "01 06 \
                05 0900000000000000 03 02 00 00 \
                b209 02 00 01 00 08 0600000000000000 \
                05 0a00000000000000 04 8e01 01 01 00 08 0700000000000000";
    let expected: Vec<&str> = expected.split_whitespace().collect();
    let hex: String = bytes(&clock).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, expected.concat());
    let hex: String = clock.join().encode(1).iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(hex.starts_with("010305090000000000000003020"), "{hex}");
}

#[test]
fn malformed_clock_bytes_are_rejected() {
    let good = bytes(&typical_clock());
    for (at, byte) in [(0, 0), (0, 2), (1, 4), (1, 7), (1, 255)] {
        let mut wrong = good.clone();
        wrong[at] = byte;
        assert!(decode::<Actor, u64>(&wrong, number).is_err(), "{at} {byte}");
    }
    for cut in 0..good.len() {
        assert!(decode::<Actor, u64>(&good[..cut], number).is_err(), "{cut}");
    }
    let longer = [&good[..], &[0]].concat();
    assert!(decode::<Actor, u64>(&longer, number).is_err());
    // A claim of more entries or values than there are bytes allocates nothing.
    let claim = [1, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    assert!(decode::<Actor, u64>(&claim, number).is_err());
    let values = [1, 2, 6, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(decode::<Actor, u64>(&values, number).is_err());
}

#[test]
fn actor_encoding_is_canonical() {
    let previous = actor(5, 3, 1);
    let read = |bytes: &[u8]| {
        Actor::take(Some(&previous), &mut base::codec::Reader::new(bytes)).map_err(|_| ())
    };
    assert_eq!(read(&[4 | 2]), Ok(actor(5, 3, 1)));
    assert_eq!(read(&[4, 6, 0, 0, 0, 0, 0, 0, 0]), Ok(actor(6, 3, 1)));
    assert_eq!(read(&[4, 5, 0, 0, 0, 0, 0, 0, 0]), Err(()), "the same node told again");
    assert_eq!(read(&[4 | 2 | 1, 3]), Err(()), "the same vnode told again");
    assert_eq!(read(&[4 | 2 | 1, 4]), Ok(actor(5, 4, 1)));
    assert_eq!(read(&[4 | 2 | 1, 0xff, 0xff, 0xff, 0xff, 0x1f]), Err(()), "no partition");
}

#[test]
fn context_decode_rejects_other_key_corrupt_or_oversized_bytes() {
    let context = typical_clock().join();
    let good = context.encode(17);
    assert_eq!(DotContext::decode(&good, 17), Ok(context));
    assert!(DotContext::<Actor>::decode(&good, 18).is_err(), "another key's");
    for at in 0..good.len() {
        let mut wrong = good.clone();
        wrong[at] ^= 0x10;
        assert!(DotContext::<Actor>::decode(&wrong, 17).is_err(), "{at}");
        assert!(DotContext::<Actor>::decode(&good[..at], 17).is_err(), "{at}");
    }
    let long = vec![1; DotContext::<Actor>::BYTES_MAX + 1];
    assert!(DotContext::<Actor>::decode(&long, 17).is_err());
    assert_eq!(
        DotContext::<Actor>::decode(&DotContext::<Actor>::empty().encode(3), 3),
        Ok(DotContext::empty())
    );
}

#[test]
fn context_with_maximum_counters_round_trips() {
    let id = actor(u64::MAX, u32::MAX, (1 << 62) - 1);
    let context =
        DotContext::empty().with_dot(id, COUNT_MAX).with_dot(id, 1).with_dot(id, COUNT_MAX + 1);
    assert_eq!(DotContext::decode(&context.encode(0), 0).as_ref(), Ok(&context));
    assert!(!context.contains(&id, COUNT_MAX + 1));
}

proptest! {
    /// Decodable bytes encode to themselves: there is no second form.
    #[test]
    fn arbitrary_bytes_decode_to_canonical_clock_or_error(
        random in proptest::collection::vec(any::<u8>(), 0..60),
        flips in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..4),
    ) {
        let mut near = bytes(&typical_clock());
        for (at, byte) in flips {
            let at = usize::from(at) % near.len();
            near[at] = byte;
        }
        for input in [random, near] {
            if let Ok(clock) = decode::<Actor, u64>(&input, number) {
                prop_assert_eq!(bytes(&clock), input);
            }
        }
    }
}
