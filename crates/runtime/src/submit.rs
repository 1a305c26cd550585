//! Results of submitting a request: at once, behind a ticket, or later.

use base::{GroupId, Key, LogIndex, Reply, Result};
use std::future::Future;
use std::pin::Pin;

/// A place in a group's log that must be decided before an answer may be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Whose log.
    pub group: GroupId,
    /// Up to where.
    pub index: LogIndex,
    /// In which of this node's epochs as master: another master's value may stand there.
    pub epoch: u64,
}

/// What comes of a request.
pub enum Submitted {
    /// The answer, valid now.
    Ready(Result<Reply>),
    /// The answer, valid once the ticket is decided; until then it must not be shown to anyone. If
    /// `decided` fails, its error is the answer. An error, too, may depend on undecided updates (an
    /// assertion that does not hold because of one), so it waits like any answer.
    Pending(Ticket, Result<Reply>),
    /// The answer comes later (long reads, directory calls, what another node answers); requests
    /// behind it on the same connection should wait.
    Later(LaterReply),
    /// The answer comes later and concerns this key alone: of the same connection, only requests of
    /// this key must wait for it. Nothing begins before it is awaited.
    Apart(Key, LaterReply),
}

/// An answer that comes later.
pub type LaterReply = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;
