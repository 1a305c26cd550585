//! `credenza cluster status`: a verdict on the cluster, its members and its groups, as one node
//! sees them.

use super::NodeArguments;
use super::alarm_lines::alarm_lines;
use super::convergence::remaining_work;
use super::group_verify;
use crate::output::{self, as_table, printable_text, wrap};
use crate::paint::Paint;
use api::{ClusterStatus, GroupMember, MemberStatus, PlaceStatus};
use base::duration::format_ms;
use base::{Membership, Part};
use program::Outcome;
use std::collections::BTreeSet;

const MEMBERS: [&str; 8] =
    ["member", "node", "peers at", "clients at", "membership", "connection", "health", "hints"];
/// Column heads of the table of groups.
pub const GROUPS: [&str; 5] = ["group", "master", "desired", "actual", "safe to restart"];

/// Shows the cluster.
pub async fn show(node: &NodeArguments) -> Outcome {
    let cluster = node.address.client()?.cluster().await?;
    match node.json {
        true => output::json(&cluster),
        false => output::text(&page(&cluster, Paint::of_stdout())),
    }
}

fn page(cluster: &ClusterStatus, paint: Paint) -> String {
    let (is_healthy, verdict) = verdict(cluster);
    let verdict = if is_healthy { paint.good(&verdict) } else { paint.bad(&verdict) };
    let mut text = format!("{verdict}\n");
    text.push_str(&alarm_lines(&cluster.alarms, &text, paint));
    for difference in reported_differences(cluster) {
        text.push_str(&paint.bad("critical:"));
        text.push_str(&wrap(&difference, "critical: ".len()));
    }
    let (id, name) = (cluster.cluster, printable_text(&cluster.name));
    let patience = format_ms(cluster.lease_ms);
    text.push_str(&format!(
        "\ncluster {id}, silent masters are replaced after {patience}, as {name} sees it\n\n"
    ));
    text.push_str(&as_table(&MEMBERS, &member_rows(cluster)));
    text.push('\n');
    text.push_str(&as_table(&GROUPS, &group_rows(cluster)));
    for left in remaining_work(cluster) {
        text.push_str(&format!("to do: {left}\n"));
    }
    text
}

/// Returns the differences of replicas that other masters reported: no alarm of this node.
fn reported_differences(cluster: &ClusterStatus) -> Vec<String> {
    let of_group = |group: &PlaceStatus| {
        let differences = group_verify::differences(group.group, group.comparison.as_ref());
        let is_alarm = |difference: &String| {
            let mut alarms = cluster.alarms.iter();
            alarms.any(|alarm| printable_text(&alarm.text).contains(difference))
        };
        differences.into_iter().filter(|difference| !is_alarm(difference)).collect::<Vec<_>>()
    };
    cluster.groups.iter().flat_map(of_group).collect()
}

/// Returns the members in the order of their names.
fn members(cluster: &ClusterStatus) -> Vec<&MemberStatus> {
    let mut all: Vec<_> = cluster.members.iter().collect();
    all.sort_by_key(|member| &member.name);
    all
}

/// Returns the names of the members that the node is not connected to.
fn down(cluster: &ClusterStatus) -> BTreeSet<&str> {
    let down = cluster.members.iter().filter(|member| !member.connected);
    down.map(|member| member.name.as_str()).collect()
}

/// Returns the verdict on the cluster: the number of members that are up, and the availability of
/// writes. The boolean is true if no action is needed.
fn verdict(cluster: &ClusterStatus) -> (bool, String) {
    let all = cluster.members.len();
    // A member that leaves the cluster may be stopped.
    let is_down =
        |member: &&MemberStatus| member.membership != Membership::Leaving && !member.connected;
    let down: Vec<_> = members(cluster)
        .into_iter()
        .filter(is_down)
        .map(|member| printable_text(&member.name))
        .collect();
    let head = match down.is_empty() {
        true => format!("{all} of {all} members up"),
        false => format!("{} of {all} down ({})", down.len(), down.join(", ")),
    };
    let pronoun = if down.len() == 1 { "it" } else { "them" };
    let leaderless_groups =
        || cluster.groups.iter().filter(|status| status.local && status.master.is_none());
    let without_quorum: Vec<_> =
        leaderless_groups().filter(|group| lacks_quorum(cluster, group)).collect();
    if !without_quorum.is_empty() {
        let all_groups = without_quorum.len() == cluster.groups.len();
        let stop = match all_groups {
            true => "no majority, writes stop".into(),
            false => format!("no majority for {}, whose writes stop", group_list(&without_quorum)),
        };
        return (false, format!("{head}: {stop}; start {pronoun}"));
    }
    let electing: Vec<_> = leaderless_groups().collect();
    if !electing.is_empty() {
        return (false, format!("{head}: {} elect a master, writes wait", group_list(&electing)));
    }
    match down.is_empty() {
        true => (true, format!("{head}, writes go on")),
        false => (false, format!("{head}: writes go on")),
    }
}

/// Returns true if too few voters of a group are connected for one of them to lead.
fn lacks_quorum(cluster: &ClusterStatus, group: &PlaceStatus) -> bool {
    let down = down(cluster);
    let voters = group.members.iter().filter(|member| member.part.can_vote());
    let up = voters.filter(|member| !down.contains(member.name.as_str())).count();
    (up as u64) < group.quorum.max(group.quorum_elects).unwrap_or_default()
}

fn group_list(groups: &[&PlaceStatus]) -> String {
    let numbers: Vec<_> = groups.iter().map(|group| group.group.to_string()).collect();
    let word = if groups.len() == 1 { "group" } else { "groups" };
    format!("{word} {}", numbers.join(", "))
}

