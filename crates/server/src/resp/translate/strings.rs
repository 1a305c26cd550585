//! Commands on single values.

use super::expiry::{self, Unit};
use super::words::too_large_value;
use super::{CommandContext, MultiStep, RespPlan, RespShape, Translated, update};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;
use base::limits::VALUE_BYTES_MAX;
use base::request::{Expiry, Steps, When};
use base::{Read, Update};

/// `MGET` of up to this many keys is one request, so it sees one moment; more are asked in parts.
const MGET_KEYS_MAX: usize = 1_024;

pub fn get(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.read(Read::Get(words.key(1)?), RespShape::Value)
}

pub fn set(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let (key, value) = (words.key(1)?, words.value(2)?);
    if words.len() == 3 {
        return update(Update::Set { key, value, expiry: Expiry::Default }, RespShape::Ok);
    }
    let options = options(words, talk)?;
    let (when, shape) = match (options.when, options.old_wanted) {
        (None, false) => {
            return update(Update::Set { key, value, expiry: options.expiry }, RespShape::Ok);
        }
        (when, true) => (when.unwrap_or(When::Always), RespShape::Value),
        (Some(when), false) => (when, RespShape::Written),
    };
    update(Update::SetIf { key, value, expiry: options.expiry, when }, shape)
}

struct SetOptions {
    when: Option<When>,
    old_wanted: bool,
    expiry: Expiry,
}

fn options(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Result<SetOptions, RespRefusal> {
    let (mut when, mut old_wanted, mut keep, mut time) = (None, false, false, None);
    let mut at = 3;
    while at < words.len() {
        let mut once = |wanted: When| match when.replace(wanted) {
            Some(before) if before != wanted => Err(errors::SYNTAX),
            _ => Ok(()),
        };
        match words.upper(at).as_str() {
            "NX" => once(When::Absent)?,
            "XX" => once(When::Present)?,
            "GET" => old_wanted = true,
            "KEEPTTL" if time.is_none() => keep = true,
            option if !keep => at = time_option(words, at, option, &mut time)?,
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    let expiry = match time {
        Some((unit, at)) => expiry::of_write(words, at, unit, "set", talk.clock)?,
        None if keep => Expiry::Keep,
        None => Expiry::Default,
    };
    Ok(SetOptions { when, old_wanted, expiry })
}

/// Parses `EX`, `PX`, `EXAT` or `PXAT` and its time at the given position. As in Redis the last of
/// several times counts, all must have one unit, and only the last is checked.
fn time_option(
    words: &Words<'_>,
    at: usize,
    option: &str,
    time: &mut Option<(Unit, usize)>,
) -> Result<usize, RespRefusal> {
    let unit = Unit::of_option(option).filter(|_| at + 1 < words.len()).ok_or(errors::SYNTAX)?;
    match time.replace((unit, at + 1)) {
        Some((before, _)) if before != unit => Err(errors::SYNTAX),
        _ => Ok(at + 1),
    }
}

pub fn setnx(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let (key, value) = (words.key(1)?, words.value(2)?);
    let (expiry, when) = (Expiry::Default, When::Absent);
    update(Update::SetIf { key, value, expiry, when }, RespShape::Truth)
}

pub fn setex(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    set_for(words, talk, Unit::Seconds, "setex")
}

pub fn psetex(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    set_for(words, talk, Unit::Milliseconds, "psetex")
}

fn set_for(words: &Words<'_>, talk: &mut CommandContext<'_>, unit: Unit, name: &str) -> Translated {
    let (key, value) = (words.key(1)?, words.value(3)?);
    let expiry = expiry::of_write(words, 2, unit, name, talk.clock)?;
    update(Update::Set { key, value, expiry }, RespShape::Ok)
}

pub fn getset(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let (key, value) = (words.key(1)?, words.value(2)?);
    let (expiry, when) = (Expiry::Default, When::Always);
    update(Update::SetIf { key, value, expiry, when }, RespShape::Value)
}

pub fn getdel(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    update(Update::Replace { key: words.key(1)?, wanted: None }, RespShape::Value)
}

pub fn getex(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let key = words.key(1)?;
    let (mut persist, mut time, mut at) = (false, None, 2);
    while at < words.len() {
        match words.upper(at).as_str() {
            "PERSIST" if time.is_none() => persist = true,
            option if !persist => at = time_option(words, at, option, &mut time)?,
            _ => return Err(errors::SYNTAX),
        }
        at += 1;
    }
    let expiry = match time {
        Some((unit, at)) => expiry::of_write(words, at, unit, "getex", talk.clock)?,
        None if persist => Expiry::Never,
        None => return talk.read(Read::Get(key), RespShape::Value),
    };
    let expire = Update::Expire { key: key.clone(), expiry, when: Default::default() };
    let steps = vec![Update::Read(Read::Get(key)), expire];
    update(Update::Sequence { steps, mode: Steps::AllOrNothing }, RespShape::First)
}

pub fn mget(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let keys = words.keys(1, 1)?;
    if keys.len() > MGET_KEYS_MAX && !talk.as_step {
        return Ok(RespPlan::Run(MultiStep::Values(keys)));
    }
    talk.read(Read::MultiGet(keys), RespShape::Values)
}

fn pairs(words: &Words<'_>, name: &str, steps: &mut Vec<Update>) -> Result<(), RespRefusal> {
    if words.len().is_multiple_of(2) {
        return Err(errors::arity(name));
    }
    for at in (1..words.len()).step_by(2) {
        let (key, value) = (words.key(at)?, words.value(at + 1)?);
        steps.push(Update::Set { key, value, expiry: Expiry::Default });
    }
    Ok(())
}

pub fn mset(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let mut steps = Vec::with_capacity(words.len() / 2);
    pairs(words, "mset", &mut steps)?;
    update(Update::Sequence { steps, mode: Steps::Batch }, RespShape::Ok)
}

pub fn msetnx(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let absent = |key| Update::Assert { key, expected: None };
    let mut steps: Vec<Update> = words.keys(1, 2)?.into_iter().map(absent).collect();
    pairs(words, "msetnx", &mut steps)?;
    update(Update::Sequence { steps, mode: Steps::AllOrNothing }, RespShape::AllOrNone)
}

pub fn append(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let (key, value) = (words.key(1)?, words.value(2)?);
    update(Update::Append { key, value }, RespShape::Number)
}

pub fn strlen(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.read(Read::Get(words.key(1)?), RespShape::Measure)
}

pub fn getrange(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let (first, last) = (words.integer(2)?, words.integer(3)?);
    talk.read(Read::Get(words.key(1)?), RespShape::Slice { first, last })
}

pub fn setrange(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let (key, value) = (words.key(1)?, words.value(3)?);
    let offset = words.integer(2)?;
    let Ok(offset) = usize::try_from(offset) else {
        return Err(RespRefusal::new("ERR offset is out of range"));
    };
    if !value.is_empty() && offset.saturating_add(value.len()) > VALUE_BYTES_MAX {
        return Err(too_large_value());
    }
    update(Update::SetRange { key, offset, value }, RespShape::Number)
}
