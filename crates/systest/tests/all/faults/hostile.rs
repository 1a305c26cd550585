//! F-37, F-38: malformed bytes, over the real sockets of all front-ends. They are changed examples,
//! and changed inputs that the fuzz targets kept (`crates/fuzz/corpus`).

use super::small_setup;
use base::codec::Writer;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use systest::client::{Http, Resp, RespReply, encode_command};
use systest::cluster::wait_until;
use systest::environment::{Scratch, experiment, free_address, resident_bytes};
use systest::report::{Figures, is_long_form, short_or_long};
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

/// Returns the inputs that a fuzz target kept.
pub(super) fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = systest::tidy::root().join("crates/fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).expect("the target has a corpus").flatten();
    let mut inputs: Vec<_> = entries.map(|entry| (entry.file_name(), entry.path())).collect();
    inputs.sort();
    inputs.into_iter().map(|(_, path)| std::fs::read(path).expect("it is a file")).collect()
}

/// Returns what no stranger may change: who the node is, by the files of its data directory, and
/// the members of its cluster.
fn identity(server: &Server, data: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let names = ["IDENTITY", "MEMBERS", "SECRET", "INCARNATION", "LIVES", "OUTDATED", "JOINER"];
    let read = |name| (name, std::fs::read(data.join(name)).unwrap_or_default());
    names.map(read).into_iter().chain([("members", members(server))]).collect()
}

fn members(server: &Server) -> Vec<u8> {
    let mut web = Http::connect(server.address).expect("it listens");
    web.request("GET", "/v1/cluster/members", b"").expect("it answers").body
}

/// Waits until a node has stored the cluster's secret and registered its own incarnation, which it
/// does a moment after it serves. `members`: the node's list of members, as JSON.
pub(super) fn wait_until_registered(data: &Path, members: impl Fn() -> Vec<u8>) {
    wait_until("a node that is registered", || {
        let listed: Value = serde_json::from_slice(&members()).unwrap_or_default();
        let incarnation = listed["members"][0]["incarnation"].as_u64();
        match data.join("SECRET").exists() && incarnation > Some(0) {
            true => Ok(()),
            false => Err(listed.to_string()),
        }
    });
}

/// Returns valid requests, to be corrupted.
pub(super) fn resp_frames() -> Vec<Vec<u8>> {
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
    .map(|line| encode_command(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>()))
    .collect();
    frames.push(b"PING\r\n".to_vec());
    frames.push(b"*0\r\n*-1\r\n$-1\r\n".to_vec());
    frames.push(b"*3\r\n$3\r\nSET\r\n$-1\r\n$1\r\na\r\n".to_vec());
    frames
}

