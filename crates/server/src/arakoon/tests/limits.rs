//! Tests of every limit at its value and just beyond, through the real front-end.

use super::client::{TestClient, server};
use super::encoding::{request, string};
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

fn ask(client: &mut TestClient, name: &str, arguments: &[&str]) -> Vec<u8> {
    let arguments: Vec<String> = arguments.iter().map(|word| word.to_string()).collect();
    let (bytes, layout) = request(name, &arguments).expect("a request");
    client.request(&bytes, layout)
}

#[test]
fn oversized_key_or_value_is_refused_and_connection_stays_open() {
    let server = server();
    let mut client = TestClient::open(server.address, b"ricky");
    for (key, value, is_accepted) in [
        (KEY_BYTES_MAX, 1, true),
        (KEY_BYTES_MAX + 1, 1, false),
        (1, VALUE_BYTES_MAX, true),
        (1, VALUE_BYTES_MAX + 1, false),
        (0, 0, true),
    ] {
        let answer = client.request(&set(&vec![b'k'; key], &vec![b'v'; value]), "");
        assert_eq!(code(&answer), if is_accepted { 0 } else { 0x26 }, "{key} {value}");
        let has_limit_name = printable(&answer).contains("_bytes_max)");
        assert!(is_accepted || has_limit_name, "{}", printable(&answer));
    }
}

#[test]
fn idle_connection_is_ended_without_a_reply() {
    let server = server();
    let mut client = TestClient::open(server.address, b"ricky");
    assert_eq!(code(&client.request(&set(b"k", b"v"), "")), 0);
    server.end_idlest();
    assert_eq!(client.read_to_end(), b"", "it is ended without a word");
}

#[test]
fn oversized_or_negative_length_claim_is_refused_at_once() {
    let server = server();
    let cases: [(&str, u32, &[u8]); 4] = [
        ("GET", 0xb1ff_0008, &[0]),
        ("SET", 0xb1ff_0009, &[]),
        ("SEQUENCE", 0xb1ff_0010, &[]),
        ("MULTI_GET", 0xb1ff_0011, &[0]),
    ];
    for (name, word, prefix) in cases {
        let claim = if name == "MULTI_GET" { KEYS_PER_READ_MAX } else { FRAME_BYTES_MAX };
        let claimed = [&word.to_le_bytes()[..], prefix, &(claim as u32 + 1).to_le_bytes()].concat();
        let mut client = TestClient::open(server.address, b"ricky");
        client.send(&claimed);
        let answer = client.read_to_end();
        assert_eq!(code(&answer), 0x26, "{name}: {}", printable(&answer));
        let negative = [&word.to_le_bytes()[..], prefix, &(-1i32).to_le_bytes()].concat();
        let mut client = TestClient::open(server.address, b"ricky");
        client.send(&negative);
        let expected = "\\xff\\x00\\x00\\x00\\x0f\\x00\\x00\\x00unknown failure";
        assert_eq!(printable(&client.read_to_end()), expected, "{name}");
    }
}

#[test]
fn multi_get_option_accepts_keys_per_read_max_keys() {
    let server = server();
    let mut client = TestClient::open(server.address, b"ricky");
    let mut bytes = 0xb1ff_0031u32.to_le_bytes().to_vec();
    bytes.push(0);
    bytes.extend_from_slice(&(KEYS_PER_READ_MAX as u32).to_le_bytes());
    (0..KEYS_PER_READ_MAX).for_each(|_| string("k", &mut bytes));
    let answer = client.request(&bytes, "O");
    assert_eq!((code(&answer), answer.len()), (0, 8 + KEYS_PER_READ_MAX));
}

