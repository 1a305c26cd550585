//! Admission of peers, pure: decides by a greeting, and by what is known of the member that it
//! names, whether its sender may be a peer.

use super::handshake::{Hello, Speaker};
use super::incarnation::Incarnation;
use super::refusal::Refusal;
use super::versions::Versions;
use base::{IncarnationId, NodeId};

/// Number of starts by which a member's incarnation may be ahead of the last known one. Every start
/// adds one, so no genuine node comes near. A forged number that is accepted once would exclude the
/// genuine node for good.
const LIVES_AHEAD_MAX: u64 = 1 << 20;

/// Known incarnations of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownIncarnations {
    /// Highest incarnation seen, by this process or by the cluster.
    pub(super) incarnation: Incarnation,
    /// Newest incarnation with its token that this process accepted or the cluster has on record.
    /// `None`: only numbers are known.
    pub(super) incarnation_id: Option<IncarnationId>,
    /// Random id of the process that this process saw in it. `None`: none yet.
    pub(super) process: Option<u64>,
}

impl KnownIncarnations {
    /// Checks that a node that claims incarnation `said`, and lists the incarnations `told`, does
    /// not run on an old copy of its directory.
    pub(super) fn follows(
        &self,
        (node, said): (NodeId, Incarnation),
        told: &[IncarnationId],
    ) -> Result<(), Refusal> {
        let seen = self.incarnation;
        if said < seen {
            return Err(Refusal::Outdated { node, said, seen });
        }
        if said.0 - seen.0 > LIVES_AHEAD_MAX {
            return Err(Refusal::FarAhead { node, said, seen });
        }
        // A node that listed incarnations once always lists them: one that lists none now is
        // another, and a number that anybody can claim must not decide. A node whose first listed
        // incarnation is a later one has seen that on record, and dropped those before: we are
        // behind.
        let first = told.iter().map(|incarnation_id| incarnation_id.number).min();
        let lacks = |incarnation_id: &IncarnationId| {
            first.is_none_or(|first| first <= incarnation_id.number)
        };
        match self
            .incarnation_id
            .filter(|incarnation_id| lacks(incarnation_id) && !told.contains(incarnation_id))
        {
            Some(incarnation_id) => Err(Refusal::Copied {
                node,
                said,
                incarnation_id: Incarnation(incarnation_id.number),
            }),
            None => Ok(()),
        }
    }

    /// Checks that this incarnation of the node may be a peer.
    fn admits(&self, speaker: &Speaker) -> Result<(), Refusal> {
        let (node, said) = (speaker.node, speaker.incarnation);
        self.follows((node, said), &speaker.incarnations)?;
        match self.process {
            Some(process) if said == self.incarnation && process != speaker.process => {
                Err(Refusal::TwoProcesses(node))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that the caller may be a peer of `me`; `known` is what is known of it, `None` if it is
/// not a member. The order of the checks makes the error name the first thing to fix.
pub(super) fn admit(
    me: &Speaker,
    hello: &Hello,
    known: Option<KnownIncarnations>,
) -> Result<(), Refusal> {
    let caller = &hello.speaker;
    if caller.cluster != me.cluster {
        return Err(Refusal::ForeignCluster { ours: me.cluster, theirs: caller.cluster });
    }
    if caller.node == me.node {
        return Err(match caller.process == me.process {
            true => Refusal::Oneself,
            false => Refusal::TwoProcesses(me.node),
        });
    }
    if hello.wanted != me.node {
        return Err(Refusal::OtherNode { wanted: hello.wanted, found: me.node });
    }
    known.ok_or(Refusal::NotAMember(caller.node))?.admits(caller)
}

/// Checks that the node that answered is the one that `me` dialled.
pub(super) fn accept(
    me: &Speaker,
    wanted: NodeId,
    version: u16,
    found: &Speaker,
    known: KnownIncarnations,
    ours: Versions,
) -> Result<(), Refusal> {
    if ours.common(Versions { lowest: version, highest: version }).is_none() {
        return Err(Refusal::versions(ours, Versions { lowest: version, highest: version }));
    }
    if found.cluster != me.cluster {
        return Err(Refusal::ForeignCluster { ours: me.cluster, theirs: found.cluster });
    }
    if found.node != wanted {
        return Err(Refusal::OtherNode { wanted, found: found.node });
    }
    known.admits(found)
}
