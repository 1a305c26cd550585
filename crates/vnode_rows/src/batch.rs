//! Batch: one log record with changes of the local store, of any vnodes, that become visible
//! together.
//!
//! ```text
//! payload = form u8 (1) | changes: put u8 (0 or 1) | key, u32 length | [value, u32 length]
//! ```

use super::layout::{self, VNODES};
use base::codec::{Malformed, Reader, Writer};
use base::error::corrupt;
use base::{Ballot, LogIndex, Result};
use bytes::Bytes;
use runtime::log_writer::{Append, store_error};
use store::{RecordKind, RowChange, Snapshot, Trees};

const FORM: u8 = 1;

/// Changes of tree keys that become visible together: each key with its new value. `None`: the key
/// is removed.
pub type KeyChanges = Vec<(Bytes, Option<Bytes>)>;

/// Changes that are written together, in one log record.
pub struct Batch {
    /// Number of the batch.
    pub index: u64,
    /// True if it must be synced before it is applied.
    pub sync: bool,
    /// Payload of its log record.
    pub payload: Vec<u8>,
    /// Number of its changes.
    pub changes: usize,
}

impl Batch {
    /// Creates an empty batch.
    pub fn new(index: u64) -> Batch {
        let payload = vec![FORM];
        Batch { index, sync: false, payload, changes: 0 }
    }

    /// Adds the change of a tree key. `value`: `None` removes it.
    pub fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.changes += 1;
        self.payload.put_u8(value.is_some().into());
        self.payload.put_string(key);
        if let Some(value) = value {
            self.payload.put_string(value);
        }
    }
}

/// Applied mark of the vnodes: the last applied batch, and the incarnation that shut down cleanly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of the last batch whose effects are in the store.
    pub applied: u64,
    /// Incarnation that shut down cleanly and was the last to write. 0: none.
    pub clean_incarnation: u64,
}

impl Mark {
    /// Reads the mark from the store.
    pub fn read(trees: &dyn Trees) -> Result<Mark> {
        Mark::decode(trees.get(&layout::mark_key()).map_err(store_error)?)
    }

    /// Reads the mark as of a snapshot.
    pub fn of_snapshot(snapshot: &dyn Snapshot) -> Result<Mark> {
        Mark::decode(snapshot.get(&layout::mark_key()).map_err(store_error)?)
    }

    fn decode(bytes: Option<Bytes>) -> Result<Mark> {
        let Some(bytes) = bytes else { return Ok(Mark::default()) };
        let mut reader = Reader::new(&bytes);
        let mut number = || reader.u64("mark of the vnodes").map_err(corrupt);
        Ok(Mark { applied: number()?, clean_incarnation: number()? })
    }

    /// Returns the change that stores the mark.
    pub fn change(self) -> RowChange {
        let mut bytes = Vec::with_capacity(16);
        bytes.put_u64(self.applied);
        bytes.put_u64(self.clean_incarnation);
        RowChange::Put(layout::mark_key(), bytes.into())
    }
}

/// Applies a batch to the store, with the mark.
pub fn apply(trees: &dyn Trees, index: u64, payload: &Bytes) -> Result<()> {
    let mut changes = Vec::new();
    let mut reader = Reader::new(payload);
    let mut read = || -> std::result::Result<(), Malformed> {
        if reader.u8("form of a vnode's record")? != FORM {
            return Err(Malformed("form of a vnode's record"));
        }
        while !reader.is_empty() {
            let put = reader.u8("kind of change")?;
            let key = payload.slice_ref(reader.string(usize::MAX, "key")?);
            changes.push(match put {
                0 => RowChange::Remove(key),
                1 => RowChange::Put(key, payload.slice_ref(reader.string(usize::MAX, "row")?)),
                _ => return Err(Malformed("kind of change")),
            });
        }
        Ok(())
    };
    read().map_err(corrupt)?;
    let mark = Mark { applied: index, clean_incarnation: 0 };
    trees.apply(&mut changes.into_iter().chain([mark.change()])).map_err(store_error)?;
    Ok(())
}

/// Record of the log's head: repeats the number of the last batch.
pub fn log_head_record(index: u64, sync: bool) -> Append {
    batch_record(index, Bytes::new(), sync)
}

/// Builds the record of a batch. Without a payload it repeats the number of the last batch.
pub fn batch_record(index: u64, payload: Bytes, sync: bool) -> Append {
    let (ballot, decided) = (Ballot::default(), LogIndex(0));
    Append {
        kind: RecordKind::Vnode,
        group: VNODES,
        ballot,
        index: LogIndex(index),
        decided,
        payload,
        sync,
    }
}
