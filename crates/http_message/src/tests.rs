//! Property tests of HTTP framing: accepted and refused input, and freedom from panics.

use super::percent::{PlusMeaning, append_encoded, append_plus_encoded, decode};
use super::*;
use base::limits::{HTTP_HEADER_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_LINE_BYTES_MAX};
use proptest::prelude::*;

fn head(text: &str) -> std::result::Result<String, u16> {
    match head::parse(text.as_bytes()) {
        Ok(Parsed::More) => Ok("more".into()),
        Ok(Parsed::Head(head, length)) => {
            assert_eq!(length, text.len());
            let keep = if head.keep_alive { "keep" } else { "close" };
            Ok(format!(
                "{} {} {} {:?} {keep}",
                head.method.name(),
                head.path,
                head.query,
                head.body
            ))
        }
        Err(refused) => Err(refused.status.code()),
    }
}

#[test]
fn request_head_is_parsed_with_framing_and_keep_alive() {
    let cases = [
        ("GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a b=c None keep"),
        ("GET /a HTTP/1.0\r\nHost: x\r\n\r\n", "GET /a  None close"),
        ("GET /a HTTP/1.0\r\n\r\n", "GET /a  None close"),
        ("GET /a HTTP/1.0\r\nhost: x\r\nConnection: Keep-Alive\r\n\r\n", "GET /a  None keep"),
        ("PUT /a HTTP/1.1\r\nHost: x\r\ncontent-length: 12\r\n\r\n", "PUT /a  Length(12) keep"),
        (
            "PUT /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n",
            "PUT /a  Chunked keep",
        ),
        ("GET /a HTTP/1.1\r\nHost: x\r\nConnection: x, close\r\n\r\n", "GET /a  None close"),
        ("GET http://h:1/a HTTP/1.1\r\nHost: x\r\n\r\n", "GET /a  None keep"),
        ("GET http://h HTTP/1.1\r\nHost: x\r\n\r\n", "GET /  None keep"),
        ("BREW /a HTTP/1.1\r\nHost: x\r\n\r\n", "? /a  None keep"),
        ("GET /a HTTP/1.1\r\nHost: x\r\n", "more"),
    ];
    for (text, read) in cases {
        assert_eq!(head(text).as_deref(), Ok(read), "{text:?}");
    }
}

#[test]
fn ambiguous_or_unsupported_request_head_is_refused() {
    let with = |headers: &str| head(&format!("PUT /a HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n"));
    for headers in [
        "Content-Length: 1\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 1",
        "Content-Length: 1\r\nContent-Length: 1",
        "Content-Length: 1\r\ncontent-LENGTH: 2",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Content-Length: +1",
        "Content-Length: 1, 1",
        "Content-Length: 0x1",
        "Content-Length: ",
        "Content-Length: 18446744073709551616",
        "Content-Length : 1",
        "Host: y",
        "If-Match: \"1\"\r\nif-match: \"2\"",
        "X-Credenza-Sesion: 1",
        "A: b\n",
        "A: b\r\n folded",
        "A\0: b",
        "A: b\0",
    ] {
        assert_eq!(with(headers), Err(400), "{headers:?}");
    }
    for (headers, status) in [
        ("Transfer-Encoding: gzip, chunked", 501),
        ("Transfer-Encoding: identity", 501),
        ("Expect: 200-ok", 417),
        ("Content-Encoding: gzip", 415),
    ] {
        assert_eq!(with(headers), Err(status), "{headers:?}");
    }
    for text in [
        "GET /a HTTP/1.1\r\n\r\n",
        "GET /a HTTP/1.1\nHost: x\n\n",
        "GET a HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /\u{e9} HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET  /a HTTP/1.1\r\nHost: x\r\n\r\n",
        "PUT /a HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        assert_eq!(head(text), Err(400), "{text:?}");
    }
    assert_eq!(head("GET /a HTTP/3.0\r\nHost: x\r\n\r\n"), Err(505));
}

