//! Conversations of Arakoon's front-end, recorded at a single node, replayed at three nodes: the
//! master's answers must be equal byte by byte, the others must name the master, and answers that
//! only several nodes give are in `arakoon_three.txt`.
//!
//! The recorded lines of a conversation are replayed: `> ` is sent and `< ` must be received, with
//! bytes in the usual escapes; the name in front is the connection. The node's name, `arakoon_0`
//! there, is the master's. An answer that ends with `...` goes on as its layout says.

use super::three_nodes::{arakoon_config, start_three, wait_for};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use systest::client::Arakoon;
use systest::cluster::Cluster;
use systest::environment::Scratch;

/// Commands that only the master answers.
const MASTER_ONLY_COMMANDS: [u8; 19] = [
    0x09, 0x0a, 0x0d, 0x10, 0x15, 0x17, 0x18, 0x19, 0x1a, 0x1c, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x24,
    0x27, 0x33, 0x41,
];
/// Reads that only the master answers when they must be consistent.
const MASTER_ONLY_CONSISTENT_READS: [u8; 11] =
    [0x07, 0x08, 0x0b, 0x0c, 0x0f, 0x11, 0x16, 0x23, 0x29, 0x31, 0x45];
const USER_FUNCTION: u8 = 0x15;
const DROP_MASTER: u8 = 0x30;
const PROGRESS: u8 = 0x12;

/// One line of a recording.
#[derive(Debug)]
enum Line {
    /// The prologue of a cluster.
    Hello(Vec<u8>),
    /// Bytes to send.
    Send(Vec<u8>),
    /// Bytes to receive. `more`: further bytes follow by the command's layout; `closes`: the
    /// server closes the connection.
    Receive { bytes: Vec<u8>, more: bool, closes: bool },
    /// Event at the cluster.
    Event(String),
}

/// Returns the bytes of a line with escapes `\xNN` and `\\`.
fn decode_escapes(escaped: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), escaped.as_bytes());
    while let Some((first, after_first)) = rest.split_first() {
        let (byte, length) = match after_first {
            [b'x', digits @ ..] if *first == b'\\' => {
                let digits = std::str::from_utf8(&digits[..2]).expect("digits");
                (u8::from_str_radix(digits, 16).expect("two digits"), 4)
            }
            [b'\\', ..] if *first == b'\\' => (b'\\', 2),
            _ => (*first, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

/// Returns the lines of a conversation, each with its connection's name.
fn parse_lines(text: &str) -> Vec<(String, Line)> {
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, content) = match line.split_once(": ") {
            Some((name, content)) if name.chars().all(|c| c.is_ascii_alphanumeric()) => {
                (name, content)
            }
            _ => ("", line),
        };
        let parse_received = |escaped: &str| {
            let (escaped, closes) =
                escaped.strip_suffix("(closed)").map_or((escaped, false), |s| (s, true));
            let (escaped, more) =
                escaped.strip_suffix("...").map_or((escaped, false), |s| (s, true));
            Line::Receive { bytes: decode_escapes(escaped), more, closes }
        };
        let line = match content.split_once(' ') {
            Some((">", escaped)) => Line::Send(decode_escapes(escaped)),
            Some(("<", escaped)) => parse_received(escaped),
            Some(("hello", cluster)) => Line::Hello(cluster.trim_matches('"').into()),
            Some(("!", event)) => Line::Event(event.into()),
            _ => continue,
        };
        lines.push((name.to_string(), line));
    }
    lines
}

fn read_conversation(path: PathBuf) -> Vec<(String, Line)> {
    parse_lines(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
}

/// Returns the front-end's conversations with their names, except those that end a node or a
/// bucket, which need a single node.
fn read_recordings() -> Vec<(String, Vec<(String, Line)>)> {
    let folder = systest::tidy::root().join("crates/server/src/arakoon/conversations");
    let files = std::fs::read_dir(folder).expect("the front-end's conversations");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| !path.ends_with("endings.txt"));
    paths.sort();
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths.into_iter().map(|path| (name(&path), read_conversation(path))).collect()
}

fn encode_string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text].concat()
}

