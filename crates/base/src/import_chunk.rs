//! Import chunk: many records in one binary body, with a checksum. A client of import sends it, a
//! front-end decodes it.
//!
//! All numbers are little-endian:
//!
//! ```text
//! chunk  = magic "crchunk1" | checksum u64 | count u32 | record ...
//! record = key length u32 | value length u32 | key | value
//! ```
//! The checksum is the xxh3 of everything behind it. The records are laid out as in the file format
//! `raw`.

use crate::codec::{self, Malformed, Reader, Writer};
use crate::limits::SEQUENCE_STEPS_MAX;
use crate::{Error, Key, Reason, Result, Value};
use bytes::Bytes;

const MAGIC: &[u8; 8] = b"crchunk1";
/// Offset of the first byte that the checksum covers.
const CHECKED_FROM: usize = 16;
/// Bytes before the first record.
const HEAD_BYTES: usize = 20;
/// Bytes of a record beside its key and value.
const RECORD_HEAD_BYTES: usize = 8;

/// Encodes records as a chunk. `bytes`: expected length of the records (`records_bytes`). The
/// front-end refuses a chunk beyond the limits, this function does not.
pub fn encode<'r>(records: impl Iterator<Item = (&'r [u8], &'r [u8])>, bytes: usize) -> Vec<u8> {
    let length = |part: &[u8]| u32::try_from(part.len()).expect("limited long before 4 GiB");
    let mut chunk = Vec::with_capacity(HEAD_BYTES + bytes);
    chunk.extend_from_slice(MAGIC);
    chunk.put_u64(0);
    chunk.put_u32(0);
    let mut count = 0_u32;
    for (key, value) in records {
        chunk.put_u32(length(key));
        chunk.put_u32(length(value));
        chunk.extend_from_slice(key);
        chunk.extend_from_slice(value);
        count += 1;
    }
    chunk[CHECKED_FROM..HEAD_BYTES].copy_from_slice(&count.to_le_bytes());
    let checksum = codec::checksum(&chunk[CHECKED_FROM..], 0);
    chunk[MAGIC.len()..CHECKED_FROM].copy_from_slice(&checksum.to_le_bytes());
    chunk
}

/// Returns the bytes of a chunk's records with keys and values of this total size.
pub fn records_bytes(count: usize, keys_and_values: usize) -> usize {
    count * RECORD_HEAD_BYTES + keys_and_values
}

