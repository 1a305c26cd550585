//! This node's copy of the cluster's secret: written down before it is used, and, at group 0's
//! master, required of all once every member has it.
//!
//! ```text
//! question = 3 | 6
//! answer   = 32 bytes: MAC under the secret over the asked node's id
//! ```
//! Declined by a node that has not written the secret down.
//!
//! Promises: a node signs its greetings only with a secret that it holds after any crash.
//! Never: sends the secret itself.

use super::lives::write;
use super::tend::quietly;
use super::told::ABOUT_MEMBERS;
use crate::Inner;
use crate::directory::secret::SecretRow;
use crate::keeper::store_error;
use crate::peers::{Asked, Credential, Peers};
use crate::recovery::DIRECTORY;
use base::{ClusterDescription, ClusterSecret, NodeId, Result};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use store::DataDir;

/// What follows [`ABOUT_MEMBERS`] in a question whether a node has written the secret down.
pub(super) const ABOUT_SECRET: u8 = 6;
/// What an answer's MAC covers, with the node's id.
const HELD: &[u8] = b"held";
/// So long an answer is waited for.
const WITHIN: Duration = Duration::from_secs(1);

/// Returns what this node greets with when it starts: what its file says, or the applied rows;
/// none: the cluster has no secret, or it was never here. Blocking.
pub(crate) fn credential(inner: &Inner) -> Option<Credential> {
    let data = inner.data.lock().expect("no one panics while holding it");
    let of_file = match data.as_ref()?.secret().map_err(store_error) {
        Ok(known) => known.map(|(secret, is_required)| Credential { secret, is_required }),
        Err(error) => {
            tracing::warn!(target: "node", %error, "the file is left aside");
            None
        }
    };
    let of_row = inner.catalog.secret().map(Credential::from);
    match (of_row, of_file) {
        // The end of the log is applied only when the others are heard, so the rows may be older.
        (Some(row), Some(file)) if file.is_newer_than(&row) => Some(file),
        (Some(row), _) => Some(row),
        (None, file) => file,
    }
}

impl From<SecretRow> for Credential {
    fn from(SecretRow { secret, is_required }: SecretRow) -> Credential {
        Credential { secret, is_required }
    }
}

impl Credential {
    /// Whether it is the same secret, required by now.
    fn is_newer_than(&self, other: &Credential) -> bool {
        self.secret == other.secret && self.is_required && !other.is_required
    }
}

/// What was done with the secret so far.
#[derive(Default)]
pub(super) struct Secrets {
    written: Option<Credential>,
}

impl Secrets {
    /// Writes the secret down where it is new, and greets with it from then on.
    pub(super) async fn look(&mut self, inner: &Arc<Inner>) {
        let Some(peers) = inner.peers.get() else { return };
        let Some(row) = inner.catalog.secret() else { return };
        let (known, row) = (peers.credential(), Credential::from(row));
        let is_older = known.is_some_and(|known| known.is_newer_than(&row));
        if is_older || self.written.as_ref() == Some(&row) {
            return;
        }
        let Credential { secret, is_required } = row.clone();
        let written = write(inner, move |data: &DataDir| data.write_secret(&secret, is_required));
        let written = written.await;
        if written.is_ok() {
            peers.set_credential(row.clone());
            self.written = Some(row);
        }
        quietly("the cluster's secret", written);
    }

    /// What group 0's master does: requires an offered secret once every member has it.
    pub(super) async fn require(&self, inner: &Inner, known: &ClusterDescription) -> Result<()> {
        let Some(row) = self.written.as_ref().filter(|row| !row.is_required) else {
            return Ok(());
        };
        let mut lacking = Vec::new();
        for member in known.members.iter().filter(|member| member.node != inner.node) {
            if !holds(inner, member.node, &row.secret).await {
                lacking.push(member.name.clone());
            }
        }
        let has_all = lacking.is_empty();
        inner.directory.note_lacking(lacking);
        if has_all {
            inner.directory.require_secret().await?;
            tracing::info!(target: "node", "greetings between nodes must be signed from now on");
        }
        Ok(())
    }
}

/// Whether a member says that it has written this secret down.
async fn holds(inner: &Inner, node: NodeId, secret: &ClusterSecret) -> bool {
    let Some(peers) = inner.peers.get() else { return false };
    let question = Bytes::from_static(&[ABOUT_MEMBERS, ABOUT_SECRET]);
    let answer = peers.ask(node, DIRECTORY, question, WITHIN).await;
    let mac = answer.ok().and_then(|answer| <[u8; 32]>::try_from(&answer[..]).ok());
    mac.is_some_and(|mac| secret.verifies(&[HELD, &node.0.to_le_bytes()], &mac))
}

/// Answers such a question.
pub(super) fn tell(inner: &Inner, peers: &Peers, asked: &Asked) {
    let Some(Credential { secret, .. }) = peers.credential() else {
        peers.decline(asked);
        return;
    };
    let mac = secret.mac(&[HELD, &inner.node.0.to_le_bytes()]);
    // Without a link the one who asked is told so by its own side.
    let _ = peers.answer(asked, Bytes::copy_from_slice(&mac));
}