#[test]
fn request_head_beyond_line_or_header_limit_is_refused() {
    let line = |length: usize| format!("GET /{} HTTP/1.1\r\n", "x".repeat(length - 16));
    let path = |length| format!("{}Host: x\r\n\r\n", line(length));
    assert!(head(&path(HTTP_LINE_BYTES_MAX - 1)).is_ok());
    assert!(head(&path(HTTP_LINE_BYTES_MAX)).is_ok());
    assert_eq!(head(&path(HTTP_LINE_BYTES_MAX + 1)), Err(414));
    assert_eq!(head(&format!("GET /{}", "x".repeat(HTTP_LINE_BYTES_MAX))), Err(414));
    let many = |count| format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert!(head(&many(HTTP_HEADERS_MAX - 1)).is_ok());
    assert_eq!(head(&many(HTTP_HEADERS_MAX)), Err(431));
    // The limit is the same whether a head arrives at once or in pieces.
    let begin = "Host: x\r\nA: ";
    for (length, fits) in [(HTTP_HEADER_BYTES_MAX, true), (HTTP_HEADER_BYTES_MAX + 1, false)] {
        let value = "b".repeat(length - begin.len() - 4);
        let whole = format!("GET / HTTP/1.1\r\n{begin}{value}\r\n\r\n");
        assert_eq!(head(&whole).is_ok(), fits, "{length}");
    }
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}", "b".repeat(64 * 1024));
    assert_eq!(head(&long), Err(431));
}

#[test]
fn blank_lines_before_a_request_are_skipped_up_to_a_limit() {
    let request = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    let read = head(&format!("\r\n\r\n{request}"));
    assert_eq!(read.as_deref(), Ok("GET /a  None keep"));
    assert_eq!(head("\r\n"), Ok("more".into()));
    assert_eq!(head(&"\r\n".repeat(HTTP_LINE_BYTES_MAX)), Err(414));
    assert_eq!(head("\n"), Err(400));
    assert_eq!(head(&format!("\r\n\n{request}")), Err(400));
}

fn unchunk(mut input: &[u8], step: usize) -> std::result::Result<Option<Vec<u8>>, RequestRefusal> {
    let mut chunks = Chunks::default();
    let mut body = Vec::new();
    let mut seen = 0;
    loop {
        match chunks.step(&input[..seen.min(input.len())])? {
            Decoded::Data(bytes, used) => {
                body.extend_from_slice(bytes);
                input = &input[used..];
                seen -= used;
            }
            Decoded::Skip(used) => {
                input = &input[used..];
                seen -= used;
            }
            Decoded::More if seen >= input.len() => return Ok(None),
            Decoded::More => seen = (seen + step).min(input.len()),
            Decoded::End => return Ok(Some(body)),
        }
    }
}

#[test]
fn chunked_body_decodes_from_pieces_of_any_size() {
    let input = b"3\r\nabc\r\nA;name=\"x\"\r\n0123456789\r\n0\r\nTrailer: y\r\n\r\n";
    for step in 1..=input.len() {
        assert_eq!(unchunk(input, step), Ok(Some(b"abc0123456789".to_vec())), "{step}");
        for length in 0..input.len() {
            assert_eq!(unchunk(&input[..length], step), Ok(None), "{length}");
        }
    }
}

#[test]
fn malformed_chunked_body_is_refused() {
    for input in [
        &b"x\r\n"[..],
        b"\r\n",
        b"-1\r\n",
        b"+1\r\n",
        b"0x1\r\n",
        b"1 \r\n",
        b"1\nabc",
        b"3\r\nabcd\r\n",
        b"3\r\nabc\n",
        b"ffffffffffffffff\r\n",
        b"1;\0\r\n",
        b"0\r\na\0: b\r\n\r\n",
        b"0\r\na: b\n\r\n",
    ] {
        assert!(unchunk(input, 1).is_err(), "{:?}", input.escape_ascii().to_string());
    }
    let long = [b"1;".as_slice(), &[b'x'; 300]].concat();
    assert!(unchunk(&long, 10).is_err());
    let trailers = [b"0\r\n".as_slice(), &b"a: b\r\n".repeat(1000)].concat();
    assert!(unchunk(&trailers, 10).is_err());
}

