//! Sealed values, which name their key: checksum, key length, key, body.
//!
//! With `verify = true` every value is written so, and a `get` that returns another key's value, or
//! a torn one, is the error `wrong_value`.

use base::codec::{Reader, Writer, checksum};

/// Bytes that a seal adds to key and body.
pub const SEAL_BYTES: usize = 12;

/// Appends the sealed value: `body` is cut so that the whole has `bytes` bytes, or as many as the
/// seal needs.
pub fn seal(key: &[u8], body: &[u8], bytes: usize, out: &mut Vec<u8>) {
    let from = out.len();
    out.put_u64(0);
    out.put_string(key);
    let room = bytes.saturating_sub(SEAL_BYTES + key.len());
    out.extend_from_slice(&body[..room.min(body.len())]);
    let sum = checksum(&out[from + 8..], 0);
    out[from..from + 8].copy_from_slice(&sum.to_le_bytes());
}

/// Returns true if this value was sealed for this key and is complete.
pub fn sealed_for(key: &[u8], value: &[u8]) -> bool {
    let mut reader = Reader::new(value);
    let Ok(sum) = reader.u64("checksum") else { return false };
    let whole = checksum(reader.rest(), 0) == sum;
    whole && reader.string(key.len(), "key") == Ok(key)
}
