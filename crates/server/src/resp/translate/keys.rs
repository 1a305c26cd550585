//! Commands on keys, independent of their values.

use super::shape::ValueProperty;
use super::{CommandContext, MultiStep, RespPlan, RespShape, TranslateResult, update};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use crate::resp::glob::Glob;
use base::limits::{PAGE_ROWS_MAX, PATTERN_BYTES_MAX};
use base::request::{OnMissing, SequenceMode, When};
use base::{Bound, Key, Range, Read, RowContent, Update};

pub fn del(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let delete = |key| Update::Delete { key, missing: OnMissing::Skip };
    if args.len() == 2 {
        return update(delete(args.key(1)?), RespShape::Boolean);
    }
    let steps = args.keys(1, 1)?.into_iter().map(delete).collect();
    update(Update::Sequence { steps, mode: SequenceMode::Batch }, RespShape::ExistedCount)
}

pub fn exists(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.read(Read::Exists(args.keys(1, 1)?), RespShape::Number)
}

pub fn type_name(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.read(Read::Exists(args.keys(1, 1)?), RespShape::TypeName)
}

/// Returns the smallest known range of all keys that a pattern can match.
pub fn scan_range(glob: &Glob) -> Range {
    let prefix = Key::copy_from_slice(glob.prefix());
    let mut range = Range { want: RowContent::Keys, ..Range::prefix(prefix.clone()) };
    if glob.is_literal() {
        range.high = Bound::Included(prefix);
    }
    range
}

/// Compiles a pattern. Refuses one whose length would cost too much memory and time.
pub fn pattern(text: &[u8]) -> Result<Glob, RespRefusal> {
    if text.len() > PATTERN_BYTES_MAX {
        let refusal = format!("ERR a pattern has at most {PATTERN_BYTES_MAX} bytes");
        return Err(RespRefusal::from_text(refusal));
    }
    Ok(Glob::new(text))
}

pub fn keys(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let glob = pattern(args.get(1))?;
    if ctx.is_step {
        let range = Range { rows_max: Some(PAGE_ROWS_MAX), ..scan_range(&glob) };
        return ctx.read(Read::Range(range), RespShape::Keys(Box::new(glob)));
    }
    Ok(RespPlan::MultiStep(MultiStep::Keys(glob)))
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
    /// True if the filter selects strings. Other types do not exist, so false matches nothing.
    pub strings: bool,
}

pub fn scan(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let cursor = std::str::from_utf8(args.get(1)).ok().and_then(|text| text.parse().ok());
    let cursor = cursor.ok_or(RespRefusal::new("ERR invalid cursor"))?;
    let (mut glob, mut count, mut strings) = (None, 10, true);
    for at in (2..args.len()).step_by(2) {
        if at + 1 == args.len() {
            return Err(errors::SYNTAX);
        }
        match args.upper(at).as_str() {
            "MATCH" => glob = Some(pattern(args.get(at + 1))?),
            "COUNT" => match args.integer(at + 1)? {
                number if number < 1 => return Err(errors::SYNTAX),
                // A number from a client never makes a page larger than its limit.
                number => count = number.min(PAGE_ROWS_MAX as i64) as usize,
            },
            "TYPE" => strings = args.is(at + 1, "string"),
            _ => return Err(errors::SYNTAX),
        }
    }
    Ok(RespPlan::MultiStep(MultiStep::Scan(Scan { cursor, glob, count, strings })))
}

pub fn randomkey(_args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    Ok(RespPlan::MultiStep(MultiStep::RandomKey))
}

pub fn rename(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (from, to) = (args.key(1)?, args.key(2)?);
    update(Update::Rename { from, to, when: When::Always }, RespShape::Ok)
}

pub fn renamenx(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (from, to) = (args.key(1)?, args.key(2)?);
    update(Update::Rename { from, to, when: When::Absent }, RespShape::Boolean)
}

pub fn copy(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (from, to) = (args.key(1)?, args.key(2)?);
    let mut when = When::Absent;
    let mut at = 3;
    while at < args.len() {
        match args.upper(at).as_str() {
            "REPLACE" => when = When::Always,
            "DB" if at + 1 < args.len() => {
                at += 1;
                if args.integer(at)? != 0 {
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
    update(Update::Copy { from, to, when }, RespShape::Boolean)
}

fn inspect(
    args: &Args<'_>,
    ctx: &mut CommandContext<'_>,
    property: ValueProperty,
) -> TranslateResult {
    ctx.read(Read::Get(args.key(2)?), RespShape::Property(property))
}

pub fn object_encoding(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    inspect(args, ctx, ValueProperty::Encoding)
}

pub fn object_refcount(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    inspect(args, ctx, ValueProperty::References)
}

pub fn object_help(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.help(&[
        "OBJECT <subcommand> <key>. Subcommands are:",
        "ENCODING: encoding that Redis would use: int, embstr or raw.",
        "REFCOUNT: number of references to the value: always 1.",
    ])
}

pub fn memory_usage(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if args.len() > 3 && !(args.len() == 5 && args.is(3, "SAMPLES")) {
        return Err(errors::SYNTAX);
    }
    let key_bytes = args.get(2).len();
    inspect(args, ctx, ValueProperty::Memory { key_bytes })
}

pub fn memory_help(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.help(&[
        "MEMORY <subcommand> <key>. Subcommands are:",
        "USAGE: size in bytes of the key, its value and their metadata.",
    ])
}
