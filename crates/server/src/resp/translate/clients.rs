//! `CLIENT`: the list of connections, their names, and their end.

use super::{CommandContext, MultiStep, RespPlan, TranslateResult};
use crate::resp::client::Replies;
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use crate::resp::registry::ClientInfo;
use std::sync::atomic::Ordering::Relaxed;

/// Longest name of a connection or library.
const NAME_BYTES_MAX: usize = 256;

/// Connections that `CLIENT LIST` shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientSelection {
    /// All connections.
    All,
    /// Connections with these ids.
    Ids(Vec<u64>),
    /// No connections: clients of this type do not exist here.
    Empty,
    /// The connection with this id, which sent the command.
    Caller(u64),
}

/// Filter of `CLIENT KILL`: connections that match every given field are ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KillFilter {
    /// Id of the connection.
    pub id: Option<u64>,
    /// Address of the client, `ip:port`.
    pub address: Option<String>,
    /// Address that the client connected to, `ip:port`.
    pub local: Option<String>,
    /// User that the connection is logged in as; `default`: none.
    pub user: Option<String>,
    /// True if the named type of clients does not exist here, so that nothing matches.
    pub matches_none: bool,
    /// Id of the connection to spare, which sent the command. `None`: none is spared.
    pub excluded_id: Option<u64>,
    /// True for the old form: one address, answered with `OK` or an error.
    pub is_legacy_form: bool,
}

impl KillFilter {
    /// Returns true if this connection matches.
    pub fn matches(&self, info: &ClientInfo) -> bool {
        let has_value = |expected: &Option<String>, actual: &dyn Fn() -> String| {
            expected.as_ref().is_none_or(|expected| *expected == actual())
        };
        !self.matches_none
            && self.id.is_none_or(|id| id == info.id)
            && has_value(&self.address, &|| info.address.to_string())
            && has_value(&self.local, &|| info.local.to_string())
            && has_value(&self.user, &|| match &info.names().user {
                user if user.is_empty() => "default".into(),
                user => user.clone(),
            })
            && self.excluded_id.is_none_or(|excluded_id| excluded_id != info.id)
    }
}

/// Checks a connection's name as Redis does: printable, without blanks.
pub fn parse_name(name: &[u8]) -> Result<String, RespRefusal> {
    parse_text(name, "Client names")
}

fn parse_text(name: &[u8], what: &str) -> Result<String, RespRefusal> {
    let plain = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
    match std::str::from_utf8(name) {
        Ok(text) if plain && text.len() <= NAME_BYTES_MAX => Ok(text.into()),
        _ => Err(RespRefusal::from_text(format!(
            "ERR {what} cannot contain spaces, newlines or special characters."
        ))),
    }
}

pub fn id(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.out.count(ctx.client.info.id);
    Ok(RespPlan::Answered)
}

pub fn getname(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let name = ctx.client.info.names().name.clone();
    if name.is_empty() {
        ctx.out.null()
    } else {
        ctx.out.text(name)
    }
    Ok(RespPlan::Answered)
}

pub fn setname(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.client.info.names().name = parse_name(args.get(2))?;
    ctx.out.ok();
    Ok(RespPlan::Answered)
}

pub fn setinfo(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    match args.upper(2).as_str() {
        "LIB-NAME" => ctx.client.info.names().library = parse_text(args.get(3), "lib-name")?,
        "LIB-VER" => ctx.client.info.names().library_version = parse_text(args.get(3), "lib-ver")?,
        _ => {
            let option = base::codec::printable(args.get(2));
            return Err(RespRefusal::from_text(format!("ERR Unrecognized option '{option}'")));
        }
    }
    ctx.out.ok();
    Ok(RespPlan::Answered)
}

/// Returns true if an argument names normal clients, and false for the other client types of Redis.
/// Fails if it names no type.
fn is_normal(args: &Args<'_>, at: usize) -> Result<bool, RespRefusal> {
    match args.upper(at).as_str() {
        "NORMAL" => Ok(true),
        "MASTER" | "REPLICA" | "SLAVE" | "PUBSUB" => Ok(false),
        _ => {
            let kind = base::codec::printable(args.get(at));
            Err(RespRefusal::from_text(format!("ERR Unknown client type '{kind}'")))
        }
    }
}

pub fn list(args: &Args<'_>, _ctx: &mut CommandContext<'_>) -> TranslateResult {
    let listed = match (args.len(), args.upper(2).as_str()) {
        (2, _) => ClientSelection::All,
        (4, "TYPE") => {
            if is_normal(args, 3)? {
                ClientSelection::All
            } else {
                ClientSelection::Empty
            }
        }
        (4.., "ID") => {
            let id = |at| args.natural(at).map_err(|_| RespRefusal::new("ERR Invalid client ID"));
            ClientSelection::Ids((3..args.len()).map(id).collect::<Result<_, _>>()?)
        }
        _ => return Err(errors::SYNTAX),
    };
    Ok(RespPlan::MultiStep(MultiStep::List(listed)))
}

