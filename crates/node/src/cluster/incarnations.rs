//! Incarnations of members on record: a directory that does not know the recorded incarnation is an
//! old copy. A node that the others refuse for that marks its directory, because its next
//! incarnation could have a number that nobody has seen.
//!
//! Promises: a node forgets only incarnations that can't be the recorded one any more.
//! Never: decides which of two nodes that started from the same incarnation is right: the first to
//! be admitted is.

use super::ClusterAgent;
use super::reconcile::quietly;
use base::{ClusterDescription, Error, IncarnationId, NodeId, Reason, Result};
use metadata::incarnations::IncarnationRecord;
use runtime::log_writer::store_error;
use store::DataDir;

/// Incarnation of this node, and those that it may descend from.
pub(crate) struct OwnIncarnations {
    /// Number of this incarnation.
    pub incarnation: u64,
    /// Incarnations that the cluster may have on record; includes this one if it has a token.
    pub known: Vec<IncarnationId>,
}

/// Begins an incarnation: draws its token before the node sends anything. Blocking. A full disk
/// keeps no node from starting: then this incarnation has no token, and its number alone identifies
/// it. Any other error of the disk does: its log could not be trusted either.
pub(crate) fn begin(data: &DataDir, number: u64) -> Result<Vec<IncarnationId>> {
    let known = data.begin_incarnation(number).map_err(store_error)?;
    if known.iter().all(|incarnation_id| incarnation_id.number != number) {
        tracing::warn!(
            target: "node", number,
            "this incarnation has no token: the disk is full, or too many before it are unsettled"
        );
    }
    Ok(known)
}

/// Returns the running incarnation of each node, as far as this node sees.
fn incarnations(agent: &ClusterAgent) -> Vec<(NodeId, IncarnationId)> {
    let told = |number: u64, incarnation_id: Option<IncarnationId>| {
        incarnation_id.unwrap_or(IncarnationId { number, token: 0 })
    };
    let OwnIncarnations { incarnation, known } = &agent.incarnations;
    let peers = agent.links.status();
    let mut incarnations: Vec<_> = peers
        .into_iter()
        .filter_map(|peer| Some((peer.node, told(peer.connected?.0, peer.incarnation_id))))
        .collect();
    let own = known.iter().copied().find(|incarnation_id| incarnation_id.number == *incarnation);
    incarnations.push((agent.links.node, told(*incarnation, own)));
    incarnations
}

/// Records the running incarnations in the directory. Runs at group 0's master.
pub(super) async fn record(agent: &ClusterAgent, known: &ClusterDescription) -> Result<()> {
    let alone = known.members.len() == 1;
    for (node, incarnation_id) in incarnations(agent) {
        let recorded = agent.directory.catalog.record(node);
        if recorded.is_some_and(|record| record.with(incarnation_id, alone) != record) {
            agent.directory.record_incarnation(node, incarnation_id).await?;
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
        // Before the node stops: its next incarnation may have a number that nobody knows as old.
        let noted = agent.data.write(move |data| data.note_outdated(&words)).await;
        quietly("an old copy", noted);
        agent.lifecycle.fail(error);
    }

    /// Forgets earlier incarnations once this one's number is on record: none of them can be
    /// recorded any more.
    async fn settle(&mut self, agent: &ClusterAgent) {
        let OwnIncarnations { incarnation, known } = &agent.incarnations;
        let recorded = agent.directory.catalog.record(agent.links.node);
        let present = |record: &IncarnationRecord| record.number == *incarnation;
        let Some(record) = recorded.filter(present).filter(|_| !self.settled) else { return };
        self.settled = true;
        let stays = |life: &&IncarnationId| {
            Some(**life) == record.incarnation_id || life.number == *incarnation
        };
        let kept: Vec<_> = known.iter().filter(stays).copied().collect();
        if kept.len() < known.len() {
            let written = agent.data.write(move |data| data.keep_incarnations(&kept)).await;
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
