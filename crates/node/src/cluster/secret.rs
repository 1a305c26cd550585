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
use super::question::MemberQuestion;
use super::reconcile::quietly;
use crate::data_dir::OpenDataDir;
use base::{ClusterDescription, ClusterSecret, GroupId, NodeId, Result};
use bytes::Bytes;
use metadata::catalog::Catalog;
use metadata::secret::SecretRow;
use runtime::log_writer::store_error;
use std::time::Duration;
use store::DataDir;
use tokio::task::JoinSet;
use transport::{Credential, IncomingCall, Peers};

/// First part that an answer's MAC covers; the second is the node's id.
const HELD: &[u8] = b"held";
/// Longest wait for an answer.
const WITHIN: Duration = Duration::from_secs(1);

/// Returns the credential of this node at its start: the secret in its file, or in the applied
/// rows. `None`: the cluster has no secret, or it never was here. Blocking. Errors: the file is
/// damaged, and no applied row has the secret: without it this node would admit strangers.
pub(crate) fn credential(data: &OpenDataDir, catalog: &Catalog) -> Result<Option<Credential>> {
    let data = data.get();
    let Some(data) = data.as_ref() else { return Ok(None) };
    let of_file = data.secret().map_err(store_error);
    let of_file =
        of_file.map(|known| known.map(|(secret, is_required)| Credential { secret, is_required }));
    Ok(match (catalog.secret().map(credential_of), of_file) {
        // The end of the log is applied only once the others are reached, so the rows may be older.
        (Some(row), Ok(Some(file))) if file.is_newer_than(&row) => Some(file),
        (Some(row), Err(error)) => {
            tracing::warn!(target: "node", %error, "the file is left aside");
            Some(row)
        }
        (Some(row), Ok(_)) => Some(row),
        (None, file) => file?,
    })
}

/// Returns the credential that the directory's row holds.
fn credential_of(SecretRow { secret, is_required }: SecretRow) -> Credential {
    Credential { secret, is_required }
}

/// State of this node's copy of the secret.
#[derive(Default)]
pub(super) struct Secrets {
    written: Option<Credential>,
}

impl Secrets {
    /// Stores the secret if it is new, and signs greetings with it from then on.
    pub(super) async fn look(&mut self, agent: &ClusterAgent) {
        let Some(peers) = agent.links.peers.get() else { return };
        let Some(row) = agent.directory.catalog.secret() else { return };
        let (known, row) = (peers.credential(), credential_of(row));
        if self.written.as_ref() == Some(&row) {
            return;
        }
        if known.is_some_and(|known| known.is_newer_than(&row)) {
            // The file is ahead of the applied rows: they come later, or it is required again.
            self.written = Some(row);
            return;
        }
        let Credential { secret, is_required } = row.clone();
        let writing = move |data: &DataDir| data.write_secret(&secret, is_required);
        let written = agent.data.write(writing).await;
        if written.is_ok() {
            peers.set_credential(row.clone());
            if row.is_required {
                tracing::info!(target: "node", "greetings between nodes must be signed");
            }
            self.written = Some(row);
        }
        quietly("the cluster's secret", written);
    }

    /// Requires an offered secret once every member has it: a duty of group 0's master.
    pub(super) async fn require(
        &self,
        agent: &ClusterAgent,
        known: &ClusterDescription,
    ) -> Result<()> {
        let Some(row) = self.written.as_ref().filter(|row| !row.is_required) else {
            return Ok(());
        };
        let Some(peers) = agent.links.peers.get() else { return Ok(()) };
        // All at once: this loop has other duties, and one that is silent takes its time.
        let mut asking = JoinSet::new();
        for member in known.members.iter().filter(|member| member.node != agent.links.node) {
            let (peers, secret) = (peers.clone(), row.secret.clone());
            let (node, name) = (member.node, member.name.clone());
            asking.spawn(async move { (!holds(&peers, node, &secret).await).then_some(name) });
        }
        let mut lacking = Vec::new();
        while let Some(asked) = asking.join_next().await {
            match asked {
                Ok(name) => lacking.extend(name),
                Err(_) => return Ok(()), // The node is stopping.
            }
        }
        lacking.sort();
        let has_all = lacking.is_empty();
        agent.directory.note_lacking(lacking);
        if has_all {
            agent.directory.require_secret(known.changes).await?;
        }
        Ok(())
    }
}

/// Returns true if a member reports that it has stored this secret.
async fn holds(peers: &Peers, node: NodeId, secret: &ClusterSecret) -> bool {
    let question = MemberQuestion::Secret.call(&[]);
    let answer = peers.ask(node, GroupId::DIRECTORY, question, WITHIN).await;
    let mac = answer.ok().and_then(|answer| <[u8; 32]>::try_from(&answer[..]).ok());
    mac.is_some_and(|mac| secret.verifies(&[HELD, &node.0.to_le_bytes()], &mac))
}

/// Answers such a question.
pub(super) fn tell(own: NodeId, peers: &Peers, asked: &IncomingCall) {
    let Some(Credential { secret, .. }) = peers.credential() else {
        peers.decline(asked);
        return;
    };
    let mac = secret.mac(&[HELD, &own.0.to_le_bytes()]);
    // Without a link the asking node learns of the failure by itself.
    let _ = peers.answer(asked, Bytes::copy_from_slice(&mac));
}
