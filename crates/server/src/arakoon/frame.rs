//! Bytes to frames: the prologue, and requests. Pure.
//!
//! A request has no length in front; only its command knows how it goes on. So the parser walks
//! along the fields of the command's row in the table, and remembers where it was when more bytes
//! are wanted: what has been walked over is never looked at again, and nothing is allocated for
//! what a field claims.

use super::commands::{ArakoonCommand, ArgumentLayout, find};
use super::words::int_at;
use base::limits::{FRAME_BYTES_MAX, KEYS_PER_READ_MAX};

/// The high half of every request's first word, and of the prologue's.
pub const MAGIC: u32 = 0xb1ff_0000;
/// Longest cluster id of an Arakoon client.
pub const CLUSTER_ID_BYTES_MAX: usize = 255;

/// What a connection begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hello {
    /// Too few bytes to tell.
    More,
    /// No prologue of a version that exists.
    Foreign,
    /// The cluster that is meant, and how long the prologue was.
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

/// How far the bytes go.
#[derive(Debug)]
pub enum ParseProgress {
    /// The request has at least this many bytes.
    More(usize),
    /// A whole request: its command, and how many bytes it has.
    Frame(&'static ArakoonCommand, usize),
}

/// Why bytes are no request; after it nothing on the connection means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The first word is none of a request.
    NoMagic,
    /// There is no such command, so nobody knows where the next one begins.
    Unknown(u32),
    /// A field says what it can't say.
    Malformed,
    /// More bytes or elements than a request may have.
    TooLarge(&'static str, usize),
}

/// Finds where requests end.
#[derive(Default)]
pub struct Parser {
    command: Option<&'static ArakoonCommand>,
    at: usize,
    walks: Vec<FieldRun>,
}

/// A run of fields that is walked over so many times.
struct FieldRun {
    fields: &'static [ArgumentLayout],
    next: usize,
    rounds: usize,
}

/// What a field turns out to be.
enum FrameStep {
    /// So many bytes must be there before more can be said.
    Needs(usize),
    /// It has this many bytes.
    Takes(usize),
    /// A count of runs of these fields.
    Repeats(usize, &'static [ArgumentLayout]),
}

impl Parser {
    /// Looks at the bytes of a connection from where the request begins; the same ones as before,
    /// and more.
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

    /// The request was taken; the next one begins.
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

/// A string behind so many bytes.
fn text(rest: &[u8], before: usize) -> Result<FrameStep, FrameFault> {
    let Some(length) = int_at(rest, before) else { return Ok(FrameStep::Needs(before + 4)) };
    let length = usize::try_from(length).map_err(|_| FrameFault::Malformed)?;
    let whole = before + 4 + length;
    Ok(if rest.len() < whole { FrameStep::Needs(whole) } else { FrameStep::Takes(whole) })
}
