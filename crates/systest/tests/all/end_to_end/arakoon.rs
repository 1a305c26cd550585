//! Clients of Arakoon at the real binary: a client written from the protocol alone, and Arakoon's
//! own Python clients if a checkout of them is named.

use super::{output, tool};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use systest::client::{Arakoon, ArakoonCluster, ArakoonError, SequenceStep};
use systest::environment::{Scratch, find_tool, free_address, path_str};
use systest::report::skipped;
use systest::server::{Server, Setup, StartRefusal};

/// Starts a server that serves the cluster `ricky` under the name `arakoon_0`.
fn start_ricky(name: &str) -> (Scratch, Server) {
    let scratch = Scratch::new(name);
    let args = ["--name", "arakoon_0", "--arakoon-clusters", "ricky"];
    let server = Server::must_start(&Setup::new(&scratch.join("data")).with_args(&args));
    (scratch, server)
}

fn cluster_config(name: &str, address: SocketAddr) -> ArakoonCluster {
    ArakoonCluster { id: "ricky".into(), nodes: vec![(name.into(), address)] }
}

#[test]
fn arakoon_client_finds_master_again_after_crash_without_loss() {
    let (_scratch, mut server) = start_ricky("arakoon-life");
    let mut client =
        Arakoon::master(&cluster_config("arakoon_0", server.address)).expect("a master");
    assert_eq!(client.hello("ricky").ok(), Some("Arakoon 1.9.25".into()));
    let rows: Vec<(Vec<u8>, Vec<u8>)> =
        (0..50).map(|n| (format!("k{n:02}").into(), format!("v{n}").into())).collect();
    let steps: Vec<_> = rows.iter().map(|(key, value)| SequenceStep::Set(key, value)).collect();
    client.sequence(&steps).expect("applied");
    assert_eq!(client.entries(None, -1).ok(), Some(rows.clone()));
    assert_eq!(client.entries(Some(b"k48"), 1).ok(), Some(rows[48..49].to_vec()));
    let values = client.multi_get(&[b"k03", b"k01"]).expect("both are there");
    assert_eq!(values, [b"v3".to_vec(), b"v1".to_vec()]);
    let missing = client.multi_get(&[b"x", b"k01", b"y"]).expect_err("two are not");
    assert_eq!((missing.code(), missing.message()), (Some(5), "y".into()));
    assert_eq!(client.test_and_set(b"lock", None, Some(b"me")).ok(), Some(None));
    assert_eq!(client.test_and_set(b"lock", None, Some(b"you")).ok(), Some(Some(b"me".to_vec())));
    let failed =
        client.sequence(&[SequenceStep::Set(b"k00", b"lost"), SequenceStep::Assert(b"lock", None)]);
    let failed = failed.expect_err("the lock is taken");
    assert_eq!((failed.code(), failed.message()), (Some(7), "lock".into()));
    let keys = client.prefix(b"k4", -1).expect("ten keys");
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let inner = SequenceStep::Sequence(vec![
        SequenceStep::DeletePrefix(b"k4"),
        SequenceStep::AssertRange(b"k4", &[]),
    ]);
    client.sequence(&[SequenceStep::AssertRange(b"k4", &keys), inner]).expect("exactly these");
    assert_eq!(client.delete(b"k00").ok(), Some(()));
    assert_eq!(client.delete(b"k00").expect_err("it is gone").code(), Some(5));
    assert_eq!(client.key_count().ok(), Some(40));
    let freshness = client.txid().expect("an index");
    server.kill();
    let server = Server::must_start(&server.setup.clone());
    assert!(
        matches!(client.get(b"k01"), Err(ArakoonError::Broken(_))),
        "the old connection is gone"
    );
    let mut client =
        Arakoon::master(&cluster_config("arakoon_0", server.address)).expect("a master");
    assert_eq!(client.get_at(freshness, b"k01").ok(), Some(b"v1".to_vec()), "nothing is lost");
    assert_eq!(client.key_count().ok(), Some(40));
    client.read_level = 1;
    assert_eq!(client.exists(b"k45").ok(), Some(false));
}