/// Returns requests of an Arakoon client after its prologue, several to a connection.
pub(super) fn arakoon_frames() -> Vec<Vec<u8>> {
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

/// Returns bodies of handshake messages between nodes, of every kind.
pub(super) fn handshake_bodies() -> Vec<Vec<u8>> {
    let put_incarnation = |out: &mut Vec<u8>| (1..=3).for_each(|number| out.put_u64(number));
    let names = |out: &mut Vec<u8>| {
        out.put_string(b"n2");
        out.put_string(b"127.0.0.1:7712");
        out.put_u32(1);
        (1..=2).for_each(|number| out.put_u64(number));
    };
    let (mut hello, mut welcome) = (vec![1], vec![2]);
    (0..2).for_each(|_| hello.put_u32(1));
    (7..10).for_each(|id| hello.put_u64(id));
    put_incarnation(&mut hello);
    hello.put_u64(0);
    names(&mut hello);
    welcome.put_u32(1);
    (7..9).for_each(|id| welcome.put_u64(id));
    put_incarnation(&mut welcome);
    names(&mut welcome);
    let (mut go, mut refused) = (vec![3], vec![4, 6]);
    go.put_u64(5);
    refused.put_string(b"no");
    // Each also with an invalid MAC after it.
    let unsigned = [hello, welcome, go, refused];
    let signed = unsigned.clone().map(|body| [&body[..], &[1], &[0x5E; 32]].concat());
    unsigned.into_iter().chain(signed).collect()
}

/// Wraps a handshake message in an envelope with valid length and checksum.
pub fn envelope(body: &[u8]) -> Vec<u8> {
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

/// Returns a corrupted frame made from a valid one.
pub fn corrupt_frame(frame: &[u8], dice: &mut Dice) -> Vec<u8> {
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
            let (at, claim) = (dice.roll(bytes.len()), CLAIMS[dice.roll(CLAIMS.len())]);
            let end = (at + dice.roll(4)).min(bytes.len());
            bytes.splice(at..end, claim.iter().copied());
        }
        5 => {
            let at = dice.roll(bytes.len());
            let repeated = bytes[at..].to_vec();
            bytes.extend(repeated);
        }
        6 => {
            let length = 1 + dice.roll(60);
            bytes = (0..length).map(|_| dice.roll(256) as u8).collect();
        }
        _ => {
            let at = dice.roll(bytes.len());
            let length = 1 + dice.roll(20);
            let end = (at + length).min(bytes.len());
            bytes[at..end].fill([0, 0xff, b'\r', b'\n', b' ', b'"', b'{'][dice.roll(7)]);
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
    let mut discarded = [0; 64 * 1024];
    for frame in frames {
        if stream.write_all(&frame).is_err() {
            break;
        }
        sent += 1;
        match stream.read(&mut discarded) {
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

fn must_survive(name: &str, seed: u64, valid: &[Vec<u8>]) {
    must_survive_at(Port::Clients, name, seed, &|dice| {
        corrupt_frame(&valid[dice.roll(valid.len())], dice)
    });
}

fn must_survive_at(
    port: Port,
    name: &str,
    seed: u64,
    frame: &(dyn Fn(&mut Dice) -> Vec<u8> + Sync),
) {
    let _permit = experiment();
    let scratch = Scratch::new(&name.replace(' ', "-"));
    let peer_address = free_address();
    let setup = small_setup(&scratch.join("data"))
        .with_args(&["--arakoon-clusters", "ricky", "--advertise", "127.0.0.1:1"])
        .with_args(&["--peer-listen", &peer_address.to_string()]);
    let mut server = Server::must_start(&setup);
    let mut figures = Figures::start(name);
    let mut bystander = Resp::connect(server.address).expect("it listens");
    assert_eq!(bystander.call_line("SET bystander unhurt").expect("answers").error(), None);
    let data = scratch.join("data");
    wait_until_registered(&data, || members(&server));
    let known = identity(&server, &data);
    let goal = short_or_long(50_000, 1_000_000) as u64;
    let before = resident_bytes(server.pid());
    let workers = 4;
    let sent: u64 = std::thread::scope(|scope| {
        let worker_loop = |worker: u64| {
            let address = if port == Port::Nodes { peer_address } else { server.address };
            move || {
                let mut dice = Dice::new(seed * 1_000 + worker + 1);
                let mut sent = 0;
                while sent < goal / workers {
                    let mut frames = (0..32).map(|_| frame(&mut dice));
                    let newly_sent = send_until_closed(address, &mut frames);
                    assert!(newly_sent > 0, "it does not listen any more");
                    sent += newly_sent;
                }
                sent
            }
        };
        let handles: Vec<_> = (0..workers).map(|worker| scope.spawn(worker_loop(worker))).collect();
        handles.into_iter().map(|handle| handle.join().expect("a worker does not panic")).sum()
    });
    figures.faults = sent;
    assert!(server.is_alive(), "it died: {}", server.stderr_text());
    let reply = bystander.call_line("GET bystander").expect("the bystander's connection lives");
    assert_eq!(reply, RespReply::Bulk(Some(b"unhurt".to_vec())));
    let growth = resident_bytes(server.pid()).saturating_sub(before);
    figures.add("seed", seed);
    figures.add("grown_mib", growth >> 20);
    assert!(growth < 256 << 20, "{growth} bytes more after frames that mean nothing");
    assert_eq!(identity(&server, &data), known, "strangers have left a mark");
    let mut next = Resp::connect(server.address).expect("it listens");
    assert_eq!(next.call_line("SET next served").expect("it answers").error(), None);
    server.must_be_healthy();
    figures.print();
    if is_long_form() {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Returns the inputs of a target without those that may rightly remove what others wrote, or
/// close their connections.
fn corpus_that_spares_others(target: &str) -> Vec<Vec<u8>> {
    let harms_others = |input: &Vec<u8>| {
        let words = input.to_ascii_uppercase();
        let has = |word: &[u8]| words.windows(word.len()).any(|window| window == word);
        [&b"FLUSH"[..], b"DELPREFIX", b"CREDENZA.DROP", b"KILL"].into_iter().any(has)
    };
    corpus(target).into_iter().filter(|input| !harms_others(input)).collect()
}

#[test]
fn malformed_resp_frames_harm_neither_node_nor_other_clients() {
    let frames = [resp_frames(), corpus_that_spares_others("resp")].concat();
    must_survive("F-37 malformed RESP", 37, &frames);
}

#[test]
fn malformed_http_requests_harm_neither_node_nor_other_clients() {
    must_survive("F-37 malformed HTTP", 38, &corpus("http"));
}

#[test]
fn malformed_riak_requests_harm_neither_node_nor_other_clients() {
    must_survive("F-37 malformed requests of Riak", 40, &corpus("riak"));
}

#[test]
fn malformed_first_bytes_of_any_protocol_harm_neither_node_nor_other_clients() {
    must_survive("F-37 malformed first bytes", 42, &corpus("port"));
}

#[test]
fn malformed_peer_handshakes_harm_neither_node_nor_other_clients() {
    let valid = handshake_bodies();
    let frame = |dice: &mut Dice| {
        let body = corrupt_frame(&valid[dice.roll(valid.len())], dice);
        let frame_bytes = envelope(&body);
        if dice.roll(4) == 0 { corrupt_frame(&frame_bytes, dice) } else { frame_bytes }
    };
    must_survive_at(Port::Nodes, "F-37 malformed greetings of nodes", 41, &frame);
}

#[test]
fn malformed_arakoon_requests_harm_neither_node_nor_other_clients() {
    must_survive("F-37 malformed Arakoon", 39, &arakoon_frames());
}

#[test]
fn bit_flips_in_valid_frames_leave_the_node_serving() {
    let _permit = experiment();
    let scratch = Scratch::new("f37-flips");
    let server = Server::must_start(&small_setup(&scratch.join("data")));
    let mut figures = Figures::start("F-37 every byte flipped");
    let (resp, http, arakoon) = (resp_frames(), corpus("http"), arakoon_frames());
    let riak = corpus("riak");
    for frame in resp[..4].iter().chain(&http[..2]).chain(&arakoon[..2]).chain(&riak[..2]) {
        for at in 0..frame.len() {
            for bit in [0, 3, 7] {
                let mut corrupted = frame.clone();
                corrupted[at] ^= 1 << bit;
                figures.faults += send_until_closed(server.address, &mut [corrupted].into_iter());
            }
        }
    }
    let mut redis = Resp::connect(server.address).expect("it listens");
    assert_eq!(redis.call_line("PING").expect("answers"), RespReply::Simple("PONG".into()));
    figures.print();
}
