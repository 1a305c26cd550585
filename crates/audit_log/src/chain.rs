//! Chain of lines: its head, and what a line says of the files beside its record.

use blake3::Hash;
use serde::{Deserialize, Serialize};

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
        Hash::from(self.hash).to_hex().to_string()
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
    let hash = Hash::from_hex(text).ok()?;
    (hash.to_hex().as_str() == text).then(|| *hash.as_bytes())
}
