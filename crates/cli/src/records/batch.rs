//! Records that travel together: one buffer for all their bytes, so that a million records are not
//! two million allocations.

use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};

/// Some records, in the order they were read.
#[derive(Clone, Debug, Default)]
pub struct RecordBatch {
    bytes: Vec<u8>,
    places: Vec<RecordBounds>,
    key_end: Option<usize>,
    /// The records as they stand in the input, one behind the other, where they are kept.
    texts: Vec<u8>,
    text_ends: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct RecordBounds {
    key_end: usize,
    end: usize,
    number: u64,
}

impl RecordBatch {
    /// How many records.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a record that another batch holds.
    pub fn push(&mut self, key: &[u8], value: &[u8], number: u64) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.places.push(RecordBounds { key_end, end: self.bytes.len(), number });
    }

    /// Keeps the last record as it stands in the input, too.
    pub fn keep_text(&mut self, text: &[u8]) {
        self.texts.extend_from_slice(text);
        self.text_ends.push(self.texts.len());
    }

    /// A record as it stands in the input, if that is kept of all of them.
    pub fn text(&self, at: usize) -> Option<&[u8]> {
        let end = *self.text_ends.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.text_ends[before]);
        self.texts.get(start..end)
    }

    /// Lets go of all records, and keeps the memory for others.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
        self.key_end = None;
        self.texts.clear();
        self.text_ends.clear();
    }

    /// Key, value and number of every record.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], u64)> {
        self.places.iter().enumerate().map(|(at, place)| {
            let start = self.start(at);
            let (key, value) = (start..place.key_end, place.key_end..place.end);
            (&self.bytes[key], &self.bytes[value], place.number)
        })
    }

    /// The buffer the present record's bytes go to: its key first.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What is in the buffer of the present record is its key; its value follows.
    pub(super) fn end_key(&mut self) {
        self.key_end = Some(self.bytes.len());
    }

    /// The present record is whole.
    pub(super) fn close(&mut self, number: u64) -> Result<(), String> {
        let start = self.start(self.places.len());
        let key_end = self.key_end.take().ok_or("there is no key")?;
        let (key, value) = (key_end - start, self.bytes.len() - key_end);
        if key > KEY_BYTES_MAX {
            return Err(format!("the key has {key} bytes, at most {KEY_BYTES_MAX} are allowed"));
        }
        if value > VALUE_BYTES_MAX {
            let most = VALUE_BYTES_MAX;
            return Err(format!("the value has {value} bytes, at most {most} are allowed"));
        }
        self.places.push(RecordBounds { key_end, end: self.bytes.len(), number });
        Ok(())
    }

    /// The present record is given up.
    pub(super) fn reopen(&mut self) {
        self.key_end = None;
        self.bytes.truncate(self.start(self.places.len()));
    }

    fn start(&self, at: usize) -> usize {
        at.checked_sub(1).map_or(0, |before| self.places[before].end)
    }
}
