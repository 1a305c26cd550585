//! State of one RESP connection that commands read and change.

use super::frame::Detached;
use super::registry::Card;
use crate::buffer_room::QueueRoom;
use base::request::ReadLevel;
use base::{BucketName, Key, LogIndex, RetryId, SessionId, Version};
use std::sync::Arc;

/// Which answers a client wants to see (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None until it says `ON`.
    Off,
    /// Not the one to the next command.
    SkipNext,
    /// Not this one.
    Skip,
}

/// Commands between MULTI and EXEC.
#[derive(Debug, Default)]
pub struct Transaction {
    /// What was queued, in order.
    pub queue: Vec<Detached>,
    /// What the queue holds in memory.
    pub bytes: usize,
    /// Its share of the memory of all connections.
    pub room: QueueRoom,
    /// A command was refused: EXEC will be, too.
    pub failed: bool,
}

/// A key that must not have changed when EXEC comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The key.
    pub key: Key,
    /// Its version when it was watched.
    pub version: Option<Version>,
}

/// Numbers of one connection since they were last added to everybody's.
#[derive(Debug, Default)]
pub struct ClientTally {
    /// Commands.
    pub commands: u64,
    /// Reads of keys that were there.
    pub hits: u64,
    /// Reads of keys that were not.
    pub misses: u64,
    /// Answers that were errors.
    pub errors: u64,
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    /// What others may see of it.
    pub card: Arc<Card>,
    /// The bucket its commands speak of.
    pub bucket: BucketName,
    /// How fresh its reads must be.
    pub read_level: ReadLevel,
    /// Begun with MULTI.
    pub transaction: Option<Transaction>,
    /// Keys it watches, all of its bucket.
    pub watched: Vec<Watched>,
    /// The session its retries belong to.
    pub session: Option<SessionId>,
    /// Names the update that is being translated.
    pub retry: Option<RetryId>,
    /// Which answers it wants.
    pub replies: Replies,
    /// The index of its last answer.
    pub last_index: LogIndex,
    /// It is to be closed once its answers are sent.
    pub closing: bool,
    /// Its last command.
    pub last_command: &'static str,
    /// What others see as its last command.
    pub shown_command: &'static str,
    /// What it did.
    pub tally: ClientTally,
}

impl Client {
    /// A connection that has said nothing yet.
    pub fn new(card: Arc<Card>) -> Client {
        Client {
            card,
            bucket: BucketName::default(),
            read_level: ReadLevel::default(),
            transaction: None,
            watched: Vec::new(),
            session: None,
            retry: None,
            replies: Replies::default(),
            last_index: LogIndex::default(),
            closing: false,
            last_command: "",
            shown_command: "",
            tally: ClientTally::default(),
        }
    }

    /// As if it had just come; only its id and its place in the list stay.
    pub fn reset(&mut self) {
        let tally = std::mem::take(&mut self.tally);
        *self = Client { tally, ..Client::new(self.card.clone()) };
        *self.card.names() = Default::default();
    }
}
