//! `credenza cluster status`: a verdict on the cluster, its members and its groups, as one node
//! sees them.

use super::bucket::plain;
use super::group_verify;
use super::view::ViewCommand;
use crate::client::Address;
use crate::output::{self, as_table, wrapped};
use crate::paint::Paint;
use base::duration::text_of_ms;
use program::Outcome;
use serde_json::Value;
use std::collections::BTreeSet;

const MEMBERS: [&str; 8] =
    ["member", "node", "peers at", "clients at", "membership", "connection", "health", "hints"];
/// Column heads of the table of groups.
pub const GROUPS: [&str; 5] = ["group", "master", "desired", "actual", "safe to restart"];

/// Shows the cluster.
pub async fn show(address: &Address, json: bool) -> Outcome {
    let view = ViewCommand::of(address).await?;
    match json {
        true => output::json(&view.cluster),
        false => output::text(&page(&view, Paint::of_stdout())),
    }
}

fn page(view: &ViewCommand, paint: Paint) -> String {
    let cluster = &view.cluster;
    let (good, verdict) = verdict(cluster);
    let verdict = if good { paint.good(&verdict) } else { paint.bad(&verdict) };
    let mut text = format!("{verdict}\n");
    for warning in warnings(cluster) {
        text.push_str(&paint.warning("warning:"));
        text.push_str(&wrapped(&warning, "warning: ".len()));
    }
    let (id, name) = (plain(&cluster["cluster"]), plain(&cluster["name"]));
    let lease = text_of_ms(cluster["lease_ms"].as_u64().unwrap_or_default());
    text.push_str(&format!("\ncluster {id}, lease of masters {lease}, as {name} sees it\n\n"));
    text.push_str(&as_table(&MEMBERS, &member_rows(cluster)));
    text.push('\n');
    text.push_str(&as_table(&GROUPS, &group_rows(cluster)));
    for left in view.left() {
        text.push_str(&format!("to do: {left}\n"));
    }
    text
}

/// Returns the node's warnings, and the differences between replicas, which other masters may have
/// reported.
fn warnings(cluster: &Value) -> Vec<String> {
    let warnings = cluster["warnings"].as_array().into_iter().flatten();
    let mut warnings: Vec<_> = warnings.map(plain).collect();
    for difference in group_verify::differences(&cluster["groups"]) {
        if !warnings.iter().any(|warning| warning.contains(&difference)) {
            warnings.push(difference);
        }
    }
    warnings
}

/// Returns the members, sorted by name.
fn members(cluster: &Value) -> Vec<&Value> {
    let mut all: Vec<_> = cluster["members"].as_array().into_iter().flatten().collect();
    all.sort_by_key(|member| plain(&member["name"]));
    all
}

/// Returns the names of members that the node does not reach.
fn down(cluster: &Value) -> BTreeSet<String> {
    let down = |member: &&Value| member["connected"] == false;
    members(cluster).into_iter().filter(down).map(|member| plain(&member["name"])).collect()
}

/// Returns the verdict on the cluster: the number of members that are up, and the state of writes.
/// `true`: the operator has nothing to do.
fn verdict(cluster: &Value) -> (bool, String) {
    let all = members(cluster).len();
    // A leaving member may be stopped.
    let stays =
        |member: &&&Value| member["membership"] != "leaving" && member["connected"] == false;
    let down: Vec<_> =
        members(cluster).iter().filter(stays).map(|member| plain(&member["name"])).collect();
    let head = match down.is_empty() {
        true => format!("{all} of {all} members up"),
        false => format!("{} of {all} down ({})", down.len(), down.join(", ")),
    };
    let it = if down.len() == 1 { "it" } else { "them" };
    let groups = || cluster["groups"].as_array().into_iter().flatten();
    let leaderless =
        || groups().filter(|group| group["local"] == true && group["master"].is_null());
    let lost: Vec<_> = leaderless().filter(|group| lacks_quorum(cluster, group)).collect();
    if !lost.is_empty() {
        let all = lost.len() == groups().count();
        let stop = match all {
            true => "no majority, writes stop".into(),
            false => format!("no majority for {}, whose writes stop", named(&lost)),
        };
        return (false, format!("{head}: {stop}; start {it}"));
    }
    let electing: Vec<_> = leaderless().collect();
    if !electing.is_empty() {
        return (false, format!("{head}: {} elect a master, writes wait", named(&electing)));
    }
    match down.is_empty() {
        true => (true, format!("{head}, writes go on")),
        false => (false, format!("{head}: writes go on")),
    }
}