#[test]
fn arakoon_client_accepts_master_only_under_its_own_name() {
    let (_scratch, server) = start_ricky("arakoon-names");
    let other = Arakoon::master(&cluster_config("arakoon_1", server.address));
    assert!(matches!(other, Err(ArakoonError::NoMaster)), "it calls itself otherwise");
    // The first configured node is down; the second one is up.
    let dead = free_address();
    let nodes = vec![("arakoon_9".into(), dead), ("arakoon_0".into(), server.address)];
    let mut client =
        Arakoon::master(&ArakoonCluster { id: "ricky".into(), nodes }).expect("a master");
    client.set(b"k", b"v").expect("written");
    // The first name is wrong; the hint leads to the right one.
    let nodes = vec![("arakoon_1".into(), server.address), ("arakoon_0".into(), server.address)];
    Arakoon::master(&ArakoonCluster { id: "ricky".into(), nodes }).expect("the hint is followed");
    let unknown_cluster =
        ArakoonCluster { id: "lefty".into(), ..cluster_config("arakoon_0", server.address) };
    assert!(matches!(Arakoon::master(&unknown_cluster), Err(ArakoonError::NoMaster)));
    // The log line is written a little after the connection is closed.
    let is_logged = (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        server.stderr_text().contains("cluster id `lefty`")
    });
    assert!(is_logged, "{}", server.stderr_text());
}

#[test]
fn arakoon_cluster_is_a_bucket_shared_with_other_front_ends() {
    let (_scratch, server) = start_ricky("arakoon-bucket");
    let mut client =
        Arakoon::master(&cluster_config("arakoon_0", server.address)).expect("a master");
    client.set(b"greeting", b"hello").expect("written");
    let bucket = ["--bucket", "arakoon/ricky"];
    assert_eq!(tool(&server, &["get", "greeting", bucket[0], bucket[1]]), "hello");
    tool(&server, &["put", "greeting", "hallo", bucket[0], bucket[1]]);
    assert_eq!(client.get(b"greeting").ok(), Some(b"hallo".to_vec()));
}

const INI: &str = "\
[global]
cluster = arakoon_0
cluster_id = ricky
lease_period = 10
tlog_max_entries = 50_000

[arakoon_0]
ip = 127.0.0.1
client_port = PORT
messaging_port = 4010
home = HOME
log_level = info
";

fn setup_with_ini(scratch: &Scratch, ini: &str, args: &[&str]) -> Setup {
    let file = scratch.join("ricky.ini");
    fs::write(&file, ini).expect("a file");
    Setup::new(&scratch.join("data"))
        .with_args(&["--arakoon-config", path_str(&file)])
        .with_args(args)
}

#[test]
fn arakoon_configuration_file_is_served_unchanged() {
    let scratch = Scratch::new("arakoon-ini");
    let address = free_address();
    let node_home = scratch.join("home");
    let ini =
        INI.replace("PORT", &address.port().to_string()).replace("HOME", path_str(&node_home));
    let server = Server::must_start(&setup_with_ini(&scratch, &ini, &["--name", "arakoon_0"]));
    let mut client = Arakoon::master(&cluster_config("arakoon_0", address)).expect("a master");
    client.set(b"k", b"v").expect("written");
    let stderr = server.stderr_text();
    for key in ["`lease_period`", "`tlog_max_entries`", "`messaging_port`"] {
        assert_eq!(stderr.matches(key).count(), 1, "{key}: {stderr}");
    }
    assert_eq!(stderr.matches("ricky.ini:").count(), 3, "{stderr}");
    // The contents of the file, and its path.
    let file = scratch.join("ricky.ini");
    let mut settings = systest::server::tool(&["settings", "--arakoon-config", path_str(&file)]);
    let shown = String::from_utf8_lossy(&stdout_of(&mut settings)).into_owned();
    let data = format!("{}/credenza", node_home.display());
    assert!(shown.contains(&data) && shown.contains("ricky.ini:11"), "{shown}");
}

