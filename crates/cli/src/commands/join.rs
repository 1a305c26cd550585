//! Request of a fresh node to be let into a cluster; the first step of `credenza serve --join`.

use crate::settings::Settings;
use base::{Body, BucketName, DirectoryCall, Error, JoinToken, Kind, Part};
use node::Joining;
use program::{Failure, Outcome};
use server::ClusterlessFlag;
use server::native::NativeClient;
use std::time::Duration;

/// Longest wait for one answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// What a member does that does not let a node in.
const NOT_YET: &str = "does not let this node in yet";
/// Between two attempts.
pub const PAUSE: Duration = Duration::from_millis(500);
/// Attempts between two words about it.
pub const SAID_EVERY: u32 = 20;

/// Joins with the help of one of these members, unless the data directory belongs to a cluster.
pub async fn join_through(
    settings: &Settings,
    clusterless: &ClusterlessFlag,
    members: &[String],
    part: Part,
) -> Outcome {
    let node = settings.node.clone();
    let joining = blocking(move || Joining::begin(&node, part)).await?;
    let Some(joining) = joining else {
        tracing::info!("this node belongs to a cluster already: it joins no other");
        return Ok(());
    };
    clusterless.set(true);
    let token = settings.node.join_token.as_ref();
    let (known, secret) = match ask(members, joining.call(), token, NOT_YET).await? {
        Body::Joined(known, secret) => (known, Some(secret)),
        Body::Cluster(known) => (known, None),
        _ => {
            let text = "a member answers what no member does";
            return Err(Failure::new(Kind::Invalid, text));
        }
    };
    let (cluster, members) = (known.cluster, known.members.len());
    blocking(move || joining.finish(&known, secret.as_ref())).await?;
    clusterless.set(false);
    tracing::info!(%cluster, members, "joined");
    Ok(())
}

/// Said to whoever started it: the sentence is enough, the word for front-ends is not needed.
pub fn not_started(error: Error) -> Failure {
    Failure::new(error.kind(), error.text())
}

/// Does what waits for the disk elsewhere.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> base::Result<T> + Send + 'static,
) -> Outcome<T> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended
        .map_err(|error| Failure::new(Kind::Corrupt, format!("joining ended abnormally: {error}")))?
        .map_err(not_started)
}

/// A client of each of these nodes, which shows them this token.
pub fn clients<'a>(
    nodes: &'a [String],
    token: Option<&JoinToken>,
) -> Outcome<Vec<(&'a String, NativeClient)>> {
    let client = |node| {
        let mut client =
            NativeClient::new(&format!("http://{node}"), ANSWER_WAIT).map_err(not_started)?;
        token.into_iter().for_each(|token| client.show(token.clone()));
        Ok((node, client))
    };
    nodes.iter().map(client).collect()
}

/// Asks one member after the other until there is an answer: a member may start later than this
/// node, and a cluster may be without a master for a while. `not_yet`: what each that does not
/// answer yet is said to do. `token`: shown to them.
pub async fn ask(
    members: &[String],
    call: DirectoryCall,
    token: Option<&JoinToken>,
    not_yet: &str,
) -> Outcome<Body> {
    let mut clients = clients(members, token)?;
    for attempt in 0_u32.. {
        for (member, client) in &mut clients {
            match client.directory(&BucketName::default(), call.clone()).await {
                Ok(reply) => return Ok(reply.body),
                Err(error) if passes(&error) => {
                    if attempt % SAID_EVERY == 0 {
                        tracing::warn!(%member, %error, "{not_yet}: asking again");
                        let text = error.text();
                        eprintln!("credenza: {member} {not_yet}: {text}");
                    }
                }
                Err(error) => return Err(not_started(error)),
            }
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