/// Returns true if too few voters of a group are connected for one of them to lead.
fn lacks_quorum(cluster: &Value, group: &Value) -> bool {
    let down = down(cluster);
    let voters = group["members"].as_array().into_iter().flatten();
    let votes = |member: &&Value| matches!(member["part"].as_str(), Some("voter" | "witness"));
    let up = voters.filter(votes).filter(|member| !down.contains(&plain(&member["name"]))).count();
    let needed = ["quorum", "quorum_elects"].map(|field| group[field].as_u64().unwrap_or_default());
    (up as u64) < needed.into_iter().max().unwrap_or_default()
}

fn named(groups: &[&Value]) -> String {
    let numbers: Vec<_> = groups.iter().map(|group| plain(&group["group"])).collect();
    let word = if groups.len() == 1 { "group" } else { "groups" };
    format!("{word} {}", numbers.join(", "))
}

fn member_rows(cluster: &Value) -> Vec<Vec<String>> {
    let row = |member: &&Value| {
        let text = |field: &str| plain(&member[field]);
        let own = member["name"] == cluster["name"];
        let connection = match (own, member["connected"] == true, member["unreachable_ms"].as_u64())
        {
            (true, ..) => "itself".into(),
            (_, true, _) => format!("{} us", plain(&member["rtt_us"])),
            (_, false, Some(away)) => format!("none for {}", text_of_ms(away)),
            (_, false, None) => "none".into(),
        };
        // The failure detector's opinion adds nothing if there is no connection.
        let health = match member["connected"] == false {
            true => "down".into(),
            false => text("health"),
        };
        let (name, node, stay) = (text("name"), text("node"), text("membership"));
        vec![name, node, text("peer"), text("client"), stay, connection, health, text("hints")]
    };
    members(cluster).iter().map(row).collect()
}

/// Returns one row of the table for each group.
pub fn group_rows(cluster: &Value) -> Vec<Vec<String>> {
    let (groups, down) = (cluster["groups"].as_array().into_iter().flatten(), down(cluster));
    let row = |group: &Value| {
        let may = group["expect_progress_possible"] == true;
        vec![
            plain(&group["group"]),
            group["master"].as_str().map_or_else(|| "none".into(), |name| plain(&name.into())),
            members_text(&group["desired"], &BTreeSet::new()),
            members_text(&group["members"], &down),
            if may { "yes" } else { "no" }.into(),
        ]
    };
    groups.map(row).collect()
}

