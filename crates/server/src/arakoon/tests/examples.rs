//! Tests of the worked examples in the protocol's description, byte for byte.

use super::client::{TestClient, server};
use crate::arakoon::errors::ArakoonRefusal;
use crate::arakoon::statistics::{NodeFigures, NumberSeries, Statistics};
use crate::arakoon::values::Wire;
use crate::arakoon::{nursery, translate};
use base::{Error, LogIndex, Reason};
use node::{BucketPlacement, PlacedMember};

/// Parses pairs of hexadecimal digits.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Returns a client that sent the prologue of the first example.
fn connect_to_ricky(address: std::net::SocketAddr) -> TestClient {
    let mut client = TestClient::connect(address);
    client.send(&hex("00 00 ff b1 01 00 00 00 05 00 00 00 72 69 63 6b 79"));
    client
}

fn check_exchanges(client: &mut TestClient, exchanges: &[(&str, &str, &str)]) {
    for (request, layout, answer) in exchanges {
        let received = client.request(&hex(request), layout);
        assert_eq!(received, hex(answer), "{request}");
    }
}

const OK: &str = "00 00 00 00";
const SET_FOO_BAR: &str = "09 00 ff b1 03 00 00 00 66 6f 6f 03 00 00 00 62 61 72";
const GET_FOO: &str = "08 00 ff b1 00 03 00 00 00 66 6f 6f";
const BAR: &str = "00 00 00 00 03 00 00 00 62 61 72";

#[test]
fn single_key_commands_match_documented_bytes() {
    let server = server();
    let mut client = connect_to_ricky(server.address);
    check_exchanges(
        &mut client,
        &[
            (
                "01 00 ff b1 02 00 00 00 6d 65 05 00 00 00 72 69 63 6b 79",
                "s",
                "00 00 00 00 0e 00 00 00 41 72 61 6b 6f 6f 6e 20 31 2e 39 2e 32 35",
            ),
            ("02 00 ff b1", "o", "00 00 00 00 01 09 00 00 00 61 72 61 6b 6f 6f 6e 5f 30"),
            (GET_FOO, "s", "05 00 00 00 09 00 00 00 4e 6f 74 5f 66 6f 75 6e 64"),
            (SET_FOO_BAR, "", OK),
            (GET_FOO, "s", BAR),
            ("08 00 ff b1 01 03 00 00 00 66 6f 6f", "s", BAR),
            ("07 00 ff b1 02 01 00 00 00 00 00 00 00 03 00 00 00 66 6f 6f", "b", "00 00 00 00 01"),
            ("0a 00 ff b1 03 00 00 00 66 6f 6f", "", OK),
            ("0d 00 ff b1 01 00 00 00 6b 00 01 01 00 00 00 76", "o", "00 00 00 00 00"),
            ("33 00 ff b1 01 00 00 00 6b 00", "o", "00 00 00 00 01 01 00 00 00 76"),
            ("14 00 ff b1 03 00 00 00", "i", "00 00 00 00 00 00 00 00"),
        ],
    );
    let answer = client.request(&hex("15 00 ff b1 01 00 00 00 66 00"), "o");
    assert_eq!(answer[..4], hex("26 00 00 00"), "there are no user functions");
    // A read at index 7, before and after the node has applied it.
    let at_seven = hex("07 00 ff b1 02 07 00 00 00 00 00 00 00 03 00 00 00 66 6f 6f");
    for _ in 0..20 {
        client.request(&hex(SET_FOO_BAR), "");
    }
    assert_eq!(client.request(&at_seven, "b"), hex("00 00 00 00 01"));
}

fn write_keys(client: &mut TestClient, rows: &[(&str, &str)]) {
    for (key, value) in rows {
        let mut request = hex("09 00 ff b1");
        request.text(key.as_bytes());
        request.text(value.as_bytes());
        assert_eq!(client.request(&request, ""), hex(OK));
    }
}

#[test]
fn list_and_range_replies_match_documented_order() {
    let server = server();
    let mut client = connect_to_ricky(server.address);
    write_keys(&mut client, &[("k1", "v1"), ("k2", "v2"), ("k3", "v3")]);
    check_exchanges(
        &mut client,
        &[
            (
                "0b 00 ff b1 00 01 01 00 00 00 61 01 00 00 ff ff ff ff",
                "S",
                "00 00 00 00 03 00 00 00 02 00 00 00 6b 33 02 00 00 00 6b 32 02 00 00 00 6b 31",
            ),
            (
                "11 00 ff b1 00 02 00 00 00 02 00 00 00 6b 31 02 00 00 00 6b 32",
                "S",
                "00 00 00 00 02 00 00 00 02 00 00 00 76 32 02 00 00 00 76 31",
            ),
            (
                "31 00 ff b1 00 02 00 00 00 02 00 00 00 6b 31 02 00 00 00 7a 7a",
                "O",
                "00 00 00 00 02 00 00 00 01 02 00 00 00 76 31 00",
            ),
            ("1a 00 ff b1", "l", "00 00 00 00 03 00 00 00 00 00 00 00"),
            ("27 00 ff b1 01 00 00 00 6b", "i", "00 00 00 00 03 00 00 00"),
        ],
    );
    write_keys(&mut client, &[("a", "1"), ("b", "2")]);
    let entries = "00 00 00 00 02 00 00 00 01 00 00 00 62 01 00 00 00 32 01 00 00 00 61 \
                   01 00 00 00 31";
    let range_entries = "0f 00 ff b1 00 01 01 00 00 00 61 01 00 00 ff ff ff ff";
    check_exchanges(&mut client, &[(range_entries, "P", entries)]);
    write_keys(&mut client, &[("ab1", "x"), ("ab2", "y"), ("p/1", ""), ("p/2", "")]);
    check_exchanges(
        &mut client,
        &[
            // z inclusive down to a exclusive, two of them: p/2 and p/1, ascending on the wire.
            (
                "23 00 ff b1 00 01 01 00 00 00 7a 01 01 01 00 00 00 61 00 02 00 00 00",
                "P",
                "00 00 00 00 02 00 00 00 03 00 00 00 70 2f 31 00 00 00 00 03 00 00 00 70 2f 32 \
                 00 00 00 00",
            ),
            (
                "0c 00 ff b1 00 02 00 00 00 61 62 0a 00 00 00",
                "S",
                "00 00 00 00 02 00 00 00 03 00 00 00 61 62 32 03 00 00 00 61 62 31",
            ),
            ("27 00 ff b1 02 00 00 00 70 2f", "i", "00 00 00 00 02 00 00 00"),
        ],
    );
}

