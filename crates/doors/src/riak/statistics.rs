//! What the node says of itself in the words that Riak's clients and tools look for.
//!
//! Clients read it first of all on every connection, so it needs nobody else: no other node, no
//! majority. What this house does not count is not there.

use super::answer::Answer;
use super::negotiate::welcome;
use crate::counters::{Class, Operation, Tongue};
use crate::shared::Shared;
use serde_json::{Map, Value, json};

/// The version of Riak whose HTTP is spoken here: clients ask for it before all else, to know what
/// they may ask for.
const VERSION: &str = "2.2.3";
/// The resources that are served, as clients look them up.
const RESOURCES: [(&str, &str); 12] = [
    ("riak_kv_wm_bucket_type", "/types"),
    ("riak_kv_wm_buckets", "/buckets"),
    ("riak_kv_wm_counter", "/buckets"),
    ("riak_kv_wm_crdt", "/types"),
    ("riak_kv_wm_keylist", "/buckets"),
    ("riak_kv_wm_object", "/buckets"),
    ("riak_kv_wm_ping", "/ping"),
    ("riak_kv_wm_preflist", "/buckets"),
    ("riak_kv_wm_props", "/buckets"),
    ("riak_kv_wm_raw", "/riak"),
    ("riak_kv_wm_stats", "/stats"),
    ("riak_kv_wm_types", "/types"),
];

/// What is served, by name.
pub(super) fn resources(accept: Option<&str>) -> Answer {
    let links: Vec<String> =
        RESOURCES.iter().map(|(name, path)| format!("<{path}>; rel=\"{name}\"")).collect();
    let answer = if welcome(accept, "text/html") > welcome(accept, "application/json") {
        let item = |(name, path): &(&str, &str)| format!("<li><a href=\"{path}\">{name}</a></li>");
        let items: String = RESOURCES.iter().map(item).collect();
        Answer::with_body(200, "text/html", format!("<html><body><ul>{items}</ul></body></html>"))
    } else {
        let all = RESOURCES.iter().map(|(name, path)| (name.to_string(), json!(path)));
        let document = Value::Object(all.collect());
        Answer::with_body(200, "application/json", document.to_string())
    };
    answer.header("Link", links.join(", "))
}

/// The name that Riak's nodes have: that of their machine.
pub(super) fn node_name(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    format!("riak@{}", host.trim_matches(['[', ']']))
}

/// The document of `/stats`.
pub(super) fn answer(shared: &Shared, accept: Option<&str>) -> Answer {
    let document = document(shared);
    let plain = welcome(accept, "text/plain") > welcome(accept, "application/json");
    match serde_json::to_string_pretty(&document) {
        Ok(text) if plain => Answer::with_body(200, "text/plain", text),
        _ => Answer::with_body(200, "application/json", document.to_string()),
    }
}

fn document(shared: &Shared) -> Value {
    let status = shared.node.status();
    let mut all = Map::new();
    for version in ["riak_kv_version", "riak_core_version", "riak_api_version"] {
        all.insert(version.into(), VERSION.into());
    }
    let own = status.members.iter().find(|known| known.member.node == status.node);
    let own = own.map(|known| known.member.client.clone());
    let own = own.unwrap_or_else(|| shared.settings.listen.to_string());
    let names = |connected: bool| -> Vec<String> {
        let others = status.members.iter().filter(|known| known.member.node != status.node);
        let others = others.filter(|known| known.connected || !connected);
        others.map(|known| node_name(&known.member.client)).collect()
    };
    let mut members = names(false);
    members.push(node_name(&own));
    members.sort();
    all.insert("nodename".into(), node_name(&own).into());
    all.insert("connected_nodes".into(), names(true).into());
    all.insert("ring_members".into(), members.into());
    if let Some(ring) = shared.node.ring() {
        all.insert("ring_num_partitions".into(), ring.owners.len().into());
        all.insert("ring_creation_size".into(), ring.owners.len().into());
        let own = ring.owners.iter().filter(|owner| **owner == status.node).count();
        all.insert("riak_kv_vnodes_running".into(), own.into());
    }
    all.insert("storage_backend".into(), "credenza".into());
    let used = status.disk.total_bytes.saturating_sub(status.disk.free_bytes);
    let percent = used.saturating_mul(100).checked_div(status.disk.total_bytes).unwrap_or(0);
    let disk = json!({ "id": "data", "size": status.disk.total_bytes / 1024, "used": percent });
    all.insert("disk".into(), json!([disk]));
    counted(shared, &mut all);
    Value::Object(all)
}

/// What clients of Riak asked of this node.
fn counted(shared: &Shared, all: &mut Map<String, Value>) {
    let counters = &shared.counters;
    let total = |operations: &[Operation]| -> u64 {
        operations.iter().map(|operation| counters.total(Tongue::Riak, *operation)).sum()
    };
    let puts = [Operation::Put, Operation::Update, Operation::Delete];
    all.insert("node_gets_total".into(), total(&[Operation::Get]).into());
    all.insert("node_puts_total".into(), total(&puts).into());
    let now = shared.clock.unix_ms() / 1_000;
    for (name, fsm, class) in [
        ("node_gets", "node_get_fsm_time", Class::Read),
        ("node_puts", "node_put_fsm_time", Class::Write),
    ] {
        all.insert(name.into(), counters.last_minute(class, now).into());
        let latency = counters.latency(Tongue::Riak, class);
        for (end, us) in [
            ("mean", latency.mean_us),
            ("median", latency.percentile_us(50)),
            ("95", latency.percentile_us(95)),
            ("99", latency.percentile_us(99)),
            ("100", latency.percentile_us(100)),
        ] {
            all.insert(format!("{fsm}_{end}"), us.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_have_the_name_of_their_machine() {
        for (address, name) in [
            ("127.0.0.1:7711", "riak@127.0.0.1"),
            ("[::1]:7711", "riak@::1"),
            ("db.example:1", "riak@db.example"),
        ] {
            assert_eq!(node_name(address), name);
        }
    }

    #[test]
    fn resources_are_told_as_they_are_asked_for() {
        let page = resources(Some("text/html,*/*;q=0.1"));
        assert!(page.body.starts_with(b"<html>"));
        let document = resources(Some("application/json"));
        let document: Value = serde_json::from_slice(&document.body).expect("a document");
        assert_eq!(document["riak_kv_wm_ping"], "/ping");
    }
}
