//! Riak's statistics, under the names that its clients and tools look for.
//!
//! Clients read them first on every connection, so they need neither another node nor a majority.
//! Figures that Credenza does not count are absent; `docs/use/riak.md` lists them.

use super::answer::RiakResponse;
use super::negotiate::welcome;
use super::tally::Tally;
use crate::counters::{Class, ClientProtocol, OperationKind};
use crate::shared::Shared;
use base::NodeId;
use node::{MemberStatus, Sample, Status};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Version of Riak whose HTTP interface this is. Clients read it first, to know which features they
/// may use.
const VERSION: &str = "2.2.3";
/// Resources that are served, under the names by which clients look them up.
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

/// Page for the browser of a person.
const PAGE: &str = include_str!("welcome.html");

/// Returns the list of resources: a document for Riak's clients, a page with links for a browser.
/// `host`: address at which the client reached this node.
pub(super) fn resources(accept: Option<&str>, host: &str) -> RiakResponse {
    let links: Vec<String> =
        RESOURCES.iter().map(|(name, path)| format!("<{path}>; rel=\"{name}\"")).collect();
    let answer = if welcome(accept, "text/html") > welcome(accept, "application/json") {
        let item = |(name, path): &(&str, &str)| format!("<li><a href=\"{path}\">{name}</a></li>");
        let items: String = RESOURCES.iter().map(item).collect();
        RiakResponse::with_body(200, "text/html", page(host, &items))
    } else {
        let all = RESOURCES.iter().map(|(name, path)| (name.to_string(), json!(path)));
        let document = Value::Object(all.collect());
        RiakResponse::with_body(200, "application/json", document.to_string())
    };
    answer.header("Link", links.join(", "))
}

/// Fills in the page. `host` comes from the request, so it is used only if it has no other
/// characters than an address has.
fn page(host: &str, resources: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte);
    let is_address = !host.is_empty() && host.bytes().all(is_plain);
    let host = if is_address { host } else { "127.0.0.1:7711" };
    let port = host.rsplit_once(':').map_or("80", |(_, port)| port);
    let filled = PAGE.replace("{url}", &format!("http://{host}")).replace("{port}", port);
    filled.replace("{resources}", resources)
}

/// Returns the name of a node as Riak's nodes have it: that of their machine.
pub(super) fn node_name(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    format!("riak@{}", host.trim_matches(['[', ']']))
}

/// Returns the document of `/stats`.
pub(super) fn answer(shared: &Shared, tally: &Tally, accept: Option<&str>) -> RiakResponse {
    let document = document(shared, tally);
    let plain = welcome(accept, "text/plain") > welcome(accept, "application/json");
    match serde_json::to_string_pretty(&document) {
        Ok(text) if plain => RiakResponse::with_body(200, "text/plain", text),
        _ => RiakResponse::with_body(200, "application/json", document.to_string()),
    }
}

fn document(shared: &Shared, tally: &Tally) -> Value {
    let status = shared.node.status();
    let mut all = Map::new();
    let nodes = NodeNames::of(shared, &status);
    for version in ["riak_kv_version", "riak_core_version", "riak_api_version"] {
        all.insert(version.into(), VERSION.into());
    }
    let others = status.members.iter().filter(|known| known.member.node != status.node);
    let connected = others.clone().filter(|known| known.connected);
    let connected: Vec<_> = connected.map(|known| nodes.name(known.member.node)).collect();
    let mut members: Vec<_> = others.map(|known| nodes.name(known.member.node)).collect();
    members.push(nodes.own());
    members.sort();
    all.insert("nodename".into(), nodes.own().into());
    all.insert("connected_nodes".into(), connected.into());
    all.insert("ring_members".into(), members.into());
    if let Some(ring) = shared.node.ring() {
        all.insert("ring_num_partitions".into(), ring.owners.len().into());
        all.insert("ring_creation_size".into(), ring.owners.len().into());
        let own = ring.owners.iter().filter(|owner| **owner == status.node).count();
        all.insert("riak_kv_vnodes_running".into(), own.into());
        all.insert("ring_ownership".into(), nodes.ownership(&ring.owners).into());
    }
    all.insert("storage_backend".into(), "credenza".into());
    let used = status.disk.total_bytes.saturating_sub(status.disk.free_bytes);
    let percent = used.saturating_mul(100).checked_div(status.disk.total_bytes).unwrap_or(0);
    let disk = json!({ "id": "data", "size": status.disk.total_bytes / 1024, "used": percent });
    all.insert("disk".into(), json!([disk]));
    let memory = status.store.memory_bytes + status.store.cached_bytes;
    all.insert("memory_total".into(), memory.into());
    machine(&mut all);
    counted(shared, &mut all);
    let second = shared.clock.unix_ms() / 1_000;
    repaired(shared, tally, second, &mut all);
    tallied(tally, second, &mut all);
    Value::Object(all)
}

/// Returns the name of this node in Riak's form.
pub(super) fn own_name(shared: &Shared) -> String {
    NodeNames::of(shared, &shared.node.status()).own()
}

/// Names of the cluster's nodes in Riak's form.
struct NodeNames {
    own: NodeId,
    addresses: BTreeMap<NodeId, String>,
}