#[test]
fn sequence_beyond_step_or_depth_limit_is_refused() {
    let server = server();
    let mut client = TestClient::open(server.address, b"ricky");
    for (steps, is_accepted) in [(SEQUENCE_STEPS_MAX, true), (SEQUENCE_STEPS_MAX + 1, false)] {
        let mut blob = 5i32.to_le_bytes().to_vec();
        blob.extend_from_slice(&(steps as u32).to_le_bytes());
        (0..steps).for_each(|_| blob.extend_from_slice(&6i32.to_le_bytes()));
        let mut bytes = 0xb1ff_0010u32.to_le_bytes().to_vec();
        bytes.extend_from_slice(&(blob.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&blob);
        let answer = client.request(&bytes, "");
        assert_eq!(code(&answer), if is_accepted { 0 } else { 0x26 }, "{steps} steps");
    }
    for (depth, is_accepted) in [(SEQUENCE_DEPTH_MAX, true), (SEQUENCE_DEPTH_MAX + 1, false)] {
        let mut steps = vec!["sequence 1"; depth - 1];
        steps.push("set deep down");
        let answer = ask(&mut client, "SEQUENCE", &steps);
        assert_eq!(
            code(&answer),
            if is_accepted { 0 } else { 0x26 },
            "{depth}: {}",
            printable(&answer)
        );
    }
}

#[test]
fn range_reply_is_complete_and_ordered_up_to_its_byte_limit() {
    let server = server();
    let mut client = TestClient::open(server.address, b"ricky");
    let rows = 3_000;
    let steps: Vec<String> = (0..rows).map(|row| format!("set k{row:06} v{row}")).collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    assert_eq!(code(&ask(&mut client, "SEQUENCE", &steps)), 0);
    for (max, expected) in [("-1", rows), ("0", 0), ("1", 1), ("2999", 2_999), ("5000", rows)] {
        let answer =
            ask(&mut client, "RANGE", &["consistent", "none", "false", "none", "false", max]);
        let count = u32::from_le_bytes(*answer[4..].first_chunk().expect("a count"));
        assert_eq!(count as usize, expected, "max {max}");
        // Entries are descending on the wire and counted from the first bound, so the last of those
        // wanted comes first.
        if let Some(last) = expected.checked_sub(1) {
            assert_eq!(answer[12..19], *format!("k{last:06}").as_bytes(), "max {max}");
        }
    }
    // The range exceeds a page and is still one answer.
    let large = vec![b'v'; 3 << 20];
    for key in ["l1", "l2", "l3"] {
        assert_eq!(code(&client.request(&set(key.as_bytes(), &large), "")), 0);
    }
    let range = ["consistent", "l", "true", "none", "false", "-1"];
    let answer = ask(&mut client, "RANGE_ENTRIES", &range);
    assert_eq!(answer.len(), 8 + 3 * (4 + 2 + 4 + large.len()));
    assert_eq!(answer[12..14], *b"l3");
    // The range exceeds the maximum of an answer.
    for key in 0..12 {
        assert_eq!(code(&client.request(&set(format!("m{key:02}").as_bytes(), &large), "")), 0);
    }
    let answer = ask(&mut client, "RANGE_ENTRIES", &range);
    assert_eq!(code(&answer), 0x26, "{}", printable(&answer[..8]));
    assert!(printable(&answer).contains("whole_range_bytes_max"), "{}", printable(&answer));
    let answer = ask(&mut client, "REV_RANGE_ENTRIES", &["dirty", "n", "true", "m", "true", "3"]);
    assert_eq!(answer[12..15], *b"m09", "ascending on the wire");
    let answer = ask(&mut client, "RANGE", &range);
    assert_eq!((code(&answer), answer[4]), (0, 15), "keys alone fit");
}

#[test]
fn connection_beyond_limit_is_refused_with_too_many_clients() {
    let settings = ServerSettings {
        connections_max: 1,
        arakoon_clusters: vec!["ricky".into()],
        ..ServerSettings::default()
    };
    let server = TestServer::with_name("arakoon_0", settings);
    let mut client = TestClient::open(server.address, b"ricky");
    assert_eq!(code(&ask(&mut client, "WHO_MASTER", &[])), 0);
    let mut second_client = TestClient::open(server.address, b"ricky");
    let expected = "\\xfe\\x00\\x00\\x00\\x10\\x00\\x00\\x00too many clients";
    assert_eq!(printable(&second_client.read_to_end()), expected);
}

#[test]
fn arakoon_only_port_closes_connections_of_other_protocols() {
    let settings = ServerSettings {
        arakoon_listen: vec!["127.0.0.1:0".parse().expect("an address")],
        arakoon_clusters: vec!["ricky".into()],
        ..ServerSettings::default()
    };
    let server = TestServer::with_name("arakoon_0", settings);
    let address = server.addresses[1];
    let mut client = TestClient::open(address, b"ricky");
    assert_eq!(code(&ask(&mut client, "NOP", &[])), 0);
    for other in [&b"PING\r\n"[..], b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\x16\x03\x01"] {
        let mut client = TestClient::connect(address);
        client.send(other);
        assert_eq!(printable(&client.read_to_end()), "", "closed without a byte");
    }
}

#[test]
fn cluster_is_served_if_its_bucket_exists_or_is_configured() {
    let server = server();
    let mut unknown_client = TestClient::open(server.address, b"lefty");
    unknown_client.send(&request("WHO_MASTER", &[]).expect("a request").0);
    assert_eq!(printable(&unknown_client.read_to_end()), "", "closed without a byte");
    let bucket = BucketName::new("arakoon", "lefty").expect("a name");
    let directory =
        |call| Request { bucket: bucket.clone(), call: Call::Directory(call), retry: None };
    server.call(directory(DirectoryCall::CreateType(Vec::new()))).expect("made");
    server.call(directory(DirectoryCall::CreateBucket(Vec::new()))).expect("made");
    let mut lefty = TestClient::open(server.address, b"lefty");
    assert_eq!(code(&ask(&mut lefty, "SET", &["k", "left"])), 0);
    let mut ricky = TestClient::open(server.address, b"ricky");
    assert_eq!(code(&ask(&mut ricky, "GET", &["consistent", "k"])), 5, "clusters share nothing");
    let read = Call::Read(Read::Get("k".into()), ReadLevel::Consistent);
    let seen = server.call(Request { bucket: bucket.clone(), call: read, retry: None });
    assert!(format!("{seen:?}").contains("left"), "it is a bucket like any other: {seen:?}");
    // Dropping the bucket ends the cluster for its clients.
    server.call(directory(DirectoryCall::DropBucket)).expect("dropped");
    let answer = ask(&mut lefty, "GET", &["consistent", "k"]);
    assert_eq!(printable(&answer[8..]), "Wrong cluster");
    assert_eq!(lefty.read_to_end(), b"");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = server();
    let mut client = TestClient::open(server.address, b"ricky");
    let mut bytes = Vec::new();
    let count = 12_000;
    for number in 0..count {
        let arguments = ["n".to_string(), number.to_string()];
        bytes.extend(request("REPLACE", &arguments).expect("a request").0);
        if number % 1_000 == 0 {
            let range = ["consistent", "n", "true", "n", "true", "-1"].map(String::from);
            bytes.extend(request("RANGE_ENTRIES", &range).expect("a request").0);
        }
    }
    client.send(&bytes);
    for number in 0..count {
        let answer = client.answer("o").expect("an answer");
        let expected = if number == 0 { Vec::new() } else { (number - 1).to_string().into_bytes() };
        assert_eq!(answer.get(9..).unwrap_or_default(), expected, "{number}");
        if number % 1_000 == 0 {
            let answer = client.answer("P").expect("an answer");
            let expected = number.to_string();
            assert!(
                answer.ends_with(expected.as_bytes()),
                "a range sees what was written before it"
            );
        }
    }
}
