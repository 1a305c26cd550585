//! Commands on the connection itself: `HELLO`, `PING`, `SELECT`, `QUIT`.

use super::{CommandContext, RespPlan, TranslateResult};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use crate::resp::output::Protocol;
use std::sync::atomic::Ordering::Relaxed;

/// Version of Redis whose commands and answers this front-end follows.
pub const REDIS_VERSION: &str = "7.0.15";

pub fn ping(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    match args.len() {
        1 => ctx.out.simple("PONG"),
        2 => ctx.out.value(&args.get_bytes(1)),
        _ => return Err(errors::arity("ping")),
    }
    Ok(RespPlan::Answered)
}

pub fn echo(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.out.value(&args.get_bytes(1));
    Ok(RespPlan::Answered)
}

pub fn quit(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.client.closing = true;
    ctx.out.ok();
    Ok(RespPlan::Answered)
}

/// Closes a connection on which a browser sends an HTTP request, lured by a web page. Sends no
/// answer and reads nothing more.
pub fn http(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.client.closing = true;
    Ok(RespPlan::Answered)
}

pub fn select(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    if args.integer(1)? != 0 {
        return Err(errors::NO_SUCH_DATABASE);
    }
    let bucket = base::BucketName::default();
    if ctx.client.bucket != bucket && !ctx.client.watched.is_empty() {
        return Err(RespRefusal::new(
            "ERR keys of the current bucket are watched: send UNWATCH first",
        ));
    }
    super::buckets::select(&bucket, ctx);
    Ok(RespPlan::Answered)
}

/// Returns the refusal of a user's credentials. There are no users yet, and a client that was told
/// `OK` would believe that its password protects something. Redis without a password accepts any
/// for the user `default`.
fn no_such_user(user: &[u8]) -> RespRefusal {
    match user {
        b"default" => NO_PASSWORD,
        _ => RespRefusal::new("WRONGPASS invalid username-password pair or user is disabled."),
    }
}

/// Refusal of a password for the user `default`, in Redis' words: its clients know them.
const NO_PASSWORD: RespRefusal = RespRefusal::new(
    "ERR AUTH <password> called without any password configured for the default user. Are you \
     sure your configuration is correct?",
);

pub fn auth(args: &Args<'_>, _: &mut CommandContext<'_>) -> TranslateResult {
    Err(match args.len() {
        2 => NO_PASSWORD,
        3 => no_such_user(args.get(1)),
        _ => errors::SYNTAX,
    })
}

pub fn hello(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let mut protocol = ctx.out.protocol;
    let mut name = None;
    if args.len() > 1 {
        protocol = match base::codec::decimal(args.get(1)) {
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
    while at < args.len() {
        let remaining = args.len() - at - 1;
        if args.is(at, "AUTH") && remaining >= 2 {
            return Err(no_such_user(args.get(at + 1)));
        } else if args.is(at, "SETNAME") && remaining >= 1 {
            name = Some(super::clients::parse_name(args.get(at + 1))?);
            at += 2;
        } else {
            let option = base::codec::printable(args.get(at));
            return Err(RespRefusal::from_text(format!(
                "ERR Syntax error in HELLO option '{option}'"
            )));
        }
    }
    if let Some(name) = name {
        ctx.client.info.names().name = name;
    }
    ctx.out.protocol = protocol;
    ctx.client.info.protocol.store(protocol.number() as u8, Relaxed);
    write_hello(ctx);
    Ok(RespPlan::Answered)
}

fn write_hello(ctx: &mut CommandContext<'_>) {
    let write_pair = |ctx: &mut CommandContext<'_>, name: &str, text: &str| {
        ctx.out.text(name);
        ctx.out.text(text);
    };
    ctx.out.map(8);
    write_pair(ctx, "server", "redis");
    write_pair(ctx, "version", REDIS_VERSION);
    write_pair(ctx, "credenza_version", env!("CARGO_PKG_VERSION"));
    ctx.out.text("proto");
    ctx.out.integer(ctx.out.protocol.number());
    ctx.out.text("id");
    ctx.out.count(ctx.client.info.id);
    write_pair(ctx, "mode", "standalone");
    write_pair(ctx, "role", "master");
    ctx.out.text("modules");
    ctx.out.array(0);
}

pub fn reset(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.client.reset();
    ctx.out.protocol = Protocol::Two;
    let info = &ctx.client.info;
    info.protocol.store(Protocol::Two.number() as u8, Relaxed);
    info.queued.store(-1, Relaxed);
    info.watched.store(0, Relaxed);
    ctx.out.simple("RESET");
    Ok(RespPlan::Answered)
}
