//! Codec of the fields that requests, replies and errors share.

use super::WireResult;
use crate::codec::{Malformed, Reader, Writer};
use crate::limits::{KEY_BYTES_MAX, SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX, VALUE_BYTES_MAX};
use crate::{Key, Value};
use bytes::Bytes;

/// Encoder of fields, one after the other.
pub(super) trait Fields: Writer + Sized {
    /// Appends a small number, usually a variant's.
    fn byte(&mut self, value: u8) -> &mut Self {
        self.put_u8(value);
        self
    }

    /// Appends a number of 8 bytes.
    fn word(&mut self, value: u64) -> &mut Self {
        self.put_u64(value);
        self
    }

    /// Appends a number of 4 bytes.
    fn half(&mut self, value: u32) -> &mut Self {
        self.put_u32(value);
        self
    }

    /// Appends a time to live in milliseconds.
    fn span(&mut self, ms: u64) -> &mut Self {
        self.word(ms)
    }

    /// Appends a boolean.
    fn yes(&mut self, yes: bool) -> &mut Self {
        self.byte(yes.into())
    }

    /// Appends a key, a value or a text.
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.put_string(bytes);
        self
    }

    /// Appends an optional number.
    fn maybe_word(&mut self, word: Option<u64>) -> &mut Self {
        match word {
            None => self.yes(false),
            Some(word) => self.yes(true).word(word),
        }
    }

    /// Appends an optional value.
    fn maybe_bytes(&mut self, bytes: Option<&Bytes>) -> &mut Self {
        match bytes {
            None => self.yes(false),
            Some(bytes) => self.yes(true).bytes(bytes),
        }
    }

    /// Appends the length of a list, then each element. A length beyond 32 bits becomes the largest
    /// number, which every reader refuses.
    fn list<T>(&mut self, all: &[T], each: impl Fn(&T, &mut Self)) -> &mut Self {
        self.put_u32(u32::try_from(all.len()).unwrap_or(u32::MAX));
        all.iter().for_each(|one| each(one, self));
        self
    }

    /// Appends a list of keys.
    fn keys(&mut self, keys: &[Key]) -> &mut Self {
        self.list(keys, |key, out| out.put_string(key))
    }
}

impl Fields for Vec<u8> {}

/// Counts the bytes that would be written.
pub(super) struct Size(usize);

impl Size {
    /// Returns the number of bytes that `write` appends.
    pub fn of(write: impl FnOnce(&mut Size)) -> usize {
        let mut size = Size(0);
        write(&mut size);
        size.0
    }
}

impl Fields for Size {}

impl Writer for Size {
    fn put_u8(&mut self, _: u8) {
        self.0 += 1;
    }
    fn put_u32(&mut self, _: u32) {
        self.0 += 4;
    }
    fn put_u64(&mut self, _: u64) {
        self.0 += 8;
    }
    fn put_string(&mut self, value: &[u8]) {
        self.0 += 4 + value.len();
    }
}

/// Decoder of a message from its beginning.
pub(super) struct Source<'a> {
    whole: &'a Bytes,
    rest: Reader<'a>,
    /// Number of further steps of sequences that it may hold, nested ones counted.
    steps: usize,
}

impl<'a> Source<'a> {
    pub fn new(whole: &'a Bytes) -> Source<'a> {
        Source { whole, rest: Reader::new(whole), steps: SEQUENCE_STEPS_MAX }
    }

    pub fn end(self, field: &'static str) -> WireResult<()> {
        self.rest.end(field)
    }

    pub fn byte(&mut self, field: &'static str) -> WireResult<u8> {
        self.rest.u8(field)
    }

    pub fn half(&mut self, field: &'static str) -> WireResult<u32> {
        self.rest.u32(field)
    }

    pub fn word(&mut self, field: &'static str) -> WireResult<u64> {
        self.rest.u64(field)
    }

    /// Reads a number that must fit this machine's `usize`.
    pub fn size(&mut self, field: &'static str) -> WireResult<usize> {
        usize::try_from(self.word(field)?).map_err(|_| Malformed(field))
    }

    pub fn yes(&mut self, field: &'static str) -> WireResult<bool> {
        match self.byte(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed(field)),
        }
    }

    pub fn key(&mut self) -> WireResult<Key> {
        self.bytes(KEY_BYTES_MAX, "key")
    }

    pub fn value(&mut self) -> WireResult<Value> {
        self.bytes(VALUE_BYTES_MAX, "value")
    }

    pub fn maybe_value(&mut self) -> WireResult<Option<Value>> {
        self.maybe("value or none", Source::value)
    }

    /// Reads a slice of the message.
    pub fn bytes(&mut self, max: usize, field: &'static str) -> WireResult<Bytes> {
        let bytes = self.rest.string(max, field)?;
        Ok(self.whole.slice_ref(bytes))
    }

    pub fn text(&mut self, max: usize, field: &'static str) -> WireResult<&'a str> {
        let bytes = self.rest.string(max, field)?;
        std::str::from_utf8(bytes).map_err(|_| Malformed(field))
    }

    pub fn maybe<T>(
        &mut self,
        field: &'static str,
        take: impl FnOnce(&mut Self) -> WireResult<T>,
    ) -> WireResult<Option<T>> {
        Ok(if self.yes(field)? { Some(take(self)?) } else { None })
    }

    /// Reads a list of at most `max` elements of at least `bytes_each` bytes each. Refuses a length
    /// that the rest of the message cannot hold before it allocates anything.
    pub fn list<T>(
        &mut self,
        (max, bytes_each): (usize, usize),
        field: &'static str,
        mut take: impl FnMut(&mut Self) -> WireResult<T>,
    ) -> WireResult<Vec<T>> {
        let count = self.half(field)? as usize;
        if count > max || count > self.rest.rest().len() / bytes_each {
            return Err(Malformed(field));
        }
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            all.push(take(self)?);
        }
        Ok(all)
    }

    /// Reads at most `max` keys.
    pub fn keys(&mut self, max: usize) -> WireResult<Vec<Key>> {
        self.list((max, 4), "how many keys", Source::key)
    }

    /// Reads the steps of a sequence, or their outcomes, inside `depth` other sequences.
    pub fn steps<T>(
        &mut self,
        depth: usize,
        mut take: impl FnMut(&mut Self, usize) -> WireResult<T>,
    ) -> WireResult<Vec<T>> {
        if depth >= SEQUENCE_DEPTH_MAX {
            return Err(Malformed("depth of a sequence"));
        }
        // All steps of the message share one budget, so these are deducted before nested ones are
        // read.
        let claimed = self.rest.clone().u32("how many steps")? as usize;
        let left = self.steps.checked_sub(claimed).ok_or(Malformed("how many steps"))?;
        self.steps = left;
        self.list((claimed, 1), "how many steps", |from| take(from, depth + 1))
    }
}
