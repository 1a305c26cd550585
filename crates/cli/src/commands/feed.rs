//! `credenza feed`: the changes of a bucket, as they happen.

use super::siblings::value_lines;
use super::{NodeArguments, parse_bucket};
use crate::args::Encoding;
use crate::output;
use crate::signals::wait_for_interruption;
use api::{FeedEventReply, FeedPageReply};
use base::BucketName;
use feed_client::{ClusterClient, FeedFollower, Patience};
use program::Outcome;
use serde_json::json;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;

/// Time for which a command that ends by itself waits for a node that answers.
const PATIENCE: Duration = Duration::from_secs(60);

pub const EXAMPLES: &str = "\
Examples:
  credenza bucket alter users feed=values          from now on the bucket has a feed
  credenza feed users                              each key at its latest, and the changes since
  credenza feed users --follow --values            and every change from then on, with its value
  credenza feed users --from now --follow --json   a JSON object a line
  credenza feed users --from TOKEN                 behind the place that an earlier run named
  credenza feed available/users --follow --values

A line is `put` or `delete` and a key, and with --values the value. What concerns the feed itself
goes to standard error: `level` when there is nothing more yet; `restart` when changes behind the
token are no longer kept: what does not come again before the next `level` is gone; and at the end
the token to go on with. If the node does not answer, the command goes on at another one. Ctrl-C
ends it, with exit code 0.";

/// `credenza feed`.
#[derive(clap::Args)]
pub struct FeedCommand {
    /// `type/bucket`, or `bucket` of the type `default`
    #[arg(value_parser = parse_bucket)]
    bucket: BucketName,
    /// Place to begin at: `start`, `now`, or a token
    #[arg(long, value_name = "PLACE", default_value = "start", allow_hyphen_values = true)]
    from: String,
    /// With the values of the keys
    #[arg(long)]
    values: bool,
    /// Go on with every change, until interrupted
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    encoding: Encoding,
    #[command(flatten)]
    node: NodeArguments,
}

impl FeedCommand {
    /// Prints events, page by page.
    pub async fn run(self) -> Outcome {
        let mut nodes = ClusterClient::new(&self.node.address, patience(self.follow), note)?;
        let mut interruption = pin!(wait_for_interruption());
        tokio::select! {
            biased;
            ended = &mut interruption => return ended,
            learned = nodes.learn_nodes() => learned?,
        }
        let (bucket, from) = (self.bucket.clone(), self.from.clone());
        let mut follower = FeedFollower::new(nodes, bucket, from, self.values);
        let mut is_level = false;
        loop {
            let page = tokio::select! {
                biased;
                ended = &mut interruption => {
                    ended?;
                    break;
                }
                page = follower.next(is_level) => page?,
            };
            if page.restart {
                note("restart: what does not come again before the next `level` is gone");
                is_level = false;
            }
            self.print(&page)?;
            if page.level && !self.follow {
                break;
            }
            if page.level && !is_level {
                note("level: these are all changes so far");
            }
            is_level = page.level;
        }
        note(&format!("go on with --from {}", follower.from()));
        Ok(())
    }

    fn print(&self, page: &FeedPageReply) -> Outcome {
        let mut text = Vec::new();
        for event in &page.events {
            let written = match self.node.json {
                true => writeln!(text, "{}", json!(event)),
                false => write!(text, "{}", lines(event, self.encoding)),
            };
            written.map_err(output::write_failure)?;
        }
        if text.is_empty() { Ok(()) } else { output::bytes(&text) }
    }
}

/// Returns the time for which a command goes on to look for a node that answers.
pub fn patience(follows: bool) -> Patience {
    if follows { Patience::Endless } else { Patience::Limited(PATIENCE) }
}

/// Tells the user what is no part of the answer.
pub fn note(text: &str) {
    eprintln!("credenza: {text}");
}

/// Returns an event as lines: its kind, its key, and the value if it has one. A key of an available
/// bucket has a line for each of its siblings.
fn lines(event: &FeedEventReply, encoding: Encoding) -> String {
    let front = format!("{}\t{}", event.event, encoding.show(&event.key.0));
    value_lines(&front, event.value.as_ref(), event.siblings.as_deref(), encoding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::Blob;

    #[test]
    fn event_is_a_line_with_its_kind_its_key_and_its_value() {
        let blob = |text: &str| Blob::from(text.as_bytes());
        let put = FeedEventReply {
            event: "put".into(),
            key: blob("k\t1"),
            value: Some(blob("v")),
            ..FeedEventReply::default()
        };
        assert_eq!(lines(&put, Encoding::default()), "put\tk\\x091\tv\n");
        let delete = FeedEventReply { event: "delete".into(), value: None, ..put };
        assert_eq!(lines(&delete, Encoding::default()), "delete\tk\\x091\n");
    }
}
