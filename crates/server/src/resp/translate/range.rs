//! Credenza's commands on ranges of keys: pages in both directions, prefixes.

use super::{CommandContext, RespShape, Translated, update};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;
use base::limits::{KEY_BYTES_MAX, PAGE_ROWS_MAX};
use base::range::Direction;
use base::{Bound, Key, Range, Read, Update, Want};

/// Parses a bound as `ZRANGEBYLEX` writes it: `-`, `+`, `[key` or `(key`.
fn bound(words: &Words<'_>, at: usize, open: &[u8]) -> Result<Bound, RespRefusal> {
    const TEXT: &str = "ERR a bound is `-` (the lowest), `+` (the highest), `[key` or `(key`";
    let word = words.keep(at);
    if word.len() > KEY_BYTES_MAX + 1 {
        return Err(RespRefusal::made(format!("ERR a key has at most {KEY_BYTES_MAX} bytes")));
    }
    match word.first() {
        Some(b'[') => Ok(Bound::Included(word.slice(1..))),
        Some(b'(') => Ok(Bound::Excluded(word.slice(1..))),
        _ if word == open => Ok(Bound::Open),
        _ => Err(RespRefusal::new(TEXT)),
    }
}

/// Parses `[REV] [LIMIT n] [KEYS] [AFTER key]` from word `from` on.
fn page(
    words: &Words<'_>,
    from: usize,
    mut range: Range,
    talk: &mut CommandContext<'_>,
) -> Translated {
    let mut after: Option<Key> = None;
    let mut at = from;
    while at < words.len() {
        let more = at + 1 < words.len();
        match words.upper(at).as_str() {
            "REV" => range.direction = Direction::Descending,
            "KEYS" => range.want = Want::Keys,
            "LIMIT" if more => {
                at += 1;
                let limit = words.natural(at)?;
                let max = PAGE_ROWS_MAX as u64;
                if !(1..=max).contains(&limit) {
                    let text = format!("ERR LIMIT is a number from 1 to {max}");
                    return Err(RespRefusal::made(text));
                }
                range.rows_max = Some(limit as usize);
            }
            "AFTER" if more => {
                at += 1;
                after = Some(words.key(at)?);
            }
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    if let Some(last) = after {
        range = range.after(last);
    }
    talk.read(Read::Range(range), RespShape::Page)
}

pub fn range(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let (low, high) = (bound(words, 1, b"-")?, bound(words, 2, b"+")?);
    page(words, 3, Range { low, high, ..Range::default() }, talk)
}

pub fn prefix(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    page(words, 2, Range::prefix(words.key(1)?), talk)
}

pub fn delprefix(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    update(Update::DeletePrefix { prefix: words.key(1)? }, RespShape::Number)
}
