//! Chain of lines: its head, and what a line says of the files beside its record.

use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Number of hexadecimal digits of a hash.
pub const HASH_DIGITS: usize = 64;

/// Last line of a chain: what the next one follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainHead {
    /// Number of the line, from 1. 0: there is no line yet.
    pub seq: u64,
    /// Hash of the line.
    pub hash: [u8; 32],
}

impl ChainHead {
    /// Returns the hash as hexadecimal digits.
    pub fn hash_text(&self) -> String {
        self.hash.iter().fold(String::with_capacity(HASH_DIGITS), |mut text, byte| {
            let _ = write!(text, "{byte:02x}"); // Writing to a string can't fail.
            text
        })
    }

    /// Parses `SEQ:HASH`, as the command line has it. `None`: it has another form.
    pub fn parse(text: &str) -> Option<ChainHead> {
        let (seq, hash) = text.split_once(':')?;
        Some(ChainHead { seq: seq.parse().ok()?, hash: parse_hash(hash)? })
    }
}

/// Bytes that a crash left behind the last whole line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TornTail {
    /// Name of the file.
    pub file: String,
    /// Number of the bytes.
    pub bytes: u64,
    /// BLAKE3 of the bytes, as hexadecimal digits.
    pub hash: String,
}

/// Notes of a line about the files, beside its record.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineNotes<'a> {
    /// Number of the file, in its first line.
    pub file: Option<u64>,
    /// Torn bytes in front of the line.
    pub torn: Option<&'a TornTail>,
}

/// Parses lower-case hexadecimal digits: each hash has one form.
pub fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != HASH_DIGITS {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(hash)
}
