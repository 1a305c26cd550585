//! Unmodified third-party clients of Riak against three nodes: the test modules of the Python
//! client, and a load balancer in front while a node dies and returns.

use super::arakoon::free_address;
use super::clients::python;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::report::{skipped, times};
use systest::rigs::{Root, Scratch, StopOnDrop, find, missing};
use systest::server::{Server, Setup};

/// Three nodes on this machine's one address, which the client's tests expect, each with a port for
/// clients of Riak.
struct Three {
    servers: Vec<Option<Server>>,
    riak: Vec<SocketAddr>,
}

impl Three {
    fn start(scratch: &Scratch) -> Three {
        let mut three = Three { servers: Vec::new(), riak: Vec::new() };
        for node in 0..3 {
            let (peers, riak) = (free_address().to_string(), free_address());
            let name = format!("n{node}");
            let setup = Setup::on(&scratch.join(&name));
            let setup = setup.with(&["--name", &name, "--peer-listen", &peers]);
            let setup = setup.with(&["--riak-listen", &riak.to_string()]);
            let mut setup = setup.with(&["--memory-bytes-max", "16MiB", "--segment-bytes", "4MiB"]);
            if let Some(first) = three.servers.first().and_then(Option::as_ref) {
                setup = setup.with(&["--join", &first.address.to_string()]);
            }
            setup.listen = free_address().to_string();
            three.servers.push(Some(Server::must(&setup)));
            three.riak.push(riak);
        }
        let end = Instant::now() + Duration::from_secs(60);
        while !three.tool(&["cluster", "ring", "init"]).contains("\nn2 ") {
            assert!(Instant::now() < end, "three nodes do not share the ring");
            std::thread::sleep(Duration::from_millis(100));
        }
        // The command returns when every member knows the type.
        for node in &three.riak {
            let stats = Http::connect(*node).expect("it runs").ask("GET", "/stats", b"");
            let own = stats.expect("it answers").json()["riak_kv_vnodes_running"].as_u64();
            assert!(matches!(own, Some(21 | 22)), "{own:?}");
        }
        three
    }

    /// Runs a command of the tool at the first node; returns its output.
    fn tool(&self, words: &[&str]) -> String {
        let first = self.servers[0].as_ref().expect("it runs");
        let done = super::output(first.tool(words));
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Creates the bucket types that the client's tests name, and Riak's default, which keeps one
    /// value.
    fn with_types(self) -> Three {
        let first = self.servers[0].as_ref().expect("it runs");
        super::tool(first, &["type", "alter", "available", "allow_mult=false"]);
        for (name, property) in [
            ("no_siblings", "allow_mult=false"),
            ("plain", "allow_mult=true"),
            ("write_once", "write_once=true"),
            ("counters", "datatype=counter"),
            ("sets", "datatype=set"),
            ("maps", "datatype=map"),
            ("hlls", "datatype=hll"),
            ("gsets", "datatype=gset"),
        ] {
            super::tool(first, &["type", "create", name, "consistency=available", property]);
        }
        self
    }
}

/// Runs modules of the client's own tests.
fn modules(name: &str, modules: &[&str]) {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return skipped(name, &why),
    };
    let scratch = Scratch::new("riak-client");
    let three = Three::start(&scratch).with_types();
    let script = systest::tidy::root().join("crates/systest/clients/riak_suite.py");
    let mut command = Command::new(python);
    command.arg(script).arg(three.riak[0].port().to_string()).args(modules);
    let done = super::output(command);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    println!("{name}: {}", said.trim());
}

#[test]
fn riak_s_python_client_passes_its_own_tests_of_keys_and_data_types() {
    modules("Riak's Python client against three nodes", &["kv", "datatypes"]);
}

#[test]
fn riak_s_python_client_passes_the_rest_of_its_tests() {
    let name = "Riak's Python client against three nodes, the rest";
    if times(0, 1) == 0 {
        return skipped(name, "takes half a minute: CREDENZA_TEST_LONG=1");
    }
    modules(name, &["btypes", "client", "pool"]);
}

