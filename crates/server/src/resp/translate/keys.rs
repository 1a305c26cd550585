//! Commands on keys, independent of their values.

use super::shape::Inspection;
use super::{CommandContext, MultiStep, RespPlan, RespShape, Translated, update};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;
use crate::resp::glob::Glob;
use base::limits::{PAGE_ROWS_MAX, PATTERN_BYTES_MAX};
use base::request::{Missing, Steps, When};
use base::{Bound, Key, Range, Read, Update, Want};

pub fn del(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let delete = |key| Update::Delete { key, missing: Missing::Skipped };
    if words.len() == 2 {
        return update(delete(words.key(1)?), RespShape::Truth);
    }
    let steps = words.keys(1, 1)?.into_iter().map(delete).collect();
    update(Update::Sequence { steps, mode: Steps::Batch }, RespShape::Sum)
}

pub fn exists(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.read(Read::Exists(words.keys(1, 1)?), RespShape::Number)
}

pub fn kind(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.read(Read::Exists(words.keys(1, 1)?), RespShape::Kind)
}

/// Returns the smallest known range of all keys that a pattern can match.
pub fn range_of(glob: &Glob) -> Range {
    let prefix = Key::copy_from_slice(glob.prefix());
    let mut range = Range { want: Want::Keys, ..Range::prefix(prefix.clone()) };
    if glob.is_plain() {
        range.high = Bound::Included(prefix);
    }
    range
}

/// Compiles a pattern. Refuses one whose length would cost too much memory and time.
pub fn pattern(word: &[u8]) -> Result<Glob, RespRefusal> {
    if word.len() > PATTERN_BYTES_MAX {
        let text = format!("ERR a pattern has at most {PATTERN_BYTES_MAX} bytes");
        return Err(RespRefusal::made(text));
    }
    Ok(Glob::new(word))
}

pub fn keys(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let glob = pattern(words.get(1))?;
    if talk.as_step {
        let range = Range { rows_max: Some(PAGE_ROWS_MAX), ..range_of(&glob) };
        return talk.read(Read::Range(range), RespShape::Keys(Box::new(glob)));
    }
    Ok(RespPlan::Run(MultiStep::Keys(glob)))
}

/// Arguments of a `SCAN`.
#[derive(Debug)]
pub struct Scan {
    /// Cursor to continue at; 0 begins a scan.
    pub cursor: u64,
    /// Pattern of the keys. `None`: all keys.
    pub glob: Option<Glob>,
    /// Number of keys to read.
    pub count: usize,
    /// True if keys of strings are wanted. Other types do not exist, so false matches nothing.
    pub strings: bool,
}

pub fn scan(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let cursor = std::str::from_utf8(words.get(1)).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or(RespRefusal::new("ERR invalid cursor"))?;
    let (mut glob, mut count, mut strings) = (None, 10, true);
    for at in (2..words.len()).step_by(2) {
        if at + 1 == words.len() {
            return Err(errors::SYNTAX);
        }
        match words.upper(at).as_str() {
            "MATCH" => glob = Some(pattern(words.get(at + 1))?),
            "COUNT" => match words.integer(at + 1)? {
                number if number < 1 => return Err(errors::SYNTAX),
                // A number from a client never makes a page larger than its limit.
                number => count = number.min(PAGE_ROWS_MAX as i64) as usize,
            },
            "TYPE" => strings = words.is(at + 1, "string"),
            _ => return Err(errors::SYNTAX),
        }
    }
    Ok(RespPlan::Run(MultiStep::Scan(Scan { cursor, glob, count, strings })))
}

pub fn randomkey(_words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    Ok(RespPlan::Run(MultiStep::RandomKey))
}

pub fn rename(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let (from, to) = (words.key(1)?, words.key(2)?);
    update(Update::Rename { from, to, when: When::Always }, RespShape::Ok)
}

pub fn renamenx(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let (from, to) = (words.key(1)?, words.key(2)?);
    update(Update::Rename { from, to, when: When::Absent }, RespShape::Truth)
}

pub fn copy(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let (from, to) = (words.key(1)?, words.key(2)?);
    let mut when = When::Absent;
    let mut at = 3;
    while at < words.len() {
        match words.upper(at).as_str() {
            "REPLACE" => when = When::Always,
            "DB" if at + 1 < words.len() => {
                at += 1;
                if words.integer(at)? != 0 {
                    return Err(errors::NO_SUCH_DATABASE);
                }
            }
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    if from == to {
        return Err(RespRefusal::new("ERR source and destination objects are the same"));
    }
    update(Update::Copy { from, to, when }, RespShape::Truth)
}

fn inspect(words: &Words<'_>, talk: &mut CommandContext<'_>, what: Inspection) -> Translated {
    talk.read(Read::Get(words.key(2)?), RespShape::Inspected(what))
}

pub fn object_encoding(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    inspect(words, talk, Inspection::Encoding)
}

pub fn object_refcount(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    inspect(words, talk, Inspection::References)
}

pub fn object_help(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.help(&[
        "OBJECT <subcommand> <key>. Subcommands are:",
        "ENCODING: how Redis would keep the value: int, embstr or raw.",
        "REFCOUNT: 1, since no value is shared.",
    ])
}

pub fn memory_usage(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if words.len() > 3 && !(words.len() == 5 && words.is(3, "SAMPLES")) {
        return Err(errors::SYNTAX);
    }
    let key_bytes = words.get(2).len();
    inspect(words, talk, Inspection::Memory { key_bytes })
}

pub fn memory_help(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.help(&[
        "MEMORY <subcommand> <key>. Subcommands are:",
        "USAGE: bytes of the key, its value and what is kept with them.",
    ])
}
