//! Rolling upgrade: a cluster of a former program becomes one of this program, node by node, on its
//! own data directories and settings files, while clients read and write. Nodes go back as long as
//! the feature level is not raised, and are refused by the former program once it is.

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

/// Nodes of a cluster, each of the former program or of this one.
struct RollingCluster {
    scratch: Scratch,
    former: PathBuf,
    /// Settings file of each node.
    files: Vec<PathBuf>,
    servers: Vec<Server>,
}

impl RollingCluster {
    /// Starts all nodes with the former program.
    fn start(former: PathBuf) -> RollingCluster {
        let scratch = Scratch::new("cluster-upgrade");
        let files = (1..=NODES).map(|node| write_former_settings(scratch.path(), node)).collect();
        let mut cluster = RollingCluster { scratch, former, files, servers: Vec::new() };
        for node in 1..=NODES {
            let setup = cluster.setup(node, Some(cluster.former.clone()));
            cluster.servers.push(Server::must_start(&setup));
        }
        cluster
    }

    fn data(&self, node: usize) -> PathBuf {
        self.scratch.join(&format!("n{node}"))
    }

    /// Returns the setup of a node. `None`: with this program.
    fn setup(&self, node: usize, program: Option<PathBuf>) -> Setup {
        let args = ["--config", self.files[node - 1].to_str().expect("the path is text")];
        Setup { program, ..Setup::from_file(&self.data(node)).with_args(&args) }
    }

    /// Copy of a node's settings file, with the names of a program.
    fn kept_file(&self, node: usize, program: &str) -> PathBuf {
        self.scratch.join(&format!("n{node}.{program}"))
    }

    fn stop(&mut self, node: usize) {
        let server = &mut self.servers[node - 1];
        let status = server.stop(30 * SECOND).expect("it stops");
        assert_eq!(status.code(), Some(0), "n{node}: {}", server.stderr_text());
    }

    /// Exchanges the program of a node for this one, and keeps both settings files.
    fn upgrade(&mut self, node: usize) {
        self.stop(node);
        let refusal = Server::start(&self.setup(node, None)).map(|_| ()).expect_err("former names");
        assert!(refusal.output.contains("credenza settings migrate"), "{refusal}");
        let file = self.files[node - 1].clone();
        std::fs::copy(&file, self.kept_file(node, "former")).expect("it is ours");
        let words = ["settings", "migrate", file.to_str().expect("the path is text")];
        let migrated = tool(&words).output().expect("it runs");
        assert!(migrated.status.success(), "{migrated:?}");
        std::fs::copy(&file, self.kept_file(node, "present")).expect("it is ours");
        self.servers[node - 1] = Server::must_start(&self.setup(node, None));
    }

    /// Starts a stopped node with the former program and its settings, if that takes the directory.
    fn start_former(&self, node: usize) -> Result<Server, String> {
        std::fs::copy(self.kept_file(node, "former"), &self.files[node - 1]).expect("it is ours");
        let setup = self.setup(node, Some(self.former.clone()));
        Server::start(&setup).map_err(|refusal| refusal.output)
    }

    fn start_present(&mut self, node: usize) {
        std::fs::copy(self.kept_file(node, "present"), &self.files[node - 1]).expect("it is ours");
        self.servers[node - 1] = Server::must_start(&self.setup(node, None));
    }

    /// Takes a node back to the former program while the level is not raised, and forward again.
    fn must_go_back_and_forth(&mut self, node: usize) {
        self.stop(node);
        self.servers[node - 1] = self.start_former(node).expect("the level was not raised");
        must_serve_everywhere(NODES + 1);
        wait_until("the former program to be seen", || {
            let held = run_tool_at(1, &["cluster", "upgrade"])?;
            if held.contains("1 of 3 members hold it back") { Ok(()) } else { Err(held) }
        });
        assert!(raise_level("3s").is_err(), "n{node} holds it back");
        self.stop(node);
        self.start_present(node);
        must_serve_everywhere(NODES + 2);
    }

    /// Tries to take a node back once the level is raised: refused, and nothing is touched.
    fn must_refuse_to_go_back(&mut self, node: usize) {
        self.stop(node);
        let before = small_files(&self.data(node));
        let refusal = self.start_former(node).map(|_| ()).expect_err("it can't read level 2");
        assert!(refusal.contains("format 2"), "{refusal}");
        assert_eq!(small_files(&self.data(node)), before);
        self.start_present(node);
    }
}

/// Returns the files of a data directory beside its log and tables, with their contents. The former
/// program notes itself in LOCK before it reads the rest.
fn small_files(data: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(data).expect("it is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let mut files: Vec<_> =
        paths.filter(|path| path.is_file() && !path.ends_with("LOCK")).collect();
    files.sort();
    let content = |path: PathBuf| (path.clone(), std::fs::read(path).expect("it is ours"));
    files.into_iter().map(content).collect()
}

fn raise_level(timeout: &str) -> Result<(), String> {
    run_tool_at(1, &["cluster", "upgrade", "--auto", "--timeout", timeout]).map(|_| ())
}

/// Waits until the tool shows this feature level at every node.
fn must_be_at_level(level: u16) {
    for node in 1..=NODES {
        wait_until("the feature level", || {
            let shown = run_tool_at(node, &["cluster", "upgrade", "--json"])?;
            let expected = format!("\"level\":{level},\"possible\"");
            let shown = shown.replace([' ', '\n'], "");
            if shown.contains(&expected) { Ok(()) } else { Err(shown) }
        });
    }
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
    let mut cluster = RollingCluster::start(former.clone());
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
        cluster.upgrade(node);
        figures.faults += 1;
        // Now the cluster is mixed, and after the last round it is of this program alone.
        must_serve_everywhere(node);
        let refusal = keep_counts().expect_err("the level is not raised yet");
        assert!(refusal.contains("counted"), "{refusal}");
    }
    must_be_at_level(1);
    cluster.must_go_back_and_forth(NODES);
    wait_until("the level to rise", || raise_level("30s"));
    must_be_at_level(2);
    wait_until("counts", keep_counts);
    must_serve_everywhere(NODES + 3);
    cluster.must_refuse_to_go_back(1);
    must_serve_everywhere(NODES + 4);
    figures.faults += 3;
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
    for node in 1..=NODES {
        cluster.stop(node);
        let data = cluster.data(node);
        let verified = tool(&["verify", data.to_str().expect("the path is text")]).output();
        let verified = verified.expect("it runs");
        assert!(verified.status.success(), "n{node}: {verified:?}");
    }
}
