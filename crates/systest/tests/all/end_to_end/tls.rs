//! TLS as clients and proxies meet it: unmodified tools, refusals, revocation, half handshakes.

use super::clients::find_python;
use super::output;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use systest::access::AccessAdmin;
use systest::certificates::TestAuthority;
use systest::client::Resp;
use systest::environment::{Root, Scratch, find_tool, free_address, missing, path_str};
use systest::report::{is_long_form, skipped};
use systest::server::{Server, Setup, signal};

/// Starts a node with TLS and these further flags; its authority has made certificates of the node
/// and of alice.
fn start(name: &str, args: &[&str]) -> (Scratch, TestAuthority, Server) {
    let scratch = Scratch::new(name);
    let authority = TestAuthority::create(&scratch.join("ca"));
    authority.node("node1");
    authority.client("alice");
    let files: Vec<_> =
        authority.node_args().iter().map(|arg| arg.replace("@NODE", "node1")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let setup = Setup::new(&scratch.join("data")).with_args(&files).with_args(args);
    let server = Server::must_start(&setup);
    (scratch, authority, server)
}

/// Returns the flags of alice's files, by the names that a tool gives them.
fn files(authority: &TestAuthority, names: [&str; 3]) -> Vec<String> {
    let paths = ["ca.crt", "alice.client.crt", "alice.client.key"];
    names
        .iter()
        .zip(paths)
        .flat_map(|(name, path)| [name.to_string(), authority.file(path)])
        .collect()
}

fn run(program: &str, args: &[String], input: &[u8]) -> Output {
    let path = find_tool(program).unwrap_or_else(|| program.into());
    let mut command = Command::new(path);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{program}: {error}"));
    // The program may end before it reads all of it.
    let _ = child.stdin.take().expect("it is piped").write_all(input);
    child.wait_with_output().expect("it ends")
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const REQUIRED: [&str; 4] = ["--tls", "required", "--tls-client-certs", "required"];

#[test]
fn redis_cli_and_curl_work_inside_tls_and_are_refused_without_a_certificate() {
    if let Some(reason) = missing(Root::Spared, &["redis-cli", "curl"]) {
        return skipped("redis-cli --tls and curl", &reason);
    }
    let (_scratch, authority, mut server) = start("tls-tools", &REQUIRED);
    let port = server.address.port();
    let common = words(&format!("--tls -h 127.0.0.1 -p {port}"));
    let with = files(&authority, ["--cacert", "--cert", "--key"]);
    let ping = [&common[..], &with, &words("SET k inside")].concat();
    assert_eq!(stdout(&run("redis-cli", &ping, b"")), "OK\n");
    let without = [&common[..], &with[..2], &words("PING")].concat();
    assert!(!stdout(&run("redis-cli", &without, b"")).contains("PONG"));
    let url = format!("https://127.0.0.1:{port}/v1/buckets/default/default/keys/k");
    let get = [&words("-sS")[..], &with, std::slice::from_ref(&url)].concat();
    assert_eq!(stdout(&run("curl", &get, b"")), "inside");
    assert!(!run("curl", &[&words("-sS")[..], &with[..2], &[url]].concat(), b"").status.success());
    let plain = run("curl", &words(&format!("-sS -i http://127.0.0.1:{port}/live")), b"");
    assert!(stdout(&plain).starts_with("HTTP/1.1 426 "), "{}", stdout(&plain));
    let mut resp = Resp::connect(server.address).expect("the port is open");
    let refused = resp.call_line("PING").expect("it answers");
    assert_eq!(refused.error(), Some("ERR this port requires TLS"));
    // The tool itself, and a revoked certificate.
    let tool = |authority: &TestAuthority| {
        let mut command = systest::server::tool(&["get", "k"]);
        command.args(["--url", &format!("https://127.0.0.1:{port}")]);
        output({
            command.args(files(authority, ["--ca", "--cert", "--key"]));
            command
        })
    };
    assert_eq!(stdout(&tool(&authority)), "inside");
    authority.revoke("alice.client.crt");
    signal(server.pid(), rustix::process::Signal::HUP);
    let deadline = Instant::now() + Duration::from_secs(20);
    while tool(&authority).status.success() {
        assert!(Instant::now() < deadline, "it is still served");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.must_be_healthy();
}

#[test]
fn openssl_negotiates_tls_13_alone_and_verifies_the_node() {
    if let Some(reason) = missing(Root::Spared, &["openssl"]) {
        return skipped("openssl s_client", &reason);
    }
    let (_scratch, authority, server) = start("tls-openssl", &["--tls", "optional"]);
    let connect = format!("s_client -connect {} -verify_return_error", server.address);
    let connect = [&words(&connect)[..], &["-CAfile".into(), authority.file("ca.crt")]].concat();
    let said = stdout(&run("openssl", &connect, b"PING\r\n"));
    assert!(said.contains("TLSv1.3") && said.contains("Verify return code: 0 (ok)"), "{said}");
    for version in ["-tls1_2", "-tls1_1"] {
        let old = [&connect[..], &[version.into()]].concat();
        assert!(!run("openssl", &old, b"").status.success(), "{version}");
    }
    let key = words("pkey -noout -in");
    let key = [&key[..], &[authority.file("node1.node.key")]].concat();
    assert!(run("openssl", &key, b"").status.success(), "openssl reads the keys");
}

#[test]
fn redis_py_works_inside_tls() {
    let python = match find_python() {
        Ok(python) => python,
        Err(reason) => return skipped("redis-py inside TLS", &reason),
    };
    let (_scratch, authority, server) = start("tls-redis-py", &REQUIRED);
    let script = format!(
        "import redis\nr = redis.Redis(host='127.0.0.1', port={}, ssl=True, ssl_ca_certs='{}', \
         ssl_certfile='{}', ssl_keyfile='{}')\nassert r.set('k', b'v' * 300000)\n\
         assert len(r.get('k')) == 300000\npipe = r.pipeline(transaction=False)\n\
         [pipe.set(f'k{{n}}', n) for n in range(1000)]\nassert all(pipe.execute())\nprint('done')",
        server.address.port(),
        authority.file("ca.crt"),
        authority.file("alice.client.crt"),
        authority.file("alice.client.key"),
    );
    let result = run(path_str(&python), &["-c".into(), script], b"");
    assert_eq!(stdout(&result), "done\n", "{}", String::from_utf8_lossy(&result.stderr));
}

#[test]
fn riak_python_client_works_inside_tls_with_a_certificate_and_a_password() {
    let name = "Riak's Python client inside TLS";
    let python = match find_python() {
        Ok(python) => python,
        Err(reason) => return skipped(name, &reason),
    };
    let (scratch, authority, server) = start("tls-riak-py", &REQUIRED);
    let admin = AccessAdmin::new(&scratch.join("data"));
    admin.set_role("fruit", &["read,write:available/fruit"]);
    admin.add_user("alice", "a-riak-password", "fruit");
    admin.turn_on();
    let script = systest::tidy::root().join("crates/systest/clients/riak_tls.py");
    let mut args = vec![path_str(&script).to_string(), server.address.port().to_string()];
    args.extend(["ca.crt", "alice.client.crt", "alice.client.key"].map(|it| authority.file(it)));
    args.extend(words("alice a-riak-password"));
    let result = run(path_str(&python), &args, b"");
    assert_eq!(stdout(&result), "done\n", "{}", String::from_utf8_lossy(&result.stderr));
}

#[test]
fn testssl_finds_tls_1_3_alone_and_no_weakness() {
    let name = "testssl.sh against the binary";
    if !is_long_form() {
        return skipped(name, "takes minutes: CREDENZA_TEST_LONG=1");
    }
    if let Some(reason) = missing(Root::Spared, &["testssl"]) {
        return skipped(name, &reason);
    }
    let (scratch, authority, mut server) = start("tls-testssl", &["--tls", "required"]);
    let report = scratch.join("report.json");
    let options = "--quiet --color 0 --warnings off --nodns none -p -s -f -U --add-ca";
    let mut args = words(options);
    args.extend([authority.file("ca.crt"), "--jsonfile".into(), path_str(&report).into()]);
    args.push(server.address.to_string());
    let result = run("testssl", &args, b"");
    let report = std::fs::read(&report).unwrap_or_default();
    let findings: serde_json::Value = serde_json::from_slice(&report)
        .unwrap_or_else(|error| panic!("no report: {error}: {}", stdout(&result)));
    let findings: Vec<[&str; 3]> = findings
        .as_array()
        .expect("a list of findings")
        .iter()
        .map(|it| ["id", "severity", "finding"].map(|field| it[field].as_str().unwrap_or("")))
        .collect();
    assert!(findings.len() > 30, "{findings:?}");
    let bad: Vec<_> = findings
        .iter()
        // That one is about the tool's own OpenSSL.
        .filter(|[id, ..]| *id != "engine_problem")
        .filter(|[_, severity, _]| !matches!(*severity, "OK" | "INFO" | "DEBUG"))
        .collect();
    assert!(bad.is_empty(), "{bad:?}");
    for id in ["SSLv2", "SSLv3", "TLS1", "TLS1_1", "TLS1_2"] {
        let found = findings.iter().find(|[found, ..]| *found == id);
        assert_eq!(found.map(|[.., finding]| *finding), Some("not offered"), "{id}");
    }
    let newest = findings.iter().find(|[id, ..]| *id == "TLS1_3");
    assert!(newest.is_some_and(|[.., finding]| finding.starts_with("offered")), "{newest:?}");
    server.must_be_healthy();
}

#[test]
fn half_finished_handshakes_are_closed_and_other_clients_are_served() {
    let (_scratch, _authority, mut server) = start("tls-half", &["--tls", "optional"]);
    // The first bytes of a hello, and nothing more.
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let mut half: Vec<TcpStream> = (0..500)
        .map(|number| {
            let mut stream = TcpStream::connect(server.address).expect("it listens");
            let bytes = if number % 2 == 0 { &hello[..] } else { &hello[..1] };
            stream.write_all(bytes).expect("it reads");
            stream
        })
        .collect();
    let opened = Instant::now();
    let mut client = Resp::connect(server.address).expect("it listens");
    let mut slowest = Duration::ZERO;
    while opened.elapsed() < Duration::from_secs(2) {
        let asked = Instant::now();
        assert!(client.call_line("PING").expect("it answers").error().is_none());
        slowest = slowest.max(asked.elapsed());
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    for stream in &mut half {
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("an option");
        // A reset is an end, too; a time-out is none.
        let mut rest = [0; 64];
        let end = loop {
            match stream.read(&mut rest) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) => break error.kind() != std::io::ErrorKind::WouldBlock,
            }
        };
        assert!(end, "it is open after {:?}", opened.elapsed());
    }
    assert!(opened.elapsed() < Duration::from_secs(15), "{:?}", opened.elapsed());
    server.must_be_healthy();
}

/// Proxy that is killed when it is dropped.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_haproxy(scratch: &Path, ports: [u16; 2], node: &str, authority: &TestAuthority) -> Proxy {
    let pem = scratch.join("proxy.pem");
    let parts = ["node1.node.crt", "node1.node.key"]
        .map(|name| std::fs::read_to_string(authority.file(name)).expect("it was made"));
    std::fs::write(&pem, parts.concat()).expect("the scratch folder can be written");
    let alice = scratch.join("alice.pem");
    let parts = ["alice.client.crt", "alice.client.key"]
        .map(|name| std::fs::read_to_string(authority.file(name)).expect("it was made"));
    std::fs::write(&alice, parts.concat()).expect("the scratch folder can be written");
    let (ca, pem, alice) = (authority.file("ca.crt"), path_str(&pem), path_str(&alice));
    let config = format!(
        "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
         listen passing\n  bind 127.0.0.1:{}\n  server n1 {node}\n\
         listen terminating\n  bind 127.0.0.1:{} ssl crt {pem}\n  \
         server n1 {node} ssl verify required ca-file {ca} crt {alice}\n",
        ports[0], ports[1]
    );
    let path = scratch.join("haproxy.cfg");
    std::fs::write(&path, config).expect("the scratch folder can be written");
    let haproxy = find_tool("haproxy").expect("checked before");
    let mut command = Command::new(haproxy);
    command.args(["-db", "-f", path_str(&path)]).stdout(Stdio::null()).stderr(Stdio::null());
    Proxy(command.spawn().expect("it starts"))
}

#[test]
fn haproxy_passes_tls_through_and_ends_it() {
    if let Some(reason) = missing(Root::Spared, &["haproxy", "redis-cli"]) {
        return skipped("HAProxy before TLS", &reason);
    }
    let (scratch, authority, server) = start("tls-haproxy", &REQUIRED);
    let ports = [free_address().port(), free_address().port()];
    let _proxy = start_haproxy(scratch.path(), ports, &server.address.to_string(), &authority);
    let with = files(&authority, ["--cacert", "--cert", "--key"]);
    // Passed through, the client shows its certificate to the node; ended, the proxy shows its own.
    for (port, args) in [(ports[0], &with[..]), (ports[1], &with[..2])] {
        let ping = words(&format!("--tls -h 127.0.0.1 -p {port}"));
        let ping = [&ping[..], args, &words("PING")].concat();
        let deadline = Instant::now() + Duration::from_secs(20);
        while stdout(&run("redis-cli", &ping, b"")) != "PONG\n" {
            assert!(Instant::now() < deadline, "no answer through port {port}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Returns the path of the program under test.
fn tool_path() -> String {
    path_str(Path::new(systest::server::tool(&[]).get_program())).into()
}

/// Starts a node that listens beyond loopback, with these further flags.
fn start_beyond_loopback(
    scratch: &Scratch,
    authority: &TestAuthority,
    args: &[&str],
) -> Result<Server, systest::server::StartRefusal> {
    let files: Vec<_> =
        authority.node_args().iter().map(|arg| arg.replace("@NODE", "node1")).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let mut setup = Setup::new(&scratch.join("data")).with_args(&files);
    setup.listen = "0.0.0.0:0".into();
    Server::start(&setup.with_args(&["--admin-listen", "127.0.0.1:0"]).with_args(args))
}

#[test]
fn node_beyond_loopback_needs_no_insecure_where_tls_is_required() {
    let (_scratch, authority, server) = start("tls-beyond", &REQUIRED);
    drop(server);
    let scratch = Scratch::new("tls-beyond-loopback");
    let open = |args: &[&str]| start_beyond_loopback(&scratch, &authority, args);
    assert!(open(&REQUIRED).is_ok());
    assert!(open(&["--tls", "required"]).is_ok());
    let refusal = open(&["--tls", "optional"]).map(drop).expect_err("others can listen in");
    assert!(refusal.output.contains("turn access on"), "{refusal}");
    std::fs::set_permissions(
        authority.file("node1.node.key"),
        std::os::unix::fs::PermissionsExt::from_mode(0o640),
    )
    .expect("it is ours");
    let refusal = open(&REQUIRED).map(drop).expect_err("others can read the key");
    assert!(refusal.output.contains("chmod 600") && refusal.code == Some(2), "{refusal}");
}

#[test]
fn client_beyond_loopback_is_served_with_access_and_logs_in_by_certificate_or_password() {
    let (_scratch, authority, server) = start("tls-login", &REQUIRED);
    drop(server);
    let scratch = Scratch::new("tls-login-beyond-loopback");
    let server = start_beyond_loopback(&scratch, &authority, &REQUIRED).expect("it starts");
    let url = format!("https://127.0.0.1:{}", server.address.port());
    let run_tool = |args: &[&str], input: &str| {
        let certificate = files(&authority, ["--ca", "--cert", "--key"]);
        let args = args.iter().map(|arg| arg.to_string()).chain(["--url".into(), url.clone()]);
        let args: Vec<_> = args.chain(certificate).collect();
        let output = run(&tool_path(), &args, input.as_bytes());
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let data = scratch.join("data");
    let local = |args: &[&str], input: &str| {
        let args = [args, &["--data", path_str(&data)]].concat();
        let args: Vec<_> = args.iter().map(|arg| arg.to_string()).collect();
        let output = run(&tool_path(), &args, input.as_bytes());
        assert!(output.status.success(), "{args:?}: {output:?}");
    };
    let (code, said) = run_tool(&["put", "k", "v"], "");
    assert!(code == Some(3) && said.contains("credenza access init"), "{said}");
    local(&["access", "init"], "");
    local(&["user", "add", "alice", "--role", "reader"], "");
    local(&["user", "add", "bob", "--role", "writer", "--password-stdin"], "correct horse\n");
    let (code, said) = run_tool(&["get", "k"], "");
    assert!(code == Some(3) && said.contains("--password-file"), "{said}");
    local(&["user", "set", "alice", "--certificates", "on"], "");
    assert_eq!(run_tool(&["get", "k"], "").0, Some(1), "there is no such key, and she may ask");
    assert_eq!(run_tool(&["put", "k", "v"], "").0, Some(3), "she may only read");
    let password = scratch.join("password");
    std::fs::write(&password, "correct horse\n").expect("ours");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&password, mode).expect("ours");
    let bob = ["--user", "bob", "--password-file", path_str(&password)];
    let put = [&["put", "k", "v"][..], &bob].concat();
    assert_eq!(run_tool(&put, "").0, Some(0), "the password counts before the certificate");
    local(&["user", "disable", "alice"], "");
    assert_eq!(run_tool(&["get", "k"], "").0, Some(3));
}
