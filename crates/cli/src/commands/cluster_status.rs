//! `credenza cluster status`: a verdict on the cluster, its members and its groups, as one node
//! sees them.

use super::NodeArguments;
use super::group_verify;
use super::settle::left;
use crate::output::{self, as_table, shown, wrapped};
use crate::paint::Paint;
use api::{ClusterStatus, GroupMember, MemberStatus, PlaceStatus};
use base::duration::text_of_ms;
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
    let (good, verdict) = verdict(cluster);
    let verdict = if good { paint.good(&verdict) } else { paint.bad(&verdict) };
    let mut text = format!("{verdict}\n");
    for warning in warnings(cluster) {
        text.push_str(&paint.warning("warning:"));
        text.push_str(&wrapped(&warning, "warning: ".len()));
    }
    let (id, name) = (cluster.cluster, shown(&cluster.name));
    let lease = text_of_ms(cluster.lease_ms);
    text.push_str(&format!("\ncluster {id}, lease of masters {lease}, as {name} sees it\n\n"));
    text.push_str(&as_table(&MEMBERS, &member_rows(cluster)));
    text.push('\n');
    text.push_str(&as_table(&GROUPS, &group_rows(cluster)));
    for left in left(cluster) {
        text.push_str(&format!("to do: {left}\n"));
    }
    text
}

/// The node's warnings, and where replicas differ, which other masters may have said.
fn warnings(cluster: &ClusterStatus) -> Vec<String> {
    let mut warnings: Vec<_> = cluster.warnings.iter().map(|text| shown(text)).collect();
    for group in &cluster.groups {
        for difference in group_verify::differences(group.group, group.comparison.as_ref()) {
            if !warnings.iter().any(|warning| warning.contains(&difference)) {
                warnings.push(difference);
            }
        }
    }
    warnings
}

/// Members in the order of their names.
fn members(cluster: &ClusterStatus) -> Vec<&MemberStatus> {
    let mut all: Vec<_> = cluster.members.iter().collect();
    all.sort_by_key(|member| &member.name);
    all
}

/// Names of members that the node does not reach.
fn down(cluster: &ClusterStatus) -> BTreeSet<&str> {
    let down = cluster.members.iter().filter(|member| !member.connected);
    down.map(|member| member.name.as_str()).collect()
}

/// Verdict on the cluster: how many members are up, and whether writes go on. `true` where nothing
/// is to be done.
fn verdict(cluster: &ClusterStatus) -> (bool, String) {
    let all = cluster.members.len();
    // One that leaves may be stopped.
    let stays =
        |member: &&MemberStatus| member.membership != Membership::Leaving && !member.connected;
    let down: Vec<_> =
        members(cluster).into_iter().filter(stays).map(|member| shown(&member.name)).collect();
    let head = match down.is_empty() {
        true => format!("{all} of {all} members up"),
        false => format!("{} of {all} down ({})", down.len(), down.join(", ")),
    };
    let it = if down.len() == 1 { "it" } else { "them" };
    let leaderless = || cluster.groups.iter().filter(|it| it.local && it.master.is_none());
    let lost: Vec<_> = leaderless().filter(|group| lacks_quorum(cluster, group)).collect();
    if !lost.is_empty() {
        let all = lost.len() == cluster.groups.len();
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

/// True if too few voters of a group are connected for one of them to lead.
fn lacks_quorum(cluster: &ClusterStatus, group: &PlaceStatus) -> bool {
    let down = down(cluster);
    let voters = group.members.iter().filter(|member| member.part.votes());
    let up = voters.filter(|member| !down.contains(member.name.as_str())).count();
    (up as u64) < group.quorum.max(group.quorum_elects).unwrap_or_default()
}

fn named(groups: &[&PlaceStatus]) -> String {
    let numbers: Vec<_> = groups.iter().map(|group| group.group.to_string()).collect();
    let word = if groups.len() == 1 { "group" } else { "groups" };
    format!("{word} {}", numbers.join(", "))
}

fn member_rows(cluster: &ClusterStatus) -> Vec<Vec<String>> {
    let row = |member: &MemberStatus| {
        let own = member.name == cluster.name;
        let connection = match (own, member.connected, member.unreachable_ms) {
            (true, ..) => "itself".into(),
            (_, true, _) => format!("{} us", member.rtt_us),
            (_, false, Some(away)) => format!("none for {}", text_of_ms(away)),
            (_, false, None) => "none".into(),
        };
        // What requests say is said; where there is no connection, nothing need say more.
        let health = if member.connected { shown(&member.health) } else { "down".into() };
        vec![
            shown(&member.name),
            member.node.to_string(),
            shown(&member.peer),
            shown(&member.client),
            member.membership.word().into(),
            connection,
            health,
            member.hints.to_string(),
        ]
    };
    members(cluster).into_iter().map(row).collect()
}

/// A line of the table of groups for each.
pub fn group_rows(cluster: &ClusterStatus) -> Vec<Vec<String>> {
    let down = down(cluster);
    let row = |group: &PlaceStatus| {
        vec![
            group.group.to_string(),
            group.master.as_deref().map_or_else(|| "none".into(), shown),
            members_text(&group.desired, &BTreeSet::new()),
            members_text(&group.members, &down),
            if group.expect_progress_possible { "yes" } else { "no" }.into(),
        ]
    };
    cluster.groups.iter().map(row).collect()
}

/// Members of a group in one cell, by name: voters as they are, others with their part, how far
/// each has the log on disk, and who is down.
pub fn members_text(members: &[GroupMember], down: &BTreeSet<&str>) -> String {
    let cell = |member: &GroupMember| {
        let saved = match member.match_index {
            _ if down.contains(member.name.as_str()) => "(down)".into(),
            Some(saved) => format!("@{saved}"),
            None => String::new(),
        };
        format!("{}{saved}", name_and_part(member))
    };
    let mut cells: Vec<_> = members.iter().map(cell).collect();
    cells.sort();
    cells.join(" ")
}

/// A member's name, with its part where that is not a voter's.
pub fn name_and_part(member: &GroupMember) -> String {
    match member.part {
        Part::Voter => shown(&member.name),
        part => format!("{}={}", shown(&member.name), part.word()),
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
        let (wanted, members) = (part(None), part(Some(13)));
        json!({
            "group": number, "local": true, "master": master, "desired": wanted,
            "members": members, "quorum": 2, "quorum_elects": 2, "plan": [], "waits_for": [],
            "expect_progress_possible": master.is_some(), "comparison": null,
        })
    }

    fn cluster(up: [bool; 3], master: Option<&str>) -> ClusterStatus {
        let members =
            [(3, up[2]), (1, up[0]), (2, up[1])].map(|(n, up)| member(&format!("n{n}"), up));
        let cluster = json!({
            "cluster": "dcb290358f72c23f", "lease_ms": 600, "name": "n1", "members": members,
            "groups": [group(0, master), group(1, master)], "warnings": [],
        });
        from_value(cluster).expect("a cluster")
    }

    fn said(up: [bool; 3], master: Option<&str>) -> String {
        verdict(&cluster(up, master)).1
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
        let mut cluster = cluster([true, false, true], Some("n1"));
        cluster.groups[1].master = None;
        cluster.groups[1].members.retain(|member| member.name != "n3");
        let said = verdict(&cluster).1;
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
        let members: Vec<GroupMember> = from_value(members).expect("members");
        assert_eq!(members_text(&members, &BTreeSet::new()), "n1@17 n2=learner");
        let down = BTreeSet::from(["n2"]);
        assert_eq!(members_text(&members, &down), "n1@17 n2=learner(down)");
    }
}
