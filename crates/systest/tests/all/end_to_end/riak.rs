//! Unmodified third-party clients of Riak against three nodes: the test modules of the Python
//! client, and a load balancer in front while a node dies and returns.

use super::clients::find_python;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use systest::client::Http;
use systest::cluster::wait_until;
use systest::environment::{Root, Scratch, StopOnDrop, find_tool, free_address, missing};
use systest::report::{short_or_long, skipped};
use systest::server::{Server, Setup};

/// Three nodes on this machine's one address, which the client's tests expect, each with a port for
/// clients of Riak.
struct ThreeNodes {
    servers: Vec<Option<Server>>,
    riak_addresses: Vec<SocketAddr>,
    pbc_addresses: Vec<SocketAddr>,
}

impl ThreeNodes {
    fn start(scratch: &Scratch) -> ThreeNodes {
        let mut cluster = ThreeNodes {
            servers: Vec::new(),
            riak_addresses: Vec::new(),
            pbc_addresses: Vec::new(),
        };
        for node in 0..3 {
            let (peers, riak, pbc) = (free_address().to_string(), free_address(), free_address());
            let name = format!("n{node}");
            let setup = Setup::new(&scratch.join(&name));
            let setup = setup.with_args(&["--name", &name, "--peer-listen", &peers]);
            let setup = setup.with_args(&["--riak-listen", &riak.to_string()]);
            let setup = setup.with_args(&["--pbc-listen", &pbc.to_string()]);
            let mut setup =
                setup.with_args(&["--memory-bytes-max", "16MiB", "--segment-bytes", "4MiB"]);
            if let Some(first) = cluster.servers.first().and_then(Option::as_ref) {
                setup = setup.with_args(&["--join", &first.address.to_string()]);
            }
            setup.listen = free_address().to_string();
            cluster.servers.push(Some(Server::must_start(&setup)));
            cluster.riak_addresses.push(riak);
            cluster.pbc_addresses.push(pbc);
        }
        let end = Instant::now() + Duration::from_secs(60);
        while !cluster.tool(&["cluster", "ring", "init"]).contains("\nn2 ") {
            assert!(Instant::now() < end, "three nodes do not share the ring");
            std::thread::sleep(Duration::from_millis(100));
        }
        // The command returns when every member has stored the type.
        for node in &cluster.riak_addresses {
            let stats = Http::connect(*node).expect("it runs").request("GET", "/stats", b"");
            let running_vnodes =
                stats.expect("it answers").json()["riak_kv_vnodes_running"].as_u64();
            assert!(matches!(running_vnodes, Some(21 | 22)), "{running_vnodes:?}");
        }
        cluster
    }

    /// Runs a command of the tool at the first node; returns its output.
    fn tool(&self, args: &[&str]) -> String {
        let first = self.servers[0].as_ref().expect("it runs");
        let result = super::output(first.tool(args));
        String::from_utf8_lossy(&result.stdout).into_owned()
    }

