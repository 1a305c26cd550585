//! Configuration that a replica knows to be in force, and its own membership.
//!
//! Promises: configurations only rise; a dismissal ends with the configuration in which it was
//! received.
//! Never: decides that another begins; a decided stop-sign does (`stopsign.rs`).

use super::configuration::Configuration;
use super::effect::Effect;
use base::{LogIndex, Millis, NodeId};

/// Members of the group by the latest configuration of this replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Membership {
    pub configuration: Configuration,
    /// Index of the stop-sign with which it began; 0 for the first.
    pub base: LogIndex,
    /// True if the group goes on without this replica.
    pub removed: bool,
    /// Time from which `Straggling` may be sent again.
    pub straggling_due: Millis,
}

impl Membership {
    /// Builds the state of a current or future member of a configuration that began with the
    /// stop-sign at `base`.
    pub(super) fn new(configuration: Configuration, base: LogIndex) -> Membership {
        Membership { configuration, base, removed: false, straggling_due: Millis(0) }
    }

    /// Enters another configuration, which is now in force.
    pub(super) fn enter(&mut self, configuration: Configuration, base: LogIndex) {
        self.configuration = configuration;
        self.base = base;
        self.removed = false;
    }

    /// Handles the report of a member of the configuration in force that this node is not a member.
    pub(super) fn record_removal(&mut self, effects: &mut Vec<Effect>) {
        if !self.removed {
            self.removed = true;
            effects.push(Effect::Ended);
        }
    }

    /// Returns true if the configuration is the direct successor of the current one.
    pub(super) fn is_next(&self, configuration: &Configuration) -> bool {
        self.configuration.id().0.checked_add(1) == Some(configuration.id().0)
    }

    /// Returns true if `node` belongs to the current configuration.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.configuration.part(node).is_some()
    }

    /// Returns true if `node` is the only voter.
    pub(super) fn is_sole_voter(&self, node: NodeId) -> bool {
        self.configuration.voters().all(|voter| voter == node)
    }

    /// Returns all voters but `node`.
    pub(super) fn other_voters(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.configuration.voters().filter(move |voter| *voter != node)
    }
}