impl NodeNames {
    fn of(shared: &Shared, status: &Status) -> NodeNames {
        let member = |known: &MemberStatus| (known.member.node, known.member.client.clone());
        let known = status.members.iter().map(member);
        // A node that never had another member may not have published its address.
        let mut addresses: BTreeMap<_, _> = known.filter(|(_, at)| !at.is_empty()).collect();
        let own = || shared.settings.listen.to_string();
        addresses.entry(status.node).or_insert_with(own);
        NodeNames { own: status.node, addresses }
    }

    fn own(&self) -> String {
        self.name(self.own)
    }

    fn name(&self, node: NodeId) -> String {
        node_name(self.addresses.get(&node).map_or("unknown", String::as_str))
    }

    /// Returns the number of partitions of each node, as an Erlang list of pairs.
    fn ownership(&self, owners: &[NodeId]) -> String {
        let mut counts = BTreeMap::new();
        owners.iter().for_each(|owner| *counts.entry(*owner).or_insert(0) += 1);
        let pair = |(node, count)| format!("{{'{}',{count}}}", self.name(node));
        let pairs: Vec<_> = counts.into_iter().map(pair).collect();
        format!("[{}]", pairs.join(","))
    }
}

/// Adds figures of the machine: memory in bytes, processes, and the load in 1/256, as Erlang counts
/// it.
fn machine(all: &mut Map<String, Value>) {
    let told = rustix::system::sysinfo();
    let bytes = |units: u64| units.saturating_mul(told.mem_unit.into());
    let used = told.totalram.saturating_sub(told.freeram);
    all.insert("mem_total".into(), bytes(told.totalram).into());
    all.insert("mem_allocated".into(), bytes(used).into());
    all.insert("cpu_nprocs".into(), told.procs.into());
    for (name, load) in ["cpu_avg1", "cpu_avg5", "cpu_avg15"].into_iter().zip(told.loads) {
        all.insert(name.into(), (load >> 8).into());
    }
}

/// Adds counts of read repairs and redirected requests, which the node keeps itself.
fn repaired(shared: &Shared, tally: &Tally, second: u64, all: &mut Map<String, Value>) {
    let samples = shared.node.samples();
    let count = |name: &str| Sample::value_of(&samples, name) as u64;
    let repairs = count("credenza_read_repairs_total");
    let redirected = count("credenza_available_redirected_total");
    all.insert("coord_redirs_total".into(), redirected.into());
    all.insert("read_repairs_total".into(), repairs.into());
    all.insert("read_repairs".into(), tally.repairs.last_minute(second, repairs).into());
}

/// Adds statistics of the answers to Riak's clients.
fn tallied(tally: &Tally, second: u64, all: &mut Map<String, Value>) {
    for (name, spread) in
        [("node_get_fsm_siblings", &tally.siblings), ("node_get_fsm_objsize", &tally.bytes)]
    {
        all.extend(spread.told().map(|(end, number)| (format!("{name}_{end}"), number.into())));
    }
    let typed = tally.typed().map(|(what, kind, rate)| (format!("node_{what}_{kind}"), rate));
    let lists = [
        ("list_fsm_create".to_string(), &tally.lists),
        ("list_fsm_create_error".to_string(), &tally.lists_failed),
    ];
    for (name, rate) in typed.chain(lists) {
        all.insert(format!("{name}_total"), rate.total().into());
        all.insert(name, rate.last_minute(second).into());
    }
    all.insert("list_fsm_active".into(), tally.listing.load(Relaxed).into());
}

/// Adds the counts and latencies of requests from Riak's clients.
fn counted(shared: &Shared, all: &mut Map<String, Value>) {
    let counters = &shared.counters;
    let total = |operations: &[OperationKind]| -> u64 {
        operations.iter().map(|operation| counters.total(ClientProtocol::Riak, *operation)).sum()
    };
    let puts = [OperationKind::Put, OperationKind::Update, OperationKind::Delete];
    all.insert("node_gets_total".into(), total(&[OperationKind::Get]).into());
    all.insert("node_puts_total".into(), total(&puts).into());
    let now = shared.clock.unix_ms() / 1_000;
    for (name, fsm, class) in [
        ("node_gets", "node_get_fsm_time", Class::Read),
        ("node_puts", "node_put_fsm_time", Class::Write),
    ] {
        all.insert(name.into(), counters.last_minute(class, now).into());
        let latency = counters.latency(ClientProtocol::Riak, class);
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
        for accept in [Some("application/json"), Some("*/*"), None] {
            let document = resources(accept, "n1.example:8098");
            let document: Value = serde_json::from_slice(&document.body).expect("a document");
            assert_eq!(document["riak_kv_wm_ping"], "/ping", "{accept:?}");
        }
    }

    #[test]
    fn a_browser_is_shown_a_page_that_names_this_node_as_it_was_found() {
        let page = |host| {
            let page = resources(Some("text/html,application/xhtml+xml,*/*;q=0.8"), host);
            String::from_utf8(page.body.to_vec()).expect("text")
        };
        let found = page("n1.example:8098");
        assert!(found.contains("redis-cli -p 8098") && found.contains("http://n1.example:8098/v1"));
        assert!(found.contains("<a href=\"/ping\">riak_kv_wm_ping</a>"), "links as Riak has them");
        assert!(!found.contains("{url}") && !found.contains("{port}"), "all is filled in");
        let hostile = page("\"><script>");
        assert!(!hostile.contains("<script>") && hostile.contains("127.0.0.1:7711"));
    }
}
