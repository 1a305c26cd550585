//! Wait until a cluster is in its desired state, with its progress.

use super::wait::until_done;
use crate::client::Address;
use crate::output::shown;
use api::ClusterStatus;
use base::{Membership, Part};
use indicatif::{ProgressBar, ProgressStyle};
use program::Outcome;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(300);

/// Waits. Gives up if nothing has changed for as long as the address's timeout.
pub async fn settle(address: &Address) -> Outcome {
    let bar = ProgressBar::no_length();
    let style = ProgressStyle::with_template("{msg}  {bar:30} {pos}/{len}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let settled = watch(address, &bar).await;
    bar.finish_and_clear();
    settled
}

async fn watch(address: &Address, bar: &ProgressBar) -> Outcome {
    let look = async || {
        let cluster = address.client()?.cluster().await?;
        let left = left(&cluster);
        let Some(first) = left.first().cloned() else { return Ok(None) };
        let (done, all) = progress(&cluster);
        bar.set_length(all);
        bar.set_position(done);
        bar.set_message(first.clone());
        Ok(Some(((left, done), first)))
    };
    until_done((address.timeout, PAUSE), look, |left| {
        format!("nothing moves: {left} (`credenza cluster status` shows more)")
    })
    .await
}

/// Returns the work that is left: steps, and the conditions that the next one waits for.
pub fn left(cluster: &ClusterStatus) -> Vec<String> {
    let mut left = Vec::new();
    for group in &cluster.groups {
        let steps = group.waits_for.iter().chain(&group.plan);
        left.extend(steps.map(|step| format!("group {}: {}", group.group, shown(step))));
    }
    let members = cluster.members.iter();
    let leaving = members.filter(|member| member.membership == Membership::Leaving);
    left.extend(leaving.map(|member| format!("forget {}", shown(&member.name))));
    left
}

/// Returns the log position of the learner that lags most, and the position that it must reach.
fn progress(cluster: &ClusterStatus) -> (u64, u64) {
    let mut farthest = (0, 0);
    for group in &cluster.groups {
        let saved = |member: &api::GroupMember| member.match_index.unwrap_or(0);
        let all = group.members.iter().map(saved).max().unwrap_or(0);
        let learners = group.members.iter().filter(|member| member.part == Part::Learner);
        let done = learners.map(saved).min().unwrap_or(all);
        if all - done >= farthest.1 - farthest.0 {
            farthest = (done, all);
        }
    }
    farthest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn what_is_left_is_what_waits_then_the_way_then_who_leaves() {
        let cluster = json!({
            "groups": [{
                "group": 1, "plan": ["remove n3"], "waits_for": ["wait until n4 is near"],
            }],
            "members": [
                { "name": "n3", "membership": "leaving" },
                { "name": "n4", "membership": "member" },
            ],
        });
        let left = left(&from_value(cluster).expect("a cluster"));
        let wanted = ["group 1: wait until n4 is near", "group 1: remove n3", "forget n3"];
        assert_eq!(left, wanted);
    }

    #[test]
    fn the_farthest_learner_is_what_is_waited_for() {
        let group = |saved: [u64; 2]| {
            json!({ "members": [
                { "name": "n1", "part": "voter", "match_index": saved[0] },
                { "name": "n2", "part": "learner", "match_index": saved[1] },
            ] })
        };
        let cluster = json!({ "groups": [group([10, 9]), group([90, 20])] });
        assert_eq!(progress(&from_value(cluster).expect("a cluster")), (20, 90));
        assert_eq!(progress(&ClusterStatus::default()), (0, 0));
    }
}
