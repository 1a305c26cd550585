//! A node's status in tables: the node, its groups, its members, its disk and memory.

use super::rates::Rates;
use crate::commands::cluster_status::member_text;
use crate::output::{as_table, printable_text};
use crate::paint::Paint;
use api::{
    AvailableStatus, GroupStatus, HexId, ListenerStatus, MemberStatus, NodeStatus, RequestCounts,
    SnapshotStatus, StoreStatus,
};
use base::duration::format_ms;
use program::units::{show_count, show_size};

/// Legend of the log positions in the table of groups.
const LEGEND: &str = "\
log positions: decided = synced by enough voters, applied = readable here,
flushed = in the tables too (what is behind it stands in the log, as durably)
";

/// Returns all tables, without the verdict and the warnings.
pub fn tables(status: &NodeStatus, rates: Option<&Rates>, paint: Paint) -> String {
    let mut text = fields(&node_fields(status), paint);
    text.push('\n');
    text.push_str(&table(&GROUPS, group_rows(status), paint));
    text.push_str(LEGEND);
    if status.members.len() > 1 {
        text.push('\n');
        text.push_str(&table(&MEMBERS, member_rows(status), paint));
    }
    text.push('\n');
    text.push_str(&fields(&load_fields(status, rates), paint));
    text
}

const GROUPS: [&str; 9] = [
    "group",
    "role",
    "master",
    "decided",
    "applied",
    "flushed",
    "undecided",
    "sessions",
    "members",
];
const MEMBERS: [&str; 7] =
    ["member", "id", "connection", "last heard", "round trip", "membership", "hints"];

/// Name and value of a field.
type StatusField = (&'static str, String);

fn fields(all: &[StatusField], paint: Paint) -> String {
    let line =
        |(name, value): &StatusField| format!("{} {value}\n", paint.head(&format!("{name:<10}")));
    all.iter().map(line).collect()
}

fn table(head: &[&str], rows: Vec<Vec<String>>, paint: Paint) -> String {
    let text = as_table(head, &rows);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    format!("{}\n{rest}", paint.head(first))
}

/// Returns the name of the member with this id.
fn name_of(status: &NodeStatus, node: HexId) -> String {
    let known = status.members.iter().find(|member| member.node == node);
    known.map_or_else(|| node.to_string(), |member| printable_text(&member.name))
}

/// Formats microseconds as milliseconds.
fn milliseconds(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1e3)
}

fn node_fields(status: &NodeStatus) -> Vec<StatusField> {
    let patience = format_ms(status.lease_ms);
    let (name, node) = (printable_text(&status.name), status.node);
    let (version, uptime) = (printable_text(&status.version), format_ms(status.uptime_ms));
    let mut all = vec![
        ("node", format!("{name}, id {node}, version {version}, up for {uptime}")),
        ("cluster", format!("{}, silent masters are replaced after {patience}", status.cluster)),
        ("listens", listeners(status)),
    ];
    if status.members.len() > 1 {
        all.push(("restart", restart_text(status)));
    }
    all.extend(
        status.snapshots.iter().map(|snapshot| ("receives", snapshot_text(status, snapshot))),
    );
    all
}

fn listeners(status: &NodeStatus) -> String {
    let own = status.members.iter().find(|member| member.node == status.node);
    let peer = own.map(|own| &own.peer).filter(|peer| !peer.is_empty());
    let listener = |listener: &ListenerStatus| {
        format!("{} ({})", printable_text(&listener.address), printable_text(&listener.serves))
    };
    let peer = peer.map(|peer| format!("{} (other nodes)", printable_text(peer)));
    status.listeners.iter().map(listener).chain(peer).collect::<Vec<_>>().join(", ")
}

/// Describes the consequence of a restart of the node.
fn restart_text(status: &NodeStatus) -> String {
    let blocked_groups = status.groups.iter().filter(|group| !group.expect_progress_possible);
    let blocked_groups: Vec<_> = blocked_groups.map(|group| group.id.to_string()).collect();
    let word = if blocked_groups.len() == 1 { "group" } else { "groups" };
    match blocked_groups.is_empty() {
        true => "safe: every group goes on without this node".into(),
        false => format!(
            "stops {word} {}: without this node too few voters are connected and up to date",
            blocked_groups.join(", ")
        ),
    }
}

fn snapshot_text(status: &NodeStatus, snapshot: &SnapshotStatus) -> String {
    let eta = snapshot.eta_ms.map(|eta| format!(", about {} left", format_ms(eta)));
    format!(
        "a snapshot of group {} from {}: {} of about {} rows, {}/s{}",
        snapshot.group,
        name_of(status, snapshot.from),
        show_count(snapshot.rows),
        show_count(snapshot.rows_estimated),
        show_size(snapshot.bytes_per_second),
        eta.unwrap_or_default()
    )
}

