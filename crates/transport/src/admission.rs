//! Admission of peers, pure: who may be one, by what a greeting says and by what is known of the
//! member that it names.

use super::handshake::{Hello, Speaker};
use super::incarnation::Incarnation;
use super::refusal::Refusal;
use super::versions::Versions;
use base::{Lived, NodeId};

/// A member's life may be ahead of the last one that is known by so many starts. Every start
/// counts one up, so no true node comes near; a forged number that is let in once would shut the
/// true node out for good.
const LIVES_AHEAD_MAX: u64 = 1 << 20;

/// Knowledge of a member's lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownLives {
    /// The highest incarnation seen, by this process or by the cluster.
    pub(super) incarnation: Incarnation,
    /// The newest life that was let in, by this process or as the cluster has it on record; none:
    /// none is known but by its number.
    pub(super) lived: Option<Lived>,
    /// The process that this process saw in it; none: none yet.
    pub(super) process: Option<u64>,
}

impl KnownLives {
    /// Checks that a node that says it lives this life, and tells these, is not an old copy.
    pub(super) fn follows(
        &self,
        (node, said): (NodeId, Incarnation),
        told: &[Lived],
    ) -> Result<(), Refusal> {
        let seen = self.incarnation;
        if said < seen {
            return Err(Refusal::Outdated { node, said, seen });
        }
        if said.0 - seen.0 > LIVES_AHEAD_MAX {
            return Err(Refusal::FarAhead { node, said, seen });
        }
        // A node that told lives once tells them always: one that tells none now is another, and
        // must not be judged by a number that anybody can say. A node whose first is a later one
        // has seen that on record, and let go of those before: we are behind.
        let first = told.iter().map(|lived| lived.number).min();
        let lacks = |lived: &Lived| first.is_none_or(|first| first <= lived.number);
        match self.lived.filter(|lived| lacks(lived) && !told.contains(lived)) {
            Some(lived) => Err(Refusal::Copied { node, said, lived: Incarnation(lived.number) }),
            None => Ok(()),
        }
    }

    /// Checks that this life of the node may be a peer.
    fn admits(&self, speaker: &Speaker) -> Result<(), Refusal> {
        let (node, said) = (speaker.node, speaker.incarnation);
        self.follows((node, said), &speaker.lives)?;
        match self.process {
            Some(process) if said == self.incarnation && process != speaker.process => {
                Err(Refusal::TwoProcesses(node))
            }
            _ => Ok(()),
        }
    }
}

/// Checks that the caller may be a peer of `me`; `known` is what is known of it, none if it is no
/// member. In this order, so that the first thing to mend is what is told.
pub(super) fn admit(me: &Speaker, hello: &Hello, known: Option<KnownLives>) -> Result<(), Refusal> {
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

/// Checks that the node that answered is the one that `me` looked for.
pub(super) fn accept(
    me: &Speaker,
    wanted: NodeId,
    version: u16,
    found: &Speaker,
    known: KnownLives,
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
