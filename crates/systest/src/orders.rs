//! Orders to clients that write: when to stop, how long to wait, whether to go to the next node.

use crate::client::{Fate, Http, Resp};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Rest of a roaming client after each batch: many of them and several nodes share a machine, and
/// its speed is not under test.
const PAUSE: Duration = Duration::from_millis(5);

/// Orders to clients while they write.
#[derive(Debug)]
pub struct Orders {
    /// Stop after this batch.
    pub stop: AtomicBool,
    /// Believe no acknowledgement any more.
    pub doubted: AtomicBool,
    /// Longest wait for an answer; none: the protocol's own.
    pub patience: Option<Duration>,
    /// True if a client goes to the next node when it is refused or its connection breaks.
    pub roams: bool,
}

impl Orders {
    /// The fate to be noted of an answer.
    pub fn believed(&self, fate: Fate) -> Fate {
        match fate {
            Fate::Ok if self.doubted.load(Ordering::SeqCst) => Fate::Info,
            fate => fate,
        }
    }

    /// Connects to Redis' front-end.
    pub fn resp(&self, address: SocketAddr) -> io::Result<Resp> {
        match self.patience {
            Some(patience) => Resp::with_patience(address, patience),
            None => Resp::connect(address),
        }
    }

    /// Connects to the native front-end.
    pub fn http(&self, address: SocketAddr) -> io::Result<Http> {
        match self.patience {
            Some(patience) => Http::with_patience(address, patience),
            None => Http::connect(address),
        }
    }

    /// Returns true if clients are to stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Fails if a client is to leave this node, by its count of refusals before a batch and after.
    pub fn content(&self, before: u64, after: u64) -> io::Result<()> {
        if self.roams {
            std::thread::sleep(PAUSE);
        }
        let leaves = self.roams && after > before;
        if leaves { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
    }
}
