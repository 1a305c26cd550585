//! The schema of a node's status: each field with what it says.

use super::{maybe, object, reference};
use serde_json::{Map, Value, json};

/// A field: its name, the schema of its value, what it says.
type SchemaField = (&'static str, Value, &'static str);

/// The status.
pub fn all(schemas: &mut Map<String, Value>) {
    schemas.insert("Status".into(), described("A node as it sees itself.", status()));
}

fn described(about: &str, fields: Vec<SchemaField>) -> Value {
    let mut properties = Map::new();
    for (name, mut schema, about) in fields {
        schema["description"] = about.into();
        properties.insert(name.into(), schema);
    }
    let mut object = object(Value::Object(properties));
    object["description"] = about.into();
    object
}

fn count() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn maybe_count() -> Value {
    json!({ "type": ["integer", "null"], "minimum": 0 })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn maybe_text() -> Value {
    json!({ "type": ["string", "null"] })
}

fn id() -> Value {
    super::cluster::id()
}

fn list(of: Value) -> Value {
    json!({ "type": "array", "items": of })
}

fn status() -> Vec<SchemaField> {
    let about_log = "The transaction log.";
    let about_store = "The store: tables, and what is in memory.";
    let about_disk = "The disk under the data directory.";
    let about_members = "The members of the cluster, with this node's connection to each.";
    vec![
        ("name", text(), "The node's name (`name`)."),
        ("node", id(), "The node's durable id: 16 hexadecimal digits."),
        ("cluster", id(), "The cluster's durable id: 16 hexadecimal digits."),
        ("incarnation", count(), "How often the node has started on its data, this time counted."),
        ("version", text(), "The program's version."),
        ("uptime_ms", count(), "Milliseconds since the start."),
        ("ready", flag(), "Whether it serves; the same as 200 of `/ready`."),
        ("not_ready", maybe_text(), "Why not, whom it misses and what to do; null: it is ready."),
        ("insecure", flag(), "Whether addresses beyond loopback are allowed (`insecure`)."),
        ("lease_ms", count(), "How long a master's lease lasts."),
        ("warnings", list(text()), "What an operator should know and do, the gravest first."),
        (
            "groups",
            list(described("A group with a part here.", group())),
            "The groups with a part on \
          this node; group 0 is the directory, group 1 holds the buckets for which none is named.",
        ),
        ("members", list(reference("MemberStatus")), about_members),
        (
            "snapshots",
            list(described("A snapshot on its way.", snapshot())),
            "Snapshots of groups \
          that this node receives.",
        ),
        ("log", described(about_log, log()), about_log),
        ("store", described(about_store, store()), about_store),
        ("disk", described(about_disk, disk()), about_disk),
        ("memory", described("The process' memory.", memory()), "The process' memory."),
        (
            "available",
            described("Available buckets.", available()),
            "Available buckets: the ring, \
          and what is kept for nodes that are away.",
        ),
        ("buckets", count(), "Consistent buckets."),
        (
            "interval_buckets",
            list(text()),
            "Buckets whose writes are acknowledged before they are \
          synced (`sync=interval`), at most 100.",
        ),
        (
            "listeners",
            list(described("A listener.", listener())),
            "Where clients and operators come \
          in.",
        ),
        ("connections", count(), "Client connections open now."),
        (
            "requests",
            described("Requests since the start.", requests()),
            "Requests answered since \
          the start, by protocol.",
        ),
    ]
}

fn group() -> Vec<SchemaField> {
    vec![
        ("id", count(), "The group's number."),
        ("role", json!({ "enum": ["master", "follower", "candidate"] }), "This node's role."),
        ("master", maybe_text(), "The master's name; null: none is known."),
        ("ballot", text(), "The highest ballot this node promised: round, a dot, node id."),
        (
            "decided",
            count(),
            "Log index up to which entries are known to be decided: synced by \
          enough voters.",
        ),
        ("applied", count(), "Log index up to which entries are applied: reads here see them."),
        (
            "flushed",
            count(),
            "Log index up to which the effects stand in the store's tables. The \
          rest is as durable: the log holds it until then.",
        ),
        ("undecided", count(), "Updates taken and not decided yet."),
        ("sessions", count(), "Open sessions."),
        (
            "expect_progress_possible",
            flag(),
            "Whether the group goes on while this node is \
          restarted; never true where one or two vote.",
        ),
        ("members", list(reference("GroupMember")), "The group's members, as they are in force."),
        (
            "comparison",
            maybe(reference("Comparison")),
            "Whether its replicas hold the same; null: this \
          node is not the master, or has not compared them yet.",
        ),
    ]
}

fn snapshot() -> Vec<SchemaField> {
    vec![
        ("group", count(), "Of which group."),
        ("from", id(), "The node that sends it."),
        ("last_index", count(), "The last log index that it covers; 0: not known yet."),
        ("rows", count(), "Rows received."),
        ("rows_estimated", count(), "Estimated number of rows, an upper bound; 0: not known yet."),
        ("bytes", count(), "Bytes of keys and values received."),
        ("bytes_per_second", count(), "Bytes a second since it began."),
        ("eta_ms", maybe_count(), "Estimated time until it is complete; null: not known yet."),
        ("resumes", count(), "How often a lost part was requested again."),
        ("restarts", count(), "How often it began again from the start."),
    ]
}

fn log() -> Vec<SchemaField> {
    vec![
        ("bytes", count(), "Bytes that can't be truncated yet."),
        ("segments", count(), "Segments in use."),
        ("syncs", count(), "Syncs since the start."),
        ("sync_us_p50", count(), "Median time of the last syncs, microseconds."),
        ("sync_us_p99", count(), "99th percentile of the last syncs, microseconds."),
        ("sync_us_mean", count(), "What a sync takes now on average, microseconds."),
        ("slow", flag(), "Whether syncs take so long that they bound the node."),
        (
            "hangs",
            flag(),
            "Whether the disk has not finished what the log asked of it for two \
          leases.",
        ),
        ("unanswered_ms", count(), "For how long the log has waited for the disk now."),
    ]
}

fn store() -> Vec<SchemaField> {
    vec![
        ("disk_bytes", count(), "Bytes of its files."),
        ("memory_bytes", count(), "Bytes of writes that are not flushed to tables yet."),
        ("cached_rows", count(), "Rows in the row cache."),
        ("cached_bytes", count(), "Bytes of the row cache and of tables kept in memory."),
        (
            "rows_estimated",
            count(),
            "Estimated number of rows; deleted ones that are not collected \
          yet count.",
        ),
    ]
}

fn disk() -> Vec<SchemaField> {
    vec![
        ("total_bytes", count(), "Its size."),
        ("free_bytes", count(), "What is free."),
        (
            "free_files",
            maybe_count(),
            "Files (inodes) that can still be made; null: the file \
          system has no such limit.",
        ),
        ("full", flag(), "Whether writes are refused for lack of space."),
    ]
}

fn memory() -> Vec<SchemaField> {
    vec![(
        "resident_bytes",
        maybe_count(),
        "Memory that the process uses; null: the machine does not tell.",
    )]
}

fn available() -> Vec<SchemaField> {
    let hints = vec![
        ("node", text(), "The node that they are for, by name."),
        ("rows", count(), "How many rows."),
        ("age_ms", count(), "Time for which hints have been pending without a break."),
    ];
    vec![
        ("ring_epoch", count(), "The epoch of the ring that this node knows; 0: none."),
        ("partitions", count(), "Partitions of which this node is the first owner."),
        (
            "suspected_nodes",
            list(text()),
            "Nodes of the ring that this node suspects: others are asked \
          instead.",
        ),
        (
            "hints",
            list(described("Hints for one node.", hints)),
            "Rows kept here for nodes that \
          were away (hinted handoff).",
        ),
    ]
}

fn listener() -> Vec<SchemaField> {
    let serves = json!({
        "enum": ["clients and operators", "clients", "operators", "arakoon", "riak"],
    });
    vec![
        ("address", text(), "Where it listens: address and port."),
        ("serves", serves, "Whom it serves there."),
    ]
}

fn requests() -> Vec<SchemaField> {
    vec![
        ("http", count(), "By HTTP/JSON."),
        ("resp", count(), "By Redis' protocol."),
        ("arakoon", count(), "By Arakoon's protocol."),
        ("riak", count(), "By Riak's HTTP."),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::json::status as answered;
    use node::{AvailableStatus, GroupStatus, HintsStatus, SnapshotStatus};

    /// Every field that the node answers with is described, and every object of it.
    fn check(schema: &Value, answer: &Value, path: &str) {
        match answer {
            Value::Object(fields) => {
                assert!(schema["description"].is_string(), "{path} has no description");
                for (name, value) in fields {
                    let known = &schema["properties"][name];
                    assert!(known["description"].is_string(), "{path}.{name} is not described");
                    if known["type"] == "object" || known["items"]["type"] == "object" {
                        check(known, value, &format!("{path}.{name}"));
                    }
                }
            }
            Value::Array(items) => {
                assert!(!items.is_empty(), "{path} is not tried");
                items.iter().for_each(|item| check(&schema["items"], item, path));
            }
            _ => {}
        }
    }

    #[test]
    fn every_field_of_a_status_is_described() {
        let hints = vec![HintsStatus::default()];
        let status = node::Status {
            groups: vec![GroupStatus::default()],
            snapshots: vec![SnapshotStatus::default()],
            available: AvailableStatus { hints, ..AvailableStatus::default() },
            ..node::Status::default()
        };
        let schema = described("", super::status());
        check(&schema, &answered::status(&status), "status");
        // What the listeners add.
        for name in ["ready", "not_ready", "insecure", "listeners", "connections", "requests"] {
            assert!(schema["properties"][name]["description"].is_string(), "{name}");
        }
    }
}
