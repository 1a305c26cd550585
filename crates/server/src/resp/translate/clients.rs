//! `CLIENT`: the list of connections, their names, and their end.

use super::{CommandContext, MultiStep, RespPlan, Translated};
use crate::resp::client::Replies;
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Words;
use crate::resp::registry::Card;
use std::sync::atomic::Ordering::Relaxed;

/// Longest name of a connection or library.
const NAME_BYTES_MAX: usize = 256;

/// Connections that `CLIENT LIST` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listed {
    /// All connections.
    All,
    /// Connections with these ids.
    Ids(Vec<u64>),
    /// No connections: clients of this type do not exist here.
    Nobody,
    /// The connection with this id, which sent the command.
    Myself(u64),
}

/// Filter of `CLIENT KILL`: connections that match every given field are ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kill {
    /// Id of the connection.
    pub id: Option<u64>,
    /// Address of the client, `ip:port`.
    pub address: Option<String>,
    /// Address that the client connected to, `ip:port`.
    pub local: Option<String>,
    /// True if the named type of clients does not exist here, so that nothing matches.
    pub nobody: bool,
    /// Id of the connection to spare, which sent the command. `None`: none is spared.
    pub spared: Option<u64>,
    /// True for the old form: one address, answered with `OK` or an error.
    pub old_form: bool,
}

impl Kill {
    /// Returns true if this connection matches.
    pub fn names(&self, card: &Card) -> bool {
        let fits = |wanted: &Option<String>, found: &dyn Fn() -> String| {
            wanted.as_ref().is_none_or(|wanted| *wanted == found())
        };
        !self.nobody
            && self.id.is_none_or(|id| id == card.id)
            && fits(&self.address, &|| card.address.to_string())
            && fits(&self.local, &|| card.local.to_string())
            && self.spared.is_none_or(|spared| spared != card.id)
    }
}

/// Checks a connection's name as Redis does: printable, without blanks.
pub fn checked_name(name: &[u8]) -> Result<String, RespRefusal> {
    checked(name, "Client names")
}

fn checked(name: &[u8], what: &str) -> Result<String, RespRefusal> {
    let plain = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    match std::str::from_utf8(name) {
        Ok(text) if plain && text.len() <= NAME_BYTES_MAX => Ok(text.into()),
        _ => Err(RespRefusal::made(format!(
            "ERR {what} cannot contain spaces, newlines or special characters."
        ))),
    }
}

pub fn id(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.out.count(talk.client.card.id);
    Ok(RespPlan::Said)
}

pub fn getname(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    let name = talk.client.card.names().name.clone();
    if name.is_empty() {
        talk.out.null()
    } else {
        talk.out.text(name)
    }
    Ok(RespPlan::Said)
}

pub fn setname(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.client.card.names().name = checked_name(words.get(2))?;
    talk.out.ok();
    Ok(RespPlan::Said)
}

pub fn setinfo(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    match words.upper(2).as_str() {
        "LIB-NAME" => talk.client.card.names().library = checked(words.get(3), "lib-name")?,
        "LIB-VER" => talk.client.card.names().library_version = checked(words.get(3), "lib-ver")?,
        _ => {
            let option = base::codec::printable(words.get(2));
            return Err(RespRefusal::made(format!("ERR Unrecognized option '{option}'")));
        }
    }
    talk.out.ok();
    Ok(RespPlan::Said)
}

/// Returns true if a word names normal clients, and false for the other types that Redis knows.
/// Fails if it names no type.
fn is_normal(words: &Words<'_>, at: usize) -> Result<bool, RespRefusal> {
    match words.upper(at).as_str() {
        "NORMAL" => Ok(true),
        "MASTER" | "REPLICA" | "SLAVE" | "PUBSUB" => Ok(false),
        _ => {
            let kind = base::codec::printable(words.get(at));
            Err(RespRefusal::made(format!("ERR Unknown client type '{kind}'")))
        }
    }
}

pub fn list(words: &Words<'_>, _talk: &mut CommandContext<'_>) -> Translated {
    let listed = match (words.len(), words.upper(2).as_str()) {
        (2, _) => Listed::All,
        (4, "TYPE") => {
            if is_normal(words, 3)? {
                Listed::All
            } else {
                Listed::Nobody
            }
        }
        (4.., "ID") => {
            let id = |at| words.natural(at).map_err(|_| RespRefusal::new("ERR Invalid client ID"));
            Listed::Ids((3..words.len()).map(id).collect::<Result<_, _>>()?)
        }
        _ => return Err(errors::SYNTAX),
    };
    Ok(RespPlan::Run(MultiStep::List(listed)))
}

pub fn info(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    Ok(RespPlan::Run(MultiStep::List(Listed::Myself(talk.client.card.id))))
}

