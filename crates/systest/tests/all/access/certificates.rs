//! Certificates at every listener, in every protocol, presented by OpenSSL: only those of their
//! purpose and time, of a trusted authority and not revoked, are served.

use crate::faults::hostile::envelope;
use base::codec::Writer;
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};
use systest::cluster::wait_until;
use systest::environment::{Root, Scratch, free_address, missing, path_str};
use systest::report::{Figures, skipped};
use systest::server::{Server, Setup, signal};
use tls::Purpose;
use tls::authority::{Authority, Revocation};

const CLUSTER: &str = "shop";
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// Certificate that is presented, with the listeners that serve it.
struct PresentedCertificate {
    name: &'static str,
    /// Paths of certificate and key. `None`: no certificate is presented.
    files: Option<(String, String)>,
    /// True if the listeners for clients serve it.
    is_client: bool,
    /// True if the listener for nodes does.
    is_peer: bool,
}

/// Folder of certificates.
struct CertificateFiles<'a> {
    scratch: &'a Scratch,
    certificates: Vec<PresentedCertificate>,
}

impl CertificateFiles<'_> {
    /// Writes a certificate and its key; returns their paths.
    fn write(&self, name: &str, certificate: &str, key: &str) -> (String, String) {
        let [certificate_path, key_path] = ["crt", "key"]
            .map(|end| self.scratch.join(&format!("{}.{end}", name.replace(' ', "-"))));
        std::fs::write(&certificate_path, certificate).expect("the scratch folder is ours");
        std::fs::write(&key_path, key).expect("the scratch folder is ours");
        std::fs::set_permissions(&key_path, PermissionsExt::from_mode(0o600)).expect("it is ours");
        (path_str(&certificate_path).into(), path_str(&key_path).into())
    }

    /// Adds a certificate that an authority issues; returns its serial number.
    fn issue(
        &mut self,
        name: &'static str,
        authority: &Authority,
        (purpose, subject): (Purpose, &str),
        (validity, is_served): (std::ops::Range<SystemTime>, bool),
    ) -> String {
        let issued = authority.issue(purpose, subject, &["127.0.0.1".into()], validity);
        let issued = issued.unwrap_or_else(|error| panic!("{name}: {error}"));
        let files = Some(self.write(name, &issued.certificate, &issued.key));
        self.certificates.push(PresentedCertificate {
            name,
            files,
            is_client: is_served && purpose == Purpose::Client,
            is_peer: is_served && purpose == Purpose::Node,
        });
        issued.facts.serial.clone()
    }
}

/// Makes all certificates, and the files of a node that trusts its own authority, a former one and
/// that of another cluster.
fn make_certificates(scratch: &Scratch) -> Vec<PresentedCertificate> {
    use Purpose::{Client, Node};
    let now = SystemTime::now();
    let authority = |cluster: &str| Authority::create(cluster, now).expect("a valid name");
    let (own, former, other, unknown) =
        (authority(CLUSTER), authority(CLUSTER), authority("other"), authority(CLUSTER));
    let pem = |authority: &Authority| authority.certificate().expect("short");
    let write = |name: &str, text: &str| {
        std::fs::write(scratch.join(name), text).expect("the scratch folder is ours");
    };
    write("ca.crt", &[&own, &former, &other].map(pem).concat());
    write("ca-now.crt", &[&own, &other].map(pem).concat());
    let (valid, past, future) =
        (now..now + DAY, now - 3 * DAY..now - DAY, now + DAY..now + 3 * DAY);
    let mut files = CertificateFiles { scratch, certificates: Vec::new() };
    files.issue("node1", &own, (Node, "node1"), (valid.clone(), true));
    // Not presented: it is the node's own.
    files.certificates.clear();
    let [alice, n2] = [(Client, "alice"), (Node, "n2")];
    files.issue("right client", &own, alice, (valid.clone(), true));
    files.issue("right node", &own, n2, (valid.clone(), true));
    files.issue("former client", &former, alice, (valid.clone(), true));
    files.issue("former node", &former, n2, (valid.clone(), true));
    for (name, authority, whose, validity) in [
        ("expired client", &own, alice, &past),
        ("expired node", &own, n2, &past),
        ("early client", &own, alice, &future),
        ("early node", &own, n2, &future),
        ("unknown authority client", &unknown, alice, &valid),
        ("unknown authority node", &unknown, n2, &valid),
        ("other cluster client", &other, alice, &valid),
        ("other cluster node", &other, n2, &valid),
    ] {
        files.issue(name, authority, whose, (validity.clone(), false));
    }
    let revoked = [("revoked client", alice), ("revoked node", n2)].map(|(name, whose)| {
        let serial = files.issue(name, &own, whose, (valid.clone(), false));
        Revocation { serial, revoked_s: 1 }
    });
    write("crl.pem", &own.revocation_list(&revoked, 1, now).expect("valid numbers"));
    let self_signed = authority(CLUSTER);
    let key = self_signed.key(None).expect("short");
    let self_signed = Some(files.write("self signed", &pem(&self_signed), &key));
    for (name, files_of) in [("self signed", self_signed), ("none", None)] {
        let (is_client, is_peer) = (false, false);
        let presented = PresentedCertificate { name, files: files_of, is_client, is_peer };
        files.certificates.push(presented);
    }
    files.certificates
}

/// Listener with a request that it serves, and the beginning of the answer.
fn listener(name: &str, address: &str, request: &[u8], answer: &[u8]) -> Value {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let alpn = if name == PEERS { json!("credenza-peer") } else { Value::Null };
    json!({
        "name": name, "address": address, "alpn": alpn, "request": hex(request),
        "answer": hex(answer),
    })
}

