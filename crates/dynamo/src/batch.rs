//! One record of the log: changes of the local store, of any vnodes, that become visible together.
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
use store::{RecordKind, RowChange, Trees};

const FORM: u8 = 1;

/// Changes that are written together, in one log record.
pub(super) struct Batch {
    pub index: u64,
    /// True if it must be synced before it counts.
    pub sync: bool,
    pub payload: Vec<u8>,
    pub changes: usize,
}

impl Batch {
    pub(super) fn new(index: u64) -> Batch {
        let payload = vec![FORM];
        Batch { index, sync: false, payload, changes: 0 }
    }

    pub(super) fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
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
    pub ended: u64,
}

impl Mark {
    /// Reads the mark from the store.
    pub fn of(trees: &dyn Trees) -> Result<Mark> {
        let Some(bytes) = trees.get(&layout::mark_key()).map_err(store_error)? else {
            return Ok(Mark::default());
        };
        let mut reader = Reader::new(&bytes);
        let mut word = || reader.u64("mark of the vnodes").map_err(corrupt);
        Ok(Mark { applied: word()?, ended: word()? })
    }

    pub(super) fn change(self) -> RowChange {
        let mut bytes = Vec::with_capacity(16);
        bytes.put_u64(self.applied);
        bytes.put_u64(self.ended);
        RowChange::Put(layout::mark_key(), bytes.into())
    }
}

/// Makes a batch visible, with the mark.
pub(super) fn apply(trees: &dyn Trees, index: u64, payload: &Bytes) -> Result<()> {
    let mut changes = Vec::new();
    let mut reader = Reader::new(payload);
    let mut read = || -> std::result::Result<(), Malformed> {
        if reader.u8("form of a vnode's record")? != FORM {
            return Err(Malformed("form of a vnode's record"));
        }
        while !reader.is_empty() {
            let put = reader.u8("which change")?;
            let key = payload.slice_ref(reader.string(usize::MAX, "key")?);
            changes.push(match put {
                0 => RowChange::Remove(key),
                1 => RowChange::Put(key, payload.slice_ref(reader.string(usize::MAX, "row")?)),
                _ => return Err(Malformed("which change")),
            });
        }
        Ok(())
    };
    read().map_err(corrupt)?;
    let mark = Mark { applied: index, ended: 0 };
    trees.apply(&mut changes.into_iter().chain([mark.change()])).map_err(store_error)?;
    Ok(())
}

/// Record that repeats the number of the last batch.
pub fn last_batch(index: u64, sync: bool) -> Append {
    job(index, Bytes::new(), sync)
}

/// Record of a batch. Without a payload it repeats the number of the last batch.
pub(super) fn job(index: u64, payload: Bytes, sync: bool) -> Append {
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
