//! `credenza bucket move` and `credenza bucket status`: the group of a bucket, and the progress of
//! its move to another one.

use super::NodeArguments;
use super::parse_bucket;
use super::wait::until_done;
use crate::output::{self, printable_text};
use api::BucketMoveProgress;
use base::{BucketName, Kind};
use client::{Address, Client};
use indicatif::{ProgressBar, ProgressStyle};
use program::{Failure, Outcome};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(200);

/// Arguments of the move of a bucket.
#[derive(clap::Args)]
pub struct Move {
    /// `type/bucket`, or `bucket` of the type `default`
    #[arg(value_parser = parse_bucket)]
    bucket: BucketName,
    /// Group to move to (`credenza group status` lists the groups)
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

impl Move {
    pub async fn run(self) -> Outcome {
        let mut client = self.address.client()?;
        let Some(group) = self.group.filter(|_| !self.cancel) else {
            return client.cancel_move(&self.bucket).await;
        };
        client.move_bucket(&self.bucket, group).await?;
        if self.no_wait {
            return Ok(());
        }
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{msg:14} {bar:30} {bytes}/{total_bytes} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let result = self.watch(&mut client, group, &bar).await;
        bar.finish_and_clear();
        result
    }

    /// Waits until the move is complete or cancelled. Fails with a conflict if it was cancelled.
    async fn watch(&self, client: &mut Client, group: u32, bar: &ProgressBar) -> Outcome {
        let mut home = group;
        let poll = async || {
            let status = client.bucket_move(&self.bucket).await?;
            home = status.group;
            if status.to.is_none() {
                return Ok(None);
            }
            let progress = status.progress.unwrap_or_default();
            update_bar(&progress, bar);
            let waits_for = progress.waits_for.clone();
            Ok(Some((progress, waits_for)))
        };
        until_done((self.address.timeout, PAUSE), poll, |waits_for| {
            format!(
                "the move does not get on: {waits_for} (it goes on when it can; \
                 `credenza bucket status {0}` shows how far it is, `credenza bucket move {0} \
                 --cancel` gives it up)",
                self.bucket
            )
        })
        .await?;
        if home == group {
            return Ok(());
        }
        let text = format!("the move was given up: `{}` lives in group {home}", self.bucket);
        Err(Failure::new(Kind::Conflict, text))
    }
}

fn update_bar(progress: &BucketMoveProgress, bar: &ProgressBar) {
    bar.set_length(progress.bytes_total.max(progress.bytes));
    bar.set_position(progress.bytes);
    let phase = if progress.phase.is_empty() { "waiting" } else { &progress.phase };
    bar.set_message(phase.replace('_', " "));
}

/// Shows the group of a bucket, and the progress of its move.
pub async fn status(bucket: &BucketName, node: &NodeArguments) -> Outcome {
    let reply = node.address.client()?.bucket_move(bucket).await?;
    if node.json {
        return output::json(&reply);
    }
    let row = |name: &str, text: String| vec![name.to_string(), text];
    let mut rows =
        vec![row("bucket", printable_text(&reply.name)), row("group", reply.group.to_string())];
    rows.extend(reply.to.map(|to| row("moves to group", to.to_string())));
    if let Some(progress) = reply.progress {
        rows.extend([
            row("phase", printable_text(&progress.phase)),
            row("rows", progress.rows.to_string()),
            row("rows total", progress.rows_total.to_string()),
            row("bytes", progress.bytes.to_string()),
            row("bytes total", progress.bytes_total.to_string()),
            row("recopied", progress.recopied.to_string()),
            row("remaining", progress.remaining.to_string()),
            row("waits for", printable_text(&progress.waits_for)),
        ]);
    }
    output::table(&["property", "value"], rows)
}