/// A connection, with its last request.
struct ReplayConnection {
    stream: TcpStream,
    last_request: Vec<u8>,
}

impl ReplayConnection {
    fn open(address: SocketAddr, cluster: &[u8]) -> ReplayConnection {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("an option");
        let hello = [&b"\x00\x00\xff\xb1\x01\x00\x00\x00"[..], &encode_string(cluster)].concat();
        stream.write_all(&hello).expect("sent");
        ReplayConnection { stream, last_request: Vec::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
        self.last_request = bytes.to_vec();
    }

    fn read(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let last_request = &self.last_request;
        let result = self.stream.read_exact(&mut bytes);
        result.unwrap_or_else(|error| panic!("{error} behind {last_request:?}"));
        bytes
    }

    /// Reads the body of an answer after its return code, by the layout of the command.
    fn body(&mut self, code: &[u8]) -> Vec<u8> {
        let numbers = match (code, self.last_request[0]) {
            ([0, 0, 0, 0], 0x28) => 12,                  // VERSION
            ([0, 0, 0, 0], 0x43) => return self.read(9), // GET_TXID
            ([0, 0, 0, 0], PROGRESS) => return self.read(1),
            _ => 0,
        };
        let mut body = self.read(numbers);
        let length = self.read(4);
        let length = u32::from_le_bytes(*length.first_chunk().expect("four bytes"));
        body.extend(self.read(length as usize));
        body
    }

    fn is_closed(&mut self) -> bool {
        // A reset counts as an end.
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_err() || rest.is_empty()
    }
}

/// Cluster at which conversations are replayed: each connection goes to the master, or to a
/// follower if its name requests one.
struct ConversationPlayer {
    cluster: Cluster,
    master: usize,
    follower: usize,
    connections: BTreeMap<String, ReplayConnection>,
}

impl ConversationPlayer {
    fn new(cluster: Cluster) -> ConversationPlayer {
        let (master, follower) = (cluster.master(), cluster.follower());
        ConversationPlayer { cluster, master, follower, connections: BTreeMap::new() }
    }

    fn name(&self) -> String {
        format!("n{}", self.master)
    }

    /// Replaces the node name `arakoon_0` of the recording by the master's.
    fn with_master_name(&self, bytes: &[u8]) -> Vec<u8> {
        let (recorded_name, master_name) =
            (encode_string(b"arakoon_0"), encode_string(self.name().as_bytes()));
        match bytes.windows(recorded_name.len()).position(|window| window == recorded_name) {
            Some(at) => [&bytes[..at], &master_name, &bytes[at + recorded_name.len()..]].concat(),
            None => bytes.to_vec(),
        }
    }

    fn connection(&mut self, name: &str, cluster: &[u8]) -> &mut ReplayConnection {
        let node = if name.starts_with("follower") { self.follower } else { self.master };
        let address = self.cluster.client_address(node);
        self.connections
            .entry(name.into())
            .or_insert_with(|| ReplayConnection::open(address, cluster))
    }

    fn run_event(&mut self, event: &str) {
        let others: Vec<_> = self.cluster.nodes().filter(|node| *node != self.master).collect();
        match event {
            "the others sleep" => others.iter().for_each(|node| self.cluster.pause(*node)),
            "the others wake" => {
                others.iter().for_each(|node| self.cluster.resume(*node));
                self.cluster.must_converge();
                self.cluster.make_master(self.master);
            }
            other => panic!("what is `{other}`?"),
        }
    }

