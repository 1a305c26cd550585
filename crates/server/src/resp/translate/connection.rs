//! Commands on the connection itself: `HELLO`, `PING`, `SELECT`, `QUIT`.

use super::{CommandContext, MultiStep, RespPlan, TranslateResult};
use crate::resp::errors::{self, RespRefusal};
use crate::resp::frame::Args;
use crate::resp::output::Protocol;
use base::access::Password;
use std::fmt;
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

/// Command that logs in, and what follows it.
#[derive(Debug)]
pub struct LoginCommand {
    /// Name and password of the user.
    pub credentials: Credentials,
    /// Protocol and name of the connection that `HELLO` sets afterwards. `None`: it was `AUTH`.
    pub hello: Option<(Protocol, Option<String>)>,
}

/// Name and password that a client presents.
pub struct Credentials {
    /// The name as it was sent.
    pub user: Vec<u8>,
    /// The password.
    pub password: Password,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// User that a password without a name belongs to.
const DEFAULT_USER: &[u8] = b"default";

/// Returns the credentials of two arguments. While access is off they are refused: a client that
/// was told `OK` would believe that its password protects something. Redis without a password
/// accepts any for the user `default`.
fn credentials(
    user: &[u8],
    password: &[u8],
    ctx: &CommandContext<'_>,
) -> Result<Credentials, RespRefusal> {
    if !ctx.shared.node.is_access_on() {
        return Err(match user {
            DEFAULT_USER => NO_PASSWORD,
            _ => errors::WRONG_PASSWORD,
        });
    }
    let password = Password::new(password).map_err(|_| errors::WRONG_PASSWORD)?;
    Ok(Credentials { user: user.to_vec(), password })
}

/// Refusal of a password for the user `default`, in Redis' words: its clients know them.
const NO_PASSWORD: RespRefusal = RespRefusal::new(
    "ERR AUTH <password> called without any password configured for the default user. Are you \
     sure your configuration is correct?",
);

pub fn auth(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let (user, password) = match args.len() {
        2 => (DEFAULT_USER, args.get(1)),
        3 => (args.get(1), args.get(2)),
        _ => return Err(errors::SYNTAX),
    };
    let credentials = credentials(user, password, ctx)?;
    Ok(RespPlan::MultiStep(MultiStep::Login(LoginCommand { credentials, hello: None })))
}

pub fn acl_whoami(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let user = ctx.client.principal.user().unwrap_or("default").to_string();
    ctx.out.text(user);
    Ok(RespPlan::Answered)
}

pub fn acl_help(_args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    ctx.help(&[
        "ACL <subcommand>. Subcommands are:",
        "WHOAMI: the user that this connection is logged in as. `credenza user` manages users.",
    ])
}

pub fn hello(args: &Args<'_>, ctx: &mut CommandContext<'_>) -> TranslateResult {
    let mut protocol = ctx.out.protocol;
    let (mut name, mut login) = (None, None);
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
            login = Some(credentials(args.get(at + 1), args.get(at + 2), ctx)?);
            at += 3;
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
    if let Some(credentials) = login {
        let hello = Some((protocol, name));
        return Ok(RespPlan::MultiStep(MultiStep::Login(LoginCommand { credentials, hello })));
    }
    if ctx.requires_login() {
        ctx.record_stranger("hello", false);
        return Err(RespRefusal::new(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
             HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
             select the RESP protocol version at the same time",
        ));
    }
    greet(protocol, name, ctx);
    Ok(RespPlan::Answered)
}

/// Sets what `HELLO` selects, and answers it.
pub fn greet(protocol: Protocol, name: Option<String>, ctx: &mut CommandContext<'_>) {
    if let Some(name) = name {
        ctx.client.info.names().name = name;
    }
    ctx.out.protocol = protocol;
    ctx.client.info.protocol.store(protocol.number() as u8, Relaxed);
    write_hello(ctx);
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
    ctx.client.has_reset = true;
    ctx.out.protocol = Protocol::Two;
    let info = &ctx.client.info;
    info.protocol.store(Protocol::Two.number() as u8, Relaxed);
    info.queued.store(-1, Relaxed);
    info.watched.store(0, Relaxed);
    ctx.out.simple("RESET");
    Ok(RespPlan::Answered)
}
