//! Configurations of the TLS library, built from the files as a whole.

use crate::facts::CertificateFacts;
use crate::identity::{CertifiedName, Purpose};
use crate::settings::{CertificateDemand, PeerMode, TlsSettings};
use crate::sources::{SourceFile, Sources};
use crate::verifier::{PurposeDemand, PurposeVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};
use std::sync::Arc;

/// Protocol inside TLS at the listeners for clients. Clients of other protocols offer none.
const CLIENT_PROTOCOL: &[u8] = b"http/1.1";
/// Protocol inside TLS between nodes: no connection of a client is taken for one of a node.
const PEER_PROTOCOL: &[u8] = b"credenza-peer";

/// TlsConfiguration of one listener, with the identities that it accepts.
#[derive(Clone)]
pub(crate) struct Acceptor {
    pub(crate) server: Arc<ServerConfig>,
    /// Verifier of the other side's certificates. `None`: they are not asked for.
    pub(crate) verifier: Option<Arc<PurposeVerifier>>,
}

/// TlsConfiguration of both sides of connections between nodes.
#[derive(Clone)]
pub(crate) struct PeerConfiguration {
    pub(crate) acceptor: Acceptor,
    pub(crate) client: Arc<ClientConfig>,
    /// Identity of this node.
    pub(crate) own: CertifiedName,
}

/// All configurations that come from one reading of the files.
pub(crate) struct TlsConfiguration {
    pub(crate) sources: Sources,
    pub(crate) clients: Acceptor,
    /// `None`: connections between nodes are plain.
    pub(crate) peers: Option<PeerConfiguration>,
    /// Certificate of this node.
    pub(crate) own: CertificateFacts,
    /// Authorities of others.
    pub(crate) authorities: Vec<CertificateFacts>,
    /// Counts the reloads that had an effect.
    pub(crate) generation: u64,
}

/// Keys and certificates, parsed.
struct Material {
    provider: Arc<CryptoProvider>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    roots: Arc<RootCertStore>,
    revoked: Vec<CertificateRevocationListDer<'static>>,
}

impl TlsConfiguration {
    /// Builds all configurations. Fails with the file and the reason.
    pub(crate) fn build(
        settings: &TlsSettings,
        sources: Sources,
        generation: u64,
    ) -> Result<TlsConfiguration, String> {
        let chain = certificates(&sources.certificate)?;
        let own = chain.first().and_then(CertificateFacts::read);
        let own = own.ok_or_else(|| sources.certificate.failure("it holds no certificate"))?;
        let authorities = sources.authorities.as_ref().map(certificates).transpose()?;
        let authorities = authorities.unwrap_or_default();
        let key = PrivateKeyDer::from_pem_slice(&sources.key.pem);
        let material = Material {
            provider: provider(),
            chain,
            key: key.map_err(|error| sources.key.failure(&format!("no private key: {error}")))?,
            roots: Arc::new(roots(&sources, &authorities)?),
            revoked: sources
                .revoked
                .as_ref()
                .map(revocation_lists)
                .transpose()?
                .unwrap_or_default(),
        };
        let identity = own.identity(Purpose::Node, None);
        if settings.verifies_others() && identity.is_none() {
            let text = "it names no node: make one with `credenza cert node NAME`";
            return Err(sources.certificate.failure(text));
        }
        // Whatever is wrong with a pair of certificate and key concerns the certificate's file too.
        let failure = |error: String| sources.certificate.failure(&error);
        let peers = match (settings.peers, &identity) {
            (PeerMode::Accept | PeerMode::Required, Some(own)) => {
                Some(material.peers(own).map_err(failure)?)
            }
            _ => None,
        };
        let clients = material.clients(settings, identity.as_ref()).map_err(failure)?;
        let authorities = authorities.iter().filter_map(CertificateFacts::read).collect();
        Ok(TlsConfiguration { sources, clients, peers, own, authorities, generation })
    }
}