fn member_rows(cluster: &ClusterStatus) -> Vec<Vec<String>> {
    let row = |member: &MemberStatus| {
        let is_own = member.name == cluster.name;
        let connection = match (is_own, member.connected, member.unreachable_ms) {
            (true, ..) => "itself".into(),
            (_, true, _) => format!("{} us", member.rtt_us),
            (_, false, Some(downtime_ms)) => format!("none for {}", format_ms(downtime_ms)),
            (_, false, None) => "none".into(),
        };
        // Without a connection the outcome of recent requests adds nothing.
        let health = if member.connected { printable_text(&member.health) } else { "down".into() };
        vec![
            printable_text(&member.name),
            member.node.to_string(),
            printable_text(&member.peer),
            printable_text(&member.client),
            member.membership.name().into(),
            connection,
            health,
            member.hints.to_string(),
        ]
    };
    members(cluster).into_iter().map(row).collect()
}

/// Returns the rows of the table of groups.
pub fn group_rows(cluster: &ClusterStatus) -> Vec<Vec<String>> {
    let down = down(cluster);
    let row = |group: &PlaceStatus| {
        vec![
            group.group.to_string(),
            group.master.as_deref().map_or_else(|| "none".into(), printable_text),
            members_text(&group.desired, &BTreeSet::new()),
            members_text(&group.members, &down),
            if group.expect_progress_possible { "yes" } else { "no" }.into(),
        ]
    };
    cluster.groups.iter().map(row).collect()
}

/// Returns the members of a group as one cell, by name: other members than voters with their part,
/// each with its match index, and down members marked.
pub fn members_text(members: &[GroupMember], down: &BTreeSet<&str>) -> String {
    let cell = |member: &GroupMember| {
        let saved = match member.match_index {
            _ if down.contains(member.name.as_str()) => "(down)".into(),
            Some(saved) => format!("@{saved}"),
            None => String::new(),
        };
        format!("{}{saved}", member_text(member))
    };
    let mut cells: Vec<_> = members.iter().map(cell).collect();
    cells.sort();
    cells.join(" ")
}

/// Returns a member's name, with its part if it is not a voter.
pub fn member_text(member: &GroupMember) -> String {
    match member.part {
        Part::Voter => printable_text(&member.name),
        part => format!("{}={}", printable_text(&member.name), part.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, from_value, json};

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
        let (desired, members) = (part(None), part(Some(13)));
        json!({
            "group": number, "local": true, "master": master, "desired": desired,
            "members": members, "quorum": 2, "quorum_elects": 2, "plan": [], "waits_for": [],
            "expect_progress_possible": master.is_some(), "comparison": null,
        })
    }

    fn cluster(up: [bool; 3], master: Option<&str>) -> ClusterStatus {
        let members =
            [(3, up[2]), (1, up[0]), (2, up[1])].map(|(n, up)| member(&format!("n{n}"), up));
        let cluster = json!({
            "cluster": "dcb290358f72c23f", "lease_ms": 600, "name": "n1", "members": members,
            "groups": [group(0, master), group(1, master)], "alarms": [],
        });
        from_value(cluster).expect("a cluster")
    }

    fn verdict_text(up: [bool; 3], master: Option<&str>) -> String {
        verdict(&cluster(up, master)).1
    }

    #[test]
    fn verdict_names_down_members_and_write_availability() {
        assert_eq!(verdict_text([true; 3], Some("n1")), "3 of 3 members up, writes go on");
        assert_eq!(verdict_text([true, true, false], Some("n1")), "1 of 3 down (n3): writes go on");
        assert_eq!(
            verdict_text([true, false, false], None),
            "2 of 3 down (n2, n3): no majority, writes stop; start them"
        );
        assert_eq!(
            verdict_text([true, true, false], None),
            "1 of 3 down (n3): groups 0, 1 elect a master, writes wait"
        );
    }

    #[test]
    fn verdict_names_the_only_group_without_majority() {
        let mut cluster = cluster([true, false, true], Some("n1"));
        cluster.groups[1].master = None;
        cluster.groups[1].members.retain(|member| member.name != "n3");
        let text = verdict(&cluster).1;
        assert_eq!(text, "1 of 3 down (n2): no majority for group 1, whose writes stop; start it");
    }

    #[test]
    fn status_page_lists_members_in_order_and_marks_down_members() {
        let text = page(&cluster([true, true, false], Some("n1")), Paint::OFF);
        let expected = "\
1 of 3 down (n3): writes go on

cluster dcb290358f72c23f, silent masters are replaced after 0.6 s, as n1 sees it

member  node              peers at        clients at      membership  connection     health  hints
n1      27b9775f33bbdcfa  127.0.0.1:7712  127.0.0.1:7711  member      itself         up      0
n2      27b9775f33bbdcfa  127.0.0.1:7712  127.0.0.1:7711  member      121 us         up      0
n3      27b9775f33bbdcfa  127.0.0.1:7712  127.0.0.1:7711  member      none for 12 s  down    0

group  master  desired   actual                safe to restart
0      n1      n1 n2 n3  n1@13 n2@13 n3(down)  yes
1      n1      n1 n2 n3  n1@13 n2@13 n3(down)  yes
";
        assert_eq!(text, expected);
    }

    #[test]
    fn group_members_are_listed_with_match_index_part_and_down_mark() {
        let members = json!([
            { "name": "n2", "part": "learner", "match_index": null },
            { "name": "n1", "part": "voter", "match_index": 17 },
        ]);
        let members: Vec<GroupMember> = from_value(members).expect("members");
        assert_eq!(members_text(&members, &BTreeSet::new()), "n1@17 n2=learner");
        let down = BTreeSet::from(["n2"]);
        assert_eq!(members_text(&members, &down), "n1@17 n2=learner(down)");
    }
}
