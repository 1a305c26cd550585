//! Numbers in as few bytes as they need: seven bits each, the lowest first (LEB128).
//!
//! Every number has exactly one form: a last byte that adds nothing is [`Malformed`], so equal
//! values have equal bytes.

use crate::codec::{Malformed, Reader};

/// Most bytes of a number.
pub const VARINT_BYTES_MAX: usize = 10;

/// Appends a number.
#[inline]
pub fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the number of bytes that [`put`] appends.
#[inline]
pub fn bytes(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// Reads a number.
#[inline]
pub fn take(from: &mut Reader<'_>, field: &'static str) -> Result<u64, Malformed> {
    let mut value = 0_u64;
    for at in 0..VARINT_BYTES_MAX {
        let byte = from.u8(field)?;
        let bits = u64::from(byte & 0x7f);
        if at == VARINT_BYTES_MAX - 1 && bits > 1 {
            return Err(Malformed(field));
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            return if byte == 0 && at > 0 { Err(Malformed(field)) } else { Ok(value) };
        }
    }
    Err(Malformed(field))
}

/// Reads the number of items that follow, each of at least `bytes_min` bytes. Refuses more than the
/// rest could hold, so memory may be allocated for them.
pub fn take_count(
    from: &mut Reader<'_>,
    bytes_min: usize,
    field: &'static str,
) -> Result<usize, Malformed> {
    let count = take(from, field)?;
    let count_max = from.rest().len() / bytes_min.max(1);
    match usize::try_from(count) {
        Ok(count) if count <= count_max => Ok(count),
        _ => Err(Malformed(field)),
    }
}

/// Appends a string: its length, then its bytes.
pub fn put_string(value: &[u8], out: &mut Vec<u8>) {
    put(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Reads a string of at most `max` bytes.
pub fn take_string<'a>(
    from: &mut Reader<'a>,
    max: usize,
    field: &'static str,
) -> Result<&'a [u8], Malformed> {
    let length = take_count(from, 1, field)?;
    if length > max {
        return Err(Malformed(field));
    }
    from.take(length, field)
}

/// Maps a signed number so that small ones of either sign are short: 0, -1, 1, -2, 2, ...
#[inline]
pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// Reverses [`zigzag`].
#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_round_trips_and_truncated_input_is_malformed() {
        let mut numbers: Vec<u64> = (0..64).flat_map(|bit| [1 << bit, (1 << bit) - 1]).collect();
        numbers.push(u64::MAX);
        for number in numbers {
            let mut out = Vec::new();
            put(number, &mut out);
            assert_eq!(out.len(), bytes(number), "{number}");
            let mut from = Reader::new(&out);
            assert_eq!(take(&mut from, "n"), Ok(number));
            assert!(from.is_empty());
            for cut in 0..out.len() {
                assert_eq!(take(&mut Reader::new(&out[..cut]), "n"), Err(Malformed("n")));
            }
        }
    }

    #[test]
    fn overlong_or_overflowing_varint_is_malformed() {
        let endless = [0xff; 11];
        let mut overflowing = [0xff; 10];
        overflowing[9] = 0x02;
        for bytes in [&[0x80, 0x00][..], &[0xff, 0x80, 0x00], &endless, &overflowing] {
            assert_eq!(take(&mut Reader::new(bytes), "n"), Err(Malformed("n")), "{bytes:?}");
        }
    }

    #[test]
    fn count_beyond_remaining_bytes_is_malformed() {
        let bytes = [3, 1, 1, 1, 1, 1];
        assert_eq!(take_count(&mut Reader::new(&bytes), 1, "n"), Ok(3));
        assert_eq!(take_count(&mut Reader::new(&bytes), 2, "n"), Err(Malformed("n")));
        assert_eq!(take_string(&mut Reader::new(&bytes), 3, "n"), Ok(&bytes[1..4]));
        assert_eq!(take_string(&mut Reader::new(&bytes), 2, "n"), Err(Malformed("n")));
    }

    #[test]
    fn zigzag_maps_small_signed_numbers_to_small_codes() {
        for (number, coded) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (i64::MAX, u64::MAX - 1)] {
            assert_eq!((zigzag(number), unzigzag(coded)), (coded, number));
        }
        assert_eq!(unzigzag(zigzag(i64::MIN)), i64::MIN);
    }
}
