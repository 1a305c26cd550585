//! Verdicts on presented certificates, and limits of handshakes.

use super::test_files::{CLUSTER, DAY, TestFiles, call, connection, parse, unix_s};
use crate::authority::{Authority, IssuedCertificate, Revocation};
use crate::configuration::provider;
use crate::settings::{CertificateDemand, TlsSettings};
use crate::{CertifiedName, Purpose, Tls};
use base::limits::TLS_HANDSHAKE_BYTES_MAX;
use bytes::BytesMut;
use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const CLIENTS: &[u8] = b"http/1.1";
const PEERS: &[u8] = b"credenza-peer";

/// Certificates that someone may present, by name; `None`: no certificate.
struct Presented {
    files: TestFiles,
    cases: Vec<(&'static str, Option<IssuedCertificate>)>,
}

impl Presented {
    /// Makes the cases. The node trusts its own authority and that of another cluster.
    fn new() -> Presented {
        let files = TestFiles::new();
        let now = SystemTime::now();
        let other = Authority::create("other", now).expect("a valid name");
        let unknown = Authority::create(CLUSTER, now).expect("a valid name");
        let trusted = [&files.authority, &other].map(|ca| ca.certificate().expect("short"));
        files.write("ca.crt", &trusted.concat(), 0o644);
        let [past, future] = [now - 2 * DAY..now - DAY, now + DAY..now + 2 * DAY];
        let issue = |ca: &Authority, purpose, name, validity| {
            Some(ca.issue(purpose, name, &["127.0.0.1".into()], validity).expect("valid names"))
        };
        let valid = now..now + DAY;
        let (own, node, client) = (&files.authority, Purpose::Node, Purpose::Client);
        let revoked = issue(own, node, "n2", valid.clone());
        let revoked_client = issue(own, client, "alice", valid.clone());
        let serials = [&revoked, &revoked_client].map(|it| {
            let serial = it.as_ref().expect("made above").facts.serial.clone();
            Revocation { serial, revoked_s: 1 }
        });
        let list = own.revocation_list(&serials, 1, now).expect("valid numbers");
        files.write("crl.pem", &list, 0o644);
        let cases = vec![
            ("none", None),
            ("expired", issue(own, node, "n2", past.clone())),
            ("expired client", issue(own, client, "alice", past)),
            ("early", issue(own, node, "n2", future.clone())),
            ("early client", issue(own, client, "alice", future)),
            ("unknown authority", issue(&unknown, node, "n2", valid.clone())),
            ("unknown authority, client", issue(&unknown, client, "alice", valid.clone())),
            ("other cluster", issue(&other, node, "n2", valid.clone())),
            ("other cluster, client", issue(&other, client, "alice", valid.clone())),
            ("revoked", revoked),
            ("revoked client", revoked_client),
            ("right client", issue(own, client, "alice", valid.clone())),
            ("other node", issue(own, node, "n3", valid.clone())),
            ("right node", issue(own, node, "n2", valid)),
        ];
        Presented { files, cases }
    }

    fn settings(&self) -> TlsSettings {
        TlsSettings { revoked: Some(self.files.path("crl.pem")), ..self.files.settings() }
    }

