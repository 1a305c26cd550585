//! Safe defaults, each checked from outside with an empty configuration.

use super::{fresh, http};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use systest::rigs::Scratch;
use systest::server::{Server, Setup};

#[test]
fn an_address_beyond_loopback_is_refused_until_it_is_meant() {
    let scratch = Scratch::new("beyond-loopback");
    let admin = Setup::on(&scratch.join("data")).with(&["--admin-listen", "0.0.0.0:0"]);
    let refusal = Server::start(&admin).expect_err("the operators' listener is one too");
    assert!(refusal.words.contains("admin_listen"), "the setting is not named: {refusal}");
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let setup = Setup { listen: listen.into(), ..Setup::on(&scratch.join("data")) };
        let refusal = Server::start(&setup).expect_err("open to the network by default");
        assert!(refusal.code.is_some_and(|code| code != 0), "{refusal}");
        assert!(refusal.words.contains("listen"), "the setting is not named: {refusal}");
        let refusal = Server::start(&setup.with(&["--admin-listen", "127.0.0.1:0"]));
        let refusal = refusal.expect_err("nobody said that it is meant");
        assert!(refusal.words.contains("insecure"), "the remedy is not named: {refusal}");
    }
}

#[test]
fn it_opens_one_listener_on_loopback_and_no_udp() {
    let (_scratch, server) = fresh("sockets");
    let pid = server.pid();
    let inodes = sockets_of(pid);
    assert!(!inodes.is_empty());
    for table in ["udp", "udp6", "raw", "raw6"] {
        assert_eq!(ours(pid, table, &inodes), Vec::<String>::new(), "an open {table} socket");
    }
    let listening: Vec<_> = ["tcp", "tcp6"]
        .iter()
        .flat_map(|table| ours(pid, table, &inodes))
        .filter(|line| line.split_whitespace().nth(3) == Some("0A"))
        .collect();
    assert_eq!(listening.len(), 1, "{listening:?}");
    assert!(listening[0].contains("0100007F:"), "not on 127.0.0.1: {}", listening[0]);
}

/// Returns the inodes of the sockets that a process holds.
fn sockets_of(pid: u32) -> Vec<String> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the process is ours");
    let links = files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    let name = |link: std::path::PathBuf| {
        let link = link.to_string_lossy().into_owned();
        link.strip_prefix("socket:[").map(|rest| rest.trim_end_matches(']').to_string())
    };
    links.filter_map(name).collect()
}

/// Returns the lines of a socket table that belong to these inodes.
fn ours(pid: u32, table: &str, inodes: &[String]) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
    let is_ours = |line: &&str| {
        line.split_whitespace().nth(9).is_some_and(|inode| inodes.iter().any(|own| own == inode))
    };
    text.lines().filter(is_ours).map(String::from).collect()
}

#[test]
fn folders_are_0700_and_files_0600() {
    let scratch = Scratch::new("modes");
    // With the widest umask: the modes come from the program itself.
    let wide = ["sh", "-c", "umask 0; exec \"$0\" \"$@\""];
    let server = Server::must(&Setup::on(&scratch.join("data")).under(&wide));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.pid()));
    let limits = limits.expect("the process is ours");
    let core = limits.lines().find(|line| line.starts_with("Max core file size"));
    let core = core.and_then(|line| line.split_whitespace().nth(4));
    assert_eq!(core, Some("0"), "a core file would hold keys and values");
    let mut redis = super::resp(&server);
    for n in 0..100 {
        redis.say(&format!("SET key{n} value{n}")).expect("answers");
    }
    let target = scratch.join("data/checkpoints/one");
    let body = serde_json::json!({ "target": target }).to_string();
    let made = http(&server).ask("POST", "/v1/admin/checkpoint", body.as_bytes());
    assert_eq!(made.expect("answers").status / 100, 2);
    let mut seen = 0;
    check_modes(&scratch.join("data"), &mut seen);
    assert!(seen > 5, "only {seen} files and folders were looked at");
}

fn check_modes(path: &Path, seen: &mut usize) {
    let about = path.symlink_metadata().expect("it was listed");
    let wanted = if about.is_dir() { 0o700 } else { 0o600 };
    let mode = about.permissions().mode() & 0o777;
    assert_eq!(mode, wanted, "{} is {mode:o}, not {wanted:o}", path.display());
    *seen += 1;
    if about.is_dir() {
        for entry in std::fs::read_dir(path).expect("it is ours").flatten() {
            check_modes(&entry.path(), seen);
        }
    }
}

#[test]
fn a_page_in_a_browser_can_not_rebind_a_name_to_this_port() {
    let (_scratch, server) = fresh("rebinding");
    let mut web = http(&server);
    let request = b"GET /status HTTP/1.1\r\nhost: evil.example\r\ncontent-length: 0\r\n\r\n";
    web.send(request).expect("it listens");
    let answer = web.receive(false).expect("it answers");
    assert!(matches!(answer.status, 403 | 421), "status {}", answer.status);
}
