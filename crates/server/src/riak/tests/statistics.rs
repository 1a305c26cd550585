//! Tests of the figures in `/stats` that Riak's tools expect.

use super::live::Client;
use crate::tests::test_server::TestServer;
use serde_json::Value;

const SPREADS: [&str; 4] =
    ["node_get_fsm_time", "node_put_fsm_time", "node_get_fsm_siblings", "node_get_fsm_objsize"];

const FIELDS: [&str; 43] = [
    "riak_kv_version",
    "nodename",
    "connected_nodes",
    "ring_members",
    "ring_num_partitions",
    "ring_creation_size",
    "ring_ownership",
    "riak_kv_vnodes_running",
    "storage_backend",
    "disk",
    "mem_total",
    "mem_allocated",
    "memory_total",
    "cpu_nprocs",
    "cpu_avg1",
    "cpu_avg5",
    "cpu_avg15",
    "node_gets",
    "node_gets_total",
    "node_puts",
    "node_puts_total",
    "coord_redirs_total",
    "read_repairs",
    "read_repairs_total",
    "list_fsm_active",
    "list_fsm_create",
    "list_fsm_create_total",
    "list_fsm_create_error",
    "list_fsm_create_error_total",
    "node_gets_counter",
    "node_gets_counter_total",
    "node_gets_set",
    "node_gets_set_total",
    "node_gets_map",
    "node_gets_map_total",
    "node_gets_hll",
    "node_gets_hll_total",
    "node_gets_gset",
    "node_gets_gset_total",
    "node_puts_counter",
    "node_puts_counter_total",
    "node_puts_map",
    "node_puts_map_total",
];

#[test]
fn stats_contain_all_expected_fields_and_count_requests() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    for value in ["four", "sixsix"] {
        assert_eq!(client.put("/buckets/b/keys/k", "", value).0, 204);
    }
    assert_eq!(client.get("/buckets/b/keys/k").0, 300);
    assert_eq!(client.get("/buckets/b/keys/none").0, 404);
    assert_eq!(client.get("/buckets/b/keys?keys=true").0, 200);
    assert_eq!(client.get("/buckets?buckets=stream").0, 200);
    let post =
        "POST /buckets/b/counters/c HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n5";
    assert_eq!(client.send(post).0, 204);
    assert_eq!(client.get("/buckets/b/counters/c").0, 200);
    let all: Value = serde_json::from_str(&client.get("/stats").2).expect("a document");
    for field in FIELDS {
        assert!(!all[field].is_null(), "{field} is not there");
    }
    for spread in SPREADS {
        for end in ["mean", "median", "95", "99", "100"] {
            assert!(all[format!("{spread}_{end}")].is_u64(), "{spread}_{end}");
        }
    }
    for (field, number) in [
        ("node_get_fsm_siblings_100", 2),
        ("node_get_fsm_siblings_median", 2),
        ("node_get_fsm_objsize_100", 10),
        ("node_get_fsm_objsize_mean", 10),
        ("node_gets", 3),
        ("node_puts_total", 3),
        ("node_gets_counter_total", 1),
        ("node_puts_counter", 1),
        ("list_fsm_create_total", 2),
        ("list_fsm_create_error_total", 0),
        ("list_fsm_active", 0),
        ("read_repairs_total", 0),
    ] {
        assert_eq!(all[field], number, "{field}");
    }
    assert!(all["mem_total"].as_u64() > all["mem_allocated"].as_u64(), "{all}");
    let owned = format!(
        "[{{'{}',{}}}]",
        all["nodename"].as_str().expect("a name"),
        all["ring_num_partitions"]
    );
    assert_eq!(all["ring_ownership"], owned);
}
