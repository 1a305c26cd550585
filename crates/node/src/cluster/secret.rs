//! The cluster's secret on this node: written to disk before it is used. Group 0's master requires
//! it of all members once every member has it.
//!
//! ```text
//! question = 3 | 6
//! answer   = 32 bytes: MAC under the secret over the asked node's id
//! ```
//! Declined by a node that does not hold the secret on its disk.
//!
//! Promises: a node signs its greetings only with a secret that it holds after any crash.
//! Never: sends the secret itself.

use super::ClusterAgent;
use super::reconcile::log_error;
use crate::member_request::MemberRequest;
use base::{ClusterDescription, ClusterSecret, GroupId, NodeId, Result};
use bytes::Bytes;
use metadata::catalog::Catalog;
use metadata::secret::SecretRow;
use replica_host::OpenDataDir;
use runtime::log_writer::store_error;
use std::time::Duration;
use store::DataDir;
use tokio::task::JoinSet;
use transport::{Credential, IncomingCall, Peers};

/// First input of an answer's MAC; the second is the node's id.
const MAC_CONTEXT: &[u8] = b"held";
/// Timeout of an answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the credential of this node at its start: the secret in its file, or in the applied
/// rows. `None`: the cluster has no secret, or this node never received it. Blocking. Errors: the
/// file is damaged and no applied row has the secret, so unknown nodes would be admitted.
pub(crate) fn credential(data: &OpenDataDir, catalog: &Catalog) -> Result<Option<Credential>> {
    let data = data.get();
    let Some(data) = data.as_ref() else { return Ok(None) };
    let stored = data.secret().map_err(store_error);
    let stored =
        stored.map(|known| known.map(|(secret, is_required)| Credential { secret, is_required }));
    Ok(match (catalog.secret().map(credential_of), stored) {
        // The end of the log is applied only after other members are reached, so the rows may be
        // older.
        (Some(row), Ok(Some(file))) if file.is_newer_than(&row) => Some(file),
        (Some(row), Err(error)) => {
            tracing::warn!(target: "node", %error, "the file SECRET is ignored");
            Some(row)
        }
        (Some(row), Ok(_)) => Some(row),
        (None, file) => file?,
    })
}

/// Converts the directory's row into a credential.
fn credential_of(SecretRow { secret, is_required }: SecretRow) -> Credential {
    Credential { secret, is_required }
}

/// State of this node's copy of the secret.
#[derive(Default)]
pub(super) struct SecretState {
    stored: Option<Credential>,
}

impl SecretState {
    /// Stores the secret if it is new, and signs greetings with it from then on.
    pub(super) async fn check(&mut self, agent: &ClusterAgent) {
        let Some(peers) = agent.links.peers.get() else { return };
        let Some(row) = agent.directory.catalog.secret() else { return };
        let (current, row) = (peers.credential(), credential_of(row));
        if self.stored.as_ref() == Some(&row) {
            return;
        }
        if current.is_some_and(|current| current.is_newer_than(&row)) {
            // The file is newer than the applied rows: the newer row is applied later, or required
            // again.
            self.stored = Some(row);
            return;
        }
        let Credential { secret, is_required } = row.clone();
        let write = move |data: &DataDir| data.write_secret(&secret, is_required);
        let result = agent.data.write(write).await;
        if result.is_ok() {
            peers.set_credential(row.clone());
            if row.is_required {
                tracing::info!(target: "node", "peer connections now require the cluster secret");
            }
            self.stored = Some(row);
        }
        log_error("the cluster's secret", result);
    }

    /// Requires an offered secret once every member has stored it. Called at group 0's master.
    pub(super) async fn require(
        &self,
        agent: &ClusterAgent,
        cluster: &ClusterDescription,
    ) -> Result<()> {
        let Some(row) = self.stored.as_ref().filter(|row| !row.is_required) else {
            return Ok(());
        };
        let Some(peers) = agent.links.peers.get() else { return Ok(()) };
        // All members in parallel: an unresponsive one would delay this loop's other work.
        let mut requests = JoinSet::new();
        for member in cluster.members.iter().filter(|member| member.node != agent.links.node) {
            let (peers, secret) = (peers.clone(), row.secret.clone());
            let (node, name) = (member.node, member.name.clone());
            requests
                .spawn(async move { (!has_secret(&peers, node, &secret).await).then_some(name) });
        }
        let mut members_without_secret = Vec::new();
        while let Some(result) = requests.join_next().await {
            match result {
                Ok(name) => members_without_secret.extend(name),
                Err(_) => return Ok(()), // The node is stopping.
            }
        }
        members_without_secret.sort();
        let has_all = members_without_secret.is_empty();
        agent.directory.record_lacking(members_without_secret);
        if has_all {
            agent.directory.require_secret(cluster.changes).await?;
        }
        Ok(())
    }
}

/// Returns true if a member reports that it has stored this secret.
async fn has_secret(peers: &Peers, node: NodeId, secret: &ClusterSecret) -> bool {
    let request = MemberRequest::Secret.encode(&[]);
    let answer = peers.call(node, GroupId::DIRECTORY, request, TIMEOUT).await;
    let mac = answer.ok().and_then(|answer| <[u8; 32]>::try_from(&answer[..]).ok());
    mac.is_some_and(|mac| secret.verifies(&[MAC_CONTEXT, &node.0.to_le_bytes()], &mac))
}

/// Handles a request for the proof that this node has the secret.
pub(super) fn on_secret_request(own: NodeId, peers: &Peers, call: &IncomingCall) {
    let Some(Credential { secret, .. }) = peers.credential() else {
        peers.decline(call);
        return;
    };
    let mac = secret.mac(&[MAC_CONTEXT, &own.0.to_le_bytes()]);
    // Without a connection the caller's timeout reports the failure.
    let _ = peers.answer(call, Bytes::copy_from_slice(&mac));
}
