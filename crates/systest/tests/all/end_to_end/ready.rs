//! `/ready` answers no, with the reason, whenever the node does not serve: while it starts or
//! stops, and after a failure.

use super::{fresh, http, put, resp};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use systest::client::{Http, HttpResponse, Resp};
use systest::report::skipped;
use systest::rigs::{Root, Scratch, Trace, missing};
use systest::server::{Server, Setup, signal};

/// Longest wait for anything here, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Repeats until the function returns a value.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn says_no(answer: &HttpResponse, reason: &str, word: &str) {
    assert_eq!((answer.status, answer.reason()), (503, reason.into()), "{}", answer.text());
    assert!(answer.text().contains(word), "{}", answer.text());
}

#[test]
fn a_starting_node_is_alive_and_not_ready() {
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped("/ready while the node starts", &why);
    }
    let scratch = Scratch::new("ready-starting");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address: SocketAddr = free.expect("a free port");
    // Taking the lock is the first step of a start with a system call of its own.
    let slow = ["strace", "-f", "-o", "/dev/null", "-e", "trace=flock", "-e"];
    let slow = [&slow[..], &["inject=flock:delay_enter=4000000:when=1"]].concat();
    let setup = Setup { listen: address.to_string(), ..Setup::on(&scratch.join("data")) };
    let setup = setup.under(&slow);
    let starting = std::thread::spawn(move || Server::must(&setup));
    let ask = |path: &str| Http::connect(address).ok()?.ask("GET", path, b"").ok();
    let answer = until("nobody answers while it starts", || ask("/ready"));
    says_no(&answer, "starting", "the node is starting");
    assert_eq!(ask("/live").expect("it answers").status, 200);
    let path = super::key_path(b"k");
    let large = vec![b'v'; 1 << 20];
    let early = Http::connect(address).expect("it listens").ask("PUT", &path, &large);
    // A request whose body is not read may end in a broken connection; it is never acknowledged.
    assert!(early.map_or(true, |answer| answer.status == 503));
    let word = Resp::connect(address).expect("it listens").say("PING").expect("it answers");
    assert!(word.error().is_some_and(|text| text.starts_with("LOADING ")), "{word:?}");
    let server = starting.join().expect("it starts");
    let mut web = http(&server);
    assert_eq!(web.ask("GET", "/ready", b"").expect("answers").status, 200);
    assert_eq!(super::get(&mut web, b"k").status, 404, "what was refused is not there");
    assert_eq!(put(&mut web, b"k", b"v").status, 204);
}

#[test]
fn a_stopping_node_is_alive_and_not_ready() {
    let (_scratch, mut server) = fresh("ready");
    let mut web = http(&server);
    for path in ["/live", "/ready"] {
        assert_eq!(web.ask("GET", path, b"").expect("answers").status, 200, "{path}");
    }
    let status = web.ask("GET", "/status", b"").expect("answers").json();
    assert_eq!((&status["ready"], &status["insecure"]), (&true.into(), &false.into()));
    // Unfinished requests keep the stopping node waiting for them.
    let mut slow = http(&server);
    let head = format!(
        "PUT {} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\na",
        super::key_path(b"slow")
    );
    slow.send(head.as_bytes()).expect("it listens");
    let mut begun = ["/live", "/ready"].map(|path| {
        let mut web = http(&server);
        web.send(format!("GET {path} HTTP/1.1\r\nhost: local").as_bytes()).expect("it listens");
        web
    });
    // All three were received: a request sent after them is answered.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(http(&server).ask("GET", "/ready", b"").expect("answers").status, 200);
    signal(server.pid(), rustix::process::Signal::TERM);
    until("it still accepts", || TcpStream::connect(server.address).err());
    let [live, ready] = begun.each_mut().map(|web| {
        web.send(b"host\r\n\r\n").expect("it waits for the rest");
        web.receive(false).expect("a request that was begun is answered")
    });
    assert_eq!(live.status, 200);
    says_no(&ready, "shutting_down", "the node is stopping");
    slow.send(b"b").expect("it waits for the rest");
    let answer = slow.receive(false).expect("a request that was begun is answered");
    assert_eq!(answer.status, 204, "{}", answer.text());
    assert_eq!(answer.header("connection"), Some("close"));
    let ended = server.wait(PATIENCE).expect("it stops");
    assert_eq!(ended.code(), Some(0), "{}", server.said());
}

#[test]
fn a_node_whose_log_has_failed_is_not_ready_until_it_has_ended() {
    if let Some(why) = missing(Root::Needed, &["strace"]) {
        return skipped("/ready after the log has failed", &why);
    }
    let scratch = Scratch::new("ready-failed");
    let setup = Setup::on(&scratch.join("data")).with(&["--threads", "2"]);
    let mut server = Server::must(&setup);
    let mut web = http(&server);
    assert_eq!(web.ask("GET", "/ready", b"").expect("answers").status, 200);
    let mut redis = resp(&server);
    // The process ends as soon as its crash log is written, which takes a while here.
    let faults = [("fdatasync", "error=EIO:when=1"), ("mkdir", "delay_enter=4000000:when=1")];
    let mut trace = Trace::attach_each(server.pid(), &faults, scratch.join("record"));
    let answer = redis.say("SET k v").expect("it answers");
    assert!(answer.error().is_some(), "acknowledged without a sync: {answer:?}");
    // Its groups know it a moment before the node does, and are no longer masters.
    let answer = until("no failure is told", || {
        let answer = web.ask("GET", "/ready", b"").expect("the server is open still");
        assert_eq!(answer.status, 503, "{}", answer.text());
        (answer.reason() != "not_master").then_some(answer)
    });
    says_no(&answer, "store_failed", "the node has failed");
    let status = web.ask("GET", "/status", b"").expect("the server is open still").json();
    assert_eq!(status["ready"], false);
    assert!(status["warnings"].to_string().contains("has failed"), "{status}");
    let ended = server.wait(PATIENCE).expect("it ends by itself");
    assert_eq!(ended.code(), Some(7), "{}", server.said());
    trace.wait(PATIENCE);
}
