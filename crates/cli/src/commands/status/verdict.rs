//! Verdict on a node: one line with its state, the members that are missing, and the action to
//! take.

use crate::output::printable_text;
use api::{GroupStatus, MemberStatus, NodeStatus};
use base::duration::format_ms;
use base::{Membership, Part};

/// Gravity of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// The operator has nothing to do.
    Good,
    /// The node serves, but something needs attention.
    Impaired,
    /// The node does not serve.
    Bad,
}

/// The verdict of a status.
pub fn verdict(status: &NodeStatus) -> (Grade, String) {
    if !status.ready {
        let why = status.not_ready.as_deref().unwrap_or("the node does not take writes");
        return (Grade::Bad, format!("NOT READY: {}", printable_text(why)));
    }
    let missing: Vec<_> = missing(status).collect();
    let obstacle = write_obstacle(status);
    let members = members(status, &missing);
    let writes = obstacle.unwrap_or("writes ok");
    let own = role_of_node(status).map(|part| format!("; {part}")).unwrap_or_default();
    let is_good = missing.is_empty() && obstacle.is_none();
    let grade = if is_good { Grade::Good } else { Grade::Impaired };
    (grade, format!("ready: {members}, {writes}{own}"))
}

/// Returns the members without a connection, except members that leave, which may be stopped.
fn missing(status: &NodeStatus) -> impl Iterator<Item = &MemberStatus> {
    let is_missing =
        |member: &&MemberStatus| !member.connected && member.membership != Membership::Leaving;
    status.members.iter().filter(is_missing)
}

fn members(status: &NodeStatus, missing: &[&MemberStatus]) -> String {
    let all = status.members.len();
    if all < 2 {
        return "a single node".into();
    }
    let here = status.members.iter().filter(|member| member.connected).count();
    let downtime_text = |member: &&MemberStatus| match member.unreachable_ms {
        Some(ms) => format!("{} not reached for {}", printable_text(&member.name), format_ms(ms)),
        None => format!("{} not reached", printable_text(&member.name)),
    };
    match missing.is_empty() {
        true => format!("{here} of {all} members"),
        false => {
            let missing: Vec<_> = missing.iter().map(downtime_text).collect();
            format!("{here} of {all} members ({})", missing.join(", "))
        }
    }
}

/// Returns the obstacle to writes on a node that serves. `None`: writes are possible.
fn write_obstacle(status: &NodeStatus) -> Option<&'static str> {
    if status.disk.full {
        return Some("WRITES REFUSED: the disk is nearly full, free some space");
    }
    status.log.hangs.then_some("WRITES WAIT: the disk hangs")
}

/// Returns this node's role, unless it is a voter in every group.
fn role_of_node(status: &NodeStatus) -> Option<String> {
    let has_part = |group: &GroupStatus, part: Part| {
        group.members.iter().any(|member| member.node == status.node && member.part == part)
    };
    if status.groups.iter().any(|group| has_part(group, Part::Witness)) {
        return Some("this node is a witness: it votes and keeps no data".into());
    }
    let learner_groups = status.groups.iter().filter(|group| has_part(group, Part::Learner));
    let learner_groups: Vec<_> = learner_groups.map(|group| group.id.to_string()).collect();
    let word = if learner_groups.len() == 1 { "group" } else { "groups" };
    (!learner_groups.is_empty()).then(|| {
        format!("joining: this node has no vote in {word} {} yet", learner_groups.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::examples;

    #[test]
    fn verdict_of_serving_node_counts_reachable_members() {
        let single = examples::single_node();
        assert_eq!(verdict(&single), (Grade::Good, "ready: a single node, writes ok".into()));
        let cluster = examples::three_nodes();
        assert_eq!(verdict(&cluster), (Grade::Good, "ready: 3 of 3 members, writes ok".into()));
    }

    #[test]
    fn verdict_names_missing_member_and_downtime_unless_leaving() {
        let text = "ready: 2 of 3 members (n3 not reached for 12 s), writes ok";
        assert_eq!(verdict(&examples::one_missing()), (Grade::Impaired, text.into()));
        let mut leaving = examples::one_missing();
        leaving.members[2].membership = Membership::Leaving;
        assert_eq!(verdict(&leaving), (Grade::Good, "ready: 2 of 3 members, writes ok".into()));
    }

    #[test]
    fn verdict_without_majority_is_not_ready_with_the_reason() {
        let (grade, text) = verdict(&examples::no_majority());
        assert_eq!(grade, Grade::Bad);
        assert_eq!(
            text,
            "NOT READY: no majority for groups 0, 1: n2, n3 not reached for 12 s; start them \
             (see `credenza cluster status`)"
        );
        let older = NodeStatus::default();
        assert_eq!(verdict(&older).1, "NOT READY: the node does not take writes");
    }

    #[test]
    fn verdict_states_that_node_is_learner_or_witness() {
        let said = verdict(&examples::joining()).1;
        assert!(said.ends_with("; joining: this node has no vote in groups 0, 1 yet"), "{said}");
        let said = verdict(&examples::witness()).1;
        assert!(said.ends_with("; this node is a witness: it votes and keeps no data"), "{said}");
    }

    #[test]
    fn verdict_on_full_disk_reports_refused_writes() {
        let mut full = examples::three_nodes();
        full.disk.full = true;
        let (grade, said) = verdict(&full);
        assert_eq!(grade, Grade::Impaired);
        assert!(said.contains("3 of 3 members, WRITES REFUSED: the disk"), "{said}");
    }
}
