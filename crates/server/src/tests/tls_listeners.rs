//! TLS at the listeners: protocols inside it, refusals of plain clients, certificates, sessions.

use super::test_server::{ARAKOON_HELLO, TestServer};
use crate::ServerSettings;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tls::authority::{Authority, IssuedCertificate, Revocation};
use tls::{
    CertificateDemand, CertificateFacts, ListenerMode, Purpose, Stream, Tls, TlsClient, TlsSettings,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::timeout;

const DAY: Duration = Duration::from_secs(24 * 3_600);
pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Server with TLS, and an authority for its clients.
pub(crate) struct SecureServer {
    pub(crate) server: TestServer,
    authority: Authority,
    folder: TempDir,
    pub(crate) runtime: Runtime,
}

impl SecureServer {
    pub(crate) fn start(tls: TlsSettings, settings: ServerSettings) -> SecureServer {
        let now = SystemTime::now();
        let authority = Authority::create("shop", now).expect("a valid name");
        let folder = TempDir::new().expect("a scratch folder");
        let hosts = ["127.0.0.1".to_string()];
        let own = authority.issue(Purpose::Node, "node1", &hosts, now..now + DAY);
        let (certificate, key) = write(&folder, "node", &own.expect("valid names"));
        let ca = folder.path().join("ca.crt");
        fs::write(&ca, authority.certificate().expect("short")).expect("the folder is ours");
        let tls = TlsSettings {
            certificate: Some(certificate),
            key: Some(key),
            authorities: Some(ca),
            revoked: Some(write_revoked(&folder, &authority, &[])),
            ..tls
        };
        let tls = Tls::open(tls).unwrap_or_else(|error| panic!("{error}"));
        let settings = ServerSettings { tls: Some(Arc::new(tls)), ..settings };
        let server = TestServer::with_settings(settings);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        SecureServer { server, authority, folder, runtime: runtime.expect("a runtime") }
    }

    /// Revokes the certificate that was made last for this name, and has the server read that.
    pub(super) fn revoke(&self, name: &str) {
        let certificate = self.folder.path().join(format!("{name}.crt"));
        let facts = CertificateFacts::read_file(&certificate).expect("it was made");
        let revoked = [Revocation { serial: facts.serial, revoked_s: 1 }];
        write_revoked(&self.folder, &self.authority, &revoked);
        assert_eq!(self.server.tls().expect("it has TLS").reload(), Ok(true));
    }

    /// Returns the TLS of a client with this identity.
    pub(crate) fn client(&self, identity: Option<(Purpose, &str)>) -> TlsClient {
        let now = SystemTime::now();
        let own = identity.map(|(purpose, name)| {
            let issued = self.authority.issue(purpose, name, &[], now..now + DAY);
            write(&self.folder, name, &issued.expect("valid names"))
        });
        let own = own.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        let client = TlsClient::open(&self.folder.path().join("ca.crt"), own);
        client.unwrap_or_else(|error| panic!("{error}"))
    }

    pub(super) async fn connect(
        &self,
        client: &TlsClient,
        listener: usize,
    ) -> std::io::Result<Stream> {
        let socket = TcpStream::connect(self.server.addresses[listener]).await?;
        client.connect(socket, "127.0.0.1").await
    }

    /// Sends bytes through TLS and returns the beginning of the answer; empty if there is none.
    pub(crate) fn exchange(&self, client: &TlsClient, listener: usize, bytes: &[u8]) -> Vec<u8> {
        self.runtime.block_on(async {
            match self.connect(client, listener).await {
                Ok(stream) => answer(stream, bytes).await,
                Err(_) => Vec::new(),
            }
        })
    }

    /// The same without TLS.
    fn exchange_plain(&self, listener: usize, bytes: &[u8]) -> Vec<u8> {
        self.runtime.block_on(async {
            let socket = TcpStream::connect(self.server.addresses[listener]).await;
            answer(socket.expect("it listens").into(), bytes).await
        })
    }
}

fn write_revoked(folder: &TempDir, authority: &Authority, revoked: &[Revocation]) -> PathBuf {
    let number = revoked.len() as u64 + 1;
    let list = authority.revocation_list(revoked, number, SystemTime::now());
    let path = folder.path().join("crl.pem");
    fs::write(&path, list.expect("valid numbers")).expect("the folder is ours");
    path
}

fn write(folder: &TempDir, name: &str, issued: &IssuedCertificate) -> (PathBuf, PathBuf) {
    let [certificate, key] = ["crt", "key"].map(|it| folder.path().join(format!("{name}.{it}")));
    fs::write(&certificate, &issued.certificate).expect("the folder is ours");
    fs::write(&key, issued.key.as_bytes()).expect("the folder is ours");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("it is ours");
    (certificate, key)
}

/// Sends bytes and returns the beginning of the answer; empty if there is none.
async fn answer(mut stream: Stream, bytes: &[u8]) -> Vec<u8> {
    ask(&mut stream, bytes).await
}

/// Does the same on a connection that stays open.
pub(crate) async fn ask(stream: &mut Stream, bytes: &[u8]) -> Vec<u8> {
    let exchange = async {
        stream.write_all(bytes).await?;
        stream.flush().await?;
        let mut answer = vec![0; 4_096];
        let length = stream.read(&mut answer).await?;
        answer.truncate(length);
        Ok::<_, std::io::Error>(answer)
    };
    timeout(TEST_TIMEOUT, exchange).await.expect("an answer or an end").unwrap_or_default()
}

pub(super) fn http(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").into_bytes()
}

pub(crate) fn listeners(mode: ListenerMode) -> TlsSettings {
    TlsSettings { listeners: mode, ..TlsSettings::default() }
}

/// Settings with one listener of each kind: clients, operators, Arakoon, Riak.
pub(super) fn all_listeners() -> ServerSettings {
    let any: std::net::SocketAddr = "127.0.0.1:0".parse().expect("an address");
    ServerSettings {
        admin_listen: Some(any),
        arakoon_listen: vec![any],
        riak_listen: vec![any],
        arakoon_clusters: vec!["ricky".into()],
        ..ServerSettings::default()
    }
}

#[test]
fn every_protocol_is_served_inside_tls_and_plain_where_tls_is_optional() {
    let settings =
        ServerSettings { arakoon_clusters: vec!["ricky".into()], ..ServerSettings::default() };
    let server = SecureServer::start(listeners(ListenerMode::Optional), settings);
    let client = server.client(None);
    let cases: [(&[u8], &[u8]); 4] = [
        (b"PING\r\n", b"+PONG\r\n"),
        (&http("/live"), b"HTTP/1.1 200 OK"),
        (&http("/ping"), b"HTTP/1.1 200 OK"),
        (b"get k\r\n", b"SERVER_ERROR"),
    ];
    for (request, expected) in cases {
        for answer in [server.exchange(&client, 0, request), server.exchange_plain(0, request)] {
            assert!(answer.starts_with(expected), "{}", String::from_utf8_lossy(&answer));
        }
    }
}

#[test]
fn large_values_pass_through_tls_in_both_directions() {
    let server = SecureServer::start(listeners(ListenerMode::Required), ServerSettings::default());
    let client = server.client(None);
    let value = vec![b'v'; 3 << 20];
    let mut requests = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).into_bytes();
    requests.extend_from_slice(&value);
    requests.extend_from_slice(b"\r\n*3\r\n$4\r\nMGET\r\n$1\r\nk\r\n$1\r\nk\r\n");
    let expected_bytes = 5 + 4 + 2 * (format!("${}\r\n\r\n", value.len()).len() + value.len());
    let received = server.runtime.block_on(async {
        let mut stream = server.connect(&client, 0).await.expect("it speaks TLS");
        stream.write_all(&requests).await.expect("it reads");
        stream.flush().await.expect("it reads");
        let mut received = vec![0; expected_bytes];
        let reading = stream.read_exact(&mut received);
        timeout(TEST_TIMEOUT, reading).await.expect("in time").expect("both values come");
        received
    });
    assert!(received.starts_with(b"+OK\r\n*2\r\n$3145728\r\nvvv") && received.ends_with(b"v\r\n"));
}

