//! `credenza group verify`: compares the replicas of groups, and waits for the result.

use crate::output::{self, printable_text};
use api::Comparison;
use base::Kind;
use client::{Address, Client};
use program::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

/// Pause between two queries of the progress.
const PAUSE: Duration = Duration::from_millis(300);
/// Most consecutive reports of the master that may be missing: a busy master sometimes skips a
/// second.
const MISSED_MAX: usize = 10;

/// Arguments: one group, or all.
#[derive(clap::Args)]
pub struct GroupVerify {
    /// The group's number; without it: every group
    group: Option<u32>,
    /// Say what was found in JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    address: Address,
}

impl GroupVerify {
    /// Compares one group after the other. The node forwards each request to the group's master.
    pub async fn run(self) -> Outcome {
        let mut client = self.address.client()?;
        let groups = client.cluster().await?.groups;
        let mut comparisons = Vec::new();
        for group in groups {
            if self.group.is_some_and(|number| number != group.group) {
                continue;
            }
            let Some(master) = group.master else {
                let text = format!("no master of group {} is known: try again", group.group);
                return Err(Failure::new(Kind::Unavailable, text));
            };
            comparisons
                .push((group.group, compare_group(&mut client, &master, group.group).await?));
        }
        if comparisons.is_empty() {
            return Err(Failure::invalid("no such group: `credenza group status`"));
        }
        let differences: Vec<_> = comparisons
            .iter()
            .flat_map(|(group, comparison)| differences(*group, Some(comparison)))
            .collect();
        if self.json {
            let object = |(group, comparison)| json!({ "group": group, "comparison": comparison });
            output::json(&comparisons.into_iter().map(object).collect::<Vec<_>>())?;
        } else {
            let rows =
                comparisons.iter().map(|(group, comparison)| line(*group, comparison)).collect();
            output::table(&["group", "rows", "bytes", "compared with", "result"], rows)?;
            for difference in &differences {
                output::text(&format!("{difference}\n"))?;
            }
        }
        match differences.len() {
            0 => Ok(()),
            count => {
                let text = format!(
                    "replicas differ in {count} places: docs/run/cluster.md says what to do"
                );
                Err(Failure::new(Kind::Corrupt, text))
            }
        }
    }
}

/// Compares the replicas of one group, and shows the progress.
async fn compare_group(client: &mut Client, master: &str, group: u32) -> Outcome<Comparison> {
    let pass = client.verify_group(group).await?.pass;
    let mut missed = 0;
    let bar = indicatif::ProgressBar::new_spinner();
    loop {
        let groups = client.cluster().await?.groups;
        let status = groups.into_iter().find(|status| status.group == group);
        let status = status.filter(|status| status.master.as_deref() == Some(master));
        let Some(comparison) = status.and_then(|status| status.comparison) else {
            missed += 1;
            if missed > MISSED_MAX {
                let text = format!("group {group} has another master now: try again");
                return Err(Failure::new(Kind::Unavailable, text));
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        missed = 0;
        if comparison.passes >= pass {
            bar.finish_and_clear();
            return match comparison.error {
                None => Ok(comparison),
                Some(error) => {
                    let text = format!("group {group} could not be compared: {error}");
                    Err(Failure::new(Kind::Unavailable, text))
                }
            };
        }
        let (rows, bytes) = (comparison.rows, comparison.bytes);
        bar.set_message(format!("group {group}: {rows} rows, {bytes} bytes compared"));
        bar.tick();
        tokio::time::sleep(PAUSE).await;
    }
}

fn line(group: u32, comparison: &Comparison) -> Vec<String> {
    let (rows, bytes) = (comparison.rows, comparison.bytes);
    let name = |other: &api::ComparedReplica| match other.rows == rows {
        true => printable_text(&other.name),
        false => format!("{} ({} rows)", printable_text(&other.name), other.rows),
    };
    let names: Vec<_> = comparison.replicas.iter().map(name).collect();
    let result = match comparison.differences.len() {
        _ if names.is_empty() => "nobody to compare with".into(),
        0 => "equal".into(),
        count => format!("{count} differences"),
    };
    vec![group.to_string(), rows.to_string(), bytes.to_string(), names.join(", "), result]
}

/// Returns the known differences of a group's replicas, one sentence each.
pub fn differences(group: u32, comparison: Option<&Comparison>) -> Vec<String> {
    let found = comparison.into_iter().flat_map(|found| &found.differences);
    found
        .map(|difference| {
            format!("replicas of group {group} differ: {}", printable_text(&difference.text))
        })
        .collect()
}
