//! F-36: clients that send little, read nothing, or never finish; they must not slow other clients.

use super::small_setup;
use base::limits::{HELLO_MS_MAX, REQUEST_READ_MS_MAX};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use systest::client::{Resp, RespReply, encode_command};
use systest::environment::{Root, Scratch, experiment, missing, run};
use systest::report::{Figures, is_long_form, short_or_long, skipped};
use systest::server::Server;

/// First bytes of a hostile client, after which it sends nothing more, or one byte a second.
const BEGINNINGS: [(&str, &[u8]); 6] = [
    ("silent", b""),
    ("half a request line", b"GET /v1/buc"),
    ("half the headers", b"GET /status HTTP/1.1\r\nhost: local"),
    (
        "half a body",
        b"PUT /v1/buckets/default/default/keys/slow HTTP/1.1\r\nhost: localhost\r\n\
          content-length: 1000\r\n\r\nabc",
    ),
    ("half a frame", b"*3\r\n$3\r\nSET\r\n$4\r\nslow\r\n$1000\r\nabc"),
    ("half a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00"),
];

fn open_unfinished(address: SocketAddr, beginning: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(beginning).expect("it takes the beginning");
    stream.set_nonblocking(true).expect("a socket can be non-blocking");
    stream
}

/// Returns true if the other side has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    let mut discarded = [0; 4096];
    loop {
        match stream.read(&mut discarded) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Returns the 99th percentile of a normal client's calls, in microseconds.
fn p99(server: &Server, calls: usize) -> u128 {
    let mut redis = Resp::connect(server.address).expect("a normal client is let in");
    let mut times = Vec::new();
    for n in 0..calls {
        let started = Instant::now();
        let answer = redis.call_line(&format!("SET normal{} x", n % 50)).expect("it is answered");
        assert_eq!(answer, RespReply::Simple("OK".into()));
        times.push(started.elapsed().as_micros());
    }
    times.sort_unstable();
    times[times.len() * 99 / 100]
}

#[test]
fn slow_clients_are_closed_at_timeouts_and_normal_clients_are_served() {
    let _permit = experiment();
    let scratch = Scratch::new("f36");
    let server = Server::must_start(&small_setup(&scratch.join("data")));
    let mut figures = Figures::start("F-36 slow clients");
    let calls = 400;
    figures.add("p99_us_before", p99(&server, calls));
    let per_kind = 500 / BEGINNINGS.len();
    let started = Instant::now();
    let mut hanging: Vec<(&str, TcpStream)> = Vec::new();
    for (name, beginning) in BEGINNINGS {
        hanging.extend((0..per_kind).map(|_| (name, open_unfinished(server.address, beginning))));
    }
    figures.faults = hanging.len() as u64;
    figures.add("p99_us_during", p99(&server, calls));
    figures.ok = 2 * calls as u64;
    // One byte a second does not restart the timeout.
    let time_limit = Duration::from_millis(HELLO_MS_MAX.max(REQUEST_READ_MS_MAX) + 15_000);
    let mut ended: Vec<(&str, Duration)> = Vec::new();
    while !hanging.is_empty() && started.elapsed() < time_limit {
        std::thread::sleep(Duration::from_millis(500));
        hanging.retain_mut(|(name, stream)| {
            let _ = stream.write(b"a");
            let is_ended = is_closed(stream);
            if is_ended {
                ended.push((name, started.elapsed()));
            }
            !is_ended
        });
    }
    for (name, _) in BEGINNINGS {
        let last = ended
            .iter()
            .filter(|(ended_name, _)| *ended_name == name)
            .map(|(_, after)| *after)
            .max();
        let seconds = last.map_or("never".into(), |after| format!("{:.1}", after.as_secs_f64()));
        figures.add(&name.replace(' ', "_"), seconds);
    }
    figures.print();
    let unclosed: Vec<_> = hanging.iter().map(|(name, _)| *name).collect();
    assert!(unclosed.is_empty(), "{} are never closed: {:?}", unclosed.len(), unclosed.first());
}

/// Attacks of slowhttptest, with its own verdict on the availability of the service.
#[test]
fn slowhttptest_attacks_leave_the_service_available() {
    let name = "F-36 slowhttptest";
    if let Some(reason) = missing(Root::Spared, &["slowhttptest"]) {
        return skipped(name, &reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f36-tool");
    let server = Server::must_start(&small_setup(&scratch.join("data")));
    let mut figures = Figures::start(name);
    figures.add("p99_us_before", p99(&server, 400));
    let url = format!("{}/v1/buckets/default/default/stream", server.url());
    let seconds = short_or_long(8, 60).to_string();
    // Headers, a body and the reading of an answer, each a few bytes every ten seconds.
    for (attack, option) in [("headers", "-H"), ("body", "-B"), ("reading", "-X")] {
        let mut args =
            vec![option, "-c", "500", "-r", "250", "-i", "10", "-p", "3", "-l", &seconds];
        args.extend(["-u", &url]);
        let tool = std::thread::scope(|scope| {
            let tool = scope.spawn(|| run(&[&["slowhttptest"], &args[..]].concat()));
            std::thread::sleep(Duration::from_secs(4));
            let during = p99(&server, 400);
            figures.add(&format!("p99_us_during_{attack}"), during);
            figures.ok += 400;
            tool.join().expect("it does not panic")
        });
        let stdout = String::from_utf8_lossy(&tool.stdout).into_owned();
        let state = stdout.lines().rev().find(|line| line.contains("service available"));
        assert!(state.is_some_and(|line| line.contains("YES")), "{attack}: {state:?}: {stdout}");
        figures.faults += 500;
    }
    figures.print();
}

#[test]
fn client_that_never_reads_is_disconnected_with_bounded_memory() {
    if !is_long_form() {
        return skipped("F-36 never reading", "takes a minute: `make test-long`");
    }
    let _permit = experiment();
    let scratch = Scratch::new("f36-unread");
    let server = Server::must_start(&small_setup(&scratch.join("data")));
    let mut figures = Figures::start("F-36 never reading");
    let mut redis = Resp::connect(server.address).expect("it listens");
    let value = vec![b'x'; 1 << 20];
    redis.call(&[b"SET", b"big", &value]).expect("answers");
    let sockets_before = systest::environment::sockets(server.pid());
    let resp_requests = encode_command(&[b"GET", b"big"]).repeat(500);
    let get = b"GET /v1/buckets/default/default/keys/big HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let http_requests = get.repeat(500);
    let mut unread_clients: Vec<_> = (0..20)
        .map(|n| {
            open_unfinished(
                server.address,
                if n % 2 == 0 { &resp_requests } else { &http_requests },
            )
        })
        .collect();
    figures.faults = unread_clients.len() as u64;
    std::thread::sleep(Duration::from_secs(5));
    let resident = systest::environment::resident_bytes(server.pid());
    figures.add("resident_mib", resident >> 20);
    assert!(resident < 512 << 20, "{resident} bytes for answers that nobody reads");
    let started = Instant::now();
    let limit = Duration::from_millis(base::limits::ANSWER_WRITE_MS_MAX + 20_000);
    loop {
        let mut redis = Resp::connect(server.address).expect("a normal client is let in");
        let reply = redis.call_line("PING").expect("it is answered");
        assert_eq!(reply, RespReply::Simple("PONG".into()));
        let open = systest::environment::sockets(server.pid());
        // The connection that sends the PING is counted, too.
        if open <= sockets_before + 1 {
            break;
        }
        assert!(started.elapsed() < limit, "{open} sockets are still open");
        std::thread::sleep(Duration::from_millis(500));
    }
    figures.add("cut_off_after_s", started.elapsed().as_secs());
    unread_clients.clear();
    figures.print();
}
