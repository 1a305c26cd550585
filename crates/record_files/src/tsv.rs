//! Format `tsv`: a record is a line with key, tab, value.

use super::RecordBatch;
use memchr::memchr;
use std::io::{self, Write};

/// Parses a line without its newline.
pub fn read(line: &[u8], batch: &mut RecordBatch) -> Result<(), String> {
    let tab = memchr(b'\t', line);
    let tab = tab.ok_or("there is no tab between key and value")?;
    unescape(&line[..tab], batch.buffer())?;
    batch.end_key();
    unescape(&line[tab + 1..], batch.buffer())
}

/// Writes a line.
pub fn write(sink: &mut impl Write, key: &[u8], value: &[u8]) -> io::Result<()> {
    escape(sink, key)?;
    sink.write_all(b"\t")?;
    escape(sink, value)?;
    sink.write_all(b"\n")
}

fn escape(sink: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while let Some(at) = bytes.iter().position(|byte| matches!(byte, 0..=31 | b'\\' | 127)) {
        sink.write_all(&bytes[..at])?;
        match bytes[at] {
            b'\t' => sink.write_all(b"\\t")?,
            b'\n' => sink.write_all(b"\\n")?,
            b'\r' => sink.write_all(b"\\r")?,
            b'\\' => sink.write_all(b"\\\\")?,
            byte => write!(sink, "\\x{byte:02x}")?,
        }
        bytes = &bytes[at + 1..];
    }
    sink.write_all(bytes)
}

/// Appends the bytes of an escaped text.
pub fn unescape(mut text: &[u8], sink: &mut Vec<u8>) -> Result<(), String> {
    while let Some(at) = memchr(b'\\', text) {
        sink.extend_from_slice(&text[..at]);
        let (byte, length) = match text.get(at + 1) {
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'\\') => (b'\\', 2),
            Some(b'x') => (hex_byte(text.get(at + 2..at + 4))?, 4),
            _ => return Err("a backslash stands before none of t n r x \\".into()),
        };
        sink.push(byte);
        text = &text[at + length..];
    }
    sink.extend_from_slice(text);
    Ok(())
}

fn hex_byte(digits: Option<&[u8]>) -> Result<u8, String> {
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    let text = digits.and_then(|digits| std::str::from_utf8(digits).ok());
    text.and_then(|text| u8::from_str_radix(text, 16).ok())
        .ok_or_else(|| "two hexadecimal digits must follow \\x".into())
}
