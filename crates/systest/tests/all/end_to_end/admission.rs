//! Admission beyond loopback: only nodes with a valid join token may join. Operators create and
//! revoke tokens; a token is on no disk but in its own file.

use super::arakoon::free_address;
use super::repair::damage;
use super::three_nodes::until;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use systest::client::Http;
use systest::rigs::{Scratch, text};
use systest::server::{Server, Setup, StartRefusal, tool};

/// A node that listens beyond loopback.
struct Open {
    setup: Setup,
    client: SocketAddr,
    admin: SocketAddr,
}

impl Open {
    fn new(scratch: &Scratch, name: &str, words: &[&str]) -> Open {
        let [client, peer, admin] = [free_address(), free_address(), free_address()];
        let setup = Setup::on(&scratch.join(name)).with(&["--name", name, "--insecure", "on"]);
        let setup = setup.with(&["--advertise", &client.to_string(), "--lease-ms", "600"]);
        let setup = setup.with(&["--peer-listen", &peer.to_string()]);
        let setup = setup.with(&["--admin-listen", &admin.to_string()]).with(words);
        let listen = format!("0.0.0.0:{}", client.port());
        Open { setup: Setup { listen, ..setup }, client, admin }
    }

    /// Runs the command line tool with its address for operators.
    fn operate(&self, words: &[&str]) -> Output {
        let url = format!("http://{}", self.admin);
        tool(words).args(["--url", &url]).output().expect("the tool runs")
    }

    fn token(&self, file: &Path, words: &[&str]) {
        let words = [&["cluster", "token", "--file", text(file)], words].concat();
        let made = self.operate(&words);
        assert!(made.status.success(), "{made:?}");
    }

    /// Returns the permanent members, as this node knows them. `None`: it does not answer.
    fn members(&self) -> Option<Vec<String>> {
        let seen = Http::connect(self.admin).ok()?.ask("GET", "/v1/cluster", b"").ok()?.json();
        let members = seen["members"].as_array()?.iter();
        let staying = members.filter(|member| member["membership"] == "member");
        let mut names: Vec<_> = staying
            .map(|member| Some(member["name"].as_str()?.to_string()))
            .collect::<Option<_>>()?;
        names.sort();
        Some(names)
    }

    /// Waits until all groups have these voters.
    fn must_have(&self, names: &[&str]) {
        until("voters", || {
            let status = Http::connect(self.admin).ok()?.ask("GET", "/status", b"").ok()?.json();
            let all = status["groups"].as_array()?.iter().all(|group| {
                let members = group["members"].as_array().into_iter().flatten();
                let voters = members.filter(|member| member["part"] == "voter");
                let mut voters: Vec<_> = voters.filter_map(|one| one["name"].as_str()).collect();
                voters.sort_unstable();
                voters == names
            });
            all.then_some(())
        });
    }
}

fn refused(setup: &Setup) -> StartRefusal {
    let refusal = Server::start(setup).map(|_| ()).expect_err("it is not let in");
    assert_eq!(refusal.code, Some(3), "not allowed: {refusal}");
    refusal
}

/// Collects every file under a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => files(&path, found),
            path => found.push(path),
        }
    }
}

/// Checks that requests at the clients' port may read the cluster's state and change nothing.
fn clients_change_nothing(web: &mut Http) {
    let json = [("content-type", "application/json")];
    for (method, path) in [
        ("POST", "/v1/cluster/tokens"),
        ("DELETE", "/v1/cluster/tokens"),
        ("POST", "/v1/cluster/secret"),
        ("POST", "/v1/cluster/members/n1/replace"),
        ("DELETE", "/v1/cluster/members/n1"),
        ("POST", "/v1/cluster/members"),
    ] {
        let body: &[u8] = if method == "POST" { b"{}" } else { b"" };
        let answer = web.ask_with(method, path, &json, body).expect("it answers");
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.text());
    }
    assert_eq!(web.ask("GET", "/v1/cluster", b"").expect("it answers").status, 200);
    let guess = format!("Bearer {}", "x".repeat(49));
    let guess = [("content-type", "application/json"), ("authorization", guess.as_str())];
    let replace = web.ask_with("POST", "/v1/cluster/members/n1/replace", &guess, b"{}");
    assert_eq!(replace.expect("it answers").status, 403, "a guess is no token");
}

/// Checks that no data directory contains a token.
fn nowhere_but_in_its_file(scratch: &Scratch, tokens: &[String]) {
    let mut held = Vec::new();
    ["n1", "n2", "n3"].iter().for_each(|name| files(&scratch.join(name), &mut held));
    assert!(held.len() > 9, "{held:?}");
    for file in held {
        let bytes = std::fs::read(&file).unwrap_or_default();
        for token in tokens.iter().map(|token| token.trim().as_bytes()) {
            let found = bytes.windows(token.len()).any(|window| window == token);
            assert!(!found, "{} holds a token", file.display());
        }
    }
}