fn group_rows(status: &NodeStatus) -> Vec<Vec<String>> {
    let row = |group: &GroupStatus| {
        let mut parts: Vec<_> = group.members.iter().map(member_text).collect();
        parts.sort();
        vec![
            group.id.to_string(),
            printable_text(&group.role),
            group.master.as_deref().map_or_else(|| "none".into(), printable_text),
            show_count(group.decided),
            show_count(group.applied),
            show_count(group.flushed),
            show_count(group.undecided),
            show_count(group.sessions),
            parts.join(" "),
        ]
    };
    status.groups.iter().map(row).collect()
}

fn member_rows(status: &NodeStatus) -> Vec<Vec<String>> {
    let mut all: Vec<_> = status.members.iter().collect();
    all.sort_by_key(|member| &member.name);
    let row = |member: &MemberStatus| {
        let (is_own, connected) = (member.node == status.node, member.connected);
        let state = match (is_own, connected, member.health.as_str()) {
            (true, ..) => "this node".into(),
            (_, true, "up" | "") => "up".into(),
            (_, true, health) => format!("up, but {}", printable_text(health)),
            (_, false, _) => "down".into(),
        };
        let last_heard = match (member.unreachable_ms, member.last_heard_ms_ago) {
            _ if is_own => "-".into(),
            (Some(downtime_ms), _) => format!("not for {}", format_ms(downtime_ms)),
            (None, Some(ago)) if connected => format!("{} ago", format_ms(ago)),
            (None, _) => "never".into(),
        };
        let round_trip = match member.rtt_us {
            round_trip if connected && round_trip > 0 => milliseconds(round_trip),
            _ => "-".into(),
        };
        let hints = match member.hints {
            0 => "-".into(),
            rows => format!("{} rows", show_count(rows)),
        };
        let (name, node) = (printable_text(&member.name), member.node.to_string());
        vec![name, node, state, last_heard, round_trip, member.membership.name().into(), hints]
    };
    all.into_iter().map(row).collect()
}

fn load_fields(status: &NodeStatus, rates: Option<&Rates>) -> Vec<StatusField> {
    let (log, disk) = (&status.log, &status.disk);
    let files = match disk.free_files {
        Some(files) => format!(", and for {} more files", show_count(files)),
        None => String::new(),
    };
    let segments = match log.segments {
        1 => "1 segment".into(),
        count => format!("{} segments", show_count(count)),
    };
    let (free, total) = (show_size(disk.free_bytes), show_size(disk.total_bytes));
    let resident = status.memory.resident_bytes;
    let mut all = vec![
        ("disk", format!("room for {free} of {total}{files}")),
        (
            "log",
            format!(
                "{} in {segments}; a sync takes {} (median), {} (99 % of them)",
                show_size(log.bytes),
                milliseconds(log.sync_us_p50),
                milliseconds(log.sync_us_p99)
            ),
        ),
        ("store", store(&status.store)),
        ("memory", resident.map_or_else(|| "unknown".into(), show_size)),
        ("buckets", buckets(status)),
    ];
    all.extend(available(&status.available).map(|text| ("ring", text)));
    let rates = rates.map_or_else(String::new, |rates| format!("; {}", rates.text()));
    all.push(("requests", format!("{}{rates}", requests(status))));
    all
}

fn store(store: &StoreStatus) -> String {
    let slowed = match store.write_slowdown_permille {
        0 => String::new(),
        permille => format!(
            "; writes are slowed ({} % of the most): {} runs, {} to be merged",
            permille.div_ceil(10),
            store.runs,
            show_size(store.merge_debt_bytes)
        ),
    };
    format!(
        "{} on disk, about {} rows; {} of writes not in tables yet{slowed}",
        show_size(store.disk_bytes),
        show_count(store.rows_estimated),
        show_size(store.memory_bytes)
    )
}

fn buckets(status: &NodeStatus) -> String {
    let names: Vec<_> = status.interval_buckets.iter().map(|name| printable_text(name)).collect();
    let synced_later = match names.is_empty() {
        true => String::new(),
        false => format!("; acknowledged before they are synced: {}", names.join(", ")),
    };
    format!("{} consistent{synced_later}", show_count(status.buckets))
}

/// Describes the part in available buckets. `None`: there is no ring.
fn available(available: &AvailableStatus) -> Option<String> {
    let epoch = Some(available.ring_epoch).filter(|epoch| *epoch > 0)?;
    let names: Vec<_> = available.suspected_nodes.iter().map(|name| printable_text(name)).collect();
    let suspected = match names.is_empty() {
        true => String::new(),
        false => format!("; others stand in for {}", names.join(", ")),
    };
    let partitions = show_count(available.partitions);
    Some(format!(
        "epoch {epoch}, this node is the first owner of {partitions} partitions{suspected}"
    ))
}

