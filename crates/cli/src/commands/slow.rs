//! `credenza slow`: the slowest requests of a node.

use super::NodeArguments;
use crate::logging;
use crate::output::{self, printable_text};
use crate::settings::units::show_count;
use api::SlowRequest;
use program::Outcome;
use std::time::Duration;

pub const EXAMPLES: &str = "\
Examples:
  credenza slow                                    the slowest first
  credenza slow --json | jq '.requests[].bucket'
  credenza slow --reset                            forget them

A node keeps the 1,000 slowest requests above the setting `slow_ms`. Requests of Redis' and of
Arakoon's clients that were read together (a pipeline) share an entry, which names the first. Keys
are shown as digests, as in the log.";

const HEAD: [&str; 8] =
    ["took ms", "at", "protocol", "command", "bucket", "key digest", "requests", "client"];

/// `credenza slow`.
#[derive(clap::Args)]
pub struct Slow {
    #[command(flatten)]
    node: NodeArguments,
    /// Remove all entries
    #[arg(long)]
    reset: bool,
}

impl Slow {
    /// Prints or removes the entries.
    pub async fn run(self) -> Outcome {
        let mut client = self.node.address.client()?;
        if self.reset {
            return client.reset_slow_requests().await;
        }
        let slow = client.slow_requests().await?;
        if self.node.json {
            return output::json(&slow);
        }
        output::table(&HEAD, slow.requests.iter().map(row).collect())
    }
}

fn row(request: &SlowRequest) -> Vec<String> {
    let dash = || "-".to_string();
    vec![
        show_count(request.took_us / 1_000),
        logging::time(Duration::from_millis(request.at_ms)),
        printable_text(&request.protocol),
        printable_text(&request.command),
        if request.bucket.is_empty() { dash() } else { printable_text(&request.bucket) },
        request.key_digest.as_deref().map_or_else(dash, printable_text),
        show_count(request.requests),
        request.client.as_deref().map_or_else(dash, printable_text),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_request_is_a_row_with_dashes_for_unknown_parts() {
        let request = SlowRequest {
            took_us: 1_234_567,
            protocol: "http".into(),
            command: "range".into(),
            requests: 1,
            ..SlowRequest::default()
        };
        let row = row(&request);
        assert_eq!(row.len(), HEAD.len());
        assert_eq!((row[0].as_str(), row[3].as_str()), ("1,234", "range"));
        assert_eq!([&row[4], &row[5], &row[7]], ["-", "-", "-"]);
    }
}
