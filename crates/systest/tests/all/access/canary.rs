//! Canary secrets: a whole scenario uses passwords, tokens, keys and values that nothing may show:
//! no log, metric, status, error or output of the tool, and, but for values, no file of a node.

use super::{CHANGE_TIMEOUT, turn_on};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use systest::access::{AccessAdmin, basic};
use systest::canaries::Canaries;
use systest::certificates::TestAuthority;
use systest::client::{Http, Resp};
use systest::cluster::{Cluster, Options};
use systest::environment::{Scratch, experiment, path_str};
use systest::report::Figures;
use systest::server::{signal, tool};

const PASSPHRASE: &str = "Passphr4se-Rh0dodendron";
const JOIN_TOKEN: &str = "5d0f6a1be7c24093a8d1f0e6b7c3925e4a6f8091b2d3c4e5f60718293a4b5c6d";
const PASSWORD: &str = "Passw0rd-Chrysanthemum";
const NEXT_PASSWORD: &str = "Passw0rd-Delphinium77";
const WRONG_PASSWORD: &str = "Passw0rd-Wr0ngHyacinth";
const VALUE: &str = "V4lue-Bougainvillea-99";
const WRONG_TOKEN: &str = "credenza-api-00112233445566778899aabbccddeeff00112233";

/// Texts that a cluster shows, each with its origin.
#[derive(Default)]
struct ShownTexts(Vec<(String, Vec<u8>)>);

impl ShownTexts {
    fn add(&mut self, origin: impl Into<String>, text: impl Into<Vec<u8>>) {
        self.0.push((origin.into(), text.into()));
    }

    fn must_hold_no_canary(&self, canaries: &Canaries) {
        let found = self.0.iter().filter_map(|(origin, text)| {
            let names = canaries.found_in(text);
            (!names.is_empty()).then(|| format!("{origin}: {names:?}"))
        });
        let found: Vec<_> = found.collect();
        assert!(found.is_empty(), "secrets are shown: {found:#?}");
    }
}

/// Writes a secret into a file that only its owner can read.
fn secret_file(path: &Path, text: &str) -> PathBuf {
    std::fs::write(path, format!("{text}\n")).expect("the scratch folder can be written");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("it is ours");
    path.into()
}

/// Plants the last whole line of a key's PEM text.
fn plant_key(canaries: &mut Canaries, name: &str, path: &str) {
    let pem = std::fs::read_to_string(path).expect("it was made");
    let lines: Vec<_> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let line = lines.iter().rev().find(|line| line.len() >= 32).expect("a key has such a line");
    canaries.plant(name, line.as_bytes());
}

/// Starts a cluster with TLS, a passphrase and a join token, whose nodes log much.
fn start(scratch: &Scratch, canaries: &mut Canaries) -> (Cluster, TestAuthority) {
    let passphrase = secret_file(&scratch.join("passphrase"), PASSPHRASE);
    let join_token = secret_file(&scratch.join("join-token"), JOIN_TOKEN);
    let authority = TestAuthority::with_passphrase(&scratch.join("ca"), &passphrase);
    (1..=3).for_each(|node| authority.node(&format!("n{node}")));
    authority.client("alice");
    for (name, secret) in [
        ("passphrase", PASSPHRASE),
        ("join token", JOIN_TOKEN),
        ("password", PASSWORD),
        ("next password", NEXT_PASSWORD),
        ("wrong password", WRONG_PASSWORD),
        ("value", VALUE),
        ("wrong token", WRONG_TOKEN),
    ] {
        canaries.plant(name, secret.as_bytes());
    }
    for file in ["ca.key", "n1.node.key", "n2.node.key", "alice.client.key"] {
        plant_key(canaries, file, &authority.file(file));
    }
    let mut options = Options::new(3);
    options.args.extend(authority.node_args());
    let args = ["--peer-tls", "required", "--log-level", "debug", "--slow-ms", "1ms"];
    options.args.extend(args.map(String::from));
    options.args.extend(["--join-token-file", path_str(&join_token)].map(String::from));
    let cluster = Cluster::start(scratch, options);
    cluster.must_serve();
    (cluster, authority)
}

/// Makes users and tokens, and plants what the product made up. Returns the administrator's
/// password and ada's token.
fn make_users(cluster: &mut Cluster, canaries: &mut Canaries) -> (String, String) {
    let admin = AccessAdmin::new(&cluster.setup_mut(1).data);
    admin.set_role("web", &["read,write,list:default/default", "read,write:available/b"]);
    admin.add_user("ada", PASSWORD, "web");
    let api_token = admin.add_token("ada", "ci");
    let standing = cluster.tool(1, &["cluster", "token"]);
    let standing = String::from_utf8_lossy(&standing.stdout).trim().to_string();
    let admin_password = turn_on(cluster);
    canaries.plant("API token", api_token.as_bytes());
    canaries.plant("made join token", standing.as_bytes());
    canaries.plant("administrator's password", admin_password.as_bytes());
    (admin_password, api_token)
}

