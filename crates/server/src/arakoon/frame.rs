//! Parser from bytes to frames: the prologue, and requests. Pure.
//!
//! A request has no length prefix; only its command says which fields follow. So the parser walks
//! the fields of the command's table row and keeps its position when it needs more bytes. It never
//! reads a byte twice, and allocates nothing for a length that a field claims.

use super::commands::{ArakoonCommand, ArgumentLayout, find};
use super::words::int_at;
use base::limits::{FRAME_BYTES_MAX, KEYS_PER_READ_MAX};

/// High half of the first word of every request, and of the prologue.
pub const MAGIC: u32 = 0xb1ff_0000;
/// Longest cluster id of an Arakoon client.
pub const CLUSTER_ID_BYTES_MAX: usize = 255;

/// Result of reading a connection's prologue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// The prologue is incomplete.
    More,
    /// The bytes are not a prologue of a known version.
    Foreign,
    /// Cluster id, and the length of the prologue in bytes.
    Cluster(Vec<u8>, usize),
}

/// Reads the prologue: magic, version 1, cluster id.
pub fn hello(bytes: &[u8]) -> Hello {
    const HEAD: [u8; 8] = [0x00, 0x00, 0xff, 0xb1, 1, 0, 0, 0];
    let told = bytes.len().min(HEAD.len());
    if bytes[..told] != HEAD[..told] {
        return Hello::Foreign;
    }
    let Some(length) = int_at(bytes, HEAD.len()) else { return Hello::More };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > CLUSTER_ID_BYTES_MAX {
        return Hello::Foreign;
    }
    let begin = HEAD.len() + 4;
    match bytes.get(begin..begin + length) {
        Some(id) => Hello::Cluster(id.to_vec(), begin + length),
        None => Hello::More,
    }
}

/// Progress of the parser in one request.
#[derive(Debug)]
pub enum ParseProgress {
    /// The request is incomplete: it has at least this many bytes.
    More(usize),
    /// The request is complete: its command, and its length in bytes.
    Frame(&'static ArakoonCommand, usize),
}

/// Reason why bytes are not a request. The rest of the connection can't be parsed after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The first word lacks the magic number.
    NoMagic,
    /// No command has this code, so the end of the request is unknown.
    Unknown(u32),
    /// A field holds a value that its layout does not allow.
    Malformed,
    /// The request exceeds a limit on its bytes or elements: the limit's name and value.
    TooLarge(&'static str, usize),
}

/// Incremental parser that finds where each request ends.
#[derive(Default)]
pub struct Parser {
    command: Option<&'static ArakoonCommand>,
    at: usize,
    walks: Vec<FieldRun>,
}

/// Sequence of fields that the parser has still to walk, `rounds` times.
struct FieldRun {
    fields: &'static [ArgumentLayout],
    next: usize,
    rounds: usize,
}

/// Outcome of looking at one field.
enum FrameStep {
    /// Incomplete: this many bytes of the field must be present before the parser can go on.
    Needs(usize),
    /// Complete: the field takes this many bytes.
    Takes(usize),
    /// A list: number of elements, and the fields of each.
    Repeats(usize, &'static [ArgumentLayout]),
}

impl Parser {
    /// Parses from the beginning of the current request. `bytes` must be those of the last call,
    /// with any number of new ones appended.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<ParseProgress, FrameFault> {
        let command = match self.command {
            Some(command) => command,
            None => match self.begin(bytes)? {
                Some(command) => command,
                None => return Ok(ParseProgress::More(4)),
            },
        };
        while let Some(walk) = self.walks.last_mut() {
            let Some(field) = walk.fields.get(walk.next) else {
                (walk.next, walk.rounds) = (0, walk.rounds - 1);
                if walk.rounds == 0 {
                    self.walks.pop();
                }
                continue;
            };
            match step(field, &bytes[self.at..])? {
                FrameStep::Needs(length) => {
                    within(self.at.saturating_add(length))?;
                    return Ok(ParseProgress::More(self.at + length));
                }
                FrameStep::Takes(length) => {
                    (self.at, walk.next) = (self.at + length, walk.next + 1);
                }
                FrameStep::Repeats(rounds, fields) => {
                    (self.at, walk.next) = (self.at + 4, walk.next + 1);
                    if rounds > 0 {
                        self.walks.push(FieldRun { fields, next: 0, rounds });
                    }
                }
            }
            within(self.at)?;
        }
        Ok(ParseProgress::Frame(command, self.at))
    }

    fn begin(&mut self, bytes: &[u8]) -> Result<Option<&'static ArakoonCommand>, FrameFault> {
        let Some(word) = int_at(bytes, 0) else { return Ok(None) };
        let word = word as u32;
        if word & MAGIC != MAGIC {
            return Err(FrameFault::NoMagic);
        }
        let code = word & 0xffff;
        let command = find(code).ok_or(FrameFault::Unknown(code))?;
        (self.command, self.at) = (Some(command), 4);
        self.walks.push(FieldRun { fields: command.fields, next: 0, rounds: 1 });
        Ok(Some(command))
    }

    /// Forgets the current request, which the caller has consumed; the next call begins a new one.
    pub fn reset(&mut self) {
        (self.command, self.at) = (None, 0);
        self.walks.clear();
    }
}

fn within(length: usize) -> Result<(), FrameFault> {
    if length <= FRAME_BYTES_MAX {
        return Ok(());
    }
    Err(FrameFault::TooLarge("frame_bytes_max", FRAME_BYTES_MAX))
}

fn step(field: &ArgumentLayout, rest: &[u8]) -> Result<FrameStep, FrameFault> {
    let fixed = |length: usize| match rest.len() {
        there if there < length => FrameStep::Needs(length),
        _ => FrameStep::Takes(length),
    };
    Ok(match field {
        ArgumentLayout::Int => fixed(4),
        ArgumentLayout::Long => fixed(8),
        ArgumentLayout::Flag => match rest.first() {
            None => FrameStep::Needs(1),
            Some(0 | 1) => FrameStep::Takes(1),
            Some(_) => return Err(FrameFault::Malformed),
        },
        ArgumentLayout::Consistency => match rest.first() {
            None => FrameStep::Needs(1),
            Some(0 | 1) => FrameStep::Takes(1),
            Some(2) => fixed(9),
            Some(_) => return Err(FrameFault::Malformed),
        },
        ArgumentLayout::Text => text(rest, 0)?,
        ArgumentLayout::Maybe => match rest.first() {
            None => FrameStep::Needs(1),
            Some(0) => FrameStep::Takes(1),
            Some(1) => text(rest, 1)?,
            Some(_) => return Err(FrameFault::Malformed),
        },
        ArgumentLayout::Many(fields) => match int_at(rest, 0) {
            None => FrameStep::Needs(4),
            Some(count) => {
                let count = usize::try_from(count).map_err(|_| FrameFault::Malformed)?;
                if count > KEYS_PER_READ_MAX {
                    return Err(FrameFault::TooLarge("keys_per_read_max", KEYS_PER_READ_MAX));
                }
                FrameStep::Repeats(count, fields)
            }
        },
    })
}

/// Measures a string that follows `before` bytes.
fn text(rest: &[u8], before: usize) -> Result<FrameStep, FrameFault> {
    let Some(length) = int_at(rest, before) else { return Ok(FrameStep::Needs(before + 4)) };
    let length = usize::try_from(length).map_err(|_| FrameFault::Malformed)?;
    let whole = before + 4 + length;
    Ok(if rest.len() < whole { FrameStep::Needs(whole) } else { FrameStep::Takes(whole) })
}