pub fn info(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    Ok(RespPlan::MultiStep(MultiStep::List(ClientSelection::Caller(ctx.client.info.id))))
}

pub fn kill(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if args.len() == 3 {
        let address = Some(args.text(2)?.to_string());
        return Ok(RespPlan::MultiStep(MultiStep::Kill(KillFilter {
            address,
            is_legacy_form: true,
            ..KillFilter::default()
        })));
    }
    let mut kill = KillFilter { excluded_id: Some(ctx.client.info.id), ..KillFilter::default() };
    for at in (2..args.len()).step_by(2) {
        if at + 1 == args.len() {
            return Err(errors::SYNTAX);
        }
        match args.upper(at).as_str() {
            "ID" => {
                let greater = RespRefusal::new("ERR client-id should be greater than 0");
                kill.id = Some(args.natural(at + 1).ok().filter(|id| *id > 0).ok_or(greater)?);
            }
            "ADDR" => kill.address = Some(args.text(at + 1)?.into()),
            "LADDR" => kill.local = Some(args.text(at + 1)?.into()),
            "TYPE" => kill.matches_none = !is_normal(args, at + 1)?,
            "USER" => kill.user = Some(args.text(at + 1)?.into()),
            "SKIPME" if args.is(at + 1, "yes") => kill.excluded_id = Some(ctx.client.info.id),
            "SKIPME" if args.is(at + 1, "no") => kill.excluded_id = None,
            _ => return Err(errors::SYNTAX),
        }
    }
    Ok(RespPlan::MultiStep(MultiStep::Kill(kill)))
}

pub fn reply(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.client.replies = match args.upper(2).as_str() {
        "ON" => Replies::On,
        "OFF" => Replies::Off,
        "SKIP" if ctx.client.replies == Replies::Off => Replies::Off,
        "SKIP" => Replies::SkipNext,
        _ => return Err(errors::SYNTAX),
    };
    if ctx.client.replies == Replies::On {
        ctx.out.ok();
    }
    Ok(RespPlan::Answered)
}

fn ok(ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.out.ok();
    Ok(RespPlan::Answered)
}

/// Accepts `NO-EVICT` and `NO-TOUCH` without effect: no client is evicted, and reads leave no
/// trace.
pub fn switch(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if args.is(2, "ON") || args.is(2, "OFF") { ok(ctx) } else { Err(errors::SYNTAX) }
}

pub fn unpause(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ok(ctx)
}

pub fn tracking(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if args.is(2, "OFF") && args.len() == 3 {
        return ok(ctx);
    }
    Err(RespRefusal::new("ERR client tracking is not supported"))
}

pub fn getredir(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.out.integer(-1);
    Ok(RespPlan::Answered)
}

pub fn trackinginfo(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.out.map(3);
    ctx.out.text("flags");
    ctx.out.set(1);
    ctx.out.text("off");
    ctx.out.text("redirect");
    ctx.out.integer(-1);
    ctx.out.text("prefixes");
    ctx.out.array(0);
    Ok(RespPlan::Answered)
}

pub fn help(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.help(&[
        "CLIENT <subcommand> [<arg> ...]. Subcommands are:",
        "GETNAME, SETNAME <name>, SETINFO LIB-NAME|LIB-VER <text>: name and library of this \
         connection.",
        "ID, INFO, LIST [TYPE <type> | ID <id> ...]: describes connections.",
        "KILL <ip:port> | [ID <id>] [USER <user>] [ADDR|LADDR <ip:port>] [SKIPME yes|no]: closes \
         connections.",
        "REPLY ON|OFF|SKIP: selects whether commands are answered.",
        "NO-EVICT ON|OFF, NO-TOUCH ON|OFF, TRACKING OFF, UNPAUSE: accepted without effect.",
    ])
}

/// Formats a connection as a line of `CLIENT LIST`, with a line end.
pub fn client_list_line(info: &ClientInfo, now_ms: u64) -> String {
    let names = info.names().clone();
    let seconds = |since: u64| now_ms.saturating_sub(since) / 1_000;
    format!(
        "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={} db=0 sub=0 psub=0 ssub=0 \
         multi={} watch={} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 \
         omem=0 tot-mem=0 events=r cmd={} user={} redir=-1 resp={} lib-name={} lib-ver={} \
         bucket={}\n",
        info.id,
        info.address,
        info.local,
        names.name,
        seconds(info.since_ms),
        seconds(info.activity.last_ms()),
        if info.queued.load(Relaxed) >= 0 { "x" } else { "N" },
        info.queued.load(Relaxed),
        info.watched.load(Relaxed),
        if names.command.is_empty() { "NULL" } else { names.command },
        if names.user.is_empty() { "default" } else { &names.user },
        info.protocol.load(Relaxed),
        names.library,
        names.library_version,
        if names.bucket.is_empty() { "default/default" } else { &names.bucket },
    )
}