/// Sends commands of Redis' protocol with secrets in them; keeps the refusals.
fn send_resp(address: std::net::SocketAddr, shown: &mut ShownTexts) {
    let mut client = Resp::connect(address).expect("it listens");
    for line in [
        format!("AUTH {PASSWORD}"),
        format!("AUTH ada {WRONG_PASSWORD}"),
        format!("AUTH {WRONG_PASSWORD} {PASSWORD}"),
        format!("HELLO 3 AUTH ada {WRONG_PASSWORD}"),
        format!("SET k {VALUE}"),
        format!("AUTH ada {PASSWORD}"),
        format!("AUTH ada {PASSWORD} {PASSWORD}"),
        format!("SET k {VALUE}"),
        "INCR k".into(),
        "EXPIRE k soon".into(),
        format!("SET k v {VALUE}"),
        format!("CREDENZA.TAS k VALUE {WRONG_PASSWORD} VALUE {VALUE}"),
        format!("CREDENZA.ASSERT k VALUE {WRONG_PASSWORD}"),
        format!("SET forbidden {VALUE} GET"),
    ] {
        let word = line.split(' ').next().unwrap_or_default().to_string();
        let reply = client.call_line(&line).unwrap_or_else(|error| panic!("{word}: {error}"));
        if let Some(error) = reply.error() {
            shown.add(format!("refusal of {word}"), error.as_bytes());
        }
    }
}

/// Sends HTTP requests with secrets in them, native ones and Riak's; keeps the refusals.
fn send_http(address: std::net::SocketAddr, token: &str, shown: &mut ShownTexts) {
    let headers = [
        basic("ada", PASSWORD),
        basic("ada", WRONG_PASSWORD),
        basic(WRONG_PASSWORD, PASSWORD),
        format!("Bearer {token}"),
        format!("Bearer {WRONG_TOKEN}"),
        format!("Bearer {JOIN_TOKEN}"),
        format!("Digest {PASSWORD}"),
        PASSWORD.to_string(),
    ];
    let key = "/v1/buckets/default/default/keys/k";
    let bucket = "/v1/buckets/default/default";
    let json = format!("{{\"password\":\"{PASSWORD}\",\"more\":\"{VALUE}\"}}");
    let update = format!("{{\"op\":\"assert\",\"key\":\"k\",\"expected\":\"{WRONG_PASSWORD}\"}}");
    for header in &headers {
        for (method, path, body) in [
            ("PUT", key.to_string(), VALUE),
            ("POST", format!("{bucket}/update"), update.as_str()),
            ("PUT", "/v1/access/users/ada/password".into(), json.as_str()),
            ("PUT", "/v1/access/users/eve".into(), json.as_str()),
            ("POST", "/v1/cluster/members".into(), json.as_str()),
            ("PUT", "/buckets/b/keys/k".into(), VALUE),
            ("GET", "/status".into(), ""),
        ] {
            let kind = if body.starts_with('{') { "application/json" } else { "text/plain" };
            let headers = [("authorization", header.as_str()), ("content-type", kind)];
            let mut client = Http::connect(address).expect("it listens");
            let answer = client.request_with_headers(method, &path, &headers, body.as_bytes());
            let answer = answer.unwrap_or_else(|error| panic!("{method}: {error}"));
            let head: Vec<_> = answer.headers.iter().map(|(_, value)| value.as_str()).collect();
            shown.add(format!("headers of {method}"), head.join("\n"));
            if answer.status >= 400 {
                shown.add(format!("refusal of {method}, {}", answer.status), answer.body);
            }
        }
    }
}

/// Collects what a node shows to an administrator.
fn ask_node(cluster: &Cluster, node: usize, admin_password: &str, shown: &mut ShownTexts) {
    let address = cluster.client_address(node);
    let header = basic("admin", admin_password);
    for path in [
        "/status",
        "/metrics",
        "/ready",
        "/live",
        "/openapi.json",
        "/v1/access",
        "/v1/cluster",
        "/v1/cluster/members",
        "/v1/admin/slow-requests",
        "/v1/admin/log-levels",
        "/v1/admin/checkpoints",
        "/v1/buckets",
        "/stats",
    ] {
        let mut client = Http::connect(address).expect("it listens");
        let headers = [("authorization", header.as_str())];
        let answer = client.request_with_headers("GET", path, &headers, b"").expect("it answers");
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        shown.add(format!("{path} of node {node}"), answer.body);
    }
    let mut client = Resp::connect(address).expect("it listens");
    super::log_in(&mut client, "admin", admin_password);
    for line in ["INFO everything", "CLIENT LIST", "SLOWLOG GET 1000", "CONFIG GET *"] {
        let reply = client.call_line(line).expect("it answers");
        assert_eq!(reply.error(), None, "{line}");
        let mut text = format!("{reply:?}").into_bytes();
        text.extend_from_slice(reply.bytes().unwrap_or_default());
        shown.add(format!("{line} of node {node}"), text);
    }
}

