//! `credenza group verify`: compares the replicas of groups, and waits for the result.

use super::bucket::plain;
use super::view::ViewCommand;
use crate::client::{Address, Client, HttpCall};
use crate::output;
use base::Kind;
use hyper::Method;
use program::{Failure, Outcome};
use serde_json::{Value, json};
use std::time::Duration;

/// Pause between two queries of the progress.
const PAUSE: Duration = Duration::from_millis(300);
/// Most consecutive reports of the master that may be missing: a busy one sometimes misses a
/// second.
const MISSED_MAX: usize = 10;

/// Speaks of one group, or of all.
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
        let view = ViewCommand::of(&self.address).await?;
        let groups = view.cluster["groups"].as_array().into_iter().flatten();
        let wanted = |group: &&Value| {
            self.group.is_none_or(|wanted| group["group"].as_u64() == Some(u64::from(wanted)))
        };
        let (mut found, mut rows) = (Vec::new(), Vec::new());
        for group in groups.filter(wanted) {
            let number = group["group"].as_u64().unwrap_or_default();
            let Some(master) = group["master"].as_str() else {
                let text = format!("no master of group {number} is known: try again");
                return Err(Failure::new(Kind::Unavailable, text));
            };
            let comparison = one(&self.address, master, number).await?;
            rows.push(line(number, &comparison));
            found.push(json!({ "group": number, "comparison": comparison }));
        }
        if found.is_empty() {
            return Err(Failure::invalid("no such group: `credenza group status`"));
        }
        let differences = differences(&json!(found));
        if self.json {
            output::json(&json!(found))?;
        } else {
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

/// Compares the replicas of one group, with its progress on a bar; returns the result. Fails if the
/// master changes.
async fn one(node: &Address, master: &str, group: u64) -> Outcome<Value> {
    let path = format!("/v1/cluster/groups/{group}/verify");
    let mut client = Client::new(node)?;
    let begun = client.call(HttpCall::new(Method::POST, path)).await?.json()?;
    let pass = begun["pass"].as_u64().unwrap_or_default();
    let mut missed = 0;
    let bar = indicatif::ProgressBar::new_spinner();
    loop {
        let seen = client.call(HttpCall::new(Method::GET, "/v1/cluster")).await?.json()?;
        let groups = seen["groups"].as_array().into_iter().flatten();
        let about = groups.into_iter().find(|about| about["group"].as_u64() == Some(group));
        let comparison = about.map_or(Value::Null, |about| about["comparison"].clone());
        if about.is_none_or(|about| about["master"] != master) || comparison.is_null() {
            missed += 1;
            if missed > MISSED_MAX {
                let text = format!("group {group} has another master now: try again");
                return Err(Failure::new(Kind::Unavailable, text));
            }
            tokio::time::sleep(PAUSE).await;
            continue;
        }
        missed = 0;
        if comparison["passes"].as_u64().unwrap_or_default() >= pass {
            bar.finish_and_clear();
            let trouble = comparison["error"].as_str();
            return trouble.map_or(Ok(comparison.clone()), |trouble| {
                let text = format!("group {group} could not be compared: {trouble}");
                Err(Failure::new(Kind::Unavailable, text))
            });
        }
        let (rows, bytes) = (plain(&comparison["rows"]), plain(&comparison["bytes"]));
        bar.set_message(format!("group {group}: {rows} rows, {bytes} bytes compared"));
        bar.tick();
        tokio::time::sleep(PAUSE).await;
    }
}

fn line(group: u64, comparison: &Value) -> Vec<String> {
    let (rows, bytes) = (plain(&comparison["rows"]), plain(&comparison["bytes"]));
    let compared = comparison["replicas"].as_array().into_iter().flatten();
    let names: Vec<_> = compared
        .map(|other| match other["rows"] == comparison["rows"] {
            true => plain(&other["name"]),
            false => format!("{} ({} rows)", plain(&other["name"]), plain(&other["rows"])),
        })
        .collect();
    let result = match comparison["differences"].as_array().map_or(0, Vec::len) {
        _ if names.is_empty() => "nobody to compare with".into(),
        0 => "equal".into(),
        count => format!("{count} differences"),
    };
    vec![group.to_string(), rows, bytes, names.join(", "), result]
}

/// Returns the known differences, a sentence for each.
pub fn differences(groups: &Value) -> Vec<String> {
    let mut sentences = Vec::new();
    for group in groups.as_array().into_iter().flatten() {
        let found = group["comparison"]["differences"].as_array().into_iter().flatten();
        for difference in found {
            let text = plain(&difference["text"]);
            sentences.push(format!("replicas of group {} differ: {text}", group["group"]));
        }
    }
    sentences
}
