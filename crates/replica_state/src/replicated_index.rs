//! Record of an index in the group's own bookkeeping (bucket 0): its definition, and how far it is
//! built or removed. It says which indexes are in force: a master with an older directory must not
//! write rows without their entries.
//!
//! ```text
//! x | bucket u32 BE | number u32 BE ->
//!     format u8 (1) | phase u8 | rows u64 | entries u64
//!     | unreadable u64 | absent u64 | mistyped u64 | oversized u64
//!     | cursor: 0 u8, or 1 u8 and a string
//!     | duplicates: u32, each term, key and holder as strings
//!     | key of a record with too many entries: 0 u8, or 1 u8 and a string
//!     | definition: a string (crate `indexes`)
//! ```
//! Numbers are little-endian, except in the key; a string is its length (4) and its bytes.

use crate::layout::StoredRow;
use base::codec::{Malformed, Reader, Writer};
use base::error::corrupt;
use base::limits::KEY_BYTES_MAX;
use base::{BucketId, Key, Result};
use bytes::Bytes;
use indexes::{IndexDefinition, IndexNumber, SkipCounts, Term};
use store::trees::TREE_KEY_BYTES_MAX;

/// First byte of the keys of such records.
pub const INDEX: u8 = b'x';
const FORMAT: u8 = 1;
/// Maximum number of duplicates that are listed of a unique index that can't be built.
pub const DUPLICATES_MAX: usize = 100;
/// Maximum bytes of listed duplicates. One more is left out.
const DUPLICATES_BYTES_MAX: usize = 64 * 1024;
/// Maximum bytes of an encoded record: its cursor, its duplicates, and a key. More than any has.
pub const RECORD_BYTES_MAX: usize = 512 * 1024;
/// Maximum bytes of an encoded definition: its path and name, and some numbers.
const DEFINITION_BYTES_MAX: usize = 4 * 1024;

/// Phase of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexPhase {
    /// Building: changes of rows maintain it, and entries of older rows are being added.
    Building = 1,
    /// Ready: it has the entries of all rows.
    Ready = 2,
    /// Failed: it is unique and rows have the same term, or a row has too many entries. Nothing
    /// maintains it: it can only be dropped.
    Failed = 3,
    /// Dropping: nothing maintains it, and its entries are being removed.
    Dropping = 4,
}

impl IndexPhase {
    const ALL: [IndexPhase; 4] =
        [IndexPhase::Building, IndexPhase::Ready, IndexPhase::Failed, IndexPhase::Dropping];

    /// Returns true if every change of a row maintains the index.
    pub fn is_in_force(self) -> bool {
        matches!(self, IndexPhase::Building | IndexPhase::Ready)
    }
}

/// Two records with the same term of a unique index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateTerm {
    /// The term.
    pub term: Term,
    /// Key without an entry.
    pub key: Key,
    /// Key with the entry.
    pub holder: Key,
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicatedIndex {
    /// Definition of the index.
    pub definition: IndexDefinition,
    /// Phase of the index.
    pub phase: IndexPhase,
    /// Last key of a record that was read for the index; while it is dropped, the end of the last
    /// entry's tree key that was removed. `None`: none was.
    pub cursor: Option<Bytes>,
    /// Number of rows that were read to build it.
    pub rows: u64,
    /// Number of entries that these rows have.
    pub entries: u64,
    /// Number of places in these rows that have no entry.
    pub skipped: SkipCounts,
    /// Duplicates that were found, up to [`DUPLICATES_MAX`].
    pub duplicates: Vec<DuplicateTerm>,
    /// Key of a record that has more entries, in all indexes of the bucket, than a value may have.
    pub oversized: Option<Key>,
}

/// Returns the beginning of the keys of a bucket's records in the bookkeeping bucket.
pub fn records_prefix(bucket: BucketId) -> [u8; 5] {
    let [a, b, c, d] = bucket.0.to_be_bytes();
    [INDEX, a, b, c, d]
}

/// Returns the key of a record in the bookkeeping bucket.
pub fn record_key(bucket: BucketId, number: IndexNumber) -> Bytes {
    [&records_prefix(bucket)[..], &number.0.to_be_bytes()].concat().into()
}

/// Decodes the key of a record. `None`: it is the key of another row.
pub fn read_record_key(key: &[u8]) -> Option<(BucketId, IndexNumber)> {
    let (bucket, number) = key.strip_prefix(&[INDEX])?.split_first_chunk()?;
    let number = u32::from_be_bytes(number.try_into().ok()?);
    Some((BucketId(u32::from_be_bytes(*bucket)), IndexNumber(number)))
}