/// Returns the cryptography in use.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Material {
    /// Builds the configuration of the listeners for clients.
    fn clients(
        &self,
        settings: &TlsSettings,
        own: Option<&CertifiedName>,
    ) -> Result<Acceptor, String> {
        let is_mandatory = match settings.client_certificates {
            CertificateDemand::Off => None,
            CertificateDemand::Asked => Some(false),
            CertificateDemand::Required => Some(true),
        };
        // Nodes come to join: they have no other certificate.
        let purposes = &[Purpose::Client, Purpose::Node];
        let demand = is_mandatory.zip(own).map(|(is_mandatory, own)| {
            (is_mandatory, PurposeDemand { purposes, cluster: own.cluster.clone() })
        });
        let versions: &[&SupportedProtocolVersion] =
            if settings.allows_tls12 { &[&TLS13, &TLS12] } else { &[&TLS13] };
        self.acceptor(versions, demand, CLIENT_PROTOCOL)
    }

    /// Builds the configurations of connections between nodes.
    fn peers(&self, own: &CertifiedName) -> Result<PeerConfiguration, String> {
        let demand = PurposeDemand { purposes: &[Purpose::Node], cluster: own.cluster.clone() };
        let acceptor = self.acceptor(&[&TLS13], Some((true, demand)), PEER_PROTOCOL)?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(self.roots.clone(), self.provider.clone());
        let verifier = verifier
            .with_crls(self.revoked.clone())
            .allow_unknown_revocation_status()
            .only_check_end_entity_revocation()
            .build()
            .map_err(|error| error.to_string())?;
        let builder = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?;
        let mut client = builder
            .with_webpki_verifier(verifier)
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| error.to_string())?;
        client.alpn_protocols = vec![PEER_PROTOCOL.to_vec()];
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        Ok(PeerConfiguration { acceptor, client: Arc::new(client), own: own.clone() })
    }

    /// Builds the configuration of a listener. `demand`: whether a certificate is mandatory, and
    /// the identities that are accepted; `None`: none is asked for.
    fn acceptor(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        demand: Option<(bool, PurposeDemand)>,
        protocol: &[u8],
    ) -> Result<Acceptor, String> {
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| error.to_string())?;
        let verifier = demand.map(|(is_mandatory, demand)| self.verifier(is_mandatory, demand));
        let verifier = verifier.transpose()?.map(Arc::new);
        let builder = match &verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
        };
        let mut server = builder
            .with_single_cert(self.chain.clone(), self.key.clone_key())
            .map_err(|error| error.to_string())?;
        server.alpn_protocols = vec![protocol.to_vec()];
        // A resumed session would not present its certificate again.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Acceptor { server: Arc::new(server), verifier })
    }

    fn verifier(
        &self,
        is_mandatory: bool,
        demand: PurposeDemand,
    ) -> Result<PurposeVerifier, String> {
        let (roots, provider) = (self.roots.clone(), self.provider.clone());
        // With two authorities, as during the rotation of one, there may be one list.
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider)
            .with_crls(self.revoked.clone())
            .allow_unknown_revocation_status()
            .only_check_end_entity_revocation();
        let builder = if is_mandatory { builder } else { builder.allow_unauthenticated() };
        let chain = builder.build().map_err(|error| error.to_string())?;
        Ok(PurposeVerifier::new(chain, demand))
    }
}

/// Parses the certificates of a file; fails if it has none.
pub(crate) fn certificates(file: &SourceFile) -> Result<Vec<CertificateDer<'static>>, String> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&file.pem).collect();
    let parsed = parsed.map_err(|error| file.failure(&error.to_string()))?;
    if parsed.is_empty() {
        return Err(file.failure("it holds no certificate in PEM"));
    }
    Ok(parsed)
}

fn revocation_lists(
    file: &SourceFile,
) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let parsed: Result<Vec<_>, _> =
        CertificateRevocationListDer::pem_slice_iter(&file.pem).collect();
    let parsed = parsed.map_err(|error| file.failure(&error.to_string()))?;
    if parsed.is_empty() {
        return Err(file.failure("it holds no list of revoked certificates in PEM"));
    }
    Ok(parsed)
}

/// Returns the store of trusted authorities.
fn roots(
    sources: &Sources,
    authorities: &[CertificateDer<'static>],
) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone()).map_err(|error| {
            let file = sources.authorities.as_ref().unwrap_or(&sources.certificate);
            file.failure(&format!("a certificate can't be an authority: {error}"))
        })?;
    }
    Ok(roots)
}
