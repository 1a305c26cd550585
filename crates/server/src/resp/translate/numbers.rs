//! Commands on values that are decimal numbers: `INCR` and its relatives.

use super::{CommandContext, RespShape, TranslateResult, update};
use crate::resp::errors::RespRefusal;
use crate::resp::frame::Args;
use base::Update;

fn add(args: &Args<'_>, delta: i64) -> TranslateResult {
    update(Update::Add { key: args.key(1)?, delta }, RespShape::Number)
}

pub fn incr(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    add(args, 1)
}

pub fn decr(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    add(args, -1)
}

pub fn incrby(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    add(args, args.integer(2)?)
}

pub fn decrby(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let delta = args.integer(2)?.checked_neg();
    add(args, delta.ok_or(RespRefusal::new("ERR decrement would overflow"))?)
}

pub fn incrbyfloat(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    update(Update::AddFloat { key: args.key(1)?, delta: args.float(2)? }, RespShape::Text)
}
