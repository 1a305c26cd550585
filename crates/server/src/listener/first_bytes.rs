//! Protocol detection from the first bytes of a connection. Pure.

use crate::riak::FIRST_SEGMENTS;

/// Protocol that the first bytes indicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// Too few bytes to decide.
    More,
    /// HTTP/1.
    Http,
    /// HTTP/1 with one of Riak's paths.
    Riak,
    /// Redis' protocol, framed or inline.
    Resp,
    /// Arakoon's client protocol.
    Arakoon,
    /// Riak's Protocol Buffers.
    RiakPbc,
    /// The same, and the client wishes to begin TLS.
    RiakPbcStartTls,
    /// A protocol that this port does not serve.
    Foreign(ForeignProtocol),
}

/// Foreign protocols that have a refusal of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignProtocol {
    /// memcached's lines.
    MemcachedText,
    /// memcached's old binary protocol.
    MemcachedBinary,
    /// Tokyo Tyrant's binary protocol.
    Tyrant,
    /// A TLS handshake.
    Tls,
    /// HTTP/2 without TLS.
    Http2,
    /// None of these.
    Unknown,
}

impl ForeignProtocol {
    /// Returns its name, for the log.
    pub fn name(self) -> &'static str {
        match self {
            ForeignProtocol::MemcachedText => "memcached text",
            ForeignProtocol::MemcachedBinary => "memcached binary",
            ForeignProtocol::Tyrant => "Tokyo Tyrant",
            ForeignProtocol::Tls => "TLS",
            ForeignProtocol::Http2 => "HTTP/2",
            ForeignProtocol::Unknown => "unknown",
        }
    }
}

/// A first line longer than this is told by what stands in it so far.
pub const FIRST_BYTES_MAX: usize = 512;

/// First byte of a TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;
const ARAKOON_MAGIC: [u8; 4] = [0x00, 0x00, 0xff, 0xb1];
/// Frame `RpbStartTls`, and the answer to it.
pub const START_TLS: [u8; 5] = [0x00, 0x00, 0x00, 0x01, 0xff];
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";
/// HTTP methods that are no Redis command. `GET` is both: the end of its line decides.
const HTTP_METHODS: [&[u8]; 9] =
    [b"POST", b"PUT", b"HEAD", b"DELETE", b"PATCH", b"OPTIONS", b"TRACE", b"CONNECT", b"PROPFIND"];
/// Verbs of memcached. Where an inline command of Redis is the same (`get k`), memcached wins:
/// Redis' tools send upper case.
const MEMCACHED_VERBS: [&[u8]; 27] = [
    b"get",
    b"gets",
    b"set",
    b"add",
    b"replace",
    b"append",
    b"prepend",
    b"cas",
    b"gat",
    b"gats",
    b"touch",
    b"delete",
    b"incr",
    b"decr",
    b"flush_all",
    b"version",
    b"verbosity",
    b"stats",
    b"mg",
    b"ms",
    b"md",
    b"ma",
    b"mn",
    b"me",
    b"quit",
    b"watch",
    b"lru",
];

/// Detects the protocol. Returns `More` until the bytes suffice.
pub fn detect(first: &[u8]) -> FirstBytes {
    let blank = first.iter().take_while(|&&byte| byte == b'\r' || byte == b'\n').count();
    let first = &first[blank..];
    let Some(&lead) = first.first() else {
        return if blank > FIRST_BYTES_MAX {
            FirstBytes::Foreign(ForeignProtocol::Unknown)
        } else {
            FirstBytes::More
        };
    };
    match lead {
        b'*' => FirstBytes::Resp,
        0x80 => FirstBytes::Foreign(ForeignProtocol::MemcachedBinary),
        0xC8 => FirstBytes::Foreign(ForeignProtocol::Tyrant),
        TLS_HANDSHAKE => FirstBytes::Foreign(ForeignProtocol::Tls),
        0x00 => match_magic(first, &ARAKOON_MAGIC, FirstBytes::Arakoon),
        0x21..=0x7e => detect_by_method(first),
        _ => FirstBytes::Foreign(ForeignProtocol::Unknown),
    }
}

