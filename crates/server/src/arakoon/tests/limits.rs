//! Tests of every limit at its value and just beyond, through the real front-end.

use super::encoding::{request, string};
use super::guest::{Guest, server};
use crate::ServerSettings;
use crate::tests::test_server::TestServer;
use base::codec::printable;
use base::limits::{
    FRAME_BYTES_MAX, KEY_BYTES_MAX, KEYS_PER_READ_MAX, SEQUENCE_DEPTH_MAX, SEQUENCE_STEPS_MAX,
    VALUE_BYTES_MAX,
};
use base::{BucketName, Call, DirectoryCall, Read, ReadLevel, Request};

fn code(answer: &[u8]) -> u8 {
    answer[0]
}

fn set(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = 0xb1ff_0009u32.to_le_bytes().to_vec();
    for part in [key, value] {
        bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

fn ask(guest: &mut Guest, name: &str, words: &[&str]) -> Vec<u8> {
    let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
    let (bytes, layout) = request(name, &words).expect("a request");
    guest.ask(&bytes, layout)
}

#[test]
fn keys_and_values_end_at_their_limits_and_the_connection_goes_on() {
    let server = server();
    let mut guest = Guest::of(server.address, b"ricky");
    for (key, value, taken) in [
        (KEY_BYTES_MAX, 1, true),
        (KEY_BYTES_MAX + 1, 1, false),
        (1, VALUE_BYTES_MAX, true),
        (1, VALUE_BYTES_MAX + 1, false),
        (0, 0, true),
    ] {
        let answer = guest.ask(&set(&vec![b'k'; key], &vec![b'v'; value]), "");
        assert_eq!(code(&answer), if taken { 0 } else { 0x26 }, "{key} {value}");
        let named = printable(&answer).contains("_bytes_max)");
        assert!(taken || named, "{}", printable(&answer));
    }
}

#[test]
fn an_idle_connection_gives_its_place_to_others() {
    let server = server();
    let mut guest = Guest::of(server.address, b"ricky");
    assert_eq!(code(&guest.ask(&set(b"k", b"v"), "")), 0);
    server.end_idlest();
    assert_eq!(guest.rest(), b"", "it is ended without a word");
}

#[test]
fn frames_and_lists_that_claim_too_much_are_refused_at_once() {
    let server = server();
    let cases: [(&str, u32, &[u8]); 4] = [
        ("GET", 0xb1ff_0008, &[0]),
        ("SET", 0xb1ff_0009, &[]),
        ("SEQUENCE", 0xb1ff_0010, &[]),
        ("MULTI_GET", 0xb1ff_0011, &[0]),
    ];
    for (name, word, before) in cases {
        let claim = if name == "MULTI_GET" { KEYS_PER_READ_MAX } else { FRAME_BYTES_MAX };
        let claimed = [&word.to_le_bytes()[..], before, &(claim as u32 + 1).to_le_bytes()].concat();
        let mut guest = Guest::of(server.address, b"ricky");
        guest.send(&claimed);
        let answer = guest.rest();
        assert_eq!(code(&answer), 0x26, "{name}: {}", printable(&answer));
        let negative = [&word.to_le_bytes()[..], before, &(-1i32).to_le_bytes()].concat();
        let mut guest = Guest::of(server.address, b"ricky");
        guest.send(&negative);
        let wanted = "\\xff\\x00\\x00\\x00\\x0f\\x00\\x00\\x00unknown failure";
        assert_eq!(printable(&guest.rest()), wanted, "{name}");
    }
}

#[test]
fn many_keys_are_asked_for_up_to_their_limit() {
    let server = server();
    let mut guest = Guest::of(server.address, b"ricky");
    let mut bytes = 0xb1ff_0031u32.to_le_bytes().to_vec();
    bytes.push(0);
    bytes.extend_from_slice(&(KEYS_PER_READ_MAX as u32).to_le_bytes());
    (0..KEYS_PER_READ_MAX).for_each(|_| string("k", &mut bytes));
    let answer = guest.ask(&bytes, "O");
    assert_eq!((code(&answer), answer.len()), (0, 8 + KEYS_PER_READ_MAX));
}

#[test]
fn sequences_end_at_their_steps_and_levels() {
    let server = server();
    let mut guest = Guest::of(server.address, b"ricky");
    for (steps, taken) in [(SEQUENCE_STEPS_MAX, true), (SEQUENCE_STEPS_MAX + 1, false)] {
        let mut blob = 5i32.to_le_bytes().to_vec();
        blob.extend_from_slice(&(steps as u32).to_le_bytes());
        (0..steps).for_each(|_| blob.extend_from_slice(&6i32.to_le_bytes()));
        let mut bytes = 0xb1ff_0010u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&(blob.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&blob);
        let answer = guest.ask(&bytes, "");
        assert_eq!(code(&answer), if taken { 0 } else { 0x26 }, "{steps} steps");
    }
    for (depth, taken) in [(SEQUENCE_DEPTH_MAX, true), (SEQUENCE_DEPTH_MAX + 1, false)] {
        let mut steps = vec!["sequence 1"; depth - 1];
        steps.push("set deep down");
        let answer = ask(&mut guest, "SEQUENCE", &steps);
        assert_eq!(code(&answer), if taken { 0 } else { 0x26 }, "{depth}: {}", printable(&answer));
    }
}

#[test]
fn ranges_of_any_length_are_whole_and_in_order() {
    let server = server();
    let mut guest = Guest::of(server.address, b"ricky");
    let rows = 3_000;
    let steps: Vec<String> = (0..rows).map(|row| format!("set k{row:06} v{row}")).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    assert_eq!(code(&ask(&mut guest, "SEQUENCE", &steps)), 0);
    for (max, wanted) in [("-1", rows), ("0", 0), ("1", 1), ("2999", 2_999), ("5000", rows)] {
        let answer =
            ask(&mut guest, "RANGE", &["consistent", "none", "false", "none", "false", max]);
        let count = u32::from_le_bytes(*answer[4..].first_chunk().expect("a count"));
        assert_eq!(count as usize, wanted, "max {max}");
        // Entries are descending on the wire and counted from the first bound, so the last of those
        // wanted comes first.
        if let Some(last) = wanted.checked_sub(1) {
            assert_eq!(answer[12..19], *format!("k{last:06}").as_bytes(), "max {max}");
        }
    }
    // The range exceeds a page and is still one answer.
    let large = vec![b'v'; 3 << 20];
    for key in ["l1", "l2", "l3"] {
        assert_eq!(code(&guest.ask(&set(key.as_bytes(), &large), "")), 0);
    }
    let range = ["consistent", "l", "true", "none", "false", "-1"];
    let answer = ask(&mut guest, "RANGE_ENTRIES", &range);
    assert_eq!(answer.len(), 8 + 3 * (4 + 2 + 4 + large.len()));
    assert_eq!(answer[12..14], *b"l3");
    // The range exceeds the maximum of an answer.
    for key in 0..12 {
        assert_eq!(code(&guest.ask(&set(format!("m{key:02}").as_bytes(), &large), "")), 0);
    }
    let answer = ask(&mut guest, "RANGE_ENTRIES", &range);
    assert_eq!(code(&answer), 0x26, "{}", printable(&answer[..8]));
    assert!(printable(&answer).contains("whole_range_bytes_max"), "{}", printable(&answer));
    let answer = ask(&mut guest, "REV_RANGE_ENTRIES", &["dirty", "n", "true", "m", "true", "3"]);
    assert_eq!(answer[12..15], *b"m09", "ascending on the wire");
    let answer = ask(&mut guest, "RANGE", &range);
    assert_eq!((code(&answer), answer[4]), (0, 15), "keys alone fit");
}

#[test]
fn one_connection_too_many_is_told_so() {
    let settings = ServerSettings {
        connections_max: 1,
        arakoon_clusters: vec!["ricky".into()],
        ..ServerSettings::default()
    };
    let server = TestServer::named("arakoon_0", settings);
    let mut guest = Guest::of(server.address, b"ricky");
    assert_eq!(code(&ask(&mut guest, "WHO_MASTER", &[])), 0);
    let mut late = Guest::of(server.address, b"ricky");
    let wanted = "\\xfe\\x00\\x00\\x00\\x10\\x00\\x00\\x00too many clients";
    assert_eq!(printable(&late.rest()), wanted);
}

#[test]
fn a_port_of_its_own_speaks_nothing_else() {
    let settings = ServerSettings {
        arakoon_listen: vec!["127.0.0.1:0".parse().expect("an address")],
        arakoon_clusters: vec!["ricky".into()],
        ..ServerSettings::default()
    };
    let server = TestServer::named("arakoon_0", settings);
    let address = server.addresses[1];
    let mut guest = Guest::of(address, b"ricky");
    assert_eq!(code(&ask(&mut guest, "NOP", &[])), 0);
    for other in [&b"PING\r\n"[..], b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\x16\x03\x01"] {
        let mut guest = Guest::silent(address);
        guest.send(other);
        assert_eq!(printable(&guest.rest()), "", "closed without a byte");
    }
}

#[test]
fn a_cluster_is_served_if_its_bucket_is_there_or_the_settings_name_it() {
    let server = server();
    let mut stranger = Guest::of(server.address, b"lefty");
    stranger.send(&request("WHO_MASTER", &[]).expect("a request").0);
    assert_eq!(printable(&stranger.rest()), "", "closed without a byte");
    let bucket = BucketName::new("arakoon", "lefty").expect("a name");
    let directory =
        |call| Request { bucket: bucket.clone(), call: Call::Directory(call), retry: None };
    server.ask(directory(DirectoryCall::CreateType(Vec::new()))).expect("made");
    server.ask(directory(DirectoryCall::CreateBucket(Vec::new()))).expect("made");
    let mut lefty = Guest::of(server.address, b"lefty");
    assert_eq!(code(&ask(&mut lefty, "SET", &["k", "left"])), 0);
    let mut ricky = Guest::of(server.address, b"ricky");
    assert_eq!(code(&ask(&mut ricky, "GET", &["consistent", "k"])), 5, "clusters share nothing");
    let read = Call::Read(Read::Get("k".into()), ReadLevel::Consistent);
    let seen = server.ask(Request { bucket: bucket.clone(), call: read, retry: None });
    assert!(format!("{seen:?}").contains("left"), "it is a bucket like any other: {seen:?}");
    // Dropping the bucket ends the cluster for its clients.
    server.ask(directory(DirectoryCall::DropBucket)).expect("dropped");
    let answer = ask(&mut lefty, "GET", &["consistent", "k"]);
    assert_eq!(printable(&answer[8..]), "Wrong cluster");
    assert_eq!(lefty.rest(), b"");
}

#[test]
fn many_requests_on_the_way_are_answered_in_order() {
    let server = server();
    let mut guest = Guest::of(server.address, b"ricky");
    let mut bytes = Vec::new();
    let count = 12_000;
    for number in 0..count {
        let words = ["n".to_string(), number.to_string()];
        bytes.extend(request("REPLACE", &words).expect("a request").0);
        if number % 1_000 == 0 {
            let range = ["consistent", "n", "true", "n", "true", "-1"].map(String::from);
            bytes.extend(request("RANGE_ENTRIES", &range).expect("a request").0);
        }
    }
    guest.send(&bytes);
    for number in 0..count {
        let answer = guest.answer("o").expect("an answer");
        let wanted = if number == 0 { Vec::new() } else { (number - 1).to_string().into_bytes() };
        assert_eq!(answer.get(9..).unwrap_or_default(), wanted, "{number}");
        if number % 1_000 == 0 {
            let answer = guest.answer("P").expect("an answer");
            let wanted = number.to_string();
            assert!(answer.ends_with(wanted.as_bytes()), "a range sees what was written before it");
        }
    }
}
