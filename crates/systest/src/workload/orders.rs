//! Control of writing clients: stop, timeout, and moves to the next node.

use super::WorkloadContext;
use crate::client::{Http, Resp};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Pause of a roaming client after each batch. Many clients and several nodes share a machine, and
/// its speed is not under test.
const PAUSE: Duration = Duration::from_millis(5);

/// Control of one client.
#[derive(Debug)]
pub struct Orders {
    /// Context of the workload: clock, stop and doubt.
    pub context: Arc<WorkloadContext>,
    /// Timeout of one reply. `None`: that of the protocol.
    pub patience: Option<Duration>,
    /// True if the client goes on to the next node after a refusal or a broken connection.
    pub roams: bool,
}

impl Orders {
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
        self.context.stopped()
    }

    /// Fails if a client must leave this node. `before`, `after`: its number of refusals before and
    /// after a batch.
    pub fn content(&self, before: u64, after: u64) -> io::Result<()> {
        if self.roams {
            std::thread::sleep(PAUSE);
        }
        let leaves = self.roams && after > before;
        if leaves { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
    }
}
