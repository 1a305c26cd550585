//! Riak's statistics, under the names that its clients and tools expect.
//!
//! Clients read them first on every connection, so they require no other node and no majority.
//! Figures that Credenza does not count are absent; `docs/use/riak.md` lists them.

use super::answer::{POLICY, RiakResponse};
use super::counters::RiakCounters;
use super::negotiate::accept_weight;
use crate::counters::{Class, ClientProtocol, OperationKind};
use crate::shared::Shared;
use base::NodeId;
use node::{MemberStatus, Sample, Status};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

/// Version of Riak with the same HTTP interface. Clients read it first, to select the features that
/// they use.
pub(super) const VERSION: &str = "2.2.3";
/// Resources that are served, under the names by which clients look them up.
const RESOURCES: [(&str, &str); 13] = [
    ("riak_kv_wm_bucket_type", "/types"),
    ("riak_kv_wm_buckets", "/buckets"),
    ("riak_kv_wm_counter", "/buckets"),
    ("riak_kv_wm_crdt", "/types"),
    ("riak_kv_wm_index", "/buckets"),
    ("riak_kv_wm_keylist", "/buckets"),
    ("riak_kv_wm_object", "/buckets"),
    ("riak_kv_wm_ping", "/ping"),
    ("riak_kv_wm_preflist", "/buckets"),
    ("riak_kv_wm_props", "/buckets"),
    ("riak_kv_wm_raw", "/riak"),
    ("riak_kv_wm_stats", "/stats"),
    ("riak_kv_wm_types", "/types"),
];

/// HTML page for browsers.
const PAGE_TEMPLATE: &str = include_str!("welcome.html");

/// Policy of the page: it has a style, and nothing else that a browser would load or run.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                           form-action 'none'; frame-ancestors 'none'";

/// Returns the list of resources: a document for Riak's clients, a page with links for a browser.
/// `host`: address at which the client reached this node.
pub(super) fn resources(accept: Option<&str>, host: &str) -> RiakResponse {
    let links: Vec<String> =
        RESOURCES.iter().map(|(name, path)| format!("<{path}>; rel=\"{name}\"")).collect();
    let answer = if accept_weight(accept, "text/html") > accept_weight(accept, "application/json") {
        let item = |(name, path): &(&str, &str)| format!("<li><a href=\"{path}\">{name}</a></li>");
        let items: String = RESOURCES.iter().map(item).collect();
        RiakResponse::with_body(200, "text/html", page(host, &items))
            .with_header(POLICY, PAGE_POLICY)
    } else {
        let all = RESOURCES.iter().map(|(name, path)| (name.to_string(), json!(path)));
        let document = Value::Object(all.collect());
        RiakResponse::with_body(200, "application/json", document.to_string())
    };
    answer.with_header("Link", links.join(", "))
}

/// Fills in the page. `host` comes from the request, so it is used only if it has no other
/// characters than an address has.
fn page(host: &str, resources: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".:-[]".contains(&byte);
    let is_address = !host.is_empty() && host.bytes().all(is_plain);
    let host = if is_address { host } else { "127.0.0.1:7711" };
    let port = host.rsplit_once(':').map_or("80", |(_, port)| port);
    let filled = PAGE_TEMPLATE.replace("{url}", &format!("http://{host}")).replace("{port}", port);
    filled.replace("{resources}", resources)
}

/// Returns the name of a node in Riak's form, with the host of its address.
pub(super) fn node_name(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    format!("riak@{}", host.trim_matches(['[', ']']))
}

/// Returns the document of `/stats`. Clients read in it the version, and counts of requests; only
/// operators see the cluster and this machine.
pub(super) fn answer(
    shared: &Shared,
    counters: &RiakCounters,
    is_operator: bool,
    accept: Option<&str>,
) -> RiakResponse {
    let document = document(shared, counters, is_operator);
    let plain = accept_weight(accept, "text/plain") > accept_weight(accept, "application/json");
    match serde_json::to_string_pretty(&document) {
        Ok(text) if plain => RiakResponse::with_body(200, "text/plain", text),
        _ => RiakResponse::with_body(200, "application/json", document.to_string()),
    }
}

