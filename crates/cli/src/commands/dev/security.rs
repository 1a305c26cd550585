//! TLS of `credenza dev --tls`: an authority in the folder, and the files of each node.

use crate::commands::cert;
use client::{Address, TlsArguments};
use program::Outcome;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Most nodes of such a cluster; all get a certificate, so that the next run may have more of them.
const NODES_MAX: u16 = 7;
/// User whose certificate is made.
const USER: &str = "dev";

fn path(data: &Path, name: &str) -> PathBuf {
    data.join("ca").join(name)
}

/// Makes the authority and all certificates, unless they exist.
pub fn make_certificates(data: &Path, nodes: u16) -> Outcome {
    let names: Vec<_> = (1..=NODES_MAX.max(nodes)).map(|number| format!("n{number}")).collect();
    cert::make_local(&data.join("ca"), &names, USER)
}

/// Returns the arguments of a node.
pub fn node_arguments(data: &Path, name: &str) -> Vec<String> {
    let file = |name: &str| path(data, name).display().to_string();
    let words = [
        ("--tls", "required".into()),
        ("--tls-client-certs", "asked".into()),
        ("--peer-tls", "required".into()),
        ("--tls-cert-file", file(&format!("{name}.node.crt"))),
        ("--tls-key-file", file(&format!("{name}.node.key"))),
        ("--tls-ca-file", file("ca.crt")),
        ("--tls-crl-file", file("crl.pem")),
    ];
    words.into_iter().flat_map(|(flag, value)| [flag.into(), value]).collect()
}

/// Returns the address of the node with this port for clients.
pub fn address(data: &Path, port: u16, timeout: Duration) -> Address {
    let tls = TlsArguments { tls_ca: Some(path(data, "ca.crt")), ..TlsArguments::default() };
    Address { tls, ..Address::plain(format!("https://127.0.0.1:{port}"), timeout) }
}

/// Returns what to try, for people.
pub fn instructions(data: &Path, (nodes, port, last): (u16, u16, u16)) -> String {
    let file = |name: &str| path(data, name).display().to_string();
    let (ca, cert, key) =
        (file("ca.crt"), file(&format!("{USER}.client.crt")), file(&format!("{USER}.client.key")));
    format!(
        "\n{nodes} nodes are one cluster, and everything between them and to them is encrypted: n1 \
         at 127.0.0.1:{port} to n{nodes} at 127.0.0.1:{last}\n\n\
         Try, in another terminal:\n  \
         export CREDENZA_URL=https://127.0.0.1:{port} CREDENZA_CA={ca}\n  \
         credenza put hello world\n  \
         credenza get hello --url https://127.0.0.1:{last}\n  \
         redis-cli --tls --cacert {ca} -p {port} ping\n  \
         curl --cacert {ca} https://127.0.0.1:{port}/live\n  \
         curl --cacert {ca} --cert {cert} --key {key} https://127.0.0.1:{port}/live   # with a \
         certificate\n  \
         curl http://127.0.0.1:{port}/live            # refused: plain\n\n\
         Ctrl-C stops all of them.\n"
    )
}
