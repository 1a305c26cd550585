//! `credenza cluster trust-log`: declares a torn log complete, because the nodes that could
//! complete it are gone.

use crate::output;
use base::Kind;
use node::NodeSettings;
use program::{Failure, Outcome};
use serde_json::json;
use std::path::PathBuf;

/// `credenza cluster trust-log`.
#[derive(clap::Args)]
pub struct TrustLog {
    /// The data directory of the stopped member whose log was torn
    #[arg(long, default_value = "data")]
    data: PathBuf,
    /// Go on without what only the absent members have: it is lost, acknowledged or not
    #[arg(long)]
    yes_lose_what_the_others_had: bool,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl TrustLog {
    /// Runs the command, if it was confirmed.
    pub async fn run(self) -> Outcome {
        if !self.data.join("IDENTITY").exists() {
            let text = format!("{} is no data directory", self.data.display());
            return Err(Failure::new(Kind::Invalid, text));
        }
        if !self.yes_lose_what_the_others_had {
            let text = "start the members that status names, if they can be started; if they are \
                        gone for good, say it again with --yes-lose-what-the-others-had";
            return Err(Failure::new(Kind::Invalid, text));
        }
        let settings = NodeSettings { data_dir: self.data, ..NodeSettings::default() };
        let host = settings.host();
        let groups = super::join::blocking(move || node::trust_log(&host)).await?;
        let groups: Vec<_> = groups.iter().map(|group| group.0).collect();
        if self.json {
            return output::json(&json!({ "groups": groups }));
        }
        output::text(&match groups.is_empty() {
            true => "the log is whole: nothing was changed\n".into(),
            false => format!("the log counts as whole in {} groups: start it\n", groups.len()),
        })
    }
}