fn document(shared: &Shared, counters: &RiakCounters, is_operator: bool) -> Value {
    let mut fields = Map::new();
    for version in ["riak_kv_version", "riak_core_version", "riak_api_version"] {
        fields.insert(version.into(), VERSION.into());
    }
    fields.insert("storage_backend".into(), "credenza".into());
    if is_operator {
        add_cluster(shared, &mut fields);
        add_machine(&mut fields);
    }
    add_requests(shared, &mut fields);
    let second = shared.clock.unix_ms() / 1_000;
    add_repairs(shared, counters, second, &mut fields);
    add_counters(counters, second, &mut fields);
    Value::Object(fields)
}

/// Adds the members, the ring, and the disk and memory of this node.
fn add_cluster(shared: &Shared, fields: &mut Map<String, Value>) {
    let status = shared.node.status();
    let nodes = NodeNames::new(shared, &status);
    let others = status.members.iter().filter(|entry| entry.member.node != status.node);
    let connected = others.clone().filter(|entry| entry.connected);
    let connected: Vec<_> = connected.map(|entry| nodes.name(entry.member.node)).collect();
    let mut members: Vec<_> = others.map(|entry| nodes.name(entry.member.node)).collect();
    members.push(nodes.local_name());
    members.sort();
    fields.insert("nodename".into(), nodes.local_name().into());
    fields.insert("connected_nodes".into(), connected.into());
    fields.insert("ring_members".into(), members.into());
    if let Some(ring) = shared.node.ring() {
        fields.insert("ring_num_partitions".into(), ring.owners.len().into());
        fields.insert("ring_creation_size".into(), ring.owners.len().into());
        let owned = ring.owners.iter().filter(|owner| **owner == status.node).count();
        fields.insert("riak_kv_vnodes_running".into(), owned.into());
        fields.insert("ring_ownership".into(), nodes.ownership(&ring.owners).into());
    }
    let used = status.disk.total_bytes.saturating_sub(status.disk.free_bytes);
    let percent = used.saturating_mul(100).checked_div(status.disk.total_bytes).unwrap_or(0);
    let disk = json!({ "id": "data", "size": status.disk.total_bytes / 1024, "used": percent });
    fields.insert("disk".into(), json!([disk]));
    let memory = status.store.memory_bytes + status.store.cached_bytes;
    fields.insert("memory_total".into(), memory.into());
}

/// Returns the name of this node in Riak's form.
pub(super) fn local_name(shared: &Shared) -> String {
    NodeNames::new(shared, &shared.node.status()).local_name()
}

/// Names of the cluster's nodes in Riak's form.
struct NodeNames {
    local_node: NodeId,
    addresses: BTreeMap<NodeId, String>,
}

impl NodeNames {
    fn new(shared: &Shared, status: &Status) -> NodeNames {
        let member = |entry: &MemberStatus| (entry.member.node, entry.member.client.clone());
        let addresses = status.members.iter().map(member);
        // The only member of a cluster may not have published its address.
        let mut addresses: BTreeMap<_, _> =
            addresses.filter(|(_, address)| !address.is_empty()).collect();
        let listen_address = || shared.settings.listen.to_string();
        addresses.entry(status.node).or_insert_with(listen_address);
        NodeNames { local_node: status.node, addresses }
    }

