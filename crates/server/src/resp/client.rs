//! State of one RESP connection that commands read and change.

use super::frame::OwnedArgs;
use super::registry::ClientInfo;
use crate::buffer_budget::BufferBudget;
use base::request::ReadLevel;
use base::{BucketName, Key, LogIndex, Principal, RetryId, SessionId, Update};
use std::sync::Arc;

/// Answers that a client receives (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All answers.
    #[default]
    On,
    /// No answers until the client sends `CLIENT REPLY ON`.
    Off,
    /// All answers except the one to the next command.
    SkipNext,
    /// All answers except the one to the current command.
    Skip,
}

/// Transaction between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub struct Transaction {
    /// Queued commands, in order.
    pub queue: Vec<OwnedArgs>,
    /// Memory of the queued commands in bytes.
    pub bytes: usize,
    /// Share of the memory budget of all connections, for the queue: a client may leave commands
    /// queued without a time limit.
    pub queue_budget: BufferBudget,
    /// True if a command was refused, so that `EXEC` will be refused, too.
    pub failed: bool,
}

/// Key that must not have changed when `EXEC` runs.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedKey {
    /// The key.
    pub key: Key,
    /// Assertion that the key has not changed since it was watched, a step of `EXEC`.
    pub unchanged: Update,
}

/// Counts of one connection since they were last added to the common totals.
#[derive(Debug, Default)]
pub struct ClientCounts {
    /// Number of commands.
    pub commands: u64,
    /// Number of reads of keys that existed.
    pub hits: u64,
    /// Number of reads of keys that did not exist.
    pub misses: u64,
    /// Number of answers that were errors.
    pub errors: u64,
}

/// State of one connection.
#[derive(Debug)]
pub struct Client {
    /// Part of the state that other connections can see.
    pub info: Arc<ClientInfo>,
    /// Principal of its requests.
    pub principal: Principal,
    /// Bucket that its commands apply to.
    pub bucket: BucketName,
    /// Read level of its reads.
    pub read_level: ReadLevel,
    /// Open transaction. `None`: no `MULTI` is open.
    pub transaction: Option<Transaction>,
    /// Keys that it watches, all in its bucket.
    pub watched: Vec<WatchedKey>,
    /// Share of the memory budget of all connections, for the watched keys: a client may watch them
    /// without a time limit.
    pub watch_budget: BufferBudget,
    /// Client session of its retries, if it uses one.
    pub session: Option<SessionId>,
    /// Retry identity of the update that is being translated.
    pub retry: Option<RetryId>,
    /// Answers that it receives.
    pub replies: Replies,
    /// Log index of its last answer.
    pub last_index: LogIndex,
    /// True if the connection is closed once its answers are sent.
    pub closing: bool,
    /// True if `RESET` ended its login, which its later requests must not have.
    pub has_reset: bool,
    /// Name of its last command.
    pub last_command: &'static str,
    /// Name of its last command as `CLIENT LIST` shows it.
    pub listed_command: &'static str,
    /// Counts not yet added to the common totals.
    pub counts: ClientCounts,
}

impl Client {
    /// Returns the state of a new connection.
    pub fn new(info: Arc<ClientInfo>) -> Client {
        Client {
            principal: Principal::Anonymous(info.listener),
            info,
            bucket: BucketName::default(),
            read_level: ReadLevel::default(),
            transaction: None,
            watched: Vec::new(),
            watch_budget: BufferBudget::default(),
            session: None,
            retry: None,
            replies: Replies::default(),
            last_index: LogIndex::default(),
            closing: false,
            has_reset: false,
            last_command: "",
            listed_command: "",
            counts: ClientCounts::default(),
        }
    }

    /// Returns the memory of the watched keys in bytes.
    pub fn watched_bytes(&self) -> usize {
        self.watched.iter().map(|watched| size_of::<WatchedKey>() + watched.key.len()).sum()
    }

    /// Resets the state to that of a new connection; its id and its registration stay.
    pub fn reset(&mut self) {
        let counts = std::mem::take(&mut self.counts);
        *self = Client { counts, ..Client::new(self.info.clone()) };
        *self.info.names() = Default::default();
    }
}
