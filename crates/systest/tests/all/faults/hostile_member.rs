//! F-38: a member with a valid handshake that then sends malformed messages in every lane: spoilt
//! examples of all messages between nodes (`crates/systest/golden`).
//!
//! The handshake and the frames are implemented here once more, from `docs/inside/peers.md` alone.
//!
//! Promises: the node that receives them survives, answers its clients, and no thread of it panics.
//! Never: sends a valid command of a member (change the cluster, drop a bucket): members are
//! trusted with that.

use super::hostile::{Dice, enveloped, spoil};
use super::small;
use base::ClusterSecret;
use base::codec::{Reader, Writer, checksum};
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;
use systest::client::{Http, Resp};
use systest::report::{Figures, times};
use systest::rigs::{Scratch, experiment, resident_bytes};
use systest::server::Server;

/// Id, name and incarnation of the malicious member.
const NODE: u64 = 0x00BA_DBAD;
const NAME: &str = "bad";
/// Lanes of a frame.
const LANES: [u32; 4] = [0, 1, 2, 3];
const CALL: u32 = 2;
/// Number of messages of one connection before it is replaced by a new one.
const MESSAGES: usize = 256;

/// Knowledge of the cluster that a node needs for the handshake of a member.
struct MemberKnowledge {
    cluster: u64,
    secret: ClusterSecret,
    /// Id of the node that is attacked.
    target: u64,
    address: SocketAddr,
}

/// Adds the member, as `serve --join` would.
fn join(server: &Server, address: SocketAddr) -> MemberKnowledge {
    let mut web = Http::connect(server.address).expect("the node listens");
    let known = web.ask("GET", "/v1/cluster/members", b"").expect("it answers").json();
    let member = json!({
        "node": format!("{NODE:016x}"), "name": NAME, "peer": "127.0.0.1:1",
        "client": "127.0.0.1:1", "part": "learner", "lease_ms": known["lease_ms"],
    });
    let joined = web.ask("POST", "/v1/cluster/members", member.to_string().as_bytes());
    let joined = joined.expect("it answers").json();
    let id = |text: &serde_json::Value| {
        u64::from_str_radix(text.as_str().expect("an id"), 16).expect("16 digits")
    };
    let secret = joined["secret"].as_str().expect("who joins is told the secret");
    MemberKnowledge {
        cluster: id(&joined["cluster"]),
        secret: ClusterSecret::from_hex(secret).expect("64 digits"),
        target: id(&known["founder"]),
        address,
    }
}

/// A connection with a complete handshake.
struct Link {
    stream: TcpStream,
    salt: u64,
    number: u32,
}

