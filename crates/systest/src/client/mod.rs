//! Small blocking clients of the front-ends, for tests.
//!
//! Promises: a client distinguishes acknowledged, refused and unknown outcomes.
//! Never: retries by itself; hides unexpected bytes.
//! Read next: `resp.rs`, then `http.rs`, `riak.rs` and `arakoon.rs`.

mod arakoon;
mod http;
mod resp;
mod riak;

pub use arakoon::{Arakoon, ArakoonCluster, ArakoonError, SequenceStep};
pub use http::{Http, HttpResponse, encode_key};
pub use resp::{Resp, RespReply, encode_command};
pub use riak::{Riak, RiakObject, RiakOutcome};

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

/// Outcome of a call, as its client learned it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallOutcome<A = ()> {
    /// Acknowledged: the call took effect.
    Acknowledged(A),
    /// Refused: the call certainly had no effect.
    Refused,
    /// Unknown: no answer, or one that leaves the effect open. The call may take effect at any time
    /// after its start, or never.
    Unknown,
}

impl<A> CallOutcome<A> {
    /// Returns true if the call was acknowledged.
    pub fn is_acknowledged(&self) -> bool {
        matches!(self, CallOutcome::Acknowledged(_))
    }

    /// Changes the answer of an acknowledged call.
    pub fn map<B>(self, change: impl FnOnce(A) -> B) -> CallOutcome<B> {
        match self {
            CallOutcome::Acknowledged(answer) => CallOutcome::Acknowledged(change(answer)),
            CallOutcome::Refused => CallOutcome::Refused,
            CallOutcome::Unknown => CallOutcome::Unknown,
        }
    }

    /// Returns the answer of an acknowledged call.
    pub fn answer(&self) -> Option<&A> {
        match self {
            CallOutcome::Acknowledged(answer) => Some(answer),
            CallOutcome::Refused | CallOutcome::Unknown => None,
        }
    }
}

/// Discards what a connection still sends until its peer closes it. Returns false on a timeout.
fn closed_within(stream: &TcpStream, reader: &mut impl Read, timeout: Duration) -> bool {
    let _ = stream.set_read_timeout(Some(timeout));
    let mut discarded = [0; 4096];
    loop {
        match reader.read(&mut discarded) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
    }
}
