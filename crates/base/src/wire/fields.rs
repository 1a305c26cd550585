//! Codec of the fields that requests, replies and errors share.

use super::WireResult;
use crate::codec::{Malformed, Reader, Writer};
use crate::limits::{KEY_BYTES_MAX, SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX, VALUE_BYTES_MAX};
use crate::{Key, Value};
use bytes::Bytes;

/// Encoder of consecutive fields.
pub(super) trait FieldWriter: Writer + Sized {
    /// Appends a small number, usually a variant's.
    fn u8(&mut self, value: u8) -> &mut Self {
        self.put_u8(value);
        self
    }

    /// Appends a number of 8 bytes.
    fn u64(&mut self, value: u64) -> &mut Self {
        self.put_u64(value);
        self
    }

    /// Appends a number of 4 bytes.
    fn u32(&mut self, value: u32) -> &mut Self {
        self.put_u32(value);
        self
    }

    /// Appends a time to live in milliseconds.
    fn ttl_ms(&mut self, ms: u64) -> &mut Self {
        self.u64(ms)
    }

    /// Appends a boolean.
    fn bool(&mut self, value: bool) -> &mut Self {
        self.u8(value.into())
    }

    /// Appends a key, a value or a text.
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.put_string(bytes);
        self
    }

    /// Appends an optional number.
    fn optional_u64(&mut self, value: Option<u64>) -> &mut Self {
        match value {
            None => self.bool(false),
            Some(value) => self.bool(true).u64(value),
        }
    }

    /// Appends an optional value.
    fn optional_bytes(&mut self, bytes: Option<&Bytes>) -> &mut Self {
        match bytes {
            None => self.bool(false),
            Some(bytes) => self.bool(true).bytes(bytes),
        }
    }

    /// Appends the length of a list, then each element. A length beyond 32 bits becomes the largest
    /// number, which every reader refuses.
    fn list<T>(&mut self, elements: &[T], put: impl Fn(&T, &mut Self)) -> &mut Self {
        self.put_u32(u32::try_from(elements.len()).unwrap_or(u32::MAX));
        elements.iter().for_each(|element| put(element, self));
        self
    }

    /// Appends a list of keys.
    fn keys(&mut self, keys: &[Key]) -> &mut Self {
        self.list(keys, |key, out| out.put_string(key))
    }
}

impl FieldWriter for Vec<u8> {}

/// Writer that only counts the bytes.
pub(super) struct ByteCounter(usize);

impl ByteCounter {
    /// Returns the number of bytes that `write` appends.
    pub fn count(write: impl FnOnce(&mut ByteCounter)) -> usize {
        let mut counter = ByteCounter(0);
        write(&mut counter);
        counter.0
    }
}

impl FieldWriter for ByteCounter {}

impl Writer for ByteCounter {
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

/// Decoder of the consecutive fields of a message.
pub(super) struct FieldReader<'a> {
    message: &'a Bytes,
    reader: Reader<'a>,
    /// Number of further steps of sequences that the message may hold, nested ones counted.
    steps_left: usize,
}

impl<'a> FieldReader<'a> {
    pub fn new(message: &'a Bytes) -> FieldReader<'a> {
        FieldReader { message, reader: Reader::new(message), steps_left: SEQUENCE_STEPS_MAX }
    }

    pub fn end(self, field: &'static str) -> WireResult<()> {
        self.reader.end(field)
    }

    /// Returns the bytes not read yet.
    pub fn rest(&self) -> Bytes {
        self.message.slice_ref(self.reader.rest())
    }

    pub fn u8(&mut self, field: &'static str) -> WireResult<u8> {
        self.reader.u8(field)
    }

    pub fn u32(&mut self, field: &'static str) -> WireResult<u32> {
        self.reader.u32(field)
    }

    pub fn u64(&mut self, field: &'static str) -> WireResult<u64> {
        self.reader.u64(field)
    }

    /// Reads a number that must fit this machine's `usize`.
    pub fn usize(&mut self, field: &'static str) -> WireResult<usize> {
        usize::try_from(self.u64(field)?).map_err(|_| Malformed(field))
    }

    pub fn bool(&mut self, field: &'static str) -> WireResult<bool> {
        match self.u8(field)? {
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

    pub fn optional_value(&mut self) -> WireResult<Option<Value>> {
        self.optional("value or none", FieldReader::value)
    }

    /// Reads a slice of the message.
    pub fn bytes(&mut self, max: usize, field: &'static str) -> WireResult<Bytes> {
        let bytes = self.reader.string(max, field)?;
        Ok(self.message.slice_ref(bytes))
    }

    pub fn text(&mut self, max: usize, field: &'static str) -> WireResult<&'a str> {
        let bytes = self.reader.string(max, field)?;
        std::str::from_utf8(bytes).map_err(|_| Malformed(field))
    }

    pub fn optional<T>(
        &mut self,
        field: &'static str,
        take: impl FnOnce(&mut Self) -> WireResult<T>,
    ) -> WireResult<Option<T>> {
        Ok(if self.bool(field)? { Some(take(self)?) } else { None })
    }

    /// Reads a list of at most `max` elements of at least `bytes_each` bytes each. Refuses a length
    /// that the rest of the message cannot hold before it allocates anything.
    pub fn list<T>(
        &mut self,
        (max, bytes_each): (usize, usize),
        field: &'static str,
        mut take: impl FnMut(&mut Self) -> WireResult<T>,
    ) -> WireResult<Vec<T>> {
        let count = self.u32(field)? as usize;
        if count > max || count > self.reader.rest().len() / bytes_each {
            return Err(Malformed(field));
        }
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(take(self)?);
        }
        Ok(elements)
    }

    /// Reads at most `max` keys.
    pub fn keys(&mut self, max: usize) -> WireResult<Vec<Key>> {
        self.list((max, 4), "number of keys", FieldReader::key)
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
        let claimed = self.reader.clone().u32("number of steps")? as usize;
        let remaining = self.steps_left.checked_sub(claimed).ok_or(Malformed("number of steps"))?;
        self.steps_left = remaining;
        self.list((claimed, 1), "number of steps", |from| take(from, depth + 1))
    }
}
