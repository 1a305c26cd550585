//! F-37, F-38: malformed bytes, over the real sockets of all front-ends.

use super::small;
use base::codec::Writer;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use systest::client::{Resp, RespReply, command, encoded};
use systest::report::{Figures, long, times};
use systest::rigs::{Scratch, experiment, resident_bytes};
use systest::server::Server;

/// Random numbers that one seed repeats.
pub struct Dice(u64);

impl Dice {
    /// Returns a generator with this seed, which must not be 0.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Returns a number below `below`.
    pub fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }
}

/// Returns valid requests, which are then spoilt.
fn resp_frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = [
        "GET a",
        "SET a b EX 10 NX",
        "MGET a b c",
        "MSET a 1 b 2",
        "INCRBY n 3",
        "SCAN 0 MATCH a* COUNT 10",
        "EXPIRE a 10 GT",
        "HELLO 3",
        "CLIENT SETNAME x",
        "SETRANGE a 5 xyz",
        "GETRANGE a 0 -1",
        "MULTI",
        "EXEC",
        "WATCH a",
        "DISCARD",
        "CONFIG GET *",
        "INFO",
        "OBJECT ENCODING a",
    ]
    .iter()
    .map(|line| command(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
    .collect();
    frames.push(b"PING\r\n".to_vec());
    frames.push(b"*0\r\n*-1\r\n$-1\r\n".to_vec());
    frames.push(b"*3\r\n$3\r\nSET\r\n$-1\r\n$1\r\na\r\n".to_vec());
    frames
}

fn http_frames() -> Vec<Vec<u8>> {
    let key = format!("/v1/buckets/default/default/keys/{}", encoded(b"a/b"));
    let range = "/v1/buckets/default/default/range?prefix=a&limit=3&reverse=true&want=keys";
    let steps = r#"[{"op":"set","key":"a","value":{"base64":"AAE="}},{"op":"get","key":"a"}]"#;
    let ask = |method: &str, path: &str, extra: &str, body: &str| {
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{extra}content-length: {length}\r\n\r\n\
             {body}"
        )
        .into_bytes()
    };
    let chunked = "content-type: application/json\r\n";
    vec![
        ask("GET", &key, "", ""),
        ask("PUT", &key, "if-match: \"3\"\r\n", "value"),
        ask("DELETE", &key, "", ""),
        ask("GET", range, "", ""),
        ask("POST", "/v1/buckets/default/default/sequence", chunked, steps),
        ask("POST", "/v1/buckets/default/default/multi_get", chunked, r#"{"keys":["a","b"]}"#),
        ask("PUT", "/v1/buckets/default/other", chunked, r#"{"ttl_ms":"5"}"#),
        ask("GET", "/status", "", ""),
        ask("GET", "/metrics", "accept-encoding: gzip\r\n", ""),
        b"PUT /v1/buckets/default/default/keys/c HTTP/1.1\r\nhost: localhost\r\n\
          transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            .to_vec(),
        b"PUT /v1/buckets/default/default/keys/c HTTP/1.1\r\nhost: localhost\r\n\
          content-length: 5\r\ncontent-length: 6\r\ntransfer-encoding: chunked\r\n\r\nhello"
            .to_vec(),
    ]
}

/// Returns requests of an Arakoon client after its prologue, several to a connection.
fn arakoon_frames() -> Vec<Vec<u8>> {
    let prologue = b"\0\0\xff\xb1\x01\0\0\0\x05\0\0\0ricky";
    let requests: [&[u8]; 9] = [
        b"\x01\0\xff\xb1\x02\0\0\0me\x05\0\0\0ricky",
        b"\x02\0\xff\xb1",
        b"\x08\0\xff\xb1\0\x03\0\0\0foo",
        b"\x09\0\xff\xb1\x03\0\0\0foo\x03\0\0\0bar",
        b"\x0b\0\xff\xb1\0\x01\x01\0\0\0a\x01\0\0\xff\xff\xff\xff",
        b"\x0d\0\xff\xb1\x01\0\0\0k\0\x01\x01\0\0\0v",
        b"\x10\0\xff\xb1\x20\0\0\0\x05\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\0\0a\x01\0\0\x001\
          \x08\0\0\0\x01\0\0\0b\0",
        b"\x11\0\xff\xb1\0\x02\0\0\0\x02\0\0\0k1\x02\0\0\0k2",
        b"\x13\0\xff\xb1",
    ];
    requests.iter().map(|request| [&prologue[..], request, request].concat()).collect()
}

fn riak_frames() -> Vec<Vec<u8>> {
    let ask = |method: &str, path: &str, extra: &str, body: &str| {
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{extra}Content-Length: {length}\r\n\r\n\
             {body}"
        )
        .into_bytes()
    };
    let (key, json) = ("/buckets/fruit/keys/fig%2Fripe", "Content-Type: application/json\r\n");
    let text = "Content-Type: text/plain\r\nX-Riak-Meta-Farm: west\r\n\
                Link: </buckets/b/keys/k>; riaktag=\"t\"\r\nX-Riak-Index-age_int: 7\r\n";
    vec![
        ask("GET", &format!("{key}?r=1&pr=0"), "Accept: multipart/mixed\r\n", ""),
        ask("PUT", &format!("{key}?w=1&dw=1&returnbody=true"), text, "ripe"),
        ask("DELETE", &format!("{key}?rw=1"), "X-Riak-Vclock: a85hYGBg\r\n", ""),
        ask("GET", "/buckets/fruit/keys?keys=true", "", ""),
        ask("GET", "/riak/fruit?keys=stream&timeout=1000", "", ""),
        ask("PUT", "/buckets/fruit/props", json, r#"{"props":{"n_val":1,"allow_mult":true}}"#),
        ask("POST", "/types/carts/buckets/web/datatypes/ann", json, r#"{"add_all":["a","b"]}"#),
        ask("POST", "/buckets/fruit/counters/n", "", "5"),
        ask("GET", "/stats", "", ""),
        b"PUT /buckets/fruit/keys/c HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
          Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
            .to_vec(),
    ]
}

/// Returns bodies of handshake messages between nodes, of every kind.
fn greetings() -> Vec<Vec<u8>> {
    let life = |out: &mut Vec<u8>| (1..=3).for_each(|word| out.put_u64(word));
    let names = |out: &mut Vec<u8>| {
        out.put_string(b"n2");
        out.put_string(b"127.0.0.1:7712");
        out.put_u32(1);
        (1..=2).for_each(|word| out.put_u64(word));
    };
    let (mut hello, mut welcome) = (vec![1], vec![2]);
    (0..2).for_each(|_| hello.put_u32(1));
    (7..10).for_each(|id| hello.put_u64(id));
    life(&mut hello);
    hello.put_u64(0);
    names(&mut hello);
    welcome.put_u32(1);
    (7..9).for_each(|id| welcome.put_u64(id));
    life(&mut welcome);
    names(&mut welcome);
    let (mut go, mut refused) = (vec![3], vec![4, 6]);
    go.put_u64(5);
    refused.put_string(b"no");
    // Each also with a MAC after it, which no secret made.
    let unsigned = [hello, welcome, go, refused];
    let signed = unsigned.clone().map(|body| [&body[..], &[1], &[0x5E; 32]].concat());
    unsigned.into_iter().chain(signed).collect()
}

/// Wraps any handshake message with valid length and checksum.
pub fn enveloped(body: &[u8]) -> Vec<u8> {
    let mut bytes = b"CRDZPEER".to_vec();
    bytes.put_u32(body.len() as u32);
    bytes.put_u64(base::codec::checksum(body, 0));
    bytes.extend_from_slice(body);
    bytes
}

const CLAIMS: [&[u8]; 9] = [
    b"0",
    b"-1",
    b"-2",
    b"2147483648",
    b"4294967296",
    b"18446744073709551615",
    b"99999999999999999999999999",
    b"0x10",
    b"1e9",
];

/// Returns one spoilt frame made from a valid one.
pub fn spoil(frame: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    match dice.roll(8) {
        0 => {
            let at = dice.roll(bytes.len());
            bytes[at] ^= 1 << dice.roll(8);
        }
        1 => bytes.truncate(dice.roll(bytes.len())),
        2 => {
            let at = dice.roll(bytes.len());
            bytes.insert(at, dice.roll(256) as u8);
        }
        3 => {
            let at = dice.roll(bytes.len());
            bytes.remove(at);
        }
        4 => {
            let (at, with) = (dice.roll(bytes.len()), CLAIMS[dice.roll(CLAIMS.len())]);
            let to = (at + dice.roll(4)).min(bytes.len());
            bytes.splice(at..to, with.iter().copied());
        }
        5 => {
            let at = dice.roll(bytes.len());
            let part = bytes[at..].to_vec();
            bytes.extend(part);
        }
        6 => {
            let length = 1 + dice.roll(60);
            bytes = (0..length).map(|_| dice.roll(256) as u8).collect();
        }
        _ => {
            let at = dice.roll(bytes.len());
            let length = 1 + dice.roll(20);
            let to = (at + length).min(bytes.len());
            bytes[at..to].fill([0, 0xff, b'\r', b'\n', b' ', b'"', b'{'][dice.roll(7)]);
        }
    }
    bytes
}

/// Sends frames on one connection until it is closed; returns their number.
fn send_until_closed(address: SocketAddr, frames: &mut dyn Iterator<Item = Vec<u8>>) -> u64 {
    let Ok(mut stream) = TcpStream::connect(address) else { return 0 };
    let _ = stream.set_nodelay(true);
    let _ = stream.set_read_timeout(Some(Duration::from_millis(1)));
    let mut sent = 0;
    let mut scrap = [0; 64 * 1024];
    for frame in frames {
        if stream.write_all(&frame).is_err() {
            break;
        }
        sent += 1;
        match stream.read(&mut scrap) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // The server waits for the rest of an unfinished frame.
                if sent % 4 == 0 {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    sent
}

/// Port that a hostile connection goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Port {
    Clients,
    Nodes,
}

fn survives(name: &str, seed: u64, valid: &[Vec<u8>]) {
    survives_at(Port::Clients, name, seed, &|dice| spoil(&valid[dice.roll(valid.len())], dice));
}

fn survives_at(port: Port, name: &str, seed: u64, frame: &(dyn Fn(&mut Dice) -> Vec<u8> + Sync)) {
    let _permit = experiment();
    let scratch = Scratch::new(&name.replace(' ', "-"));
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let nodes = free.expect("a free port");
    let setup = small(&scratch.join("data"))
        .with(&["--arakoon-clusters", "ricky", "--advertise", "127.0.0.1:1"])
        .with(&["--peer-listen", &nodes.to_string()]);
    let mut server = Server::must(&setup);
    let mut figures = Figures::begin(name);
    let mut bystander = Resp::connect(server.address).expect("it listens");
    assert_eq!(bystander.say("SET bystander unhurt").expect("answers").error(), None);
    let goal = times(50_000, 1_000_000) as u64;
    let before = resident_bytes(server.pid());
    let workers = 4;
    let sent: u64 = std::thread::scope(|scope| {
        let work = |worker: u64| {
            let address = if port == Port::Nodes { nodes } else { server.address };
            move || {
                let mut dice = Dice::new(seed * 1_000 + worker + 1);
                let mut sent = 0;
                while sent < goal / workers {
                    let mut frames = (0..32).map(|_| frame(&mut dice));
                    let now = send_until_closed(address, &mut frames);
                    assert!(now > 0, "it does not listen any more");
                    sent += now;
                }
                sent
            }
        };
        let handles: Vec<_> = (0..workers).map(|worker| scope.spawn(work(worker))).collect();
        handles.into_iter().map(|handle| handle.join().expect("a worker does not panic")).sum()
    });
    figures.faults = sent;
    assert!(server.alive(), "it died: {}", server.said());
    let seen = bystander.say("GET bystander").expect("the bystander's connection lives");
    assert_eq!(seen, RespReply::Bulk(Some(b"unhurt".to_vec())));
    let grown = resident_bytes(server.pid()).saturating_sub(before);
    figures.also("seed", seed);
    figures.also("grown_mib", grown >> 20);
    assert!(grown < 256 << 20, "{grown} bytes more after frames that mean nothing");
    server.must_be_unhurt();
    figures.print();
    if long() {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn resp_frames_that_mean_nothing_hurt_nobody() {
    survives("F-37 malformed RESP", 37, &resp_frames());
}

#[test]
fn http_requests_that_mean_nothing_hurt_nobody() {
    survives("F-37 malformed HTTP", 38, &http_frames());
}

#[test]
fn requests_of_riak_that_mean_nothing_hurt_nobody() {
    survives("F-37 malformed requests of Riak", 40, &riak_frames());
}

#[test]
fn greetings_of_nodes_that_mean_nothing_hurt_nobody() {
    let valid = greetings();
    let frame = |dice: &mut Dice| {
        let body = spoil(&valid[dice.roll(valid.len())], dice);
        let whole = enveloped(&body);
        if dice.roll(4) == 0 { spoil(&whole, dice) } else { whole }
    };
    survives_at(Port::Nodes, "F-37 malformed greetings of nodes", 41, &frame);
}

#[test]
fn arakoon_requests_that_mean_nothing_hurt_nobody() {
    survives("F-37 malformed Arakoon", 39, &arakoon_frames());
}

#[test]
fn every_byte_of_a_valid_frame_flipped_is_answered_or_closed() {
    let _permit = experiment();
    let scratch = Scratch::new("f37-flips");
    let server = Server::must(&small(&scratch.join("data")));
    let mut figures = Figures::begin("F-37 every byte flipped");
    let (resp, http, arakoon) = (resp_frames(), http_frames(), arakoon_frames());
    let riak = riak_frames();
    for frame in resp[..4].iter().chain(&http[..2]).chain(&arakoon[..2]).chain(&riak[..2]) {
        for at in 0..frame.len() {
            for bit in [0, 3, 7] {
                let mut spoilt = frame.clone();
                spoilt[at] ^= 1 << bit;
                figures.faults += send_until_closed(server.address, &mut [spoilt].into_iter());
            }
        }
    }
    let mut redis = Resp::connect(server.address).expect("it listens");
    assert_eq!(redis.say("PING").expect("answers"), RespReply::Simple("PONG".into()));
    figures.print();
}
