//! The configuration that a replica knows to be in force, and its place in it.
//!
//! Promises: configurations only rise; a dismissal ends with the configuration it was told in.
//! Never: decides that another begins; that is a decided stop-sign (`stopsign.rs`).

use super::configuration::Configuration;
use super::effect::Effect;
use base::{LogIndex, Millis, NodeId};

/// Members of the group, as this replica knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Membership {
    pub configuration: Configuration,
    /// The index of the stop-sign it began with; 0 for the first.
    pub base: LogIndex,
    /// The group goes on without this replica.
    pub dismissed: bool,
    /// `Straggling` is not said again before.
    pub straggles_from: Millis,
}

impl Membership {
    /// A member, or a newcomer, of a configuration that began with the stop-sign at `base`.
    pub(super) fn new(configuration: Configuration, base: LogIndex) -> Membership {
        Membership { configuration, base, dismissed: false, straggles_from: Millis(0) }
    }

    /// Another configuration is in force.
    pub(super) fn enter(&mut self, configuration: Configuration, base: LogIndex) {
        self.configuration = configuration;
        self.base = base;
        self.dismissed = false;
    }

    /// A member of the configuration in force says that `node` is none.
    pub(super) fn dismiss(&mut self, effects: &mut Vec<Effect>) {
        if !self.dismissed {
            self.dismissed = true;
            effects.push(Effect::Ended);
        }
    }

    /// True if a configuration is the one after the present one.
    pub(super) fn is_next(&self, configuration: &Configuration) -> bool {
        self.configuration.id().0.checked_add(1) == Some(configuration.id().0)
    }

    /// True if `node` belongs to the present configuration.
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.configuration.part(node).is_some()
    }

    /// True if `node` is the only voter.
    pub(super) fn is_sole_voter(&self, node: NodeId) -> bool {
        self.configuration.voters().all(|voter| voter == node)
    }

    /// All voters but `node`.
    pub(super) fn voters_beside(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.configuration.voters().filter(move |voter| *voter != node)
    }
}
