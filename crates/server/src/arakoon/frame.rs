//! Parser from bytes to frames: the prologue, and requests. Pure.
//!
//! A request has no length prefix; its command determines the fields that follow. So the parser
//! walks the fields of the command's table row and retains its position when it needs more bytes.
//! It reads no byte twice, and allocates nothing for a length that a field claims.

use super::commands::{ArakoonCommand, ArgumentLayout, find};
use super::values::int_at;
use base::limits::{FRAME_BYTES_MAX, KEYS_PER_READ_MAX};

/// High half of the first word of every request, and of the prologue.
pub const MAGIC: u32 = 0xb1ff_0000;
/// Longest cluster id of an Arakoon client.
pub const CLUSTER_ID_BYTES_MAX: usize = 255;

/// Result of reading a connection's prologue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prologue {
    /// The prologue is incomplete.
    Incomplete,
    /// The bytes are not a prologue of a known version.
    Invalid,
    /// Cluster id, and the length of the prologue in bytes.
    Cluster(Vec<u8>, usize),
}

/// Reads the prologue: magic, version 1, cluster id.
pub fn parse_prologue(bytes: &[u8]) -> Prologue {
    const HEAD: [u8; 8] = [0x00, 0x00, 0xff, 0xb1, 1, 0, 0, 0];
    let present = bytes.len().min(HEAD.len());
    if bytes[..present] != HEAD[..present] {
        return Prologue::Invalid;
    }
    let Some(length) = int_at(bytes, HEAD.len()) else { return Prologue::Incomplete };
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    if length > CLUSTER_ID_BYTES_MAX {
        return Prologue::Invalid;
    }
    let begin = HEAD.len() + 4;
    match bytes.get(begin..begin + length) {
        Some(id) => Prologue::Cluster(id.to_vec(), begin + length),
        None => Prologue::Incomplete,
    }
}

/// Progress of the parser in one request.
#[derive(Debug)]
pub enum ParseProgress {
    /// The request is incomplete: it has at least this many bytes.
    Incomplete(usize),
    /// The request is complete: its command, and its length in bytes.
    Complete(&'static ArakoonCommand, usize),
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

/// Incremental parser that finds the end of each request.
#[derive(Default)]
pub struct Parser {
    command: Option<&'static ArakoonCommand>,
    position: usize,
    field_runs: Vec<FieldRun>,
}

/// Sequence of fields that the parser has yet to walk, `repetitions` times.
struct FieldRun {
    fields: &'static [ArgumentLayout],
    next: usize,
    repetitions: usize,
}

/// Outcome of parsing one field.
enum FrameStep {
    /// Incomplete: the parser requires at least this many bytes of the field.
    Incomplete(usize),
    /// Complete: the field has this many bytes.
    Complete(usize),
    /// A list: number of elements, and the fields of each.
    List(usize, &'static [ArgumentLayout]),
}

impl Parser {
    /// Parses from the beginning of the current request. `bytes` must be those of the last call,
    /// with any number of new ones appended.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<ParseProgress, FrameFault> {
        let command = match self.command {
            Some(command) => command,
            None => match self.parse_code(bytes)? {
                Some(command) => command,
                None => return Ok(ParseProgress::Incomplete(4)),
            },
        };
        while let Some(field_run) = self.field_runs.last_mut() {
            let Some(field) = field_run.fields.get(field_run.next) else {
                (field_run.next, field_run.repetitions) = (0, field_run.repetitions - 1);
                if field_run.repetitions == 0 {
                    self.field_runs.pop();
                }
                continue;
            };
            match step(field, &bytes[self.position..])? {
                FrameStep::Incomplete(length) => {
                    check_length(self.position.saturating_add(length))?;
                    return Ok(ParseProgress::Incomplete(self.position + length));
                }
                FrameStep::Complete(length) => {
                    (self.position, field_run.next) = (self.position + length, field_run.next + 1);
                }
                FrameStep::List(repetitions, fields) => {
                    (self.position, field_run.next) = (self.position + 4, field_run.next + 1);
                    if repetitions > 0 {
                        self.field_runs.push(FieldRun { fields, next: 0, repetitions });
                    }
                }
            }
            check_length(self.position)?;
        }
        Ok(ParseProgress::Complete(command, self.position))
    }

    fn parse_code(&mut self, bytes: &[u8]) -> Result<Option<&'static ArakoonCommand>, FrameFault> {
        let Some(word) = int_at(bytes, 0) else { return Ok(None) };
        let word = word as u32;
        if word & MAGIC != MAGIC {
            return Err(FrameFault::NoMagic);
        }
        let code = word & 0xffff;
        let command = find(code).ok_or(FrameFault::Unknown(code))?;
        (self.command, self.position) = (Some(command), 4);
        self.field_runs.push(FieldRun { fields: command.fields, next: 0, repetitions: 1 });
        Ok(Some(command))
    }

    /// Ends the current request, which the caller has consumed; the next call begins a new one.
    pub fn reset(&mut self) {
        (self.command, self.position) = (None, 0);
        self.field_runs.clear();
    }
}

fn check_length(length: usize) -> Result<(), FrameFault> {
    if length <= FRAME_BYTES_MAX {
        return Ok(());
    }
    Err(FrameFault::TooLarge("frame_bytes_max", FRAME_BYTES_MAX))
}

fn step(field: &ArgumentLayout, rest: &[u8]) -> Result<FrameStep, FrameFault> {
    let fixed = |length: usize| match rest.len() {
        available if available < length => FrameStep::Incomplete(length),
        _ => FrameStep::Complete(length),
    };
    Ok(match field {
        ArgumentLayout::Int => fixed(4),
        ArgumentLayout::Long => fixed(8),
        ArgumentLayout::Flag => match rest.first() {
            None => FrameStep::Incomplete(1),
            Some(0 | 1) => FrameStep::Complete(1),
            Some(_) => return Err(FrameFault::Malformed),
        },
        ArgumentLayout::Consistency => match rest.first() {
            None => FrameStep::Incomplete(1),
            Some(0 | 1) => FrameStep::Complete(1),
            Some(2) => fixed(9),
            Some(_) => return Err(FrameFault::Malformed),
        },
        ArgumentLayout::Text => text(rest, 0)?,
        ArgumentLayout::Maybe => match rest.first() {
            None => FrameStep::Incomplete(1),
            Some(0) => FrameStep::Complete(1),
            Some(1) => text(rest, 1)?,
            Some(_) => return Err(FrameFault::Malformed),
        },
        ArgumentLayout::List(fields) => match int_at(rest, 0) {
            None => FrameStep::Incomplete(4),
            Some(count) => {
                let count = usize::try_from(count).map_err(|_| FrameFault::Malformed)?;
                if count > KEYS_PER_READ_MAX {
                    return Err(FrameFault::TooLarge("keys_per_read_max", KEYS_PER_READ_MAX));
                }
                FrameStep::List(count, fields)
            }
        },
    })
}

/// Measures a string with its length at `offset`.
fn text(rest: &[u8], offset: usize) -> Result<FrameStep, FrameFault> {
    let Some(length) = int_at(rest, offset) else { return Ok(FrameStep::Incomplete(offset + 4)) };
    let length = usize::try_from(length).map_err(|_| FrameFault::Malformed)?;
    let total = offset + 4 + length;
    Ok(if rest.len() < total { FrameStep::Incomplete(total) } else { FrameStep::Complete(total) })
}
