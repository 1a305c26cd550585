//! `credenza cluster secret`: has the greetings between nodes signed, in a cluster that was founded
//! by a version without that.

use crate::client::{Address, Client, HttpCall};
use crate::output;
use base::Kind;
use hyper::Method;
use program::Outcome;
use serde_json::json;
use std::time::{Duration, Instant};

const SECRET: &str = "/v1/cluster/secret";
/// Between two looks.
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
    /// Does it; gives up when members still lack the secret after the address' timeout. Repeated it
    /// goes on from there.
    pub async fn run(self) -> Outcome {
        let mut client = Client::new(&self.address)?;
        let began = Instant::now();
        // The call that makes the secret succeeds; those after it fail and name who lacks it,
        // until it is required.
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