    /// Creates the bucket types that the client's tests name, and Riak's default, which keeps one
    /// value.
    fn create_types(self) -> ThreeNodes {
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

    /// Waits until each node answers queries of tags, whose index begins after the cluster.
    fn await_tag_index(self) -> ThreeNodes {
        for address in &self.riak_addresses {
            wait_until("the index of tags", || {
                let mut http = Http::connect(*address).map_err(|error| error.to_string())?;
                let answer = http.request("GET", "/buckets/b/index/f_bin/t", b"");
                let answer = answer.map_err(|error| error.to_string())?;
                if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
            });
        }
        self
    }
}

/// Runs modules of the client's own tests, by `http` or `pbc`.
fn run_modules(name: &str, protocol: &str, modules: &[&str]) {
    let python = match find_python() {
        Ok(python) => python,
        Err(reason) => return skipped(name, &reason),
    };
    let scratch = Scratch::new(&format!("riak-client-{protocol}-{}", modules.join("-")));
    let three = ThreeNodes::start(&scratch).create_types().await_tag_index();
    let script = systest::tidy::root().join("crates/systest/clients/riak_suite.py");
    let mut command = Command::new(python);
    let addresses = match protocol {
        "pbc" => &three.pbc_addresses,
        _ => &three.riak_addresses,
    };
    command.arg(script).arg(protocol).arg(addresses[0].port().to_string()).args(modules);
    let result = super::output(command);
    let stdout = String::from_utf8_lossy(&result.stdout).into_owned();
    assert!(result.status.success(), "{stdout}{}", String::from_utf8_lossy(&result.stderr));
    println!("{name}: {}", stdout.trim());
}

#[test]
fn riak_python_client_passes_its_kv_and_datatype_tests() {
    run_modules("Riak's Python client against three nodes", "http", &["kv", "datatypes"]);
}

#[test]
fn riak_python_client_passes_its_index_tests() {
    run_modules("Riak's Python client queries three nodes", "http", &["2i"]);
}

#[test]
fn riak_python_client_passes_its_remaining_tests() {
    let name = "Riak's Python client against three nodes, the rest";
    if short_or_long(0, 1) == 0 {
        return skipped(name, "takes half a minute: CREDENZA_TEST_LONG=1");
    }
    run_modules(name, "http", &["btypes", "client", "pool"]);
}

#[test]
fn riak_python_client_passes_its_kv_and_datatype_tests_by_protocol_buffers() {
    let name = "Riak's Python client by Protocol Buffers against three nodes";
    run_modules(name, "pbc", &["kv", "datatypes"]);
}

#[test]
fn riak_python_client_passes_its_index_tests_by_protocol_buffers() {
    let name = "Riak's Python client queries three nodes by Protocol Buffers";
    run_modules(name, "pbc", &["2i"]);
}

#[test]
fn riak_python_client_passes_its_remaining_tests_by_protocol_buffers() {
    let name = "Riak's Python client by Protocol Buffers against three nodes, the rest";
    if short_or_long(0, 1) == 0 {
        return skipped(name, "takes half a minute: CREDENZA_TEST_LONG=1");
    }
    run_modules(name, "pbc", &["btypes", "client", "pool"]);
}

/// A process that is killed at the end of the test.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts HAProxy in front of the nodes, which it uses in turn.
fn start_haproxy(scratch: &Scratch, nodes: &[SocketAddr]) -> Option<(KillOnDrop, SocketAddr)> {
    let (program, frontend) = (find_tool("haproxy")?, free_address());
    let mut config = format!(
        "defaults\n mode http\n timeout connect 1s\n timeout client 30s\n timeout server 30s\n \
         retries 2\n retry-on conn-failure empty-response\n option redispatch 1\n\
         frontend front\n bind {frontend}\n default_backend nodes\n\
         backend nodes\n balance roundrobin\n option httpchk GET /ping\n"
    );
    for (number, node) in nodes.iter().enumerate() {
        config.push_str(&format!(" server n{number} {node} check inter 200ms fall 2 rise 1\n"));
    }
    let file = scratch.join("haproxy.cfg");
    std::fs::write(&file, config).expect("a file");
    let mut command = Command::new(program);
    command.args(["-db", "-f"]).arg(file).stdout(Stdio::null()).stderr(Stdio::null());
    let child = KillOnDrop(command.spawn().expect("haproxy runs"));
    let end = Instant::now() + Duration::from_secs(20);
    let ping = || Http::connect(frontend).ok()?.request("GET", "/ping", b"").ok();
    while ping().is_none_or(|answer| answer.status != 200) {
        assert!(Instant::now() < end, "haproxy does not answer");
        std::thread::sleep(Duration::from_millis(50));
    }
    Some((child, frontend))
}

/// Sends a request on a connection that is renewed when it is lost. Fails with the answer if it is
/// not a success.
fn request(
    connection: &mut Option<Http>,
    frontend: SocketAddr,
    method: &str,
    path: &str,
) -> Result<u16, String> {
    let mut client = match connection.take() {
        Some(client) => client,
        None => Http::connect(frontend).map_err(|error| error.to_string())?,
    };
    let headers = [("content-type", "text/plain")];
    let body = if method == "PUT" { &b"value"[..] } else { b"" };
    let answer = client
        .request_with_headers(method, path, &headers, body)
        .map_err(|error| error.to_string())?;
    if answer.status >= 500 {
        return Err(format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body)));
    }
    assert!(matches!(answer.status, 200 | 204 | 300), "{method} {path}: {answer:?}");
    *connection = Some(client);
    Ok(answer.status)
}

#[test]
fn requests_behind_haproxy_succeed_by_second_attempt_during_node_death() {
    let name = "HAProxy in front of three nodes";
    if let Some(reason) = missing(Root::Spared, &["haproxy"]) {
        return skipped(name, &reason);
    }
    let scratch = Scratch::new("riak-haproxy");
    let mut cluster = ThreeNodes::start(&scratch);
    let (_haproxy, frontend) =
        start_haproxy(&scratch, &cluster.riak_addresses).expect("it was found");
    let (stop, retried, requests) = (AtomicBool::new(false), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|threads| {
        for client in 0..4 {
            let (stop, retried, requests) = (&stop, &retried, &requests);
            threads.spawn(move || {
                let mut connection = None;
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let path = format!("/buckets/b/keys/k{client}-{}", number / 2 % 200);
                    let method = if number % 2 == 0 { "PUT" } else { "GET" };
                    requests.fetch_add(1, Ordering::Relaxed);
                    let first = request(&mut connection, frontend, method, &path);
                    let status = first.or_else(|reason| {
                        retried.fetch_add(1, Ordering::Relaxed);
                        request(&mut connection, frontend, method, &path)
                            .map_err(|second_reason| (reason, second_reason))
                    });
                    let status =
                        status.unwrap_or_else(|reason| panic!("{method} {path}: {reason:?}"));
                    assert!(matches!(status, 200 | 204 | 300), "{method} {path}: {status}");
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        let _stop = StopOnDrop(&stop);
        std::thread::sleep(Duration::from_secs(1));
        let mut killed = cluster.servers[2].take().expect("it runs");
        let setup = killed.setup.clone();
        killed.kill();
        std::thread::sleep(Duration::from_secs(2));
        cluster.servers[2] = Some(Server::must_start(&setup));
        std::thread::sleep(Duration::from_secs(2));
    });
    let (requests, retried) = (requests.load(Ordering::Relaxed), retried.load(Ordering::Relaxed));
    assert!(requests > 100, "{requests} requests");
    println!("{name}: {requests} requests, {retried} answered at the second attempt, none failed");
}
