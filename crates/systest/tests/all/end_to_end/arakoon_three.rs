//! Conversations of Arakoon's front-end, recorded at a single node, replayed at three nodes: the
//! master's answers must be equal byte by byte, the others must name the master, and answers that
//! only several nodes give are in `arakoon_three.txt`.
//!
//! The recorded lines of a conversation are replayed: `> ` is sent and `< ` must be received, with
//! bytes in the usual escapes; the name in front is the connection. The node's name, `arakoon_0`
//! there, is the master's. An answer that ends with `...` goes on as its layout says.

use super::three_nodes::{as_arakoon_has_it, three, until};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;
use systest::client::Arakoon;
use systest::rigs::{Cluster, Scratch};

/// Commands that only the master answers.
const OF_THE_MASTER: [u8; 19] = [
    0x09, 0x0a, 0x0d, 0x10, 0x15, 0x17, 0x18, 0x19, 0x1a, 0x1c, 0x1e, 0x1f, 0x20, 0x21, 0x22, 0x24,
    0x27, 0x33, 0x41,
];
/// Reads that only the master answers if they must be fresh.
const READS: [u8; 11] = [0x07, 0x08, 0x0b, 0x0c, 0x0f, 0x11, 0x16, 0x23, 0x29, 0x31, 0x45];
const USER_FUNCTION: u8 = 0x15;
const DROP_MASTER: u8 = 0x30;
const PROGRESS: u8 = 0x12;

/// One line of a recording.
#[derive(Debug)]
enum Line {
    /// The prologue of a cluster.
    Hello(Vec<u8>),
    /// Bytes to send.
    Sent(Vec<u8>),
    /// Bytes to receive. `more`: further bytes follow by the command's layout; `ends`: the server
    /// closes the connection.
    Told { bytes: Vec<u8>, more: bool, ends: bool },
    /// Event at the cluster.
    Happens(String),
}

/// Returns the bytes of a line with escapes `\xNN` and `\\`.
fn bytes_of(shown: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), shown.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        let (byte, length) = match behind {
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
fn lines(text: &str) -> Vec<(String, Line)> {
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, said) = match line.split_once(": ") {
            Some((name, said)) if name.chars().all(|c| c.is_ascii_alphanumeric()) => (name, said),
            _ => ("", line),
        };
        let told = |shown: &str| {
            let (shown, ends) =
                shown.strip_suffix("(closed)").map_or((shown, false), |s| (s, true));
            let (shown, more) = shown.strip_suffix("...").map_or((shown, false), |s| (s, true));
            Line::Told { bytes: bytes_of(shown), more, ends }
        };
        let line = match said.split_once(' ') {
            Some((">", shown)) => Line::Sent(bytes_of(shown)),
            Some(("<", shown)) => told(shown),
            Some(("hello", cluster)) => Line::Hello(cluster.trim_matches('"').into()),
            Some(("!", what)) => Line::Happens(what.into()),
            _ => continue,
        };
        lines.push((name.to_string(), line));
    }
    lines
}

fn conversation(path: PathBuf) -> Vec<(String, Line)> {
    lines(&std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}")))
}

/// Returns the front-end's conversations with their names, except those that end a node or a
/// bucket, which need a single node.
fn recorded() -> Vec<(String, Vec<(String, Line)>)> {
    let folder = systest::tidy::root().join("crates/server/src/arakoon/conversations");
    let files = std::fs::read_dir(folder).expect("the front-end's conversations");
    let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    paths.retain(|path| !path.ends_with("endings.txt"));
    paths.sort();
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths.into_iter().map(|path| (name(&path), conversation(path))).collect()
}

fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text].concat()
}

/// A connection, with its last request.
struct Guest {
    stream: TcpStream,
    asked: Vec<u8>,
}

impl Guest {
    fn of(address: SocketAddr, cluster: &[u8]) -> Guest {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("an option");
        let hello = [&b"\x00\x00\xff\xb1\x01\x00\x00\x00"[..], &string(cluster)].concat();
        stream.write_all(&hello).expect("sent");
        Guest { stream, asked: Vec::new() }
    }

    fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("sent");
        self.asked = bytes.to_vec();
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let asked = &self.asked;
        let read = self.stream.read_exact(&mut bytes);
        read.unwrap_or_else(|error| panic!("{error} behind {asked:?}"));
        bytes
    }

    /// Reads the body of an answer after its return code, by the layout of the command.
    fn body(&mut self, code: &[u8]) -> Vec<u8> {
        let numbers = match (code, self.asked[0]) {
            ([0, 0, 0, 0], 0x28) => 12,                  // VERSION
            ([0, 0, 0, 0], 0x43) => return self.take(9), // GET_TXID
            ([0, 0, 0, 0], PROGRESS) => return self.take(1),
            _ => 0,
        };
        let mut body = self.take(numbers);
        let length = self.take(4);
        let length = u32::from_le_bytes(*length.first_chunk().expect("four bytes"));
        body.extend(self.take(length as usize));
        body
    }

    fn ends(&mut self) -> bool {
        // A reset counts as an end.
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).is_err() || rest.is_empty()
    }
}

/// A cluster at which conversations are replayed: each connection goes to the master, or, if its
/// name says so, to a follower.
struct Player {
    cluster: Cluster,
    master: usize,
    follower: usize,
    guests: BTreeMap<String, Guest>,
}

impl Player {
    fn new(cluster: Cluster) -> Player {
        let (master, follower) = (cluster.master(), cluster.follower());
        Player { cluster, master, follower, guests: BTreeMap::new() }
    }

