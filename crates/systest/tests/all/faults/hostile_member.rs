//! F-38: a member with a valid handshake that then sends malformed messages in every lane: spoilt
//! examples of all messages between nodes (`crates/systest/golden`).
//!
//! The handshake and the frames are implemented here once more, from `docs/inside/peers.md` alone.
//!
//! Promises: the node that receives them survives, answers its clients, and no thread of it panics.
//! Never: sends a valid command of a member (change the cluster, drop a bucket): members are
//! trusted to send these.

use super::hostile::{Dice, corrupt_frame, envelope};
use super::small_setup;
use base::ClusterSecret;
use base::codec::{Reader, Writer, checksum};
use serde_json::json;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use systest::client::{Http, Resp};
use systest::environment::{Scratch, experiment, free_address, resident_bytes};
use systest::report::{Figures, short_or_long};
use systest::server::Server;

/// Id, name and incarnation of the malicious member.
const NODE: u64 = 0x00BA_DBAD;
const NAME: &str = "bad";
/// Lanes of a frame.
const LANES: [u32; 4] = [0, 1, 2, 3];
const CALL: u32 = 2;
/// Number of messages of one connection before it is replaced by a new one.
const MESSAGES: usize = 256;

/// Ids and secret of the cluster that a node needs for the handshake of a member.
struct MemberCredentials {
    cluster: u64,
    secret: ClusterSecret,
    /// Id of the node that is attacked.
    target: u64,
    address: SocketAddr,
}

