//! Admission beyond loopback: only nodes with a valid join token may join. Operators create and
//! revoke tokens; a token is on no disk but in its own file.

use super::repair::flip_byte;
use super::three_nodes::wait_for;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use systest::client::Http;
use systest::environment::{Scratch, free_address, path_str};
use systest::server::{Server, Setup, StartRefusal, tool};

/// A node that listens beyond loopback.
struct OpenNode {
    setup: Setup,
    client: SocketAddr,
    admin: SocketAddr,
}

impl OpenNode {
    fn new(scratch: &Scratch, name: &str, args: &[&str]) -> OpenNode {
        let [client, peer, admin] = [free_address(), free_address(), free_address()];
        let setup =
            Setup::new(&scratch.join(name)).with_args(&["--name", name, "--insecure", "on"]);
        let setup = setup.with_args(&["--advertise", &client.to_string(), "--lease-ms", "600"]);
        let setup = setup.with_args(&["--peer-listen", &peer.to_string()]);
        let setup = setup.with_args(&["--admin-listen", &admin.to_string()]).with_args(args);
        let listen = format!("0.0.0.0:{}", client.port());
        OpenNode { setup: Setup { listen, ..setup }, client, admin }
    }

    /// Runs the command line tool with its address for operators.
    fn run_tool(&self, args: &[&str]) -> Output {
        let url = format!("http://{}", self.admin);
        tool(args).args(["--url", &url]).output().expect("the tool runs")
    }

    fn create_token(&self, file: &Path, args: &[&str]) {
        let args = [&["cluster", "token", "--file", path_str(file)], args].concat();
        let result = self.run_tool(&args);
        assert!(result.status.success(), "{result:?}");
    }

    /// Returns the permanent members that this node reports. `None`: it does not answer.
    fn members(&self) -> Option<Vec<String>> {
        let cluster =
            Http::connect(self.admin).ok()?.request("GET", "/v1/cluster", b"").ok()?.json();
        let members = cluster["members"].as_array()?.iter();
        let permanent = members.filter(|member| member["membership"] == "member");
        let mut names: Vec<_> = permanent
            .map(|member| Some(member["name"].as_str()?.to_string()))
            .collect::<Option<_>>()?;
        names.sort();
        Some(names)
    }

    /// Waits until all groups have these voters.
    fn must_have_voters(&self, names: &[&str]) {
        wait_for("voters", || {
            let status =
                Http::connect(self.admin).ok()?.request("GET", "/status", b"").ok()?.json();
            let all_equal = status["groups"].as_array()?.iter().all(|group| {
                let members = group["members"].as_array().into_iter().flatten();
                let voters = members.filter(|member| member["part"] == "voter");
                let mut voters: Vec<_> =
                    voters.filter_map(|voter| voter["name"].as_str()).collect();
                voters.sort_unstable();
                voters == names
            });
            all_equal.then_some(())
        });
    }
}

fn must_be_refused(setup: &Setup) -> StartRefusal {
    let refusal = Server::start(setup).map(|_| ()).expect_err("it is not let in");
    assert_eq!(refusal.code, Some(3), "not allowed: {refusal}");
    refusal
}

/// Collects every file under a folder.
fn collect_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => collect_files(&path, found),
            path => found.push(path),
        }
    }
}

/// Checks that requests at the clients' port can neither read the cluster's state nor change it.
fn clients_must_change_nothing(web: &mut Http) {
    let headers = [("content-type", "application/json")];
    for (method, path) in [
        ("POST", "/v1/cluster/tokens"),
        ("DELETE", "/v1/cluster/tokens"),
        ("POST", "/v1/cluster/secret"),
        ("POST", "/v1/cluster/level"),
        ("POST", "/v1/cluster/members/n1/replace"),
        ("DELETE", "/v1/cluster/members/n1"),
        ("POST", "/v1/cluster/members"),
    ] {
        let has_body = method == "POST" && path != "/v1/cluster/secret";
        let body: &[u8] = if has_body { b"{}" } else { b"" };
        let answer = web.request_with_headers(method, path, &headers, body).expect("it answers");
        // Also where the body is none that the route takes.
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
    }
    for path in ["/v1/cluster", "/v1/cluster/members"] {
        assert_eq!(web.request("GET", path, b"").expect("it answers").status, 403, "{path}");
    }
    let guessed_token = format!("Bearer {}", "x".repeat(49));
    let guess_headers =
        [("content-type", "application/json"), ("authorization", guessed_token.as_str())];
    let replace =
        web.request_with_headers("POST", "/v1/cluster/members/n1/replace", &guess_headers, b"{}");
    assert_eq!(replace.expect("it answers").status, 403, "a guess is no token");
}

