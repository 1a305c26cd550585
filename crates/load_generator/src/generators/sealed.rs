//! Sealed values, which name their key: checksum, key length, key, body.
//!
//! With `verify = true` every value is written so, and a `get` that returns another key's value, or
//! a torn one, is the error `wrong_value`.

use base::codec::{Reader, Writer, checksum};

/// Bytes that a seal adds to key and body.
pub const SEAL_BYTES: usize = 12;

/// Appends the sealed value: `body` is cut so that the sealed value has `bytes` bytes, or the
/// seal's length if that is greater.
pub fn seal(key: &[u8], body: &[u8], bytes: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.put_u64(0);
    out.put_string(key);
    let body_bytes = bytes.saturating_sub(SEAL_BYTES + key.len());
    out.extend_from_slice(&body[..body_bytes.min(body.len())]);
    let sealed_checksum = checksum(&out[start + 8..], 0);
    out[start..start + 8].copy_from_slice(&sealed_checksum.to_le_bytes());
}

/// Returns true if this value was sealed for this key and is complete.
pub fn is_sealed_for(key: &[u8], value: &[u8]) -> bool {
    let mut reader = Reader::new(value);
    let Ok(expected) = reader.u64("checksum") else { return false };
    let is_intact = checksum(reader.rest(), 0) == expected;
    is_intact && reader.string(key.len(), "key") == Ok(key)
}
