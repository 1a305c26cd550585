//! Lines of the audit log: a chain of hashes.
//!
//! A line is a JSON object. Its first field, `before`, is the hash of the line before; its last
//! one, `hash`, is the BLAKE3 of all bytes of the line in front of `,"hash"`. So each line covers
//! all lines before it, and any change of a byte shows in the line itself. The first line of a file
//! has the file's number, so that none can be taken from a file's beginning.

use crate::body::body;
use crate::chain::{ChainHead, HASH_DIGITS, LineNotes, TornTail, parse_hash};
use crate::record::AuditEntry;
use serde::Deserialize;

/// Longest line that is read, in bytes. The longest one that is written is shorter.
pub const LINE_BYTES_MAX: usize = 16 * 1024;
/// Bytes between the covered ones and the hash.
const HASH_BEGIN: &[u8] = b",\"hash\":\"";
/// Bytes behind the hash.
const HASH_END: &[u8] = b"\"}";

/// Line as it was read. Its own hash matches its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedLine {
    /// The line itself.
    pub head: ChainHead,
    /// Hash of the line before.
    pub before: [u8; 32],
    /// Number of the file, in its first line.
    pub file: Option<u64>,
    /// Torn bytes in front of this line, which it reports.
    pub torn: Option<TornTail>,
}

#[derive(Deserialize)]
struct LineFields {
    before: String,
    seq: u64,
    file: Option<u64>,
    torn: Option<TornTail>,
}

/// Appends the line of an entry, with its newline. Returns the chain's new head.
pub fn encode(
    last: &ChainHead,
    entry: &AuditEntry,
    notes: LineNotes<'_>,
    out: &mut Vec<u8>,
) -> ChainHead {
    let mut body = body(last, entry, notes).into_bytes();
    // The brace that closes the object comes behind the hash.
    body.pop();
    let head = ChainHead { seq: last.seq + 1, hash: *blake3::hash(&body).as_bytes() };
    out.extend_from_slice(&body);
    out.extend_from_slice(HASH_BEGIN);
    out.extend_from_slice(head.hash_text().as_bytes());
    out.extend_from_slice(HASH_END);
    out.push(b'\n');
    head
}

/// Reads a line without its newline. Errors: the fault, in words.
pub fn parse(line: &[u8]) -> Result<ParsedLine, &'static str> {
    const NO_LINE: &str = "it is no line of an audit log";
    let end_bytes = HASH_BEGIN.len() + HASH_DIGITS + HASH_END.len();
    let at = line.len().checked_sub(end_bytes).ok_or(NO_LINE)?;
    let (body, end) = line.split_at(at);
    let hash = end.strip_prefix(HASH_BEGIN).and_then(|rest| rest.strip_suffix(HASH_END));
    let hash = hash.ok_or(NO_LINE)?;
    let computed = blake3::hash(body);
    if computed.to_hex().as_bytes() != hash {
        return Err("its hash does not match its bytes");
    }
    let fields: LineFields = serde_json::from_slice(line).map_err(|_| NO_LINE)?;
    let before = parse_hash(&fields.before).ok_or(NO_LINE)?;
    let head = ChainHead { seq: fields.seq, hash: *computed.as_bytes() };
    Ok(ParsedLine { head, before, file: fields.file, torn: fields.torn })
}
