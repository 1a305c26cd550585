//! `credenza checkpoint`: copies a running node's data.

use crate::client::{Address, Call, Client};
use crate::failure::Outcome;
use crate::output;
use hyper::Method;
use serde_json::json;

pub const EXAMPLES: &str = "\
Examples:
  credenza checkpoint monday                       into DATA/checkpoints/monday
  credenza restore data/checkpoints/monday --data /srv/copy

The copy shares the disk blocks of tables that did not change (hard links), so it is quick and
small. It is no backup before it is on another disk; `credenza check` verifies it there.";

/// `credenza checkpoint`.
#[derive(clap::Args)]
pub struct Checkpoint {
    /// The copy's name: a folder of `checkpoints` in the node's data directory
    name: String,
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Checkpoint {
    /// Makes it and prints where it is.
    pub async fn run(self) -> Outcome {
        let body = json!({ "target": self.name }).to_string();
        let call = Call::json(Method::POST, "/v1/admin/checkpoint", body);
        let answer = Client::new(&self.address)?.call(call).await?.json()?;
        if self.json {
            return output::json(&answer);
        }
        output::text(&format!("{}\n", super::bucket::plain(&answer["target"])))
    }
}
