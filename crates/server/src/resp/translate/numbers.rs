//! Commands on values that are decimal numbers: `INCR` and its relatives.

use super::{CommandContext, RespShape, Translated, update};
use crate::resp::errors::RespRefusal;
use crate::resp::frame::Words;
use base::Update;

fn add(words: &Words<'_>, delta: i64) -> Translated {
    update(Update::Add { key: words.key(1)?, delta }, RespShape::Number)
}

pub fn incr(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    add(words, 1)
}

pub fn decr(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    add(words, -1)
}

pub fn incrby(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    add(words, words.integer(2)?)
}

pub fn decrby(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let delta = words.integer(2)?.checked_neg();
    add(words, delta.ok_or(RespRefusal::new("ERR decrement would overflow"))?)
}

pub fn incrbyfloat(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    update(Update::AddFloat { key: words.key(1)?, delta: words.float(2)? }, RespShape::Text)
}
