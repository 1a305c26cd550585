//! Tests of the pure parts: cluster ids, the incremental parser, pending answers, statistics.

use crate::arakoon::bucket_of;
use crate::arakoon::commands::{COMMANDS, find};
use crate::arakoon::errors::ArakoonRefusal;
use crate::arakoon::frame::{
    CLUSTER_ID_BYTES_MAX, ParseProgress, Parser, Prologue, parse_prologue,
};
use crate::arakoon::nursery::{self, ClientAddress, ROUTING_DEPTH_MAX};
use crate::arakoon::output::Output;
use crate::arakoon::statistics::{Class, NodeFigures, NumberSeries, Statistics};
use crate::arakoon::tests::client::prologue;
use crate::arakoon::tests::encoding;
use crate::arakoon::values::{Malformed, Wire};
use base::{Error, GroupId, LogIndex, Reason};
use node::{BucketPlacement, Ticket};
use std::collections::BTreeSet;

#[test]
fn cluster_id_maps_to_a_distinct_bucket() {
    let name = |id: &[u8]| bucket_of(id).map(|bucket| bucket.full().to_string());
    assert_eq!(name(b"ricky"), Some("arakoon/ricky".into()));
    assert_eq!(name(b"my-nsm_0"), Some("arakoon/my-nsm_0".into()));
    assert_eq!(name(b"OVSdb"), Some("arakoon-escaped/x_o_v_sdb".into()));
    assert_eq!(name(b"a.b"), Some("arakoon-escaped/xa__2eb".into()));
    assert_eq!(name(b"_a"), Some("arakoon-escaped/x__5fa".into()));
    assert_eq!(name(b""), None);
    assert_eq!(name(&[b'a'; 63]).map(|name| name.len()), Some(63 + 8));
    assert_eq!(name(&[b'a'; 64]), None);
    let ids = ["ab", "AB", "aB", "_ab", "a_b", "A_b", "a__b", "a b", "a\u{e9}", "xab", "x_ab"];
    let buckets: BTreeSet<_> = ids.iter().map(|id| name(id.as_bytes())).collect();
    assert_eq!(buckets.len(), ids.len(), "two ids share a bucket: {buckets:?}");
}

#[test]
fn prologue_is_parsed_only_when_complete_and_valid() {
    let complete = prologue(b"ricky");
    for end in 0..complete.len() {
        assert_eq!(parse_prologue(&complete[..end]), Prologue::Incomplete, "{end}");
    }
    let expected = Prologue::Cluster(b"ricky".to_vec(), complete.len());
    assert_eq!(parse_prologue(&[&complete[..], b"rest"].concat()), expected);
    for (at, byte) in [(0, 1), (3, 0xb0), (4, 2), (7, 1), (11, 0x80), (10, 1)] {
        let mut other = complete.clone();
        other[at] = byte;
        assert_eq!(parse_prologue(&other), Prologue::Invalid, "{at}");
    }
    let longest = vec![b'a'; CLUSTER_ID_BYTES_MAX];
    assert!(matches!(parse_prologue(&prologue(&longest)), Prologue::Cluster(..)));
    let longer = vec![b'a'; CLUSTER_ID_BYTES_MAX + 1];
    assert_eq!(parse_prologue(&prologue(&longer)), Prologue::Invalid);
}

#[test]
fn routing_tree_beyond_depth_limit_is_malformed() {
    let tree = |depth: usize| {
        let mut bytes = Vec::new();
        for _ in 0..depth {
            bytes.flag(false);
            bytes.text(b"m");
            bytes.extend(nursery::leaf_routing(b"ricky"));
        }
        bytes.extend(nursery::leaf_routing(b"ricky"));
        bytes.into()
    };
    for depth in [0, 1, ROUTING_DEPTH_MAX] {
        assert_eq!(nursery::routes_only_to(tree(depth), b"ricky"), Ok(true), "{depth}");
    }
    assert_eq!(nursery::routes_only_to(tree(ROUTING_DEPTH_MAX + 1), b"ricky"), Err(Malformed));
    assert_eq!(
        nursery::routes_only_to(vec![1, 0, 0, 0, 0, 7].into(), b""),
        Err(Malformed),
        "a rest"
    );
}

#[test]
fn client_address_splits_into_host_and_port() {
    let parsed =
        |address: &str| ClientAddress::parse("n", address).map(|node| (node.host, node.port));
    for (address, host) in
        [("127.0.0.1:1", "127.0.0.1"), ("db.example:1", "db.example"), ("[::1]:1", "::1")]
    {
        assert_eq!(parsed(address), Some((host.into(), 1)), "{address}");
    }
    for address in ["", "db.example", "db.example:", "db.example:65536"] {
        assert_eq!(parsed(address), None, "{address}");
    }
}

fn arguments_of(text: &str) -> Vec<String> {
    text.split('|').filter(|argument| !argument.is_empty()).map(String::from).collect()
}

