//! Rolling upgrade: a cluster of a former program becomes one of this program, node by node, on its
//! own data directories and settings files, while clients read and write.

use super::{SECOND, STEPS_MAX, plan};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use systest::checkers::check;
use systest::cluster::wait_until;
use systest::environment::{Scratch, experiment};
use systest::report::{Figures, is_long_form, skipped};
use systest::server::{Server, Setup, tool};
use systest::tidy;
use systest::workload::registers::RegisterWorkload;

const NODES: usize = 3;

/// Returns the former program: `CREDENZA_FORMER`, or the one that `./check long` built.
fn former_program() -> Option<PathBuf> {
    let built = tidy::root().join("target/peers/credenza-before");
    let path = std::env::var_os("CREDENZA_FORMER").map_or(built, PathBuf::from);
    path.exists().then_some(path)
}

fn address(node: usize, port: u16) -> SocketAddr {
    let pid = std::process::id();
    // Above the addresses of other tests' clusters, which are below 127.128.
    let host = Ipv4Addr::new(127, 128 + (pid >> 8) as u8 % 64, pid as u8, node as u8);
    (host, port).into()
}

/// Writes a settings file with the former program's names.
fn write_former_settings(folder: &Path, node: usize) -> PathBuf {
    let data = folder.join(format!("n{node}"));
    let file = folder.join(format!("n{node}.toml"));
    let (listen, peers) = (address(node, 7711), address(node, 7712));
    let mut text = format!(
        "data = \"{}\"\nnode = \"n{node}\"\nlisten = \"{listen}\"\npeer_listen = \"{peers}\"\n\
         lease_ms = \"1s\"\nmemory_bytes_max = \"16MiB\"\nclose_ms_max = \"5s\"\n\
         compare_copies_ms = \"1s\"\nring_bytes_per_second = \"0\"\nprefer_pause_ms = \"2s\"\n",
        data.display()
    );
    if node > 1 {
        text.push_str(&format!("join = \"{}\"\n", address(1, 7711)));
    }
    std::fs::write(&file, text).expect("the scratch folder can be written");
    file
}

/// Runs the command line tool of this program at a node; returns its output. Fails with its error.
fn run_tool_at(node: usize, args: &[&str]) -> Result<String, String> {
    let url = format!("http://{}", address(node, 7711));
    let output = tool(args).args(["--url", &url]).output().expect("the tool runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(text(&output.stderr)),
    }
}

/// Waits until every node serves both kinds of bucket, each to a client of its own.
fn must_serve_everywhere(round: usize) {
    for node in 1..=NODES {
        for bucket in ["default", "carts/b"] {
            let key = format!("at{node}");
            let value = format!("round{round}");
            wait_until("the node to take a write", || {
                run_tool_at(node, &["put", &key, &value, "--bucket", bucket]).map(|_| ())
            });
            for reader in 1..=NODES {
                wait_until("the value to be read at every node", || {
                    let found = run_tool_at(reader, &["get", &key, "--bucket", bucket])?;
                    if found == value { Ok(()) } else { Err(format!("{bucket} {key}: {found}")) }
                });
            }
        }
    }
}

fn keep_counts() -> Result<(), String> {
    run_tool_at(1, &["bucket", "alter", "default", "counted=true"]).map(|_| ())
}

fn run_former_tool(program: &Path, args: &[&str]) -> Result<(), String> {
    let url = format!("http://{}", address(1, 7711));
    let mut command = std::process::Command::new(program);
    let output = command.args(args).args(["--url", &url]).output().expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_string();
    if output.status.success() { Ok(()) } else { Err(stderr) }
}

#[test]
fn rolling_upgrade_from_former_version_stays_linearizable() {
    let name = "F-66 rolling upgrade";
    let Some(former) = former_program() else {
        assert!(
            !is_long_form(),
            "{name}: `./check long` builds the former program; CREDENZA_FORMER names it"
        );
        skipped(name, "no former program is built: `make test-long`");
        return;
    };
    let _permit = experiment();
    let scratch = Scratch::new("cluster-upgrade");
    let files: Vec<_> =
        (1..=NODES).map(|node| write_former_settings(scratch.path(), node)).collect();
    let setup = |node: usize, program: Option<PathBuf>| {
        let args = ["--config", files[node - 1].to_str().expect("the path is text")];
        let data = scratch.join(&format!("n{node}"));
        Setup { program, ..Setup::from_file(&data).with_args(&args) }
    };
    let mut servers: Vec<_> =
        (1..=NODES).map(|node| Server::must_start(&setup(node, Some(former.clone())))).collect();
    let former_tool = |args: &[&str]| run_former_tool(&former, args);
    wait_until("a type of available buckets", || {
        former_tool(&["type", "create", "carts", "promise=available", "n_val=3"])
    });
    wait_until("a part of the ring at every node", || {
        former_tool(&["cluster", "ring", "--give-out"])
    });
    must_serve_everywhere(0);

    let mut figures = Figures::start(name);
    let clients: Vec<_> = (1..=NODES).map(|node| address(node, 7711)).collect();
    let recorder = RegisterWorkload::start(&clients, plan(61));
    for node in 1..=NODES {
        let status = servers[node - 1].stop(30 * SECOND).expect("it stops");
        assert_eq!(status.code(), Some(0), "{}", servers[node - 1].stderr_text());
        let refusal = Server::start(&setup(node, None)).map(|_| ()).expect_err("former names");
        assert!(refusal.output.contains("credenza settings migrate"), "{refusal}");
        let file = files[node - 1].to_str().expect("the path is text");
        let migrated = tool(&["settings", "migrate", file]).output().expect("it runs");
        assert!(migrated.status.success(), "{migrated:?}");
        servers[node - 1] = Server::must_start(&setup(node, None));
        figures.faults += 1;
        // Now the cluster is mixed, and after the last round it is of this program alone.
        must_serve_everywhere(node);
        if node < NODES {
            let refusal = keep_counts().expect_err("the former program keeps no counts");
            assert!(refusal.contains("counted"), "{refusal}");
        }
    }
    wait_until("counts", keep_counts);
    must_serve_everywhere(NODES + 1);
    let history = recorder.stop().expect("every node can be read");
    let (ok, refused, unknown) = history.counts();
    (figures.ok, figures.fail, figures.info) = (ok, refused, unknown);
    let report = check(&history.calls, STEPS_MAX);
    figures.add("violations", usize::from(report.is_violated()));
    figures.print();
    assert_eq!(history.unexpected, Vec::<String>::new());
    report.must_be_linearizable();
    assert!(ok > 100, "clients did almost nothing: {ok}");
    wait_until("equal replicas", || run_tool_at(1, &["group", "verify"]).map(|_| ()));
    for (server, node) in servers.iter_mut().zip(1..) {
        assert_eq!(server.stop(30 * SECOND).expect("it stops").code(), Some(0), "n{node}");
        let data = scratch.join(&format!("n{node}"));
        let verified = tool(&["verify", data.to_str().expect("the path is text")]).output();
        let verified = verified.expect("it runs");
        assert!(verified.status.success(), "n{node}: {verified:?}");
    }
}
