//! Results of a submitted request: ready, pending behind a ticket, or later.

use base::{GroupId, Key, LogIndex, Reply, Result};
use std::future::Future;
use std::pin::Pin;

/// Index in a group's log that must be decided before an answer may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Group whose log it refers to.
    pub group: GroupId,
    /// Index that must be decided.
    pub index: LogIndex,
    /// Leadership epoch of this node: under another one, another master's entry may have the index.
    pub epoch: u64,
}

/// Result of a submitted request.
pub enum SubmitResult {
    /// Answer that is valid now.
    Ready(Result<Reply>),
    /// Answer that is valid once the ticket is decided, and must not be sent before. If `decided`
    /// fails, its error is the answer. An error may depend on undecided updates too (an assertion
    /// that fails because of one), so it waits like any answer.
    Pending(Ticket, Result<Reply>),
    /// Answer that comes later (long reads, directory calls, forwarded requests); later requests of
    /// the same connection should wait.
    Later(LaterReply),
    /// Answer that comes later and concerns this key alone: of the same connection, only requests
    /// for this key must wait. Nothing runs before the future is awaited.
    Independent(Key, LaterReply),
}

/// Future of an answer that comes later.
pub type LaterReply = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;
