//! Control of writing clients: stop, timeout, and moves to the next node.

use super::WorkloadContext;
use crate::client::{Http, Resp};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Pause of a roaming client after each batch. Many clients and several nodes share a machine, and
/// its speed is not under test.
const BATCH_PAUSE: Duration = Duration::from_millis(5);

/// Control of one client.
#[derive(Debug)]
pub struct ClientControl {
    /// Context of the workload: clock, stop and doubt.
    pub context: Arc<WorkloadContext>,
    /// Timeout of one reply. `None`: that of the protocol.
    pub timeout: Option<Duration>,
    /// True if the client goes on to the next node after a refusal or a broken connection.
    pub fails_over: bool,
}

impl ClientControl {
    /// Connects to Redis' front-end.
    pub fn resp(&self, address: SocketAddr) -> io::Result<Resp> {
        match self.timeout {
            Some(timeout) => Resp::with_timeout(address, timeout),
            None => Resp::connect(address),
        }
    }

    /// Connects to the native front-end.
    pub fn http(&self, address: SocketAddr) -> io::Result<Http> {
        match self.timeout {
            Some(timeout) => Http::with_timeout(address, timeout),
            None => Http::connect(address),
        }
    }

    /// Returns true if clients must stop.
    pub fn is_stopped(&self) -> bool {
        self.context.is_stopped()
    }

    /// Fails if a client must leave this node. `before`, `after`: its number of refusals before and
    /// after a batch.
    pub fn check_refusals(&self, before: u64, after: u64) -> io::Result<()> {
        if self.fails_over {
            std::thread::sleep(BATCH_PAUSE);
        }
        let must_leave = self.fails_over && after > before;
        if must_leave { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(()) }
    }
}
