//! Golden bytes of version 1 of the protocol: encoded the same today, and decoded today.
//! `CREDENZA_KEEP=golden cargo test -p transport golden` writes the file if it is missing.

use super::greetings::{read, speaker};
use crate::Credential;
use crate::frame::{ConnectionWord, Decoder, Encoder, FrameEvent};
use crate::handshake::{Bond, Greeting, Hello, Speaker};
use crate::message::Lane;
use crate::transcript::Transcript;
use crate::versions::VERSIONS;
use base::{ClusterSecret, GroupId, IncarnationId, NodeId};
use bytes::{Bytes, BytesMut};
use std::fmt::Write;
use std::path::{Path, PathBuf};

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/peers-v1.txt")
}

/// Greetings with the incarnations that a later version added.
fn later() -> [(&'static str, Greeting); 2] {
    let incarnations =
        vec![IncarnationId { number: 6, token: 0x66 }, IncarnationId { number: 7, token: 0x77 }];
    let one = Speaker { incarnations: incarnations.clone(), ..speaker(1, 7, 0xAAAA, 0x1111) };
    let two = Speaker { incarnations, ..speaker(2, 9, 0xBBBB, 0x2222) };
    let hello = Hello { versions: VERSIONS, speaker: one, wanted: NodeId(2), previous: 0x77 };
    [
        ("hello-lives", Greeting::Hello(hello)),
        ("welcome-lives", Greeting::Welcome { version: 1, speaker: two }),
    ]
}

fn greetings() -> [(&'static str, Greeting); 4] {
    let (one, two) = (speaker(1, 7, 0xAAAA, 0x1111), speaker(2, 9, 0xBBBB, 0x2222));
    let link = Bond::new(&one, &two, None).link;
    let hello = Hello { versions: VERSIONS, speaker: one, wanted: NodeId(2), previous: 0x77 };
    let words = "connected already; try again".to_string();
    [
        ("hello", Greeting::Hello(hello)),
        ("welcome", Greeting::Welcome { version: 1, speaker: two }),
        ("go", Greeting::Go { link }),
        ("refused", Greeting::Refused { code: 8, words }),
    ]
}

/// Greetings of one connection, and a refusal of it, signed with the secret of 32 bytes 5E.
fn signed() -> [(&'static str, Vec<u8>); 4] {
    let secret = ClusterSecret::new([0x5E; ClusterSecret::BYTES]);
    let mut transcript = Transcript::new(Some(Credential { secret, is_required: true }));
    let [(_, hello), (_, welcome), (_, go), (_, refused)] = greetings();
    // In the order of the handshake: each MAC covers those before.
    [("hello-mac", hello), ("welcome-mac", welcome), ("go-mac", go), ("refused-mac", refused)]
        .map(|(name, greeting)| (name, transcript.sign(&greeting)))
}

/// Frames of each kind, one stream under one salt.
fn frames() -> Vec<(&'static str, FrameEvent, Vec<u8>)> {
    let bond = Bond::new(&speaker(1, 7, 0xAAAA, 0x1111), &speaker(2, 9, 0xBBBB, 0x2222), None);
    let mut encoder = Encoder::new(bond.dialler);
    let mut all = Vec::new();
    for (name, lane, group, parts) in [
        ("control", Lane::Control, 0, [&b"vote"[..], b""]),
        ("data", Lane::Data, 1, [&b"head"[..], b" and body"]),
        ("call", Lane::Call, u32::MAX, [&b""[..], b""]),
    ] {
        let (whole, mut out) = (parts.concat(), Vec::new());
        encoder.copied(&mut out, lane, GroupId(group), whole.len(), parts);
        let payload = Bytes::from(whole);
        all.push((name, FrameEvent::Message { lane, group: GroupId(group), payload }, out));
    }
    let mut out = Vec::new();
    for piece in [b"in 3", b" pie", b"ces."] {
        encoder.head(&mut out, Lane::Bulk, GroupId(2), 12, piece);
        out.extend_from_slice(piece);
    }
    let payload = Bytes::from_static(b"in 3 pieces.");
    all.push(("bulk", FrameEvent::Message { lane: Lane::Bulk, group: GroupId(2), payload }, out));
    for (name, word) in [
        ("ping", ConnectionWord::Ping(0x0102_0304_0506_0708)),
        ("pong", ConnectionWord::Pong(9)),
        ("consumed", ConnectionWord::Consumed(4 << 20)),
        ("close", ConnectionWord::Close("this node is stopping".into())),
    ] {
        let mut out = Vec::new();
        encoder.word(&mut out, &word);
        all.push((name, FrameEvent::Word(word), out));
    }
    all
}

fn line(text: &mut String, name: &str, bytes: &[u8]) {
    let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let _ = writeln!(text, "{name} {hex}");
}

fn written() -> String {
    let mut text = String::from("# What nodes say to each other, version 1; see peers.md.\n");
    greetings().iter().for_each(|(name, greeting)| line(&mut text, name, &greeting.encode()));
    frames().iter().for_each(|(name, _, bytes)| line(&mut text, name, bytes));
    later().iter().for_each(|(name, greeting)| line(&mut text, name, &greeting.encode()));
    signed().iter().for_each(|(name, bytes)| line(&mut text, name, bytes));
    text
}

fn bytes_of(kept: &str, name: &str) -> Vec<u8> {
    let line = kept.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let hex = line.expect("the name is kept");
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn version_1_is_written_and_read_as_ever() {
    if !kept().exists() && std::env::var("CREDENZA_KEEP").is_ok_and(|word| word == "golden") {
        std::fs::write(kept(), written()).expect("it is ours");
    }
    let text = std::fs::read_to_string(kept()).expect("a kept example is kept for ever");
    assert_eq!(written(), text);
    for (name, greeting) in greetings().into_iter().chain(later()) {
        assert_eq!(read(&bytes_of(&text, name), VERSIONS), Ok(greeting), "{name}");
    }
    for ((name, _), (_, greeting)) in signed().into_iter().zip(greetings()) {
        assert_eq!(read(&bytes_of(&text, name), VERSIONS), Ok(greeting), "{name}");
    }
    let bond = Bond::new(&speaker(1, 7, 0xAAAA, 0x1111), &speaker(2, 9, 0xBBBB, 0x2222), None);
    let mut decoder = Decoder::new(bond.dialler);
    for (name, heard, _) in frames() {
        let mut buffer = BytesMut::from(&bytes_of(&text, name)[..]);
        assert_eq!(decoder.next(&mut buffer), Ok(Some(heard)), "{name}");
        assert!(buffer.is_empty());
    }
}