    fn replay(&mut self, conversation: &[(String, Line)]) {
        self.connections.clear();
        let mut skipped = BTreeSet::new();
        for (name, line) in conversation {
            match line {
                Line::Hello(cluster) => drop(self.connection(name, cluster)),
                Line::Event(event) => self.run_event(event),
                // With several nodes the master hands over, which ends the conversation; see
                // three_nodes.rs.
                Line::Send(bytes) if bytes[0] == DROP_MASTER => drop(skipped.insert(name.clone())),
                Line::Send(bytes) => self.connection(name, b"ricky").send(bytes),
                Line::Receive { .. } if skipped.remove(name) => {}
                Line::Receive { bytes, more, closes } => {
                    let expected = self.with_master_name(bytes);
                    let connection = self.connection(name, b"ricky");
                    // The answer depends on the other nodes, not on the contents.
                    let more = *more || connection.last_request.first() == Some(&PROGRESS);
                    let length = if more { 4 } else { expected.len() };
                    let received = connection.read(length);
                    assert_eq!(
                        received,
                        expected[..length],
                        "{name}: behind {:?}",
                        connection.last_request
                    );
                    if more {
                        connection.body(&received);
                    }
                    assert!(!closes || connection.is_closed(), "{name}: it goes on");
                }
            }
        }
    }
}

#[test]
fn master_of_three_answers_arakoon_exactly_like_a_single_node() {
    let scratch = Scratch::new("three-conversations");
    let cluster = start_three(&scratch);
    cluster.must_serve();
    let mut player = ConversationPlayer::new(cluster);
    let conversations = read_recordings();
    assert!(conversations.len() >= 6, "{}", conversations.len());
    for (name, conversation) in &conversations {
        println!("{name}");
        player.replay(conversation);
        let mut connection =
            ReplayConnection::open(player.cluster.client_address(player.master), b"ricky");
        connection.send(b"\x27\x00\xff\xb1\x00\x00\x00\x00");
        assert_eq!(connection.read(8)[..4], [0; 4], "all keys are deleted for the next one");
    }
    assert_eq!(player.cluster.master_now(), Some(player.master), "nothing was asked of another");
}

#[test]
fn follower_answers_master_only_arakoon_commands_with_master_name() {
    let scratch = Scratch::new("three-named");
    let cluster = start_three(&scratch);
    cluster.must_serve();
    let mut player = ConversationPlayer::new(cluster);
    let expected = [&b"\x04\x00\x00\x00"[..], &encode_string(player.name().as_bytes())].concat();
    let mut tested = BTreeSet::new();
    for (_, conversation) in read_recordings() {
        for pair in conversation.windows(2) {
            let [(_, Line::Send(request)), (_, Line::Receive { bytes, .. })] = pair else {
                continue;
            };
            let (code, magic) = (request[0], request[1..4] == *b"\x00\xff\xb1");
            let is_for_master = MASTER_ONLY_COMMANDS.contains(&code)
                || MASTER_ONLY_CONSISTENT_READS.contains(&code) && request.get(4) == Some(&0);
            // Any node itself refuses a malformed command, or one that can't be in a sequence.
            let is_valid = bytes[0] != 0xff && (bytes[0] != 0x26 || code == USER_FUNCTION);
            if !(magic && is_for_master && is_valid) {
                continue;
            }
            let mut connection =
                ReplayConnection::open(player.cluster.client_address(player.follower), b"ricky");
            connection.send(request);
            assert_eq!(connection.read(expected.len()), expected, "{request:?}");
            assert!(connection.is_closed(), "{request:?}");
            tested.insert(code);
        }
    }
    let all: BTreeSet<u8> =
        MASTER_ONLY_COMMANDS.into_iter().chain(MASTER_ONLY_CONSISTENT_READS).collect();
    assert_eq!(tested, all, "no conversation asks one of them");
    let file = systest::tidy::root().join("crates/systest/tests/all/end_to_end/arakoon_three.txt");
    player.replay(&read_conversation(file));
}

#[test]
fn arakoon_nursery_lists_addresses_of_all_three_nodes() {
    let scratch = Scratch::new("three-nursery");
    let cluster = start_three(&scratch);
    cluster.must_serve();
    let nodes = arakoon_config(&cluster);
    let mut received = wait_for("an answer", || Arakoon::master(&nodes).ok()?.nursery().ok());
    received.sort();
    let expected: Vec<_> =
        nodes.nodes.iter().map(|(name, address)| (name.clone(), *address)).collect();
    assert_eq!(received, expected);
}
