//! Frames: the parts of the stream on disk. Each lies within one block and has a checksum of its
//! own.

use crate::mutants::StoreMutant;
use base::codec::checksum;

/// Size of a block. No frame crosses a multiple of it.
pub(super) const BLOCK_BYTES: u64 = 32 * 1024;
/// A frame begins only where at least this many bytes are left in its block; fewer are filled with
/// zeros.
pub(super) const FRAME_BYTES_MIN: u64 = 40;
/// Size of a frame's header: checksum, generation, length, shape and kind.
pub(super) const FRAME_HEADER_BYTES: usize = 16;
/// Alignment of the beginning and the end of all frames.
pub(super) const ALIGN_BYTES: u64 = 8;

/// Kinds of the log's own frames; those of records are in `record.rs`.
pub(super) const COMMIT: u8 = 32;
pub(super) const OPENING: u8 = 33;
pub(super) const FOOTER: u8 = 34;

/// Position of a frame in its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameShape {
    Whole = 1,
    First = 2,
    Middle = 3,
    Last = 4,
}

impl FrameShape {
    pub fn from_byte(byte: u8) -> Option<FrameShape> {
        [FrameShape::Whole, FrameShape::First, FrameShape::Middle, FrameShape::Last]
            .into_iter()
            .find(|shape| *shape as u8 == byte)
    }

    /// Returns true if a unit can begin with this frame.
    pub fn begins(self) -> bool {
        matches!(self, FrameShape::Whole | FrameShape::First)
    }
}

/// Returns the seed of a checksum, which makes a frame valid at one position of one log only.
#[inline]
pub(super) fn salt(log: u64, position: u64) -> u64 {
    log ^ position.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A frame that was read and is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub generation: u32,
    pub shape: FrameShape,
    pub kind: u8,
    pub body: &'a [u8],
    /// Length of header, body and padding.
    pub bytes: u64,
}

/// A frame's header, read before its checksum is verified.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim {
    checksum: u64,
    pub generation: u32,
    length: usize,
    shape: FrameShape,
    kind: u8,
    pub bytes: u64,
}

impl Claim {
    /// Reads a header at the beginning of `rest`, the rest of a block. `None`: it can't be one.
    #[inline]
    pub fn read(rest: &[u8]) -> Option<Claim> {
        let (header, body_space) = rest.split_first_chunk::<FRAME_HEADER_BYTES>()?;
        let word = u64::from_le_bytes(header[8..].try_into().expect("eight bytes"));
        let length = usize::from(u16::from_le_bytes([header[12], header[13]]));
        let padded = length.next_multiple_of(ALIGN_BYTES as usize);
        let shape = FrameShape::from_byte(header[14])?;
        let is_possible = length > 0 && padded <= body_space.len() && is_known_kind(header[15]);
        is_possible.then(|| Claim {
            checksum: u64::from_le_bytes(header[..8].try_into().expect("eight bytes")),
            generation: word as u32,
            length,
            shape,
            kind: header[15],
            bytes: (FRAME_HEADER_BYTES + padded) as u64,
        })
    }

    /// Returns the frame if its checksum matches.
    #[inline]
    pub fn verify(self, rest: &[u8], salt: u64) -> Option<Frame<'_>> {
        let is_valid = checksum(&rest[8..self.bytes as usize], salt) == self.checksum;
        if !is_valid && !StoreMutant::AcceptInvalidFrames.is_active() {
            return None;
        }
        let body = &rest[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + self.length];
        let Claim { generation, shape, kind, bytes, .. } = self;
        Some(Frame { generation, shape, kind, body, bytes })
    }
}

fn is_known_kind(kind: u8) -> bool {
    super::RecordKind::from_byte(kind).is_some() || matches!(kind, COMMIT | OPENING | FOOTER)
}

/// Begins a frame at the end of `out` and reserves space for the checksum.
#[inline]
pub(super) fn begin(
    out: &mut Vec<u8>,
    generation: u32,
    length: usize,
    shape: FrameShape,
    kind: u8,
) {
    let length = u16::try_from(length).expect("a frame's body fits its block");
    let [g0, g1, g2, g3] = generation.to_le_bytes();
    let [l0, l1] = length.to_le_bytes();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[g0, g1, g2, g3, l0, l1, shape as u8, kind]);
}

/// Ends the frame that begins at `start` in `out`: adds padding and the checksum.
#[inline]
pub(super) fn end(out: &mut Vec<u8>, start: usize, salt: u64) {
    let bytes = (out.len() - start).next_multiple_of(ALIGN_BYTES as usize);
    out.resize(start + bytes, 0);
    let sum = checksum(&out[start + 8..], salt);
    out[start..start + 8].copy_from_slice(&sum.to_le_bytes());
}

/// Maximum number of bytes that a unit with a body of `length` takes, wherever it begins.
pub(super) fn unit_bytes_max(length: usize) -> u64 {
    let largest = BLOCK_BYTES - FRAME_HEADER_BYTES as u64;
    let pieces = length as u64 / largest + 2;
    FRAME_BYTES_MIN + length as u64 + ALIGN_BYTES + pieces * FRAME_HEADER_BYTES as u64
}
