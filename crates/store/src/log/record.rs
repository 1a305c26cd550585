//! Records, each with its owner; footers, which list the owners of a segment.

use super::segment::VERSION_FIRST;
use base::codec::{Malformed, Reader, Writer};
use base::limits::LOG_RECORD_BYTES_MAX;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;

/// Owner of a record: one generation of a group or vnode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The group or vnode.
    pub group: u32,
    /// Generation of the group or vnode. A reset begins a new one.
    pub generation: u32,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "group {} (generation {})", self.group, self.generation)
    }
}

/// Kind of record. Replay is in stream order; a later record supersedes an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// A value was accepted.
    Accept = 1,
    /// Accepted values from an index on are void.
    Truncate = 2,
    /// A ballot was promised.
    Promise = 3,
    /// Values up to an index are decided.
    Decided = 4,
    /// A write of a vnode.
    Vnode = 5,
    /// The owner begins a new generation. Records of earlier generations no longer count.
    Reset = 6,
    /// State that only older segments hold, written again.
    Checkpoint = 7,
    /// An entry of a log that is being adopted was staged. It counts only from the truncate of its
    /// ballot on. Format 2.
    Stage = 8,
}

impl RecordKind {
    pub(super) fn from_byte(byte: u8) -> Option<RecordKind> {
        use RecordKind::*;
        [Accept, Truncate, Promise, Decided, Vnode, Reset, Checkpoint, Stage]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }

    /// Returns the first segment version that may hold this kind. A program without that version
    /// refuses the segment with an error, instead of mistaking frames of an unknown kind for a torn
    /// tail.
    #[inline]
    pub(super) fn version(self) -> u32 {
        match self {
            RecordKind::Stage => 2,
            _ => VERSION_FIRST,
        }
    }
}

/// A record to append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Kind of record.
    pub kind: RecordKind,
    /// Owner of the record.
    pub owner: Owner,
    /// The configuration, for consensus records.
    pub configuration: u32,
    /// The ballot, for consensus records: round and node.
    pub ballot: (u64, u64),
    /// The owner's index, from 1; 0 where the record has none.
    pub index: u64,
    /// The decided index known when it was written.
    pub decided: u64,
    /// At most [`LOG_RECORD_BYTES_MAX`].
    pub payload: &'a [u8],
}

/// A record that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Kind of record.
    pub kind: RecordKind,
    /// Owner of the record.
    pub owner: Owner,
    /// The configuration, for consensus records.
    pub configuration: u32,
    /// The ballot, for consensus records: round and node.
    pub ballot: (u64, u64),
    /// The owner's index, from 1; 0 where the record has none.
    pub index: u64,
    /// The decided index known when it was written.
    pub decided: u64,
    /// The payload.
    pub payload: Bytes,
}

/// Size of a record's body before its payload.
pub(super) const RECORD_HEADER_BYTES: usize = 48;
/// Maximum size of a record's body.
pub(super) const RECORD_BODY_BYTES_MAX: usize = RECORD_HEADER_BYTES + LOG_RECORD_BYTES_MAX;

impl Record<'_> {
    /// Encodes the body's bytes before the payload.
    #[inline]
    pub(super) fn header(&self) -> [u8; RECORD_HEADER_BYTES] {
        let length = u32::try_from(self.payload.len()).expect("payloads are limited");
        let mut header = [0; RECORD_HEADER_BYTES];
        header[0..4].copy_from_slice(&self.owner.group.to_le_bytes());
        header[4..8].copy_from_slice(&self.owner.generation.to_le_bytes());
        header[8..12].copy_from_slice(&self.configuration.to_le_bytes());
        header[12..16].copy_from_slice(&length.to_le_bytes());
        header[16..24].copy_from_slice(&self.ballot.0.to_le_bytes());
        header[24..32].copy_from_slice(&self.ballot.1.to_le_bytes());
        header[32..40].copy_from_slice(&self.index.to_le_bytes());
        header[40..48].copy_from_slice(&self.decided.to_le_bytes());
        header
    }
}

impl OwnedRecord {
    pub(super) fn decode(kind: RecordKind, body: Bytes) -> Result<OwnedRecord, Malformed> {
        let mut reader = Reader::new(&body);
        let owner = Owner { group: reader.u32("group")?, generation: reader.u32("generation")? };
        let configuration = reader.u32("configuration")?;
        let length = reader.u32("payload length")? as usize;
        let ballot = (reader.u64("ballot round")?, reader.u64("ballot node")?);
        let index = reader.u64("index")?;
        let decided = reader.u64("decided index")?;
        if reader.rest().len() != length {
            return Err(Malformed("payload length"));
        }
        let payload = body.slice(RECORD_HEADER_BYTES..);
        Ok(OwnedRecord { kind, owner, configuration, ballot, index, decided, payload })
    }

    /// Borrows the record.
    pub fn as_record(&self) -> Record<'_> {
        let OwnedRecord { kind, owner, configuration, ballot, index, decided, .. } = *self;
        let payload = &self.payload;
        Record { kind, owner, configuration, ballot, index, decided, payload }
    }
}

/// Summary of one owner's records in a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerRange {
    /// The lowest index, 0 if no record has one.
    pub first: u64,
    /// The highest index, 0 if no record has one.
    pub last: u64,
    /// Number of records.
    pub records: u64,
}

/// Owners of a segment, with a summary of their records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owners(pub BTreeMap<Owner, OwnerRange>);

const FOOTER_HEADER_BYTES: usize = 8;
const FOOTER_ENTRY_BYTES: usize = 32;

impl Owners {
    /// Adds a record to the summary of its owner.
    #[inline]
    pub fn add(&mut self, owner: Owner, index: u64) {
        let range = self.0.entry(owner).or_default();
        range.records += 1;
        if index > 0 {
            range.first = if range.first == 0 { index } else { range.first.min(index) };
            range.last = range.last.max(index);
        }
    }

    /// Returns the length of the footer's body in bytes, with space for `new_owners` more owners.
    pub fn footer_bytes(&self, new_owners: usize) -> usize {
        FOOTER_HEADER_BYTES + (self.0.len() + new_owners) * FOOTER_ENTRY_BYTES
    }

    /// Encodes the footer's body.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.footer_bytes(0));
        body.put_u32(u32::try_from(self.0.len()).expect("owners fit their segment"));
        body.put_u32(0);
        for (owner, range) in &self.0 {
            body.put_u32(owner.group);
            body.put_u32(owner.generation);
            body.put_u64(range.first);
            body.put_u64(range.last);
            body.put_u64(range.records);
        }
        body
    }

    pub fn decode(body: &[u8]) -> Result<Owners, Malformed> {
        let mut reader = Reader::new(body);
        let count = reader.u32("count of owners")? as usize;
        if reader.u32("zeros of a footer")? != 0
            || count.checked_mul(FOOTER_ENTRY_BYTES) != Some(reader.rest().len())
        {
            return Err(Malformed("count of owners"));
        }
        let mut owners = BTreeMap::new();
        for _ in 0..count {
            let owner = Owner { group: reader.u32("group")?, generation: reader.u32("life")? };
            let (first, last) = (reader.u64("first index")?, reader.u64("last index")?);
            owners.insert(owner, OwnerRange { first, last, records: reader.u64("records")? });
        }
        reader.end("footer")?;
        Ok(Owners(owners))
    }
}
