//! Record of an index on a node: whether it is in force, and how far its build has come.
//!
//! ```text
//! record = form u8 (1) | phase u8 | rows u64 | cursor, u32 length | definition
//! ```
//!
//! The definition stands in it because a node that starts must maintain the index from its first
//! write on, before it knows what the directory says. That of the index of tags is empty.

use crate::layout::slot_of;
use crate::slots::SLOTS;
use base::BucketName;
use base::codec::{Malformed, Reader, Writer};
use bytes::Bytes;
use indexes::{IndexDefinition, IndexNumber};

const FORM: u8 = 1;
/// Longest cursor: as long as the store's longest key.
const CURSOR_BYTES_MAX: usize = u16::MAX as usize;

/// Name of an index on a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IndexId {
    /// Index of the tags of all buckets.
    Tags,
    /// Declared index of a bucket.
    Declared(BucketName, IndexNumber),
}

/// Phase of an index on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPhase {
    /// Changes of rows change its entries; those of earlier rows are being added.
    Building = 1,
    /// Ready: every row has its entries.
    Ready = 2,
    /// Dropping: out of force, while its entries are being removed.
    Dropping = 3,
}

/// See the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRecord {
    /// Phase of the index.
    pub phase: IndexPhase,
    /// Number of rows that its build has read.
    pub rows: u64,
    /// Tree key through which its build has read, a row's. Empty: none yet.
    pub cursor: Bytes,
    /// Definition. `None`: the index is that of tags.
    pub definition: Option<IndexDefinition>,
}

impl IndexRecord {
    /// Creates the record of an index that is about to be built.
    pub fn new(definition: Option<IndexDefinition>) -> IndexRecord {
        IndexRecord { phase: IndexPhase::Building, rows: 0, cursor: Bytes::new(), definition }
    }

    /// Returns true if changes of rows change its entries.
    pub fn is_in_force(&self) -> bool {
        self.phase != IndexPhase::Dropping
    }

    /// Returns the number of slots whose rows the build has read, of [`SLOTS`].
    pub fn slots_done(&self) -> u32 {
        match self.phase {
            IndexPhase::Building => slot_of(&self.cursor).map_or(0, |slot| slot.0),
            IndexPhase::Ready | IndexPhase::Dropping => SLOTS,
        }
    }

    /// Returns true if the build has read the row of this tree key, or its place.
    pub fn has_read(&self, tree_key: &[u8]) -> bool {
        match self.phase {
            IndexPhase::Building => self.cursor[..] >= *tree_key,
            IndexPhase::Ready => true,
            IndexPhase::Dropping => false,
        }
    }

    /// Encodes the record.
    pub fn write(&self) -> Bytes {
        let definition = self.definition.as_ref().map(IndexDefinition::encode).unwrap_or_default();
        let mut out = Vec::with_capacity(14 + self.cursor.len() + definition.len());
        out.put_u8(FORM);
        out.put_u8(self.phase as u8);
        out.put_u64(self.rows);
        out.put_string(&self.cursor);
        out.extend_from_slice(&definition);
        out.into()
    }

    /// Decodes the record of this index.
    pub fn read(id: &IndexId, bytes: &Bytes) -> Result<IndexRecord, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("the form of an index's record")? != FORM {
            return Err(Malformed("the form of an index's record"));
        }
        let phase = match reader.u8("the phase of an index")? {
            1 => IndexPhase::Building,
            2 => IndexPhase::Ready,
            3 => IndexPhase::Dropping,
            _ => return Err(Malformed("the phase of an index")),
        };
        let rows = reader.u64("the rows of an index")?;
        let cursor = reader.string(CURSOR_BYTES_MAX, "the cursor of an index")?;
        let cursor = bytes.slice_ref(cursor);
        let definition = match (id, reader.rest()) {
            (IndexId::Tags, []) => None,
            (IndexId::Declared(_, number), rest) => {
                let definition = IndexDefinition::decode(rest)?;
                Some(definition).filter(|it| it.number == *number)
            }
            (IndexId::Tags, _) => return Err(Malformed("the end of an index's record")),
        };
        if definition.is_some() != (*id != IndexId::Tags) {
            return Err(Malformed("the number of an index"));
        }
        Ok(IndexRecord { phase, rows, cursor, definition })
    }
}
