//! Verifier of the certificates that clients and nodes present to a listener: chain, time and
//! revocation by the library, then the purpose.

use crate::facts::CertificateFacts;
use crate::identity::{CertifiedName, Purpose};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use std::sync::Arc;

/// Verifier of presented certificates.
#[derive(Debug)]
pub(crate) struct PurposeVerifier {
    /// Verifier of chain, time and revocation.
    chain: Arc<dyn ClientCertVerifier>,
    demand: PurposeDemand,
}

/// Identities that a listener accepts.
#[derive(Clone, Debug)]
pub(crate) struct PurposeDemand {
    /// Accepted purposes; a certificate with several counts as the first of them.
    pub(crate) purposes: &'static [Purpose],
    /// Cluster that the identity must name.
    pub(crate) cluster: String,
}

impl PurposeDemand {
    /// Returns the identity of a certificate, if it has one of the purposes in this cluster.
    fn identity(&self, facts: &CertificateFacts) -> Option<CertifiedName> {
        let cluster = Some(self.cluster.as_str());
        self.purposes.iter().find_map(|purpose| facts.identity(*purpose, cluster))
    }
}

impl PurposeVerifier {
    pub(crate) fn new(
        chain: Arc<dyn ClientCertVerifier>,
        demand: PurposeDemand,
    ) -> PurposeVerifier {
        PurposeVerifier { chain, demand }
    }

    /// Returns the identity of a verified certificate.
    pub(crate) fn identity(&self, facts: &CertificateFacts) -> Option<CertifiedName> {
        self.demand.identity(facts)
    }

    /// Returns true if this chain, which its holder has proved to be its own, is valid now.
    pub(crate) fn accepts(&self, chain: &[CertificateDer<'_>]) -> bool {
        chain.split_first().is_some_and(|(own, intermediates)| {
            self.verify_client_cert(own, intermediates, UnixTime::now()).is_ok()
        })
    }
}

impl ClientCertVerifier for PurposeVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.chain.verify_client_cert(end_entity, intermediates, now)?;
        let facts = CertificateFacts::read(end_entity).ok_or(CertificateError::BadEncoding)?;
        match self.demand.identity(&facts) {
            Some(_) => Ok(verified),
            None => Err(CertificateError::InvalidPurpose.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}
