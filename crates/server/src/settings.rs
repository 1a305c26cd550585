//! Settings of the front-ends. `cli` fills them from flags, file and environment.

use crate::{LiveSettings, LogLevels, Reload};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tls::{ListenerMode, Tls};

/// Settings of the front-ends. Sizes are in bytes, times in milliseconds.
#[derive(Clone)]
pub struct ServerSettings {
    /// Address for clients of all protocols.
    pub listen: SocketAddr,
    /// Further addresses with the same service.
    pub listen_also: Vec<SocketAddr>,
    /// Address of status, metrics and administration, if `listen` is not on loopback.
    pub admin_listen: Option<SocketAddr>,
    /// Further addresses for clients of Arakoon; they serve no other protocol.
    pub arakoon_listen: Vec<SocketAddr>,
    /// User of all clients at `arakoon_listen` whose certificate logs nobody in, while access is
    /// on. `None`: they are refused then.
    pub arakoon_user: Option<String>,
    /// Arakoon cluster ids whose buckets are created when the first client connects.
    pub arakoon_clusters: Vec<String>,
    /// Further addresses for clients of Riak; they serve no other protocol.
    pub riak_listen: Vec<SocketAddr>,
    /// Addresses for clients of Riak that use Protocol Buffers; they serve no other protocol.
    pub pbc_listen: Vec<SocketAddr>,
    /// TLS of the node, shared with its connections to other nodes. `None`: everything is plain.
    pub tls: Option<Arc<Tls>>,
    /// True if clients beyond loopback are served although they need not encrypt, or access is off.
    pub insecure: bool,
    /// Maximum number of client connections over all listeners. The process' limit of open files
    /// may lower it.
    pub connections_max: usize,
    /// Maximum number of them from one address beyond this machine. `None`: half.
    pub connections_per_address_max: Option<usize>,
    /// Names that a `Host` header may hold beside `localhost` and plain addresses; `*` allows any.
    pub allowed_hosts: Vec<String>,
    /// Maximum bytes of large bodies and pages that all connections together hold at a time.
    pub buffer_bytes_max: usize,
    /// Idle time in milliseconds after which an HTTP connection is closed.
    pub http_idle_ms_max: u64,
    /// Idle time in milliseconds after which a RESP connection is closed. `None`: never.
    pub resp_idle_ms_max: Option<u64>,
    /// Maximum time in milliseconds for which `close` waits for requests in flight.
    pub shutdown_timeout_ms: u64,
    /// Only folder that `POST /v1/admin/checkpoint` writes into (`checkpoints` in the data
    /// directory). `None`: checkpoints are refused.
    pub checkpoints: Option<PathBuf>,
    /// Path of the operators' local socket (`admin.sock` in the data directory). `None`: there is
    /// none.
    pub admin_socket: Option<PathBuf>,
    /// Log levels of the program, for `/v1/admin/log-levels`. `None`: they can't be changed.
    pub log_levels: Option<Arc<dyn LogLevels>>,
    /// Reload of the program's settings, for `/v1/admin/reload`. `None`: they can't be reloaded.
    pub reload: Option<Arc<dyn Reload>>,
}

impl ServerSettings {
    /// Returns those that a reload changes while the server runs.
    pub fn live(&self) -> LiveSettings {
        LiveSettings::new(self.http_idle_ms_max, self.resp_idle_ms_max, self.shutdown_timeout_ms)
    }
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7711)),
            listen_also: Vec::new(),
            admin_listen: None,
            arakoon_listen: Vec::new(),
            arakoon_user: None,
            arakoon_clusters: Vec::new(),
            riak_listen: Vec::new(),
            pbc_listen: Vec::new(),
            tls: None,
            insecure: false,
            connections_max: 10_000,
            connections_per_address_max: None,
            allowed_hosts: Vec::new(),
            buffer_bytes_max: 128 << 20,
            http_idle_ms_max: 120_000,
            resp_idle_ms_max: None,
            shutdown_timeout_ms: 10_000,
            checkpoints: None,
            admin_socket: None,
            log_levels: None,
            reload: None,
        }
    }
}

impl ServerSettings {
    /// Returns the use of TLS at the listeners.
    pub(crate) fn tls_mode(&self) -> ListenerMode {
        self.tls.as_ref().map_or(ListenerMode::Off, |tls| tls.listener_mode())
    }
}
