//! Golden bytes of version 1 of the protocol: encoded the same today, and decoded today.
//! `CREDENZA_KEEP=golden cargo test -p transport golden` writes the file if it is missing.

use super::greetings::{identity, read};
use crate::Credential;
use crate::frame::{ControlFrame, Decoder, Encoder, FrameEvent};
use crate::handshake::{Greeting, Hello, LinkKeys, PeerIdentity};
use crate::message::Lane;
use crate::transcript::Transcript;
use crate::versions::{VERSIONS, Versions};
use base::{ClusterSecret, GroupId, IncarnationId, NodeId};
use bytes::{Bytes, BytesMut};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Versions of the programs that wrote the kept bytes.
const KEPT: Versions = Versions { lowest: 1, highest: 1 };

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/peers-v1.txt")
}

/// Greetings with the incarnations that a later version added.
fn later_greetings() -> [(&'static str, Greeting); 2] {
    let incarnations =
        vec![IncarnationId { number: 6, token: 0x66 }, IncarnationId { number: 7, token: 0x77 }];
    let one = PeerIdentity { incarnations: incarnations.clone(), ..identity(1, 7, 0xAAAA, 0x1111) };
    let two = PeerIdentity { incarnations, ..identity(2, 9, 0xBBBB, 0x2222) };
    let hello = Hello { versions: KEPT, identity: one, target: NodeId(2), previous: 0x77 };
    [
        ("hello-lives", Greeting::Hello(hello)),
        ("welcome-lives", Greeting::Welcome { version: 1, identity: two }),
    ]
}

fn greetings() -> [(&'static str, Greeting); 4] {
    let (one, two) = (identity(1, 7, 0xAAAA, 0x1111), identity(2, 9, 0xBBBB, 0x2222));
    let link = LinkKeys::new(&one, &two, None).link;
    let hello = Hello { versions: KEPT, identity: one, target: NodeId(2), previous: 0x77 };
    let text = "connected already; try again".to_string();
    [
        ("hello", Greeting::Hello(hello)),
        ("welcome", Greeting::Welcome { version: 1, identity: two }),
        ("go", Greeting::Go { link }),
        ("refused", Greeting::Refused { code: 8, text }),
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
    let link_keys =
        LinkKeys::new(&identity(1, 7, 0xAAAA, 0x1111), &identity(2, 9, 0xBBBB, 0x2222), None);
    let mut encoder = Encoder::new(link_keys.dialler_salt);
    let mut all = Vec::new();
    for (name, lane, group, parts) in [
        ("control", Lane::Control, 0, [&b"vote"[..], b""]),
        ("data", Lane::Data, 1, [&b"head"[..], b" and body"]),
        ("call", Lane::Call, u32::MAX, [&b""[..], b""]),
    ] {
        let (message, mut out) = (parts.concat(), Vec::new());
        encoder.copied(&mut out, lane, GroupId(group), message.len(), parts);
        let payload = Bytes::from(message);
        all.push((name, FrameEvent::Message { lane, group: GroupId(group), payload }, out));
    }
    let mut out = Vec::new();
    for piece in [b"in 3", b" pie", b"ces."] {
        encoder.head(&mut out, Lane::Bulk, GroupId(2), 12, piece);
        out.extend_from_slice(piece);
    }
    let payload = Bytes::from_static(b"in 3 pieces.");
    all.push(("bulk", FrameEvent::Message { lane: Lane::Bulk, group: GroupId(2), payload }, out));
    for (name, control) in [
        ("ping", ControlFrame::Ping(0x0102_0304_0506_0708)),
        ("pong", ControlFrame::Pong(9)),
        ("consumed", ControlFrame::Consumed(4 << 20)),
        ("close", ControlFrame::Close("this node is stopping".into())),
    ] {
        let mut out = Vec::new();
        encoder.control(&mut out, &control);
        all.push((name, FrameEvent::Control(control), out));
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

fn golden_text() -> String {
    let mut text = String::from("# What nodes say to each other, version 1; see peers.md.\n");
    greetings().iter().for_each(|(name, greeting)| line(&mut text, name, &greeting.encode()));
    frames().iter().for_each(|(name, _, bytes)| line(&mut text, name, bytes));
    later_greetings().iter().for_each(|(name, greeting)| line(&mut text, name, &greeting.encode()));
    signed().iter().for_each(|(name, bytes)| line(&mut text, name, bytes));
    text
}

fn bytes_of(text: &str, name: &str) -> Vec<u8> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let hex = line.expect("the name is kept");
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn protocol_version_1_matches_golden_bytes() {
    if !golden_path().exists() && std::env::var("CREDENZA_KEEP").is_ok_and(|word| word == "golden")
    {
        std::fs::write(golden_path(), golden_text()).expect("it is ours");
    }
    let text = std::fs::read_to_string(golden_path()).expect("a kept example is kept for ever");
    assert_eq!(golden_text(), text);
    for (name, greeting) in greetings().into_iter().chain(later_greetings()) {
        assert_eq!(read(&bytes_of(&text, name), VERSIONS), Ok(greeting), "{name}");
    }
    for ((name, _), (_, greeting)) in signed().into_iter().zip(greetings()) {
        assert_eq!(read(&bytes_of(&text, name), VERSIONS), Ok(greeting), "{name}");
    }
    let link_keys =
        LinkKeys::new(&identity(1, 7, 0xAAAA, 0x1111), &identity(2, 9, 0xBBBB, 0x2222), None);
    let mut decoder = Decoder::new(link_keys.dialler_salt);
    for (name, event, _) in frames() {
        let mut buffer = BytesMut::from(&bytes_of(&text, name)[..]);
        assert_eq!(decoder.next(&mut buffer), Ok(Some(event)), "{name}");
        assert!(buffer.is_empty());
    }
}
