//! Bytes to frames: the prologue, and requests. Pure.
//!
//! A request has no length in front; only its command knows how it goes on. So the parser walks
//! along the fields of the command's row in the table, and remembers where it was when more bytes
//! are wanted: what has been walked over is never looked at again, and nothing is allocated for
//! what a field claims.

use super::commands::{Command, Field, find};
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
pub enum Progress {
    /// The request has at least this many bytes.
    More(usize),
    /// A whole request: its command, and how many bytes it has.
    Frame(&'static Command, usize),
}

/// Why bytes are no request; after it nothing on the connection means anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
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
    command: Option<&'static Command>,
    at: usize,
    walks: Vec<Walk>,
}

/// A run of fields that is walked over so many times.
struct Walk {
    fields: &'static [Field],
    next: usize,
    rounds: usize,
}

/// What a field turns out to be.
enum Step {
    /// So many bytes must be there before more can be said.
    Needs(usize),
    /// It has this many bytes.
    Takes(usize),
    /// A count of runs of these fields.
    Repeats(usize, &'static [Field]),
}

impl Parser {
    /// Looks at the bytes of a connection from where the request begins; the same ones as before,
    /// and more.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Progress, Fault> {
        let command = match self.command {
            Some(command) => command,
            None => match self.begin(bytes)? {
                Some(command) => command,
                None => return Ok(Progress::More(4)),
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
                Step::Needs(length) => {
                    within(self.at.saturating_add(length))?;
                    return Ok(Progress::More(self.at + length));
                }
                Step::Takes(length) => {
                    (self.at, walk.next) = (self.at + length, walk.next + 1);
                }
                Step::Repeats(rounds, fields) => {
                    (self.at, walk.next) = (self.at + 4, walk.next + 1);
                    if rounds > 0 {
                        self.walks.push(Walk { fields, next: 0, rounds });
                    }
                }
            }
            within(self.at)?;
        }
        Ok(Progress::Frame(command, self.at))
    }

    fn begin(&mut self, bytes: &[u8]) -> Result<Option<&'static Command>, Fault> {
        let Some(word) = int_at(bytes, 0) else { return Ok(None) };
        let word = word as u32;
        if word & MAGIC != MAGIC {
            return Err(Fault::NoMagic);
        }
        let code = word & 0xffff;
        let command = find(code).ok_or(Fault::Unknown(code))?;
        (self.command, self.at) = (Some(command), 4);
        self.walks.push(Walk { fields: command.fields, next: 0, rounds: 1 });
        Ok(Some(command))
    }

    /// The request was taken; the next one begins.
    pub fn reset(&mut self) {
        (self.command, self.at) = (None, 0);
        self.walks.clear();
    }
}

fn within(length: usize) -> Result<(), Fault> {
    if length <= FRAME_BYTES_MAX {
        return Ok(());
    }
    Err(Fault::TooLarge("frame_bytes_max", FRAME_BYTES_MAX))
}

fn step(field: &Field, rest: &[u8]) -> Result<Step, Fault> {
    let fixed = |length: usize| match rest.len() {
        there if there < length => Step::Needs(length),
        _ => Step::Takes(length),
    };
    Ok(match field {
        Field::Int => fixed(4),
        Field::Long => fixed(8),
        Field::Flag => match rest.first() {
            None => Step::Needs(1),
            Some(0 | 1) => Step::Takes(1),
            Some(_) => return Err(Fault::Malformed),
        },
        Field::Consistency => match rest.first() {
            None => Step::Needs(1),
            Some(0 | 1) => Step::Takes(1),
            Some(2) => fixed(9),
            Some(_) => return Err(Fault::Malformed),
        },
        Field::Text => text(rest, 0)?,
        Field::Maybe => match rest.first() {
            None => Step::Needs(1),
            Some(0) => Step::Takes(1),
            Some(1) => text(rest, 1)?,
            Some(_) => return Err(Fault::Malformed),
        },
        Field::Many(fields) => match int_at(rest, 0) {
            None => Step::Needs(4),
            Some(count) => {
                let count = usize::try_from(count).map_err(|_| Fault::Malformed)?;
                if count > KEYS_PER_READ_MAX {
                    return Err(Fault::TooLarge("keys_per_read_max", KEYS_PER_READ_MAX));
                }
                Step::Repeats(count, fields)
            }
        },
    })
}

/// A string behind so many bytes.
fn text(rest: &[u8], before: usize) -> Result<Step, Fault> {
    let Some(length) = int_at(rest, before) else { return Ok(Step::Needs(before + 4)) };
    let length = usize::try_from(length).map_err(|_| Fault::Malformed)?;
    let whole = before + 4 + length;
    Ok(if rest.len() < whole { Step::Needs(whole) } else { Step::Takes(whole) })
}
