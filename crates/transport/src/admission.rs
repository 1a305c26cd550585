//! Admission of peers, pure: decides from a greeting and the known incarnations of the named member
//! whether its sender may be a peer.

use super::handshake::{Hello, PeerIdentity};
use super::incarnation::Incarnation;
use super::refusal::Refusal;
use super::versions::Versions;
use base::{IncarnationId, NodeId};

/// Number of starts by which a member's incarnation may be ahead of the last known one. Every start
/// adds one, so no genuine node comes near this bound. A forged number that was accepted once would
/// exclude the genuine node for good.
const STARTS_AHEAD_MAX: u64 = 1 << 20;

/// Known incarnations of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownIncarnations {
    /// Highest incarnation seen, by this process or by the cluster.
    pub(super) incarnation: Incarnation,
    /// Newest incarnation with its token that this process accepted or the cluster has on record.
    /// `None`: only numbers are known.
    pub(super) incarnation_id: Option<IncarnationId>,
    /// Random id of the peer's process in that incarnation. `None`: not seen yet.
    pub(super) process: Option<u64>,
}

impl KnownIncarnations {
    /// Checks that a node that claims incarnation `said`, and lists the incarnations `listed`, does
    /// not run on an old copy of its directory.
    pub(super) fn check_descent(
        &self,
        (node, claimed): (NodeId, Incarnation),
        listed: &[IncarnationId],
    ) -> Result<(), Refusal> {
        let highest_seen = self.incarnation;
        if claimed < highest_seen {
            return Err(Refusal::Outdated { node, claimed, highest_seen });
        }
        if claimed.0 - highest_seen.0 > STARTS_AHEAD_MAX {
            return Err(Refusal::FarAhead { node, claimed, highest_seen });
        }
        // A node that listed incarnations once always lists them: one that lists none is another
        // node, and its number alone proves nothing. A node whose first listed incarnation is a
        // later one has seen that one recorded, and dropped those before: this node's knowledge is
        // older.
        let first = listed.iter().map(|incarnation_id| incarnation_id.number).min();
        let must_list = |incarnation_id: &IncarnationId| {
            first.is_none_or(|first| first <= incarnation_id.number)
        };
        match self
            .incarnation_id
            .filter(|incarnation_id| must_list(incarnation_id) && !listed.contains(incarnation_id))
        {
            Some(incarnation_id) => Err(Refusal::OldCopy {
                node,
                claimed,
                incarnation_id: Incarnation(incarnation_id.number),
            }),
            None => Ok(()),
        }
    }

    /// Checks that this incarnation of the node may be a peer.
    fn check_identity(&self, identity: &PeerIdentity) -> Result<(), Refusal> {
        let (node, said) = (identity.node, identity.incarnation);
        self.check_descent((node, said), &identity.incarnations)?;
        match self.process {
            Some(process) if said == self.incarnation && process != identity.process => {
                Err(Refusal::TwoProcesses(node))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that the caller may be a peer of `local`. `known`: its known incarnations, `None` if it
/// is not a member. The order of the checks makes the error name the first thing to fix.
pub(super) fn admit(
    local: &PeerIdentity,
    hello: &Hello,
    known: Option<KnownIncarnations>,
) -> Result<(), Refusal> {
    let caller = &hello.identity;
    if caller.cluster != local.cluster {
        return Err(Refusal::ForeignCluster { local: local.cluster, remote: caller.cluster });
    }
    if caller.node == local.node {
        return Err(match caller.process == local.process {
            true => Refusal::SelfConnection,
            false => Refusal::TwoProcesses(local.node),
        });
    }
    if hello.target != local.node {
        return Err(Refusal::OtherNode { target: hello.target, found: local.node });
    }
    known.ok_or(Refusal::NotAMember(caller.node))?.check_identity(caller)
}

/// Checks that the node that answered is the one that `local` dialled.
pub(super) fn accept(
    local: &PeerIdentity,
    target: NodeId,
    version: u16,
    found: &PeerIdentity,
    known: KnownIncarnations,
    supported: Versions,
) -> Result<(), Refusal> {
    if supported.common(Versions { lowest: version, highest: version }).is_none() {
        return Err(Refusal::versions(supported, Versions { lowest: version, highest: version }));
    }
    if found.cluster != local.cluster {
        return Err(Refusal::ForeignCluster { local: local.cluster, remote: found.cluster });
    }
    if found.node != target {
        return Err(Refusal::OtherNode { target, found: found.node });
    }
    known.check_identity(found)
}
