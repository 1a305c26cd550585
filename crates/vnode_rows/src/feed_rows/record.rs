//! Record of a feed on a node: whether changes have entries, and what was removed.
//!
//! ```text
//! record = form u8 (1) | phase u8 | copies u8 | copies since | floor | rows u64 LE
//!          | cursor, u32 length
//! ```
//! Positions are as in keys. A record stays when its feed was turned off: a feed that begins again
//! lacks the deletes of the meantime.

use crate::layout::slot_of;
use crate::slots::SLOTS;
use base::codec::{Malformed, Reader, Writer};
use bytes::Bytes;
use change_feed::VnodePosition;

const FORM: u8 = 1;
/// Longest cursor: as long as the store's longest key.
const CURSOR_BYTES_MAX: usize = u16::MAX as usize;

/// Phase of a feed on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VnodeFeedPhase {
    /// Changes of rows have entries; those of earlier rows are being added.
    Building = 1,
    /// Ready: every row has its entry.
    Ready = 2,
    /// Dropping: changes have no entries, and those that are there are being removed.
    Dropping = 3,
    /// Off: there is no entry.
    Off = 4,
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VnodeFeedRecord {
    /// Phase of the feed.
    pub phase: VnodeFeedPhase,
    /// Number of copies of the bucket's keys, which says which comparisons have them.
    pub copies: u8,
    /// Position since which the bucket has this number of copies: bridges that began before may
    /// not have compared its keys.
    pub copies_since: VnodePosition,
    /// Position of the last removed entry that was the last trace of its key here. A reader that
    /// has not come to it may not know that the key is gone.
    pub floor: VnodePosition,
    /// Number of rows that the build has read.
    pub rows: u64,
    /// Tree key through which the build has read, a row's. Empty: none yet.
    pub cursor: Bytes,
}

impl VnodeFeedRecord {
    /// Returns true if changes of rows have entries.
    pub fn is_in_force(&self) -> bool {
        matches!(self.phase, VnodeFeedPhase::Building | VnodeFeedPhase::Ready)
    }

    /// Returns the number of slots whose rows the build has read, of [`SLOTS`].
    pub fn slots_done(&self) -> u32 {
        match self.phase {
            VnodeFeedPhase::Building => slot_of(&self.cursor).map_or(0, |slot| slot.0),
            _ => SLOTS,
        }
    }

    /// Encodes the record.
    pub fn write(&self) -> Bytes {
        let mut out = vec![FORM, self.phase as u8, self.copies];
        out.extend_from_slice(&self.copies_since.key_bytes());
        out.extend_from_slice(&self.floor.key_bytes());
        out.put_u64(self.rows);
        out.put_string(&self.cursor);
        out.into()
    }

    /// Decodes a record that fills these bytes.
    pub fn read(bytes: &Bytes) -> Result<VnodeFeedRecord, Malformed> {
        let mut from = Reader::new(bytes);
        if from.u8("the form of a feed's record")? != FORM {
            return Err(Malformed("the form of a feed's record"));
        }
        let phase = match from.u8("the phase of a feed")? {
            1 => VnodeFeedPhase::Building,
            2 => VnodeFeedPhase::Ready,
            3 => VnodeFeedPhase::Dropping,
            4 => VnodeFeedPhase::Off,
            _ => return Err(Malformed("the phase of a feed")),
        };
        let copies = from.u8("the copies of a feed")?;
        let (copies_since, floor) = (take_position(&mut from)?, take_position(&mut from)?);
        let rows = from.u64("the rows of a feed")?;
        let cursor = bytes.slice_ref(from.string(CURSOR_BYTES_MAX, "the cursor of a feed")?);
        from.end("the end of a feed's record")?;
        Ok(VnodeFeedRecord { phase, copies, copies_since, floor, rows, cursor })
    }
}

fn take_position(from: &mut Reader<'_>) -> Result<VnodePosition, Malformed> {
    const POSITION: &str = "a position of a feed's record";
    let bytes = from.take(change_feed::POSITION_KEY_BYTES, POSITION)?;
    Ok(VnodePosition::from_key_bytes(bytes.try_into().map_err(|_| Malformed(POSITION))?))
}
