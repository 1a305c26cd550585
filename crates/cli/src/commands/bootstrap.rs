//! Choice of a node with an empty disk between founding a cluster and joining one. A founder's
//! first start looks like its return with a new disk, and only the other nodes know the difference.
//!
//! A second cluster would give clients an empty database that accepts their writes, beside the one
//! that has their data. So a node founds a cluster only if a majority of the list, itself included,
//! reports that it belongs to none: of a majority that had one, at least one node knows it.

use super::join::{ATTEMPTS_PER_MESSAGE, MemberAccess, PAUSE, blocking, clients, join_through};
use base::{Kind, Part, Reason};
use node::PendingJoin;
use program::{Failure, Outcome};
use server::ClusterlessFlag;
use settings::Settings;

/// Joins a cluster, if the settings say so and the data directory belongs to none yet. Returns
/// without joining if this node must found one.
pub async fn join_or_bootstrap(settings: &Settings, clusterless: &ClusterlessFlag) -> Outcome {
    if !settings.join.is_empty() {
        return join_through(settings, clusterless, &settings.join, settings.join_as).await;
    }
    if settings.bootstrap_peers.is_empty() {
        return Ok(());
    }
    let node = settings.node.clone();
    if blocking(move || PendingJoin::is_fresh(&node)).await? {
        clusterless.set(true);
        let may_bootstrap = may_bootstrap(settings).await?;
        clusterless.set(false);
        if may_bootstrap {
            return Ok(());
        }
    }
    join_through(settings, clusterless, &settings.bootstrap_peers, Part::Voter).await
}

/// Logs that another node has a cluster. Returns `false`: this node founds none.
fn found_cluster(other: &str) -> bool {
    tracing::warn!(%other, "has a cluster: this node joins it and founds none");
    false
}

/// Asks the other nodes until one has a cluster (`false`), or enough have none (`true`).
async fn may_bootstrap(settings: &Settings) -> Outcome<bool> {
    let peers = &settings.bootstrap_peers;
    let access = MemberAccess { token: None, tls: settings.member_tls()? };
    let mut clients = clients(peers, &access)?;
    let all = peers.len() + 1;
    for attempt in 0_u32.. {
        let mut without = 1;
        let mut silent = Vec::new();
        for (other, client) in &mut clients {
            match client.members().await {
                Err(failure) if failure.reason() == Some(Reason::NotBootstrapped) => without += 1,
                // Only a member of a cluster has members to keep to itself.
                Ok(_) => return Ok(found_cluster(other)),
                Err(failure) if failure.reason() == Some(Reason::Forbidden) => {
                    return Ok(found_cluster(other));
                }
                Err(failure) => silent.push(format!("{other}: {}", failure.sentence())),
            }
        }
        if without > all / 2 {
            tracing::info!(without, all, "founding a cluster: most of its nodes belong to none");
            return Ok(true);
        }
        if attempt % ATTEMPTS_PER_MESSAGE == 0 {
            let silent = silent.join("; ");
            tracing::warn!(without, all, %silent, "not founding a cluster yet");
            eprintln!(
                "credenza: {without} of {all} nodes say that they belong to no cluster; before \
                 most do, none is founded, since the others may have data ({silent})"
            );
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(Failure::new(Kind::Unavailable, "nobody told whether there is a cluster"))
}
