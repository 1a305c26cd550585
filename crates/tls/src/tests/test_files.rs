//! Files of the tests: an authority, files in a scratch folder, and handshakes on loopback.

use crate::authority::{Authority, IssuedCertificate};
use crate::configuration::provider;
use crate::settings::{CertificateDemand, ListenerMode, PeerMode, TlsSettings};
use crate::stream::Stream;
use crate::{Purpose, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

pub(super) const CLUSTER: &str = "shop";
pub(super) const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Returns seconds since 1970.
pub(super) fn unix_s(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Authority, and the files of node `n1`.
pub(super) struct TestFiles {
    pub(super) folder: TempDir,
    pub(super) authority: Authority,
}

impl TestFiles {
    pub(super) fn new() -> TestFiles {
        let authority = Authority::create(CLUSTER, SystemTime::now()).expect("a valid name");
        let files = TestFiles { folder: TempDir::new().expect("a scratch folder"), authority };
        files.write("ca.crt", &files.authority.certificate().expect("short"), 0o644);
        files.write_own("n1", &["127.0.0.1".into()]);
        files
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.path(name);
        fs::write(&path, text).expect("the folder can be written");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("it is ours");
    }

    /// Makes the node's certificate with this name.
    pub(super) fn write_own(&self, name: &str, hosts: &[String]) {
        let now = SystemTime::now();
        let own = self.authority.issue(Purpose::Node, name, hosts, now..now + 90 * DAY);
        let own = own.expect("valid names");
        self.write("node.crt", &own.certificate, 0o644);
        self.write("node.key", &own.key, 0o600);
    }

    pub(super) fn settings(&self) -> TlsSettings {
        TlsSettings {
            listeners: ListenerMode::Required,
            peers: PeerMode::Required,
            client_certificates: CertificateDemand::Required,
            certificate: Some(self.path("node.crt")),
            key: Some(self.path("node.key")),
            authorities: Some(self.path("ca.crt")),
            ..TlsSettings::default()
        }
    }

    pub(super) fn open(&self, settings: TlsSettings) -> Tls {
        Tls::open(settings).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Makes a certificate that is valid now.
    pub(super) fn issue(&self, purpose: Purpose, name: &str) -> IssuedCertificate {
        let now = SystemTime::now();
        self.authority.issue(purpose, name, &[], now..now + DAY).expect("valid names")
    }

    /// Returns the configuration of a caller with this certificate and this inner protocol.
    pub(super) fn caller(&self, own: Option<&IssuedCertificate>, protocol: &[u8]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        let ca = self.authority.certificate().expect("short");
        let ca = CertificateDer::from_pem_slice(ca.as_bytes()).expect("PEM");
        roots.add(ca).expect("an authority");
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the library's own")
            .with_root_certificates(roots);
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = parse(own);
                builder.with_client_auth_cert(chain, key).expect("they belong together")
            }
        };
        config.alpn_protocols = vec![protocol.to_vec()];
        config
    }
}

pub(super) fn parse(
    issued: &IssuedCertificate,
) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes());
    (vec![certificate.expect("PEM")], key.expect("PEM"))
}

/// Returns two ends of a connection: the caller's and the called side's.
pub(super) async fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let (caller, called) = tokio::join!(TcpStream::connect(address), listener.accept());
    (caller.expect("it listens"), called.expect("someone calls").0)
}

/// Lets a caller connect; returns what the called side makes of it.
pub(super) async fn call(
    config: ClientConfig,
    accept: impl AsyncFnOnce(TcpStream) -> io::Result<Stream>,
) -> io::Result<Stream> {
    let (caller, called) = connection().await;
    let calling = tokio::spawn(async move {
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let connected = TlsConnector::from(Arc::new(config)).connect(name, caller).await;
        if let Ok(mut stream) = connected {
            // Reads the alert, or waits until the called side is done.
            let _ = stream.read(&mut [0]).await;
        }
    });
    let accepted = accept(called).await;
    calling.abort();
    accepted
}
