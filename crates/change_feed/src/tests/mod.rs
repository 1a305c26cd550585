//! Laws of places in the feeds of available buckets, and a model of two nodes and a reader.

mod vnode_bridges;
mod vnode_failover;
mod vnode_places;
mod vnode_reader;
mod vnode_slots;
mod vnode_sources;

use crate::{CatchUp, FeedPart, PartPlace, SlotSet, VnodePosition};
use base::NodeId;
use proptest::prelude::*;

/// Returns the position of the first change of a batch in life 1.
fn at(batch: u64) -> VnodePosition {
    VnodePosition { life: 1, batch, ordinal: 0 }
}

fn slots(of: impl IntoIterator<Item = u32>) -> SlotSet {
    of.into_iter().collect()
}

fn random_slots() -> impl Strategy<Value = SlotSet> {
    let some = || proptest::collection::vec((0..1_024_u32, 1..200_u32), 0..6);
    let runs = some().prop_map(|runs| {
        slots(runs.into_iter().flat_map(|(start, length)| start..(start + length).min(1_024)))
    });
    let single = proptest::collection::vec(0..1_024_u32, 0..8).prop_map(slots);
    prop_oneof![4 => runs, 4 => single, 1 => Just(SlotSet::all())]
}

fn random_position() -> impl Strategy<Value = VnodePosition> {
    let ordinal = prop_oneof![0..4_u32, Just(u32::MAX), any::<u32>()];
    let batch = prop_oneof![0..1_000_u64, any::<u64>()];
    (0..4_u32, batch, ordinal).prop_map(|(life, batch, ordinal)| VnodePosition {
        life,
        batch,
        ordinal,
    })
}

fn random_place() -> impl Strategy<Value = PartPlace> {
    let catch_up = (random_position(), any::<bool>(), any::<bool>())
        .prop_map(|(through, is_scan, is_again)| CatchUp { through, is_scan, is_again });
    let catch_up = prop_oneof![Just(CatchUp::default()), catch_up];
    (random_position(), random_position(), catch_up).prop_map(|(one, other, catch_up)| PartPlace {
        position: one.max(other),
        covered: one.min(other),
        catch_up,
    })
}

/// Random parts of one to five nodes, of which no two have a slot in common.
fn random_parts() -> impl Strategy<Value = Vec<FeedPart>> {
    let part = (1..6_u64, random_place(), random_slots());
    proptest::collection::vec(part, 0..12).prop_map(|parts| {
        let mut taken = SlotSet::default();
        let mut part = |(node, place, slots): (u64, PartPlace, SlotSet)| {
            let slots = slots.difference(&taken);
            taken = taken.union(&slots);
            FeedPart { node: NodeId(node), place, slots }
        };
        parts.into_iter().map(&mut part).collect()
    })
}
