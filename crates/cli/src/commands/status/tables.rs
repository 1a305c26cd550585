//! A node's status in tables: the node, its groups, its members, its disk and memory.

use super::rates::Rates;
use crate::commands::cluster_status::name_and_part;
use crate::output::{as_table, shown};
use crate::paint::Paint;
use crate::settings::units::{show_count, show_size};
use api::{
    AvailableStatus, GroupStatus, HexId, ListenerStatus, MemberStatus, NodeStatus, RequestCounts,
    SnapshotStatus, StoreStatus,
};
use base::duration::text_of_ms;

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

/// Name of the member with this id.
fn name_of(status: &NodeStatus, node: HexId) -> String {
    let known = status.members.iter().find(|member| member.node == node);
    known.map_or_else(|| node.to_string(), |member| shown(&member.name))
}

/// Microseconds as milliseconds.
fn us(us: u64) -> String {
    format!("{:.2} ms", us as f64 / 1e3)
}

fn node_fields(status: &NodeStatus) -> Vec<StatusField> {
    let lease = text_of_ms(status.lease_ms);
    let (name, node) = (shown(&status.name), status.node);
    let (version, up) = (shown(&status.version), text_of_ms(status.uptime_ms));
    let mut all = vec![
        ("node", format!("{name}, id {node}, version {version}, up for {up}")),
        ("cluster", format!("{}, lease of masters {lease}", status.cluster)),
        ("listens", listeners(status)),
    ];
    if status.members.len() > 1 {
        all.push(("restart", restart(status)));
    }
    all.extend(status.snapshots.iter().map(|snapshot| ("receives", receives(status, snapshot))));
    all
}

fn listeners(status: &NodeStatus) -> String {
    let own = status.members.iter().find(|member| member.node == status.node);
    let peer = own.map(|own| &own.peer).filter(|peer| !peer.is_empty());
    let listener = |it: &ListenerStatus| format!("{} ({})", shown(&it.address), shown(&it.serves));
    let peer = peer.map(|peer| format!("{} (other nodes)", shown(peer)));
    status.listeners.iter().map(listener).chain(peer).collect::<Vec<_>>().join(", ")
}

/// Says in words whether the node may be restarted.
fn restart(status: &NodeStatus) -> String {
    let stops = status.groups.iter().filter(|group| !group.expect_progress_possible);
    let stops: Vec<_> = stops.map(|group| group.id.to_string()).collect();
    let word = if stops.len() == 1 { "group" } else { "groups" };
    match stops.is_empty() {
        true => "safe: every group goes on without this node".into(),
        false => format!(
            "stops {word} {}: without this node too few voters are connected and up to date",
            stops.join(", ")
        ),
    }
}

fn receives(status: &NodeStatus, snapshot: &SnapshotStatus) -> String {
    let left = snapshot.eta_ms.map(|left| format!(", about {} left", text_of_ms(left)));
    format!(
        "a snapshot of group {} from {}: {} of about {} rows, {}/s{}",
        snapshot.group,
        name_of(status, snapshot.from),
        show_count(snapshot.rows),
        show_count(snapshot.rows_estimated),
        show_size(snapshot.bytes_per_second),
        left.unwrap_or_default()
    )
}