/// Collects what the tool prints about a node and its files.
fn run_tools(data: &Path, authority: &TestAuthority, shown: &mut ShownTexts) {
    let socket = format!("unix:{}", path_str(&data.join("admin.sock")));
    let online: [&[&str]; 7] = [
        &["status"],
        &["status", "--json"],
        &["slow"],
        &["log-levels"],
        &["cluster", "status"],
        &["group", "status"],
        &["bucket", "list"],
    ];
    for words in online {
        show_output(&[words, &["--url", &socket]].concat(), shown);
    }
    for words in [&["access", "status"][..], &["user", "list"], &["role", "list"]] {
        show_output(&[words, &["--data", path_str(data)]].concat(), shown);
    }
    let [certificate, key, ca] =
        ["n1.node.crt", "n1.node.key", "ca.crt"].map(|file| authority.file(file));
    show_output(&["cert", "check", "--cert", &certificate, "--key", &key, "--ca", &ca], shown);
    show_output(&["cert", "show", &certificate], shown);
}

/// Keeps the output of a command, which must not be refused as one that does not exist.
fn show_output(words: &[&str], shown: &mut ShownTexts) {
    const INVALID: i32 = 2;
    let output = tool(words).output().expect("the tool runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(INVALID), "{words:?}: {stderr}");
    assert!(!output.stdout.is_empty() || !output.stderr.is_empty(), "{words:?} says nothing");
    shown.add(format!("credenza {}", words[0]), [output.stdout, output.stderr].concat());
}

/// Collects the crash log of a node, once it is complete, and what the system shows of it.
fn read_process(cluster: &mut Cluster, node: usize, shown: &mut ShownTexts) {
    let pid = cluster.server(node).pid();
    for file in ["cmdline", "environ"] {
        let text = std::fs::read(format!("/proc/{pid}/{file}")).expect("the process is ours");
        shown.add(format!("{file} of node {node}"), text);
    }
    signal(pid, Signal::USR2);
    let folder = cluster.setup_mut(node).data.join("crash");
    let (started, mut previous) = (Instant::now(), Vec::new());
    loop {
        let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let text = files.filter_map(|file| std::fs::read(file.path()).ok()).next();
        let text = text.unwrap_or_default();
        // The log is complete when it does not grow any more.
        if !text.is_empty() && text == previous {
            return shown.add(format!("crash log of node {node}"), text);
        }
        previous = text;
        assert!(started.elapsed() < CHANGE_TIMEOUT, "node {node} writes no crash log");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Collects the files below a folder.
fn read_files(folder: &Path, origin: &str, kept: &mut ShownTexts) {
    for entry in std::fs::read_dir(folder).expect("it is ours").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("it was listed");
        if kind.is_dir() {
            read_files(&path, origin, kept);
        } else if kind.is_file() {
            let text = std::fs::read(&path).expect("it is ours");
            kept.add(format!("{origin}: {}", path.display()), text);
        }
    }
}

#[test]
fn secrets_of_a_whole_scenario_are_shown_nowhere() {
    let _permit = experiment();
    let scratch = Scratch::new("canary");
    let (mut canaries, mut shown) = (Canaries::default(), ShownTexts::default());
    let (mut cluster, authority) = start(&scratch, &mut canaries);
    let (admin_password, token) = make_users(&mut cluster, &mut canaries);
    for address in cluster.client_addresses() {
        send_resp(address, &mut shown);
    }
    send_http(cluster.client_address(2), &token, &mut shown);
    let admin = AccessAdmin::new(&cluster.setup_mut(1).data);
    admin.run_with(&["user", "password", "ada"], NEXT_PASSWORD);
    for node in cluster.nodes() {
        ask_node(&cluster, node, &admin_password, &mut shown);
        read_process(&mut cluster, node, &mut shown);
    }
    run_tools(&cluster.setup_mut(1).data.clone(), &authority, &mut shown);
    let mut kept = ShownTexts::default();
    for node in cluster.nodes() {
        let log = cluster.server(node).stderr_text();
        assert!(log.contains("debug "), "node {node} does not log at this level");
        assert_eq!(cluster.server(node).stop(CHANGE_TIMEOUT).and_then(|it| it.code()), Some(0));
        shown.add(format!("log of node {node}"), cluster.server(node).stderr_text());
        let data = cluster.setup_mut(node).data.clone();
        show_output(&["verify", path_str(&data)], &mut shown);
        read_files(&data, &format!("file of node {node}"), &mut kept);
    }
    let mut figures = Figures::start("S40 canary secrets");
    figures.ok = shown.0.len() as u64;
    figures.add("secrets", canaries.count());
    figures.add("files", kept.0.len());
    shown.must_hold_no_canary(&canaries);
    // Nodes keep values, of course; of passwords and tokens they keep digests.
    let found = kept.0.iter().flat_map(|(_, text)| canaries.found_in(text));
    let found: Vec<_> = found.filter(|name| *name != "value").collect();
    assert!(found.is_empty(), "files of nodes hold {found:?}");
    let holds_value = |(_, text): &(String, Vec<u8>)| canaries.found_in(text).contains(&"value");
    assert!(kept.0.iter().any(holds_value), "the search finds nothing in files");
    figures.print();
}