#[test]
fn plain_clients_are_refused_in_their_protocol_where_tls_is_required() {
    let server = SecureServer::start(listeners(ListenerMode::Required), all_listeners());
    let refused = |listener, bytes: &[u8]| {
        String::from_utf8_lossy(&server.exchange_plain(listener, bytes)).into_owned()
    };
    assert_eq!(refused(0, b"PING\r\n"), "-ERR this port requires TLS\r\n");
    for (listener, path) in [(0, "/live"), (0, "/ping"), (1, "/live"), (3, "/ping")] {
        let answer = refused(listener, &http(path));
        assert!(answer.starts_with("HTTP/1.1 426 Upgrade Required\r\n"), "{path}: {answer}");
    }
    for listener in [0, 2] {
        assert_eq!(refused(listener, ARAKOON_HELLO), "", "closed without a byte");
    }
}

#[test]
fn every_listener_refuses_clients_without_a_certificate_where_one_is_required() {
    let tls = TlsSettings {
        client_certificates: CertificateDemand::Required,
        ..listeners(ListenerMode::Required)
    };
    let server = SecureServer::start(tls, all_listeners());
    let (without, with) = (server.client(None), server.client(Some((Purpose::Client, "alice"))));
    let requests = [(0, http("/live")), (1, http("/live")), (3, http("/ping"))];
    for (listener, request) in requests {
        assert_eq!(server.exchange(&without, listener, &request), b"", "{listener}");
        assert!(server.exchange(&with, listener, &request).starts_with(b"HTTP/1.1 200 OK"));
    }
    assert_eq!(server.exchange(&without, 0, b"PING\r\n"), b"");
    assert_eq!(server.exchange(&with, 0, b"PING\r\n"), b"+PONG\r\n");
}

