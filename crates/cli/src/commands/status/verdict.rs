//! Verdict on a node: one line with its state, the members that are missing, and the action to
//! take.

use crate::output::shown;
use api::{GroupStatus, MemberStatus, NodeStatus};
use base::duration::text_of_ms;
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
        return (Grade::Bad, format!("NOT READY: {}", shown(why)));
    }
    let missing: Vec<_> = missing(status).collect();
    let obstacle = obstacle(status);
    let members = members(status, &missing);
    let writes = obstacle.unwrap_or("writes ok");
    let own = own_part(status).map(|part| format!("; {part}")).unwrap_or_default();
    let fine = missing.is_empty() && obstacle.is_none();
    let grade = if fine { Grade::Good } else { Grade::Impaired };
    (grade, format!("ready: {members}, {writes}{own}"))
}

/// Members without a connection; one that leaves may be stopped.
fn missing(status: &NodeStatus) -> impl Iterator<Item = &MemberStatus> {
    let away =
        |member: &&MemberStatus| !member.connected && member.membership != Membership::Leaving;
    status.members.iter().filter(away)
}

fn members(status: &NodeStatus, missing: &[&MemberStatus]) -> String {
    let all = status.members.len();
    if all < 2 {
        return "a single node".into();
    }
    let here = status.members.iter().filter(|member| member.connected).count();
    let away = |member: &&MemberStatus| match member.unreachable_ms {
        Some(ms) => format!("{} not reached for {}", shown(&member.name), text_of_ms(ms)),
        None => format!("{} not reached", shown(&member.name)),
    };
    match missing.is_empty() {
        true => format!("{here} of {all} members"),
        false => {
            let missing: Vec<_> = missing.iter().map(away).collect();
            format!("{here} of {all} members ({})", missing.join(", "))
        }
    }
}

/// Obstacle to writes on a node that serves.
fn obstacle(status: &NodeStatus) -> Option<&'static str> {
    if status.disk.full {
        return Some("WRITES REFUSED: the disk is nearly full, give it room");
    }
    status.log.hangs.then_some("WRITES WAIT: the disk hangs")
}

/// Returns this node's role, unless it is a voter in every group.
fn own_part(status: &NodeStatus) -> Option<String> {
    let is = |group: &GroupStatus, part: Part| {
        group.members.iter().any(|member| member.node == status.node && member.part == part)
    };
    if status.groups.iter().any(|group| is(group, Part::Witness)) {
        return Some("this node is a witness: it votes and keeps no data".into());
    }
    let learns = status.groups.iter().filter(|group| is(group, Part::Learner));
    let learns: Vec<_> = learns.map(|group| group.id.to_string()).collect();
    let word = if learns.len() == 1 { "group" } else { "groups" };
    (!learns.is_empty())
        .then(|| format!("joining: this node has no vote in {word} {} yet", learns.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::status::examples;

    #[test]
    fn a_node_that_serves_says_how_many_members_are_there() {
        let one = examples::one();
        assert_eq!(verdict(&one), (Grade::Good, "ready: a single node, writes ok".into()));
        let three = examples::three();
        assert_eq!(verdict(&three), (Grade::Good, "ready: 3 of 3 members, writes ok".into()));
    }

    #[test]
    fn a_missing_member_is_named_with_the_time() {
        let said = "ready: 2 of 3 members (n3 not reached for 12 s), writes ok";
        assert_eq!(verdict(&examples::one_missing()), (Grade::Impaired, said.into()));
        let mut leaving = examples::one_missing();
        leaving.members[2].membership = Membership::Leaving;
        assert_eq!(verdict(&leaving), (Grade::Good, "ready: 2 of 3 members, writes ok".into()));
    }

    #[test]
    fn without_a_majority_the_reason_is_the_node_s() {
        let (grade, said) = verdict(&examples::no_majority());
        assert_eq!(grade, Grade::Bad);
        assert_eq!(
            said,
            "NOT READY: no majority for groups 0, 1: n2, n3 not reached for 12 s; start them \
             (see `credenza cluster status`)"
        );
        let older = NodeStatus::default();
        assert_eq!(verdict(&older).1, "NOT READY: the node does not take writes");
    }

    #[test]
    fn a_learner_and_a_witness_say_what_they_are() {
        let said = verdict(&examples::joining()).1;
        assert!(said.ends_with("; joining: this node has no vote in groups 0, 1 yet"), "{said}");
        let said = verdict(&examples::witness()).1;
        assert!(said.ends_with("; this node is a witness: it votes and keeps no data"), "{said}");
    }

    #[test]
    fn a_full_disk_is_part_of_the_verdict() {
        let mut full = examples::three();
        full.disk.full = true;
        let (grade, said) = verdict(&full);
        assert_eq!(grade, Grade::Impaired);
        assert!(said.contains("3 of 3 members, WRITES REFUSED: the disk"), "{said}");
    }
}
