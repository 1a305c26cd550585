//! Decoding of an entry's bytes, which `pending_entry.rs` writes.

use crate::effect_layout::{EFFECT_HEAD_BYTES, PUT, REMOVE};
use crate::pending_entry::{FORMAT, FORMAT_SIGN, HEAD_BYTES};
use base::codec::{Malformed, Reader};
use bytes::Bytes;
use logic::consensus::Configuration;
use store::RowChange;

/// Head of an entry, in front of its effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// Group time of its updates, milliseconds.
    pub time: u64,
    /// Version of its first update.
    pub first_version: u64,
    /// Number of its updates.
    pub updates: u32,
    /// Next configuration, if the entry is a stop-sign.
    pub sign: Option<Configuration>,
}

/// Returns the next configuration if this is the payload of a stop-sign.
pub fn read_stop_sign(payload: &Bytes) -> Result<Option<Configuration>, Malformed> {
    match payload.first() {
        Some(&FORMAT_SIGN) => read_entry(payload).map(|(head, _)| head.sign),
        _ => Ok(None),
    }
}

/// Reads an entry's payload from a log record: its head, and its effects as changes to the store,
/// slices of it.
pub fn read_entry(payload: &Bytes) -> Result<(EntryHead, Changes), Malformed> {
    let mut reader = Reader::new(payload);
    let format = reader.u8("value format")?;
    let mut head = EntryHead {
        time: reader.u64("value time")?,
        first_version: reader.u64("value version")?,
        updates: reader.u32("value updates")?,
        sign: None,
    };
    // The next entry's first version: it must exist.
    if head.first_version.checked_add(head.updates.into()).is_none() {
        return Err(Malformed("value version"));
    }
    let offset = match format {
        FORMAT => HEAD_BYTES,
        FORMAT_SIGN => {
            head.sign = Some(Configuration::read(&mut reader)?);
            reader.end("stop-sign")?;
            payload.len()
        }
        _ => return Err(Malformed("value format")),
    };
    Ok((head, Changes { payload: payload.clone(), offset }))
}

/// Iterator over the effects of an entry, in order.
pub struct Changes {
    payload: Bytes,
    offset: usize,
}

impl Changes {
    fn read(&mut self) -> Result<RowChange, Malformed> {
        let mut reader = Reader::new(&self.payload[self.offset..]);
        let tag = reader.u8("effect tag")?;
        let key_bytes = reader.u32("effect key length")? as usize;
        let row_bytes = reader.u32("effect row length")? as usize;
        reader.take(key_bytes, "effect key")?;
        reader.take(row_bytes, "effect row")?;
        let key_start = self.offset + EFFECT_HEAD_BYTES;
        let row_start = key_start + key_bytes;
        self.offset = row_start + row_bytes;
        let key = self.payload.slice(key_start..row_start);
        match tag {
            PUT => Ok(RowChange::Put(key, self.payload.slice(row_start..self.offset))),
            REMOVE => Ok(RowChange::Remove(key)),
            _ => Err(Malformed("effect tag")),
        }
    }
}

impl Iterator for Changes {
    type Item = Result<RowChange, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.offset < self.payload.len()).then(|| {
            let change = self.read();
            if change.is_err() {
                self.offset = self.payload.len();
            }
            change
        })
    }
}