/// Name of the listener for nodes.
const PEERS: &str = "peers";

/// Starts a node that listens everywhere; returns its listeners, too.
fn start(scratch: &Scratch) -> (Server, Vec<Value>) {
    let file = |name: &str| path_str(&scratch.join(name)).to_string();
    std::fs::copy(scratch.join("ca.crt"), scratch.join("trusted.crt")).expect("it was written");
    let [admin, riak, arakoon, peers] = [(); 4].map(|()| free_address().to_string());
    let args = [
        ("--tls", "required".to_string()),
        ("--tls-client-certs", "required".into()),
        ("--peer-tls", "required".into()),
        ("--tls-cert-file", file("node1.crt")),
        ("--tls-key-file", file("node1.key")),
        ("--tls-ca-file", file("trusted.crt")),
        ("--tls-crl-file", file("crl.pem")),
        ("--admin-listen", admin.clone()),
        ("--riak-listen", riak.clone()),
        ("--arakoon-listen", arakoon.clone()),
        ("--arakoon-clusters", "ricky".into()),
        ("--peer-listen", peers.clone()),
        // Nobody asks for the port of its own choice.
        ("--advertise", free_address().to_string()),
    ];
    let args: Vec<&str> = args.iter().flat_map(|(flag, value)| [*flag, value.as_str()]).collect();
    let server = Server::must_start(&Setup::new(&scratch.join("data")).with_args(&args));
    let shared = server.address.to_string();
    let http = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").into_bytes();
    let version: &[u8] = b"\x00\x00\xff\xb1\x01\x00\x00\x00\x05\x00\x00\x00ricky\x28\x00\xff\xb1";
    let ok: &[u8] = b"HTTP/1.1 200";
    let mut hello = vec![1];
    (0..2).for_each(|_| hello.put_u32(1));
    (0..7).for_each(|_| hello.put_u64(7));
    hello.put_string(b"n2");
    hello.put_string(b"127.0.0.1:1");
    let listeners = vec![
        listener("RESP", &shared, b"PING\r\n", b"+PONG"),
        listener("HTTP", &shared, &http("/v1/types"), ok),
        listener("Riak, shared", &shared, &http("/buckets?buckets=true"), ok),
        listener("Arakoon, shared", &shared, version, &[0; 4]),
        listener("operators", &admin, &http("/status"), ok),
        listener("Riak", &riak, &http("/buckets?buckets=true"), ok),
        listener("Arakoon", &arakoon, version, &[0; 4]),
        // A stranger's greeting is refused, but in words of the protocol.
        listener(PEERS, &peers, &envelope(&hello), b""),
    ];
    (server, listeners)
}

/// Presents certificates at listeners; returns the verdicts that are wrong.
fn present(listeners: &[Value], certificates: &[PresentedCertificate]) -> Vec<String> {
    let presented = certificates.iter().map(|certificate| {
        let files = certificate.files.as_ref();
        let (cert, key) = (files.map(|files| &files.0), files.map(|files| &files.1));
        json!({ "name": certificate.name, "cert": cert, "key": key })
    });
    let presented: Vec<_> = presented.collect();
    let task = json!({ "listeners": listeners, "certificates": presented }).to_string();
    let script = systest::tidy::root().join("crates/systest/clients/tls_matrix.py");
    let mut command = Command::new("python3");
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("python runs");
    let sent = child.stdin.take().expect("it is piped").write_all(task.as_bytes());
    sent.expect("the script reads its task");
    let output = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let verdicts: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no verdicts: {error}: {stderr}"));
    let verdicts = verdicts.as_array().expect("a list").clone();
    assert_eq!(verdicts.len(), listeners.len() * certificates.len());
    let is_wrong = |verdict: &&Value| {
        let known = certificates.iter().find(|it| verdict[1] == it.name).expect("it was presented");
        let expected = if verdict[0] == PEERS { known.is_peer } else { known.is_client };
        verdict[2] != expected
    };
    verdicts.iter().filter(is_wrong).map(Value::to_string).collect()
}

#[test]
fn every_listener_serves_only_valid_certificates_of_its_purpose_in_every_protocol() {
    let name = "certificates at every listener";
    if let Some(reason) = missing(Root::Spared, &["python3"]) {
        return skipped(name, &reason);
    }
    let scratch = Scratch::new("certificates");
    let mut certificates = make_certificates(&scratch);
    let (mut server, listeners) = start(&scratch);
    let mut figures = Figures::start(name);
    let wrong = present(&listeners, &certificates);
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Whoever is removed from the trusted authorities is refused after a reload.
    replace(&scratch.join("ca-now.crt"), &scratch.join("trusted.crt"));
    signal(server.pid(), rustix::process::Signal::HUP);
    for certificate in certificates.iter_mut().filter(|it| it.name.starts_with("former")) {
        (certificate.is_client, certificate.is_peer) = (false, false);
    }
    let kept = |name: &str| name.starts_with("former") || name.starts_with("right");
    let again: Vec<_> = certificates.into_iter().filter(|it| kept(it.name)).collect();
    wait_until("the authority's removal", || {
        let wrong = present(&listeners, &again);
        if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:#?}")) }
    });
    figures.add("listeners", listeners.len());
    figures.print();
    server.must_be_healthy();
}

/// Replaces a file as a whole, so that a reader finds the former or the new one.
fn replace(from: &Path, to: &Path) {
    let temporary = to.with_extension("new");
    std::fs::copy(from, &temporary).expect("it was written");
    std::fs::rename(&temporary, to).expect("both are in one folder");
}