fn group_rows(status: &NodeStatus) -> Vec<Vec<String>> {
    let row = |group: &GroupStatus| {
        let mut parts: Vec<_> = group.members.iter().map(name_and_part).collect();
        parts.sort();
        vec![
            group.id.to_string(),
            shown(&group.role),
            group.master.as_deref().map_or_else(|| "none".into(), shown),
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
        let (own, connected) = (member.node == status.node, member.connected);
        let state = match (own, connected, member.health.as_str()) {
            (true, ..) => "this node".into(),
            (_, true, "up" | "") => "up".into(),
            (_, true, standing) => format!("up, but {}", shown(standing)),
            (_, false, _) => "down".into(),
        };
        let heard = match (member.unreachable_ms, member.last_heard_ms_ago) {
            _ if own => "-".into(),
            (Some(away), _) => format!("not for {}", text_of_ms(away)),
            (None, Some(ago)) if connected => format!("{} ago", text_of_ms(ago)),
            (None, _) => "never".into(),
        };
        let trip = match member.rtt_us {
            trip if connected && trip > 0 => us(trip),
            _ => "-".into(),
        };
        let hints = match member.hints {
            0 => "-".into(),
            rows => format!("{} rows", show_count(rows)),
        };
        let (name, node) = (shown(&member.name), member.node.to_string());
        vec![name, node, state, heard, trip, member.membership.word().into(), hints]
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
                us(log.sync_us_p50),
                us(log.sync_us_p99)
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
    format!(
        "{} on disk, about {} rows; {} of writes not in tables yet",
        show_size(store.disk_bytes),
        show_count(store.rows_estimated),
        show_size(store.memory_bytes)
    )
}

fn buckets(status: &NodeStatus) -> String {
    let loose: Vec<_> = status.interval_buckets.iter().map(|name| shown(name)).collect();
    let loose = match loose.is_empty() {
        true => String::new(),
        false => format!("; acknowledged before they are synced: {}", loose.join(", ")),
    };
    format!("{} consistent{loose}", show_count(status.buckets))
}

/// Available buckets, where there is a ring.
fn available(available: &AvailableStatus) -> Option<String> {
    let epoch = Some(available.ring_epoch).filter(|epoch| *epoch > 0)?;
    let spared: Vec<_> = available.suspected_nodes.iter().map(|name| shown(name)).collect();
    let spared = match spared.is_empty() {
        true => String::new(),
        false => format!("; others stand in for {}", spared.join(", ")),
    };
    let partitions = show_count(available.partitions);
    Some(format!("epoch {epoch}, this node is the first owner of {partitions} partitions{spared}"))
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
    fn one_node_is_shown_whole() {
        let wanted = "\
node       n1, id 27b9775f33bbdcfa, version 0.1.0, up for 2 h
cluster    dcb290358f72c23f, lease of masters 0.6 s
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
        assert_eq!(text_of(&examples::one()), wanted);
    }

    #[test]
    fn three_nodes_are_a_table_by_name() {
        let text = text_of(&examples::three());
        let wanted = "\
member  id                connection  last heard  round trip  membership  hints
n1      27b9775f33bbdcfa  this node   -           -           member      -
n2      3478389e4b09ea78  up          0.1 s ago   0.12 ms     member      -
n3      0ad4c29d653e1029  up          0.1 s ago   0.12 ms     member      -
";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("restart    safe: every group goes on without this node"), "{text}");
        assert!(text.contains("127.0.0.1:7711 (clients and operators), 127.0.0.1:7712 (other"));
    }

    #[test]
    fn a_member_that_is_down_says_since_when_and_what_waits_for_it() {
        let text = text_of(&examples::one_missing());
        let wanted = "\
n3      0ad4c29d653e1029  down        not for 12 s  -           member      412 rows
";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("restart    stops groups 0, 1: without this node"), "{text}");
        let ring =
            "epoch 66, this node is the first owner of 22 partitions; others stand in for n3";
        assert!(text.contains(ring), "{text}");
    }

    #[test]
    fn a_node_that_joins_shows_what_it_receives() {
        let text = text_of(&examples::joining());
        let wanted = "receives   a snapshot of group 1 from n2: 1,200 of about 5,000 rows, \
                      3 MiB/s, about 12 s left";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("n1=learner n2 n3"), "{text}");
        assert!(text_of(&examples::witness()).contains("n1=witness n2 n3"));
    }

    #[test]
    fn nothing_is_null_no_number_is_an_id_and_lines_fit() {
        let all = [
            examples::one(),
            examples::three(),
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
