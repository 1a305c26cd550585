//! A million puts, SIGKILL, and the time until it serves again: flushes bound the replay.

use std::net::SocketAddr;
use systest::client::{Resp, RespReply, encode_command};
use systest::environment::{Scratch, experiment};
use systest::report::{Figures, is_long_form, skipped};
use systest::server::{Server, Setup};

const PUTS: u64 = 1_000_000;
const CLIENTS: u64 = 16;
/// Number of calls that a client has open at a time.
const DEPTH: u64 = 100;

fn key(n: u64) -> String {
    format!("million-{n:012}")
}

fn value(n: u64) -> Vec<u8> {
    format!("{n:-<100}").into_bytes()
}

/// Puts this client's share of the keys; every call must be acknowledged.
fn put_share(address: SocketAddr, client: u64) {
    let mut redis = Resp::connect(address).expect("it listens");
    let own_keys: Vec<_> = (0..PUTS).filter(|n| n % CLIENTS == client).collect();
    for part in own_keys.chunks(DEPTH as usize) {
        let set = |n: &u64| encode_command(&[b"SET", key(*n).as_bytes(), &value(*n)]);
        redis.send(&part.iter().flat_map(set).collect::<Vec<u8>>()).expect("it listens");
        for _ in part {
            assert_eq!(redis.receive().expect("it answers"), RespReply::Simple("OK".into()));
        }
    }
}

fn must_contain_all(address: SocketAddr) {
    let mut redis = Resp::connect(address).expect("it listens");
    assert_eq!(redis.call_line("DBSIZE").expect("it answers"), RespReply::Number(PUTS as i64));
    let all: Vec<_> = (0..PUTS).collect();
    for part in all.chunks(DEPTH as usize) {
        let get = |n: &u64| encode_command(&[b"GET", key(*n).as_bytes()]);
        redis.send(&part.iter().flat_map(get).collect::<Vec<u8>>()).expect("it listens");
        for n in part {
            let found = redis.receive().expect("it answers");
            assert_eq!(found.bytes(), Some(&value(*n)[..]), "key {n}");
        }
    }
}

#[test]
fn million_acknowledged_puts_are_served_after_a_kill() {
    let name = "kill -9 after a million puts";
    if !is_long_form() {
        return skipped(name, "takes a minute: `make test-long`");
    }
    let _permit = experiment();
    let scratch = Scratch::new("million");
    let setup = Setup::new(&scratch.join("data"));
    let mut figures = Figures::start(name);
    let mut server = Server::must_start(&setup);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let address = server.address;
            scope.spawn(move || put_share(address, client));
        }
    });
    figures.ok = PUTS;
    figures.add("put_seconds", format!("{:.1}", figures.milliseconds() as f64 / 1e3));
    server.kill();
    figures.faults = 1;
    let server = Server::must_start(&setup);
    let serving_ms = server.ready_after.as_millis();
    figures.add("serving_again_ms", serving_ms);
    let mut redis = Resp::connect(server.address).expect("it listens");
    let last = redis.call_line(&format!("GET {}", key(PUTS - 1))).expect("it answers");
    assert_eq!(last.bytes(), Some(&value(PUTS - 1)[..]));
    must_contain_all(server.address);
    figures.print();
}
