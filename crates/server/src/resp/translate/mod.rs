//! Translation of commands into requests, and of replies into frames.
//!
//! A table holds the commands, each with its arity and its function. The function reads the words
//! and returns a [`RespPlan`]: the answer is written already; or the node must be asked, and a
//! [`RespShape`] encodes its reply; or an errand of several requests must run. No function here
//! waits, so tests of all but the errands need only bytes.
//!
//! Promises: every command is answered exactly once; arity and options are checked before the node
//! is asked; errors that Redis has are given in Redis' words.
//! Never: waits, keeps a word's bytes beyond its request (except for transactions and names).
//! Read next: `table.rs`, then `strings.rs` and `shape.rs`.

mod buckets;
mod clients;
mod commands;
mod configuration;
mod connection;
mod expiry;
mod keys;
mod numbers;
mod own;
mod range;
mod recent;
mod sequence;
mod server;
mod shape;
mod siblings;
mod strings;
pub mod table;
mod transaction;
mod unserved;
mod words;

pub use clients::{Kill, Listed, line_of_list};
pub use configuration::parameters;
pub use connection::REDIS_VERSION;
pub use keys::{Scan, range_of};
pub use recent::RecentCommand;
pub use server::InfoSection;
pub use shape::{RespShape, TransactionSlot};
pub use table::{Command, Flags};

use super::client::Client;
use super::errors::{self, RespRefusal};
use super::frame::Words;
use super::glob::Glob;
use super::output::Output;
use crate::Shared;
use crate::clock::Clock;
use base::{BucketName, Call, DirectoryCall, Key, Read, Update};

/// Way in which a command is carried out.
#[derive(Debug)]
pub enum RespPlan {
    /// The answer is written already.
    Said,
    /// Call on the connection's bucket, and the shape of its answer.
    Ask(Call, RespShape),
    /// Call to the directory about this bucket, and the shape of its answer.
    Directory(BucketName, DirectoryCall, RespShape),
    /// Errand of several requests, or about more than one connection.
    Run(MultiStep),
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
    /// `CLIENT LIST`: these connections.
    List(Listed),
    /// `CLIENT KILL`: ends the connections that match.
    Kill(Kill),
    /// `ROLE`: the role of this node in the bucket's group.
    Role,
    /// `CONFIG RESETSTAT`: resets the counts.
    ResetCounts,
}

/// Plan of a command, or its refusal.
pub type Translated = Result<RespPlan, RespRefusal>;

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
    /// True in a step of a transaction or sequence: it must be one request, no errand.
    pub as_step: bool,
    /// Depth of nesting in sequences; 0 outside of one.
    pub depth: usize,
}

impl CommandContext<'_> {
    /// Writes an error of the front-end.
    pub fn refuse(&mut self, refusal: &RespRefusal) {
        self.client.tally.errors += 1;
        self.out.error(&refusal.0);
    }

    /// Writes an error of the node.
    pub fn fail(&mut self, error: &base::Error) {
        self.client.tally.errors += 1;
        self.out.error(&errors::text(error));
    }

    /// Writes lines of help.
    pub fn help(&mut self, lines: &[&str]) -> Translated {
        self.out.array(lines.len());
        for line in lines {
            self.out.simple(line);
        }
        Ok(RespPlan::Said)
    }

    /// Returns the plan of a read at the connection's read level.
    #[inline]
    pub fn read(&self, read: Read, shape: RespShape) -> Translated {
        Ok(RespPlan::Ask(Call::Read(read, self.client.read_level), shape))
    }
}

/// Returns the plan of an update.
#[inline]
pub fn update(update: Update, shape: RespShape) -> Translated {
    Ok(RespPlan::Ask(Call::Update(update), shape))
}

