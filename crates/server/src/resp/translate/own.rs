//! Credenza's commands on single keys, on read levels and on sessions.

use super::{CommandContext, RespPlan, RespShape, Translated, find, update};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;
use base::request::{ReadLevel, SessionCall};
use base::{Call, LogIndex, RetryId, SessionId, Update, Value};

/// Parses `ABSENT` or `VALUE v` at `at`. Returns the value and the position behind it. The keyword
/// distinguishes an absent key from every possible value.
fn wanted(words: &Words<'_>, at: usize) -> Result<(Option<Value>, usize), RespRefusal> {
    match words.upper(at).as_str() {
        "ABSENT" => Ok((None, at + 1)),
        "VALUE" if at + 1 < words.len() => Ok((Some(words.value(at + 1)?), at + 2)),
        _ => Err(RespRefusal::new("ERR say `ABSENT` or `VALUE` and the value")),
    }
}

fn at_end(words: &Words<'_>, at: usize) -> Result<(), RespRefusal> {
    if at == words.len() { Ok(()) } else { Err(errors::SYNTAX) }
}

pub fn tas(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let key = words.key(1)?;
    let (expected, next) = wanted(words, 2)?;
    let (wanted, next) = wanted(words, next)?;
    at_end(words, next)?;
    update(Update::TestAndSet { key, expected, wanted }, RespShape::Value)
}

pub fn confirm(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    update(Update::Confirm { key: words.key(1)?, value: words.value(2)? }, RespShape::Ok)
}

pub fn assert(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let key = words.key(1)?;
    if words.len() == 3 && words.is(2, "EXISTS") {
        return match talk.as_step {
            true => update(Update::AssertExists { key }, RespShape::Ok),
            false => talk.read(base::Read::AssertExists(key), RespShape::Ok),
        };
    }
    let (expected, next) = wanted(words, 2)?;
    at_end(words, next)?;
    match talk.as_step {
        true => update(Update::Assert { key, expected }, RespShape::Ok),
        false => talk.read(base::Read::Assert { key, expected }, RespShape::Ok),
    }
}

pub fn consistency(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let wanted = match (words.len(), words.upper(1).as_str()) {
        (1, _) => {
            talk.out.text(match talk.client.read_level {
                ReadLevel::Consistent => "consistent".into(),
                ReadLevel::Dirty => "dirty".into(),
                ReadLevel::AtLeast(index) => format!("at_least {index}"),
            });
            return Ok(RespPlan::Said);
        }
        (2, "CONSISTENT") => ReadLevel::Consistent,
        (2, "DIRTY") => ReadLevel::Dirty,
        (3, "AT_LEAST") => ReadLevel::AtLeast(LogIndex(words.natural(2)?)),
        _ => return Err(errors::SYNTAX),
    };
    talk.client.read_level = wanted;
    talk.out.ok();
    Ok(RespPlan::Said)
}

pub fn index(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.out.count(talk.client.last_index.0);
    Ok(RespPlan::Said)
}

pub fn session_open(_words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    Ok(RespPlan::Ask(Call::Session(SessionCall::Open), RespShape::Opened))
}

pub fn session_use(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.client.session = Some(session_id(words)?);
    talk.out.ok();
    Ok(RespPlan::Said)
}

pub fn session_close(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let session = match (words.len(), talk.client.session) {
        (3, _) => session_id(words)?,
        (2, Some(session)) => session,
        _ => return Err(RespRefusal::new("ERR this connection uses no session")),
    };
    if talk.client.session == Some(session) {
        talk.client.session = None;
    }
    Ok(RespPlan::Ask(Call::Session(SessionCall::Close(session)), RespShape::Ok))
}

pub fn session_help(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.help(&[
        "CREDENZA.SESSION <subcommand>. Subcommands are:",
        "OPEN: opens a session in the bucket's group, uses it, gives its number.",
        "USE <number>: uses a session that was opened before.",
        "CLOSE [<number>]: closes it.",
    ])
}

/// Parses a session id. Sessions are text, because their ids may exceed RESP's integers.
fn session_id(words: &Words<'_>) -> Result<SessionId, RespRefusal> {
    let id = words.text(2)?.parse().map_err(|_| errors::NOT_AN_INTEGER)?;
    Ok(SessionId(id))
}

pub fn retry(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let number = words.natural(1)?;
    let Some(session) = talk.client.session else {
        return Err(RespRefusal::new(
            "ERR this connection uses no session: CREDENZA.SESSION OPEN or USE comes first",
        ));
    };
    let rest = words.part(2, words.len());
    let command = find(&rest)?;
    let plan = if command.is_data() { (command.run)(&rest, talk)? } else { RespPlan::Said };
    match plan {
        plan @ RespPlan::Ask(Call::Update(_), _) => {
            talk.client.retry = Some(RetryId { session, number });
            Ok(plan)
        }
        RespPlan::Said | RespPlan::Ask(..) | RespPlan::Directory(..) | RespPlan::Run(_) => {
            Err(RespRefusal::made(format!("ERR '{}' is no update", command.full_name)))
        }
    }
}