/// Arakoon's machines run many clusters of one node each; their ports must not collide.
#[test]
fn arakoon_files_of_single_node_clusters_run_side_by_side() {
    let scratch = Scratch::new("arakoon-two-files");
    let mut nodes = Vec::new();
    for id in ["ricky", "lucy"] {
        let (address, node_home) = (free_address(), scratch.join(id));
        fs::create_dir(&node_home).expect("a home");
        let ini = INI.replace("ricky", id).replace("PORT", &address.port().to_string());
        let file = scratch.join(&format!("{id}.ini"));
        fs::write(&file, ini.replace("HOME", path_str(&node_home))).expect("a file");
        let setup = Setup::from_file(&node_home.join("credenza"));
        let server = Server::must_start(&setup.with_args(&["--arakoon-config", path_str(&file)]));
        assert_eq!(server.address, address, "it listens where its file says");
        nodes.push((id, server));
    }
    for (id, server) in &nodes {
        let config_of = |id: &str| ArakoonCluster {
            id: id.into(),
            ..cluster_config("arakoon_0", server.address)
        };
        let mut client = Arakoon::master(&config_of(id)).expect("a master");
        client.set(b"whose", id.as_bytes()).expect("written");
    }
    for (id, server) in &nodes {
        let config_of = |id: &str| ArakoonCluster {
            id: id.into(),
            ..cluster_config("arakoon_0", server.address)
        };
        let mut client = Arakoon::master(&config_of(id)).expect("a master");
        assert_eq!(client.get(b"whose").ok(), Some(id.as_bytes().to_vec()));
        let other = if *id == "ricky" { "lucy" } else { "ricky" };
        assert!(matches!(Arakoon::master(&config_of(other)), Err(ArakoonError::NoMaster)));
        // The command line and health checks find the node at the same port.
        let shown = tool(server, &["status"]);
        assert!(shown.contains("arakoon_0"), "{shown}");
    }
}

fn stdout_of(command: &mut Command) -> Vec<u8> {
    let result = command.output().expect("it runs");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    result.stdout
}

#[test]
fn unsupported_arakoon_configuration_is_refused_with_its_line() {
    let scratch = Scratch::new("arakoon-ini-wrong");
    let ini = INI.replace("PORT", "4000").replace("HOME", "/nowhere");
    for (ini, name, expected) in [
        (ini.replace("= arakoon_0\n", "= arakoon_0, arakoon_1\n"), "arakoon_1", "ricky.ini:2: "),
        (ini.clone(), "arakoon_7", "ricky.ini:2: there is no node `arakoon_7`"),
        (ini.replace("lease_period = 10", "plugins = nsm"), "arakoon_0", "ricky.ini:4: "),
        (ini.replace("127.0.0.1", "localhost"), "arakoon_0", "ricky.ini:8: "),
    ] {
        let setup = setup_with_ini(&scratch, &ini, &["--name", name]);
        let StartRefusal { code, output: stderr } = Server::start(&setup).expect_err("it started");
        assert_eq!(code, Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
}

/// Runs a script with the Python version that Arakoon's clients were written for, on a checkout of
/// them.
fn run_foreign_client(name: &str, variable: &str, script: &str) {
    let Some(checkout) = std::env::var_os(variable).map(PathBuf::from) else {
        return skipped(name, &format!("{variable} names no checkout: no registry has it"));
    };
    let Some(python) = find_python2() else {
        return skipped(name, "needs `python2.7`, which is not installed");
    };
    let (_scratch, server) = start_ricky(script.trim_end_matches(".py"));
    let script = systest::tidy::root().join("crates/systest/clients").join(script);
    let mut command = Command::new(python);
    command.arg(script).arg(checkout).arg(server.address.port().to_string());
    let result = output(command);
    let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(result.status.success(), "{}{stderr}", String::from_utf8_lossy(&result.stdout));
}

/// Returns a Python 2.7 that runs; a name in PATH may lead to nothing.
pub fn find_python2() -> Option<PathBuf> {
    let works = |python: &Path| {
        Command::new(python)
            .args(["-c", "pass"])
            .output()
            .is_ok_and(|result| result.status.success())
    };
    let configured = std::env::var_os("CREDENZA_PYTHON2").map(PathBuf::from);
    configured.or_else(|| find_tool("python2.7")).filter(|python| works(python))
}

#[test]
fn arakoon_python_client_works_unchanged() {
    let name = "Arakoon's Python client against the binary";
    run_foreign_client(name, "CREDENZA_ARAKOON_PYTHON", "arakoon_python.py");
}

#[test]
fn pyrakoon_client_works_unchanged() {
    run_foreign_client("pyrakoon against the binary", "CREDENZA_PYRAKOON", "arakoon_pyrakoon.py");
}
