//! `credenza cluster recover`: after a majority is lost for good, one of the remaining members goes
//! on alone.

use super::join::start_failure;
use crate::output;
use base::Kind;
use node::{NodeSettings, SurvivingData, SurvivingGroup, SurvivingRing};
use program::{Failure, Outcome};
use serde_json::{Value, json};
use std::path::PathBuf;

/// `credenza cluster recover`.
#[derive(clap::Args)]
pub struct Recover {
    /// The data directory of a stopped member
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// Make this member the only one of a new cluster. What the others decided and this one never
    /// got is lost, acknowledged or not
    #[arg(long)]
    yes_lose_what_the_others_had: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Recover {
    /// Shows the state, and recovers if that was confirmed.
    pub async fn run(self) -> Outcome {
        if !self.data.join("IDENTITY").exists() {
            let text = format!("{} is no data directory", self.data.display());
            return Err(Failure::new(Kind::Invalid, text));
        }
        let settings = NodeSettings { data_dir: self.data.clone(), ..NodeSettings::default() };
        let is_confirmed = self.yes_lose_what_the_others_had;
        let surviving_data = match is_confirmed {
            true => SurvivingData::recover(settings).await.map_err(start_failure)?,
            false => super::join::blocking(move || SurvivingData::inspect(&settings)).await?,
        };
        if self.json {
            return output::json(&as_json(&surviving_data, is_confirmed));
        }
        self.show(&surviving_data)?;
        let (data, name) = (self.data.display(), &surviving_data.name);
        output::text(&match is_confirmed {
            true => format!(
                "\n{name} is the only member of the new cluster {}. Start it as before; let fresh \
                 nodes join it with --join. Those of the old cluster are refused: empty their \
                 directories first.\n",
                surviving_data.cluster
            ),
            false => format!(
                "\nNothing was changed. A majority that can still be started needs none of this. \
                 If it is lost for good:\nlook at every member that is left, and choose the one \
                 whose log was accepted under the highest ballot and, of equals, is the \
                 longest.\nThen, and for that one only:\n  credenza cluster recover --data {data} \
                 --yes-lose-what-the-others-had\n"
            ),
        })
    }

    fn show(&self, surviving_data: &SurvivingData) -> Outcome {
        let (cluster, node, name) =
            (surviving_data.cluster, surviving_data.node, &surviving_data.name);
        output::text(&format!("{name}, node {:016x} of cluster {cluster}\n\n", node.0))?;
        let row = |group: &SurvivingGroup| {
            vec![
                group.group.to_string(),
                group.part.name().into(),
                group.voters.join(" "),
                group.ballot.to_string(),
                group.last.to_string(),
                group.decided.to_string(),
                group.applied.to_string(),
            ]
        };
        let head = ["group", "part", "voters", "ballot", "last", "decided", "applied"];
        output::table(&head, surviving_data.groups.iter().map(row).collect())?;
        for group in &surviving_data.absent {
            output::text(&format!("group {group}: this member has no part in it\n"))?;
        }
        surviving_data.ring.map_or(Ok(()), |ring| output::text(&available_text(&ring)))
    }
}

/// Describes what happens to available buckets.
fn available_text(ring: &SurvivingRing) -> String {
    let SurvivingRing { partitions, copied_partitions, other_members } = ring;
    let loss = match partitions - copied_partitions {
        0 => String::new(),
        loss => format!(
            "; of the other {loss} nothing is left but what it kept for members that were away"
        ),
    };
    let advice = match other_members {
        0 => "it keeps the whole ring",
        _ => {
            "recovered, it keeps the whole ring; let the nodes that join keep their parts of it \
             with `credenza cluster ring join NODE` and `commit`"
        }
    };
    format!(
        "\navailable buckets: it has a copy of {copied_partitions} of {partitions} \
         partitions{loss}; {advice}\n"
    )
}

fn as_json(data: &SurvivingData, is_recovered: bool) -> Value {
    let group = |group: &SurvivingGroup| {
        json!({
            "group": group.group.0, "part": group.part.name(), "voters": group.voters,
            "ballot": group.ballot.to_string(),
            "last": group.last.0, "decided": group.decided.0, "applied": group.applied.0,
        })
    };
    json!({
        "cluster": data.cluster.to_string(), "node": format!("{:016x}", data.node.0),
        "name": data.name, "taken_over": is_recovered,
        "groups": data.groups.iter().map(group).collect::<Vec<_>>(),
        "absent": data.absent.iter().map(|group| group.0).collect::<Vec<_>>(),
        "ring": data.ring.map(|ring| json!({
            "partitions": ring.partitions, "copied": ring.copied_partitions,
            "others": ring.other_members,
        })),
    })
}
