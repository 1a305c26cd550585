//! Reasons why a request to another node was not answered, and the errors that callers get.

use base::limits::PEER_CALL_BYTES_MAX;
use base::{Error, NodeId, Reason};

/// Reason why a request was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallError {
    /// There is no connection to the node: nothing was sent.
    NoLink(NodeId),
    /// Too much is queued for that node, or too many requests wait for answers: nothing was sent.
    Full,
    /// The request is larger than one message may be.
    TooLarge,
    /// The connection broke, or the deadline passed, before it was sent.
    NotSent(NodeId),
    /// The node received the request and declined it: nothing happened.
    Declined(NodeId),
    /// The connection broke after it was sent.
    Broken(NodeId),
    /// The deadline passed after it was sent.
    TimedOut(NodeId),
}

impl From<CallError> for Error {
    fn from(why: CallError) -> Error {
        let error_for = |reason, node: NodeId, words: &str| {
            Error::new(reason, format!("node {:016x} {words}", node.0))
        };
        match why {
            CallError::NoLink(node) => {
                error_for(Reason::NoQuorum, node, "is not connected: nothing was sent; try again")
            }
            CallError::Full => Error::new(
                Reason::Overloaded,
                "the send queue to another node is full: nothing was sent; try again later",
            ),
            CallError::TooLarge => Error::new(
                Reason::TooLarge,
                format!("a forwarded request may have at most {PEER_CALL_BYTES_MAX} bytes"),
            ),
            CallError::NotSent(node) => {
                error_for(Reason::NoQuorum, node, "was not reached: nothing was sent; try again")
            }
            CallError::Declined(node) => {
                error_for(Reason::Overloaded, node, "is too busy and did nothing; try again later")
            }
            CallError::Broken(node) => error_for(
                Reason::InDoubt,
                node,
                "was lost before it answered: the request may have been applied; read before \
                 retrying",
            ),
            CallError::TimedOut(node) => error_for(
                Reason::DeadlinePassed,
                node,
                "did not answer in time: the request may have been applied; read before retrying",
            ),
        }
    }
}