/// Returns the members of a group as one cell, by name: voters plainly, others with their role,
/// with the log position that each has on disk, and those that are down.
pub fn members_text(members: &Value, down: &BTreeSet<String>) -> String {
    let members = members.as_array().into_iter().flatten();
    let mut cells: Vec<_> = members
        .map(|member| {
            let name = plain(&member["name"]);
            let part = match member["part"].as_str() {
                Some("voter") | None => String::new(),
                Some(part) => format!("={part}"),
            };
            let saved = match member["match_index"].as_u64() {
                _ if down.contains(&name) => "(down)".into(),
                Some(saved) => format!("@{saved}"),
                None => String::new(),
            };
            format!("{name}{part}{saved}")
        })
        .collect();
    cells.sort();
    cells.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn member(name: &str, connected: bool) -> Value {
        json!({
            "name": name, "node": "27b9775f33bbdcfa", "peer": "127.0.0.1:7712",
            "client": "127.0.0.1:7711", "membership": "member", "connected": connected,
            "unreachable_ms": (!connected).then_some(12_000), "rtt_us": 121, "health": "up",
            "hints": 0,
        })
    }

    fn group(number: u64, master: Option<&str>) -> Value {
        let part = |saved: Option<u64>| {
            let part = |name: &str| json!({ "name": name, "part": "voter", "match_index": saved });
            ["n3", "n1", "n2"].map(part)
        };
        let (wanted, members) = (part(None), part(Some(13)));
        json!({
            "group": number, "local": true, "master": master, "desired": wanted,
            "members": members, "quorum": 2, "quorum_elects": 2, "plan": [], "waits_for": [],
            "expect_progress_possible": master.is_some(), "comparison": null,
        })
    }

    fn cluster(up: [bool; 3], master: Option<&str>) -> ViewCommand {
        let members: Vec<_> =
            [(3, up[2]), (1, up[0]), (2, up[1])].map(|(n, up)| member(&format!("n{n}"), up)).into();
        ViewCommand {
            cluster: json!({
                "cluster": "dcb290358f72c23f", "lease_ms": 600, "name": "n1", "members": members,
                "groups": [group(0, master), group(1, master)], "warnings": [],
            }),
        }
    }

    fn said(up: [bool; 3], master: Option<&str>) -> String {
        verdict(&cluster(up, master).cluster).1
    }

    #[test]
    fn the_first_line_says_who_is_down_and_whether_writes_go_on() {
        assert_eq!(said([true; 3], Some("n1")), "3 of 3 members up, writes go on");
        assert_eq!(said([true, true, false], Some("n1")), "1 of 3 down (n3): writes go on");
        assert_eq!(
            said([true, false, false], None),
            "2 of 3 down (n2, n3): no majority, writes stop; start them"
        );
        assert_eq!(
            said([true, true, false], None),
            "1 of 3 down (n3): groups 0, 1 elect a master, writes wait"
        );
    }

    #[test]
    fn one_group_may_lack_what_others_have() {
        let mut view = cluster([true, false, true], Some("n1"));
        view.cluster["groups"][1] = group(1, None);
        let members = view.cluster["groups"][1]["members"].as_array_mut().expect("members");
        members.retain(|member| member["name"] != "n3");
        let said = verdict(&view.cluster).1;
        assert_eq!(said, "1 of 3 down (n2): no majority for group 1, whose writes stop; start it");
    }

    #[test]
    fn members_stand_in_order_and_who_is_down_is_not_shown_as_if_it_were_there() {
        let text = page(&cluster([true, true, false], Some("n1")), Paint::OFF);
        let wanted = "\
1 of 3 down (n3): writes go on

cluster dcb290358f72c23f, lease of masters 0.6 s, as n1 sees it

member  node              peers at        clients at      membership  connection     health  hints
n1      27b9775f33bbdcfa  127.0.0.1:7712  127.0.0.1:7711  member      itself         up      0
n2      27b9775f33bbdcfa  127.0.0.1:7712  127.0.0.1:7711  member      121 us         up      0
n3      27b9775f33bbdcfa  127.0.0.1:7712  127.0.0.1:7711  member      none for 12 s  down    0

group  master  desired   actual                safe to restart
0      n1      n1 n2 n3  n1@13 n2@13 n3(down)  yes
1      n1      n1 n2 n3  n1@13 n2@13 n3(down)  yes
";
        assert_eq!(text, wanted);
    }

    #[test]
    fn members_are_shown_with_their_part_and_how_far_they_are() {
        let members = json!([
            { "name": "n2", "part": "learner", "match_index": null },
            { "name": "n1", "part": "voter", "match_index": 17 },
        ]);
        assert_eq!(members_text(&members, &BTreeSet::new()), "n1@17 n2=learner");
        let down = BTreeSet::from(["n2".to_string()]);
        assert_eq!(members_text(&members, &down), "n1@17 n2=learner(down)");
    }
}
