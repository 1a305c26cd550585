//! F-37: malformed frames never cause a panic, never size a buffer, and end the connection with an
//! error.

use super::frames::request;
use crate::resp::frame::{FrameFault, ParseProgress, Parser};
use bytes::Bytes;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::cell::Cell;

/// Feeds bytes in pieces as a network could. Returns the number of requests found, or the fault.
/// Checks that the parser's memory does not exceed the bytes that arrived.
fn feed(bytes: &[u8], cut: usize) -> Result<usize, FrameFault> {
    let mut parser = Parser::default();
    let (mut begin, mut requests) = (0, 0);
    for end in [cut.min(bytes.len()), bytes.len()] {
        loop {
            match parser.parse(&bytes[begin..end])? {
                ParseProgress::More(needed) => {
                    assert!(needed > end - begin, "it asks for more than there is");
                    break;
                }
                ParseProgress::Frame(length) => {
                    assert!(length > 0 && length <= end - begin, "a frame is what arrived");
                    let args = parser.args(Bytes::copy_from_slice(&bytes[begin..begin + length]));
                    let held: usize = (0..args.len()).map(|at| args.get(at).len()).sum();
                    assert!(held <= length && args.len() <= length);
                    assert!(parser.memory_bytes() <= 64 * (length + 64), "room for what arrived");
                    parser.reset();
                    begin += length;
                    requests += 1;
                }
            }
            if begin == end {
                break;
            }
        }
        assert!(parser.memory_bytes() <= 64 * (bytes.len() + 64), "room for what arrived");
    }
    Ok(requests)
}

pub const NUMBERS: [&str; 14] = [
    "0",
    "-0",
    "-1",
    "-2",
    "1",
    "2",
    "10000",
    "1048577",
    "2147483647",
    "2147483648",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999999",
    "1e9",
];

/// Returns valid requests, for the tests to damage.
pub fn samples() -> Vec<Vec<u8>> {
    vec![
        request(&[b"SET", b"key", b"value"]),
        request(&[b"MGET", b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i", b"j", b"k"]),
        request(&[b"HELLO", b"3", b"SETNAME", b"me"]),
        request(&[b"CREDENZA.SEQUENCE", b"2", b"DEL", b"a", b"3", b"SET", b"b", b"\r\n$5\r\n"]),
        b"SET key \"a value\\x41\" 'and'\r\n".to_vec(),
        b"PING\r\n".to_vec(),
    ]
}

#[test]
fn malformed_frames_never_panic_the_parser() {
    let mut random = StdRng::seed_from_u64(37);
    let (frames, faults) = (Cell::new(0u64), Cell::new(0u64));
    let try_one = |bytes: &[u8], cut: usize| {
        frames.set(frames.get() + 1);
        faults.set(faults.get() + u64::from(feed(bytes, cut).is_err()));
    };
    for sample in samples() {
        // Each byte of a valid frame replaced by every other value.
        for at in 0..sample.len() {
            for byte in 0..=255 {
                let mut flipped = sample.clone();
                flipped[at] = byte;
                try_one(&flipped, random.random_range(0..=sample.len()));
            }
            // Closed in the middle, and with trailing bytes.
            try_one(&sample[..at], at / 2);
            let mut trailing = sample.clone();
            trailing.insert(at, random.random());
            try_one(&trailing, at);
        }
    }
    for words in NUMBERS {
        for length in NUMBERS {
            for body in [&b""[..], b"PING\r\n", b"\r\n", b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n"] {
                let head = format!("*{words}\r\n${length}\r\n");
                try_one(&[head.as_bytes(), body].concat(), random.random_range(0..20));
            }
        }
    }
    while frames.get() < 120_000 {
        let length = random.random_range(0..60);
        let alphabet = b"*$-+:\r\n0123456789 \"'\\xPINGgetset\x00\xff";
        let bytes: Vec<u8> =
            (0..length).map(|_| alphabet[random.random_range(0..alphabet.len())]).collect();
        try_one(&bytes, random.random_range(0..=length));
    }
    let (frames, faults) = (frames.get(), faults.get());
    assert!(frames >= 100_000 && faults > frames / 10, "{faults} faults in {frames} frames");
}

proptest! {
    #[test]
    fn arbitrary_bytes_parse_within_bounded_memory(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        cut in 0usize..300,
    ) {
        let _ = feed(&bytes, cut);
    }
}
