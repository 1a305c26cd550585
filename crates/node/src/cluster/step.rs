//! Execution of the step that `membership_controller` names, and of the group's quorum.
//!
//! Promises: a desired quorum is in force only if it fits the group's members; else a majority is.
//! A node without peer addresses adds no members.

use super::led_group::LedGroup;
use super::membership_controller::{MembershipStep, Parts, next_step, words};
use crate::peer_links::PeerLinks;
use base::{ClusterDescription, Result};
use logic::consensus::Member;
use metadata::groups::fitting;
use replication::group::Group;

/// Takes the next step of a group towards its desired members, and then towards its quorum.
pub(super) fn take_step(
    links: &PeerLinks,
    group: &Group,
    known: &ClusterDescription,
) -> Result<()> {
    let Some(placement) = known.placement(group.id) else { return Ok(()) };
    let Some(led) = LedGroup::of(links, group, known) else { return Ok(()) };
    let step = next_step(&led.sight());
    let now = led.now;
    let said = words(&now, &step, |node| links.name_of(node)).join(", ");
    match step {
        // It has no peers, so no member catches up: a survivor, say, before the directory has
        // forgotten the lost members. A change of members would interrupt its mastership.
        MembershipStep::HandOver(_) | MembershipStep::Reconfigure(_)
            if links.peers.get().is_none() =>
        {
            return Ok(());
        }
        MembershipStep::Rest | MembershipStep::Wait(_) => {
            let quorum = quorum_of(&now, placement.quorum);
            if group.configuration().quorum() != quorum {
                group.reconfigure(members(&now), quorum)?;
                tracing::info!(target: "node", group = group.id.0, ?quorum, "another quorum");
            }
            return Ok(());
        }
        MembershipStep::HandOver(heir) => group.hand_over(heir)?,
        MembershipStep::Reconfigure(next) => {
            let quorum = quorum_of(&next, placement.quorum);
            group.reconfigure(members(&next), quorum)?;
        }
    }
    tracing::info!(target: "node", group = group.id.0, "the group's members: {said}");
    Ok(())
}

fn members(parts: &Parts) -> Vec<Member> {
    parts.iter().map(|(node, part)| Member { node: *node, part: *part }).collect()
}

/// Returns the save quorum of these members. `wish`: the desired number of voters. `None`: a
/// majority.
fn quorum_of(parts: &Parts, wish: Option<u8>) -> Option<u8> {
    fitting(members(parts), wish).and_then(|it| it.quorum())
}