/// Adds the member, as `serve --join` would.
fn join(server: &Server, address: SocketAddr) -> MemberCredentials {
    let mut web = Http::connect(server.address).expect("the node listens");
    let members = web.request("GET", "/v1/cluster/members", b"").expect("it answers").json();
    let member = json!({
        "node": format!("{NODE:016x}"), "name": NAME, "peer": "127.0.0.1:1",
        "client": "127.0.0.1:1", "part": "learner", "lease_ms": members["lease_ms"],
        "level": members["level"],
    });
    let reply = web.request("POST", "/v1/cluster/members", member.to_string().as_bytes());
    let reply = reply.expect("it answers").json();
    let id = |text: &serde_json::Value| {
        u64::from_str_radix(text.as_str().expect("an id"), 16).expect("16 digits")
    };
    let secret = reply["secret"].as_str().expect("who joins is told the secret");
    MemberCredentials {
        cluster: id(&reply["cluster"]),
        secret: ClusterSecret::from_hex(secret).expect("64 digits"),
        target: id(&members["founder"]),
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
    fn start(credentials: &MemberCredentials, incarnation: u64) -> io::Result<Link> {
        let mut stream = TcpStream::connect(credentials.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        let mut hello = vec![1];
        [1, 2].iter().for_each(|version| hello.put_u32(*version));
        [credentials.cluster, NODE, credentials.target, incarnation, incarnation, incarnation, 0]
            .iter()
            .for_each(|number| hello.put_u64(*number));
        hello.put_string(NAME.as_bytes());
        hello.put_string(b"127.0.0.1:1");
        hello.put_u32(1);
        [incarnation, incarnation].iter().for_each(|number| hello.put_u64(*number));
        send_handshake(&mut stream, credentials, &[&hello])?;
        let welcome = receive_handshake(&mut stream)?;
        let no_welcome = |_| io::Error::other("no welcome");
        let mut reader = Reader::new(&welcome);
        if reader.u8("kind").map_err(no_welcome)? != 2 {
            return Err(io::Error::other(String::from_utf8_lossy(&welcome).into_owned()));
        }
        reader.take(4 + 8, "version and cluster").map_err(no_welcome)?;
        let (peer_fields, signed_bytes) =
            (reader.take(8 + 24, "who").map_err(no_welcome)?, welcome.len() - 33);
        // The fields that both sides sent: ids, incarnations, processes and nonces.
        let mut session_data = Vec::new();
        [NODE, incarnation, incarnation, incarnation]
            .iter()
            .for_each(|number| session_data.put_u64(*number));
        session_data.extend_from_slice(peer_fields);
        let mut go = vec![3];
        go.put_u64(checksum(&session_data, 0).max(1));
        send_handshake(&mut stream, credentials, &[&hello, &welcome[..signed_bytes], &go])?;
        let salt = checksum(&credentials.secret.mac(&[b"frames", &session_data]), 1);
        Ok(Link { stream, salt, number: 0 })
    }

    /// Sends a message in one frame.
    fn send(&mut self, lane: u32, group: u32, message: &[u8]) -> io::Result<()> {
        let mut header = Vec::new();
        let length = message.len() as u32;
        [length, lane, group, length, self.number]
            .iter()
            .for_each(|number| header.put_u32(*number));
        let frame_checksum = checksum(message, checksum(&header, self.salt));
        self.number = self.number.wrapping_add(1);
        self.stream.write_all(&[&frame_checksum.to_le_bytes(), &header[..], message].concat())
    }

    /// Reads and discards the answers. Fails once the other side has closed the connection.
    fn drain(&mut self) -> io::Result<()> {
        self.stream.set_nonblocking(true)?;
        let mut discarded = [0; 16 * 1024];
        let result = loop {
            match self.stream.read(&mut discarded) {
                Ok(0) => break Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.stream.set_nonblocking(false)?;
        result
    }
}

/// Sends the last of these handshake messages, signed over all of them.
fn send_handshake(
    stream: &mut TcpStream,
    credentials: &MemberCredentials,
    transcript: &[&[u8]],
) -> io::Result<()> {
    let mac = credentials.secret.mac(transcript);
    let body = [transcript[transcript.len() - 1], &[1], &mac].concat();
    stream.write_all(&envelope(&body))
}

/// Receives the body of the next handshake message.
fn receive_handshake(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
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
        examples.extend([(CALL, encode_request(&bytes(line))), (3, bytes(line))]);
    }
    let harmless = ["request read", "request update.nop", "request session", "request available"];
    for line in lines("calls-v1.txt") {
        if harmless.iter().any(|kind| line.starts_with(kind)) {
            let message = [&[1][..], &[0; 8], &bytes(&line)].concat();
            examples.push((CALL, encode_request(&message)));
            // The same bytes as a request about available buckets, with and without an envelope.
            let vnode_request = [&[16, 2][..], &bytes(&line)].concat();
            let in_envelope = [&[16, 8][..], &[0; 8], &vnode_request].concat();
            examples.extend([
                (CALL, encode_request(&vnode_request)),
                (CALL, encode_request(&in_envelope)),
            ]);
        }
    }
    for kind in 0..20 {
        examples.push((CALL, encode_request(&[16, kind])));
        examples.push((CALL, encode_request(&[3, kind])));
        examples.push((CALL, encode_request(&[7, 1, kind])));
    }
    examples
}

/// Returns a request with a token, which must be answered within a second.
fn encode_request(body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.put_u64(7);
    bytes.put_u32(1_000);
    bytes.extend_from_slice(body);
    bytes
}

/// Returns one message: an example, or a corrupted one; sometimes in another lane or group.
fn message(examples: &[(u32, Vec<u8>)], dice: &mut Dice) -> (u32, u32, Vec<u8>) {
    let (lane, bytes) = &examples[dice.roll(examples.len())];
    let bytes = if dice.roll(8) == 0 { bytes.clone() } else { corrupt_frame(bytes, dice) };
    let lane = if dice.roll(16) == 0 { LANES[dice.roll(4)] } else { *lane };
    let group = [0, 1, 1, 1, 2, 77, u32::MAX][dice.roll(7)];
    (lane, group, bytes)
}

#[test]
fn malformed_member_messages_leave_the_node_serving() {
    let _permit = experiment();
    let scratch = Scratch::new("hostile-member");
    let address = free_address();
    let setup = small_setup(&scratch.join("data")).with_args(&["--advertise", "127.0.0.1:1"]);
    let mut server = Server::must_start(&setup.with_args(&["--peer-listen", &address.to_string()]));
    let credentials = join(&server, address);
    let mut figures = Figures::start("F-38 a member that says what means nothing");
    let file = |name: &&str| std::fs::read(scratch.join("data").join(name)).unwrap_or_default();
    let identity =
        || ["IDENTITY", "SECRET", "OUTDATED", "JOINER"].iter().map(file).collect::<Vec<_>>();
    let known = identity();
    let (examples, mut dice) = (examples(), Dice::new(43));
    let (goal, mut links) = (short_or_long(50_000, 1_000_000), 0_u64);
    let before = resident_bytes(server.pid());
    let mut sent = 0;
    while sent < goal {
        links += 1;
        // The node may still be closing the previous connection, or connecting to this member:
        // retry.
        let Ok(mut link) = Link::start(&credentials, links) else {
            assert!(server.is_alive(), "it died: {}", server.stderr_text());
            assert!(links < 50_000, "it lets its member in no more: {}", server.stderr_text());
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
    figures.add("links", links);
    let growth = resident_bytes(server.pid()).saturating_sub(before);
    figures.add("grown_mib", growth >> 20);
    assert!(server.is_alive(), "it died: {}", server.stderr_text());
    let mut client = Resp::connect(server.address).expect("it listens");
    assert_eq!(client.call_line("SET unhurt yes").expect("it answers").error(), None);
    assert!(growth < 256 << 20, "{growth} bytes more after messages that mean nothing");
    assert!(identity() == known, "a member has changed who the node is");
    server.must_be_healthy();
    figures.print();
}
