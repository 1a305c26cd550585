//! A node's status in tables: the node, its groups, its members, its disk and memory.

use super::rates::Rates;
use crate::commands::bucket::plain;
use crate::output::as_table;
use crate::paint::Paint;
use crate::settings::units::{show_count, show_size};
use base::duration::text_of_ms;
use serde_json::Value;

/// Legend of the log positions in the table of groups.
const LEGEND: &str = "\
log positions: decided = synced by enough voters, applied = readable here,
flushed = in the tables too (what is behind it stands in the log, as durably)
";

/// Returns all but the verdict and the warnings.
pub fn tables(status: &Value, rates: Option<&Rates>, paint: Paint) -> String {
    let mut text = fields(&node_fields(status), paint);
    text.push('\n');
    text.push_str(&table(&GROUPS, group_rows(status), paint));
    text.push_str(LEGEND);
    if members(status).count() > 1 {
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

fn list(status: &Value, name: &str) -> Vec<Value> {
    status[name].as_array().cloned().unwrap_or_default()
}

fn members(status: &Value) -> impl Iterator<Item = &Value> {
    status["members"].as_array().into_iter().flatten()
}

/// Returns the name of the member with this id.
fn name_of(status: &Value, node: &Value) -> String {
    let known = members(status).find(|member| member["node"] == *node);
    plain(known.map_or(node, |member| &member["name"]))
}

fn size(value: &Value) -> String {
    value.as_u64().map_or_else(|| "unknown".into(), show_size)
}

fn count(value: &Value) -> String {
    value.as_u64().map_or_else(|| "unknown".into(), show_count)
}

fn ms(value: &Value) -> String {
    value.as_u64().map_or_else(|| "unknown".into(), text_of_ms)
}

/// Formats microseconds as milliseconds.
fn us(value: &Value) -> String {
    format!("{:.2} ms", value.as_u64().unwrap_or_default() as f64 / 1e3)
}

fn node_fields(status: &Value) -> Vec<StatusField> {
    let text = |name: &str| plain(&status[name]);
    let lease = ms(&status["lease_ms"]);
    let (name, node) = (text("name"), text("node"));
    let (version, up) = (text("version"), ms(&status["uptime_ms"]));
    let mut all = vec![
        ("node", format!("{name}, id {node}, version {version}, up for {up}")),
        ("cluster", format!("{}, lease of masters {lease}", text("cluster"))),
        ("listens", listeners(status)),
    ];
    if members(status).count() > 1 {
        all.push(("restart", restart(status)));
    }
    for snapshot in list(status, "snapshots") {
        all.push(("receives", receives(status, &snapshot)));
    }
    all
}

fn listeners(status: &Value) -> String {
    let own = members(status).find(|member| member["node"] == status["node"]);
    let peer = own.and_then(|own| own["peer"].as_str()).filter(|peer| !peer.is_empty());
    let listeners = list(status, "listeners");
    let listeners =
        listeners.iter().map(|it| format!("{} ({})", plain(&it["address"]), plain(&it["serves"])));
    let peer = peer.map(|peer| format!("{} (other nodes)", plain(&Value::from(peer))));
    listeners.chain(peer).collect::<Vec<_>>().join(", ")
}

/// Describes whether the node may be restarted.
fn restart(status: &Value) -> String {
    let stops = list(status, "groups");
    let stops = stops.iter().filter(|group| group["expect_progress_possible"] == false);
    let stops: Vec<_> = stops.map(|group| plain(&group["id"])).collect();
    let word = if stops.len() == 1 { "group" } else { "groups" };
    match stops.is_empty() {
        true => "safe: every group goes on without this node".into(),
        false => format!(
            "stops {word} {}: without this node too few voters are connected and up to date",
            stops.join(", ")
        ),
    }
}

fn receives(status: &Value, snapshot: &Value) -> String {
    let left = match snapshot["eta_ms"].as_u64() {
        Some(left) => format!(", about {} left", text_of_ms(left)),
        None => String::new(),
    };
    format!(
        "a snapshot of group {} from {}: {} of about {} rows, {}/s{left}",
        plain(&snapshot["group"]),
        name_of(status, &snapshot["from"]),
        count(&snapshot["rows"]),
        count(&snapshot["rows_estimated"]),
        size(&snapshot["bytes_per_second"]),
    )
}

fn group_rows(status: &Value) -> Vec<Vec<String>> {
    let row = |group: &Value| {
        let parts = group["members"].as_array().into_iter().flatten();
        let mut parts: Vec<_> = parts
            .map(|member| match member["part"].as_str() {
                Some("voter") | None => plain(&member["name"]),
                Some(part) => format!("{}={part}", plain(&member["name"])),
            })
            .collect();
        parts.sort();
        let numbers = ["decided", "applied", "flushed", "undecided", "sessions"];
        let mut row = vec![
            plain(&group["id"]),
            plain(&group["role"]),
            group["master"].as_str().unwrap_or("none").into(),
        ];
        row.extend(numbers.map(|name| count(&group[name])));
        row.push(parts.join(" "));
        row
    };
    list(status, "groups").iter().map(row).collect()
}

fn member_rows(status: &Value) -> Vec<Vec<String>> {
    let mut all: Vec<_> = members(status).collect();
    all.sort_by_key(|member| plain(&member["name"]));
    let row = |member: &&Value| {
        let own = member["node"] == status["node"];
        let connected = member["connected"] == true;
        let state = match (own, connected, member["health"].as_str()) {
            (true, ..) => "this node".into(),
            (_, true, Some("up") | None) => "up".into(),
            (_, true, Some(standing)) => format!("up, but {standing}"),
            (_, false, _) => "down".into(),
        };
        let heard = match member["unreachable_ms"].as_u64() {
            _ if own => "-".into(),
            Some(away) => format!("not for {}", text_of_ms(away)),
            None if connected => format!("{} ago", ms(&member["last_heard_ms_ago"])),
            None => "never".into(),
        };
        let trip = match member["rtt_us"].as_u64() {
            Some(trip) if connected && trip > 0 => us(&Value::from(trip)),
            _ => "-".into(),
        };
        let hints = member["hints"].as_u64().filter(|rows| *rows > 0);
        let hints = hints.map_or_else(|| "-".into(), |rows| format!("{} rows", show_count(rows)));
        let (name, node) = (plain(&member["name"]), plain(&member["node"]));
        vec![name, node, state, heard, trip, plain(&member["membership"]), hints]
    };
    all.iter().map(row).collect()
}

fn load_fields(status: &Value, rates: Option<&Rates>) -> Vec<StatusField> {
    let (log, disk) = (&status["log"], &status["disk"]);
    let files = match disk["free_files"].as_u64() {
        Some(files) => format!(", and for {} more files", show_count(files)),
        None => String::new(),
    };
    let segments = match log["segments"].as_u64() {
        Some(1) => "1 segment".into(),
        _ => format!("{} segments", count(&log["segments"])),
    };
    let (free, total) = (size(&disk["free_bytes"]), size(&disk["total_bytes"]));
    let mut all = vec![
        ("disk", format!("room for {free} of {total}{files}")),
        (
            "log",
            format!(
                "{} in {segments}; a sync takes {} (median), {} (99 % of them)",
                size(&log["bytes"]),
                us(&log["sync_us_p50"]),
                us(&log["sync_us_p99"])
            ),
        ),
        ("store", store(status)),
        ("memory", size(&status["memory"]["resident_bytes"])),
        ("buckets", buckets(status)),
    ];
    all.extend(available(status).map(|text| ("ring", text)));
    let rates = rates.map_or_else(String::new, |rates| format!("; {}", rates.text()));
    all.push(("requests", format!("{}{rates}", requests(status))));
    all
}

fn store(status: &Value) -> String {
    let store = &status["store"];
    format!(
        "{} on disk, about {} rows; {} of writes not in tables yet",
        size(&store["disk_bytes"]),
        count(&store["rows_estimated"]),
        size(&store["memory_bytes"])
    )
}

fn buckets(status: &Value) -> String {
    let loose: Vec<_> = list(status, "interval_buckets").iter().map(plain).collect();
    let loose = match loose.is_empty() {
        true => String::new(),
        false => format!("; acknowledged before they are synced: {}", loose.join(", ")),
    };
    format!("{} consistent{loose}", count(&status["buckets"]))
}

/// Returns the fields of available buckets. `None`: there is no ring.
fn available(status: &Value) -> Option<String> {
    let available = &status["available"];
    let epoch = available["ring_epoch"].as_u64().filter(|epoch| *epoch > 0)?;
    let spared: Vec<_> = list(available, "suspected_nodes").iter().map(plain).collect();
    let spared = match spared.is_empty() {
        true => String::new(),
        false => format!("; others stand in for {}", spared.join(", ")),
    };
    let partitions = count(&available["partitions"]);
    Some(format!("epoch {epoch}, this node is the first owner of {partitions} partitions{spared}"))
}

fn requests(status: &Value) -> String {
    let requests = &status["requests"];
    let names = [("http", "HTTP"), ("resp", "Redis"), ("arakoon", "Arakoon"), ("riak", "Riak")];
    let counts = names.iter().filter_map(|(field, name)| {
        let count = requests[field].as_u64().filter(|count| *count > 0)?;
        Some(format!("{} {name}", show_count(count)))
    });
    let counts: Vec<_> = counts.collect();
    let counts = if counts.is_empty() { "none".into() } else { counts.join(", ") };
    let connections = match status["connections"].as_u64() {
        Some(1) => "1 connection".into(),
        _ => format!("{} connections", count(&status["connections"])),
    };
    format!("{counts} since the start; {connections}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::examples;

    fn shown(status: &Value) -> String {
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
        assert_eq!(shown(&examples::one()), wanted);
    }

    #[test]
    fn three_nodes_are_a_table_by_name() {
        let text = shown(&examples::three());
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
        let text = shown(&examples::one_missing());
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
        let text = shown(&examples::joining());
        let wanted = "receives   a snapshot of group 1 from n2: 1,200 of about 5,000 rows, \
                      3 MiB/s, about 12 s left";
        assert!(text.contains(wanted), "{text}");
        assert!(text.contains("n1=learner n2 n3"), "{text}");
        assert!(shown(&examples::witness()).contains("n1=witness n2 n3"));
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
            let text = shown(status);
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