#[test]
fn certificate_of_a_node_opens_nothing_but_joining() {
    let tls = TlsSettings {
        client_certificates: CertificateDemand::Required,
        ..listeners(ListenerMode::Required)
    };
    let server = SecureServer::start(tls, ServerSettings::default());
    let node = server.client(Some((Purpose::Node, "n2")));
    let status = |path: &str| {
        let answer = server.exchange(&node, 0, &http(path));
        String::from_utf8_lossy(&answer).split(' ').nth(1).unwrap_or("closed").to_string()
    };
    assert_eq!(status("/live"), "200");
    // The listener is on loopback, whose other clients are operators.
    for path in ["/status", "/metrics", "/v1/buckets", "/v1/buckets/default/default/keys/k"] {
        assert_eq!(status(path), "403", "{path}");
    }
    // A node that joins shows a token beside its certificate.
    assert_eq!(status("/v1/cluster/members"), "403");
    assert_eq!(status("/buckets?buckets=true"), "404", "Riak's interface is another one");
    assert!(!server.exchange(&node, 0, b"PING\r\n").starts_with(b"+PONG"));
    let client = server.client(Some((Purpose::Client, "alice")));
    assert!(server.exchange(&client, 0, &http("/status")).starts_with(b"HTTP/1.1 200 OK"));
}

#[test]
fn encrypted_connection_ends_after_its_session_time() {
    let tls = TlsSettings { session_ms_max: 400, ..listeners(ListenerMode::Optional) };
    let server = SecureServer::start(tls, ServerSettings::default());
    let client = server.client(None);
    for request in [&b"PING\r\n"[..], &http("/live")] {
        server.runtime.block_on(async {
            let mut stream = server.connect(&client, 0).await.expect("it speaks TLS");
            stream.write_all(request).await.expect("it reads");
            stream.flush().await.expect("it reads");
            let mut received = Vec::new();
            let reading = stream.read_to_end(&mut received);
            let ended = timeout(TEST_TIMEOUT, reading).await;
            assert!(ended.is_ok_and(|read| read.is_ok()), "it ends in order");
            assert!(!received.is_empty(), "after the answer");
        });
    }
}

#[test]
fn changed_certificate_is_presented_after_a_reload() {
    let server = SecureServer::start(listeners(ListenerMode::Optional), ServerSettings::default());
    let other = Authority::create("shop", SystemTime::now()).expect("a valid name");
    let client = server.client(None);
    assert_eq!(server.exchange(&client, 0, b"PING\r\n"), b"+PONG\r\n");
    let now = SystemTime::now();
    let hosts = ["127.0.0.1".to_string()];
    let own = other.issue(Purpose::Node, "node1", &hosts, now..now + DAY);
    write(&server.folder, "node", &own.expect("valid names"));
    let tls = server.server.tls().expect("it has TLS");
    assert_eq!(tls.reload(), Ok(true));
    assert_eq!(server.exchange(&client, 0, b"PING\r\n"), b"", "signed by another authority");
    let ca = server.folder.path().join("ca.crt");
    fs::write(ca, other.certificate().expect("short")).expect("the folder is ours");
    let client = server.client(None);
    assert_eq!(server.exchange(&client, 0, b"PING\r\n"), b"+PONG\r\n");
}
