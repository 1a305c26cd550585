//! Tests of the Arakoon driver: requests byte for byte, replies however they are split, and a
//! server that closes connections of other clusters.

use super::super::arakoon::{ArakoonExpectation, ArakoonProtocol};
use super::super::sockets::{Parsed, WireProtocol};
use super::super::*;
use crate::config::{Config, Items};
use std::io::{Read, Write};
use std::net::TcpListener;

fn protocol() -> ArakoonProtocol {
    ArakoonProtocol::for_cluster("ricky")
}

fn encoded(call: &Call<'_>) -> (Vec<u8>, ArakoonExpectation) {
    let mut out = Vec::new();
    let expected = protocol().encode(call, &mut out);
    (out, expected)
}

#[test]
fn arakoon_requests_have_the_published_bytes() {
    let (set, expected) = encoded(&Call::Put(b"key", b"v"));
    assert_eq!(set, b"\x09\x00\xff\xb1\x03\x00\x00\x00key\x01\x00\x00\x00v");
    assert_eq!(expected, ArakoonExpectation::Done);
    let (get, expected) = encoded(&Call::Get(b"k"));
    assert_eq!(get, b"\x08\x00\xff\xb1\x00\x01\x00\x00\x00k");
    assert_eq!(expected, ArakoonExpectation::Value);
    let (swap, expected) = encoded(&Call::TestAndSet { key: b"k", expected: None, wanted: b"w" });
    assert_eq!(swap, b"\x0d\x00\xff\xb1\x01\x00\x00\x00k\x00\x01\x01\x00\x00\x00w");
    assert_eq!(expected, ArakoonExpectation::Old);
    let rows = [(b"k".to_vec(), b"v".to_vec())];
    let (sequence, _) = encoded(&Call::Sequence(&rows));
    let updates =
        b"\x05\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00k\x01\x00\x00\x00v";
    assert_eq!(sequence[..4], *b"\x10\x00\xff\xb1");
    assert_eq!(sequence[4..8], (updates.len() as u32).to_le_bytes());
    assert_eq!(sequence[8..], *updates);
}

#[test]
fn arakoon_replies_parse_whole_and_every_prefix_is_incomplete() {
    use ArakoonExpectation::*;
    let refused = |kind: &'static str| Err(Failure::refused(kind));
    for (reply, expected, answer) in [
        (&b"\0\0\0\0"[..], Done, Ok(Answer::Done)),
        (b"\0\0\0\0\x01\0\0\0v", Value, Ok(Answer::Value(Some(b"v")))),
        (b"\x05\0\0\0\x09\0\0\0Not_found", Value, Ok(Answer::Value(None))),
        (b"\x05\0\0\0\x01\0\0\0k", Done, Ok(Answer::Done)),
        (b"\0\0\0\0\x01", Flag, Ok(Answer::Count(1))),
        (b"\0\0\0\0\0", Old, Ok(Answer::Old(None))),
        (b"\0\0\0\0\x01\x01\0\0\0o", Old, Ok(Answer::Old(Some(b"o"[..].into())))),
        (b"\0\0\0\0\x02\0\0\0\0\x01\x01\0\0\0v", Values, Ok(Answer::Count(1))),
        (b"\0\0\0\0\x01\0\0\0\x01\0\0\0k\x01\0\0\0v", Pairs, Ok(Answer::Count(1))),
        (b"\x04\0\0\0\x02\0\0\0n1", Done, refused("not_master")),
        (b"\x21\0\0\0\0\0\0\0", Done, refused("no_longer_master")),
        (b"\x80\0\0\0\0\0\0\0", Value, refused("0x80")),
    ] {
        let parsed = protocol().parse(reply, &expected);
        assert_eq!(parsed, Parsed::Reply(reply.len(), answer), "{reply:?}");
        for end in 0..reply.len() {
            let parsed = protocol().parse(&reply[..end], &expected);
            assert_eq!(parsed, Parsed::Partial, "{:?}", &reply[..end]);
        }
    }
    assert_eq!(protocol().parse(b"\0\0\0\0\xff\xff\xff\xff", &Value), Parsed::Broken);
    let no_magic = Err(Failure::lost("no_magic"));
    assert_eq!(protocol().parse(b"\x01\0\0\0", &Done), Parsed::Reply(4, no_magic));
}

fn target(address: &str) -> Result<Box<dyn Target>, BenchError> {
    let text =
        format!("driver = 'arakoon'\narakoon_address = '{address}'\narakoon_cluster = 'ricky'");
    prepare(&Config::read(Items::parse("a.toml", &text)?)?.driver)
}

#[test]
fn arakoon_connection_opens_with_prologue_and_names_the_product() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("connected");
        let mut request = [0; 21];
        stream.read_exact(&mut request).expect("asked");
        let text = b"revision: \"credenza 0.1.0\"\n";
        let mut reply = [0u32, 1, 9, 25, text.len() as u32].map(u32::to_le_bytes).concat();
        reply.extend_from_slice(text);
        stream.write_all(&reply).expect("told");
        // The second client names a cluster that is not served.
        let (mut stream, _) = listener.accept().expect("connected");
        stream.read_exact(&mut [0; 21]).expect("asked");
        request
    });
    assert_eq!(target(&address).map(|target| target.version()), Ok("credenza 0.1.0".into()));
    let error = target(&address).err().expect("closed");
    assert!(error.text.contains("does it serve the cluster `ricky`"), "{error}");
    let request = server.join().expect("served");
    assert_eq!(request[..8], *b"\x00\x00\xff\xb1\x01\x00\x00\x00");
    assert_eq!(request[8..], *b"\x05\x00\x00\x00ricky\x28\x00\xff\xb1");
}
