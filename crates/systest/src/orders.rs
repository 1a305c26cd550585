//! Control of clients that write: when to stop, how long to wait, whether to go to the next node.

use crate::client::{Fate, Http, Resp};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pause of a roaming client after each batch: many clients and several nodes share a machine, and
/// its speed is not under test.
const PAUSE: Duration = Duration::from_millis(5);

/// Control of clients while they write.
#[derive(Debug)]
pub struct Orders {
    /// True if clients must stop after the current batch.
    pub stop: AtomicBool,
    /// True if acknowledgements no longer count.
    pub doubted: AtomicBool,
    /// Longest wait for an answer. `None`: the protocol's own.
    pub patience: Option<Duration>,
    /// True if a client goes to the next node when it is refused or its connection breaks.
    pub roams: bool,
}

impl Orders {
    /// Returns the outcome to record for an answer.
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

    /// Returns true if clients must stop.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Fails if a client must leave this node, by its number of refusals before a batch and after.
    pub fn content(&self, before: u64, after: u64) -> io::Result<()> {
        if self.roams {
            std::thread::sleep(PAUSE);
        }
        let leaves = self.roams && after > before;
        if leaves { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
    }
}