    fn local_name(&self) -> String {
        self.name(self.local_node)
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
fn add_machine(fields: &mut Map<String, Value>) {
    let sysinfo = rustix::system::sysinfo();
    let bytes = |units: u64| units.saturating_mul(sysinfo.mem_unit.into());
    let used = sysinfo.totalram.saturating_sub(sysinfo.freeram);
    fields.insert("mem_total".into(), bytes(sysinfo.totalram).into());
    fields.insert("mem_allocated".into(), bytes(used).into());
    fields.insert("cpu_nprocs".into(), sysinfo.procs.into());
    for (name, load) in ["cpu_avg1", "cpu_avg5", "cpu_avg15"].into_iter().zip(sysinfo.loads) {
        fields.insert(name.into(), (load >> 8).into());
    }
}

/// Adds the node's counters of read repairs and redirected requests.
fn add_repairs(
    shared: &Shared,
    counters: &RiakCounters,
    second: u64,
    fields: &mut Map<String, Value>,
) {
    let samples = shared.node.samples();
    let count = |name: &str| Sample::value_of(&samples, name) as u64;
    let repairs = count("credenza_read_repairs_total");
    let redirected = count("credenza_available_redirected_total");
    fields.insert("coord_redirs_total".into(), redirected.into());
    fields.insert("read_repairs_total".into(), repairs.into());
    fields.insert("read_repairs".into(), counters.repairs.last_minute(second, repairs).into());
}

/// Adds statistics of the answers to Riak's clients.
fn add_counters(counters: &RiakCounters, second: u64, fields: &mut Map<String, Value>) {
    for (name, histogram) in
        [("node_get_fsm_siblings", &counters.siblings), ("node_get_fsm_objsize", &counters.bytes)]
    {
        fields.extend(
            histogram.statistics().map(|(end, number)| (format!("{name}_{end}"), number.into())),
        );
    }
    let typed =
        counters.type_counters().map(|(what, kind, rate)| (format!("node_{what}_{kind}"), rate));
    let lists = [
        ("list_fsm_create".to_string(), &counters.lists),
        ("list_fsm_create_error".to_string(), &counters.lists_failed),
    ];
    for (name, rate) in typed.chain(lists) {
        fields.insert(format!("{name}_total"), rate.total().into());
        fields.insert(name, rate.last_minute(second).into());
    }
    fields.insert("list_fsm_active".into(), counters.lists_active.load(Relaxed).into());
}

/// Adds the counts and latencies of requests from Riak's clients.
fn add_requests(shared: &Shared, fields: &mut Map<String, Value>) {
    let counters = &shared.counters;
    let total = |operations: &[OperationKind]| -> u64 {
        operations.iter().map(|operation| counters.total(ClientProtocol::Riak, *operation)).sum()
    };
    let puts = [OperationKind::Put, OperationKind::Update, OperationKind::Delete];
    fields.insert("node_gets_total".into(), total(&[OperationKind::Get]).into());
    fields.insert("node_puts_total".into(), total(&puts).into());
    let now = shared.clock.unix_ms() / 1_000;
    for (name, fsm, class) in [
        ("node_gets", "node_get_fsm_time", Class::Read),
        ("node_puts", "node_put_fsm_time", Class::Write),
    ] {
        fields.insert(name.into(), counters.last_minute(class, now).into());
        let latency = counters.latency(ClientProtocol::Riak, class);
        for (end, us) in [
            ("mean", latency.mean_us),
            ("median", latency.percentile_us(50)),
            ("95", latency.percentile_us(95)),
            ("99", latency.percentile_us(99)),
            ("100", latency.percentile_us(100)),
        ] {
            fields.insert(format!("{fsm}_{end}"), us.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_name_is_riak_at_its_host() {
        for (address, name) in [
            ("127.0.0.1:7711", "riak@127.0.0.1"),
            ("[::1]:7711", "riak@::1"),
            ("db.example:1", "riak@db.example"),
        ] {
            assert_eq!(node_name(address), name);
        }
    }

    #[test]
    fn resource_list_is_json_without_html_preference() {
        for accept in [Some("application/json"), Some("*/*"), None] {
            let document = resources(accept, "n1.example:8098");
            let document: Value = serde_json::from_slice(&document.body).expect("a document");
            assert_eq!(document["riak_kv_wm_ping"], "/ping", "{accept:?}");
        }
    }

    #[test]
    fn resource_page_names_the_host_and_ignores_a_hostile_host() {
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
