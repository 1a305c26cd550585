//! Commands on the connection itself: `HELLO`, `PING`, `SELECT`, `QUIT`.

use super::{CommandContext, RespPlan, Translated};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;
use crate::resp::output::Protocol;
use std::sync::atomic::Ordering::Relaxed;

/// Version of Redis whose commands and answers this front-end follows.
pub const REDIS_VERSION: &str = "7.0.15";

pub fn ping(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    match words.len() {
        1 => talk.out.simple("PONG"),
        2 => talk.out.value(&words.keep(1)),
        _ => return Err(errors::arity("ping")),
    }
    Ok(RespPlan::Said)
}

pub fn echo(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.out.value(&words.keep(1));
    Ok(RespPlan::Said)
}

pub fn quit(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.client.closing = true;
    talk.out.ok();
    Ok(RespPlan::Said)
}

/// Closes a connection on which a browser sends an HTTP request, lured by a web page. Sends no
/// answer and reads nothing more.
pub fn http(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.client.closing = true;
    Ok(RespPlan::Said)
}

pub fn select(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if words.integer(1)? != 0 {
        return Err(errors::NO_SUCH_DATABASE);
    }
    let bucket = base::BucketName::default();
    if talk.client.bucket != bucket && !talk.client.watched.is_empty() {
        return Err(RespRefusal::new(
            "ERR watched keys belong to their bucket: UNWATCH comes first",
        ));
    }
    super::buckets::select(&bucket, talk);
    Ok(RespPlan::Said)
}

/// Accepts the user `default` and refuses any other, as Redis does without configured users.
fn authenticate(user: &[u8]) -> Result<(), RespRefusal> {
    match user {
        b"default" => Ok(()),
        _ => Err(RespRefusal::new("WRONGPASS invalid username-password pair or user is disabled.")),
    }
}

pub fn auth(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    match words.len() {
        2 => Err(RespRefusal::new(
            "ERR AUTH <password> called without any password configured for the default user. \
             Are you sure your configuration is correct?",
        )),
        3 => {
            authenticate(words.get(1))?;
            talk.out.ok();
            Ok(RespPlan::Said)
        }
        _ => Err(errors::SYNTAX),
    }
}

pub fn hello(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let mut protocol = talk.out.protocol;
    let mut name = None;
    if words.len() > 1 {
        protocol = match base::codec::decimal(words.get(1)) {
            Some(2) => Protocol::Two,
            Some(3) => Protocol::Three,
            Some(_) => return Err(RespRefusal::new("NOPROTO unsupported protocol version")),
            None => {
                return Err(RespRefusal::new(
                    "ERR Protocol version is not an integer or out of range",
                ));
            }
        };
    }
    let mut at = 2;
    while at < words.len() {
        let left = words.len() - at - 1;
        if words.is(at, "AUTH") && left >= 2 {
            authenticate(words.get(at + 1))?;
            at += 3;
        } else if words.is(at, "SETNAME") && left >= 1 {
            name = Some(super::clients::checked_name(words.get(at + 1))?);
            at += 2;
        } else {
            let option = base::codec::printable(words.get(at));
            return Err(RespRefusal::made(format!("ERR Syntax error in HELLO option '{option}'")));
        }
    }
    if let Some(name) = name {
        talk.client.card.names().name = name;
    }
    talk.out.protocol = protocol;
    talk.client.card.protocol.store(protocol.number() as u8, Relaxed);
    say_hello(talk);
    Ok(RespPlan::Said)
}

fn say_hello(talk: &mut CommandContext<'_>) {
    let texts = |talk: &mut CommandContext<'_>, name: &str, text: &str| {
        talk.out.text(name);
        talk.out.text(text);
    };
    talk.out.map(8);
    texts(talk, "server", "redis");
    texts(talk, "version", REDIS_VERSION);
    texts(talk, "credenza_version", env!("CARGO_PKG_VERSION"));
    talk.out.text("proto");
    talk.out.integer(talk.out.protocol.number());
    talk.out.text("id");
    talk.out.count(talk.client.card.id);
    texts(talk, "mode", "standalone");
    texts(talk, "role", "master");
    talk.out.text("modules");
    talk.out.array(0);
}

pub fn reset(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.client.reset();
    talk.out.protocol = Protocol::Two;
    let card = &talk.client.card;
    card.protocol.store(Protocol::Two.number() as u8, Relaxed);
    card.queued.store(-1, Relaxed);
    card.watched.store(0, Relaxed);
    talk.out.simple("RESET");
    Ok(RespPlan::Said)
}
