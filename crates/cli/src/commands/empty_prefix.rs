//! `credenza bucket empty-prefix`: deletes all keys under a prefix, in parts.

use super::parse_bucket;
use crate::args::Encoding;
use crate::output;
use base::{BucketName, Kind};
use client::Address;
use program::{Failure, Outcome};
use serde_json::json;
use std::time::Duration;

/// Most repetitions of a call that found no master, no space or no answer.
const RETRIES_MAX: u32 = 60;
/// Pause before each repetition.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Arguments of the deletion of all keys under a prefix.
#[derive(clap::Args)]
pub struct EmptyPrefix {
    /// `type/bucket`, or `bucket` of the type `default`
    #[arg(value_parser = parse_bucket)]
    bucket: BucketName,
    /// Prefix of the keys to delete
    prefix: String,
    #[command(flatten)]
    encoding: Encoding,
    /// Go on where an earlier call ended: the token that it showed
    #[arg(long = "continue", value_name = "TOKEN")]
    token: Option<String>,
    /// Do it; without this, nothing is deleted
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl EmptyPrefix {
    /// Runs the command.
    pub async fn run(self) -> Outcome {
        let prefix = self.encoding.bytes(&self.prefix)?;
        if !self.yes {
            let message = format!(
                "all keys of {} under this prefix would be lost: add --yes to mean it",
                self.bucket
            );
            return Err(Failure::invalid(message));
        }
        let mut client = self.address.client()?;
        let mut token = self.token.clone();
        let (mut removed, mut retries) = (0, 0);
        loop {
            match client.empty_prefix(&self.bucket, &prefix, token.clone()).await {
                Ok(part) => {
                    (removed, retries) = (removed + part.removed, 0);
                    let Some(next) = part.r#continue else { break };
                    eprintln!("{removed} keys deleted; go on from here with --continue {next}");
                    token = Some(next);
                }
                Err(failure) if retries < RETRIES_MAX && is_transient(&failure) => {
                    retries += 1;
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                Err(failure) => return Err(failure),
            }
        }
        if self.json {
            return output::json(&json!({ "removed": removed }));
        }
        output::text(&format!("{removed} keys deleted\n"))
    }
}

/// Returns true if the same call may succeed later. A repeated delete is harmless.
fn is_transient(failure: &Failure) -> bool {
    matches!(failure.kind(), Some(Kind::Unavailable | Kind::Unknown))
}
