//! Safe defaults, each checked from outside with an empty configuration.

use super::{http, start_server};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use systest::environment::Scratch;
use systest::server::{Server, Setup};

#[test]
fn listener_beyond_loopback_is_refused_without_insecure() {
    let scratch = Scratch::new("beyond-loopback");
    let admin = Setup::new(&scratch.join("data")).with_args(&["--admin-listen", "0.0.0.0:0"]);
    let refusal = Server::start(&admin).expect_err("the operators' listener is one too");
    assert!(refusal.output.contains("admin_listen"), "the setting is not named: {refusal}");
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let setup = Setup { listen: listen.into(), ..Setup::new(&scratch.join("data")) };
        let refusal = Server::start(&setup).expect_err("open to the network by default");
        assert!(refusal.code.is_some_and(|code| code != 0), "{refusal}");
        assert!(refusal.output.contains("listen"), "the setting is not named: {refusal}");
        let refusal = Server::start(&setup.with_args(&["--admin-listen", "127.0.0.1:0"]));
        let refusal = refusal.expect_err("nobody said that it is meant");
        assert!(refusal.output.contains("insecure"), "the remedy is not named: {refusal}");
    }
}

#[test]
fn default_node_opens_one_loopback_listener_and_no_udp() {
    let (_scratch, server) = start_server("sockets");
    let pid = server.pid();
    let inodes = socket_inodes(pid);
    assert!(!inodes.is_empty());
    for table in ["udp", "udp6", "raw", "raw6"] {
        assert_eq!(
            table_lines_of(pid, table, &inodes),
            Vec::<String>::new(),
            "an open {table} socket"
        );
    }
    let listening: Vec<_> = ["tcp", "tcp6"]
        .iter()
        .flat_map(|table| table_lines_of(pid, table, &inodes))
        .filter(|line| line.split_whitespace().nth(3) == Some("0A"))
        .collect();
    assert_eq!(listening.len(), 1, "{listening:?}");
    assert!(listening[0].contains("0100007F:"), "not on 127.0.0.1: {}", listening[0]);
}

/// Returns the inodes of the sockets that a process holds.
fn socket_inodes(pid: u32) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is ours");
    let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    let inode_of = |link: std::path::PathBuf| {
        let link = link.to_string_lossy().into_owned();
        link.strip_prefix("socket:[").map(|rest| rest.trim_end_matches(']').to_string())
    };
    links.filter_map(inode_of).collect()
}

/// Returns the lines of a socket table that belong to these inodes.
fn table_lines_of(pid: u32, table: &str, inodes: &[String]) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
    let is_ours = |line: &&str| {
        line.split_whitespace()
            .nth(9)
            .is_some_and(|inode| inodes.iter().any(|known| known == inode))
    };
    text.lines().filter(is_ours).map(String::from).collect()
}

#[test]
fn data_folders_are_0700_and_files_0600() {
    let scratch = Scratch::new("modes");
    // With the widest umask: the modes come from the program itself.
    let wrapper = ["sh", "-c", "umask 0; exec \"$0\" \"$@\""];
    let server = Server::must_start(&Setup::new(&scratch.join("data")).with_wrapper(&wrapper));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid()));
    let limits = limits.expect("the process is ours");
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    let core = core.and_then(|line| line.split_whitespace().nth(4));
    assert_eq!(core, Some("0"), "a core file would hold keys and values");
    let mut redis = super::resp(&server);
    for n in 0..100 {
        redis.call_line(&format!("SET key{n} value{n}")).expect("answers");
    }
    let target = scratch.join("data/checkpoints/one");
    let body = serde_json::json!({ "target": target }).to_string();
    let response = http(&server).request("POST", "/v1/admin/checkpoint", body.as_bytes());
    assert_eq!(response.expect("answers").status / 100, 2);
    let mut checked = 0;
    check_modes(&scratch.join("data"), &mut checked);
    assert!(checked > 5, "only {checked} files and folders were looked at");
}

fn check_modes(path: &Path, checked: &mut usize) {
    let metadata = path.symlink_metadata().expect("it was listed");
    let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
    let mode = metadata.permissions().mode() & 0o777;
    assert_eq!(mode, expected, "{} is {mode:o}, not {expected:o}", path.display());
    *checked += 1;
    if metadata.is_dir() {
        for entry in std::fs::read_dir(path).expect("it is ours").flatten() {
            check_modes(&entry.path(), checked);
        }
    }
}

#[test]
fn dns_rebinding_request_with_foreign_host_is_refused() {
    let (_scratch, server) = start_server("rebinding");
    let mut web = http(&server);
    let request = b"GET /status HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 0\r\n\r\n";
    web.send(request).expect("it listens");
    let answer = web.receive(false).expect("it answers");
    assert!(matches!(answer.status, 403 | 421), "status {}", answer.status);
}
