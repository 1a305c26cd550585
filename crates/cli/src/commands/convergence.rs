//! Wait until a cluster is in its desired state, with its progress.

use super::wait::until_done;
use crate::output::printable_text;
use api::ClusterStatus;
use base::{Membership, Part};
use client::Address;
use indicatif::{ProgressBar, ProgressStyle};
use program::Outcome;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(300);

/// Waits until the cluster is in its desired state. Gives up if nothing has changed for as long as
/// the address's timeout.
pub async fn wait_until_converged(address: &Address) -> Outcome {
    let bar = ProgressBar::no_length();
    let style = ProgressStyle::with_template("{msg}  {bar:30} {pos}/{len}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let result = watch(address, &bar).await;
    bar.finish_and_clear();
    result
}

async fn watch(address: &Address, bar: &ProgressBar) -> Outcome {
    let poll = async || {
        let cluster = address.client()?.cluster().await?;
        let remaining = remaining_work(&cluster);
        let Some(first) = remaining.first().cloned() else { return Ok(None) };
        let (done, all) = progress(&cluster);
        bar.set_length(all);
        bar.set_position(done);
        bar.set_message(first.clone());
        Ok(Some(((remaining, done), first)))
    };
    until_done((address.timeout, PAUSE), poll, |remaining_step| {
        format!("nothing moves: {remaining_step} (`credenza cluster status` shows more)")
    })
    .await
}

/// Returns the work that is left: steps, and the conditions that the next one waits for.
pub fn remaining_work(cluster: &ClusterStatus) -> Vec<String> {
    let mut remaining = Vec::new();
    for group in &cluster.groups {
        let steps = group.waits_for.iter().chain(&group.plan);
        remaining
            .extend(steps.map(|step| format!("group {}: {}", group.group, printable_text(step))));
    }
    let members = cluster.members.iter();
    let leaving = members.filter(|member| member.membership == Membership::Leaving);
    remaining.extend(leaving.map(|member| format!("forget {}", printable_text(&member.name))));
    remaining
}

/// Returns the log position of the learner that lags most, and the position that it must reach.
fn progress(cluster: &ClusterStatus) -> (u64, u64) {
    let mut most_lagging = (0, 0);
    for group in &cluster.groups {
        let saved_index = |member: &api::GroupMember| member.match_index.unwrap_or(0);
        let target = group.members.iter().map(saved_index).max().unwrap_or(0);
        let learners = group.members.iter().filter(|member| member.part == Part::Learner);
        let position = learners.map(saved_index).min().unwrap_or(target);
        if target - position >= most_lagging.1 - most_lagging.0 {
            most_lagging = (position, target);
        }
    }
    most_lagging
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn remaining_work_lists_waits_then_plan_then_leaving_members() {
        let cluster = json!({
            "groups": [{
                "group": 1, "plan": ["remove n3"], "waits_for": ["wait until n4 has caught up"],
            }],
            "members": [
                { "name": "n3", "membership": "leaving" },
                { "name": "n4", "membership": "member" },
            ],
        });
        let remaining = remaining_work(&from_value(cluster).expect("a cluster"));
        let expected = ["group 1: wait until n4 has caught up", "group 1: remove n3", "forget n3"];
        assert_eq!(remaining, expected);
    }

    #[test]
    fn progress_is_that_of_the_most_lagging_learner() {
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