    fn name(&self) -> String {
        format!("n{}", self.master)
    }

    /// Replaces the node name `arakoon_0` of the recording by the master's.
    fn here(&self, bytes: &[u8]) -> Vec<u8> {
        let (there, here) = (string(b"arakoon_0"), string(self.name().as_bytes()));
        match bytes.windows(there.len()).position(|window| window == there) {
            Some(at) => [&bytes[..at], &here, &bytes[at + there.len()..]].concat(),
            None => bytes.to_vec(),
        }
    }

    fn guest(&mut self, name: &str, cluster: &[u8]) -> &mut Guest {
        let node = if name.starts_with("follower") { self.follower } else { self.master };
        let address = self.cluster.client(node);
        self.guests.entry(name.into()).or_insert_with(|| Guest::of(address, cluster))
    }

    fn happens(&mut self, what: &str) {
        let others: Vec<_> = self.cluster.nodes().filter(|node| *node != self.master).collect();
        match what {
            "the others sleep" => others.iter().for_each(|node| self.cluster.pause(*node)),
            "the others wake" => {
                others.iter().for_each(|node| self.cluster.wake(*node));
                self.cluster.must_settle();
                self.cluster.lead(self.master);
            }
            other => panic!("what is `{other}`?"),
        }
    }

    fn play(&mut self, conversation: &[(String, Line)]) {
        self.guests.clear();
        let mut skips = BTreeSet::new();
        for (name, line) in conversation {
            match line {
                Line::Hello(cluster) => drop(self.guest(name, cluster)),
                Line::Happens(what) => self.happens(what),
                // With several nodes the master hands over, which ends the conversation; see
                // three_nodes.rs.
                Line::Sent(bytes) if bytes[0] == DROP_MASTER => drop(skips.insert(name.clone())),
                Line::Sent(bytes) => self.guest(name, b"ricky").say(bytes),
                Line::Told { .. } if skips.remove(name) => {}
                Line::Told { bytes, more, ends } => {
                    let wanted = self.here(bytes);
                    let guest = self.guest(name, b"ricky");
                    // The answer depends on the other nodes, not on the contents.
                    let more = *more || guest.asked.first() == Some(&PROGRESS);
                    let length = if more { 4 } else { wanted.len() };
                    let told = guest.take(length);
                    assert_eq!(told, wanted[..length], "{name}: behind {:?}", guest.asked);
                    if more {
                        guest.body(&told);
                    }
                    assert!(!ends || guest.ends(), "{name}: it goes on");
                }
            }
        }
    }
}

#[test]
fn the_master_of_three_says_what_a_node_alone_does() {
    let scratch = Scratch::new("three-conversations");
    let cluster = three(&scratch);
    cluster.must_serve();
    let mut player = Player::new(cluster);
    let conversations = recorded();
    assert!(conversations.len() >= 6, "{}", conversations.len());
    for (name, conversation) in &conversations {
        println!("{name}");
        player.play(conversation);
        let mut guest = Guest::of(player.cluster.client(player.master), b"ricky");
        guest.say(b"\x27\x00\xff\xb1\x00\x00\x00\x00");
        assert_eq!(guest.take(8)[..4], [0; 4], "all keys are deleted for the next one");
    }
    assert_eq!(player.cluster.master_now(), Some(player.master), "nothing was asked of another");
}

#[test]
fn a_follower_names_the_master_whatever_only_that_one_may_answer() {
    let scratch = Scratch::new("three-named");
    let cluster = three(&scratch);
    cluster.must_serve();
    let mut player = Player::new(cluster);
    let wanted = [&b"\x04\x00\x00\x00"[..], &string(player.name().as_bytes())].concat();
    let mut named = BTreeSet::new();
    for (_, conversation) in recorded() {
        for pair in conversation.windows(2) {
            let [(_, Line::Sent(asked)), (_, Line::Told { bytes, .. })] = pair else { continue };
            let (code, magic) = (asked[0], asked[1..4] == *b"\x00\xff\xb1");
            let is_for_it =
                OF_THE_MASTER.contains(&code) || READS.contains(&code) && asked.get(4) == Some(&0);
            // Any node itself refuses a malformed command, or one that can't be in a sequence.
            let is_whole = bytes[0] != 0xff && (bytes[0] != 0x26 || code == USER_FUNCTION);
            if !(magic && is_for_it && is_whole) {
                continue;
            }
            let mut guest = Guest::of(player.cluster.client(player.follower), b"ricky");
            guest.say(asked);
            assert_eq!(guest.take(wanted.len()), wanted, "{asked:?}");
            assert!(guest.ends(), "{asked:?}");
            named.insert(code);
        }
    }
    let all: BTreeSet<u8> = OF_THE_MASTER.into_iter().chain(READS).collect();
    assert_eq!(named, all, "no conversation asks one of them");
    let file = systest::tidy::root().join("crates/systest/tests/all/end_to_end/arakoon_three.txt");
    player.play(&conversation(file));
}

#[test]
fn the_nursery_knows_where_all_three_are() {
    let scratch = Scratch::new("three-nursery");
    let cluster = three(&scratch);
    cluster.must_serve();
    let nodes = as_arakoon_has_it(&cluster);
    let mut told = until("an answer", || Arakoon::master(&nodes).ok()?.nursery().ok());
    told.sort();
    let wanted: Vec<_> = nodes.nodes.iter().map(|(name, at)| (name.clone(), *at)).collect();
    assert_eq!(told, wanted);
}
