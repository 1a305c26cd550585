//! A node's status in JSON.

use super::cluster::{self, id_text};
use serde_json::{Value, json};

/// The node's own part of its status; the listeners add what they know.
pub fn status(status: &node::Status) -> Value {
    json!({
        "name": status.name,
        "node": id_text(status.node.0),
        "cluster": id_text(status.cluster.0),
        "incarnation": status.incarnation,
        "version": status.version,
        "uptime_ms": status.uptime_ms,
        "groups": status.groups.iter().map(group).collect::<Vec<_>>(),
        "snapshots": status.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "log": {
            "bytes": status.log.bytes,
            "segments": status.log.segments,
            "syncs": status.log.syncs,
            "sync_us_p50": status.log.sync_us_p50,
            "sync_us_p99": status.log.sync_us_p99,
            "sync_us_mean": status.log.sync_us_mean,
            "slow": status.log.slow,
            "hangs": status.log.hangs,
            "unanswered_ms": status.log.unanswered_ms,
        },
        "store": {
            "disk_bytes": status.store.disk_bytes,
            "memory_bytes": status.store.memory_bytes,
            "cached_rows": status.store.cached_rows,
            "cached_bytes": status.store.cached_bytes,
            "rows_estimated": status.store.rows_estimated,
        },
        "disk": {
            "total_bytes": status.disk.total_bytes,
            "free_bytes": status.disk.free_bytes,
            "free_files": status.disk.free_files,
            "full": status.disk.full,
        },
        "memory": { "resident_bytes": status.resident_bytes },
        "available": available(&status.available),
        "lease_ms": status.lease_ms,
        "members": status.members.iter().map(cluster::member).collect::<Vec<_>>(),
        "buckets": status.buckets,
        "interval_buckets": status.interval_buckets,
        "warnings": status.warnings,
    })
}

fn group(group: &node::GroupStatus) -> Value {
    json!({
        "id": group.id.0,
        "role": group.role,
        "master": group.master,
        "ballot": group.ballot.to_string(),
        "decided": group.decided.0,
        "applied": group.applied.0,
        "flushed": group.flushed.0,
        "undecided": group.undecided,
        "sessions": group.sessions,
        "expect_progress_possible": group.expect_progress_possible,
        "members": cluster::parts(&group.members),
        "comparison": group.comparison.as_ref().map(cluster::comparison),
    })
}

fn snapshot(snapshot: &node::SnapshotStatus) -> Value {
    json!({
        "group": snapshot.group.0,
        "from": id_text(snapshot.from.0),
        "last_index": snapshot.last_index.0,
        "rows": snapshot.rows,
        "rows_estimated": snapshot.rows_estimated,
        "bytes": snapshot.bytes,
        "bytes_per_second": snapshot.bytes_per_second,
        "eta_ms": snapshot.eta_ms,
        "resumes": snapshot.resumes,
        "restarts": snapshot.restarts,
    })
}

fn available(status: &node::AvailableStatus) -> Value {
    let hints = status
        .hints
        .iter()
        .map(|hints| json!({ "node": hints.node, "rows": hints.rows, "age_ms": hints.age_ms }));
    json!({
        "ring_epoch": status.ring_epoch,
        "partitions": status.partitions,
        "suspected_nodes": status.suspected_nodes,
        "hints": hints.collect::<Vec<_>>(),
    })
}
