//! Wait until a cluster is in its desired state, with its progress.

use super::view::ViewCommand;
use crate::client::Address;
use base::Kind;
use indicatif::{ProgressBar, ProgressStyle};
use program::{Failure, Outcome};
use serde_json::Value;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(300);

/// Waits. Gives up if nothing has changed for as long as the address's timeout.
pub async fn settle(address: &Address) -> Outcome {
    let bar = ProgressBar::no_length();
    let style = ProgressStyle::with_template("{msg}  {bar:30} {pos}/{len}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let settled = watch(address, &bar).await;
    bar.finish_and_clear();
    settled
}

async fn watch(address: &Address, bar: &ProgressBar) -> Outcome {
    let (mut before, mut moved) = (None, Instant::now());
    loop {
        // A node that restarts or hands over answers a moment later.
        let left = match ViewCommand::of(address).await {
            Ok(view) => {
                let left = view.left();
                if left.is_empty() {
                    return Ok(());
                }
                let (done, all) = progress(&view.cluster);
                bar.set_length(all);
                bar.set_position(done);
                bar.set_message(left[0].clone());
                let now = Some((left.clone(), done));
                if before != now {
                    (before, moved) = (now, Instant::now());
                }
                left[0].clone()
            }
            Err(failure) if failure.kind() == Some(Kind::Unavailable) => failure.to_string(),
            Err(failure) => return Err(failure),
        };
        if moved.elapsed() > address.timeout {
            let text = format!("nothing moves: {left} (`credenza cluster status` shows more)");
            return Err(Failure::new(Kind::Unavailable, text));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the log position of the learner that lags most, and the position that it must reach.
fn progress(cluster: &Value) -> (u64, u64) {
    let mut farthest = (0, 0);
    for group in cluster["groups"].as_array().into_iter().flatten() {
        let members = || group["members"].as_array().into_iter().flatten();
        let saved = |member: &Value| member["match_index"].as_u64().unwrap_or(0);
        let all = members().map(saved).max().unwrap_or(0);
        let learners = members().filter(|member| member["part"] == "learner");
        let done = learners.map(saved).min().unwrap_or(all);
        if all - done >= farthest.1 - farthest.0 {
            farthest = (done, all);
        }
    }
    farthest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_learner_is_what_is_waited_for() {
        let group = |saved: [u64; 2]| {
            serde_json::json!({ "members": [
                { "part": "voter", "match_index": saved[0] },
                { "part": "learner", "match_index": saved[1] },
            ] })
        };
        let cluster = serde_json::json!({ "groups": [group([10, 9]), group([90, 20])] });
        assert_eq!(progress(&cluster), (20, 90));
        assert_eq!(progress(&serde_json::json!({})), (0, 0));
    }
}
