//! Translation of commands into requests, and of replies into frames.
//!
//! A table holds the commands, each with its arity and its function. The function parses the
//! arguments and returns a [`RespPlan`]: the answer is written already; or a call must be
//! submitted, and a [`RespShape`] encodes its reply; or a multi-step command must run. No function
//! here waits, so tests of all but the multi-step commands need only bytes.
//!
//! Promises: every command is answered exactly once; arity and options are checked before the
//! call is submitted; errors that Redis has have Redis' text.
//! Never: waits, holds an argument's bytes beyond its request (except for transactions and names).
//! Read next: `table.rs`, then `strings.rs` and `shape.rs`.

mod args;
mod buckets;
mod clients;
mod command_docs;
mod commands;
mod configuration;
mod connection;
mod declared_indexes;
mod expiry;
mod extensions;
mod feed;
mod keys;
mod numbers;
mod range;
mod recent;
mod sequence;
mod server;
mod shape;
mod siblings;
mod slow_log;
mod strings;
pub mod table;
mod transaction;
mod unserved;

pub use clients::{ClientSelection, KillFilter, client_list_line};
pub use commands::{CommandFilter, write_names};
pub use configuration::parameters;
pub use connection::{LoginCommand, REDIS_VERSION, greet};
pub use feed::write_page as write_feed_page;
pub use keys::{Scan, scan_range};
pub use recent::RecentCommand;
pub use server::InfoSection;
pub use shape::{RespShape, TransactionShape, TransactionSlot};
pub use table::{Command, Flags};

use super::client::Client;
use super::errors::{self, RespRefusal};
use super::frame::Args;
use super::glob::Glob;
use super::output::Output;
use crate::Shared;
use crate::clock::Clock;
use base::rights::Operate;
use base::{BucketName, Call, DirectoryCall, Key, Read, Reason, Request, Update};

/// Way in which a command is carried out.
#[derive(Debug)]
pub enum RespPlan {
    /// The answer is written already.
    Answered,
    /// Call on the connection's bucket, and the shape of its answer.
    Call(Call, RespShape),
    /// Call to the directory about this bucket, and the shape of its answer.
    Directory(BucketName, DirectoryCall, RespShape),
    /// Command that takes several requests, or that concerns more than one connection.
    MultiStep(MultiStep),
}

/// Command that takes several requests, or that concerns more than one connection.
#[derive(Debug)]
pub enum MultiStep {
    /// `KEYS`: all keys that match.
    Keys(Glob),
    /// `SCAN`: one page of a scan.
    Scan(Scan),
    /// `RANDOMKEY`: one key by chance.
    RandomKey,
    /// `MGET` of more keys than one request may read.
    Values(Vec<Key>),
    /// `INFO`: these sections.
    Info(Vec<InfoSection>),
    /// `CONFIG GET`: the parameters that match any of these patterns.
    Configuration(Vec<Glob>),
    /// `COMMAND LIST` with a filter: the names that pass.
    CommandNames(CommandFilter),
    /// `CLIENT LIST`: these connections.
    List(ClientSelection),
    /// `CLIENT KILL`: ends the connections that match.
    Kill(KillFilter),
    /// `ROLE`: the role of this node in the bucket's group.
    Role,
    /// `CONFIG RESETSTAT`: resets the counts.
    ResetCounts,
    /// `AUTH`, and `HELLO` with `AUTH`: logs in.
    Login(LoginCommand),
    /// `CREDENZA.FEED`: a page of a feed, once there is an event.
    Feed(Box<Request>),
}

impl MultiStep {
    /// Returns the act of operators that the command is. `None`: it is none, or it asks by requests
    /// that are decided one by one.
    pub fn act(&self) -> Option<Operate> {
        match self {
            MultiStep::List(ClientSelection::Caller(_) | ClientSelection::Empty) => None,
            MultiStep::List(ClientSelection::All | ClientSelection::Ids(_)) => {
                Some(Operate::ListClients)
            }
            MultiStep::Kill(_) => Some(Operate::EndClients),
            MultiStep::ResetCounts => Some(Operate::ResetCounts),
            MultiStep::Keys(_)
            | MultiStep::Scan(_)
            | MultiStep::RandomKey
            | MultiStep::Values(_)
            | MultiStep::Info(_)
            | MultiStep::Configuration(_)
            | MultiStep::CommandNames(_)
            | MultiStep::Role
            | MultiStep::Login(_)
            | MultiStep::Feed(_) => None,
        }
    }
}

/// Plan of a command, or its refusal.
pub type TranslateResult = Result<RespPlan, RespRefusal>;

/// Context of a command's translation: what it may read, and where it writes.
pub struct CommandContext<'a> {
    /// State of the connection.
    pub client: &'a mut Client,
    /// Output that answers are written to.
    pub out: &'a mut Output,
    /// Wall clock.
    pub clock: Clock,
    /// State that all connections share.
    pub shared: &'a Shared,
    /// True in a step of a transaction or sequence: it must be exactly one request.
    pub is_step: bool,
    /// Depth of nesting in sequences; 0 outside of one.
    pub depth: usize,
}

