//! Codec of the ring: values read back, in one form only, and no bytes cause a panic.

use super::{RingChangeRequest, join, rack, ring_of};
use crate::ring::{Ring, plan};
use base::NodeId;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn samples() -> Vec<Ring> {
    let four = ring_of(4, 16, 3);
    let joins = [join(5), RingChangeRequest::Rack { node: NodeId(2), rack: rack("r1") }];
    let plan = plan(&four, &joins, 3, &BTreeSet::new()).expect("safe");
    let moving = four.commit(&plan).expect("made for this ring");
    let first = moving.pending_copies(3)[0].partition;
    let further = moving.arrive(first, &[3]).expect("on its way");
    let since = moving.pending().expect("it moves").start_epoch();
    let first = moving.pending_copies(2)[0].partition;
    let next = moving.receive(since, (first, NodeId(5)), &[2, 3]).expect("it was awaited");
    // Two nodes are to receive this one, and one of them has.
    let six = super::ring_of(6, 16, 2);
    let changes = [
        RingChangeRequest::Leave { node: NodeId(1) },
        RingChangeRequest::Leave { node: NodeId(2) },
    ];
    let leaving = six.commit(&super::plan(&six, &changes, 2, &BTreeSet::new()).expect("safe"));
    let leaving = leaving.expect("made for this ring");
    let since = leaving.pending().expect("it moves").start_epoch();
    let both = |one: &&crate::ring::PendingCopy| leaving.receivers(one.partition, 2).len() == 2;
    let one = leaving.pending_copies(2).iter().find(both).cloned().expect("neighbours go");
    let half = leaving.receive(since, (one.partition, one.to), &[2]).expect("awaited");
    vec![ring_of(1, 8, 1), four, moving, further, next, half]
}

#[test]
fn ring_round_trips_and_wrong_length_is_rejected() {
    for ring in samples() {
        let bytes = ring.encode();
        assert_eq!(Ring::decode(&bytes).as_ref(), Ok(&ring));
        for end in 0..bytes.len() {
            assert!(Ring::decode(&bytes[..end]).is_err(), "cut at {end}");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert!(Ring::decode(&longer).is_err(), "something behind the end");
    }
}

#[test]
fn ring_encoding_matches_golden_bytes() {
    let ring = Ring::initial(NodeId(7), rack("r"), 8, 3);
    let mut expected = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 3, 3, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    expected.extend([1, 0, 0, 0, b'r']);
    expected.extend([0; 17]);
    assert_eq!(ring.encode(), expected);
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) }
}

proptest! {
    #![proptest_config(cases())]

    /// Corrupt bytes are refused, or they are the one form of another ring.
    #[test]
    fn corrupt_ring_bytes_are_rejected_or_reencode_identically(
        sample in 0..6_usize,
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = samples()[sample].encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(ring) = Ring::decode(&bytes) {
            prop_assert_eq!(ring.encode(), bytes);
        }
    }
}
