//! Positions, each with its slots, as rows and messages have them.
//!
//! ```text
//! count u32 | for each: position | slots (change_feed/vnode_slots.rs)
//! ```

use base::codec::{Malformed, Reader, Writer};
use change_feed::{SlotSet, VnodePosition};

/// Slots by positions.
pub type SlotPositions = Vec<(VnodePosition, SlotSet)>;

/// Encodes positions with their slots.
pub fn put_positions(positions: &[(VnodePosition, SlotSet)], out: &mut Vec<u8>) {
    out.put_u32(positions.len() as u32);
    for (position, slots) in positions {
        position.put(out);
        slots.put(out);
    }
}

/// Decodes positions with their slots that fill these bytes.
pub fn read_positions(bytes: &[u8]) -> Result<SlotPositions, Malformed> {
    let mut from = Reader::new(bytes);
    let positions = take_positions(&mut from)?;
    from.end("the end of positions")?;
    Ok(positions)
}

/// Decodes positions with their slots.
pub(super) fn take_positions(from: &mut Reader<'_>) -> Result<SlotPositions, Malformed> {
    let count = from.u32("the number of positions")? as usize;
    if count > from.rest().len() / 4 {
        return Err(Malformed("the number of positions"));
    }
    let mut positions = Vec::with_capacity(count);
    for _ in 0..count {
        positions.push((VnodePosition::take(from)?, SlotSet::take(from)?));
    }
    Ok(positions)
}