impl CommandContext<'_> {
    /// Returns true if the client must log in before it may do anything else.
    #[inline]
    pub fn requires_login(&self) -> bool {
        self.shared.node.requires_login() && self.client.principal.user().is_none()
    }

    /// Records that a command of a client that has not logged in is refused.
    #[cold]
    pub fn record_stranger(&self, command: &'static str, is_about_bucket: bool) {
        let Client { principal, bucket, .. } = &*self.client;
        let scope = if is_about_bucket { bucket.full().into() } else { String::new() };
        self.shared.node.record_refusal(principal, command, scope, Reason::Unauthenticated);
    }

    /// Writes an error of the front-end.
    pub fn refuse(&mut self, refusal: &RespRefusal) {
        self.client.counts.errors += 1;
        self.out.error(&refusal.0);
    }

    /// Writes an error of the node.
    pub fn fail(&mut self, error: &base::Error) {
        self.client.counts.errors += 1;
        self.out.error(&errors::text(error));
    }

    /// Writes lines of help.
    pub fn help(&mut self, lines: &[&str]) -> TranslateResult {
        self.out.array(lines.len());
        for line in lines {
            self.out.simple(line);
        }
        Ok(RespPlan::Answered)
    }

    /// Returns the plan of a read at the connection's read level.
    #[inline]
    pub fn read(&self, read: Read, shape: RespShape) -> TranslateResult {
        Ok(RespPlan::Call(Call::Read(read, self.client.read_level), shape))
    }
}

/// Returns the plan of an update.
#[inline]
pub fn update(update: Update, shape: RespShape) -> TranslateResult {
    Ok(RespPlan::Call(Call::Update(update), shape))
}

/// Translates one command; `first` is the command that its first argument names. A refusal is
/// written at once.
#[inline]
pub fn translate(
    first: Option<&'static Command>,
    args: &Args<'_>,
    ctx: &mut CommandContext<'_>,
) -> RespPlan {
    ctx.client.counts.commands += 1;
    let command = resolve(first, args);
    // A refused command makes the transaction fail, unless it is one that is never queued.
    let queued = !command.as_ref().is_ok_and(|command| command.flags.has(Flags::IMMEDIATE));
    match command.and_then(|command| run_or_queue(command, args, ctx)) {
        Ok(plan) => plan,
        Err(refusal) => {
            if let Some(transaction) = ctx.client.transaction.as_mut().filter(|_| queued) {
                transaction.failed = true;
            }
            ctx.refuse(&refusal);
            RespPlan::Answered
        }
    }
}

#[inline]
fn run_or_queue(
    command: &'static Command,
    args: &Args<'_>,
    ctx: &mut CommandContext<'_>,
) -> TranslateResult {
    if !command.flags.has(Flags::NO_AUTH) && ctx.requires_login() {
        ctx.record_stranger(command.full_name, command.is_data());
        return Err(errors::NO_AUTH);
    }
    if ctx.client.transaction.is_some() && !command.flags.has(Flags::IMMEDIATE) {
        return transaction::queue(command, args, ctx);
    }
    ctx.client.last_command = command.full_name;
    (command.run)(args, ctx)
}

/// Finds the command that these arguments name, and checks its arity.
#[inline]
pub fn find(args: &Args<'_>) -> Result<&'static Command, RespRefusal> {
    resolve(table::find(args.get(0)), args)
}

/// Finds the command that these arguments name: `first`, or a subcommand of it. Checks its arity.
#[inline]
fn resolve(
    first: Option<&'static Command>,
    args: &Args<'_>,
) -> Result<&'static Command, RespRefusal> {
    let Some(mut command) = first else {
        return Err(unknown_command(args));
    };
    if !command.subcommands.is_empty() && args.len() > 1 {
        command = command.find_subcommand(args.get(1)).ok_or_else(|| {
            let shown = printable_arg(args.get(1), 128);
            let parent = command.full_name.to_ascii_uppercase();
            RespRefusal::from_text(format!("ERR unknown subcommand '{shown}'. Try {parent} HELP."))
        })?;
    }
    if !command.accepts_arg_count(args.len()) {
        return Err(errors::arity(command.full_name));
    }
    Ok(command)
}

fn unknown_command(args: &Args<'_>) -> RespRefusal {
    let mut arguments = String::new();
    for at in 1..args.len() {
        if arguments.len() >= 128 {
            break;
        }
        arguments.push_str(&format!("'{}' ", printable_arg(args.get(at), 128 - arguments.len())));
    }
    let name = printable_arg(args.get(0), 128);
    // Append the hint, because clients recognize the error by the beginning of Redis' text.
    let hint = unserved::family(args.get(0)).map_or(String::new(), |family| {
        format!("(not supported: {family}; `COMMAND LIST` lists the supported commands)")
    });
    let text = format!("ERR unknown command '{name}', with args beginning with: {arguments}{hint}");
    RespRefusal::from_text(text)
}

/// Returns a client's argument in printable form, cut to a length, for an answer to that client.
fn printable_arg(arg: &[u8], bytes_max: usize) -> String {
    base::codec::printable(&arg[..arg.len().min(bytes_max)])
}

/// Translates a command into one step of a sequence. Refuses one that takes more than one request.
pub fn step(
    args: &Args<'_>,
    ctx: &mut CommandContext<'_>,
) -> Result<(Update, RespShape), RespRefusal> {
    let command = find(args)?;
    if !command.is_data() {
        return Err(not_a_step(command));
    }
    let outer = std::mem::replace(&mut ctx.is_step, true);
    let plan = (command.run)(args, ctx);
    ctx.is_step = outer;
    match plan? {
        RespPlan::Call(Call::Update(update), shape) => Ok((update, shape)),
        RespPlan::Call(Call::Read(read, _), shape) => Ok((Update::Read(read), shape)),
        RespPlan::Answered
        | RespPlan::Call(..)
        | RespPlan::Directory(..)
        | RespPlan::MultiStep(_) => Err(not_a_step(command)),
    }
}

fn not_a_step(command: &Command) -> RespRefusal {
    let name = command.full_name;
    RespRefusal::from_text(format!("ERR '{name}' is not allowed in a transaction or sequence"))
}

#[cfg(test)]
mod tests;
