//! Incarnations of members on record: a directory that does not know the recorded incarnation is an
//! old copy. One that the others refuse for that says so itself from then on, for its next
//! incarnation could have a number that nobody has seen.
//!
//! Promises: a node lets go only of lives that can't be the one on record any more.
//! Never: tells who is right of two that began from the same life: the first to be let in is.

use super::ClusterAgent;
use super::reconcile::quietly;
use crate::metadata::incarnations::IncarnationRecord;
use base::{ClusterDescription, Error, Lived, NodeId, Reason, Result};
use runtime::log_writer::store_error;
use store::{DataDir, StoreError};

/// This life of the node, and those that it may come from.
pub(crate) struct OwnIncarnations {
    /// The number of this one.
    pub incarnation: u64,
    /// Those that the cluster may have on record; with this one, if it has a token.
    pub known: Vec<Lived>,
}

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

/// What group 0's master does: writes down who lives which life.
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

/// What is done for this node's own life; once each is enough.
#[derive(Default)]
pub(super) struct Own {
    settled: bool,
    refused: bool,
}

impl Own {
    /// Lets go of lives that are over; ends the node if it runs on an old copy.
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

    /// Once its number is on record, no life before it goes there any more.
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

/// Why a node on an old copy does not start, or go on.
pub(crate) fn outdated(words: &str) -> String {
    format!(
        "this data directory is an old copy, and the cluster lets it in no more: put the newest \
         one back, or take its place with `credenza cluster replace NAME` and start the node on an \
         empty directory (the others said: {words})"
    )
}
