//! Guard of a listener beyond loopback: it serves clients only while access is on.
//!
//! Until then, or with access off again, it answers health checks and nodes that join with a token,
//! and tells all others that it does not serve yet. The setting `insecure` lifts the guard.

use super::first_bytes::FirstBytes;
use super::refusal::{self, send_and_close};
use crate::connection::{Connection, ListenerKind, ListenerRole, Shutdown};
use crate::native;
use crate::settings::ServerSettings;
use crate::shared::Shared;
use node::Node;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Interval at which a guard looks whether access was turned on or off.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Guard of one listener.
#[derive(Clone, Copy)]
pub(super) struct ExposureGuard {
    is_guarded: bool,
    /// State of access when the guard looked last.
    was_on: bool,
}

impl ExposureGuard {
    /// Returns the guard of a listener with this address.
    pub(super) fn new(
        address: SocketAddr,
        settings: &ServerSettings,
        node: &Node,
    ) -> ExposureGuard {
        let is_guarded = !address.ip().is_loopback() && !settings.insecure;
        let guard = ExposureGuard { is_guarded, was_on: node.is_access_on() };
        if guard.is_closed(node) {
            tracing::warn!(
                target: "server",
                %address,
                "clients are served here once access is on: `credenza access init`"
            );
        }
        guard
    }

    /// Returns true if the listener serves no clients now.
    pub(super) fn is_closed(&self, node: &Node) -> bool {
        self.is_guarded && !node.is_access_on()
    }

    /// Returns true if access was turned on or off since the last look: open connections are served
    /// as before, and must end.
    pub(super) fn has_changed(&mut self, node: &Node) -> bool {
        let is_on = node.is_access_on();
        self.is_guarded && std::mem::replace(&mut self.was_on, is_on) != is_on
    }

    /// Resolves after access was turned on or off. Never resolves for a listener without guard.
    /// Cancel-safe.
    pub(super) async fn wait_for_change(&mut self, node: &Node) {
        if !self.is_guarded {
            return std::future::pending().await;
        }
        while !self.has_changed(node) {
            sleep(LOOK_INTERVAL).await;
        }
    }
}

/// Serves a connection while its listener serves no clients.
pub(super) async fn serve_closed(
    connection: Connection,
    protocol: FirstBytes,
    shared: &Arc<Shared>,
    shutdown: Shutdown,
) {
    let kind = connection.role.kind;
    let is_native = matches!(kind, ListenerKind::Clients | ListenerKind::Operators);
    if protocol == FirstBytes::Http && is_native {
        let connection = Connection { role: ListenerRole::of_joining_node(), ..connection };
        native::serve(connection, shared.clone(), shutdown).await;
        return;
    }
    shared.counters.count_refused();
    shared.warn_limited(|| {
        "a connection is refused: beyond loopback clients are served once access is on; run \
         `credenza access init` on this machine"
            .into()
    });
    send_and_close(connection.stream, &refusal::not_yet(protocol)).await;
}
