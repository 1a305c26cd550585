//! Local end of the connections to peers: settings, receiver, credential, the node's own
//! introduction.

use super::credential::Credential;
use super::handshake::Speaker;
use super::network::Sink;
use super::settings::PeerSettings;
use runtime::world;
use std::sync::{Arc, RwLock};

/// Local end of the connections with all peers.
pub(super) struct Endpoint {
    pub(super) settings: PeerSettings,
    pub(super) sink: Arc<dyn Sink>,
    process: u64,
    credential: RwLock<Option<Credential>>,
}

impl Endpoint {
    pub(super) fn new(settings: PeerSettings, sink: Arc<dyn Sink>) -> Endpoint {
        let credential = RwLock::new(settings.credential.clone());
        Endpoint { settings, sink, process: world::chance(), credential }
    }

    /// Returns this node's introduction, with a nonce for one connection.
    pub(super) fn speaker(&self) -> Speaker {
        let settings = &self.settings;
        Speaker {
            cluster: settings.cluster,
            node: settings.node,
            incarnation: settings.incarnation,
            process: self.process,
            nonce: world::chance(),
            name: settings.name.clone(),
            address: settings.advertise.clone(),
            incarnations: settings.incarnations.clone(),
        }
    }

    /// Returns the current credential. `None`: the cluster has no secret, or this node lacks it.
    pub(super) fn credential(&self) -> Option<Credential> {
        self.credential.read().expect("no one panics while holding it").clone()
    }

    /// Sets the credential for connections that begin from now on.
    pub(super) fn set_credential(&self, credential: Credential) {
        let mut known = self.credential.write().expect("no one panics while holding it");
        *known = Some(credential);
    }
}
