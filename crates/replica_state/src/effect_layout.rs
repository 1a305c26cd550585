//! Layout of an effect in the bytes of an entry, which `pending_entry.rs` shows: kind, lengths,
//! tree key, row.
//!
//! For bytes that this node wrote itself; `entry.rs` decodes those of others.

use std::ops::Range;

/// Number of bytes in front of an effect's key: kind, lengths of key and row.
pub const EFFECT_HEAD_BYTES: usize = 9;
/// Kind of an effect that puts a row.
pub const PUT: u8 = 1;
/// Kind of an effect that removes a row.
pub const REMOVE: u8 = 0;

/// Returns the tree key of the effect at this offset.
pub fn key_at(bytes: &[u8], offset: u32) -> &[u8] {
    #[cfg(debug_assertions)]
    key_reads::count();
    let (_, key, _) = ranges_at(bytes, offset as usize);
    &bytes[key]
}

/// Returns the offset behind the effect at this offset.
pub fn end_at(bytes: &[u8], offset: usize) -> usize {
    ranges_at(bytes, offset).2.end
}

/// Returns the effect's kind (true: put), and the ranges of its key and row.
pub fn ranges_at(bytes: &[u8], offset: usize) -> (bool, Range<usize>, Range<usize>) {
    let length_at =
        |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let key_start = offset + EFFECT_HEAD_BYTES;
    let row_start = key_start + length_at(offset + 1);
    (bytes[offset] == PUT, key_start..row_start, row_start..row_start + length_at(offset + 5))
}

/// Number of keys that this thread has read, the cost that tests bound.
#[cfg(debug_assertions)]
pub mod key_reads {
    use std::cell::Cell;

    thread_local! {
        static KEY_READS: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts one.
    pub fn count() {
        KEY_READS.set(KEY_READS.get() + 1);
    }

    /// Returns the number since the last call.
    pub fn take() -> usize {
        KEY_READS.take()
    }
}
