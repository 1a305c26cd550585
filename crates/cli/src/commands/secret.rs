//! `credenza cluster secret`: enables signed handshakes between nodes, in a cluster that was
//! founded by a version without them.

use super::NodeArguments;
use crate::output;
use base::Kind;
use program::Outcome;
use serde_json::json;
use std::time::{Duration, Instant};

/// Pause between two requests.
const PAUSE: Duration = Duration::from_millis(300);

/// Arguments of the creation of the secret.
#[derive(clap::Args)]
pub struct Secret {
    #[command(flatten)]
    node: NodeArguments,
}

impl Secret {
    /// Runs the command. Gives up if members still lack the secret after the address's timeout; a
    /// repeated command goes on from there.
    pub async fn run(self) -> Outcome {
        let mut client = self.node.address.client()?;
        let started = Instant::now();
        // The first successful call creates the secret. Later calls fail and name the members that
        // lack it, until every member has it and it is required.
        let mut is_made = false;
        loop {
            match client.make_secret().await {
                Ok(()) if is_made => break,
                Ok(()) => is_made = true,
                Err(failure) if failure.kind() == Some(Kind::Unavailable) => {
                    if started.elapsed() > self.node.address.timeout {
                        return Err(failure);
                    }
                }
                Err(failure) => return Err(failure),
            }
            tokio::time::sleep(PAUSE).await;
        }
        match self.node.json {
            true => output::json(&json!({ "required": true })),
            false => output::text("nodes sign their greetings, and refuse those without\n"),
        }
    }
}
