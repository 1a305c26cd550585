//! Small blocking clients of the front-ends, for tests.
//!
//! Promises: a client distinguishes acknowledged, refused and unknown outcomes.
//! Never: retries by itself; hides unexpected bytes.
//! Read next: `resp.rs`, then `http.rs`, `riak.rs` and `arakoon.rs`.

mod arakoon;
mod http;
mod resp;
mod riak;

pub use arakoon::{Arakoon, ArakoonCluster, SequenceStep, Trouble};
pub use http::{Http, HttpResponse, encoded};
pub use resp::{Resp, RespReply, command};
pub use riak::{Riak, RiakObject, RiakOutcome};

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

/// Outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Acknowledged.
    Ok,
    /// Refused: the call had no effect.
    Fail,
    /// Unknown: the call may have had its effect.
    Info,
}

/// Discards what a connection still sends until its peer closes it. Returns false on a timeout.
fn closed_within(stream: &TcpStream, reader: &mut impl Read, patience: Duration) -> bool {
    let _ = stream.set_read_timeout(Some(patience));
    let mut scrap = [0; 4096];
    loop {
        match reader.read(&mut scrap) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => {
                return !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
    }
}
