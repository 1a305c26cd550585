//! Settings of TLS; `cli` fills them from flags, file and environment.

use std::path::PathBuf;

/// Use of TLS at the listeners for clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListenerMode {
    /// Connections are plain; a TLS handshake is refused.
    #[default]
    Off,
    /// Each connection is plain or encrypted, as its client wishes.
    Optional,
    /// Plain connections are refused in their protocol.
    Required,
}

/// Certificates that clients present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CertificateDemand {
    /// None is asked for.
    #[default]
    Off,
    /// A certificate is verified if the client presents one.
    Asked,
    /// A client without a valid certificate is refused.
    Required,
}

/// Use of TLS between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerMode {
    /// Connections are plain.
    #[default]
    Off,
    /// Both kinds of connection are accepted, and encrypted ones are tried first: for the
    /// migration of a running cluster. It protects against nobody who can alter traffic.
    Accept,
    /// Only encrypted connections exist, and both certificates must name the nodes of the
    /// greetings.
    Required,
}

/// Settings of TLS.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// Use at the listeners for clients.
    pub listeners: ListenerMode,
    /// Use between nodes.
    pub peers: PeerMode,
    /// Certificates of clients.
    pub client_certificates: CertificateDemand,
    /// PEM file with this node's certificate, and the intermediate ones behind it.
    pub certificate: Option<PathBuf>,
    /// PEM file with the certificate's key; only its owner may read it.
    pub key: Option<PathBuf>,
    /// PEM file with the authorities that may have signed certificates of clients and nodes.
    pub authorities: Option<PathBuf>,
    /// PEM file with the authorities' lists of revoked certificates.
    pub revoked: Option<PathBuf>,
    /// True if clients may use TLS 1.2; otherwise only 1.3. Nodes always use 1.3.
    pub allows_tls12: bool,
    /// Longest encrypted connection of a client in milliseconds: a certificate that is replaced or
    /// revoked is used no longer than that.
    pub session_ms_max: u64,
}

impl Default for TlsSettings {
    fn default() -> TlsSettings {
        TlsSettings {
            listeners: ListenerMode::default(),
            peers: PeerMode::default(),
            client_certificates: CertificateDemand::default(),
            certificate: None,
            key: None,
            authorities: None,
            revoked: None,
            allows_tls12: false,
            session_ms_max: 24 * 3_600 * 1_000,
        }
    }
}

impl TlsSettings {
    /// Returns true if any connection may be encrypted.
    pub fn is_used(&self) -> bool {
        self.listeners != ListenerMode::Off || self.peers != PeerMode::Off
    }

    /// Returns true if certificates of others are verified.
    pub(crate) fn verifies_others(&self) -> bool {
        self.peers != PeerMode::Off || self.client_certificates != CertificateDemand::Off
    }
}
