//! Tests of the parser: requests whole, in pieces, and at the limits.

use crate::resp::frame::{ARGS_MAX, FrameFault, INLINE_BYTES_MAX, ParseProgress, Parser};
use base::limits::{FRAME_BYTES_MAX, VALUE_BYTES_MAX};
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

/// Encodes a request as clients do.
pub fn request(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for word in args {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Parses all requests in these bytes. Returns them with the number of bytes needed next, or the
/// fault.
fn parse_all(mut input: &[u8]) -> (Vec<Vec<Vec<u8>>>, Result<usize, FrameFault>) {
    let mut parser = Parser::default();
    let mut requests = Vec::new();
    loop {
        match parser.parse(input) {
            Ok(ParseProgress::Frame(bytes)) => {
                let args = parser.args(Bytes::copy_from_slice(&input[..bytes]));
                requests.push((0..args.len()).map(|at| args.get(at).to_vec()).collect());
                parser.reset();
                input = &input[bytes..];
            }
            Ok(ParseProgress::More(_)) => return (requests, Ok(input.len())),
            Err(fault) => return (requests, Err(fault)),
        }
    }
}

#[test]
fn frames_with_passwords_are_moved_out_of_the_buffer() {
    let cases: [(&[&[u8]], bool); 6] = [
        (&[b"AUTH", b"secret"], true),
        (&[b"auth", b"ada", b"secret"], true),
        (&[b"Hello", b"3", b"AUTH", b"ada", b"secret"], true),
        (&[b"GET", b"AUTH"], false),
        (&[b"PING"], false),
        (&[b"ACL", b"WHOAMI"], false),
    ];
    for (args, is_moved) in cases {
        let bytes = request(args);
        let mut input = BytesMut::from(&[&bytes, &b"PING"[..]].concat()[..]);
        let (begin, mut parser) = (input.as_ptr(), Parser::default());
        assert_eq!(parser.parse(&input), Ok(ParseProgress::Frame(bytes.len())));
        let frame = parser.take_frame(&mut input, bytes.len());
        assert_eq!((&frame[..], &input[..]), (&bytes[..], &b"PING"[..]));
        assert_eq!(frame.as_ptr() != begin, is_moved, "{args:?}");
    }
}

fn fault(input: &[u8]) -> FrameFault {
    parse_all(input).1.expect_err("no request")
}

fn args(text: &[&str]) -> Vec<Vec<u8>> {
    text.iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn arrays_of_bulk_strings_parse_as_requests() {
    let input = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\n*-10\r\n*1\r\n$0\r\n\r\n*1\r\n$4\r\nPI";
    let (requests, rest) = parse_all(input);
    let empty: Vec<Vec<u8>> = vec![];
    assert_eq!(requests, vec![args(&["GET", "k"]), empty.clone(), empty, args(&[""])]);
    assert_eq!(rest, Ok(10), "the last one is not all there");
}

#[test]
fn inline_commands_parse_with_quoted_arguments() {
    let input =
        b"PING\r\n  SET  a\t1 \n\r\nset k \"a b\\x00\\n\\\"\" 'it\\'s \\n'\r\n\"\"\r\nx\"y\"\r\n";
    let (requests, rest) = parse_all(input);
    assert_eq!(rest, Ok(0));
    let quoted = vec![b"set".to_vec(), b"k".to_vec(), b"a b\0\n\"".to_vec(), b"it's \\n".to_vec()];
    let expected =
        vec![args(&["PING"]), args(&["SET", "a", "1"]), vec![], quoted, args(&[""]), args(&["xy"])];
    assert_eq!(requests, expected);
}

#[test]
fn malformed_frame_yields_a_redis_protocol_error() {
    for (input, wrong) in [
        (&b"*x\r\n"[..], FrameFault::ArgCount),
        (b"*+2\r\n", FrameFault::ArgCount),
        (b"*01\r\n", FrameFault::ArgCount),
        (b"*18446744073709551615\r\n", FrameFault::ArgCount),
        (b"*2147483648\r\n", FrameFault::ArgCount),
        (b"*111111111111111111111111\r\n", FrameFault::Number),
        (b"*1\rx", FrameFault::ArgCount),
        (b"*1\r\n+PING\r\n", FrameFault::Dollar(b'+')),
        (b"*1\r\n$-1\r\n", FrameFault::Length),
        (b"*1\r\n$18446744073709551615\r\n", FrameFault::Length),
        (b"*1\r\n$2147483648\r\n", FrameFault::Length),
        (b"*1\r\n$4\r\nPINGxx", FrameFault::End),
        (b"*1\r\n$3\r\nPING\r\n", FrameFault::End),
        (b"a \"b\n", FrameFault::Quotes),
        (b"a \"b\"c\n", FrameFault::Quotes),
        (b"a 'b\n", FrameFault::Quotes),
    ] {
        assert_eq!(fault(input), wrong, "{}", base::codec::printable(input));
        assert!(wrong.text().starts_with("ERR Protocol error: "));
    }
}

#[test]
fn frame_limits_are_exact_and_enforced_before_payload_arrives() {
    let claim = |words: usize, length: usize| format!("*{words}\r\n${length}\r\n").into_bytes();
    assert_eq!(parse_all(&claim(ARGS_MAX, 1)).1, Ok(claim(ARGS_MAX, 1).len()));
    assert_eq!(fault(&claim(ARGS_MAX + 1, 1)), FrameFault::ArgCount);
    let head = "*1\r\n$50331648\r\n".len();
    let largest = FRAME_BYTES_MAX - head - 2;
    let mut parser = Parser::default();
    assert_eq!(parser.parse(&claim(1, largest)), Ok(ParseProgress::More(FRAME_BYTES_MAX)));
    assert_eq!(fault(&claim(1, largest + 1)), FrameFault::Size);
    assert_eq!(fault(&claim(1, FRAME_BYTES_MAX + 1)), FrameFault::Length);
    assert!(parse_all(&vec![b'a'; INLINE_BYTES_MAX]).1.is_ok());
    assert_eq!(fault(&vec![b'a'; INLINE_BYTES_MAX + 1]), FrameFault::Inline);
    let mut line = vec![b'a'; INLINE_BYTES_MAX];
    line.push(b'\n');
    assert_eq!(parse_all(&line).0.len(), 1);
    line.insert(0, b'a');
    assert_eq!(fault(&line), FrameFault::Inline);
}

#[test]
fn value_beyond_its_limit_is_still_framed_by_the_parser() {
    for length in [VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX, VALUE_BYTES_MAX + 1] {
        let value = vec![7; length];
        let (requests, rest) = parse_all(&request(&[b"SET", b"k", &value]));
        assert_eq!((requests.len(), rest), (1, Ok(0)), "the table refuses, not the frame");
        assert_eq!(requests[0][2], value);
    }
}

#[test]
fn request_arriving_byte_by_byte_is_parsed_incrementally() {
    let count = 20_000;
    let all: Vec<&[u8]> = (0..count).map(|_| &b"a"[..]).collect();
    let bytes = request(&all);
    let mut parser = Parser::default();
    // Parsing every piece from the beginning would take a minute.
    for end in 1..bytes.len() {
        assert!(matches!(parser.parse(&bytes[..end]), Ok(ParseProgress::More(more)) if more > end));
    }
    assert_eq!(parser.parse(&bytes), Ok(ParseProgress::Frame(bytes.len())));
    assert_eq!(parser.args(bytes.into()).len(), count);
}

proptest! {
    #[test]
    fn requests_split_at_any_byte_parse_identically(
        requests in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..5), 1..4),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let bytes: Vec<u8> = requests
            .iter()
            .flat_map(|args| request(&args.iter().map(Vec::as_slice).collect::<Vec<_>>()))
            .collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let mut parser = Parser::default();
        let (mut begin, mut found) = (0, Vec::new());
        for end in cuts {
            while let Ok(ParseProgress::Frame(length)) = parser.parse(&bytes[begin..end]) {
                let args = parser.args(Bytes::copy_from_slice(&bytes[begin..begin + length]));
                found.push((0..args.len()).map(|at| args.get(at).to_vec()).collect::<Vec<_>>());
                parser.reset();
                begin += length;
            }
        }
        prop_assert_eq!(found, requests);
    }
}
