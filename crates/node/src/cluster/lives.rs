//! Which life each member lives: the cluster has it on record, and a directory that does not know
//! the recorded one is an old copy. One that the others refuse for that says so itself from then
//! on, for its next life could have a number that nobody has seen.
//!
//! Promises: a node lets go only of lives that can't be the one on record any more.
//! Never: tells who is right of two that began from the same life: the first to be let in is.

use super::tend::quietly;
use crate::Inner;
use crate::metadata::lives::LifeRecord;
use base::{ClusterDescription, Error, Lived, NodeId, Reason, Result};
use runtime::keeper::store_error;
use std::sync::Arc;
use store::{DataDir, StoreError};

/// Begins a life: draws what tells it from all others, before it speaks to anyone. Blocking. A full
/// disk keeps no node from starting: then this life is known by its number alone.
pub(crate) fn begin(data: &DataDir, number: u64) -> Result<Vec<Lived>> {
    let begun = match data.begin_lived(number) {
        Err(StoreError::Io { what, source }) => {
            tracing::warn!(target: "store", "{what}: {source}: this life gets no token");
            data.lives()
        }
        begun => begun,
    };
    begun.map_err(store_error)
}

/// The lives that are lived now, as far as this node sees.
fn lives(inner: &Inner) -> Vec<(NodeId, Lived)> {
    let told = |number: u64, lived: Option<Lived>| lived.unwrap_or(Lived { number, token: 0 });
    let peers = inner.peers.get().map(|peers| peers.status()).unwrap_or_default();
    let mut lives: Vec<_> = peers
        .into_iter()
        .filter_map(|peer| Some((peer.node, told(peer.connected?.0, peer.lived))))
        .collect();
    let own = inner.lives.iter().copied().find(|lived| lived.number == inner.incarnation);
    lives.push((inner.node, told(inner.incarnation, own)));
    lives
}

/// What group 0's master does: writes down who lives which life.
pub(super) async fn record(inner: &Inner, known: &ClusterDescription) -> Result<()> {
    let alone = known.members.len() == 1;
    for (node, lived) in lives(inner) {
        let recorded = inner.catalog.record(node);
        if recorded.is_some_and(|record| record.with(lived, alone) != record) {
            inner.directory.record_life(node, lived).await?;
        }
    }
    Ok(())
}

/// What is done for this node's own life; once each is enough.
#[derive(Default)]
pub(super) struct Own {
    settled: bool,
    refused: bool,
}

impl Own {
    /// Lets go of lives that are over; ends the node if it runs on an old copy.
    pub(super) async fn look(&mut self, inner: &Arc<Inner>) {
        self.settle(inner).await;
        if self.refused {
            return;
        }
        let peers = inner.peers.get().map(|peers| peers.status()).unwrap_or_default();
        let Some(words) = peers.into_iter().find_map(|peer| peer.outdates) else { return };
        self.refused = true;
        let error = Error::new(Reason::StoreFailed, outdated(&words));
        tracing::error!(target: "node", %error, "the node stops");
        quietly("an old copy", write(inner, move |data| data.note_outdated(&words)).await);
        inner.fail(error);
    }

    /// Once its number is on record, no life before it goes there any more.
    async fn settle(&mut self, inner: &Arc<Inner>) {
        let recorded = inner.catalog.record(inner.node);
        let present = |record: &LifeRecord| record.number == inner.incarnation;
        let Some(record) = recorded.filter(present).filter(|_| !self.settled) else { return };
        self.settled = true;
        let stays =
            |life: &&Lived| Some(**life) == record.lived || life.number == inner.incarnation;
        let kept: Vec<_> = inner.lives.iter().filter(stays).copied().collect();
        if kept.len() < inner.lives.len() {
            let written = write(inner, move |data| data.keep_lives(&kept)).await;
            quietly("lives that are over", written);
        }
    }
}

/// Writes a small file of the data directory, off the threads that answer.
pub(super) async fn write(
    inner: &Arc<Inner>,
    what: impl FnOnce(&DataDir) -> std::result::Result<(), StoreError> + Send + 'static,
) -> Result<()> {
    let owner = inner.clone();
    let writing = move || match &*owner.data.lock().expect("no one panics while holding it") {
        Some(data) => what(data).map_err(store_error),
        None => Ok(()), // The node is stopping.
    };
    let written = tokio::task::spawn_blocking(writing).await;
    written.unwrap_or_else(|_| Err(Error::new(Reason::StoreFailed, "writing ended abnormally")))
}

/// Why a node on an old copy does not start, or go on.
pub(crate) fn outdated(words: &str) -> String {
    format!(
        "this data directory is an old copy, and the cluster lets it in no more: put the newest \
         one back, or take its place with `credenza cluster replace NAME` and start the node on an \
         empty directory (the others said: {words})"
    )
}