#[test]
fn frame_is_parsed_only_when_complete() {
    let requests = [
        ("WHO_MASTER", ""),
        ("SET", "key|value"),
        ("RANGE", "5|a|true|none|false|-1"),
        ("MULTI_GET", "dirty|a|b||c"),
        ("MIGRATE_RANGE", "none|a|none|b|set k v"),
        ("SET_NURSERY_CFG", "other|node|127.0.0.1|4000"),
    ];
    for (name, arguments) in requests {
        let (bytes, _) = encoding::request(name, &arguments_of(arguments)).expect("a request");
        let mut parser = Parser::default();
        for end in 0..bytes.len() {
            match parser.parse(&bytes[..end]) {
                Ok(ParseProgress::Incomplete(needed)) => {
                    assert!(needed > end && needed <= bytes.len())
                }
                other => panic!("{name} at {end}: {other:?}"),
            }
        }
        match parser.parse(&[&bytes[..], b"more"].concat()) {
            Ok(ParseProgress::Complete(command, length)) => {
                assert_eq!((command.protocol_name, length), (name, bytes.len()));
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn command_table_is_sorted_by_unique_code() {
    for pair in COMMANDS.windows(2) {
        assert!(pair[0].code < pair[1].code, "{}", pair[1].protocol_name);
    }
    for command in &COMMANDS {
        assert_eq!(find(command.code).map(|found| found.name), Some(command.name));
    }
    assert!(find(0).is_none() && find(0x47).is_none() && find(0x2a).is_none());
}

#[test]
fn reply_of_undecided_update_is_replaced_by_its_error() {
    let ticket = Ticket { group: GroupId(1), index: LogIndex(1), epoch: 0 };
    let mut out = Output::default();
    out.push_ok(b"before");
    for body in [b"one", b"two"] {
        let from = out.bytes.len();
        out.push_ok(body);
        out.mark_pending(from, ticket);
    }
    out.push_ok(b"after");
    let unknown_outcome = ArakoonRefusal::from(&Error::new(Reason::NoLongerMaster, "n2"));
    let mut unknown_bytes = Vec::new();
    unknown_outcome.write(&mut unknown_bytes);
    let mut output = Output::default();
    std::mem::swap(&mut output, &mut out);
    output.replace_failed(&[None, Some(unknown_outcome)]);
    let expected = [&b"\0\0\0\0before\0\0\0\0one"[..], &unknown_bytes, b"\0\0\0\0after"].concat();
    assert_eq!(output.bytes, expected);
    assert!(!output.is_last);
    // An error that ends the connection is the last answer.
    let mut out = Output::default();
    for body in [b"one", b"two"] {
        let from = out.bytes.len();
        out.push_ok(body);
        out.mark_pending(from, ticket);
    }
    let not_master = ArakoonRefusal::from(&Error::new(Reason::NotMaster, "n2"));
    let mut not_master_bytes = Vec::new();
    not_master.write(&mut not_master_bytes);
    out.replace_failed(&[Some(not_master), None]);
    assert_eq!((out.bytes, out.is_last), (not_master_bytes, true));
}

#[test]
fn statistics_contain_every_arakoon_field_in_order() {
    let placement = BucketPlacement {
        node_name: "a".into(),
        master: Some("a".into()),
        role: "master",
        applied: LogIndex(3),
        members: Vec::new(),
        expect_progress_possible: false,
    };
    let mut statistics = Statistics::default();
    for (seconds, size) in [(1.0, 10), (3.0, 20)] {
        statistics.add(100.0, Some(Class::Get), seconds, size);
    }
    let harvest = NumberSeries::from_average(4, 2.5);
    let figures = NodeFigures { now: 200.0, harvest, memory_kib: (7.0, 8), placement: &placement };
    let bytes = statistics.write(&figures);
    let names = [
        "arakoon_stats",
        "start",
        "last",
        "avg_set_size",
        "avg_get_size",
        "avg_range_size",
        "avg_range_entries_size",
        "avg_rev_range_entries_size",
        "avg_prefix_size",
        "avg_del_prefix_size",
        "harvest_stats",
        "set_info",
        "get_info",
        "del_info",
        "seq_info",
        "mget_info",
        "mget_option_info",
        "tas_info",
        "replace_info",
        "range_info",
        "range_entries_info",
        "rev_range_entries_info",
        "prefix_info",
        "delete_prefix_info",
        "op_info",
        "mem_allocated",
        "mem_maxrss",
        "mem_minor_collections",
        "mem_major_collections",
        "mem_compactions",
        "node_is",
    ];
    let (fields, rest) = decode(&bytes);
    assert!(rest.is_empty());
    let found: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    let found: Vec<&str> = found
        .into_iter()
        .filter(|name| !["n", "min", "max", "m2", "avg", "var"].contains(name))
        .collect();
    assert_eq!(found, names);
    let at = fields.iter().position(|(name, _)| name == "get_info").expect("it is there");
    let series: Vec<f64> = fields[at + 1..at + 7].iter().map(|(_, number)| *number).collect();
    assert_eq!(series, [2.0, 1.0, 3.0, 2.0, 2.0, 2.0], "n, min, max, m2, avg, var");
    let size_field = fields.iter().find(|(name, _)| name == "avg_get_size");
    assert_eq!(size_field.map(|(_, number)| *number), Some(15.0));
}

/// Decodes named fields in their order, lists before their children.
fn decode(mut bytes: &[u8]) -> (Vec<(String, f64)>, &[u8]) {
    let mut fields = Vec::new();
    let mut remaining = 1;
    while remaining > 0 {
        remaining -= 1;
        let int = |bytes: &[u8]| i32::from_le_bytes(*bytes.first_chunk().expect("four bytes"));
        let (kind, length) = (int(bytes), int(&bytes[4..]) as usize);
        let name = String::from_utf8_lossy(&bytes[8..8 + length]).into_owned();
        bytes = &bytes[8 + length..];
        let (value, size) = match kind {
            1 => (f64::from(int(bytes)), 4),
            3 => (f64::from_le_bytes(*bytes.first_chunk().expect("eight bytes")), 8),
            5 => {
                remaining += int(bytes);
                (0.0, 4)
            }
            other => panic!("a field of kind {other}"),
        };
        bytes = &bytes[size..];
        fields.push((name, value));
    }
    (fields, bytes)
}