fn requests(status: &NodeStatus) -> String {
    let RequestCounts { http, resp, arakoon, riak } = status.requests;
    let counts = [(http, "HTTP"), (resp, "Redis"), (arakoon, "Arakoon"), (riak, "Riak")];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> =
        counts.map(|(count, name)| format!("{} {name}", show_count(*count))).collect();
    let counts = if counts.is_empty() { "none".into() } else { counts.join(", ") };
    let connections = match status.connections {
        1 => "1 connection".into(),
        count => format!("{} connections", show_count(count)),
    };
    format!("{counts} since the start; {connections}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::examples;

    fn text_of(status: &NodeStatus) -> String {
        tables(status, None, Paint::OFF)
    }

    #[test]
    fn single_node_status_renders_all_sections() {
        let expected = "\
node       n1, id 27b9775f33bbdcfa, version 0.1.0, up for 2 h
cluster    dcb290358f72c23f, silent masters are replaced after 0.6 s
listens    127.0.0.1:7711 (clients and operators)

group  role    master  decided  applied  flushed  undecided  sessions  members
0      master  n1      1,213    1,213    400      0          2         n1
1      master  n1      1,213    1,213    400      0          2         n1
log positions: decided = synced by enough voters, applied = readable here,
flushed = in the tables too (what is behind it stands in the log, as durably)

disk       room for 19.5 GiB of 40 GiB, and for 2,345,678 more files
log        64 MiB in 1 segment; a sync takes 0.41 ms (median), 1.93 ms (99 % of them)
store      1.2 GiB on disk, about 1,234,567 rows; 3 MiB of writes not in tables yet
memory     312 MiB
buckets    4 consistent
requests   1,234 HTTP, 88 Redis since the start; 3 connections
";
        assert_eq!(text_of(&examples::single_node()), expected);
    }

    #[test]
    fn three_node_status_lists_members_and_restart_safety() {
        let text = text_of(&examples::three_nodes());
        let expected = "\
member  id                connection  last heard  round trip  membership  hints
n1      27b9775f33bbdcfa  this node   -           -           member      -
n2      3478389e4b09ea78  up          0.1 s ago   0.12 ms     member      -
n3      0ad4c29d653e1029  up          0.1 s ago   0.12 ms     member      -
";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("restart    safe: every group goes on without this node"), "{text}");
        assert!(text.contains("127.0.0.1:7711 (clients and operators), 127.0.0.1:7712 (other"));
    }

    #[test]
    fn slowed_writes_are_told_with_the_debt_of_merges() {
        let mut status = examples::single_node();
        assert!(!text_of(&status).contains("slowed"));
        status.store.write_slowdown_permille = 124;
        status.store.runs = 57;
        status.store.merge_debt_bytes = 3 << 30;
        let expected = "writes are slowed (13 % of the most): 57 runs, 3 GiB to be merged";
        assert!(text_of(&status).contains(expected), "{}", text_of(&status));
    }

    #[test]
    fn down_member_is_listed_with_downtime_and_pending_hints() {
        let text = text_of(&examples::one_missing());
        let expected = "\
n3      0ad4c29d653e1029  down        not for 12 s  -           member      412 rows
";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("restart    stops groups 0, 1: without this node"), "{text}");
        let ring =
            "epoch 66, this node is the first owner of 22 partitions; others stand in for n3";
        assert!(text.contains(ring), "{text}");
    }

    #[test]
    fn joining_node_status_reports_incoming_snapshot_and_part() {
        let text = text_of(&examples::joining());
        let expected = "receives   a snapshot of group 1 from n2: 1,200 of about 5,000 rows, \
                      3 MiB/s, about 12 s left";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("n1=learner n2 n3"), "{text}");
        assert!(text_of(&examples::witness()).contains("n1=witness n2 n3"));
    }

    #[test]
    fn status_text_has_no_null_or_numeric_id_and_fits_100_columns() {
        let all = [
            examples::single_node(),
            examples::three_nodes(),
            examples::one_missing(),
            examples::no_majority(),
            examples::joining(),
            examples::witness(),
        ];
        for status in &all {
            let text = text_of(status);
            assert!(!text.contains("null") && !text.contains("unknown"), "{text}");
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{line}");
                let digits =
                    |word: &str| word.len() > 12 && word.bytes().all(|b| b.is_ascii_digit());
                assert!(!line.split_whitespace().any(digits), "{line}");
            }
        }
    }
}
