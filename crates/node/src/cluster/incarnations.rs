//! Incarnations of members on record: a directory that does not know the recorded incarnation is an
//! old copy. A node that the others refuse for that marks its directory, because its next
//! incarnation could have a number that nobody has seen.
//!
//! Promises: a node forgets only incarnations that can't be the recorded one any more.
//! Never: decides which of two nodes that started from the same incarnation is right: the first to
//! be admitted is.

use super::ClusterAgent;
use super::reconcile::log_error;
use base::{ClusterDescription, Error, IncarnationId, NodeId, Reason, Result};
use metadata::incarnations::IncarnationRecord;
use runtime::log_writer::store_error;
use store::DataDir;

/// Incarnation of this node, and the incarnations that it may descend from.
pub(crate) struct OwnIncarnations {
    /// Number of this incarnation.
    pub incarnation: u64,
    /// Incarnations that the cluster may have on record; includes this one if it has a token.
    pub known: Vec<IncarnationId>,
}

/// Begins an incarnation and draws its token before the node sends anything. Blocking. A full disk
/// does not prevent the start: the incarnation then has no token, and only its number identifies
/// it. Any other disk error does, because the log could not be trusted either.
pub(crate) fn begin(data: &DataDir, number: u64) -> Result<Vec<IncarnationId>> {
    let known = data.begin_incarnation(number).map_err(store_error)?;
    if known.iter().all(|incarnation_id| incarnation_id.number != number) {
        tracing::warn!(
            target: "node", number,
            "this incarnation has no token: the disk is full, or too many earlier incarnations are \
             unsettled"
        );
    }
    Ok(known)
}

/// Returns the running incarnation of each node, as far as this node is connected to it.
fn incarnations(agent: &ClusterAgent) -> Vec<(NodeId, IncarnationId)> {
    let or_without_token = |number: u64, incarnation_id: Option<IncarnationId>| {
        incarnation_id.unwrap_or(IncarnationId { number, token: 0 })
    };
    let OwnIncarnations { incarnation, known } = &agent.incarnations;
    let peers = agent.links.status();
    let mut incarnations: Vec<_> = peers
        .into_iter()
        .filter_map(|peer| {
            Some((peer.node, or_without_token(peer.connected?.0, peer.incarnation_id)))
        })
        .collect();
    let own = known.iter().copied().find(|incarnation_id| incarnation_id.number == *incarnation);
    incarnations.push((agent.links.node, or_without_token(*incarnation, own)));
    incarnations
}

/// Records the running incarnations in the directory. Runs at group 0's master.
pub(super) async fn record(agent: &ClusterAgent, cluster: &ClusterDescription) -> Result<()> {
    let is_sole_member = cluster.members.len() == 1;
    for (node, incarnation_id) in incarnations(agent) {
        let recorded = agent.directory.catalog.record(node);
        if recorded
            .is_some_and(|record| record.after_admission(incarnation_id, is_sole_member) != record)
        {
            agent.directory.record_incarnation(node, incarnation_id).await?;
        }
    }
    Ok(())
}

/// Progress of this node's own incarnation; each step happens once.
#[derive(Default)]
pub(super) struct OwnIncarnationState {
    has_forgotten_earlier: bool,
    is_refused: bool,
}

impl OwnIncarnationState {
    /// Removes incarnations that are over, and stops the node if it runs on an old copy.
    pub(super) async fn check(&mut self, agent: &ClusterAgent) {
        self.forget_earlier(agent).await;
        if self.is_refused {
            return;
        }
        let peers = agent.links.status();
        let Some(reason) = peers.into_iter().find_map(|peer| peer.old_copy_text) else { return };
        self.is_refused = true;
        let error = Error::new(Reason::StoreFailed, outdated_text(&reason));
        tracing::error!(target: "node", %error, "the node stops");
        // Before the node stops: the number of its next incarnation may be higher than any on
        // record, so that the old copy would not be detected again.
        let recorded = agent.data.write(move |data| data.mark_outdated(&reason)).await;
        log_error("an old copy", recorded);
        agent.lifecycle.fail(error);
    }

    /// Removes earlier incarnations once this one's number is on record: they can't be recorded any
    /// more.
    async fn forget_earlier(&mut self, agent: &ClusterAgent) {
        let OwnIncarnations { incarnation, known } = &agent.incarnations;
        let recorded = agent.directory.catalog.record(agent.links.node);
        let is_own = |record: &IncarnationRecord| record.number == *incarnation;
        let Some(record) = recorded.filter(is_own).filter(|_| !self.has_forgotten_earlier) else {
            return;
        };
        self.has_forgotten_earlier = true;
        let is_needed = |past: &&IncarnationId| {
            Some(**past) == record.incarnation_id || past.number == *incarnation
        };
        let retained: Vec<_> = known.iter().filter(is_needed).copied().collect();
        if retained.len() < known.len() {
            let written = agent.data.write(move |data| data.replace_incarnations(&retained)).await;
            log_error("the list of past incarnations", written);
        }
    }
}

/// Returns the error text of a node that does not start, or stops, on an old copy.
pub(crate) fn outdated_text(words: &str) -> String {
    format!(
        "this data directory is an old copy, and the cluster refuses it: restore the newest one, \
         or run `credenza cluster replace NAME` and start the node on an empty directory (reported \
         by other members: {words})"
    )
}
