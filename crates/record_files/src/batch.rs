//! Batch of records in one buffer, so that a million records do not take two million allocations.

use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::ops::Range;

/// Batch of records, in the order they were read.
#[derive(Clone, Debug, Default)]
pub struct RecordBatch {
    bytes: Vec<u8>,
    bounds: Vec<RecordBounds>,
    /// End of the current record's key. `None`: the key is incomplete.
    key_end: Option<usize>,
    /// Records in the format of the input, concatenated, if the caller keeps them.
    texts: Vec<u8>,
    text_ends: Vec<usize>,
}

/// Position of a record in `bytes`, and its number in the file.
#[derive(Clone, Copy, Debug)]
struct RecordBounds {
    key_end: usize,
    end: usize,
    number: u64,
}

impl RecordBatch {
    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.bounds.len()
    }

    /// Returns true if the batch has no records.
    pub fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// Returns the number of bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a record from another batch.
    pub fn push(&mut self, key: &[u8], value: &[u8], number: u64) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.bounds.push(RecordBounds { key_end, end: self.bytes.len(), number });
    }

    /// Keeps the last record in the format of the input, too.
    pub fn push_text(&mut self, text: &[u8]) {
        self.texts.extend_from_slice(text);
        self.text_ends.push(self.texts.len());
    }

    /// Returns a record in the format of the input. `None`: it was not kept.
    pub fn text(&self, at: usize) -> Option<&[u8]> {
        let end = *self.text_ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.text_ends[before]);
        self.texts.get(start..end)
    }

    /// Removes all records and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bounds.clear();
        self.key_end = None;
        self.texts.clear();
        self.text_ends.clear();
    }

    /// Returns key, value and number of every record.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], u64)> {
        self.range(0..self.len())
    }

    /// Returns key, value and number of the records at these positions.
    pub fn range(&self, positions: Range<usize>) -> impl Iterator<Item = (&[u8], &[u8], u64)> {
        positions.map(|at| {
            let (start, record) = (self.start(at), self.bounds[at]);
            let (key, value) = (start..record.key_end, record.key_end..record.end);
            (&self.bytes[key], &self.bytes[value], record.number)
        })
    }

    /// Returns the bytes of keys and values of the records at these positions.
    pub fn range_bytes(&self, positions: &Range<usize>) -> usize {
        self.start(positions.end) - self.start(positions.start)
    }

    /// Returns the buffer for the bytes of the current record: its key first.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Marks the end of the current record's key; its value follows.
    pub(super) fn end_key(&mut self) {
        self.key_end = Some(self.bytes.len());
    }

    /// Ends the current record and adds it to the batch. Fails if its key or value exceeds the
    /// limits.
    pub(super) fn end_record(&mut self, number: u64) -> Result<(), String> {
        let start = self.start(self.bounds.len());
        let key_end = self.key_end.take().ok_or("there is no key")?;
        let (key, value) = (key_end - start, self.bytes.len() - key_end);
        if key > KEY_BYTES_MAX {
            return Err(format!("the key has {key} bytes, at most {KEY_BYTES_MAX} are allowed"));
        }
        if value > VALUE_BYTES_MAX {
            let most = VALUE_BYTES_MAX;
            return Err(format!("the value has {value} bytes, at most {most} are allowed"));
        }
        self.bounds.push(RecordBounds { key_end, end: self.bytes.len(), number });
        Ok(())
    }

    /// Discards the current record.
    pub(super) fn discard_record(&mut self) {
        self.key_end = None;
        self.bytes.truncate(self.start(self.bounds.len()));
    }

    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.bounds[before].end)
    }
}
