//! TLS for clients and between nodes: certificates from files, their verification, and the
//! certificate authority of an operator.
//!
//! A certificate states an identity by a DNS name with a purpose
//! (`NAME.node.CLUSTER.credenza.internal`, `USER.client.CLUSTER.credenza.internal`), so the
//! library that verifies chains compares it, and no field has a second meaning.
//!
//! Promises: every listener verifies by the same object: chain, purpose, time, revocation list; a
//! handshake is bounded in time and bytes; a reload takes effect as a whole or not at all.
//! Never: accepts a key file that others can read; resumes a session, which would outlive a
//! revocation; accepts data before the handshake is complete; decides what an identity may do.
//! Read next: `identity.rs`, `tls.rs`, then `stream.rs` (what the front-ends and links use).

pub mod authority;
mod client;
mod configuration;
mod facts;
mod identity;
mod keys;
mod settings;
mod sources;
mod stream;
mod tls;
mod verifier;

pub use client::TlsClient;
pub use facts::CertificateFacts;
pub use identity::{CertifiedName, Purpose};
pub use settings::{CertificateDemand, ListenerMode, PeerMode, TlsSettings};
pub use stream::{PresentedChain, Stream};
pub use tls::{Tls, TlsWarning};

#[cfg(test)]
mod tests;
