//! Primitive values of Arakoon's protocol: little-endian, strings with a length prefix. Pure.

use bytes::Bytes;

/// Error: the bytes do not have the layout of their command or update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads a 32-bit number at an offset. Returns `None` if fewer than four bytes are there.
pub fn int_at(bytes: &[u8], offset: usize) -> Option<i32> {
    let chunk = bytes.get(offset..)?.first_chunk::<4>()?;
    Some(i32::from_le_bytes(*chunk))
}

/// Reader of values in order; it copies nothing.
pub struct ValueReader {
    rest: Bytes,
}

impl ValueReader {
    /// Returns a reader at the beginning of these bytes.
    pub fn new(bytes: Bytes) -> ValueReader {
        ValueReader { rest: bytes }
    }

    fn read_bytes(&mut self, length: usize) -> Result<Bytes, Malformed> {
        if length > self.rest.len() {
            return Err(Malformed);
        }
        Ok(self.rest.split_to(length))
    }

    /// Reads a 32-bit number.
    pub fn int(&mut self) -> Result<i32, Malformed> {
        let number = int_at(&self.rest, 0).ok_or(Malformed)?;
        self.read_bytes(4)?;
        Ok(number)
    }

    /// Reads a 64-bit number.
    pub fn long(&mut self) -> Result<i64, Malformed> {
        let number = self.rest.first_chunk::<8>().map(|chunk| i64::from_le_bytes(*chunk));
        self.read_bytes(8)?;
        number.ok_or(Malformed)
    }

    /// Reads a byte that must be 0 or 1.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.read_bytes(1)?[0])
    }

    /// Reads a 32-bit number that must not be negative: a number of elements or bytes.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.int()?).map_err(|_| Malformed)
    }

    /// Reads a string.
    pub fn text(&mut self) -> Result<Bytes, Malformed> {
        let length = self.count()?;
        self.read_bytes(length)
    }

    /// Reads an optional string.
    pub fn option(&mut self) -> Result<Option<Bytes>, Malformed> {
        Ok(if self.flag()? { Some(self.text()?) } else { None })
    }

    /// Reads a list of strings, in the order of the wire. A claimed count that the bytes can't hold
    /// is an error, so it never sizes an allocation.
    pub fn texts(&mut self) -> Result<Vec<Bytes>, Malformed> {
        let count = self.count()?;
        if count > self.rest.len() / 4 {
            return Err(Malformed);
        }
        (0..count).map(|_| self.text()).collect()
    }

    /// Checks that nothing is left. Otherwise the bytes are malformed.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Writer of values.
pub trait Wire {
    /// Appends a 32-bit number.
    fn int(&mut self, number: i32);
    /// Appends a 64-bit number.
    fn long(&mut self, number: i64);
    /// Appends the bits of a floating point number.
    fn float(&mut self, number: f64);
    /// Appends one byte, 0 or 1.
    fn flag(&mut self, flag: bool);
    /// Appends a string with its length.
    fn text(&mut self, text: &[u8]);
    /// Appends a flag, then the string if there is one.
    fn option(&mut self, text: Option<&[u8]>);
    /// Appends the number of elements or bytes that follow.
    fn count(&mut self, count: usize);
}

impl Wire for Vec<u8> {
    fn int(&mut self, number: i32) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn long(&mut self, number: i64) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn float(&mut self, number: f64) {
        self.extend_from_slice(&number.to_bits().to_le_bytes());
    }

    fn flag(&mut self, flag: bool) {
        self.push(u8::from(flag));
    }

    fn text(&mut self, text: &[u8]) {
        self.count(text.len());
        self.extend_from_slice(text);
    }

    fn option(&mut self, text: Option<&[u8]>) {
        self.flag(text.is_some());
        if let Some(text) = text {
            self.text(text);
        }
    }

    fn count(&mut self, count: usize) {
        let count = i32::try_from(count).expect("answers are limited long before 2 GiB");
        self.int(count);
    }
}
