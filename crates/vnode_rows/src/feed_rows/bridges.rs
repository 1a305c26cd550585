//! Rows of bridges (`change_feed/vnode_bridges.rs`): each is a row of its own, so that a comparison
//! writes one of them, and not the list.

use super::in_force::read_feed_record;
use super::joined::read_joined;
use super::keys::{BRIDGES, end_of};
use super::slot_positions::SlotPositions;
use crate::batch::KeyChanges;
use crate::layout::{NodeSpace, node_space_prefix};
use crate::slots::SlotSpan;
use base::codec::Malformed;
use base::error::corrupt;
use base::{BucketName, NodeId, Result};
use bytes::Bytes;
use change_feed::{Bridge, BridgeList, POSITION_KEY_BYTES, SlotSet, VnodePosition, behind_bridges};
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::Snapshot;

/// Rows that a comparison compared: those of buckets with this number of copies in these slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComparedSlots {
    /// First slot.
    pub first: u16,
    /// Number of slots.
    pub slots: u16,
    /// Number of copies.
    pub copies: u8,
}

/// Place of a bridge: the peer, and what was compared with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BridgePlace {
    /// The other node.
    pub peer: NodeId,
    /// Rows that were compared.
    pub compared: ComparedSlots,
}

impl ComparedSlots {
    /// Returns the rows of a partition, of buckets with this number of copies.
    pub fn new(span: SlotSpan, copies: u8) -> ComparedSlots {
        let slots = span.slots();
        let (first, count) = (slots.start as u16, (slots.end - slots.start) as u16);
        ComparedSlots { first, slots: count, copies }
    }

    fn set(self) -> SlotSet {
        let first = u32::from(self.first);
        (first..first + u32::from(self.slots)).collect()
    }
}

fn peer_prefix(peer: NodeId) -> Vec<u8> {
    let mut prefix = node_space_prefix(NodeSpace::Feed, BRIDGES);
    prefix.extend_from_slice(&peer.0.to_be_bytes());
    prefix
}

impl BridgePlace {
    fn prefix(self) -> Vec<u8> {
        let mut prefix = peer_prefix(self.peer);
        prefix.extend_from_slice(&self.compared.first.to_be_bytes());
        prefix.extend_from_slice(&self.compared.slots.to_be_bytes());
        prefix.push(self.compared.copies);
        prefix
    }

    /// Returns the tree key of a bridge.
    fn key(self, bridge: Bridge) -> Bytes {
        let mut key = self.prefix();
        key.extend_from_slice(&bridge.peer.key_bytes());
        key.into()
    }
}

/// Decodes a bridge, and what was compared.
fn read_row(
    tree_key: &[u8],
    value: &[u8],
) -> std::result::Result<(ComparedSlots, Bridge), Malformed> {
    const BRIDGE: Malformed = Malformed("a bridge of a feed");
    let rest = tree_key.strip_prefix(&node_space_prefix(NodeSpace::Feed, BRIDGES)[..]);
    let (_, rest) = rest.and_then(<[u8]>::split_first_chunk::<8>).ok_or(BRIDGE)?;
    let (first, rest) = rest.split_first_chunk().ok_or(BRIDGE)?;
    let (slots, rest) = rest.split_first_chunk().ok_or(BRIDGE)?;
    let (copies, peer) = rest.split_first().ok_or(BRIDGE)?;
    let position = |bytes: &[u8]| {
        let bytes: Option<&[u8; POSITION_KEY_BYTES]> = bytes.try_into().ok();
        bytes.map(VnodePosition::from_key_bytes).ok_or(BRIDGE)
    };
    let (first, slots) = (u16::from_be_bytes(*first), u16::from_be_bytes(*slots));
    let bridge = Bridge { peer: position(peer)?, own: position(value)? };
    Ok((ComparedSlots { first, slots, copies: *copies }, bridge))
}

fn read_lists(
    snapshot: &dyn Snapshot,
    prefix: Vec<u8>,
) -> Result<BTreeMap<ComparedSlots, BridgeList>> {
    let mut bridges: BTreeMap<ComparedSlots, Vec<Bridge>> = BTreeMap::new();
    let high = end_of(&prefix);
    for found in snapshot.range(Bound::Included(prefix.into()), high, false) {
        let (tree_key, value) = found.map_err(store_error)?;
        let (compared, bridge) = read_row(&tree_key, &value).map_err(corrupt)?;
        bridges.entry(compared).or_default().push(bridge);
    }
    let list = |(compared, bridges)| (compared, BridgeList::new(bridges));
    Ok(bridges.into_iter().map(list).collect())
}

/// Returns the last bridge of a place as of a snapshot.
pub fn last_bridge(snapshot: &dyn Snapshot, place: BridgePlace) -> Result<Option<Bridge>> {
    let lists = read_lists(snapshot, place.prefix())?;
    Ok(lists.get(&place.compared).and_then(BridgeList::last))
}

/// Returns the changes that add a bridge, and remove those that it makes superfluous.
pub fn bridge_changes(
    snapshot: &dyn Snapshot,
    place: BridgePlace,
    bridge: Bridge,
) -> Result<KeyChanges> {
    let mut lists = read_lists(snapshot, place.prefix())?;
    let change = lists.entry(place.compared).or_default().push(bridge);
    // A bridge between others may be the one that is thinned out at once.
    let is_kept = change.is_added && !change.removed.contains(&bridge);
    let removed = change.removed.into_iter().filter(|it| *it != bridge);
    let mut changes: KeyChanges = removed.map(|it| (place.key(it), None)).collect();
    if is_kept {
        let own = Bytes::copy_from_slice(&bridge.own.key_bytes());
        changes.push((place.key(bridge), Some(own)));
    }
    Ok(changes)
}

/// Returns where a reader of a bucket goes on here that knows all that a peer had at a position, as
/// [`behind_bridges`]. `copies`: the bucket's present number of copies. None, if the record of its
/// feed has another.
pub fn bridges_behind(
    snapshot: &dyn Snapshot,
    (bucket, copies): (&BucketName, u8),
    (peer, position): (NodeId, VnodePosition),
    slots: &SlotSet,
) -> Result<SlotPositions> {
    let record = read_feed_record(snapshot, bucket)?.filter(|record| record.copies == copies);
    let Some(since) = record.map(|record| record.copies_since) else { return Ok(Vec::new()) };
    let lists = read_lists(snapshot, peer_prefix(peer))?;
    let of_bucket = lists.iter().filter(|(compared, _)| compared.copies == copies);
    let of_bucket = of_bucket.map(|(compared, list)| (compared.set(), list));
    let mut bridges = behind_bridges(of_bucket, position, slots, since);
    let joined = read_joined(snapshot)?;
    for (own, slots) in &mut bridges {
        for (_, came) in joined.iter().filter(|(at, _)| at > own) {
            *slots = slots.difference(came);
        }
    }
    bridges.retain(|(_, slots)| !slots.is_empty());
    Ok(bridges)
}
