//! `credenza bucket move` and `credenza bucket status`: the group of a bucket, and the progress of
//! its move to another one.

use super::bucket as bucket_name;
use super::bucket::plain;
use crate::client::{Address, Client, HttpCall};
use crate::output;
use base::{BucketName, Kind};
use hyper::Method;
use indicatif::{ProgressBar, ProgressStyle};
use program::{Failure, Outcome};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(200);

/// Moves one bucket.
#[derive(clap::Args)]
pub struct Move {
    /// `type/bucket`, or `bucket` of the type `default`
    #[arg(value_parser = bucket_name)]
    bucket: BucketName,
    /// Where it is to live (`credenza group status` lists them)
    #[arg(long, value_name = "GROUP", required_unless_present = "cancel")]
    group: Option<u32>,
    /// Give up a move that is under way: the bucket stays where it is
    #[arg(long, conflicts_with = "group")]
    cancel: bool,
    /// Don't wait until it lives there
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    address: Address,
}

/// Shows one bucket's place.
#[derive(clap::Args)]
pub struct MoveStatus {
    /// `type/bucket`, or `bucket` of the type `default`
    #[arg(value_parser = bucket_name)]
    bucket: BucketName,
    #[command(flatten)]
    address: Address,
    /// Answer in JSON
    #[arg(long)]
    json: bool,
}

fn path(bucket: &BucketName) -> String {
    format!("/v1/buckets/{bucket}/move")
}

async fn seen(client: &mut Client, bucket: &BucketName) -> Outcome<Value> {
    client.call(HttpCall::new(Method::GET, path(bucket))).await?.json()
}

impl Move {
    pub async fn run(self) -> Outcome {
        let mut client = Client::new(&self.address)?;
        let Some(group) = self.group.filter(|_| !self.cancel) else {
            return client
                .call(HttpCall::new(Method::DELETE, path(&self.bucket)))
                .await
                .map(|_| ());
        };
        let body = json!({ "group": group }).to_string();
        client.call(HttpCall::json(Method::POST, path(&self.bucket), body)).await?;
        if self.no_wait {
            return Ok(());
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{msg:14} {bar:30} {bytes}/{total_bytes} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let watched = self.watch(&mut client, group, &bar).await;
        bar.finish_and_clear();
        watched
    }

    /// Waits until the move has ended. Gives up if nothing has changed for as long as the address's
    /// timeout; the move goes on.
    async fn watch(&self, client: &mut Client, group: u32, bar: &ProgressBar) -> Outcome {
        let (mut before, mut moved) = (Value::Null, Instant::now());
        loop {
            let waits_for = match seen(client, &self.bucket).await {
                Ok(seen) if seen["to"].is_null() => return self.arrived(group, &seen),
                Ok(seen) => {
                    let progress = &seen["progress"];
                    show(progress, bar);
                    if before != seen {
                        (before, moved) = (seen.clone(), Instant::now());
                    }
                    progress["waits_for"].as_str().unwrap_or_default().to_string()
                }
                // A node that restarts or hands over answers a moment later.
                Err(failure) if failure.kind() == Some(Kind::Unavailable) => failure.to_string(),
                Err(failure) => return Err(failure),
            };
            if moved.elapsed() > self.address.timeout {
                let text = format!(
                    "the move does not get on: {waits_for} (it goes on when it can; \
                     `credenza bucket status {0}` shows how far it is, `credenza bucket move {0} \
                     --cancel` gives it up)",
                    self.bucket
                );
                return Err(Failure::new(Kind::Unavailable, text));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Checks where the bucket is after the move. Fails if it was cancelled.
    fn arrived(&self, group: u32, seen: &Value) -> Outcome {
        if seen["group"] == group {
            return Ok(());
        }
        let text =
            format!("the move was given up: `{}` lives in group {}", self.bucket, seen["group"]);
        Err(Failure::new(Kind::Conflict, text))
    }
}

fn show(progress: &Value, bar: &ProgressBar) {
    let number = |name: &str| progress[name].as_u64().unwrap_or(0);
    let phase = progress["phase"].as_str().unwrap_or("waiting");
    bar.set_length(number("bytes_total").max(number("bytes")));
    bar.set_position(number("bytes"));
    bar.set_message(phase.replace('_', " "));
}

impl MoveStatus {
    pub async fn show(self) -> Outcome {
        let seen = seen(&mut Client::new(&self.address)?, &self.bucket).await?;
        if self.json {
            return output::json(&seen);
        }
        let mut rows = vec![
            vec!["bucket".into(), plain(&seen["name"])],
            vec!["group".into(), plain(&seen["group"])],
        ];
        if !seen["to"].is_null() {
            rows.push(vec!["moves to group".into(), plain(&seen["to"])]);
        }
        for (name, value) in seen["progress"].as_object().into_iter().flatten() {
            rows.push(vec![name.replace('_', " "), plain(value)]);
        }
        output::table(&["property", "value"], rows)
    }
}
