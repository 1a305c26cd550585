//! Feature level of a member: it marks its data directory when group 0's master asks, and follows
//! the level in force; group 0's master records which levels the members' programs know.
//!
//! ```text
//! question = 3 | 7 | level u32
//! answer   = 1: the directory is marked
//! ```
//! Only group 0's master is answered.

use super::reconcile::log_error;
use super::{ClusterAgent, MemberCalls};
use crate::levels::MARKED;
use base::codec::{Malformed, Reader};
use base::{ClusterDescription, FeatureLevel, GroupId, NodeId, Result};
use bytes::Bytes;
use transport::{IncomingCall, Peers};

/// State of this node's copy of the level in force.
#[derive(Default)]
pub(super) struct LevelState {
    /// Level with which the data directory is known to be marked.
    marked: FeatureLevel,
}

impl LevelState {
    /// Marks the data directory with the level in force, and refuses connections of programs that
    /// do not know it. A member is marked before the level rises; a node that joined meanwhile, or
    /// whose directory comes from an earlier checkpoint, is marked here.
    pub(super) async fn check(&mut self, agent: &ClusterAgent, cluster: &ClusterDescription) {
        if let Some(peers) = agent.links.peers.get() {
            peers.require_version(cluster.level.0);
        }
        if cluster.level <= self.marked {
            return;
        }
        let marked = agent.levels.mark(cluster.level).await;
        if marked.is_ok() {
            self.marked = cluster.level;
            tracing::info!(target: "node", level = cluster.level.0, "the feature level in force");
        }
        log_error("the mark of the data directory", marked);
    }
}

/// Records the levels that the programs of connected members know, and this one. Runs at group 0's
/// master.
pub(super) async fn record(agent: &ClusterAgent, cluster: &ClusterDescription) -> Result<()> {
    let peers = agent.links.peers.get();
    let level_of = |node: NodeId| match node == agent.links.node {
        true => Some(FeatureLevel::HIGHEST),
        false => peers.and_then(|peers| peers.version(node)).map(FeatureLevel),
    };
    let members = cluster.members.iter();
    let met: Vec<_> =
        members.filter_map(|member| Some((member.node, level_of(member.node)?))).collect();
    let row = agent.directory.catalog.levels();
    if row.after_meeting(cluster, &met) != row {
        agent.directory.record_levels(&met).await?;
    }
    Ok(())
}

/// Handles the request of group 0's master to mark this node's data directory.
pub(super) fn on_level_request(
    calls: &MemberCalls,
    peers: &Peers,
    call: IncomingCall,
    payload: &[u8],
) {
    let directory = calls.groups.get(GroupId::DIRECTORY);
    let master = directory.and_then(|group| group.leadership.subscribe().borrow().master);
    let level = read_level(payload).ok().filter(|level| *level <= FeatureLevel::HIGHEST);
    let Some(level) = level.filter(|_| master == Some(call.from)) else {
        peers.decline(&call);
        return;
    };
    let (levels, peers) = (calls.levels.clone(), peers.clone());
    calls.lifecycle.tasks.requests.spawn_short(async move {
        match levels.mark(level).await {
            // Without a connection the caller's timeout reports the failure.
            Ok(()) => drop(peers.answer(&call, Bytes::from_static(&[MARKED]))),
            Err(error) => {
                tracing::warn!(
                    target: "node", %error, "the data directory can't be marked with its level"
                );
                peers.decline(&call);
            }
        }
    });
}

fn read_level(payload: &[u8]) -> std::result::Result<FeatureLevel, Malformed> {
    let mut reader = Reader::new(payload);
    let level = reader.u32("feature level")?;
    reader.end("feature level")?;
    u16::try_from(level).map(FeatureLevel).map_err(|_| Malformed("feature level"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn level_in_a_request_of_wrong_length_or_size_is_refused() {
        assert_eq!(read_level(&[2, 0, 0, 0]), Ok(FeatureLevel(2)));
        for bad in [&[][..], &[2, 0, 0], &[2, 0, 0, 0, 0], &[0, 0, 1, 0]] {
            assert!(read_level(bad).is_err(), "{bad:?}");
        }
    }
}
