//! Commands on single values.

use super::args::too_large_value;
use super::expiry::{self, TimeUnit};
use super::{CommandContext, MultiStep, RespPlan, RespShape, TranslateResult, update};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use base::limits::VALUE_BYTES_MAX;
use base::request::{Expiry, SequenceMode, When};
use base::{Read, Update};

/// `MGET` of up to this many keys is one request, at one point in time; more are read in parts.
const MGET_KEYS_MAX: usize = 1_024;

pub fn get(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.read(Read::Get(args.key(1)?), RespShape::Value)
}

pub fn set(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (key, value) = (args.key(1)?, args.value(2)?);
    if args.len() == 3 {
        return update(Update::Set { key, value, expiry: Expiry::Default }, RespShape::Ok);
    }
    let options = parse_options(args, ctx)?;
    let (when, shape) = match (options.when, options.returns_old_value) {
        (None, false) => {
            return update(Update::Set { key, value, expiry: options.expiry }, RespShape::Ok);
        }
        (when, true) => (when.unwrap_or(When::Always), RespShape::Value),
        (Some(when), false) => (when, RespShape::OkIfWritten),
    };
    update(Update::SetIf { key, value, expiry: options.expiry, when }, shape)
}

struct SetOptions {
    when: Option<When>,
    returns_old_value: bool,
    expiry: Expiry,
}

fn parse_options(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> Result<SetOptions, RespRefusal> {
    let (mut when, mut returns_old_value, mut keep_ttl, mut time) = (None, false, false, None);
    let mut at = 3;
    while at < args.len() {
        let mut set_when = |new: When| match when.replace(new) {
            Some(previous) if previous != new => Err(errors::SYNTAX),
            _ => Ok(()),
        };
        match args.upper(at).as_str() {
            "NX" => set_when(When::Absent)?,
            "XX" => set_when(When::Present)?,
            "GET" => returns_old_value = true,
            "KEEPTTL" if time.is_none() => keep_ttl = true,
            option if !keep_ttl => at = time_option(args, at, option, &mut time)?,
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    let expiry = match time {
        Some((unit, at)) => expiry::parse_expiry(args, at, unit, "set", ctx.clock)?,
        None if keep_ttl => Expiry::Keep,
        None => Expiry::Default,
    };
    Ok(SetOptions { when, returns_old_value, expiry })
}

/// Parses `EX`, `PX`, `EXAT` or `PXAT` and its time at the given position. As in Redis, the last
/// of several times counts, all must have one unit, and only the last is checked.
fn time_option(
    args: &Args<'_>,
    at: usize,
    option: &str,
    time: &mut Option<(TimeUnit, usize)>,
) -> Result<usize, RespRefusal> {
    let unit =
        TimeUnit::from_option(option).filter(|_| at + 1 < args.len()).ok_or(errors::SYNTAX)?;
    match time.replace((unit, at + 1)) {
        Some((previous, _)) if previous != unit => Err(errors::SYNTAX),
        _ => Ok(at + 1),
    }
}

pub fn setnx(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (key, value) = (args.key(1)?, args.value(2)?);
    let (expiry, when) = (Expiry::Default, When::Absent);
    update(Update::SetIf { key, value, expiry, when }, RespShape::Boolean)
}

pub fn setex(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    set_with_ttl(args, ctx, TimeUnit::Seconds, "setex")
}

pub fn psetex(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    set_with_ttl(args, ctx, TimeUnit::Milliseconds, "psetex")
}

fn set_with_ttl(
    args: &Args<'_>,
    ctx: &mut CommandContext<'_>,
    unit: TimeUnit,
    name: &str,
) -> TranslateResult {
    let (key, value) = (args.key(1)?, args.value(3)?);
    let expiry = expiry::parse_expiry(args, 2, unit, name, ctx.clock)?;
    update(Update::Set { key, value, expiry }, RespShape::Ok)
}

pub fn getset(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (key, value) = (args.key(1)?, args.value(2)?);
    let (expiry, when) = (Expiry::Default, When::Always);
    update(Update::SetIf { key, value, expiry, when }, RespShape::Value)
}

pub fn getdel(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    update(Update::Replace { key: args.key(1)?, wanted: None }, RespShape::Value)
}

pub fn getex(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let key = args.key(1)?;
    let (mut persist, mut time, mut at) = (false, None, 2);
    while at < args.len() {
        match args.upper(at).as_str() {
            "PERSIST" if time.is_none() => persist = true,
            option if !persist => at = time_option(args, at, option, &mut time)?,
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    let expiry = match time {
        Some((unit, at)) => expiry::parse_expiry(args, at, unit, "getex", ctx.clock)?,
        None if persist => Expiry::Never,
        None => return ctx.read(Read::Get(key), RespShape::Value),
    };
    let expire = Update::Expire { key: key.clone(), expiry, when: Default::default() };
    let steps = vec![Update::Read(Read::Get(key)), expire];
    update(Update::Sequence { steps, mode: SequenceMode::AllOrNothing }, RespShape::FirstStep)
}

pub fn mget(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let keys = args.keys(1, 1)?;
    if keys.len() > MGET_KEYS_MAX && !ctx.is_step {
        return Ok(RespPlan::MultiStep(MultiStep::Values(keys)));
    }
    ctx.read(Read::MultiGet(keys), RespShape::Values)
}

fn push_pairs(args: &Args<'_>, name: &str, steps: &mut Vec<Update>) -> Result<(), RespRefusal> {
    if args.len().is_multiple_of(2) {
        return Err(errors::arity(name));
    }
    for at in (1..args.len()).step_by(2) {
        let (key, value) = (args.key(at)?, args.value(at + 1)?);
        steps.push(Update::Set { key, value, expiry: Expiry::Default });
    }
    Ok(())
}

pub fn mset(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let mut steps = Vec::with_capacity(args.len() / 2);
    push_pairs(args, "mset", &mut steps)?;
    update(Update::Sequence { steps, mode: SequenceMode::Batch }, RespShape::Ok)
}

pub fn msetnx(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let absent = |key| Update::Assert { key, expected: None };
    let mut steps: Vec<Update> = args.keys(1, 2)?.into_iter().map(absent).collect();
    push_pairs(args, "msetnx", &mut steps)?;
    update(Update::Sequence { steps, mode: SequenceMode::AllOrNothing }, RespShape::AllOrNone)
}

pub fn append(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (key, value) = (args.key(1)?, args.value(2)?);
    update(Update::Append { key, value }, RespShape::Number)
}

pub fn strlen(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.read(Read::Get(args.key(1)?), RespShape::Length)
}

pub fn getrange(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (first, last) = (args.integer(2)?, args.integer(3)?);
    ctx.read(Read::Get(args.key(1)?), RespShape::Slice { first, last })
}

pub fn setrange(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (key, value) = (args.key(1)?, args.value(3)?);
    let offset = args.integer(2)?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(RespRefusal::new("ERR offset is out of range"));
    };
    if !value.is_empty() && offset.saturating_add(value.len()) > VALUE_BYTES_MAX {
        return Err(too_large_value());
    }
    update(Update::SetRange { key, offset, value }, RespShape::Number)
}
