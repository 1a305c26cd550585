//! Local end of the connections to peers: settings, receiver, credential, the node's own identity.

use super::credential::Credential;
use super::handshake::PeerIdentity;
use super::network::Sink;
use super::settings::PeerSettings;
use super::versions::{VERSIONS, Versions};
use runtime::world;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::{Arc, RwLock};

/// Local end of the connections with all peers.
pub(super) struct Endpoint {
    pub(super) settings: PeerSettings,
    pub(super) sink: Arc<dyn Sink>,
    process: u64,
    credential: RwLock<Option<Credential>>,
    version_min: AtomicU16,
}

impl Endpoint {
    pub(super) fn new(settings: PeerSettings, sink: Arc<dyn Sink>) -> Endpoint {
        let credential = RwLock::new(settings.credential.clone());
        let version_min = AtomicU16::new(settings.version_min);
        Endpoint { settings, sink, process: world::random_u64(), credential, version_min }
    }

    /// Returns this node's identity, with a new nonce for one connection.
    pub(super) fn identity(&self) -> PeerIdentity {
        let settings = &self.settings;
        PeerIdentity {
            cluster: settings.cluster,
            node: settings.node,
            incarnation: settings.incarnation,
            process: self.process,
            nonce: world::random_u64(),
            name: settings.name.clone(),
            address: settings.advertise.clone(),
            incarnations: settings.incarnations.clone(),
        }
    }

    /// Returns the versions of the protocol that connections may have now.
    pub(super) fn versions(&self) -> Versions {
        Versions { lowest: self.version_min.load(Relaxed), ..VERSIONS }
    }

    /// Sets the lowest version for connections that begin from now on.
    pub(super) fn set_version_min(&self, version: u16) {
        self.version_min.store(version, Relaxed);
    }

    /// Returns the current credential. `None`: the cluster has no secret, or this node lacks it.
    pub(super) fn credential(&self) -> Option<Credential> {
        self.credential.read().expect("no one panics while holding it").clone()
    }

    /// Sets the credential for connections that begin from now on.
    pub(super) fn set_credential(&self, credential: Credential) {
        let mut current = self.credential.write().expect("no one panics while holding it");
        *current = Some(credential);
    }
}
