//! `credenza status`: how a node is.

use super::bucket::plain;
use super::cluster::members_text;
use crate::client::{Address, Call, Client};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::settings::units::show_size;
use base::Kind;
use hyper::Method;
use serde_json::Value;
use std::time::Duration;

pub const EXAMPLES: &str = "\
Examples:
  credenza status
  credenza status --watch                          again every second
  credenza status --json | jq .ready

Exit code 5: the node does not take writes.";

/// `credenza status`.
#[derive(clap::Args)]
pub struct Status {
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
    /// Show it again every second, until interrupted
    #[arg(short, long)]
    watch: bool,
}

impl Status {
    /// Prints it.
    pub async fn run(self) -> Outcome {
        let mut client = Client::new(&self.address)?;
        loop {
            let call = Call::new(Method::GET, "/status");
            let status = client.call(call).await.and_then(|answer| answer.json());
            if !self.watch {
                return self.show(&status?);
            }
            // A terminal is cleared and written anew; a node that is away for a while is shown as
            // such.
            output::text("\x1b[2J\x1b[H")?;
            match status {
                Ok(status) => output::text(&table(&status))?,
                Err(failure) => output::text(&format!("{failure}\n"))?,
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    fn show(&self, status: &Value) -> Outcome {
        if self.json {
            output::json(status)?;
        } else {
            output::text(&table(status))?;
        }
        if status["ready"] == false {
            return Err(Failure::new(Kind::Unavailable, "the node does not take writes"));
        }
        Ok(())
    }
}

/// Fields whose number is a size.
fn is_size(name: &str) -> bool {
    name.ends_with("bytes") || name.contains("_bytes")
}

/// The whole status as lines: numbers of one thing in one line, warnings at the end.
fn table(status: &Value) -> String {
    let mut text = String::new();
    let mut plain_fields = Vec::new();
    for (name, value) in status.as_object().into_iter().flatten() {
        match value {
            Value::Object(_) => text.push_str(&format!("{name:<10} {}\n", line(value))),
            Value::Array(items) if name == "groups" => {
                for group in items {
                    text.push_str(&format!("{:<10} {}\n", "group", line(group)));
                }
            }
            Value::Array(items) if name == "members" => {
                for member in items {
                    text.push_str(&format!("{:<10} {}\n", "member", line(member)));
                }
            }
            Value::Array(_) => {}
            _ => plain_fields.push(field(name, value)),
        }
    }
    let head = plain_fields.join("  ");
    let mut whole = format!("{head}\n{text}");
    for (list, word) in [("interval_buckets", "not synced at once"), ("warnings", "warning")] {
        for item in status[list].as_array().into_iter().flatten() {
            whole.push_str(&format!("{word}: {}\n", plain(item)));
        }
    }
    whole
}

fn line(object: &Value) -> String {
    let fields = object.as_object().into_iter().flatten();
    let shown = fields.map(|(name, value)| match value {
        Value::Array(_) if name == "members" => format!("{name}={}", members_text(value)),
        _ => field(name, value),
    });
    shown.collect::<Vec<_>>().join("  ")
}

fn field(name: &str, value: &Value) -> String {
    match value.as_u64() {
        Some(bytes) if is_size(name) => format!("{name}={}", show_size(bytes)),
        Some(ms) if name == "uptime_ms" => format!("uptime={} s", ms / 1_000),
        _ => format!("{name}={}", plain(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_and_warning_is_shown() {
        let status = serde_json::json!({
            "name": "a", "ready": true, "uptime_ms": 61_500,
            "log": {"bytes": 1_048_576, "segments": 2},
            "groups": [
                {"id": 0, "role": "master"},
                {"id": 1, "role": "master", "members": [
                    {"name": "n1", "part": "voter", "saved": 7},
                    {"name": "n2", "part": "learner", "saved": null}]},
            ],
            "members": [{"name": "n1", "connected": true}],
            "interval_buckets": ["logs/web"], "warnings": ["disk\nfull"]
        });
        let wanted = "name=a  ready=true  uptime=61 s\n\
                      log        bytes=1 MiB  segments=2\n\
                      group      id=0  role=master\n\
                      group      id=1  role=master  members=n1@7 n2=learner\n\
                      member     name=n1  connected=true\n\
                      not synced at once: logs/web\n\
                      warning: disk\\x0afull\n";
        assert_eq!(table(&status), wanted);
    }
}
