//! Request of a fresh node to join a cluster; the first step of `credenza serve --join`.

use api::{Integer, NewMember};
use base::{ClusterDescription, ClusterSecret, Error, FeatureLevel, JoinToken, Kind, Part};
use client::Client;
use node::PendingJoin;
use program::{Failure, Outcome};
use server::ClusterlessFlag;
use settings::Settings;
use std::time::Duration;
use tls::TlsClient;

/// Longest wait for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Message about a member that does not admit this node yet.
const NOT_ADMITTED: &str = "does not let this node in yet";
/// Pause between two attempts.
pub const PAUSE: Duration = Duration::from_millis(500);
/// Number of attempts between two messages about them.
pub const ATTEMPTS_PER_MESSAGE: u32 = 20;

/// Joins through one of these members, unless the data directory belongs to a cluster.
pub async fn join_through(
    settings: &Settings,
    clusterless: &ClusterlessFlag,
    members: &[String],
    part: Part,
) -> Outcome {
    let node = settings.node.clone();
    let joining = blocking(move || PendingJoin::open(&node, part)).await?;
    let Some(joining) = joining else {
        tracing::info!("this node belongs to a cluster already: it joins no other");
        return Ok(());
    };
    clusterless.set(true);
    let access = MemberAccess::of(settings)?;
    let member = joining.member.clone();
    let request = NewMember {
        node: member.node.to_string(),
        name: member.name,
        peer: member.peer,
        client: member.client,
        part: Some(joining.part.name().into()),
        lease_ms: Integer(joining.lease_ms),
        level: None,
    };
    let joined = ask_members(members, &access, NOT_ADMITTED, async |member| {
        let level = level_to_send(member.members().await?.level)?;
        member.add_member(&NewMember { level, ..request.clone() }).await
    })
    .await?;
    let secret = joined.secret.map(|secret| ClusterSecret::from_hex(secret.text())).transpose()?;
    let description = ClusterDescription::from(joined.members);
    let (cluster, members) = (description.cluster, description.members.len());
    blocking(move || joining.finish(&description, secret.as_ref())).await?;
    clusterless.set(false);
    tracing::info!(%cluster, members, "joined");
    Ok(())
}

/// Returns the level of this program as it is sent to a cluster of this level. A cluster of the
/// first level takes none.
fn level_to_send(in_force: u16) -> Outcome<Option<Integer>> {
    let in_force = FeatureLevel(in_force);
    if in_force > FeatureLevel::HIGHEST {
        return Err(Failure::invalid(format!(
            "the cluster is at feature level {in_force}, and this program (credenza {}) knows \
             levels up to {}: run {}",
            crate::VERSION,
            FeatureLevel::HIGHEST,
            in_force.program_text()
        )));
    }
    let highest = Integer(FeatureLevel::HIGHEST.0.into());
    Ok((in_force > FeatureLevel::FIRST).then_some(highest))
}

/// Converts an error for the operator who starts the node: its text suffices, without the reason
/// for front-ends.
pub fn start_failure(error: Error) -> Failure {
    Failure::new(error.kind(), error.text())
}

/// Runs work that waits for the disk on a thread for blocking calls.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> base::Result<T> + Send + 'static,
) -> Outcome<T> {
    let result = tokio::task::spawn_blocking(work).await;
    result
        .map_err(|error| Failure::new(Kind::Corrupt, format!("joining ended abnormally: {error}")))?
        .map_err(start_failure)
}

/// Means by which a node gets access to the members of a cluster that it is not connected with.
pub struct MemberAccess {
    /// Token that lets it in.
    pub token: Option<JoinToken>,
    /// TLS of its calls. `None`: they are plain.
    pub tls: Option<TlsClient>,
}

impl MemberAccess {
    /// Returns the means that the settings name.
    pub fn of(settings: &Settings) -> Outcome<MemberAccess> {
        let token = settings.node.join_token.clone();
        Ok(MemberAccess { token, tls: settings.member_tls()? })
    }
}

/// Returns a client of each of these nodes.
pub fn clients<'a>(
    nodes: &'a [String],
    access: &MemberAccess,
) -> Outcome<Vec<(&'a String, Client)>> {
    let client = |node: &'a String| {
        let means = (access.token.clone(), access.tls.clone());
        Ok((node, Client::for_member(node, means, ANSWER_TIMEOUT)?))
    };
    nodes.iter().map(client).collect()
}

/// Sends a request to one member after the other until one accepts it: a member may start later
/// than this node, and a cluster may be without a master for a while. `not_yet`: message about a
/// member that does not answer yet. `access`: presented to the members.
pub async fn ask_members<T>(
    members: &[String],
    access: &MemberAccess,
    not_yet: &str,
    request: impl AsyncFn(&mut Client) -> Outcome<T>,
) -> Outcome<T> {
    let mut clients = clients(members, access)?;
    for attempt in 0_u32.. {
        for (member, client) in &mut clients {
            match request(client).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if is_transient(&failure) => {
                    if attempt % ATTEMPTS_PER_MESSAGE == 0 {
                        tracing::warn!(%member, error = %failure, "{not_yet}: asking again");
                        let text = failure.sentence();
                        eprintln!("credenza: {member} {not_yet}: {text}");
                    }
                }
                Err(failure) => {
                    let kind = failure.kind().unwrap_or(Kind::Invalid);
                    return Err(Failure::new(kind, failure.sentence()));
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::new(Kind::Unavailable, "nobody let this node in"))
}

/// Returns true if a retry may succeed. A request with an unknown outcome may be repeated: the same
/// node is admitted once.
fn is_transient(failure: &Failure) -> bool {
    matches!(failure.kind(), Some(Kind::Unavailable | Kind::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_program_names_its_level_only_to_clusters_that_have_one() {
        let sent = |level| level_to_send(level).map(|level| level.map(|Integer(level)| level));
        assert_eq!(sent(1).ok(), Some(None));
        assert_eq!(sent(2).ok(), Some(Some(2)));
        let refused = sent(7).expect_err("too high").to_string();
        assert!(
            refused.contains("feature level 7") && refused.contains("later version"),
            "{refused}"
        );
    }
}
