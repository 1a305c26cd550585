//! A million puts, SIGKILL, and the time until it serves again: flushes bound the replay.

use std::net::SocketAddr;
use systest::client::{Resp, RespReply, command};
use systest::report::{Figures, long, skipped};
use systest::rigs::{Scratch, experiment};
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
    let mine: Vec<_> = (0..PUTS).filter(|n| n % CLIENTS == client).collect();
    for part in mine.chunks(DEPTH as usize) {
        let set = |n: &u64| command(&[b"SET", key(*n).as_bytes(), &value(*n)]);
        redis.send(&part.iter().flat_map(set).collect::<Vec<u8>>()).expect("it listens");
        for _ in part {
            assert_eq!(redis.receive().expect("it answers"), RespReply::Simple("OK".into()));
        }
    }
}

fn must_hold_all(address: SocketAddr) {
    let mut redis = Resp::connect(address).expect("it listens");
    assert_eq!(redis.say("DBSIZE").expect("it answers"), RespReply::Number(PUTS as i64));
    let all: Vec<_> = (0..PUTS).collect();
    for part in all.chunks(DEPTH as usize) {
        let get = |n: &u64| command(&[b"GET", key(*n).as_bytes()]);
        redis.send(&part.iter().flat_map(get).collect::<Vec<u8>>()).expect("it listens");
        for n in part {
            let found = redis.receive().expect("it answers");
            assert_eq!(found.bytes(), Some(&value(*n)[..]), "key {n}");
        }
    }
}

#[test]
fn after_a_million_puts_and_a_kill_every_one_is_served() {
    let name = "kill -9 after a million puts";
    if !long() {
        return skipped(name, "takes a minute: `make test-long`");
    }
    let _permit = experiment();
    let scratch = Scratch::new("million");
    let setup = Setup::on(&scratch.join("data"));
    let mut figures = Figures::begin(name);
    let mut server = Server::must(&setup);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let address = server.address;
            scope.spawn(move || put_share(address, client));
        }
    });
    figures.ok = PUTS;
    figures.also("put_seconds", format!("{:.1}", figures.milliseconds() as f64 / 1e3));
    server.kill();
    figures.faults = 1;
    let server = Server::must(&setup);
    let serving_ms = server.ready_after.as_millis();
    figures.also("serving_again_ms", serving_ms);
    let mut redis = Resp::connect(server.address).expect("it listens");
    let last = redis.say(&format!("GET {}", key(PUTS - 1))).expect("it answers");
    assert_eq!(last.bytes(), Some(&value(PUTS - 1)[..]));
    must_hold_all(server.address);
    figures.print();
}
