//! Expiry of keys: durations and absolute times, in seconds and milliseconds.

use super::{CommandContext, RespShape, Translated, update};
use crate::clock::Clock;
use crate::resp::errors::RespRefusal;
use crate::resp::frame::Words;
use base::limits::TTL_MS_MAX;
use base::request::{ExpireWhen, Expiry};
use base::{Read, Update};

/// Unit of a time, relative or absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds from now.
    Seconds,
    /// Milliseconds from now.
    Milliseconds,
    /// Seconds since 1970.
    SecondsSince1970,
    /// Milliseconds since 1970.
    MillisecondsSince1970,
}

impl Unit {
    /// Returns the unit of the option `EX`, `PX`, `EXAT` or `PXAT`.
    pub fn of_option(option: &str) -> Option<Unit> {
        match option {
            "EX" => Some(Unit::Seconds),
            "PX" => Some(Unit::Milliseconds),
            "EXAT" => Some(Unit::SecondsSince1970),
            "PXAT" => Some(Unit::MillisecondsSince1970),
            _ => None,
        }
    }

    /// Converts a time in this unit into milliseconds from now; 0 if it has passed. `None`: it
    /// exceeds the longest time to live.
    fn span_ms(self, time: i64, clock: Clock) -> Option<u64> {
        let ms = match self {
            Unit::Seconds | Unit::SecondsSince1970 => time.checked_mul(1_000)?,
            Unit::Milliseconds | Unit::MillisecondsSince1970 => time,
        };
        let span = match self {
            Unit::Seconds | Unit::Milliseconds => ms,
            _ => ms.saturating_sub(i64::try_from(clock.unix_ms()).ok()?),
        };
        u64::try_from(span.max(0)).ok().filter(|&span| span <= TTL_MS_MAX)
    }
}

fn invalid(command: &str) -> RespRefusal {
    RespRefusal::made(format!("ERR invalid expire time in '{command}' command"))
}

/// Returns the expiry that a write names. Refuses a time that is not positive.
pub fn of_write(
    words: &Words<'_>,
    at: usize,
    unit: Unit,
    command: &str,
    clock: Clock,
) -> Result<Expiry, RespRefusal> {
    let time = words.integer(at)?;
    let span = if time > 0 { unit.span_ms(time, clock) } else { None };
    span.map(Expiry::After).ok_or_else(|| invalid(command))
}

fn expire_by(
    words: &Words<'_>,
    talk: &mut CommandContext<'_>,
    unit: Unit,
    name: &str,
) -> Translated {
    let key = words.key(1)?;
    let when = condition(words)?;
    let span = unit.span_ms(words.integer(2)?, talk.clock).ok_or_else(|| invalid(name))?;
    update(Update::Expire { key, expiry: Expiry::After(span), when }, RespShape::Truth)
}

/// Returns the condition of `EXPIRE`. `GT` fails on a row without expiry by itself, so `XX GT` is
/// `GT`.
fn condition(words: &Words<'_>) -> Result<ExpireWhen, RespRefusal> {
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for at in 3..words.len() {
        match words.upper(at).as_str() {
            "NX" => nx = true,
            "XX" => xx = true,
            "GT" => gt = true,
            "LT" => lt = true,
            _ => {
                let option = base::codec::printable(words.get(at));
                return Err(RespRefusal::made(format!("ERR Unsupported option {option}")));
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

pub fn expire(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    expire_by(words, talk, Unit::Seconds, "expire")
}

pub fn pexpire(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    expire_by(words, talk, Unit::Milliseconds, "pexpire")
}

pub fn expireat(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    expire_by(words, talk, Unit::SecondsSince1970, "expireat")
}

pub fn pexpireat(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    expire_by(words, talk, Unit::MillisecondsSince1970, "pexpireat")
}

fn left(words: &Words<'_>, talk: &mut CommandContext<'_>, unit: Unit) -> Translated {
    talk.read(Read::Get(words.key(1)?), RespShape::TimeLeft(unit))
}

pub fn ttl(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    left(words, talk, Unit::Seconds)
}

pub fn pttl(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    left(words, talk, Unit::Milliseconds)
}

pub fn expiretime(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    left(words, talk, Unit::SecondsSince1970)
}

pub fn pexpiretime(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    left(words, talk, Unit::MillisecondsSince1970)
}

pub fn persist(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let (key, when) = (words.key(1)?, ExpireWhen::HasOne);
    update(Update::Expire { key, expiry: Expiry::Never, when }, RespShape::Truth)
}
