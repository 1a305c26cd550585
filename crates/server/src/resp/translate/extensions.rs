//! Credenza's commands on single keys, on read levels and on sessions.

use super::{CommandContext, RespPlan, RespShape, TranslateResult, find, update};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use base::request::{ReadLevel, SessionCall};
use base::{Call, LogIndex, RetryId, SessionId, Update, Value};

/// Parses `ABSENT` or `VALUE v` at `at`. Returns the value and the position behind it. The keyword
/// distinguishes an absent key from every possible value.
fn parse_optional_value(args: &Args<'_>, at: usize) -> Result<(Option<Value>, usize), RespRefusal> {
    match args.upper(at).as_str() {
        "ABSENT" => Ok((None, at + 1)),
        "VALUE" if at + 1 < args.len() => Ok((Some(args.value(at + 1)?), at + 2)),
        _ => Err(RespRefusal::new("ERR expected ABSENT, or VALUE followed by the value")),
    }
}

fn expect_end(args: &Args<'_>, at: usize) -> Result<(), RespRefusal> {
    if at == args.len() { Ok(()) } else { Err(errors::SYNTAX) }
}

pub fn tas(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let key = args.key(1)?;
    let (expected, next) = parse_optional_value(args, 2)?;
    let (wanted, next) = parse_optional_value(args, next)?;
    expect_end(args, next)?;
    update(Update::TestAndSet { key, expected, wanted }, RespShape::Value)
}

pub fn confirm(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    update(Update::Confirm { key: args.key(1)?, value: args.value(2)? }, RespShape::Ok)
}

pub fn assert(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let key = args.key(1)?;
    if args.len() == 3 && args.is(2, "EXISTS") {
        return match ctx.is_step {
            true => update(Update::AssertExists { key }, RespShape::Ok),
            false => ctx.read(base::Read::AssertExists(key), RespShape::Ok),
        };
    }
    let (expected, next) = parse_optional_value(args, 2)?;
    expect_end(args, next)?;
    match ctx.is_step {
        true => update(Update::Assert { key, expected }, RespShape::Ok),
        false => ctx.read(base::Read::Assert { key, expected }, RespShape::Ok),
    }
}

pub fn consistency(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let level = match (args.len(), args.upper(1).as_str()) {
        (1, _) => {
            ctx.out.text(match ctx.client.read_level {
                ReadLevel::Consistent => "consistent".into(),
                ReadLevel::Dirty => "dirty".into(),
                ReadLevel::AtLeast(index) => format!("at_least {index}"),
            });
            return Ok(RespPlan::Answered);
        }
        (2, "CONSISTENT") => ReadLevel::Consistent,
        (2, "DIRTY") => ReadLevel::Dirty,
        (3, "AT_LEAST") => ReadLevel::AtLeast(LogIndex(args.natural(2)?)),
        _ => return Err(errors::SYNTAX),
    };
    ctx.client.read_level = level;
    ctx.out.ok();
    Ok(RespPlan::Answered)
}

pub fn index(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.out.count(ctx.client.last_index.0);
    Ok(RespPlan::Answered)
}

pub fn session_open(_args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    Ok(RespPlan::Call(Call::Session(SessionCall::Open), RespShape::SessionOpened))
}

pub fn session_use(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.client.session = Some(session_id(args)?);
    ctx.out.ok();
    Ok(RespPlan::Answered)
}

pub fn session_close(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let session = match (args.len(), ctx.client.session) {
        (3, _) => session_id(args)?,
        (2, Some(session)) => session,
        _ => return Err(RespRefusal::new("ERR this connection has no session")),
    };
    if ctx.client.session == Some(session) {
        ctx.client.session = None;
    }
    Ok(RespPlan::Call(Call::Session(SessionCall::Close(session)), RespShape::Ok))
}

pub fn session_help(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.help(&[
        "CREDENZA.SESSION <subcommand>. Subcommands are:",
        "OPEN: opens a session in the bucket's group, uses it and returns its number.",
        "USE <number>: uses an open session.",
        "CLOSE [<number>]: closes a session.",
    ])
}

/// Parses a session id. Sessions are text, because their ids may exceed RESP's integers.
fn session_id(args: &Args<'_>) -> Result<SessionId, RespRefusal> {
    let id = args.text(2)?.parse().map_err(|_| errors::NOT_AN_INTEGER)?;
    Ok(SessionId(id))
}

pub fn retry(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let number = args.natural(1)?;
    let Some(session) = ctx.client.session else {
        return Err(RespRefusal::new(
            "ERR this connection has no session: send CREDENZA.SESSION OPEN or USE first",
        ));
    };
    let inner = args.subrange(2, args.len());
    let command = find(&inner)?;
    let plan = if command.is_data() { (command.run)(&inner, ctx)? } else { RespPlan::Answered };
    match plan {
        plan @ RespPlan::Call(Call::Update(_), _) => {
            ctx.client.retry = Some(RetryId { session, number });
            Ok(plan)
        }
        RespPlan::Answered
        | RespPlan::Call(..)
        | RespPlan::Directory(..)
        | RespPlan::MultiStep(_) => {
            Err(RespRefusal::from_text(format!("ERR '{}' is not an update", command.full_name)))
        }
    }
}
