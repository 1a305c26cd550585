//! Incarnations of members on record: a directory that does not know the recorded incarnation is an
//! old copy. A node that the others refuse for that marks its directory, because its next
//! incarnation could have a number that nobody has seen.
//!
//! Promises: a node forgets only incarnations that can't be the recorded one any more.
//! Never: decides which of two nodes that started from the same incarnation is right: the first to
//! be admitted is.

use super::ClusterAgent;
use super::reconcile::quietly;
use crate::metadata::incarnations::IncarnationRecord;
use base::{ClusterDescription, Error, Lived, NodeId, Reason, Result};
use runtime::log_writer::store_error;
use store::{DataDir, StoreError};

/// Incarnation of this node, and those that it may descend from.
pub(crate) struct OwnIncarnations {
    /// Number of this incarnation.
    pub incarnation: u64,
    /// Incarnations that the cluster may have on record; includes this one if it has a token.
    pub known: Vec<Lived>,
}

/// Begins an incarnation: draws its token before the node sends anything. Blocking. A full disk
/// keeps no node from starting: then this incarnation has no token, and its number alone identifies
/// it.
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

/// Returns the running incarnation of each node, as far as this node sees.
fn lives(agent: &ClusterAgent) -> Vec<(NodeId, Lived)> {
    let told = |number: u64, lived: Option<Lived>| lived.unwrap_or(Lived { number, token: 0 });
    let OwnIncarnations { incarnation, known } = &agent.lives;
    let peers = agent.links.status();
    let mut lives: Vec<_> = peers
        .into_iter()
        .filter_map(|peer| Some((peer.node, told(peer.connected?.0, peer.lived))))
        .collect();
    let own = known.iter().copied().find(|lived| lived.number == *incarnation);
    lives.push((agent.links.node, told(*incarnation, own)));
    lives
}

/// Records the running incarnations in the directory. Runs at group 0's master.
pub(super) async fn record(agent: &ClusterAgent, known: &ClusterDescription) -> Result<()> {
    let alone = known.members.len() == 1;
    for (node, lived) in lives(agent) {
        let recorded = agent.directory.catalog.record(node);
        if recorded.is_some_and(|record| record.with(lived, alone) != record) {
            agent.directory.record_life(node, lived).await?;
        }
    }
    Ok(())
}

/// State of this node's own incarnation; each step happens once.
#[derive(Default)]
pub(super) struct Own {
    settled: bool,
    refused: bool,
}

impl Own {
    /// Forgets incarnations that are over. Stops the node if it runs on an old copy.
    pub(super) async fn look(&mut self, agent: &ClusterAgent) {
        self.settle(agent).await;
        if self.refused {
            return;
        }
        let peers = agent.links.status();
        let Some(words) = peers.into_iter().find_map(|peer| peer.outdates) else { return };
        self.refused = true;
        let error = Error::new(Reason::StoreFailed, outdated(&words));
        tracing::error!(target: "node", %error, "the node stops");
        let noted = agent.data.write(move |data| data.note_outdated(&words)).await;
        quietly("an old copy", noted);
        agent.lifecycle.fail(error);
    }

    /// Forgets earlier incarnations once this one's number is on record: none of them can be
    /// recorded any more.
    async fn settle(&mut self, agent: &ClusterAgent) {
        let OwnIncarnations { incarnation, known } = &agent.lives;
        let recorded = agent.directory.catalog.record(agent.links.node);
        let present = |record: &IncarnationRecord| record.number == *incarnation;
        let Some(record) = recorded.filter(present).filter(|_| !self.settled) else { return };
        self.settled = true;
        let stays = |life: &&Lived| Some(**life) == record.lived || life.number == *incarnation;
        let kept: Vec<_> = known.iter().filter(stays).copied().collect();
        if kept.len() < known.len() {
            let written = agent.data.write(move |data| data.keep_lives(&kept)).await;
            quietly("lives that are over", written);
        }
    }
}

/// Returns the error text of a node that does not start, or stops, on an old copy.
pub(crate) fn outdated(words: &str) -> String {
    format!(
        "this data directory is an old copy, and the cluster lets it in no more: put the newest \
         one back, or take its place with `credenza cluster replace NAME` and start the node on an \
         empty directory (the others said: {words})"
    )
}
