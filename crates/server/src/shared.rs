//! State that all connections share: the node, the settings, the counters, the budget for large
//! buffers.

use crate::access_control::AccessControl;
use crate::clock::Clock;
use crate::connection_limits::ConnectionLimiter;
use crate::counters::Counters;
use crate::creation_quota::{self, CreationQuota};
use crate::handshake_limits::HandshakeLimiter;
use crate::idle::IdleConnections;
use crate::live_settings::LiveSettings;
use crate::login::Logins;
use crate::settings::ServerSettings;
use base::{Error, Reason, Request};
use bytes::Bytes;
use node::{Flow, Node, SubmitResult, WarningLimiter};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use tls::Stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Unit of the budget for large buffers.
const BUDGET_UNIT_BYTES: usize = 1024;

/// State that all connections share.
pub struct Shared {
    /// Node that handles the requests.
    pub node: Node,
    /// Settings that the server was opened with.
    pub settings: ServerSettings,
    /// Settings that a reload changes.
    pub live: LiveSettings,
    /// Counters of requests, latencies and connections.
    pub counters: Counters,
    /// Wall clock, for clients that use absolute times.
    pub(crate) clock: Clock,
    /// Check of the `Host` and `Origin` headers.
    pub(crate) access_control: AccessControl,
    /// Connection limits, over all listeners.
    pub(crate) connection_limiter: Arc<ConnectionLimiter>,
    /// Limits of TLS handshakes in progress, over all listeners.
    pub(crate) handshake_limiter: Arc<HandshakeLimiter>,
    /// Logins of users.
    pub(crate) logins: Logins,
    /// Quota of sessions and buckets by address.
    creation_quota: CreationQuota,
    /// Connections that may be ended in favour of new ones.
    pub(crate) idle: Arc<IdleConnections>,
    /// Rate limit of warnings about events that any client can cause.
    warning_limiter: WarningLimiter,
    /// Purpose and address of each listener; set when they start.
    listeners: OnceLock<Vec<(&'static str, SocketAddr)>>,
    /// OpenAPI document of the native front-end, built once.
    pub(crate) openapi_document: OnceLock<Bytes>,
    budget: Arc<Semaphore>,
    closing: AtomicBool,
}

impl Shared {
    /// Returns the state for a running node.
    pub fn new(node: Node, settings: ServerSettings) -> Shared {
        let units = (settings.buffer_bytes_max / BUDGET_UNIT_BYTES).min(Semaphore::MAX_PERMITS);
        Shared {
            node,
            clock: Clock::Wall,
            access_control: AccessControl::new(&settings.allowed_hosts),
            counters: Counters::default(),
            connection_limiter: Arc::default(),
            handshake_limiter: Arc::default(),
            logins: Logins::new(),
            creation_quota: CreationQuota::default(),
            idle: Arc::default(),
            warning_limiter: WarningLimiter::default(),
            listeners: OnceLock::new(),
            openapi_document: OnceLock::new(),
            budget: Arc::new(Semaphore::new(units)),
            live: settings.live(),
            settings,
            closing: AtomicBool::new(false),
        }
    }

    /// Reads the program's settings again; see [`crate::Reload`].
    pub async fn reload(self: &Arc<Shared>) -> Result<api::ReloadReply, Error> {
        let Some(reload) = self.settings.reload.clone() else {
            return Err(Error::new(Reason::NotSupported, "this program has no settings to reload"));
        };
        let shared = self.clone();
        let task = tokio::task::spawn_blocking(move || reload.reload(&shared.live));
        let failed = || Error::new(Reason::StartFailed, "the reload ended abnormally");
        task.await.unwrap_or_else(|_| Err(failed()))
    }

    /// Marks the server as closing; health checks then fail.
    pub(crate) fn start_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// Returns true if the server is closing.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Logs a warning about an event that any client can cause, at a limited rate. It is an alarm
    /// for a while.
    pub(crate) fn warn_limited(&self, text: impl FnOnce() -> String) {
        if let Some(left_out) = self.warning_limiter.try_acquire() {
            let text = text();
            tracing::warn!(target: "server", left_out, "{text}");
            self.node.report_refusal(text);
        }
    }

    /// Sets the listeners' purposes and addresses.
    pub(crate) fn set_listeners(&self, listeners: Vec<(&'static str, SocketAddr)>) {
        let _ = self.listeners.set(listeners); // The listeners start only once.
    }

    /// Returns the purpose and address of each listener.
    pub(crate) fn listeners(&self) -> &[(&'static str, SocketAddr)] {
        self.listeners.get().map_or(&[], Vec::as_slice)
    }

    /// Submits a client's request to the node. One that creates a session or a bucket counts
    /// against the quota of the client's address, and is refused if the client must not create
    /// more.
    #[inline]
    pub(crate) fn submit(
        &self,
        flow: &mut Flow,
        request: Request,
        stream: &Stream,
    ) -> SubmitResult {
        match creation_quota::is_creation(&request.call).then(|| stream.peer_addr()) {
            Some(Ok(client)) => {
                let (address, now_ms) = (client.ip(), self.clock.unix_ms());
                self.creation_quota.submit(address, now_ms, || self.node.submit(flow, request))
            }
            // Without an address the connection has ended.
            Some(Err(_)) | None => self.node.submit(flow, request),
        }
    }

    /// Reserves a share of the memory for large buffers. Returns `None` if that much is not free.
    /// Dropping the share releases it.
    pub fn reserve(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(BUDGET_UNIT_BYTES)).ok()?;
        self.budget.clone().try_acquire_many_owned(units).ok()
    }
}

/// Returns the answer to a request that arrives while the server closes.
pub(crate) fn shutting_down_error() -> Error {
    Error::new(Reason::ShuttingDown, "the node is stopping: nothing was done; ask another node")
}