/// Compares the first bytes with Arakoon's magic number, on a port that serves nothing else.
pub fn detect_arakoon(first: &[u8]) -> FirstBytes {
    if first.first() == Some(&TLS_HANDSHAKE) {
        return FirstBytes::Foreign(ForeignProtocol::Tls);
    }
    match_magic(first, &ARAKOON_MAGIC, FirstBytes::Arakoon)
}

/// Detects Riak's Protocol Buffers, on a port that serves nothing else: any frame whose length is
/// allowed, as its first byte shows.
pub fn detect_pbc(first: &[u8]) -> FirstBytes {
    match first {
        [] => FirstBytes::More,
        [TLS_HANDSHAKE, ..] => FirstBytes::Foreign(ForeignProtocol::Tls),
        [0, ..] if first.starts_with(&START_TLS) => FirstBytes::RiakPbcStartTls,
        [0, ..] if START_TLS.starts_with(first) => FirstBytes::More,
        [0, ..] => FirstBytes::RiakPbc,
        _ => FirstBytes::Foreign(ForeignProtocol::Unknown),
    }
}

fn match_magic(first: &[u8], magic: &[u8], protocol: FirstBytes) -> FirstBytes {
    if first.starts_with(magic) {
        protocol
    } else if magic.starts_with(first) {
        FirstBytes::More
    } else {
        FirstBytes::Foreign(ForeignProtocol::Unknown)
    }
}

fn detect_by_method(first: &[u8]) -> FirstBytes {
    let end = first.iter().position(|byte| matches!(byte, b' ' | b'\r' | b'\n'));
    let Some(end) = end else {
        return if first.len() < FIRST_BYTES_MAX { FirstBytes::More } else { FirstBytes::Resp };
    };
    let method = &first[..end];
    if HTTP_METHODS.contains(&method) {
        detect_by_path(&first[end..])
    } else if method == b"PRI" {
        match match_magic(first, HTTP2_PREFACE, FirstBytes::Foreign(ForeignProtocol::Http2)) {
            FirstBytes::Foreign(ForeignProtocol::Unknown) => FirstBytes::Resp,
            protocol => protocol,
        }
    } else if method == b"GET" {
        detect_get(first)
    } else if MEMCACHED_VERBS.contains(&method) {
        FirstBytes::Foreign(ForeignProtocol::MemcachedText)
    } else {
        FirstBytes::Resp
    }
}

fn detect_get(first: &[u8]) -> FirstBytes {
    match first.iter().position(|&byte| byte == b'\n') {
        Some(end) => {
            let line = first[..end].strip_suffix(b"\r").unwrap_or(&first[..end]);
            let is_http = line.windows(6).any(|window| window == b" HTTP/");
            if is_http { detect_by_path(&first[3..]) } else { FirstBytes::Resp }
        }
        // A key and a path are indistinguishable before the line ends, unless the line is longer
        // than a typed one.
        None if first.len() < FIRST_BYTES_MAX => FirstBytes::More,
        None if first[4..].starts_with(b"/") => detect_by_path(&first[3..]),
        None => FirstBytes::Resp,
    }
}