/// A process that is killed at the end of the test.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts HAProxy in front of the nodes, which it uses in turn.
fn balance(scratch: &Scratch, nodes: &[SocketAddr]) -> Option<(Guarded, SocketAddr)> {
    let (program, front) = (find("haproxy")?, free_address());
    let mut text = format!(
        "defaults\n mode http\n timeout connect 1s\n timeout client 30s\n timeout server 30s\n \
         retries 2\n retry-on conn-failure empty-response\n option redispatch 1\n\
         frontend front\n bind {front}\n default_backend nodes\n\
         backend nodes\n balance roundrobin\n option httpchk GET /ping\n"
    );
    for (number, node) in nodes.iter().enumerate() {
        text.push_str(&format!(" server n{number} {node} check inter 200ms fall 2 rise 1\n"));
    }
    let file = scratch.join("haproxy.cfg");
    std::fs::write(&file, text).expect("a file");
    let mut command = Command::new(program);
    command.args(["-db", "-f"]).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    let child = Guarded(command.spawn().expect("haproxy runs"));
    let end = Instant::now() + Duration::from_secs(20);
    let answers = || Http::connect(front).ok()?.ask("GET", "/ping", b"").ok();
    while answers().is_none_or(|answer| answer.status != 200) {
        assert!(Instant::now() < end, "haproxy does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    Some((child, front))
}

/// Sends a request on a connection that is renewed when it is lost. Fails with the answer if it is
/// not a success.
fn ask(
    connection: &mut Option<Http>,
    front: SocketAddr,
    method: &str,
    path: &str,
) -> Result<u16, String> {
    let mut open = match connection.take() {
        Some(open) => open,
        None => Http::connect(front).map_err(|error| error.to_string())?,
    };
    let text = [("content-type", "text/plain")];
    let body = if method == "PUT" { &b"value"[..] } else { b"" };
    let answer = open.ask_with(method, path, &text, body).map_err(|error| error.to_string())?;
    if answer.status >= 500 {
        return Err(format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)));
    }
    assert!(matches!(answer.status, 200 | 204 | 300), "{method} {path}: {answer:?}");
    *connection = Some(open);
    Ok(answer.status)
}

#[test]
fn no_request_fails_behind_a_balancer_while_a_node_dies_and_comes_back() {
    let name = "HAProxy in front of three nodes";
    if let Some(why) = missing(Root::Spared, &["haproxy"]) {
        return skipped(name, &why);
    }
    let scratch = Scratch::new("riak-haproxy");
    let mut three = Three::start(&scratch);
    let (_haproxy, front) = balance(&scratch, &three.riak).expect("it was found");
    let (stop, retried, asked) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|threads| {
        for client in 0..4 {
            let (stop, retried, asked) = (&stop, &retried, &asked);
            threads.spawn(move || {
                let mut connection = None;
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let path = format!("/buckets/b/keys/k{client}-{}", number / 2 % 200);
                    let method = if number % 2 == 0 { "PUT" } else { "GET" };
                    asked.fetch_add(1, Ordering::Relaxed);
                    let first = ask(&mut connection, front, method, &path);
                    let status = first.or_else(|why| {
                        retried.fetch_add(1, Ordering::Relaxed);
                        ask(&mut connection, front, method, &path).map_err(|again| (why, again))
                    });
                    let status = status.unwrap_or_else(|why| panic!("{method} {path}: {why:?}"));
                    assert!(matches!(status, 200 | 204 | 300), "{method} {path}: {status}");
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        std::thread::sleep(Duration::from_secs(1));
        let mut dies = three.servers[2].take().expect("it runs");
        let setup = dies.setup.clone();
        dies.kill();
        std::thread::sleep(Duration::from_secs(2));
        three.servers[2] = Some(Server::must(&setup));
        std::thread::sleep(Duration::from_secs(2));
    });
    let (asked, retried) = (asked.load(Ordering::Relaxed), retried.load(Ordering::Relaxed));
    assert!(asked > 100, "{asked} requests");
    println!("{name}: {asked} requests, {retried} answered at the second attempt, none failed");
}
