//! Credenza's commands on ranges of keys: pages in both directions, prefixes.

use super::{CommandContext, RespShape, TranslateResult, update};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use base::limits::{KEY_BYTES_MAX, PAGE_ROWS_MAX};
use base::range::Direction;
use base::{Bound, Entry, Key, Page, Range, Read, RowContent, Update};

/// Parses a bound as `ZRANGEBYLEX` writes it: `-`, `+`, `[key` or `(key`. `open`: the one of the
/// first two that may stand here.
pub fn parse_bound(args: &Args<'_>, at: usize, open: &[u8]) -> Result<Bound, RespRefusal> {
    const TEXT: &str = "ERR a bound must be `-` (the lowest), `+` (the highest), `[key` or `(key`";
    let arg = args.get_bytes(at);
    if arg.len() > KEY_BYTES_MAX + 1 {
        return Err(RespRefusal::from_text(format!("ERR a key has at most {KEY_BYTES_MAX} bytes")));
    }
    match arg.first() {
        Some(b'[') => Ok(Bound::Included(arg.slice(1..))),
        Some(b'(') => Ok(Bound::Excluded(arg.slice(1..))),
        _ if arg == open => Ok(Bound::Open),
        _ => Err(RespRefusal::new(TEXT)),
    }
}

/// Parses the number of rows of a page, behind the name of its option.
pub fn parse_limit(args: &Args<'_>, at: usize) -> Result<usize, RespRefusal> {
    let (limit, max) = (args.natural(at)?, PAGE_ROWS_MAX as u64);
    if !(1..=max).contains(&limit) {
        let text = format!("ERR {} must be a number from 1 to {max}", args.upper(at - 1).as_str());
        return Err(RespRefusal::from_text(text));
    }
    Ok(limit as usize)
}

/// Parses `[REV] [LIMIT n] [KEYS] [AFTER key]` from argument `from` on.
fn read_page(
    args: &Args<'_>,
    from: usize,
    mut range: Range,
    ctx: &mut CommandContext<'_>,
) -> TranslateResult {
    let mut after: Option<Key> = None;
    let mut at = from;
    while at < args.len() {
        let has_next = at + 1 < args.len();
        match args.upper(at).as_str() {
            "REV" => range.direction = Direction::Descending,
            "KEYS" => range.want = RowContent::Keys,
            "LIMIT" if has_next => {
                at += 1;
                range.rows_max = Some(parse_limit(args, at)?);
            }
            "AFTER" if has_next => {
                at += 1;
                after = Some(args.key(at)?);
            }
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    if let Some(last) = after {
        range = range.after(last);
    }
    ctx.read(Read::Range(range), RespShape::Page)
}

pub fn range(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (low, high) = (parse_bound(args, 1, b"-")?, parse_bound(args, 2, b"+")?);
    read_page(args, 3, Range { low, high, ..Range::default() }, ctx)
}

pub fn prefix(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    read_page(args, 2, Range::prefix(args.key(1)?), ctx)
}

pub fn delprefix(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    update(Update::DeletePrefix { prefix: args.key(1)? }, RespShape::Number)
}

/// Writes the key to continue after, or null, and the entries of a page.
pub fn write_page(page: &Page, ctx: &mut CommandContext<'_>) {
    ctx.out.array(2);
    match page.entries.last().filter(|_| page.more) {
        Some(last) => ctx.out.value(&last.key),
        None => ctx.out.null(),
    }
    let frames = |entry: &Entry| 1 + usize::from(entry.row.is_some());
    ctx.out.array(page.entries.iter().map(frames).sum());
    for entry in &page.entries {
        ctx.out.value(&entry.key);
        if let Some(row) = &entry.row {
            ctx.out.value(&row.value);
        }
    }
}