#[test]
fn a_node_joins_from_beyond_loopback_with_a_token_and_not_without() {
    let scratch = Scratch::new("admission");
    let n1 = Open::new(&scratch, "n1", &[]);
    let _first = Server::must(&n1.setup);
    let (client, file) = (n1.client.to_string(), scratch.join("token"));
    let with = ["--join", &client, "--join-token-file", text(&file)];

    // No node is admitted before an operator has created a token, and clients can't create one.
    let stranger = Open::new(&scratch, "x", &["--join", &client]);
    let words = refused(&stranger.setup).words;
    assert!(words.contains("credenza cluster token"), "{words}");
    let mut web = Http::connect(n1.client).expect("it listens");
    clients_change_nothing(&mut web);

    n1.token(&file, &[]);
    assert_eq!(std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let again = n1.operate(&["cluster", "token", "--file", text(&file)]);
    assert!(!again.status.success(), "a file that is there is not written over");
    let n2 = Open::new(&scratch, "n2", &with);
    let _second = Server::must(&n2.setup);
    n1.must_have(&["n1", "n2"]);

    // A token permits only joining, and nothing once it was revoked.
    let token = std::fs::read_to_string(&file).expect("a token");
    let bearer = format!("Bearer {}", token.trim());
    let bearer = [("content-type", "application/json"), ("authorization", bearer.as_str())];
    let path = "/v1/cluster/members/n2/replace";
    let other = web.ask_with("POST", path, &bearer, br#"{"by":"n1"}"#).expect("it answers");
    assert_eq!(other.status, 403, "{}", other.text());
    let revoked = n1.operate(&["cluster", "token", "--revoke"]);
    assert!(revoked.status.success(), "{revoked:?}");
    let n3 = Open::new(&scratch, "n3", &with);
    let words = refused(&n3.setup).words;
    assert!(words.contains("lets nobody in") && !words.contains(token.trim()), "{words}");

    // Any member creates a token, and any accepts it, whichever of them leads.
    let second = scratch.join("second");
    n2.token(&second, &["--for", "10m"]);
    let client = n2.client.to_string();
    let n3 = Open::new(&scratch, "n3", &["--join", &client, "--join-token-file", text(&second)]);
    std::fs::set_permissions(&second, std::fs::Permissions::from_mode(0o644)).expect("ours");
    let words = refused(&n3.setup).words;
    assert!(words.contains("chmod 600"), "{words}");
    std::fs::set_permissions(&second, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let mut third = Server::must(&n3.setup);
    n1.must_have(&["n1", "n2", "n3"]);

    // A member needs its token no more; and tokens are in their files and nowhere else.
    let tokens = [token, std::fs::read_to_string(&second).expect("a token")];
    std::fs::remove_file(&second).expect("ours");
    third.kill();
    third = Server::must(&n3.setup);
    assert_eq!(n3.members().expect("it answers"), ["n1", "n2", "n3"]);
    nowhere_but_in_its_file(&scratch, &tokens);
    assert!(tokens.iter().all(|token| !third.said().contains(token.trim())));
}

#[test]
fn a_token_ends_by_itself_and_a_standing_one_stays() {
    let scratch = Scratch::new("admission-ends");
    let n1 = Open::new(&scratch, "n1", &[]);
    let mut first = Server::must(&n1.setup);
    let client = n1.client.to_string();
    let (short, standing) = (scratch.join("short"), scratch.join("standing"));
    n1.token(&short, &["--for", "1s"]);
    n1.token(&standing, &["--standing"]);
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    let n2 = Open::new(&scratch, "n2", &["--join", &client, "--join-token-file", text(&short)]);
    let words = refused(&n2.setup).words;
    assert!(words.contains("does no longer"), "{words}");
    first.kill();
    let _first = Server::must(&n1.setup);
    let n2 = Open::new(&scratch, "n2", &["--join", &client, "--join-token-file", text(&standing)]);
    let _second = Server::must(&n2.setup);
    n1.must_have(&["n1", "n2"]);
}

#[test]
fn nodes_with_one_secret_found_a_cluster_and_come_back_from_damage_by_themselves() {
    let scratch = Scratch::new("admission-shared");
    let file = scratch.join("secret");
    std::fs::write(&file, "0123456789abcdef0123456789abcdef\n").expect("a file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("ours");
    let names = ["n1", "n2", "n3"];
    let mut nodes =
        names.map(|name| Open::new(&scratch, name, &["--join-token-file", text(&file)]));
    let clients = nodes.each_ref().map(|node| node.client.to_string());
    for (at, node) in nodes.iter_mut().enumerate() {
        let others: Vec<_> =
            (0..3).filter(|other| *other != at).map(|other| &*clients[other]).collect();
        let (flag, others) = if at == 0 {
            ("--bootstrap-peers", others.join(","))
        } else {
            ("--join", clients[0].clone())
        };
        node.setup = node.setup.clone().with(&[flag, &others]);
    }
    let mut servers: Vec<_> = std::thread::scope(|threads| {
        let starts = nodes.each_ref().map(|node| threads.spawn(|| Server::must(&node.setup)));
        starts.into_iter().map(|start| start.join().expect("it starts")).collect()
    });
    nodes[0].must_have(&names);
    let mut web = Http::connect(nodes[0].client).expect("it listens");
    for number in 0..200 {
        let key = format!("k{number}");
        assert_eq!(super::put(&mut web, key.as_bytes(), &[b'v'; 400]).status, 204);
    }
    // The others must free the place of a damaged member, and then admit it anew.
    servers[2].kill();
    damage(&nodes[2].setup.data, 50);
    let alone = nodes[2].setup.clone().with(&["--join-token-file", "none"]);
    let words = refused(&alone).words;
    assert!(words.contains("is damaged") && words.contains("credenza cluster token"), "{words}");
    servers[2] = Server::must(&nodes[2].setup);
    nodes[0].must_have(&names);
    until("three members", || (nodes[0].members()? == names).then_some(()));
}