/// Distinguishes Riak's requests from native ones by the path's first segment; `line` begins with
/// the blank behind the method.
fn detect_by_path(line: &[u8]) -> FirstBytes {
    let Some(rest) = line.get(1..) else { return FirstBytes::More };
    let Some(rest) = rest.strip_prefix(b"/") else {
        return if rest.is_empty() { FirstBytes::More } else { FirstBytes::Http };
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b' ' | b'\r' | b'\n'));
    let is_riak = |segment: &[u8]| FIRST_SEGMENTS.iter().any(|known| known.as_bytes() == segment);
    match end {
        Some(end) if is_riak(&rest[..end]) => FirstBytes::Riak,
        // Riak's clients request `/` first to find the resources. Any native request that follows
        // on the connection is handed over to the native front-end.
        Some(0) if rest[0] == b' ' => FirstBytes::Riak,
        None if FIRST_SEGMENTS.iter().any(|known| known.as_bytes().starts_with(rest)) => {
            FirstBytes::More
        }
        _ => FirstBytes::Http,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocol_is_detected_from_its_first_bytes() {
        let long = format!("GET /v1/{}", "x".repeat(600));
        let cases: [(&[u8], FirstBytes); 33] = [
            (b"POST http://x/", FirstBytes::Http),
            (b"PUT /bucket", FirstBytes::More),
            (b"PUT /buckets/", FirstBytes::Riak),
            (b"PUT /bucketsx", FirstBytes::Http),
            (b"GET /riak?buckets=true HTTP/1.1\r\n", FirstBytes::Riak),
            (b"GET /ping HTTP/1.1\r\n", FirstBytes::Riak),
            (b"POST /mapred HTTP/1.1\r\n", FirstBytes::Riak),
            (b"GET /solr/books/select?q=x HTTP/1.1\r\n", FirstBytes::Riak),
            (b"GET /status HTTP/1.1\r\n", FirstBytes::Http),
            (b"", FirstBytes::More),
            (b"\r\n", FirstBytes::More),
            (b"*1\r\n$4\r\nPING\r\n", FirstBytes::Resp),
            (b"PING\r\n", FirstBytes::Resp),
            (b"ping\r\n", FirstBytes::Resp),
            (b"\r\nPING\r\n", FirstBytes::Resp),
            (b"GET k\r\n", FirstBytes::Resp),
            (b"GET /k HTTP\r\n", FirstBytes::Resp),
            (b"GET /", FirstBytes::More),
            (b"GET / HTTP/1.1\r\n", FirstBytes::Riak),
            (b"GET / HTTP/1.0\n", FirstBytes::Riak),
            (long.as_bytes(), FirstBytes::Http),
            (b"POST ", FirstBytes::More),
            (b"DELETE /v1", FirstBytes::Http),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", FirstBytes::Foreign(ForeignProtocol::Http2)),
            (b"PRI * HT", FirstBytes::More),
            (b"get k\r\n", FirstBytes::Foreign(ForeignProtocol::MemcachedText)),
            (b"version\r\n", FirstBytes::Foreign(ForeignProtocol::MemcachedText)),
            (b"\x80\x00", FirstBytes::Foreign(ForeignProtocol::MemcachedBinary)),
            (b"\xc8\x10", FirstBytes::Foreign(ForeignProtocol::Tyrant)),
            (b"\x16\x03\x01", FirstBytes::Foreign(ForeignProtocol::Tls)),
            (b"\x00\x00", FirstBytes::More),
            (b"\x00\x00\xff\xb1\x01", FirstBytes::Arakoon),
            (b"\x00\x01", FirstBytes::Foreign(ForeignProtocol::Unknown)),
        ];
        for (bytes, protocol) in cases {
            assert_eq!(detect(bytes), protocol, "{:?}", bytes.escape_ascii().to_string());
        }
    }

    #[test]
    fn arakoon_port_recognizes_its_magic_number_and_tls_alone() {
        assert_eq!(detect_arakoon(b"\x16"), FirstBytes::Foreign(ForeignProtocol::Tls));
        assert_eq!(detect_arakoon(b"\x00\x00\xff\xb1"), FirstBytes::Arakoon);
        assert_eq!(detect_arakoon(b"*"), FirstBytes::Foreign(ForeignProtocol::Unknown));
    }

    #[test]
    fn detected_protocol_is_stable_as_more_bytes_arrive() {
        let whole: [&[u8]; 6] = [
            b"DELETE /types/t/buckets/b/keys/k HTTP/1.1\r\n",
            b"GET /v1/buckets HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET key\r\nGET other\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x00\x00\xff\xb1\x01\x00\x00\x00",
            b"set k 0 0 1\r\nx\r\n",
        ];
        for bytes in whole {
            let expected = detect(bytes);
            for length in 0..bytes.len() {
                let protocol = detect(&bytes[..length]);
                assert!(
                    protocol == FirstBytes::More || protocol == expected,
                    "{length} of {bytes:?}"
                );
            }
        }
    }

    #[test]
    fn protocol_is_decided_beyond_first_bytes_max() {
        for lead in 0..=255u8 {
            assert_ne!(detect(&[lead; FIRST_BYTES_MAX + 1]), FirstBytes::More, "{lead}");
        }
    }
}