#[test]
fn sequence_replies_match_documented_bytes() {
    let server = server();
    let mut client = connect_to_ricky(server.address);
    let sequence = "10 00 ff b1 20 00 00 00 05 00 00 00 02 00 00 00 01 00 00 00 01 00 00 00 61 \
                    01 00 00 00 31 08 00 00 00 01 00 00 00 62 00";
    let synced = sequence.replacen("10", "24", 1);
    write_keys(&mut client, &[("b", "in the way")]);
    check_exchanges(&mut client, &[(sequence, "", "07 00 00 00 01 00 00 00 62")]);
    check_exchanges(&mut client, &[(&synced, "", "07 00 00 00 01 00 00 00 62")]);
    check_exchanges(&mut client, &[("0a 00 ff b1 01 00 00 00 62", "", OK)]);
    check_exchanges(
        &mut client,
        &[(
            "08 00 ff b1 00 01 00 00 00 61",
            "s",
            "05 00 00 00 09 00 00 00 4e 6f 74 5f 66 6f 75 6e 64",
        )],
    );
    check_exchanges(&mut client, &[(sequence, "", OK), (&synced, "", OK)]);
    check_exchanges(
        &mut client,
        &[("08 00 ff b1 00 01 00 00 00 61", "s", "00 00 00 00 01 00 00 00 31")],
    );
}

#[test]
fn transaction_id_is_accepted_as_read_freshness() {
    let server = server();
    let mut client = connect_to_ricky(server.address);
    write_keys(&mut client, &[("foo", "bar")]);
    let answer = client.request(&hex("43 00 ff b1"), "c");
    assert_eq!(answer[..5], hex("00 00 00 00 02"));
    let read_level = &answer[4..];
    let mut request = hex("08 00 ff b1");
    request.extend_from_slice(read_level);
    request.text(b"foo");
    assert_eq!(client.request(&request, "s"), hex(BAR));
    let mut later_index = read_level.to_vec();
    later_index[7] = 1;
    let mut request = hex("08 00 ff b1");
    request.extend_from_slice(&later_index);
    request.text(b"foo");
    let mut refused = hex("80 00 00 00");
    refused.text(b"store not fresh enough");
    assert_eq!(client.request(&request, "s"), refused);
}

#[test]
fn not_master_reply_matches_documented_bytes() {
    let mut out = Vec::new();
    ArakoonRefusal::from(&Error::new(Reason::NotMaster, "n1")).write(&mut out);
    assert_eq!(out, hex("04 00 00 00 02 00 00 00 6e 31"));
    let mut no_master = hex(OK);
    no_master.option(None);
    assert_eq!(no_master, hex("00 00 00 00 00"));
}

#[test]
fn statistics_fields_and_routing_match_documented_bytes() {
    let member = PlacedMember { name: "n0".into(), index: LogIndex(12) };
    let placement = BucketPlacement {
        node_name: "n0".into(),
        master: None,
        role: "follower",
        applied: LogIndex(12),
        members: vec![member],
        expect_progress_possible: false,
    };
    let mut statistics = Statistics::default();
    (0..5).for_each(|_| statistics.add(1.5, None, 0.0, 0));
    let figures = NodeFigures {
        now: 9.0,
        harvest: NumberSeries::default(),
        memory_kib: (0.0, 0),
        placement: &placement,
    };
    let bytes = statistics.write(&figures);
    let contains = |expected: &str| {
        let expected = hex(expected);
        bytes.windows(expected.len()).any(|window| window == expected)
    };
    assert!(contains("01 00 00 00 01 00 00 00 6e 05 00 00 00"));
    assert!(contains("03 00 00 00 05 00 00 00 73 74 61 72 74 00 00 00 00 00 00 f8 3f"));
    let node_is = "05 00 00 00 07 00 00 00 6e 6f 64 65 5f 69 73 01 00 00 00 02 00 00 00 02 00 00 \
                   00 6e 30 0c 00 00 00 00 00 00 00";
    assert!(bytes.ends_with(&hex(node_is)));
    let tree = hex("00 01 00 00 00 6d 01 04 00 00 00 6c 65 66 74 01 05 00 00 00 72 69 67 68 74");
    assert_eq!(nursery::routes_only_to(tree.into(), b"left"), Ok(false));
    assert_eq!(nursery::leaf_routing(b"left"), hex("01 04 00 00 00 6c 65 66 74"));
}

#[test]
fn version_reply_has_three_numbers_and_a_revision_text() {
    let server = server();
    let answer = connect_to_ricky(server.address).request(&hex("28 00 ff b1"), "iiis");
    assert_eq!(answer[..16], hex("00 00 00 00 01 00 00 00 09 00 00 00 19 00 00 00"));
    assert_eq!(translate::VERSION, (1, 9, 25));
    let text = String::from_utf8_lossy(&answer[20..]).into_owned();
    assert!(text.starts_with("revision: \"credenza "), "{text}");
}