    /// Returns the identity that each case gets at a listener. `Err`: it is refused.
    async fn verdicts(
        &self,
        protocol: &[u8],
        accept: impl AsyncFn(tokio::net::TcpStream) -> io::Result<crate::Stream>,
    ) -> Vec<(&'static str, Result<Option<String>, ()>)> {
        let mut verdicts = Vec::new();
        for (case, own) in &self.cases {
            let accepted = call(self.files.caller(own.as_ref(), protocol), &accept).await;
            let identity = accepted.map(|stream| stream.identity().map(CertifiedName::to_string));
            verdicts.push((*case, identity.map_err(|_| ())));
        }
        verdicts
    }
}

/// Returns the cases that were not refused, with their identities.
fn accepted(
    verdicts: Vec<(&'static str, Result<Option<String>, ()>)>,
) -> Vec<(&'static str, Option<String>)> {
    verdicts.into_iter().filter_map(|(case, verdict)| Some((case, verdict.ok()?))).collect()
}

fn full(name: &str) -> Option<String> {
    Some(format!("{name}.{CLUSTER}.credenza.internal"))
}

#[tokio::test]
async fn client_listener_accepts_valid_certificates_of_its_cluster_alone() {
    let presented = Presented::new();
    let tls = presented.files.open(presented.settings());
    let accept = async |socket| tls.accept_client(socket, BytesMut::new()).await;
    let verdicts = presented.verdicts(CLIENTS, accept).await;
    let expected = vec![
        ("right client", full("alice.client")),
        ("other node", full("n3.node")),
        ("right node", full("n2.node")),
    ];
    assert_eq!(accepted(verdicts), expected);
    // A client may present none where it is only asked; what it presents must be valid.
    let demand = CertificateDemand::Asked;
    let tls =
        presented.files.open(TlsSettings { client_certificates: demand, ..presented.settings() });
    let accept = async |socket| tls.accept_client(socket, BytesMut::new()).await;
    let verdicts = presented.verdicts(CLIENTS, accept).await;
    assert_eq!(accepted(verdicts), [&[("none", None)], &expected[..]].concat());
    // Where none is asked for, none counts.
    let demand = CertificateDemand::Off;
    let tls =
        presented.files.open(TlsSettings { client_certificates: demand, ..presented.settings() });
    let accept = async |socket| tls.accept_client(socket, BytesMut::new()).await;
    let verdicts = presented.verdicts(CLIENTS, accept).await;
    assert!(verdicts.iter().all(|(_, verdict)| *verdict == Ok(None)), "{verdicts:?}");
}

#[tokio::test]
async fn peer_listener_accepts_valid_certificates_of_nodes_alone() {
    let presented = Presented::new();
    let tls = presented.files.open(presented.settings());
    let verdicts = presented.verdicts(PEERS, async |socket| tls.accept_peer(socket).await).await;
    let expected = vec![("other node", full("n3.node")), ("right node", full("n2.node"))];
    assert_eq!(accepted(verdicts), expected);
    // A client of the other listeners does not get that far.
    let verdicts = presented.verdicts(CLIENTS, async |socket| tls.accept_peer(socket).await).await;
    assert_eq!(accepted(verdicts), vec![]);
}

#[tokio::test]
async fn dialled_node_must_present_the_certificate_of_its_name() {
    let presented = Presented::new();
    let tls = presented.files.open(presented.settings());
    let mut accepted = Vec::new();
    for (case, certificate) in &presented.cases {
        let Some(certificate) = certificate else { continue };
        let (chain, key) = parse(certificate);
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("the library's own")
            .with_no_client_auth()
            .with_single_cert(chain, key);
        let mut config = config.expect("they belong together");
        config.alpn_protocols = vec![PEERS.to_vec()];
        let (caller, called) = connection().await;
        let answering = tokio::spawn(TlsAcceptor::from(Arc::new(config)).accept(called));
        if let Ok(stream) = tls.connect_peer(caller, "n2").await {
            accepted.push((*case, stream.identity().map(ToString::to_string)));
        }
        answering.abort();
    }
    assert_eq!(accepted, vec![("right node", full("n2.node"))]);
}

/// Returns both ends of a connection between two nodes.
async fn nodes(one: &Tls, other: &Tls) -> (crate::Stream, crate::Stream) {
    let (caller, called) = connection().await;
    let both = tokio::join!(one.connect_peer(caller, "n2"), other.accept_peer(called));
    (both.0.expect("n2 answers"), both.1.expect("n1 calls"))
}

#[tokio::test]
async fn both_ends_of_a_session_share_a_secret_of_that_session() {
    let files = TestFiles::new();
    let one = files.open(files.settings());
    files.write_own("n2", &[]);
    let other = files.open(files.settings());
    let (mut caller, mut called) = nodes(&one, &other).await;
    assert_eq!(called.identity().map(|identity| identity.name.as_str()), Some("n1"));
    assert_eq!(caller.identity().map(|identity| identity.name.as_str()), Some("n2"));
    assert_eq!(caller.session_secret(), called.session_secret());
    let (second, _called) = nodes(&one, &other).await;
    assert_ne!(caller.session_secret(), second.session_secret());
    caller.write_all(b"ping").await.expect("it listens");
    caller.flush().await.expect("it listens");
    let mut bytes = [0; 4];
    called.read_exact(&mut bytes).await.expect("four bytes come");
    assert_eq!(&bytes, b"ping");
}

#[tokio::test]
async fn bytes_read_before_the_handshake_belong_to_it() {
    let files = TestFiles::new();
    let tls = files.open(files.settings());
    let own = files.issue(Purpose::Client, "alice");
    for length in [1, 5, 100] {
        let accept = async |mut socket: tokio::net::TcpStream| {
            let mut first = BytesMut::zeroed(length);
            socket.read_exact(&mut first).await?;
            tls.accept_client(socket, first).await
        };
        let accepted = call(files.caller(Some(&own), CLIENTS), accept).await;
        let stream = accepted.unwrap_or_else(|error| panic!("{length}: {error}"));
        assert_eq!(stream.version(), Some("TLS 1.3"));
        let left = tls.session_time(&stream, unix_s(SystemTime::now()));
        assert!(left <= DAY && left > DAY / 2, "until the certificate ends: {left:?}");
    }
}

#[tokio::test]
async fn handshake_beyond_its_bytes_is_refused() {
    let files = TestFiles::new();
    let tls = files.open(files.settings());
    let (mut caller, called) = connection().await;
    let accepting = tls.accept_client(called, BytesMut::new());
    let calling = async {
        // The hello of a client that claims 60,000 bytes, in records of 8 KiB.
        let mut record = vec![0x16, 3, 1, 0x20, 0];
        record.extend_from_slice(&[1, 0, 0xea, 0x60]);
        record.resize(5 + 0x2000, 0);
        for _ in 0..8 {
            if caller.write_all(&record).await.is_err() {
                break;
            }
            record[5] = 0;
        }
        std::future::pending::<()>().await;
    };
    let refused = tokio::select! {
        biased;
        accepted = accepting => accepted.err().map(|error| error.to_string()),
        () = calling => None,
    };
    assert!(refused.is_some_and(|text| text.contains("longer than the limit")));
}

/// Passes bytes on; those behind the first read are held back until there are `bytes_min` of them.
async fn pass_on_in_bulk(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let bytes_min = 3 * TLS_HANDSHAKE_BYTES_MAX;
    let (mut held, mut part, mut least) = (Vec::new(), vec![0; 64 * 1024], 1);
    while let Ok(read @ 1..) = from.read(&mut part).await {
        held.extend_from_slice(&part[..read]);
        if held.len() >= least {
            to.write_all(&held).await.expect("it reads");
            held.clear();
            // The hello of the client was the first; then its data come with its last messages.
            least = if least == 1 { bytes_min } else { 0 };
        }
    }
}

#[tokio::test]
async fn data_that_come_with_the_end_of_a_handshake_are_no_part_of_it() {
    let files = TestFiles::new();
    let tls = files.open(files.settings());
    let ((client, front), (back, called)) = (connection().await, connection().await);
    let ((front_reads, mut front_writes), (mut back_reads, back_writes)) =
        (front.into_split(), back.into_split());
    tokio::spawn(pass_on_in_bulk(front_reads, back_writes));
    tokio::spawn(async move { tokio::io::copy(&mut back_reads, &mut front_writes).await });
    let sent = vec![7; 4 * TLS_HANDSHAKE_BYTES_MAX];
    let own = files.issue(Purpose::Client, "alice");
    let connector = TlsConnector::from(Arc::new(files.caller(Some(&own), CLIENTS)));
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    let calling = async {
        let mut stream = connector.connect(name, client).await.expect("it accepts");
        stream.write_all(&sent).await.expect("it reads");
        stream.flush().await.expect("it reads");
        stream
    };
    let accepting = async {
        let accepting = tls.accept_client(called, BytesMut::new());
        let mut stream = accepting.await.expect("the handshake is short");
        let mut received = vec![0; sent.len()];
        stream.read_exact(&mut received).await.expect("all that was sent");
        received
    };
    let (_open, received) = tokio::join!(calling, accepting);
    assert!(received == sent);
}

#[tokio::test]
async fn old_version_is_refused_unless_it_is_allowed() {
    let files = TestFiles::new();
    let own = files.issue(Purpose::Client, "alice");
    for (allows_tls12, expected) in [(false, None), (true, Some("TLS 1.2"))] {
        let tls = files.open(TlsSettings { allows_tls12, ..files.settings() });
        let (chain, key) = parse(&own);
        let mut roots = rustls::RootCertStore::empty();
        let ca = std::fs::read(files.path("ca.crt")).expect("written above");
        let ca = rustls::pki_types::pem::PemObject::from_pem_slice(&ca).expect("PEM");
        roots.add(ca).expect("an authority");
        let config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS12])
            .expect("the library's own")
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key);
        let config = config.expect("they belong together");
        let accept = async |socket| tls.accept_client(socket, BytesMut::new()).await;
        let version = call(config, accept).await.ok().and_then(|stream| stream.version());
        assert_eq!(version, expected);
    }
}
