//! Packed values: values that fill a block and compress well are compressed before they reach the
//! LSM library.
//!
//! While it merges, the library keeps the last key of each written block until the table is
//! complete, and with a key that is alone in its block the uncompressed block that it was read
//! from. A table is complete at a number of *compressed* bytes, into which gigabytes of zeros fit.
//! Values that fill a block are therefore compressed here first, repeatedly while that halves them:
//! a merge then keeps at most about twice the bytes that it writes.
//!
//! Packing belongs to feature level 2. In a directory of a lower level values are written and read
//! as they are, so that programs of that level read them, too.
//!
//! Bytes: [`MAGIC`], the number of compressions (0: the value only begins with `MAGIC` itself), and
//! the LZ4 block with its uncompressed length in four bytes, little-endian, before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use lz4_flex::block::{DecompressError, compress_prepend_size, decompress_size_prepended};

/// Minimum size of a packed value. Smaller ones share a block, whose last key is a copy: the
/// library ends a block at this size.
const PACKED_BYTES_MIN: usize = 4_096;
const MAGIC: [u8; 8] = [0xc3, 0x5e, 0x91, 0x0d, 0xb7, 0x2a, 0x68, 0xf4];
/// Maximum number of compressions; each makes a value at most 255 times smaller.
const PASSES_MAX: u8 = 3;
const LZ4_RATIO_MAX: usize = 255;

/// Switch of the packing of values, shared by all that write and read tables.
#[derive(Clone, Debug)]
pub(super) struct Packing(Arc<AtomicBool>);

impl Packing {
    pub fn new(is_allowed: bool) -> Packing {
        Packing(Arc::new(AtomicBool::new(is_allowed)))
    }

    /// Packs values from now on. A reader that finds a packed value sees this, too: it got the
    /// table from a writer that saw it.
    pub fn allow(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns the value as it is stored on disk.
    pub fn pack(&self, value: Bytes) -> Bytes {
        if self.0.load(Ordering::Acquire) { pack(value) } else { value }
    }

    /// Returns the original value, or an error if the bytes are invalid.
    pub fn unpack(&self, value: Bytes) -> Result<Bytes, DecompressError> {
        if self.0.load(Ordering::Acquire) { unpack(value) } else { Ok(value) }
    }
}

fn pack(value: Bytes) -> Bytes {
    let (mut packed, mut passes) = (None, 0);
    while passes < PASSES_MAX {
        let plain: &[u8] = packed.as_deref().unwrap_or(&value);
        if plain.len() < PACKED_BYTES_MIN || u32::try_from(plain.len()).is_err() {
            break;
        }
        let compressed = compress_prepend_size(plain);
        if compressed.len() > plain.len() / 2 {
            break;
        }
        (packed, passes) = (Some(compressed), passes + 1);
    }
    match packed {
        None if !value.starts_with(&MAGIC) => value,
        packed => {
            let packed = packed.as_deref().unwrap_or(&value);
            [&MAGIC, [passes].as_slice(), packed].concat().into()
        }
    }
}

pub(super) fn unpack(value: Bytes) -> Result<Bytes, DecompressError> {
    let Some(packed) = value.strip_prefix(&MAGIC) else { return Ok(value) };
    let Some((passes, packed)) = packed.split_first().filter(|(passes, _)| **passes <= PASSES_MAX)
    else {
        return Err(DecompressError::ExpectedAnotherByte);
    };
    let mut plain = value.slice_ref(packed);
    for _ in 0..*passes {
        let length = plain.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        // No allocation is larger than the bytes can decompress to.
        if length.is_none_or(|length| length / LZ4_RATIO_MAX > plain.len()) {
            return Err(DecompressError::ExpectedAnotherByte);
        }
        plain = decompress_size_prepended(&plain)?.into();
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    fn noise(length: usize) -> Vec<u8> {
        let mut noise = vec![0; length];
        StdRng::seed_from_u64(length as u64).fill(&mut noise[..]);
        noise
    }

    fn packed_length(value: &Bytes) -> usize {
        let packed = pack(value.clone());
        assert_eq!(unpack(packed.clone()).unwrap(), value);
        packed.len()
    }

    #[test]
    fn compressible_values_are_packed_and_every_value_round_trips() {
        assert!(packed_length(&vec![0; 64 << 20].into()) < PACKED_BYTES_MIN);
        for length in [0, 1, 4_095, 4_096, 1 << 20] {
            assert_eq!(packed_length(&noise(length).into()), length);
        }
        assert_eq!(packed_length(&vec![7; PACKED_BYTES_MIN - 1].into()), PACKED_BYTES_MIN - 1);
        let repeated_thrice: Bytes = noise(100_000).repeat(3).into();
        assert_eq!(packed_length(&repeated_thrice), 300_000, "too far apart for LZ4 to see");
        let repeated: Bytes = noise(1_000).repeat(300).into();
        let length = packed_length(&repeated);
        assert!(length < 10_000, "{length}");
        let with_magic: Bytes = [&MAGIC, &noise(10)[..]].concat().into();
        assert_eq!(packed_length(&with_magic), 2 * MAGIC.len() + 1 + 10);
        // Packed twice, as a client may store a packed value.
        packed_length(&pack(repeated));
        packed_length(&pack(with_magic));
    }

    #[test]
    fn value_is_neither_packed_nor_unpacked_until_packing_is_allowed() {
        let packing = Packing::new(false);
        let zeros: Bytes = vec![0; 1 << 20].into();
        let looks_packed: Bytes = [&MAGIC[..], b"no block"].concat().into();
        for value in [&zeros, &looks_packed] {
            assert_eq!(packing.pack(value.clone()), *value);
            assert_eq!(packing.unpack(value.clone()).unwrap(), *value);
        }
        packing.clone().allow();
        let packed = packing.pack(zeros.clone());
        assert!(packed.len() < PACKED_BYTES_MIN);
        assert_eq!(packing.unpack(packed).unwrap(), zeros);
        assert_eq!(packing.unpack(packing.pack(looks_packed.clone())).unwrap(), looks_packed);
    }

    /// Golden bytes of the first version that packs values. Another encoder may produce other
    /// bytes.
    #[test]
    fn packed_value_of_golden_bytes_is_decoded() {
        let (head, ones) = ([1, 0x88, 0x13, 0, 0, 0x1f, b'v', 1, 0], [0xff; 19]);
        let golden = [&MAGIC[..], &head, &ones, &[0x81, 0x60], b"vvvvvv"].concat();
        assert_eq!(unpack(golden.into()).unwrap(), vec![b'v'; 5_000]);
        let plain = [&[0xc3, 0x5e, 0x91, 0x0d, 0xb7, 0x2a, 0x68, 0xf4, 0], &MAGIC[..]].concat();
        assert_eq!(unpack(plain.into()).unwrap(), MAGIC[..]);
    }

    proptest! {
        #[test]
        fn damaged_packed_value_never_panics_or_exceeds_the_size_bound(
            at in 8..60_usize, byte: u8, length in 0..40_usize,
        ) {
            let mut packed = pack(vec![b'v'; 5_000].into()).to_vec();
            let at = at.min(packed.len() - 1);
            packed[at] = byte;
            packed.truncate(packed.len() - length.min(packed.len() - 8));
            if let Ok(value) = unpack(packed.into()) {
                prop_assert!(value.len() <= 256 * LZ4_RATIO_MAX);
            }
        }
    }
}
