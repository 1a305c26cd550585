//! Values that fill a block and compress well, compressed before the crate below is given them.
//!
//! While it merges, the crate keeps the last key of each block it has written until the table is
//! whole, and with a key that stands alone in its block the block it was read from, uncompressed.
//! A table is whole at so many *compressed* bytes, and gigabytes of zeros fit into those. So such a
//! value goes to disk compressed already, again and again while that halves it: what a merge keeps
//! is then at most about twice what it writes.
//!
//! Bytes: [`MAGIC`], how often it was compressed (0: it only begins like one that is), and the LZ4
//! block, before which its uncompressed length stands in four bytes, little-endian.

use bytes::Bytes;
use lz4_flex::block::{DecompressError, compress_prepend_size, decompress_size_prepended};

/// Minimum size of a packed value. Smaller ones share their block, and its last key is a copy: the
/// library's blocks are cut at so many bytes.
const PACKED_BYTES_MIN: usize = 4_096;
const MAGIC: [u8; 8] = [0xc3, 0x5e, 0x91, 0x0d, 0xb7, 0x2a, 0x68, 0xf4];
/// Each time makes a value 255 times smaller at most.
const TIMES_MAX: u8 = 3;
const LZ4_RATIO_MAX: usize = 255;

/// The value as it goes to disk.
pub(super) fn pack(value: Bytes) -> Bytes {
    let (mut packed, mut times) = (None, 0);
    while times < TIMES_MAX {
        let plain: &[u8] = packed.as_deref().unwrap_or(&value);
        if plain.len() < PACKED_BYTES_MIN || u32::try_from(plain.len()).is_err() {
            break;
        }
        let again = compress_prepend_size(plain);
        if again.len() > plain.len() / 2 {
            break;
        }
        (packed, times) = (Some(again), times + 1);
    }
    match packed {
        None if !value.starts_with(&MAGIC) => value,
        packed => {
            let packed = packed.as_deref().unwrap_or(&value);
            [&MAGIC, [times].as_slice(), packed].concat().into()
        }
    }
}

/// The value as it was given; an error if its bytes have no sense.
pub(super) fn unpack(value: Bytes) -> Result<Bytes, DecompressError> {
    let Some(packed) = value.strip_prefix(&MAGIC) else { return Ok(value) };
    let Some((times, packed)) = packed.split_first().filter(|(times, _)| **times <= TIMES_MAX)
    else {
        return Err(DecompressError::ExpectedAnotherByte);
    };
    let mut plain = value.slice_ref(packed);
    for _ in 0..*times {
        let length = plain.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        // Nothing is allocated that can't be filled.
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

    fn is_kept(value: &Bytes) -> usize {
        let packed = pack(value.clone());
        assert_eq!(unpack(packed.clone()).unwrap(), value);
        packed.len()
    }

    #[test]
    fn what_compresses_well_is_packed_until_it_does_not_and_all_comes_back() {
        assert!(is_kept(&vec![0; 64 << 20].into()) < PACKED_BYTES_MIN);
        for length in [0, 1, 4_095, 4_096, 1 << 20] {
            assert_eq!(is_kept(&noise(length).into()), length);
        }
        assert_eq!(is_kept(&vec![7; PACKED_BYTES_MIN - 1].into()), PACKED_BYTES_MIN - 1);
        let thrice: Bytes = noise(100_000).repeat(3).into();
        assert_eq!(is_kept(&thrice), 300_000, "too far apart for LZ4 to see");
        let near: Bytes = noise(1_000).repeat(300).into();
        let length = is_kept(&near);
        assert!(length < 10_000, "{length}");
        let begins: Bytes = [&MAGIC, &noise(10)[..]].concat().into();
        assert_eq!(is_kept(&begins), 2 * MAGIC.len() + 1 + 10);
        // Packed once more, as a value that a client reads from a file of ours.
        is_kept(&pack(near));
        is_kept(&pack(begins));
    }

    /// Written by the first version that packs values. Another encoder may choose other bytes.
    #[test]
    fn a_packed_value_is_read_as_it_always_was() {
        let (head, ones) = ([1, 0x88, 0x13, 0, 0, 0x1f, b'v', 1, 0], [0xff; 19]);
        let kept = [&MAGIC[..], &head, &ones, &[0x81, 0x60], b"vvvvvv"].concat();
        assert_eq!(unpack(kept.into()).unwrap(), vec![b'v'; 5_000]);
        let plain = [&[0xc3, 0x5e, 0x91, 0x0d, 0xb7, 0x2a, 0x68, 0xf4, 0], &MAGIC[..]].concat();
        assert_eq!(unpack(plain.into()).unwrap(), MAGIC[..]);
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_an_error_or_some_value_and_never_a_panic(
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