pub fn kill(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if words.len() == 3 {
        let address = Some(words.text(2)?.to_string());
        return Ok(RespPlan::Run(MultiStep::Kill(Kill {
            address,
            old_form: true,
            ..Kill::default()
        })));
    }
    let mut kill = Kill { spared: Some(talk.client.card.id), ..Kill::default() };
    for at in (2..words.len()).step_by(2) {
        if at + 1 == words.len() {
            return Err(errors::SYNTAX);
        }
        match words.upper(at).as_str() {
            "ID" => {
                let greater = RespRefusal::new("ERR client-id should be greater than 0");
                kill.id = Some(words.natural(at + 1).ok().filter(|id| *id > 0).ok_or(greater)?);
            }
            "ADDR" => kill.address = Some(words.text(at + 1)?.into()),
            "LADDR" => kill.local = Some(words.text(at + 1)?.into()),
            "TYPE" => kill.nobody = !is_normal(words, at + 1)?,
            "USER" if words.get(at + 1) == b"default" => {}
            "USER" => {
                let name = base::codec::printable(words.get(at + 1));
                return Err(RespRefusal::made(format!("ERR No such user '{name}'")));
            }
            "SKIPME" if words.is(at + 1, "yes") => kill.spared = Some(talk.client.card.id),
            "SKIPME" if words.is(at + 1, "no") => kill.spared = None,
            _ => return Err(errors::SYNTAX),
        }
    }
    Ok(RespPlan::Run(MultiStep::Kill(kill)))
}

pub fn reply(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.client.replies = match words.upper(2).as_str() {
        "ON" => Replies::On,
        "OFF" => Replies::Off,
        "SKIP" if talk.client.replies == Replies::Off => Replies::Off,
        "SKIP" => Replies::SkipNext,
        _ => return Err(errors::SYNTAX),
    };
    if talk.client.replies == Replies::On {
        talk.out.ok();
    }
    Ok(RespPlan::Said)
}

fn ok(talk: &mut CommandContext<'_>) -> Translated {
    talk.out.ok();
    Ok(RespPlan::Said)
}

/// Accepts `NO-EVICT` and `NO-TOUCH` without effect: no client is evicted, and reads leave no
/// trace.
pub fn switch(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if words.is(2, "ON") || words.is(2, "OFF") { ok(talk) } else { Err(errors::SYNTAX) }
}

pub fn unpause(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    ok(talk)
}

pub fn tracking(words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    if words.is(2, "OFF") && words.len() == 3 {
        return ok(talk);
    }
    Err(RespRefusal::new("ERR this server does not track keys for its clients"))
}

pub fn getredir(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.out.integer(-1);
    Ok(RespPlan::Said)
}

pub fn trackinginfo(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.out.map(3);
    talk.out.text("flags");
    talk.out.set(1);
    talk.out.text("off");
    talk.out.text("redirect");
    talk.out.integer(-1);
    talk.out.text("prefixes");
    talk.out.array(0);
    Ok(RespPlan::Said)
}

pub fn help(_words: &Words<'_>, talk: &mut CommandContext<'_>) -> Translated {
    talk.help(&[
        "CLIENT <subcommand> [<arg> ...]. Subcommands are:",
        "GETNAME, SETNAME <name>, SETINFO LIB-NAME|LIB-VER <text>: what this connection is called.",
        "ID, INFO, LIST [TYPE <type> | ID <id> ...]: who is here.",
        "KILL <ip:port> | [ID <id>] [ADDR|LADDR <ip:port>] [SKIPME yes|no]: ends connections.",
        "REPLY ON|OFF|SKIP: which answers are sent.",
        "NO-EVICT ON|OFF, NO-TOUCH ON|OFF, TRACKING OFF, UNPAUSE: taken, since nothing is to do.",
    ])
}

/// Formats a connection as a line of `CLIENT LIST`, with a line end.
pub fn line_of_list(card: &Card, now_ms: u64) -> String {
    let names = card.names().clone();
    let seconds = |since: u64| now_ms.saturating_sub(since) / 1_000;
    format!(
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db=0 sub=0 psub=0 ssub=0 \
         multi={} watch={} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 \
         omem=0 tot-mem=0 events=r cmd={} user=default redir=-1 resp={} lib-name={} lib-ver={} \
         bucket={}\n",
        card.id,
        card.address,
        card.local,
        names.name,
        seconds(card.since_ms),
        seconds(card.activity.last_ms()),
        if card.queued.load(Relaxed) >= 0 { "x" } else { "N" },
        card.queued.load(Relaxed),
        card.watched.load(Relaxed),
        if names.command.is_empty() { "NULL" } else { names.command },
        card.protocol.load(Relaxed),
        names.library,
        names.library_version,
        if names.bucket.is_empty() { "default/default" } else { &names.bucket },
    )
}