impl Link {
    /// Opens a connection in a later incarnation each time: a member whose connection was lost
    /// counts as restarted.
    fn begin(of: &MemberKnowledge, life: u64) -> io::Result<Link> {
        let mut stream = TcpStream::connect(of.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        let mut hello = vec![1];
        (0..2).for_each(|_| hello.put_u32(1));
        [of.cluster, NODE, of.target, life, life, life, 0]
            .iter()
            .for_each(|word| hello.put_u64(*word));
        hello.put_string(NAME.as_bytes());
        hello.put_string(b"127.0.0.1:1");
        hello.put_u32(1);
        [life, life].iter().for_each(|word| hello.put_u64(*word));
        say(&mut stream, of, &[&hello])?;
        let welcome = hear(&mut stream)?;
        let strange = |_| io::Error::other("no welcome");
        let mut reader = Reader::new(&welcome);
        if reader.u8("kind").map_err(strange)? != 2 {
            return Err(io::Error::other(String::from_utf8_lossy(&welcome).into_owned()));
        }
        reader.take(4 + 8, "version and cluster").map_err(strange)?;
        let (theirs, signed) = (reader.take(8 + 24, "who").map_err(strange)?, welcome.len() - 33);
        // The data that both sent: their ids, incarnations, processes and nonces.
        let mut words = Vec::new();
        [NODE, life, life, life].iter().for_each(|word| words.put_u64(*word));
        words.extend_from_slice(theirs);
        let mut go = vec![3];
        go.put_u64(checksum(&words, 0).max(1));
        say(&mut stream, of, &[&hello, &welcome[..signed], &go])?;
        let salt = checksum(&of.secret.mac(&[b"frames", &words]), 1);
        Ok(Link { stream, salt, number: 0 })
    }

    /// Sends a message in one frame.
    fn send(&mut self, lane: u32, group: u32, message: &[u8]) -> io::Result<()> {
        let mut head = Vec::new();
        let length = message.len() as u32;
        [length, lane, group, length, self.number].iter().for_each(|word| head.put_u32(*word));
        let sum = checksum(message, checksum(&head, self.salt));
        self.number = self.number.wrapping_add(1);
        self.stream.write_all(&[&sum.to_le_bytes(), &head[..], message].concat())
    }

    /// Reads and discards the answers. Fails once the other side has closed the connection.
    fn drain(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        let mut scrap = [0; 16 * 1024];
        let ended = loop {
            match self.stream.read(&mut scrap) {
                Ok(0) => break Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.stream.set_nonblocking(false)?;
        ended
    }
}

/// Sends the last of these handshake messages, signed over all of them.
fn say(stream: &mut TcpStream, of: &MemberKnowledge, said: &[&[u8]]) -> io::Result<()> {
    let mac = of.secret.mac(said);
    let body = [said[said.len() - 1], &[1], &mac].concat();
    stream.write_all(&enveloped(&body))
}

/// Receives the body of the next handshake message.
fn hear(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut envelope = [0; 20];
    stream.read_exact(&mut envelope)?;
    let mut body = vec![0; u32::from_le_bytes([8, 9, 10, 11].map(|at| envelope[at])) as usize];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// Returns examples of messages between nodes, each with its lane.
fn examples() -> Vec<(u32, Vec<u8>)> {
    let folder = systest::tidy::root().join("crates/systest/golden");
    let lines = |file: &str| {
        let text = std::fs::read_to_string(folder.join(file)).expect("kept examples are there");
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(String::from);
        lines.collect::<Vec<_>>()
    };
    let bytes = |line: &str| {
        let hex = line.rsplit(' ').next().unwrap_or_default();
        let byte = |at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        (0..hex.len()).step_by(2).filter_map(byte).collect::<Vec<u8>>()
    };
    let mut examples = Vec::new();
    for line in lines("consensus-v1.txt") {
        examples.extend([0, 1].map(|lane| (lane, bytes(&line))));
    }
    // In addition to the examples of requests, the prefixes of their encodings.
    for line in lines("moves-v1.txt").iter().chain(&lines("snapshots-v1.txt")) {
        examples.extend([(CALL, question(&bytes(line))), (3, bytes(line))]);
    }
    let harmless = ["request read", "request update.nop", "request session", "request available"];
    for line in lines("calls-v1.txt") {
        if harmless.iter().any(|kind| line.starts_with(kind)) {
            let letter = [&[1][..], &[0; 8], &bytes(&line)].concat();
            examples.push((CALL, question(&letter)));
            // The same bytes as a request about available buckets, with and without an envelope.
            let of_vnodes = [&[16, 2][..], &bytes(&line)].concat();
            let enclosed = [&[16, 8][..], &[0; 8], &of_vnodes].concat();
            examples.extend([(CALL, question(&of_vnodes)), (CALL, question(&enclosed))]);
        }
    }
    for kind in 0..20 {
        examples.push((CALL, question(&[16, kind])));
        examples.push((CALL, question(&[3, kind])));
        examples.push((CALL, question(&[7, 1, kind])));
    }
    examples
}

/// Returns a request with a token, which must be answered within a second.
fn question(words: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.put_u64(7);
    bytes.put_u32(1_000);
    bytes.extend_from_slice(words);
    bytes
}

/// Returns one message: an example, or a spoilt one; sometimes in another lane or group.
fn message(examples: &[(u32, Vec<u8>)], dice: &mut Dice) -> (u32, u32, Vec<u8>) {
    let (lane, bytes) = &examples[dice.roll(examples.len())];
    let bytes = if dice.roll(8) == 0 { bytes.clone() } else { spoil(bytes, dice) };
    let lane = if dice.roll(16) == 0 { LANES[dice.roll(4)] } else { *lane };
    let group = [0, 1, 1, 1, 2, 77, u32::MAX][dice.roll(7)];
    (lane, group, bytes)
}

#[test]
fn what_a_member_says_that_means_nothing_hurts_nobody() {
    let _permit = experiment();
    let scratch = Scratch::new("hostile-member");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let address = free.expect("a free port");
    let setup = small(&scratch.join("data")).with(&["--advertise", "127.0.0.1:1"]);
    let mut server = Server::must(&setup.with(&["--peer-listen", &address.to_string()]));
    let membership = join(&server, address);
    let mut figures = Figures::begin("F-38 a member that says what means nothing");
    let (examples, mut dice) = (examples(), Dice::new(43));
    let (goal, mut links) = (times(50_000, 1_000_000), 0_u64);
    let before = resident_bytes(server.pid());
    let mut sent = 0;
    while sent < goal {
        links += 1;
        // The node may be closing the connection before, or connecting to this member: retry.
        let Ok(mut link) = Link::begin(&membership, links) else {
            assert!(server.alive(), "it died: {}", server.said());
            assert!(links < 50_000, "it lets its member in no more: {}", server.said());
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        for _ in 0..MESSAGES {
            let (lane, group, bytes) = message(&examples, &mut dice);
            if link.send(lane, group, &bytes).and_then(|()| link.drain()).is_err() {
                break;
            }
            sent += 1;
        }
    }
    figures.faults = sent as u64;
    figures.also("links", links);
    let grown = resident_bytes(server.pid()).saturating_sub(before);
    figures.also("grown_mib", grown >> 20);
    assert!(server.alive(), "it died: {}", server.said());
    let mut client = Resp::connect(server.address).expect("it listens");
    assert_eq!(client.say("SET unhurt yes").expect("it answers").error(), None);
    assert!(grown < 256 << 20, "{grown} bytes more after messages that mean nothing");
    server.must_be_unhurt();
    figures.print();
}
