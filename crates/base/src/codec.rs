//! Plain values and their bytes: little-endian primitives of whole words, strings, checksums.
//!
//! Integers are written and read as machine words (one store, one load), never byte by byte in a
//! loop; `credenza bench codec` measures the difference. A [`Reader`] never panics: what is missing
//! or too large is [`Malformed`].

use bytes::Bytes;

/// Error of bytes that do not decode; the text names the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Appends whole words to a byte buffer. All numbers little-endian.
pub trait Writer {
    /// Appends one byte.
    fn put_u8(&mut self, value: u8);
    /// Appends four bytes.
    fn put_u32(&mut self, value: u32);
    /// Appends eight bytes.
    fn put_u64(&mut self, value: u64);
    /// Appends a length of four bytes, then the bytes. The caller has checked the length against
    /// its limit.
    fn put_string(&mut self, value: &[u8]);
}

impl Writer for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    #[inline]
    fn put_string(&mut self, value: &[u8]) {
        let length = u32::try_from(value.len()).expect("strings are limited long before 4 GiB");
        self.put_u32(length);
        self.extend_from_slice(value);
    }
}

/// Reads what a [`Writer`] wrote, without copying.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader at the beginning of these bytes.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Returns the bytes not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns true if all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads the next `length` bytes.
    #[inline]
    pub fn take(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(Malformed(field))?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads one byte.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        Ok(self.take(1, field)?[0])
    }

    /// Reads four bytes.
    #[inline]
    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk::<4>().ok_or(Malformed(field))?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    /// Reads eight bytes.
    #[inline]
    pub fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or(Malformed(field))?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Reads a string of at most `max` bytes.
    #[inline]
    pub fn string(&mut self, max: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let length = self.u32(field)? as usize;
        if length > max {
            return Err(Malformed(field));
        }
        self.take(length, field)
    }

    /// Ends the reading. Errors: `Malformed` if bytes are left.
    pub fn end(self, field: &'static str) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed(field)) }
    }
}

/// Returns the xxh3 checksum of `bytes`, salted.
#[inline]
pub fn checksum(bytes: &[u8], salt: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, salt)
}

/// Returns true for characters that a terminal does not show as a sign of their own: they move or
/// hide others, or look like nothing. Text with them reads otherwise than its bytes.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            // Soft hyphen, joiners, and marks of the direction of text.
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // Fillers and selectors of a variant.
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
            // Signs of scripts and notes that only change their neighbours, and tags.
            | '\u{600}'..='\u{605}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        )
}

/// Returns bytes as text: hidden characters ([`is_hidden`]) and bytes that are not UTF-8 are
/// escaped as `\xNN`, so one event stays one line and shows what it holds.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                c if is_hidden(c) => {
                    let mut buffer = [0; 4];
                    for byte in c.encode_utf8(&mut buffer).bytes() {
                        text.push_str(&format!("\\x{byte:02x}"));
                    }
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Parses a decimal 64-bit number as Redis does: an optional minus, digits, nothing else, no
/// leading zeros. `None`: it is another text.
pub fn decimal(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let canonical = !digits.is_empty()
        && digits.len() <= 19
        && digits.iter().all(u8::is_ascii_digit)
        && (digits[0] != b'0' || bytes == b"0");
    if !canonical {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Returns a number as decimal bytes.
pub fn decimal_bytes(number: i64) -> Bytes {
    Bytes::from(number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec_primitives_round_trip_and_truncated_input_is_malformed() {
        let mut bytes = Vec::new();
        bytes.put_u8(7);
        bytes.put_u32(0xDEAD_BEEF);
        bytes.put_u64(u64::MAX - 1);
        bytes.put_string(b"abc");
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.u8("a"), Ok(7));
        assert_eq!(reader.u32("b"), Ok(0xDEAD_BEEF));
        assert_eq!(reader.u64("c"), Ok(u64::MAX - 1));
        assert_eq!(reader.clone().string(2, "d"), Err(Malformed("d")));
        assert_eq!(reader.string(3, "d"), Ok(&b"abc"[..]));
        assert_eq!(reader.clone().u8("e"), Err(Malformed("e")));
        assert_eq!(reader.end("end"), Ok(()));
        let mut torn = Reader::new(&bytes[..bytes.len() - 1]);
        torn.take(13, "front").expect("there");
        assert_eq!(torn.string(3, "d"), Err(Malformed("d")));
    }

    #[test]
    fn keys_that_collide_under_one_salt_are_spread_under_another() {
        const PLACES: u64 = 1 << 12;
        let keys = (0_u32..).map(|number| format!("k{number}").into_bytes());
        let corpus: Vec<_> =
            keys.filter(|key| checksum(key, 0).is_multiple_of(PLACES)).take(128).collect();
        for salt in [1, 2, u64::MAX] {
            let mut places: Vec<_> =
                corpus.iter().map(|key| checksum(key, salt) % PLACES).collect();
            places.sort_unstable();
            places.dedup();
            assert!(places.len() > 115, "{} places of 128 keys", places.len());
        }
    }

    #[test]
    fn decimal_accepts_only_canonical_i64_text() {
        for (text, number) in [
            ("0", 0),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(decimal(text.as_bytes()), Some(number));
            assert_eq!(decimal_bytes(number), text);
        }
        for text in ["", "-", "+1", " 1", "1 ", "01", "-0", "9223372036854775808", "1e3", "0x1"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn printable_escapes_control_bytes_and_backslashes() {
        assert_eq!(printable(b"a\\b\n\xff\xc3\xa9"), "a\\\\b\\x0a\\xffé");
    }

    #[test]
    fn printable_escapes_characters_that_hide_or_reorder_text() {
        assert_eq!(printable("a\u{202e}b".as_bytes()), "a\\xe2\\x80\\xaeb");
        assert_eq!(printable("\u{200b}".as_bytes()), "\\xe2\\x80\\x8b");
        for hidden in ["\u{2066}", "\u{feff}", "\u{ad}", "\u{2028}", "\u{e0041}", "\u{3164}"] {
            assert!(printable(hidden.as_bytes()).starts_with("\\x"), "{}", hidden.escape_unicode());
        }
        let shown = "aä中ع👍 \u{a0}";
        assert_eq!(printable(shown.as_bytes()), shown);
    }
}
