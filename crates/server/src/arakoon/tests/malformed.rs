//! F-37: malformed bytes never cause a panic, never size a buffer, and end the connection.

use super::client::{TestClient, prologue, server};
use super::encoding::{COMMANDS, request};
use crate::arakoon::frame::{FrameFault, ParseProgress, Parser, Prologue, parse_prologue};
use crate::arakoon::translate::translate;
use base::codec::printable;
use base::limits::{FRAME_BYTES_MAX, KEYS_PER_READ_MAX};
use bytes::Bytes;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Feeds bytes in two parts as a network could. Returns the number of requests found, or the fault.
fn feed(bytes: &[u8], split: usize) -> Result<usize, FrameFault> {
    let mut parser = Parser::default();
    let (mut begin, mut requests) = (0, 0);
    for end in [split.min(bytes.len()), bytes.len()] {
        loop {
            match parser.parse(&bytes[begin..end])? {
                ParseProgress::Incomplete(needed) => {
                    assert!(needed > end - begin, "it asks for more than there is");
                    assert!(needed <= FRAME_BYTES_MAX, "it asks for more than may be");
                    break;
                }
                ParseProgress::Complete(command, length) => {
                    assert!(length >= 4 && length <= end - begin, "a frame is what arrived");
                    let body = Bytes::copy_from_slice(&bytes[begin + 4..begin + length]);
                    // Any command that parses must translate without a panic.
                    let _ = translate(command, body, b"ricky");
                    parser.reset();
                    begin += length;
                    requests += 1;
                }
            }
        }
    }
    Ok(requests)
}

/// Returns a valid request of every command, for the tests to damage.
fn samples() -> Vec<Vec<u8>> {
    let words = |arguments: &str| -> Vec<String> {
        let word = |field| match field {
            'i' | 'l' => "3",
            'c' => "dirty",
            'b' => "true",
            'R' => "leaf",
            _ => "some",
        };
        let mut words: Vec<String> = arguments
            .chars()
            .filter(|field| *field != 'B')
            .map(|field| word(field).to_string())
            .collect();
        if arguments.ends_with('B') {
            let steps =
                ["set a b", "sequence 2", "assert k none", "replace k v", "assert_range p q"];
            words.extend(steps.map(String::from));
        }
        if arguments.contains('R') || arguments.contains('N') {
            words.extend(["other".to_string(), "4000".to_string()]);
            words.truncate(if arguments.contains('R') { 2 } else { 4 });
        }
        words
    };
    COMMANDS
        .iter()
        .map(|(name, _, arguments, _)| {
            request(name, &words(arguments)).unwrap_or_else(|| panic!("a sample of {name}")).0
        })
        .collect()
}

const CLAIMS: [i32; 10] =
    [0, -1, i32::MIN, i32::MAX, 1, 0x00ff_ffff, 0x0300_0000, 131_072, 131_073, 5];

#[test]
fn malformed_frames_never_panic_the_parser() {
    let mut random = StdRng::seed_from_u64(39);
    let (mut frames, mut faults) = (0u64, 0u64);
    let mut try_one = |bytes: &[u8], split: usize| {
        frames += 1;
        faults += u64::from(feed(bytes, split).is_err());
        frames
    };
    let samples = samples();
    assert_eq!(samples.len(), COMMANDS.len());
    for sample in &samples {
        for at in 0..sample.len() {
            for byte in [0, 1, 2, 0x7f, 0x80, 0xff, random.random()] {
                let mut flipped = sample.clone();
                flipped[at] = byte;
                try_one(&flipped, random.random_range(0..=sample.len()));
            }
            for claim in CLAIMS {
                let mut with_claim = sample.clone();
                let end = (at + 4).min(with_claim.len());
                with_claim.splice(at..end, claim.to_le_bytes());
                try_one(&with_claim, at);
            }
            try_one(&sample[..at], at / 2);
            let mut trailing = sample.clone();
            trailing.insert(at, random.random());
            try_one(&trailing, at);
        }
    }
    loop {
        let mut bytes = samples[random.random_range(0..samples.len())].clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..bytes.len());
            bytes[at] = random.random();
        }
        let split = random.random_range(0..=bytes.len());
        if try_one(&bytes, split) >= 120_000 {
            break;
        }
    }
    assert!(faults > frames / 10, "{faults} faults in {frames} frames");
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_yield_an_invalid_prologue(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        if let Prologue::Cluster(id, length) = parse_prologue(&bytes) {
            prop_assert!(length <= bytes.len() && id.len() < length);
        }
        let _ = feed(&bytes, bytes.len() / 2);
    }
}

#[test]
fn list_count_is_checked_before_its_elements_arrive() {
    let claim = |count: i32| {
        let word = 0xb1ff_0011u32.to_le_bytes();
        [&word[..], &[0], &count.to_le_bytes()].concat()
    };
    assert!(matches!(feed(&claim(KEYS_PER_READ_MAX as i32), 9), Ok(0)));
    let more = claim(KEYS_PER_READ_MAX as i32 + 1);
    assert!(matches!(feed(&more, 9), Err(FrameFault::TooLarge("keys_per_read_max", _))));
}

#[test]
fn corrupted_requests_do_not_affect_another_connection() {
    let server = server();
    let mut bystander = TestClient::open(server.address, b"ricky");
    let (set, _) = request("SET", &["bystander".into(), "unhurt".into()]).expect("a request");
    assert_eq!(bystander.request(&set, ""), [0; 4]);
    let (get, _) = request("GET", &["consistent".into(), "bystander".into()]).expect("a request");
    for sample in samples() {
        for at in 0..sample.len().min(24) {
            let mut flipped = sample.clone();
            flipped[at] ^= 0x81;
            let mut client = TestClient::open(server.address, b"ricky");
            client.send(&flipped);
            client.close();
        }
        assert_eq!(printable(&bystander.request(&get, "s")[8..]), "unhurt");
    }
    // The prologue is damaged, too.
    let complete = prologue(b"ricky");
    for at in 0..complete.len() {
        let mut flipped = complete.clone();
        flipped[at] ^= 0x81;
        let mut client = TestClient::connect(server.address);
        client.send(&flipped);
        client.close();
    }
    assert_eq!(printable(&bystander.request(&get, "s")[8..]), "unhurt");
}

#[test]
fn request_after_a_frame_fault_is_not_executed() {
    let server = server();
    let (set, _) = request("SET", &["k".into(), "1".into()]).expect("a request");
    let (exists, _) = request("EXISTS", &["consistent".into(), "k".into()]).expect("a request");
    for fault in [&b"\0\0\0\0"[..], b"\x47\0\xff\xb1", b"\x08\0\xff\xb1\x07"] {
        let mut client = TestClient::open(server.address, b"ricky");
        client.send(&[fault, &set].concat());
        assert!(!client.read_to_end().is_empty(), "it is told");
        let mut other = TestClient::open(server.address, b"ricky");
        assert_eq!(other.request(&exists, "b"), [0, 0, 0, 0, 0], "{}", printable(fault));
    }
}
