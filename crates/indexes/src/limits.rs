//! Limits of index definitions, terms and values.
//!
//! A limit named `_MAX` is the largest that is still accepted. The longest key of an index row
//! (bucket name, field, escaped term, key) stays below the store's 65,535 bytes.

/// Longest text of a tag; a longer one is `too_large`. Escaped it takes twice as many bytes.
pub const INDEX_TERM_BYTES_MAX: usize = 8 * 1024;
/// Longest term, encoded, and longest bound of a range of terms: a tag's text, escaped, with its
/// kind and its end.
pub const TERM_BOUND_BYTES_MAX: usize = 2 * INDEX_TERM_BYTES_MAX + 3;
/// Most digits of a tag's integer, leading zeros not counted; a longer one is `too_large`.
pub const INDEX_DIGITS_MAX: usize = 1_000;
/// Longest name of a tag's field; a longer one is `too_large`.
pub const INDEX_FIELD_BYTES_MAX: usize = base::limits::INDEX_NAME_BYTES_MAX;
/// Longest string or byte string that a declared index holds whole; a longer one is cut.
pub const DECLARED_TERM_BYTES_MAX: usize = 1_024;
/// Bytes that are kept of a string that is cut, in front of its digest.
pub const CUT_FRONT_BYTES: usize = 1_000;
/// Bytes of the digest of a string that is cut.
pub const CUT_DIGEST_BYTES: usize = 16;
/// Most declared indexes of a bucket; one more is `too_large`.
pub const INDEXES_PER_BUCKET_MAX: usize = base::limits::INDEXES_PER_BUCKET_MAX;
/// Most entries of one value, tags and all declared indexes together; a value with more is
/// `too_large`.
pub const ENTRIES_PER_VALUE_MAX: usize = 1_024;
/// Longest path of a declared index; a longer one is `too_large`.
pub const PATH_BYTES_MAX: usize = 1_024;
/// Most segments of a path, and so the deepest recursion of its evaluation; a path with more is
/// `too_large`.
pub const PATH_SEGMENTS_MAX: usize = 32;
/// Largest distance from the end of an array that a path names (`[-64]`): so many of its elements
/// are remembered.
pub const PATH_FROM_END_MAX: u64 = 64;
/// Deepest nesting of a MessagePack value; a deeper one can't be read, and has no declared entries.
/// JSON beside the path is skipped without recursion, at any depth.
pub const MESSAGE_PACK_NESTING_MAX: usize = 128;
/// Most members and terms together that an evaluation remembers until the end of an object, where a
/// path has a wildcard: a later member of the same name replaces an earlier one. A value with more
/// is `too_large`.
pub const WILDCARD_HELD_MAX: usize = 65_536;
/// Longest text of a continuation: room for the longest term and key.
pub const CONTINUATION_TEXT_BYTES_MAX: usize = base::limits::INDEX_CONTINUATION_BYTES_MAX;
