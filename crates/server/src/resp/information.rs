//! `INFO`: the figures that Redis' tools read, under Redis' names, and Credenza's own in a section
//! of its own.

use super::client::Client;
use super::registry::Registry;
use super::translate::{InfoSection, REDIS_VERSION};
use crate::Shared;
use base::rights::Operate;
use node::{Sample, Status};
use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

/// Role of this node in the group of a bucket, in Redis' terms.
pub struct Role {
    /// Applied log index of the node, as Redis' replication offset.
    pub offset: u64,
    /// Host and port of the master, and true if it is connected. `None`: this node is the master.
    pub master: Option<(String, u16, bool)>,
    /// Number of other members that are connected.
    pub replicas: usize,
}

impl Role {
    /// Returns the role according to this node's status.
    pub fn new(shared: &Shared, client: &Client, status: &Status) -> Role {
        let placement = shared.node.placement(&client.bucket).ok();
        let others = status.members.iter().filter(|other| other.member.node != status.node);
        let replicas = others.filter(|other| other.connected).count();
        let Some(placement) = placement else { return Role { offset: 0, master: None, replicas } };
        let offset = placement.applied.0;
        if placement.role == "master" {
            return Role { offset, master: None, replicas };
        }
        let master_status = status
            .members
            .iter()
            .find(|other| Some(&other.member.name) == placement.master.as_ref());
        let master = master_status.map_or((String::new(), 0, false), |other| {
            let (host, port) = other.member.client.rsplit_once(':').unwrap_or_default();
            (host.into(), port.parse().unwrap_or(0), other.connected)
        });
        Role { offset, master: Some(master), replicas }
    }

    /// Returns Redis' name of the role.
    pub fn name(&self) -> &'static str {
        if self.master.is_some() { "slave" } else { "master" }
    }
}

/// Lines that only operators see: ids of the cluster, the node and the process.
const OPERATORS_LINES: [&str; 3] = ["run_id", "master_replid", "process_id"];