#[test]
fn chunk_line_or_trailer_beyond_its_limit_is_refused() {
    let size = |length: usize| [b"1;", &vec![b'x'; length - 2][..], b"\r\na\r\n0\r\n\r\n"].concat();
    // Two lines; the empty one at the end does not count.
    let trailer = |length: usize| {
        let half = [b"a: ", &vec![b'b'; length / 2 - 5][..], b"\r\n"].concat();
        let rest = [b"a: ", &vec![b'b'; length - length / 2 - 5][..], b"\r\n"].concat();
        [b"1\r\na\r\n0\r\n", &half[..], &rest[..], b"\r\n"].concat()
    };
    for step in [1, 7, 10_000] {
        for (length, accepted) in [(255, true), (256, true), (257, false)] {
            assert_eq!(
                unchunk(&size(length), step).is_ok(),
                accepted,
                "a size of {length}, {step}"
            );
        }
        for (length, accepted) in [(4_095, true), (4_096, true), (4_097, false)] {
            assert_eq!(unchunk(&trailer(length), step).is_ok(), accepted, "{length}, {step}");
        }
    }
}

proptest! {
    #[test]
    fn key_round_trips_through_percent_encoding(key: Vec<u8>) {
        let mut text = String::new();
        append_encoded(&mut text, &key);
        prop_assert_eq!(decode(&text, PlusMeaning::Plus), Some(key.clone().into()));
        prop_assert_eq!(decode(&text, PlusMeaning::Blank), Some(key.clone().into()));
    }

    #[test]
    fn arbitrary_bytes_never_panic_the_http_parsers(bytes: Vec<u8>, text: String) {
        let _ = head::parse(&bytes);
        let _ = unchunk(&bytes, 3);
        let _ = decode(&text, PlusMeaning::Blank);
    }
}

#[test]
fn malformed_percent_encoding_is_rejected() {
    for text in ["%", "%1", "%zz", "a%2", "%\u{e9}"] {
        assert_eq!(decode(text, PlusMeaning::Plus), None, "{text}");
    }
    assert_eq!(decode("a+b%20c", PlusMeaning::Blank).as_deref(), Some(&b"a b c"[..]));
    assert_eq!(decode("a+b", PlusMeaning::Plus).as_deref(), Some(&b"a+b"[..]));
    let mut text = String::new();
    append_plus_encoded(&mut text, b" a+b  c ");
    assert_eq!(text, "+a%2Bb++c+");
}

#[test]
fn master_header_names_the_master_and_cannot_inject_headers() {
    let encode_options =
        answer::EncodeOptions { keep_alive: true, head_only: false, is_http_10: false };
    let head = |master: Option<&str>| {
        let mut answer = HttpAnswer::new(StatusCode::NoContent, AnswerContent::None);
        answer.master = master.map(String::from);
        let mut out = Vec::new();
        answer.encode_head(&mut out, encode_options, date::DateCache::default().format_at(0));
        String::from_utf8(out).expect("text")
    };
    assert!(!head(None).contains("x-credenza-master"));
    assert!(head(Some("n2")).contains("\r\nx-credenza-master: n2\r\n"));
    assert!(head(None).contains("\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"));
    let hostile = head(Some("n2\r\nset-cookie: a=b"));
    assert!(!hostile.contains("\nset-cookie"), "{hostile}");
}

#[test]
fn event_stream_is_accepted_only_by_its_name() {
    let last_event = |headers: &str| {
        let bytes = format!("GET / HTTP/1.1\r\nhost: a\r\n{headers}\r\n");
        let Ok(Parsed::Head(head, _)) = head::parse(bytes.as_bytes()) else { panic!("{headers}") };
        head.last_event.map(|id| String::from_utf8_lossy(id).into_owned())
    };
    for accept in [
        "text/event-stream",
        "application/json, Text/Event-Stream;q=0.9",
        "*/*\r\naccept: text/event-stream",
    ] {
        assert_eq!(last_event(&format!("accept: {accept}\r\n")).as_deref(), Some(""), "{accept}");
    }
    for other in ["accept: */*\r\n", "accept: text/*\r\n", "accept: text/event-streams\r\n", ""] {
        assert_eq!(last_event(other), None, "{other}");
        assert_eq!(last_event(&format!("{other}last-event-id: AQ-_\r\n")), None, "{other}");
    }
    let accept = "accept: text/event-stream\r\n";
    assert_eq!(last_event(&format!("{accept}last-event-id: AQ-_\r\n")).as_deref(), Some("AQ-_"));
    assert_eq!(last_event(&format!("{accept}last-event-id:\r\n")).as_deref(), Some(""));
    let twice = b"GET / HTTP/1.1\r\nhost: a\r\nlast-event-id: a\r\nLast-Event-ID: b\r\n\r\n";
    assert!(head::parse(twice).is_err(), "ambiguous");
}