impl ReplicatedIndex {
    /// Creates the record of an index for which no row was read.
    pub fn new(definition: IndexDefinition, phase: IndexPhase) -> ReplicatedIndex {
        ReplicatedIndex {
            definition,
            phase,
            cursor: None,
            rows: 0,
            entries: 0,
            skipped: SkipCounts::default(),
            duplicates: Vec::new(),
            oversized: None,
        }
    }

    /// Adds a duplicate to the list, if there is room. Returns false if the list is full.
    pub fn add_duplicate(&mut self, duplicate: DuplicateTerm) -> bool {
        let bytes_of =
            |one: &DuplicateTerm| one.term.as_bytes().len() + one.key.len() + one.holder.len();
        let bytes: usize = self.duplicates.iter().map(bytes_of).sum();
        let fits = self.duplicates.len() < DUPLICATES_MAX
            && (self.duplicates.is_empty() || bytes + bytes_of(&duplicate) <= DUPLICATES_BYTES_MAX);
        if fits {
            self.duplicates.push(duplicate);
        }
        fits
    }

    /// Returns true if no row was found for which it can't be built.
    pub fn is_buildable(&self) -> bool {
        self.duplicates.is_empty() && self.oversized.is_none()
    }

    /// Returns true if its entries are what the rows say: of the rows up to `cursor` while it is
    /// being built.
    pub fn is_exact(&self) -> bool {
        self.phase.is_in_force() && self.is_buildable()
    }

    /// Encodes it for the store.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT, self.phase as u8];
        let SkipCounts { unreadable, absent, mistyped, oversized } = self.skipped;
        for number in [self.rows, self.entries, unreadable, absent, mistyped, oversized] {
            out.put_u64(number);
        }
        put_option(self.cursor.as_ref(), &mut out);
        out.put_u32(self.duplicates.len() as u32);
        for DuplicateTerm { term, key, holder } in &self.duplicates {
            [term.as_bytes(), key, holder].into_iter().for_each(|part| out.put_string(part));
        }
        put_option(self.oversized.as_ref(), &mut out);
        out.put_string(&self.definition.encode());
        out
    }

    /// Decodes what the store holds.
    pub fn decode(bytes: &[u8]) -> std::result::Result<ReplicatedIndex, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("index record")? != FORMAT {
            return Err(Malformed("index record"));
        }
        let code = reader.u8("index phase")?;
        let phase = IndexPhase::ALL.into_iter().find(|phase| *phase as u8 == code);
        let phase = phase.ok_or(Malformed("index phase"))?;
        let mut number = || reader.u64("index counts");
        let (rows, entries) = (number()?, number()?);
        let (unreadable, absent, mistyped, oversized) =
            (number()?, number()?, number()?, number()?);
        let skipped = SkipCounts { unreadable, absent, mistyped, oversized };
        let cursor = read_option(&mut reader, TREE_KEY_BYTES_MAX)?;
        let count = reader.u32("index duplicates")? as usize;
        if count > DUPLICATES_MAX {
            return Err(Malformed("index duplicates"));
        }
        let mut duplicates = Vec::with_capacity(count);
        for _ in 0..count {
            let term = Term::decode(&read_string(&mut reader, TREE_KEY_BYTES_MAX)?)?;
            let key = read_string(&mut reader, KEY_BYTES_MAX)?;
            duplicates.push(DuplicateTerm {
                term,
                key,
                holder: read_string(&mut reader, KEY_BYTES_MAX)?,
            });
        }
        let oversized = read_option(&mut reader, KEY_BYTES_MAX)?;
        let definition = reader.string(DEFINITION_BYTES_MAX, "index definition")?;
        let definition = IndexDefinition::decode(definition)?;
        reader.end("index record")?;
        Ok(ReplicatedIndex {
            definition,
            phase,
            cursor,
            rows,
            entries,
            skipped,
            duplicates,
            oversized,
        })
    }

    /// Decodes the row of a record.
    pub fn read_row(row: &Bytes) -> Result<ReplicatedIndex> {
        let row = StoredRow::read(row).map_err(corrupt)?;
        ReplicatedIndex::decode(&row.value).map_err(corrupt)
    }
}

fn put_option(bytes: Option<&Bytes>, out: &mut Vec<u8>) {
    out.put_u8(bytes.is_some().into());
    if let Some(bytes) = bytes {
        out.put_string(bytes);
    }
}

fn read_option(reader: &mut Reader, max: usize) -> std::result::Result<Option<Bytes>, Malformed> {
    match reader.u8("index record")? {
        0 => Ok(None),
        1 => read_string(reader, max).map(Some),
        _ => Err(Malformed("index record")),
    }
}

fn read_string(reader: &mut Reader, max: usize) -> std::result::Result<Bytes, Malformed> {
    reader.string(max, "index record").map(Bytes::copy_from_slice)
}

#[cfg(test)]
mod tests;