/// Returns the text of these sections. `keys`: number of keys in the connection's bucket, if known.
/// Omits the section about this node and its disk, except for operators.
pub fn text(
    sections: &[InfoSection],
    shared: &Shared,
    registry: &Registry,
    client: &Client,
    keys: Option<u64>,
) -> String {
    let status = shared.node.status();
    let mut text = String::new();
    let is_operator = shared.node.may(&client.principal, Operate::ShowStatistics);
    for section in sections {
        if matches!(section, InfoSection::Credenza) && !is_operator {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let lines = match section {
            InfoSection::Server => server(&status, registry, client),
            InfoSection::Clients => clients(shared, registry),
            InfoSection::Memory => memory(&status, shared),
            InfoSection::Persistence => persistence(&status, registry),
            InfoSection::Stats => stats(shared, registry),
            InfoSection::Cpu => cpu(),
            InfoSection::Replication => replication(&status, &Role::new(shared, client, &status)),
            InfoSection::Cluster => vec![("cluster_enabled", "0".into())],
            InfoSection::Keyspace => keyspace(&status, keys),
            InfoSection::Credenza => credenza(&status, shared, client),
        };
        // Writing to a string can't fail.
        let _ = match section {
            InfoSection::Cpu => write!(text, "# CPU\r\n"),
            section => write!(text, "# {section:?}\r\n"),
        };
        let is_shown = |name: &str| is_operator || !OPERATORS_LINES.contains(&name);
        for (name, value) in lines.into_iter().filter(|(name, _)| is_shown(name)) {
            let _ = write!(text, "{name}:{value}\r\n");
        }
    }
    text
}

type Lines = Vec<(&'static str, String)>;

fn server(status: &Status, registry: &Registry, client: &Client) -> Lines {
    let seconds = status.uptime_ms / 1_000;
    vec![
        ("redis_version", REDIS_VERSION.into()),
        ("redis_mode", "standalone".into()),
        ("credenza_version", status.version.into()),
        ("os", if cfg!(target_os = "linux") { "Linux" } else { "other" }.into()),
        ("arch_bits", usize::BITS.to_string()),
        ("process_id", std::process::id().to_string()),
        ("run_id", format!("{:016x}{:016x}", status.cluster.0, status.node.0)),
        ("tcp_port", client.info.local.port().to_string()),
        ("server_time_usec", registry.clock.unix_time().as_micros().to_string()),
        ("uptime_in_seconds", seconds.to_string()),
        ("uptime_in_days", (seconds / 86_400).to_string()),
    ]
}

fn clients(shared: &Shared, registry: &Registry) -> Lines {
    vec![
        ("connected_clients", registry.clients_count().to_string()),
        ("cluster_connections", "0".into()),
        ("maxclients", shared.settings.connections_max.to_string()),
        ("blocked_clients", "0".into()),
    ]
}

fn memory(status: &Status, shared: &Shared) -> Lines {
    let used = status.store.memory_bytes + status.store.cached_bytes;
    let samples = shared.node.samples();
    let resident = Sample::value_of(&samples, "process_resident_memory_bytes") as u64;
    vec![
        ("used_memory", used.to_string()),
        ("used_memory_human", human_bytes(used)),
        ("used_memory_rss", resident.to_string()),
        ("used_memory_rss_human", human_bytes(resident)),
        ("maxmemory", "0".into()),
        ("maxmemory_human", "0B".into()),
        ("maxmemory_policy", "noeviction".into()),
    ]
}

fn cpu() -> Lines {
    let (own, system) = node::processor_seconds();
    vec![
        ("used_cpu_sys", format!("{system:.6}")),
        ("used_cpu_user", format!("{own:.6}")),
        ("used_cpu_sys_children", "0.000000".into()),
        ("used_cpu_user_children", "0.000000".into()),
    ]
}

/// Formats a number of bytes as Redis shortens it.
fn human_bytes(bytes: u64) -> String {
    let mut number = bytes as f64;
    for unit in ["B", "K", "M", "G"] {
        if number < 1024.0 {
            return if unit == "B" { format!("{bytes}B") } else { format!("{number:.2}{unit}") };
        }
        number /= 1024.0;
    }
    format!("{number:.2}T")
}

fn persistence(status: &Status, registry: &Registry) -> Lines {
    vec![
        ("loading", "0".into()),
        ("rdb_changes_since_last_save", "0".into()),
        ("rdb_bgsave_in_progress", "0".into()),
        ("rdb_last_save_time", registry.clock.unix_time().as_secs().to_string()),
        ("rdb_last_bgsave_status", "ok".into()),
        ("aof_enabled", "1".into()),
        ("aof_rewrite_in_progress", "0".into()),
        ("aof_last_write_status", if status.ready { "ok".into() } else { "err".into() }),
        ("aof_current_size", status.log.bytes.to_string()),
    ]
}

fn stats(shared: &Shared, registry: &Registry) -> Lines {
    let counts = &registry.counts;
    vec![
        ("total_connections_received", shared.counters.connections_total().to_string()),
        ("total_commands_processed", counts.commands.load(Relaxed).to_string()),
        ("instantaneous_ops_per_sec", registry.commands_per_second().to_string()),
        ("expired_keys", "0".into()),
        ("evicted_keys", "0".into()),
        ("keyspace_hits", counts.hits.load(Relaxed).to_string()),
        ("keyspace_misses", counts.misses.load(Relaxed).to_string()),
        ("total_error_replies", counts.errors.load(Relaxed).to_string()),
        ("open_cursors", registry.cursors().len().to_string()),
    ]
}

/// Every node accepts writes in any role; these lines name the node that decides them.
fn replication(status: &Status, role: &Role) -> Lines {
    let mut lines = vec![("role", role.name().into())];
    if let Some((host, port, connected)) = &role.master {
        lines.push(("master_host", host.clone()));
        lines.push(("master_port", port.to_string()));
        lines.push(("master_link_status", if *connected { "up" } else { "down" }.into()));
    }
    let replicas = if role.master.is_some() { 0 } else { role.replicas };
    lines.push(("connected_slaves", replicas.to_string()));
    lines.push(("master_replid", format!("{:016x}", status.cluster.0)));
    lines.push(("master_repl_offset", role.offset.to_string()));
    lines
}

/// Returns the number of keys. An exact count walks all keys; if that takes too long, the store's
/// estimate of all buckets together is returned, without the known internal rows.
fn keyspace(status: &Status, keys: Option<u64>) -> Lines {
    let sessions: u64 = status.groups.iter().map(|group| group.sessions).sum();
    // One row per bucket and per session, one mark per group, a type and a counter.
    let internal_rows = (status.buckets + status.groups.len()) as u64 + sessions + 2;
    match keys.unwrap_or_else(|| status.store.rows_estimated.saturating_sub(internal_rows)) {
        0 => Vec::new(),
        rows => vec![("db0", format!("keys={rows},expires=0,avg_ttl=0"))],
    }
}

fn credenza(status: &Status, shared: &Shared, client: &Client) -> Lines {
    let placement = shared.node.placement(&client.bucket).ok();
    let master = placement.and_then(|placement| placement.master).unwrap_or_default();
    let mut lines: Lines = vec![
        ("node", base::codec::printable(status.name.as_bytes())),
        ("master", base::codec::printable(master.as_bytes())),
        ("ready", u8::from(status.ready).to_string()),
        ("groups", status.groups.len().to_string()),
        ("buckets", status.buckets.to_string()),
        ("interval_buckets", status.interval_buckets.len().to_string()),
        ("undecided", status.groups.iter().map(|group| group.undecided).sum::<u64>().to_string()),
        ("log_syncs", status.log.syncs.to_string()),
        ("sync_us_p50", status.log.sync_us_p50.to_string()),
        ("sync_us_p99", status.log.sync_us_p99.to_string()),
        ("log_slow", u8::from(status.log.slow).to_string()),
        ("log_hangs", u8::from(status.log.hangs).to_string()),
        ("disk_bytes", status.store.disk_bytes.to_string()),
        ("disk_free_bytes", status.disk.free_bytes.to_string()),
        ("disk_full", u8::from(status.disk.full).to_string()),
        ("alarms", status.alarms.len().to_string()),
    ];
    for alarm in &status.alarms {
        let text = format!("{} {}; {}", alarm.code.name(), alarm.text, alarm.remedy);
        lines.push(("alarm", base::codec::printable(text.as_bytes())));
    }
    lines
}
