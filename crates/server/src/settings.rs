//! Settings of the front-ends; `cli` fills them from flags, file and environment.

use crate::LogLevels;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// The front-ends' settings. Sizes in bytes, times in milliseconds.
#[derive(Clone)]
pub struct ServerSettings {
    /// Where clients come in.
    pub listen: SocketAddr,
    /// Further addresses where the same is served.
    pub listen_also: Vec<SocketAddr>,
    /// Where status, metrics and administration are served when `listen` is not on loopback.
    pub admin_listen: Option<SocketAddr>,
    /// Where clients of Arakoon come in beside `listen`; nothing else is spoken there.
    pub arakoon_listen: Vec<SocketAddr>,
    /// Arakoon cluster ids whose buckets are made when the first client comes.
    pub arakoon_clusters: Vec<String>,
    /// Where clients of Riak come in beside `listen`; nothing else is spoken there.
    pub riak_listen: Vec<SocketAddr>,
    /// Whether addresses beyond loopback are allowed although nothing is encrypted and nobody asks
    /// for passwords.
    pub insecure: bool,
    /// Most connections of clients, of all listeners together; fewer when the process may not open
    /// as many files.
    pub connections_max: usize,
    /// Most of them of clients at one address beyond this machine; none: half.
    pub connections_per_address_max: Option<usize>,
    /// Names that a `Host` header may hold beside `localhost` and plain addresses; `*` allows any.
    pub allowed_hosts: Vec<String>,
    /// Most bytes of large bodies and pages that all HTTP connections together hold at a time.
    pub buffer_bytes_max: usize,
    /// An HTTP connection that has asked nothing for so long is closed.
    pub http_idle_ms_max: u64,
    /// A connection of Redis' protocol that has asked nothing for so long is closed; none: never.
    pub resp_idle_ms_max: Option<u64>,
    /// How long `close` waits for requests in flight.
    pub shutdown_timeout_ms: u64,
    /// The only folder that `POST /v1/admin/checkpoint` writes into (`checkpoints` in the data
    /// directory).
    pub checkpoints: Option<PathBuf>,
    /// The program's log, for `/v1/admin/log-levels`.
    pub log_levels: Option<Arc<dyn LogLevels>>,
}

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 7711)),
            listen_also: Vec::new(),
            admin_listen: None,
            arakoon_listen: Vec::new(),
            arakoon_clusters: Vec::new(),
            riak_listen: Vec::new(),
            insecure: false,
            connections_max: 10_000,
            connections_per_address_max: None,
            allowed_hosts: Vec::new(),
            buffer_bytes_max: 128 << 20,
            http_idle_ms_max: 120_000,
            resp_idle_ms_max: None,
            shutdown_timeout_ms: 10_000,
            checkpoints: None,
            log_levels: None,
        }
    }
}
