//! `credenza cluster upgrade`: shows which members hold a higher feature level back, and raises the
//! level when none does.

use super::NodeArguments;
use super::wait::until_done;
use crate::output::{self, as_table, printable_text};
use api::{ClusterStatus, Integer, LevelChange, MemberStatus};
use base::FeatureLevel;
use program::Outcome;
use serde_json::json;
use std::time::Duration;

/// Pause between two looks at the members.
const PAUSE: Duration = Duration::from_millis(300);

/// Arguments of an upgrade.
#[derive(clap::Args)]
pub struct Upgrade {
    #[command(flatten)]
    node: NodeArguments,
    /// Raise the level as soon as every member knows it (waits at most --timeout without any
    /// progress); members can't go back to a program of a lower level behind that
    #[arg(long)]
    auto: bool,
}

impl Upgrade {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        let mut client = self.node.address.client()?;
        if self.auto {
            let poll = async || {
                let cluster = client.cluster().await?;
                let (target, holding) = (target(&cluster), holding_back(&cluster));
                if target.0 <= cluster.level {
                    return Ok(None);
                }
                if holding.is_empty() {
                    let level = Integer(target.0.into());
                    client.raise_level(&LevelChange { level }).await?;
                    return Ok(None);
                }
                let names: Vec<_> = holding.iter().map(|member| member.name.clone()).collect();
                let text = names.join(", ");
                Ok(Some((names, text)))
            };
            until_done((self.node.address.timeout, PAUSE), poll, |holding| {
                format!("the feature level is not raised: {}", printable_text(holding))
            })
            .await?;
        }
        let cluster = client.cluster().await?;
        match self.node.json {
            true => output::json(&as_json(&cluster)),
            false => output::text(&page(&cluster)),
        }
    }
}

/// Returns the highest level that a member's program knows: the next one to raise to.
fn target(cluster: &ClusterStatus) -> FeatureLevel {
    let known = cluster.members.iter().filter_map(|member| member.level);
    FeatureLevel(known.max().unwrap_or(cluster.level).max(cluster.level))
}

/// Returns the members that hold the next level back: an older program, or none that is there.
fn holding_back(cluster: &ClusterStatus) -> Vec<&MemberStatus> {
    let target = Some(target(cluster).0);
    let holds = |member: &&MemberStatus| member.level < target || !member.connected;
    match target {
        Some(target) if target == cluster.level => Vec::new(),
        _ => cluster.members.iter().filter(holds).collect(),
    }
}

fn as_json(cluster: &ClusterStatus) -> serde_json::Value {
    let members = cluster.members.iter().map(|member| {
        json!({ "name": member.name, "level": member.level, "connected": member.connected })
    });
    let holding: Vec<_> = holding_back(cluster).iter().map(|member| &member.name).collect();
    json!({
        "level": cluster.level,
        "possible": target(cluster).0,
        "held_back_by": holding,
        "members": members.collect::<Vec<_>>(),
    })
}

fn page(cluster: &ClusterStatus) -> String {
    let (level, target) = (FeatureLevel(cluster.level), target(cluster));
    if target == level {
        return format!("the cluster is at feature level {level}, the highest of its programs\n");
    }
    let holding = holding_back(cluster);
    let row = |member: &MemberStatus| {
        let known = member.level.map_or("not known".into(), |level| level.to_string());
        let holds = match (member.connected, member.level < Some(target.0)) {
            (false, _) => "yes: not connected".into(),
            (true, true) => format!("yes: run {}", target.program_text()),
            (true, false) => "no".into(),
        };
        vec![printable_text(&member.name), known, holds]
    };
    let rows = cluster.members.iter().map(row).collect::<Vec<_>>();
    let next = match holding.is_empty() {
        true => format!(
            "every member knows feature level {target}: `credenza cluster upgrade --auto` raises \
             it, for good\n"
        ),
        false => format!("{} of {} members hold it back\n", holding.len(), cluster.members.len()),
    };
    let head = format!("the cluster is at feature level {level}, and {target} is the next\n\n");
    head + &as_table(&["member", "knows level", "holds it back"], &rows) + "\n" + &next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(level: u16, members: &[(Option<u16>, bool)]) -> ClusterStatus {
        let member = |(number, (level, connected)): (usize, &(Option<u16>, bool))| MemberStatus {
            name: format!("n{number}"),
            level: *level,
            connected: *connected,
            ..MemberStatus::default()
        };
        let members = (1..).zip(members).map(member).collect();
        ClusterStatus { level, members, ..ClusterStatus::default() }
    }

    #[test]
    fn page_names_each_member_that_holds_the_level_back_and_why() {
        let mixed = cluster(1, &[(Some(2), true), (Some(1), true), (Some(2), false), (None, true)]);
        let names: Vec<_> = holding_back(&mixed).iter().map(|member| &member.name[..]).collect();
        assert_eq!(names, ["n2", "n3", "n4"]);
        let page = page(&mixed);
        assert!(page.contains("feature level 1, and 2 is the next"), "{page}");
        assert!(page.contains("yes: run credenza 0.1.0 or later"), "{page}");
        assert!(page.contains("yes: not connected") && page.contains("not known"), "{page}");
        assert!(page.contains("3 of 4 members hold it back"), "{page}");
        assert_eq!(as_json(&mixed)["held_back_by"], json!(["n2", "n3", "n4"]));
    }

    #[test]
    fn page_names_the_next_command_once_nobody_holds_the_level_back() {
        let ready = cluster(1, &[(Some(2), true), (Some(2), true)]);
        assert!(page(&ready).contains("credenza cluster upgrade --auto"), "{}", page(&ready));
        let raised = cluster(2, &[(Some(2), true), (Some(2), false)]);
        assert!(holding_back(&raised).is_empty(), "nothing is to be raised");
        assert!(page(&raised).contains("the highest of its programs"), "{}", page(&raised));
        let former = cluster(0, &[(None, true)]);
        assert!(holding_back(&former).is_empty(), "a node without levels reports none");
    }
}
