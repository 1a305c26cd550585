//! Arakoon's primitive values and their bytes: little-endian, strings with their length in front.
//! Pure.

use bytes::Bytes;

/// Bytes that are not what their command or update says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A number in the first four bytes.
pub fn int_at(bytes: &[u8], at: usize) -> Option<i32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(i32::from_le_bytes(*word))
}

/// Reads values in order, without copying.
pub struct ValueReader {
    rest: Bytes,
}

impl ValueReader {
    /// From the beginning of these bytes.
    pub fn new(bytes: Bytes) -> ValueReader {
        ValueReader { rest: bytes }
    }

    fn take(&mut self, length: usize) -> Result<Bytes, Malformed> {
        if length > self.rest.len() {
            return Err(Malformed);
        }
        Ok(self.rest.split_to(length))
    }

    /// A 32-bit number.
    pub fn int(&mut self) -> Result<i32, Malformed> {
        let number = int_at(&self.rest, 0).ok_or(Malformed)?;
        self.take(4)?;
        Ok(number)
    }

    /// A 64-bit number.
    pub fn long(&mut self) -> Result<i64, Malformed> {
        let number = self.rest.first_chunk::<8>().map(|word| i64::from_le_bytes(*word));
        self.take(8)?;
        number.ok_or(Malformed)
    }

    /// One byte that is 0 or 1.
    pub fn flag(&mut self) -> Result<bool, Malformed> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// A number that counts or measures what follows.
    pub fn count(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.int()?).map_err(|_| Malformed)
    }

    /// A string.
    pub fn text(&mut self) -> Result<Bytes, Malformed> {
        let length = self.count()?;
        self.take(length)
    }

    /// A string, or none.
    pub fn maybe(&mut self) -> Result<Option<Bytes>, Malformed> {
        Ok(if self.flag()? { Some(self.text()?) } else { None })
    }

    /// A list of strings in the order of the wire. Nothing is allocated for a claimed count that
    /// the bytes can't hold.
    pub fn texts(&mut self) -> Result<Vec<Bytes>, Malformed> {
        let count = self.count()?;
        if count > self.rest.len() / 4 {
            return Err(Malformed);
        }
        (0..count).map(|_| self.text()).collect()
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Appends values.
pub trait Wire {
    /// A 32-bit number.
    fn int(&mut self, number: i32);
    /// A 64-bit number.
    fn long(&mut self, number: i64);
    /// A floating point number: its bits.
    fn float(&mut self, number: f64);
    /// One byte, 0 or 1.
    fn flag(&mut self, flag: bool);
    /// A string.
    fn text(&mut self, text: &[u8]);
    /// A string, or none.
    fn maybe(&mut self, text: Option<&[u8]>);
    /// How many elements follow, or how many bytes.
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

    fn maybe(&mut self, text: Option<&[u8]>) {
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
