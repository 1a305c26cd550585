//! `credenza cluster secret`: enables signed handshakes between nodes, in a cluster that was
//! founded by a version without them.

use crate::client::{Address, Client, HttpCall};
use crate::output;
use base::Kind;
use hyper::Method;
use program::Outcome;
use serde_json::json;
use std::time::{Duration, Instant};

const SECRET: &str = "/v1/cluster/secret";
/// Pause between two queries.
const PAUSE: Duration = Duration::from_millis(300);

/// Makes the secret, and waits until every member has it.
#[derive(clap::Args)]
pub struct Secret {
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

impl Secret {
    /// Runs the command. Gives up if members still lack the secret after the address's timeout; a
    /// repeated command goes on from there.
    pub async fn run(self) -> Outcome {
        let mut client = Client::new(&self.address)?;
        let began = Instant::now();
        // The call that makes the secret succeeds; those after it fail and name the members that
        // lack it, until it is required.
        let mut is_made = false;
        loop {
            match client.call(HttpCall::new(Method::POST, SECRET)).await {
                Ok(_) if is_made => break,
                Ok(_) => is_made = true,
                Err(failure) if failure.kind() == Some(Kind::Unavailable) => {
                    if began.elapsed() > self.address.timeout {
                        return Err(failure);
                    }
                }
                Err(failure) => return Err(failure),
            }
            tokio::time::sleep(PAUSE).await;
        }
        match self.json {
            true => output::json(&json!({ "required": true })),
            false => output::text("nodes sign their greetings, and refuse those without\n"),
        }
    }
}
