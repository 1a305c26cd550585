//! Expiry of keys: durations and absolute times, in seconds and milliseconds.

use super::{CommandContext, RespShape, TranslateResult, update};
use crate::clock::Clock;
use crate::resp::errors::RespRefusal;
use crate::resp::frame::Args;
use base::limits::TTL_MS_MAX;
use base::request::{ExpireWhen, Expiry};
use base::{Read, Update};

/// Unit of a time, relative or absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// Seconds since 1970.
    SecondsSince1970,
    /// Milliseconds since 1970.
    MillisecondsSince1970,
}

impl TimeUnit {
    /// Returns the unit of the option `EX`, `PX`, `EXAT` or `PXAT`.
    pub fn from_option(option: &str) -> Option<TimeUnit> {
        match option {
            "EX" => Some(TimeUnit::Seconds),
            "PX" => Some(TimeUnit::Milliseconds),
            "EXAT" => Some(TimeUnit::SecondsSince1970),
            "PXAT" => Some(TimeUnit::MillisecondsSince1970),
            _ => None,
        }
    }

    /// Converts a time in this unit into milliseconds from now; 0 if it has passed. `None`: it
    /// exceeds the longest time to live.
    fn to_ttl_ms(self, time: i64, clock: Clock) -> Option<u64> {
        let ms = match self {
            TimeUnit::Seconds | TimeUnit::SecondsSince1970 => time.checked_mul(1_000)?,
            TimeUnit::Milliseconds | TimeUnit::MillisecondsSince1970 => time,
        };
        let ttl_ms = match self {
            TimeUnit::Seconds | TimeUnit::Milliseconds => ms,
            _ => ms.saturating_sub(i64::try_from(clock.unix_ms()).ok()?),
        };
        u64::try_from(ttl_ms.max(0)).ok().filter(|&ttl_ms| ttl_ms <= TTL_MS_MAX)
    }
}

fn invalid_expiry(command: &str) -> RespRefusal {
    RespRefusal::from_text(format!("ERR invalid expire time in '{command}' command"))
}

/// Returns the expiry that a write names. Refuses a time that is not positive.
pub fn parse_expiry(
    args: &Args<'_>,
    at: usize,
    unit: TimeUnit,
    command: &str,
    clock: Clock,
) -> Result<Expiry, RespRefusal> {
    let time = args.integer(at)?;
    let ttl_ms = if time > 0 { unit.to_ttl_ms(time, clock) } else { None };
    ttl_ms.map(Expiry::After).ok_or_else(|| invalid_expiry(command))
}

fn set_expiry(
    args: &Args<'_>,
    ctx: &mut CommandContext<'_>,
    unit: TimeUnit,
    name: &str,
) -> TranslateResult {
    let key = args.key(1)?;
    let when = condition(args)?;
    let ttl_ms = unit.to_ttl_ms(args.integer(2)?, ctx.clock).ok_or_else(|| invalid_expiry(name))?;
    update(Update::Expire { key, expiry: Expiry::After(ttl_ms), when }, RespShape::Boolean)
}

/// Returns the condition of `EXPIRE`. `GT` fails on a row without expiry by itself, so `XX GT` is
/// `GT`.
fn condition(args: &Args<'_>) -> Result<ExpireWhen, RespRefusal> {
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for at in 3..args.len() {
        match args.upper(at).as_str() {
            "NX" => nx = true,
            "XX" => xx = true,
            "GT" => gt = true,
            "LT" => lt = true,
            _ => {
                let option = base::codec::printable(args.get(at));
                return Err(RespRefusal::from_text(format!("ERR Unsupported option {option}")));
            }
        }
    }
    match (nx, xx, gt, lt) {
        (true, false, false, false) => Ok(ExpireWhen::HasNone),
        (true, ..) => Err(RespRefusal::new(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        )),
        (_, _, true, true) => {
            Err(RespRefusal::new("ERR GT and LT options at the same time are not compatible"))
        }
        (_, _, true, false) => Ok(ExpireWhen::Later),
        (_, true, _, true) => Ok(ExpireWhen::HasLater),
        (_, false, _, true) => Ok(ExpireWhen::Sooner),
        (_, true, _, false) => Ok(ExpireWhen::HasOne),
        (_, false, _, false) => Ok(ExpireWhen::Always),
    }
}

pub fn expire(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    set_expiry(args, ctx, TimeUnit::Seconds, "expire")
}

pub fn pexpire(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    set_expiry(args, ctx, TimeUnit::Milliseconds, "pexpire")
}

pub fn expireat(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    set_expiry(args, ctx, TimeUnit::SecondsSince1970, "expireat")
}

pub fn pexpireat(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    set_expiry(args, ctx, TimeUnit::MillisecondsSince1970, "pexpireat")
}

fn read_ttl(args: &Args<'_>, ctx: &mut CommandContext<'_>, unit: TimeUnit) -> TranslateResult {
    ctx.read(Read::Get(args.key(1)?), RespShape::TimeLeft(unit))
}

pub fn ttl(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    read_ttl(args, ctx, TimeUnit::Seconds)
}

pub fn pttl(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    read_ttl(args, ctx, TimeUnit::Milliseconds)
}

pub fn expiretime(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    read_ttl(args, ctx, TimeUnit::SecondsSince1970)
}

pub fn pexpiretime(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    read_ttl(args, ctx, TimeUnit::MillisecondsSince1970)
}

pub fn persist(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (key, when) = (args.key(1)?, ExpireWhen::HasOne);
    update(Update::Expire { key, expiry: Expiry::Never, when }, RespShape::Boolean)
}
