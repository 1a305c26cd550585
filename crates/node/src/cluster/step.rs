//! Execution of the step that `membership_controller` names, and of the group's quorum.
//!
//! Promises: a desired quorum is in force only if it fits the group's members; else a majority is.
//! A node without peer addresses adds no members.

use super::led_group::LedGroup;
use super::membership_controller::{MembershipStep, Parts, describe_step, next_step};
use base::{ClusterDescription, Result};
use logic::consensus::Member;
use metadata::groups::configuration_of;
use replica_host::PeerLinks;
use replication::group::Group;

/// Executes the next step of a group towards its desired members, and then towards its quorum.
pub(super) fn take_step(
    links: &PeerLinks,
    group: &Group,
    cluster: &ClusterDescription,
) -> Result<()> {
    let Some(placement) = cluster.placement(group.id) else { return Ok(()) };
    let Some(led) = LedGroup::read(links, group, cluster) else { return Ok(()) };
    let step = next_step(&led.view());
    let current = led.current;
    let said = describe_step(&current, &step, |node| links.name_of(node)).join(", ");
    match step {
        // Without peers no member catches up: for example at a survivor whose directory still lists
        // the lost members. A membership change would interrupt its mastership.
        MembershipStep::HandOver(_) | MembershipStep::Reconfigure(_)
            if links.peers.get().is_none() =>
        {
            return Ok(());
        }
        MembershipStep::Idle | MembershipStep::Wait(_) => {
            let quorum = quorum_of(&current, placement.quorum);
            if group.configuration().quorum() != quorum {
                group.reconfigure(members(&current), quorum)?;
                tracing::info!(
                    target: "node", group = group.id.0, ?quorum, "the write quorum is changed"
                );
            }
            return Ok(());
        }
        MembershipStep::HandOver(heir) => group.hand_over(heir)?,
        MembershipStep::Reconfigure(next) => {
            let quorum = quorum_of(&next, placement.quorum);
            group.reconfigure(members(&next), quorum)?;
        }
    }
    tracing::info!(target: "node", group = group.id.0, "members of the group are changed: {said}");
    Ok(())
}

fn members(parts: &Parts) -> Vec<Member> {
    parts.iter().map(|(node, part)| Member { node: *node, part: *part }).collect()
}

/// Returns the save quorum of these members. `desired`: the configured number of voters. `None`: a
/// majority.
fn quorum_of(parts: &Parts, desired: Option<u8>) -> Option<u8> {
    configuration_of(members(parts), desired).and_then(|configuration| configuration.quorum())
}
