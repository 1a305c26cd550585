//! How a fresh node asks a cluster to be let in; the first thing `credenza serve --join` does.

use super::serve::not_started;
use crate::failure::{Failure, Outcome};
use crate::settings::Settings;
use base::{Body, BucketName, ClusterDescription, DirectoryCall, Error, Kind};
use doors::native::Client;
use node::Joining;
use std::time::Duration;

/// Longest wait for one answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// Attempts between two words about it.
const SAID_EVERY: u32 = 20;

/// Joins, if the settings say so and the data directory belongs to no cluster yet.
pub async fn join(settings: &Settings) -> Outcome {
    let Some(member) = &settings.join else { return Ok(()) };
    let (node, part) = (settings.node.clone(), settings.join_as);
    let joining = blocking(move || Joining::begin(&node, part)).await?;
    let Some(joining) = joining else {
        tracing::info!("this node belongs to a cluster already: `join` means nothing to it");
        return Ok(());
    };
    let known = ask(member, joining.call()).await?;
    let (cluster, members) = (known.cluster, known.members.len());
    blocking(move || joining.finish(&known)).await?;
    tracing::info!(%cluster, members, "joined");
    Ok(())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> base::Result<T> + Send + 'static,
) -> Outcome<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended
        .map_err(|error| Failure::new(Kind::Corrupt, format!("joining ended abnormally: {error}")))?
        .map_err(not_started)
}

/// Asks until there is an answer: a member may start later than this node, and a cluster may be
/// without a master for a while.
async fn ask(member: &str, call: DirectoryCall) -> Outcome<ClusterDescription> {
    let mut client = Client::new(&format!("http://{member}"), ANSWER_WAIT).map_err(not_started)?;
    for attempt in 0_u32.. {
        match client.directory(&BucketName::default(), call.clone()).await {
            Ok(reply) => match reply.body {
                Body::Cluster(known) => return Ok(known),
                other => {
                    let text = format!("{member} answers what no member does: {other:?}");
                    return Err(Failure::new(Kind::Invalid, text));
                }
            },
            Err(error) if passes(&error) => {
                if attempt % SAID_EVERY == 0 {
                    tracing::warn!(member, %error, "not let in yet: asking again");
                    eprintln!("credenza: {member} does not let this node in yet: {}", error.text());
                }
            }
            Err(error) => return Err(not_started(error)),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::new(Kind::Unavailable, "nobody let this node in"))
}

/// Whether asking again may help. What is not known to have happened may be asked again: the same
/// node is let in once.
fn passes(error: &Error) -> bool {
    matches!(error.kind(), Kind::Unavailable | Kind::Unknown)
}
