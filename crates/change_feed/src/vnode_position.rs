//! Positions in the feed of one node: all of its vnodes write into one sequence of batches.
//!
//! A batch that was lost in a crash leaves its number to another one. So a position begins with the
//! *life* of the store, a number that rises with each start and is durable before the first entry
//! of the life: a position names one entry for ever, though the entry itself was lost.

use base::codec::{Malformed, Reader};
use base::varint;

/// Bytes of a position in a key.
pub const POSITION_KEY_BYTES: usize = 16;

/// Place of an entry in the feed of a node. Positions order as the entries were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct VnodePosition {
    /// Life of the store that wrote the entry; the first is 1.
    pub life: u32,
    /// Number of its batch.
    pub batch: u64,
    /// Number among the changes of the batch.
    pub ordinal: u32,
}

impl VnodePosition {
    /// Position before every entry.
    pub const START: VnodePosition = VnodePosition { life: 0, batch: 0, ordinal: 0 };

    /// Returns the position before every entry of a life, and behind those of earlier ones.
    pub fn start_of(life: u32) -> VnodePosition {
        VnodePosition { life, batch: 0, ordinal: 0 }
    }

    /// Returns the position behind all entries of a batch.
    pub fn end_of(life: u32, batch: u64) -> VnodePosition {
        VnodePosition { life, batch, ordinal: u32::MAX }
    }

    /// Returns bytes that order as the positions do.
    pub fn key_bytes(self) -> [u8; POSITION_KEY_BYTES] {
        let mut bytes = [0; POSITION_KEY_BYTES];
        bytes[..4].copy_from_slice(&self.life.to_be_bytes());
        bytes[4..12].copy_from_slice(&self.batch.to_be_bytes());
        bytes[12..].copy_from_slice(&self.ordinal.to_be_bytes());
        bytes
    }

    /// Reads these bytes.
    pub fn from_key_bytes(bytes: &[u8; POSITION_KEY_BYTES]) -> VnodePosition {
        let [l0, l1, l2, l3, b0, b1, b2, b3, b4, b5, b6, b7, o0, o1, o2, o3] = *bytes;
        VnodePosition {
            life: u32::from_be_bytes([l0, l1, l2, l3]),
            batch: u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]),
            ordinal: u32::from_be_bytes([o0, o1, o2, o3]),
        }
    }

    /// Encodes the position in few bytes, which do not order as positions do.
    pub fn put(self, out: &mut Vec<u8>) {
        varint::put(self.life.into(), out);
        varint::put(self.batch, out);
        // The end of a batch is frequent, and its ordinal long.
        varint::put(u64::from(self.ordinal.wrapping_add(1)), out);
    }

    /// Decodes a position.
    pub fn take(from: &mut Reader<'_>) -> Result<VnodePosition, Malformed> {
        const FIELD: &str = "a position";
        let short = |number: u64| u32::try_from(number).map_err(|_| Malformed(FIELD));
        let life = short(varint::take(from, FIELD)?)?;
        let batch = varint::take(from, FIELD)?;
        let ordinal = short(varint::take(from, FIELD)?)?.wrapping_sub(1);
        Ok(VnodePosition { life, batch, ordinal })
    }
}
