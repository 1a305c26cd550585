//! `credenza slow`: the slowest requests of a node.

use super::NodeArguments;
use crate::output::{self, printable_text};
use api::{EntryStages, SlowRequest, SlowStages};
use program::Outcome;
use program::units::show_count;
use std::cmp::Reverse;
use std::time::Duration;

pub const EXAMPLES: &str = "\
Examples:
  credenza slow                                    the slowest first
  credenza slow --json | jq '.requests[].bucket'
  credenza slow --reset                            forget them

A node keeps the 1,000 slowest requests above the setting `slow_ms`. Requests of Redis' and of
Arakoon's clients that were read together (a pipeline) share an entry, which names the first. Keys
are shown as digests, as in the log.

Where the time went, the longest first: `evaluate` (with the rows that were read), `reply` (of other
nodes, replicas of available buckets, long reads), `send` (the client did not read), and of updates
`batch` (it gathered, or waited for earlier ones), `log` (this node's disk), `replicas` (the logs of
other members) and `apply`, or `decide` if these are not known.";

const HEAD: [&str; 9] = [
    "took ms",
    "at",
    "protocol",
    "command",
    "bucket",
    "key digest",
    "requests",
    "where (ms)",
    "client",
];
/// Number of stages that are shown.
const STAGES_SHOWN: usize = 3;

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
        stages(request).unwrap_or_else(dash),
        request.client.as_deref().map_or_else(dash, printable_text),
    ]
}

/// Returns the longest stages, with their milliseconds. `None`: none took one.
fn stages(request: &SlowRequest) -> Option<String> {
    let SlowStages { evaluate_us, decide_us, entry, reply_us, send_us } = &request.stages;
    let mut all = vec![
        ("evaluate", evaluate_us / 1_000),
        ("reply", reply_us / 1_000),
        ("send", send_us / 1_000),
    ];
    match entry {
        Some(EntryStages { batch_ms, log_ms, replicas_ms, apply_ms }) => all.extend([
            ("batch", *batch_ms),
            ("log", *log_ms),
            ("replicas", *replicas_ms),
            ("apply", *apply_ms),
        ]),
        None => all.push(("decide", decide_us / 1_000)),
    }
    all.retain(|(_, ms)| *ms > 0);
    all.sort_by_key(|(_, ms)| Reverse(*ms));
    all.truncate(STAGES_SHOWN);
    let shown: Vec<_> =
        all.into_iter().map(|(stage, ms)| format!("{stage} {}", show_count(ms))).collect();
    (!shown.is_empty()).then(|| shown.join(", "))
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
        assert_eq!([&row[4], &row[5], &row[7], &row[8]], ["-", "-", "-", "-"]);
    }

    #[test]
    fn slow_request_shows_its_longest_stages() {
        let mut request = SlowRequest {
            stages: SlowStages {
                evaluate_us: 2_000,
                decide_us: 1_500_000,
                send_us: 900,
                ..SlowStages::default()
            },
            ..SlowRequest::default()
        };
        assert_eq!(row(&request)[7], "decide 1,500, evaluate 2");
        let entry = EntryStages { batch_ms: 1, log_ms: 1_400, replicas_ms: 90, apply_ms: 9 };
        request.stages.entry = Some(entry);
        assert_eq!(row(&request)[7], "log 1,400, replicas 90, apply 9");
    }
}
