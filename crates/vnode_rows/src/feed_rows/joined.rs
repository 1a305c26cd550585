//! Slots that came to this node when the ring changed, with the positions at which they began to be
//! received.
//!
//! While the node did not own a slot, keys in it may have been deleted and their tombstones reaped:
//! no entry here tells of that. So a token from an earlier time is of no use, nor is a bridge.
//!
//! ```text
//! row = positions with their slots (slot_positions.rs)
//! ```

use super::keys::joined_key;
use super::slot_positions::{SlotPositions, put_positions, read_positions};
use crate::batch::KeyChanges;
use base::Result;
use base::error::corrupt;
use bytes::Bytes;
use change_feed::{SlotSet, VnodePosition};
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use store::Snapshot;

/// Reads the slots that came here, by the positions at which they did, as of a snapshot.
pub fn read_joined(snapshot: &dyn Snapshot) -> Result<SlotPositions> {
    decode(snapshot.get(&joined_key()).map_err(store_error)?.as_ref())
}

fn decode(row: Option<&Bytes>) -> Result<SlotPositions> {
    row.map_or(Ok(Vec::new()), |bytes| read_positions(bytes).map_err(corrupt))
}

/// Returns the tree key of the row that has these slots.
pub fn joined_row_key() -> Bytes {
    joined_key()
}

/// Returns the change that records that slots come here at this position. `row`: the newest row
/// with all of them.
pub fn join_slots(
    row: Option<&Bytes>,
    slots: SlotSet,
    position: VnodePosition,
) -> Result<KeyChanges> {
    let mut joined: BTreeMap<VnodePosition, SlotSet> = BTreeMap::new();
    for (before, others) in decode(row)? {
        let others = others.difference(&slots);
        if !others.is_empty() {
            joined.insert(before, others);
        }
    }
    let at_position = joined.entry(position).or_default();
    *at_position = at_position.union(&slots);
    let mut bytes = Vec::new();
    put_positions(&joined.into_iter().collect::<Vec<_>>(), &mut bytes);
    Ok(vec![(joined_key(), Some(bytes.into()))])
}

/// Returns those of these slots that came here after the position that is read behind.
pub(super) fn joined_behind(
    joined: &[(VnodePosition, SlotSet)],
    position: VnodePosition,
    slots: &SlotSet,
) -> SlotPositions {
    let later = joined.iter().filter(|(at, _)| *at > position);
    let asked = later.map(|(at, came)| (*at, came.intersection(slots)));
    asked.filter(|(_, slots)| !slots.is_empty()).collect()
}