/// Translates one command; `first` is the command that its first word names. A refusal is written
/// at once.
#[inline]
pub fn translate(
    first: Option<&'static Command>,
    words: &Words<'_>,
    talk: &mut CommandContext<'_>,
) -> RespPlan {
    talk.client.tally.commands += 1;
    let command = named(first, words);
    // A refused command makes the transaction fail, unless it is one that is never queued.
    let queued = !command.as_ref().is_ok_and(|command| command.flags.has(Flags::AT_ONCE));
    match command.and_then(|command| run_or_queue(command, words, talk)) {
        Ok(plan) => plan,
        Err(refusal) => {
            if let Some(transaction) = talk.client.transaction.as_mut().filter(|_| queued) {
                transaction.failed = true;
            }
            talk.refuse(&refusal);
            RespPlan::Said
        }
    }
}

#[inline]
fn run_or_queue(
    command: &'static Command,
    words: &Words<'_>,
    talk: &mut CommandContext<'_>,
) -> Translated {
    if talk.client.transaction.is_some() && !command.flags.has(Flags::AT_ONCE) {
        return transaction::queue(command, words, talk);
    }
    talk.client.last_command = command.full_name;
    (command.run)(words, talk)
}

/// Finds the command that these words name, and checks its arity.
#[inline]
pub fn find(words: &Words<'_>) -> Result<&'static Command, RespRefusal> {
    named(table::find(words.get(0)), words)
}

/// Finds the command that these words name: `first`, or a subcommand of it. Checks its arity.
#[inline]
fn named(
    first: Option<&'static Command>,
    words: &Words<'_>,
) -> Result<&'static Command, RespRefusal> {
    let Some(mut command) = first else {
        return Err(unknown(words));
    };
    if !command.under.is_empty() && words.len() > 1 {
        command = command.under(words.get(1)).ok_or_else(|| {
            let shown = shown(words.get(1), 128);
            let parent = command.full_name.to_ascii_uppercase();
            RespRefusal::made(format!("ERR unknown subcommand '{shown}'. Try {parent} HELP."))
        })?;
    }
    if !command.takes(words.len()) {
        return Err(errors::arity(command.full_name));
    }
    Ok(command)
}

fn unknown(words: &Words<'_>) -> RespRefusal {
    let mut arguments = String::new();
    for at in 1..words.len() {
        if arguments.len() >= 128 {
            break;
        }
        arguments.push_str(&format!("'{}' ", shown(words.get(at), 128 - arguments.len())));
    }
    let name = shown(words.get(0), 128);
    // Append the hint, because clients recognize the error by the beginning of Redis' text.
    let hint = unserved::family(words.get(0)).map_or(String::new(), |family| {
        format!("(not served: {family}; `COMMAND LIST` says what is)")
    });
    let said = format!("ERR unknown command '{name}', with args beginning with: {arguments}{hint}");
    RespRefusal::made(said)
}

/// Returns a client's own word in printable form, cut to a length, for an answer to that client.
fn shown(word: &[u8], bytes_max: usize) -> String {
    base::codec::printable(&word[..word.len().min(bytes_max)])
}

/// Translates a command into one step of a sequence. Refuses one that takes more than one request.
pub fn step(
    words: &Words<'_>,
    talk: &mut CommandContext<'_>,
) -> Result<(Update, RespShape), RespRefusal> {
    let command = find(words)?;
    let refused = || {
        let name = command.full_name;
        RespRefusal::made(format!("ERR '{name}' can't be a step of a transaction or sequence"))
    };
    if !command.is_data() {
        return Err(refused());
    }
    let before = std::mem::replace(&mut talk.as_step, true);
    let plan = (command.run)(words, talk);
    talk.as_step = before;
    match plan? {
        RespPlan::Ask(Call::Update(update), shape) => Ok((update, shape)),
        RespPlan::Ask(Call::Read(read, _), shape) => Ok((Update::Read(read), shape)),
        RespPlan::Said | RespPlan::Ask(..) | RespPlan::Directory(..) | RespPlan::Run(_) => {
            Err(refused())
        }
    }
}

#[cfg(test)]
mod tests;
