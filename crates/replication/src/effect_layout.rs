//! Layout of an effect in the bytes of an entry, which `pending_entry.rs` shows: kind, lengths,
//! tree key, row.
//!
//! For bytes that this node wrote itself; `entry.rs` decodes those of others.

use std::ops::Range;

pub(super) const EFFECT_HEAD_BYTES: usize = 9;
pub(super) const PUT: u8 = 1;
pub(super) const REMOVE: u8 = 0;

/// Returns the tree key of the effect at this offset.
pub(super) fn key_at(bytes: &[u8], offset: u32) -> &[u8] {
    #[cfg(test)]
    key_reads::count();
    let (_, key, _) = ranges_at(bytes, offset as usize);
    &bytes[key]
}

/// Returns the offset behind the effect at this offset.
pub(super) fn end_at(bytes: &[u8], offset: usize) -> usize {
    ranges_at(bytes, offset).2.end
}

/// Returns the effect's kind (true: put), and the ranges of its key and row.
pub(super) fn ranges_at(bytes: &[u8], offset: usize) -> (bool, Range<usize>, Range<usize>) {
    let length_at =
        |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
    let key_start = offset + EFFECT_HEAD_BYTES;
    let row_start = key_start + length_at(offset + 1);
    (bytes[offset] == PUT, key_start..row_start, row_start..row_start + length_at(offset + 5))
}

/// Number of keys that this thread has read, the cost that tests bound.
#[cfg(test)]
pub(super) mod key_reads {
    use std::cell::Cell;

    thread_local! {
        static KEY_READS: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts one.
    pub(super) fn count() {
        KEY_READS.set(KEY_READS.get() + 1);
    }

    /// Returns the number since the last call.
    pub(crate) fn take() -> usize {
        KEY_READS.take()
    }
}