#[test]
fn http_dates_round_trip_and_obsolete_forms_are_parsed() {
    for (ms, text) in [
        (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (951_782_400_000, "Tue, 29 Feb 2000 00:00:00 GMT"),
        (1_795_252_102_000, "Sat, 21 Nov 2026 09:08:22 GMT"),
        (4_102_444_799_000, "Thu, 31 Dec 2099 23:59:59 GMT"),
    ] {
        assert_eq!(date::format(ms), text);
        assert_eq!(date::parse(text), Some(ms / 1_000));
    }
    for day in 0..60_000 {
        assert_eq!(date::parse(&date::format(day * 86_400_000)), Some(day * 86_400));
    }
    // The two obsolete forms, with the examples of RFC 9110.
    for text in ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
        assert_eq!(date::parse(text), Some(784_111_777), "{text}");
    }
    for text in [
        "",
        "Thu, 01 Jan 1970",
        "Thu, 01 Foo 1970 00:00:00 GMT",
        "Fri, 01 Jan 1970 00:00:00 GMT",
        "1, 1 Jan 1 1:1:1 GMT",
    ] {
        assert_eq!(date::parse(text), None, "{text}");
    }
    assert_eq!(date::format(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
}

#[test]
fn cached_date_equals_the_date_of_its_second() {
    let mut cache = date::DateCache::default();
    for ms in [0, 999, 1_000, 951_782_400_000, 951_782_399_999, 253_402_300_799_000] {
        assert_eq!(&cache.format_at(ms)[..], date::format(ms).as_bytes(), "{ms}");
        assert_eq!(&cache.format_at(ms)[..], date::format(ms).as_bytes(), "{ms}, again");
    }
    // A clock set to an absurd time does not corrupt the head.
    let printable = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    assert!(cache.format_at(u64::MAX).iter().all(printable));
}

#[test]
fn open_heads_have_up_to_512_headers_in_order() {
    for count in [0, 63, 64, 100, 510] {
        let more: String = (0..count).map(|at| format!("x-{at}: {at}\r\n")).collect();
        let bytes = format!("GET / HTTP/1.1\r\nhost: a\r\n{more}\r\n");
        let mut all = Vec::new();
        let parsed = head::parse_with_all_headers(bytes.as_bytes(), &mut all).expect("a head");
        assert!(
            matches!(parsed, Parsed::Head(head, used) if head.host == b"a" && used == bytes.len())
        );
        let expected = (0..count).map(|at| (format!("x-{at}"), format!("{at}").into()));
        assert_eq!(all[0], ("host".into(), "a".into()));
        assert_eq!(all[1..], expected.collect::<Vec<_>>());
    }
    for name in ["Host", "Content-Length", "Authorization", "Origin"] {
        let twice = format!("{name}: 1\r\n").repeat(2);
        let bytes = format!("GET / HTTP/1.1\r\nhost: a\r\n{twice}\r\n");
        let refused = head::parse_with_all_headers(bytes.as_bytes(), &mut Vec::new());
        assert_eq!(refused.expect_err("ambiguous").status, StatusCode::BadRequest, "{name}");
    }
    let more = "x: y\r\n".repeat(600);
    let bytes = format!("GET / HTTP/1.1\r\nhost: a\r\n{more}\r\n");
    let refused = head::parse_with_all_headers(bytes.as_bytes(), &mut Vec::new());
    assert_eq!(refused.expect_err("too many").status, StatusCode::HeadersTooLarge);
}