/// Checks that no data directory contains a token.
fn must_be_in_no_data_directory(scratch: &Scratch, tokens: &[String]) {
    let mut files = Vec::new();
    ["n1", "n2", "n3"].iter().for_each(|name| collect_files(&scratch.join(name), &mut files));
    assert!(files.len() > 9, "{files:?}");
    for file in files {
        let bytes = std::fs::read(&file).unwrap_or_default();
        for token in tokens.iter().map(|token| token.trim().as_bytes()) {
            let found = bytes.windows(token.len()).any(|window| window == token);
            assert!(!found, "{} holds a token", file.display());
        }
    }
}

#[test]
fn node_beyond_loopback_joins_only_with_valid_join_token() {
    let scratch = Scratch::new("admission");
    let n1 = OpenNode::new(&scratch, "n1", &[]);
    let _first = Server::must_start(&n1.setup);
    let (client, file) = (n1.client.to_string(), scratch.join("token"));
    let join_args = ["--join", &client, "--join-token-file", path_str(&file)];

    // No node is admitted before an operator has created a token, and clients can't create one.
    let unknown_node = OpenNode::new(&scratch, "x", &["--join", &client]);
    let output = must_be_refused(&unknown_node.setup).output;
    assert!(output.contains("credenza cluster token"), "{output}");
    let mut web = Http::connect(n1.client).expect("it listens");
    clients_must_change_nothing(&mut web);

    n1.create_token(&file, &[]);
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let second_result = n1.run_tool(&["cluster", "token", "--file", path_str(&file)]);
    assert!(!second_result.status.success(), "a file that is there is not written over");
    let n2 = OpenNode::new(&scratch, "n2", &join_args);
    let _second = Server::must_start(&n2.setup);
    n1.must_have_voters(&["n1", "n2"]);

    // A token permits only joining, and nothing once it was revoked.
    let token = std::fs::read_to_string(&file).expect("a token");
    let bearer = format!("Bearer {}", token.trim());
    let bearer = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let path = "/v1/cluster/members/n2/replace?confirm=n2";
    let other =
        web.request_with_headers("POST", path, &bearer, br#"{"by":"n1"}"#).expect("it answers");
    assert_eq!(other.status, 403, "{}", other.text());
    let n3 = OpenNode::new(&scratch, "n3", &join_args);
    for (token_state, args) in [("was used already", None), ("is not valid", Some("--revoke"))] {
        if let Some(flag) = args {
            let revoked = n1.run_tool(&["cluster", "token", flag]);
            assert!(revoked.status.success(), "{revoked:?}");
        }
        let words = must_be_refused(&n3.setup).output;
        assert!(words.contains(token_state) && words.contains("cluster token"), "{words}");
        assert!(!words.contains(token.trim()), "{words}");
    }

    // Any member creates a token, and any accepts it, master or not.
    let second = scratch.join("second");
    n2.create_token(&second, &["--for", "10m"]);
    let client = n2.client.to_string();
    let n3 =
        OpenNode::new(&scratch, "n3", &["--join", &client, "--join-token-file", path_str(&second)]);
    std::fs::set_permissions(&second, std::fs::Permissions::from_mode(0o644)).expect("ours");
    let output = must_be_refused(&n3.setup).output;
    assert!(output.contains("chmod 600"), "{output}");
    std::fs::set_permissions(&second, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let mut third = Server::must_start(&n3.setup);
    n1.must_have_voters(&["n1", "n2", "n3"]);

    // A member no longer needs its token, and tokens are only in their own files.
    let tokens = [token, std::fs::read_to_string(&second).expect("a token")];
    std::fs::remove_file(&second).expect("ours");
    third.kill();
    third = Server::must_start(&n3.setup);
    assert_eq!(n3.members().expect("it answers"), ["n1", "n2", "n3"]);
    must_be_in_no_data_directory(&scratch, &tokens);
    assert!(tokens.iter().all(|token| !third.stderr_text().contains(token.trim())));
}

/// A joining node whose first answer is lost asks again with the same token.
#[test]
fn second_join_with_a_single_use_token_is_refused_and_its_own_node_may_ask_again() {
    let scratch = Scratch::new("admission-once");
    let n1 = OpenNode::new(&scratch, "n1", &[]);
    let _first = Server::must_start(&n1.setup);
    let (client, file) = (n1.client.to_string(), scratch.join("token"));
    n1.create_token(&file, &[]);
    let join_args = ["--join", &client, "--join-token-file", path_str(&file)];
    let token = std::fs::read_to_string(&file).expect("a token");
    let bearer = format!("Bearer {}", token.trim());
    let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let [peer_address, client_address] = [free_address(), free_address()];
    let mut web = Http::connect(n1.client).expect("it listens");
    let mut join = |node: &str, name: &str| {
        let body = serde_json::json!({
            "node": node, "name": name, "peer": peer_address.to_string(), "part": "learner",
            "client": client_address.to_string(), "lease_ms": 600, "level": 2,
        });
        let (path, body) = ("/v1/cluster/members", body.to_string());
        let answer = web.request_with_headers("POST", path, &headers, body.as_bytes());
        let answer = answer.expect("it answers");
        (answer.status, answer.text())
    };
    let own = "00000000000000a2";
    for attempt in 0..2 {
        let (status, text) = join(own, "lost");
        assert_eq!(status, 200, "{attempt}: {text}");
    }
    let (status, text) = join("00000000000000a3", "other");
    assert!(status == 403 && text.contains("was used already"), "{status} {text}");
    let n2 = OpenNode::new(&scratch, "n2", &join_args);
    let words = must_be_refused(&n2.setup).output;
    assert!(words.contains("was used already") && words.contains("--uses"), "{words}");

    // A token for two nodes lets two in, and a third one not.
    std::fs::remove_file(&file).expect("ours");
    n1.create_token(&file, &["--uses", "2"]);
    let _second = Server::must_start(&n2.setup);
    let n3 = OpenNode::new(&scratch, "n3", &join_args);
    let _third = Server::must_start(&n3.setup);
    let n4 = OpenNode::new(&scratch, "n4", &join_args);
    assert!(must_be_refused(&n4.setup).output.contains("was used already"));
}

#[test]
fn join_token_expires_and_standing_token_survives_restart() {
    let scratch = Scratch::new("admission-ends");
    let n1 = OpenNode::new(&scratch, "n1", &[]);
    let mut first = Server::must_start(&n1.setup);
    let client = n1.client.to_string();
    let (short, standing) = (scratch.join("short"), scratch.join("standing"));
    n1.create_token(&short, &["--for", "1s"]);
    n1.create_token(&standing, &["--standing"]);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let n2 =
        OpenNode::new(&scratch, "n2", &["--join", &client, "--join-token-file", path_str(&short)]);
    let words = must_be_refused(&n2.setup).output;
    assert!(words.contains("no longer valid"), "{words}");
    first.kill();
    let _first = Server::must_start(&n1.setup);
    let n2 = OpenNode::new(
        &scratch,
        "n2",
        &["--join", &client, "--join-token-file", path_str(&standing)],
    );
    let _second = Server::must_start(&n2.setup);
    n1.must_have_voters(&["n1", "n2"]);
}

#[test]
fn nodes_with_shared_secret_bootstrap_and_readmit_damaged_member() {
    let scratch = Scratch::new("admission-shared");
    let file = scratch.join("secret");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let names = ["n1", "n2", "n3"];
    let mut nodes =
        names.map(|name| OpenNode::new(&scratch, name, &["--join-token-file", path_str(&file)]));
    let clients = nodes.each_ref().map(|node| node.client.to_string());
    for (at, node) in nodes.iter_mut().enumerate() {
        let others: Vec<_> =
            (0..3).filter(|other| *other != at).map(|other| &*clients[other]).collect();
        let (flag, others) = if at == 0 {
            ("--bootstrap-peers", others.join(","))
        } else {
            ("--join", clients[0].clone())
        };
        node.setup = node.setup.clone().with_args(&[flag, &others]);
    }
    let mut servers: Vec<_> = std::thread::scope(|threads| {
        let starts = nodes.each_ref().map(|node| threads.spawn(|| Server::must_start(&node.setup)));
        starts.into_iter().map(|start| start.join().expect("it starts")).collect()
    });
    nodes[0].must_have_voters(&names);
    let mut web = Http::connect(nodes[0].client).expect("it listens");
    for number in 0..200 {
        let key = format!("k{number}");
        assert_eq!(super::put(&mut web, key.as_bytes(), &[b'v'; 400]).status, 204);
    }
    // The other members must remove a damaged member before it is admitted again.
    servers[2].kill();
    flip_byte(&nodes[2].setup.data, 50);
    let isolated = nodes[2].setup.clone().with_args(&["--join-token-file", "none"]);
    let output = must_be_refused(&isolated).output;
    assert!(output.contains("is damaged") && output.contains("credenza cluster token"), "{output}");
    servers[2] = Server::must_start(&nodes[2].setup);
    nodes[0].must_have_voters(&names);
    wait_for("three members", || (nodes[0].members()? == names).then_some(()));
}
