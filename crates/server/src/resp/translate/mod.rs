//! Commands to requests, and answers back to frames.
//!
//! A table says what commands there are, how many words each takes and which function reads them.
//! That function looks at the words and gives a [`Plan`]: the answer is said already, or the node
//! is to be asked and a [`Shape`] says how its answer is spoken, or an errand of several requests
//! is to be run. Nothing here waits, so everything but the errands is tested with plain bytes.
//!
//! Promises: every command is answered exactly once; arity and options are checked before the node
//! is asked; what Redis refuses is refused in Redis' words.
//! Never: waits, keeps a word's bytes beyond its request (but for transactions and names).
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

/// What is to be done for a command.
#[derive(Debug)]
pub enum RespPlan {
    /// Nothing more: the answer is said.
    Said,
    /// Ask the node about the connection's bucket; the answer has this shape.
    Ask(Call, RespShape),
    /// Ask the directory about this bucket; the answer has this shape.
    Directory(BucketName, DirectoryCall, RespShape),
    /// What takes several requests, or knowledge of more than one connection.
    Run(Errand),
}

/// What takes several requests, or knowledge of more than one connection.
#[derive(Debug)]
pub enum Errand {
    /// All keys that fit.
    Keys(Glob),
    /// A page of a scan.
    Scan(Scan),
    /// Some key.
    RandomKey,
    /// The values of more keys than one request may ask for.
    Values(Vec<Key>),
    /// What `INFO` says, in these sections.
    Info(Vec<InfoSection>),
    /// What `CONFIG GET` says of the parameters that fit.
    Configuration(Vec<Glob>),
    /// Who is here.
    List(Listed),
    /// End connections.
    Kill(Kill),
    /// What this node is to its group.
    Role,
    /// Counts begin anew.
    ResetCounts,
}

/// What a command is, or why it is refused.
pub type Translated = Result<RespPlan, RespRefusal>;

/// What a command may look at and say while it is translated.
pub struct Talk<'a> {
    /// Its connection.
    pub client: &'a mut Client,
    /// Where answers go.
    pub out: &'a mut Output,
    /// The hour.
    pub clock: Clock,
    /// What all connections share.
    pub shared: &'a Shared,
    /// Whether it is a step of a transaction or sequence: one request, no errand.
    pub as_step: bool,
    /// How deep in sequences it stands.
    pub depth: usize,
}

impl Talk<'_> {
    /// Says an error.
    pub fn refuse(&mut self, refusal: &RespRefusal) {
        self.client.tally.errors += 1;
        self.out.error(&refusal.0);
    }

    /// Says an error of the node.
    pub fn fail(&mut self, error: &base::Error) {
        self.client.tally.errors += 1;
        self.out.error(&errors::text(error));
    }

    /// Says lines for people.
    pub fn help(&mut self, lines: &[&str]) -> Translated {
        self.out.array(lines.len());
        for line in lines {
            self.out.simple(line);
        }
        Ok(RespPlan::Said)
    }

    /// A read as fresh as the connection wants it.
    #[inline]
    pub fn read(&self, read: Read, shape: RespShape) -> Translated {
        Ok(RespPlan::Ask(Call::Read(read, self.client.read_level), shape))
    }
}

/// An update whose answer has this shape.
#[inline]
pub fn update(update: Update, shape: RespShape) -> Translated {
    Ok(RespPlan::Ask(Call::Update(update), shape))
}

/// Translates one command, whose first word names `first`; a refusal is said at once.
#[inline]
pub fn translate(
    first: Option<&'static Command>,
    words: &Words<'_>,
    talk: &mut Talk<'_>,
) -> RespPlan {
    talk.client.tally.commands += 1;
    let command = named(first, words);
    // A transaction fails with what can't be queued, and not with what is never queued.
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
fn run_or_queue(command: &'static Command, words: &Words<'_>, talk: &mut Talk<'_>) -> Translated {
    if talk.client.transaction.is_some() && !command.flags.has(Flags::AT_ONCE) {
        return transaction::queue(command, words, talk);
    }
    talk.client.last_command = command.full_name;
    (command.run)(words, talk)
}

/// The command these words name, its arity checked.
#[inline]
pub fn find(words: &Words<'_>) -> Result<&'static Command, RespRefusal> {
    named(table::find(words.get(0)), words)
}

/// The command these words name: `first`, which the first does, or one under it.
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
    // Behind Redis' words, by whose beginning clients know the error.
    let hint = unserved::family(words.get(0)).map_or(String::new(), |family| {
        format!("(not served: {family}; `COMMAND LIST` says what is)")
    });
    let said = format!("ERR unknown command '{name}', with args beginning with: {arguments}{hint}");
    RespRefusal::made(said)
}

/// A client's own word for an answer to that client, cut to a length.
fn shown(word: &[u8], bytes_max: usize) -> String {
    base::codec::printable(&word[..word.len().min(bytes_max)])
}

/// A command as one step of something larger; refused when it takes more than one request.
pub fn step(words: &Words<'_>, talk: &mut Talk<'_>) -> Result<(Update, RespShape), RespRefusal> {
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
