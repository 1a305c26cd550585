//! Tests of the worked examples in the protocol's description, byte for byte.

use super::guest::{Guest, server};
use crate::arakoon::errors::ArakoonRefusal;
use crate::arakoon::statistics::{NumberSeries, Statistics, Surroundings};
use crate::arakoon::words::Wire;
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
fn ricky(address: std::net::SocketAddr) -> Guest {
    let mut guest = Guest::silent(address);
    guest.send(&hex("00 00 ff b1 01 00 00 00 05 00 00 00 72 69 63 6b 79"));
    guest
}

fn plays(guest: &mut Guest, exchanges: &[(&str, &str, &str)]) {
    for (request, layout, answer) in exchanges {
        let heard = guest.ask(&hex(request), layout);
        assert_eq!(heard, hex(answer), "{request}");
    }
}

const OK: &str = "00 00 00 00";
const SET_FOO_BAR: &str = "09 00 ff b1 03 00 00 00 66 6f 6f 03 00 00 00 62 61 72";
const GET_FOO: &str = "08 00 ff b1 00 03 00 00 00 66 6f 6f";
const BAR: &str = "00 00 00 00 03 00 00 00 62 61 72";

#[test]
fn single_keys_are_asked_and_answered_as_in_the_examples() {
    let server = server();
    let mut guest = ricky(server.address);
    plays(
        &mut guest,
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
    let answer = guest.ask(&hex("15 00 ff b1 01 00 00 00 66 00"), "o");
    assert_eq!(answer[..4], hex("26 00 00 00"), "there are no user functions");
    // A read at index 7, before and after the node has applied it.
    let at_seven = hex("07 00 ff b1 02 07 00 00 00 00 00 00 00 03 00 00 00 66 6f 6f");
    for _ in 0..20 {
        guest.ask(&hex(SET_FOO_BAR), "");
    }
    assert_eq!(guest.ask(&at_seven, "b"), hex("00 00 00 00 01"));
}

fn write_keys(guest: &mut Guest, rows: &[(&str, &str)]) {
    for (key, value) in rows {
        let mut request = hex("09 00 ff b1");
        request.text(key.as_bytes());
        request.text(value.as_bytes());
        assert_eq!(guest.ask(&request, ""), hex(OK));
    }
}

#[test]
fn lists_are_in_the_order_of_the_examples() {
    let server = server();
    let mut guest = ricky(server.address);
    write_keys(&mut guest, &[("k1", "v1"), ("k2", "v2"), ("k3", "v3")]);
    plays(
        &mut guest,
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
    write_keys(&mut guest, &[("a", "1"), ("b", "2")]);
    let entries = "00 00 00 00 02 00 00 00 01 00 00 00 62 01 00 00 00 32 01 00 00 00 61 \
                   01 00 00 00 31";
    let range_entries = "0f 00 ff b1 00 01 01 00 00 00 61 01 00 00 ff ff ff ff";
    plays(&mut guest, &[(range_entries, "P", entries)]);
    write_keys(&mut guest, &[("ab1", "x"), ("ab2", "y"), ("p/1", ""), ("p/2", "")]);
    plays(
        &mut guest,
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
fn sequences_are_those_of_the_examples() {
    let server = server();
    let mut guest = ricky(server.address);
    let sequence = "10 00 ff b1 20 00 00 00 05 00 00 00 02 00 00 00 01 00 00 00 01 00 00 00 61 \
                    01 00 00 00 31 08 00 00 00 01 00 00 00 62 00";
    let synced = sequence.replacen("10", "24", 1);
    write_keys(&mut guest, &[("b", "in the way")]);
    plays(&mut guest, &[(sequence, "", "07 00 00 00 01 00 00 00 62")]);
    plays(&mut guest, &[(&synced, "", "07 00 00 00 01 00 00 00 62")]);
    plays(&mut guest, &[("0a 00 ff b1 01 00 00 00 62", "", OK)]);
    plays(
        &mut guest,
        &[(
            "08 00 ff b1 00 01 00 00 00 61",
            "s",
            "05 00 00 00 09 00 00 00 4e 6f 74 5f 66 6f 75 6e 64",
        )],
    );
    plays(&mut guest, &[(sequence, "", OK), (&synced, "", OK)]);
    plays(&mut guest, &[("08 00 ff b1 00 01 00 00 00 61", "s", "00 00 00 00 01 00 00 00 31")]);
}

#[test]
fn the_transaction_id_is_a_freshness_that_reads_can_ask_for() {
    let server = server();
    let mut guest = ricky(server.address);
    write_keys(&mut guest, &[("foo", "bar")]);
    let answer = guest.ask(&hex("43 00 ff b1"), "c");
    assert_eq!(answer[..5], hex("00 00 00 00 02"));
    let freshness = &answer[4..];
    let mut request = hex("08 00 ff b1");
    request.extend_from_slice(freshness);
    request.text(b"foo");
    assert_eq!(guest.ask(&request, "s"), hex(BAR));
    let mut later = freshness.to_vec();
    later[7] = 1;
    let mut request = hex("08 00 ff b1");
    request.extend_from_slice(&later);
    request.text(b"foo");
    let mut refused = hex("80 00 00 00");
    refused.text(b"store not fresh enough");
    assert_eq!(guest.ask(&request, "s"), refused);
}

#[test]
fn answers_of_a_cluster_with_other_nodes_are_those_of_the_examples() {
    let mut out = Vec::new();
    ArakoonRefusal::from(&Error::new(Reason::NotMaster, "n1")).write(&mut out);
    assert_eq!(out, hex("04 00 00 00 02 00 00 00 6e 31"));
    let mut nobody = hex(OK);
    nobody.maybe(None);
    assert_eq!(nobody, hex("00 00 00 00 00"));
}

#[test]
fn named_fields_and_routing_are_those_of_the_examples() {
    let member = PlacedMember { name: "n0".into(), index: LogIndex(12) };
    let place = BucketPlacement {
        me: "n0".into(),
        master: None,
        role: "follower",
        applied: LogIndex(12),
        members: vec![member],
        expect_progress_possible: false,
    };
    let mut statistics = Statistics::default();
    (0..5).for_each(|_| statistics.add(1.5, None, 0.0, 0));
    let around = Surroundings {
        now: 9.0,
        harvest: NumberSeries::default(),
        memory_kib: (0.0, 0),
        place: &place,
    };
    let bytes = statistics.write(&around);
    let holds = |wanted: &str| {
        let wanted = hex(wanted);
        bytes.windows(wanted.len()).any(|window| window == wanted)
    };
    assert!(holds("01 00 00 00 01 00 00 00 6e 05 00 00 00"));
    assert!(holds("03 00 00 00 05 00 00 00 73 74 61 72 74 00 00 00 00 00 00 f8 3f"));
    let node_is = "05 00 00 00 07 00 00 00 6e 6f 64 65 5f 69 73 01 00 00 00 02 00 00 00 02 00 00 \
                   00 6e 30 0c 00 00 00 00 00 00 00";
    assert!(bytes.ends_with(&hex(node_is)));
    let tree = hex("00 01 00 00 00 6d 01 04 00 00 00 6c 65 66 74 01 05 00 00 00 72 69 67 68 74");
    assert_eq!(nursery::routes_to(tree.into(), b"left"), Ok(false));
    assert_eq!(nursery::leaf(b"left"), hex("01 04 00 00 00 6c 65 66 74"));
}

#[test]
fn the_version_is_three_numbers_and_a_text() {
    let server = server();
    let answer = ricky(server.address).ask(&hex("28 00 ff b1"), "iiis");
    assert_eq!(answer[..16], hex("00 00 00 00 01 00 00 00 09 00 00 00 19 00 00 00"));
    assert_eq!(translate::VERSION, (1, 9, 25));
    let text = String::from_utf8_lossy(&answer[20..]).into_owned();
    assert!(text.starts_with("revision: \"credenza "), "{text}");
}
