//! Made-up statuses in the format of `/status`, for tests of the output.

use api::{Alarm, NodeStatus};
use base::AlarmCode;
use serde_json::{Value, from_value, json};

const IDS: [&str; 3] = ["27b9775f33bbdcfa", "3478389e4b09ea78", "0ad4c29d653e1029"];

fn part(member: usize, part: &str) -> Value {
    let name = format!("n{member}");
    json!({ "node": IDS[member - 1], "name": name, "part": part, "match_index": null })
}

fn member(member: usize, connected: bool) -> Value {
    json!({
        "node": IDS[member - 1], "name": format!("n{member}"),
        "peer": format!("127.0.0.1:77{member}2"), "client": format!("127.0.0.1:77{member}1"),
        "incarnation": 1, "membership": "member", "connected": connected,
        "last_heard_ms_ago": (connected && member > 1).then_some(140),
        "unreachable_ms": (!connected).then_some(12_300),
        "rtt_us": if connected && member > 1 { 123 } else { 0 },
        "connection_error":
            (!connected).then_some("not reached: Connection refused (os error 111)"),
        "health": if connected { "up" } else { "down" },
        "hints": if connected { 0 } else { 412 },
    })
}

fn group(id: u64, members: Vec<Value>) -> Value {
    json!({
        "id": id, "role": "master", "master": "n1", "ballot": "3.27b9775f33bbdcfa",
        "decided": 1_213, "applied": 1_213, "flushed": 400, "undecided": 0, "sessions": 2,
        "expect_progress_possible": members.len() > 2, "members": members, "comparison": null,
    })
}

fn status(members: usize) -> Value {
    let parts = || (1..=members).map(|member| part(member, "voter")).collect::<Vec<_>>();
    json!({
        "name": "n1", "node": IDS[0], "cluster": "dcb290358f72c23f", "incarnation": 1,
        "version": "0.1.0", "uptime_ms": 7_500_000, "ready": true, "not_ready": null,
        "insecure": false, "groups": [group(0, parts()), group(1, parts())], "snapshots": [],
        "log": { "bytes": 67_108_864, "segments": 1, "syncs": 12_345, "sync_us_p50": 412,
            "sync_us_p99": 1_930, "sync_us_mean": 500, "slow": false, "hangs": false,
            "unanswered_ms": 0 },
        "store": { "disk_bytes": 1_288_490_188_u64, "memory_bytes": 3_145_728, "cached_rows": 40,
            "cached_bytes": 76_546_048, "rows_estimated": 1_234_567 },
        "disk": { "total_bytes": 42_949_672_960_u64, "free_bytes": 20_937_965_568_u64,
            "free_files": 2_345_678, "full": false },
        "memory": { "resident_bytes": 327_155_712 },
        "available": { "ring_epoch": 0, "partitions": 0, "suspected_nodes": [], "hints": [] },
        "lease_ms": 600, "members": (1..=members).map(|id| member(id, true)).collect::<Vec<_>>(),
        "buckets": 4, "interval_buckets": [],
        "listeners": [{ "address": "127.0.0.1:7711", "serves": "clients and operators" }],
        "connections": 3,
        "requests": { "http": 1_234, "resp": 88, "arakoon": 0, "riak": 0 },
        "alarms": [],
    })
}

fn alarm(code: AlarmCode, subject: &str, detail: &str) -> Alarm {
    Alarm::from(&base::Alarm::new(code, subject, detail, 1_764_400_000_000))
}

fn read(status: Value) -> NodeStatus {
    from_value(status).expect("a status")
}

/// A node without a cluster; its directory has no address for other nodes.
pub fn single_node() -> NodeStatus {
    let mut status = status(1);
    status["members"][0]["peer"] = json!("");
    read(status)
}

/// Three nodes, all connected.
pub fn three_nodes() -> NodeStatus {
    read(status(3))
}

/// The third of three is down.
pub fn one_missing() -> NodeStatus {
    read(without_third())
}

fn without_third() -> Value {
    let mut status = status(3);
    status["members"][2] = member(3, false);
    for group in 0..2 {
        status["groups"][group]["expect_progress_possible"] = json!(false);
    }
    status["available"] = json!({ "ring_epoch": 66, "partitions": 22, "suspected_nodes": ["n3"],
        "hints": [{ "node": "n3", "rows": 412, "age_ms": 11_000 }] });
    let detail = format!("{}, for 12 s: Connection refused", IDS[2]);
    status["alarms"] = json!([alarm(AlarmCode::MemberDown, "n3", &detail)]);
    status
}

/// Two of three are down.
pub fn no_majority() -> NodeStatus {
    let mut status = without_third();
    status["members"][1] = member(2, false);
    let detail = "no majority for groups 0, 1: n2, n3 not reached for 12 s";
    let why = format!("{detail}; start them (see `credenza cluster status`)");
    (status["ready"], status["not_ready"]) = (json!(false), json!(why));
    for group in 0..2 {
        let group = &mut status["groups"][group];
        (group["role"], group["master"]) = (json!("follower"), Value::Null);
    }
    status["alarms"] = json!([alarm(AlarmCode::NoQuorum, "groups 0, 1", detail)]);
    read(status)
}

/// The first of three has joined, receives a snapshot, and has no vote yet.
pub fn joining() -> NodeStatus {
    let mut status = status(3);
    for group in 0..2 {
        status["groups"][group]["members"][0] = part(1, "learner");
        status["groups"][group]["role"] = json!("follower");
        status["groups"][group]["master"] = json!("n2");
    }
    status["snapshots"] = json!([{
        "group": 1, "from": IDS[1], "last_index": 900, "rows": 1_200, "rows_estimated": 5_000,
        "bytes": 12_582_912, "bytes_per_second": 3_145_728, "eta_ms": 12_000, "resumes": 0,
        "restarts": 0,
    }]);
    read(status)
}

/// The first of three votes and keeps no data.
pub fn witness() -> NodeStatus {
    let mut status = status(3);
    for group in 0..2 {
        status["groups"][group]["members"][0] = part(1, "witness");
        status["groups"][group]["role"] = json!("follower");
        status["groups"][group]["master"] = json!("n2");
    }
    read(status)
}
