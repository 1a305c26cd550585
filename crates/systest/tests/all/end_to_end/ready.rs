//! `/ready` answers no, with the reason, whenever the node does not serve: while it starts or
//! stops, and after a failure.

use super::{http, put, resp, start_server};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use systest::client::{Http, HttpResponse, Resp};
use systest::environment::{Root, Scratch, free_address, missing};
use systest::fault_injection::Trace;
use systest::report::skipped;
use systest::server::{Server, Setup, signal};

/// Longest wait for anything here, on a busy machine.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Repeats until the function returns a value.
fn wait_for<T>(failure: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "{failure}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn must_be_unavailable(answer: &HttpResponse, reason: &str, expected: &str) {
    assert_eq!((answer.status, answer.reason()), (503, reason.into()), "{}", answer.text());
    assert!(answer.text().contains(expected), "{}", answer.text());
}

#[test]
fn starting_node_is_live_and_not_ready() {
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped("/ready while the node starts", &reason);
    }
    let scratch = Scratch::new("ready-starting");
    let address = free_address();
    // Taking the lock is the first step of a start with a system call of its own.
    let wrapper = ["strace", "-f", "-o", "/dev/null", "-e", "trace=flock", "-e"];
    let wrapper = [&wrapper[..], &["inject=flock:delay_enter=4000000:when=1"]].concat();
    let setup = Setup { listen: address.to_string(), ..Setup::new(&scratch.join("data")) };
    let setup = setup.with_wrapper(&wrapper);
    let start_thread = std::thread::spawn(move || Server::must_start(&setup));
    let request = |path: &str| Http::connect(address).ok()?.request("GET", path, b"").ok();
    let answer = wait_for("nobody answers while it starts", || request("/ready"));
    must_be_unavailable(&answer, "starting", "the node is starting");
    assert_eq!(request("/live").expect("it answers").status, 200);
    let path = super::key_path(b"k");
    let large = vec![b'v'; 1 << 20];
    let early_put = Http::connect(address).expect("it listens").request("PUT", &path, &large);
    // A request whose body is not read may end in a broken connection; it is never acknowledged.
    assert!(early_put.map_or(true, |answer| answer.status == 503));
    let reply = Resp::connect(address).expect("it listens").call_line("PING").expect("it answers");
    assert!(reply.error().is_some_and(|text| text.starts_with("LOADING ")), "{reply:?}");
    let server = start_thread.join().expect("it starts");
    let mut web = http(&server);
    assert_eq!(web.request("GET", "/ready", b"").expect("answers").status, 200);
    assert_eq!(super::get(&mut web, b"k").status, 404, "what was refused is not there");
    assert_eq!(put(&mut web, b"k", b"v").status, 204);
}

#[test]
fn stopping_node_is_live_and_not_ready() {
    let (_scratch, mut server) = start_server("ready");
    let mut web = http(&server);
    for path in ["/live", "/ready"] {
        assert_eq!(web.request("GET", path, b"").expect("answers").status, 200, "{path}");
    }
    let status = web.request("GET", "/status", b"").expect("answers").json();
    assert_eq!((&status["ready"], &status["insecure"]), (&true.into(), &false.into()));
    // Unfinished requests keep the stopping node waiting for them.
    let mut slow = http(&server);
    let head = format!(
        "PUT {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\na",
        super::key_path(b"slow")
    );
    slow.send(head.as_bytes()).expect("it listens");
    let mut partial_requests = ["/live", "/ready"].map(|path| {
        let mut web = http(&server);
        web.send(format!("GET {path} HTTP/1.1\r\nhost: local").as_bytes()).expect("it listens");
        web
    });
    // All three were received: a request sent after them is answered.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(http(&server).request("GET", "/ready", b"").expect("answers").status, 200);
    signal(server.pid(), rustix::process::Signal::TERM);
    wait_for("it still accepts", || TcpStream::connect(server.address).err());
    let [live, ready] = partial_requests.each_mut().map(|web| {
        web.send(b"host\r\n\r\n").expect("it waits for the rest");
        web.receive(false).expect("a request that was begun is answered")
    });
    assert_eq!(live.status, 200);
    must_be_unavailable(&ready, "shutting_down", "the node is stopping");
    slow.send(b"b").expect("it waits for the rest");
    let answer = slow.receive(false).expect("a request that was begun is answered");
    assert_eq!(answer.status, 204, "{}", answer.text());
    assert_eq!(answer.header("connection"), Some("close"));
    let exit_status = server.wait(WAIT_TIMEOUT).expect("it stops");
    assert_eq!(exit_status.code(), Some(0), "{}", server.stderr_text());
}

#[test]
fn node_with_failed_log_is_not_ready_until_exit() {
    if let Some(reason) = missing(Root::Needed, &["strace"]) {
        return skipped("/ready after the log has failed", &reason);
    }
    let scratch = Scratch::new("ready-failed");
    let setup = Setup::new(&scratch.join("data")).with_args(&["--threads", "2"]);
    let mut server = Server::must_start(&setup);
    let mut web = http(&server);
    assert_eq!(web.request("GET", "/ready", b"").expect("answers").status, 200);
    let mut redis = resp(&server);
    // The process ends as soon as its crash log is written, which takes a while here.
    let faults = [("fdatasync", "error=EIO:when=1"), ("mkdir", "delay_enter=4000000:when=1")];
    let mut trace = Trace::attach_each(server.pid(), &faults, scratch.join("record"));
    let answer = redis.call_line("SET k v").expect("it answers");
    assert!(answer.error().is_some(), "acknowledged without a sync: {answer:?}");
    // Its groups detect the failure slightly before the node does, and give up mastership.
    let answer = wait_for("no failure is told", || {
        let answer = web.request("GET", "/ready", b"").expect("the server is open still");
        assert_eq!(answer.status, 503, "{}", answer.text());
        (answer.reason() != "not_master").then_some(answer)
    });
    must_be_unavailable(&answer, "store_failed", "the node has failed");
    let status = web.request("GET", "/status", b"").expect("the server is open still").json();
    assert_eq!(status["ready"], false);
    assert!(status["alarms"].to_string().contains("has failed"), "{status}");
    let exit_status = server.wait(WAIT_TIMEOUT).expect("it ends by itself");
    assert_eq!(exit_status.code(), Some(7), "{}", server.stderr_text());
    trace.wait(WAIT_TIMEOUT);
}