/// Decodes a chunk; each record becomes what `item` makes of it. Keys and values share the chunk's
/// memory.
///
/// Errors: `malformed` (also if the checksum differs), `too_large` (more records than a sequence
/// may have steps). Limits of keys and values are checked where the update is.
pub fn decode<T>(chunk: &Bytes, mut item: impl FnMut(Key, Value) -> T) -> Result<Vec<T>> {
    let malformed = |text: &'static str| Error::new(Reason::Malformed, text);
    let torn = |_: Malformed| malformed("the chunk ends inside a record");
    let no_head =
        |_: Malformed| malformed("a chunk begins with `crchunk1`, a checksum and a count");
    let mut reader = Reader::new(chunk);
    let magic = reader.take(MAGIC.len(), "magic").map_err(no_head)?;
    if magic != MAGIC {
        return Err(no_head(Malformed("magic")));
    }
    let checksum = reader.u64("checksum").map_err(no_head)?;
    if codec::checksum(reader.rest(), 0) != checksum {
        let text = "the chunk's checksum does not match: it was damaged on its way, send it again";
        return Err(malformed(text));
    }
    let count = reader.u32("count").map_err(no_head)? as usize;
    if count > SEQUENCE_STEPS_MAX {
        let text = format!(
            "{count} records in a chunk; at most {SEQUENCE_STEPS_MAX} are allowed \
             (sequence_steps_max): send several chunks"
        );
        return Err(Error::new(Reason::TooLarge, text));
    }
    // Before anything is reserved for the claimed number.
    if count > reader.rest().len() / RECORD_HEAD_BYTES {
        return Err(malformed("the chunk has fewer records than it counts"));
    }
    let mut items = Vec::with_capacity(count);
    let mut at = HEAD_BYTES;
    for _ in 0..count {
        let key = reader.u32("key").map_err(torn)? as usize;
        let value = reader.u32("value").map_err(torn)? as usize;
        reader.take(key, "key").map_err(torn)?;
        reader.take(value, "value").map_err(torn)?;
        let (start, middle) = (at + RECORD_HEAD_BYTES, at + RECORD_HEAD_BYTES + key);
        at = middle + value;
        items.push(item(chunk.slice(start..middle), chunk.slice(middle..at)));
    }
    reader.end("end").map_err(|_| malformed("the chunk has more records than it counts"))?;
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Records = Vec<(Vec<u8>, Vec<u8>)>;

    fn chunk_of(records: &Records) -> Bytes {
        let bytes = records.iter().map(|(key, value)| key.len() + value.len()).sum();
        let pairs = records.iter().map(|(key, value)| (&key[..], &value[..]));
        encode(pairs, records_bytes(records.len(), bytes)).into()
    }

    fn decoded(chunk: &Bytes) -> Result<Records> {
        decode(chunk, |key, value| (key.to_vec(), value.to_vec()))
    }

    /// Returns the chunk with a checksum that matches its bytes.
    fn sealed(mut chunk: Vec<u8>) -> Bytes {
        let checksum = codec::checksum(&chunk[CHECKED_FROM..], 0);
        chunk[8..16].copy_from_slice(&checksum.to_le_bytes());
        chunk.into()
    }

    proptest! {
        #[test]
        fn import_chunk_round_trips_in_order_and_reserves_its_exact_size(
            records in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 0..9),
                 proptest::collection::vec(any::<u8>(), 0..40)), 0..20),
        ) {
            let chunk = chunk_of(&records);
            let bytes: usize = records.iter().map(|(key, value)| key.len() + value.len()).sum();
            prop_assert_eq!(chunk.len(), HEAD_BYTES + records_bytes(records.len(), bytes));
            prop_assert_eq!(decoded(&chunk), Ok(records));
        }

        #[test]
        fn any_changed_or_missing_byte_of_an_import_chunk_is_refused(
            at in 0..100_usize, change in 1..=255_u8, length in 0..100_usize,
        ) {
            let chunk = chunk_of(&vec![(b"key".to_vec(), vec![b'v'; 20]); 4]).to_vec();
            let mut changed = chunk.clone();
            changed[at % chunk.len()] ^= change;
            prop_assert_eq!(decoded(&changed.into()).map_err(|e| e.reason), Err(Reason::Malformed));
            let cut = chunk[..length % chunk.len()].to_vec();
            prop_assert_eq!(decoded(&cut.into()).map_err(|e| e.reason), Err(Reason::Malformed));
        }

        #[test]
        fn malformed_import_chunk_with_a_valid_checksum_never_panics(
            bytes in proptest::collection::vec(any::<u8>(), 4..80),
        ) {
            let _ = decoded(&sealed([&MAGIC[..], &[0; 8], &bytes].concat()));
        }
    }

    #[test]
    fn import_chunk_that_claims_other_counts_than_it_holds_is_refused() {
        let with_count = |count: u32| {
            let mut chunk = chunk_of(&vec![(vec![b'k'; 30], vec![b'v'; 30]); 2]).to_vec();
            chunk[16..20].copy_from_slice(&count.to_le_bytes());
            decoded(&sealed(chunk)).map(|records| records.len()).map_err(|error| error.reason)
        };
        assert_eq!(with_count(2), Ok(2));
        assert_eq!([1, 3, 100].map(with_count), [Err(Reason::Malformed); 3]);
        let too_many = with_count(SEQUENCE_STEPS_MAX as u32 + 1);
        assert_eq!([too_many, with_count(u32::MAX)], [Err(Reason::TooLarge); 2]);
    }

    /// Golden bytes: other programs than this one send chunks.
    #[test]
    fn import_chunk_of_golden_bytes_is_stable() {
        let chunk = chunk_of(&vec![(b"a".to_vec(), b"12".to_vec())]);
        let tail = [1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, b'a', b'1', b'2'];
        assert_eq!((&chunk[..8], &chunk[16..]), (&b"crchunk1"[..], &tail[..]));
        assert_eq!(chunk[8..16], codec::checksum(&tail, 0).to_le_bytes());
    }
}
