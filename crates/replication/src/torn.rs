//! Consequences of torn logs, in words for operators.

use super::group::Group;
use super::state::GroupState;
use base::{LogIndex, NodeId};
use runtime::metrics::Metrics;

impl Group {
    /// Reports that this replica is to lead although torn logs may have held more entries.
    pub(super) fn may_lack(&self, state: &mut GroupState, behind: LogIndex) {
        state.mastership.may_lack = Some(behind);
        Metrics::count(&self.shared.metrics.may_lack);
        tracing::error!(target: "consensus", group = self.id.0, "{}", lacks(self, behind));
    }

    /// Describes, for operators, the consequences of torn logs in a sentence. `None`: there are
    /// none.
    pub fn told_of_tears(
        &self,
        state: &GroupState,
        name_of: impl Fn(NodeId) -> String,
    ) -> Option<String> {
        let lacks = || state.mastership.may_lack.map(|behind| lacks(self, behind));
        self.awaits_logs(state, name_of).or_else(lacks)
    }

    /// Describes the members for whose logs an election waits, in a sentence. `None`: it waits for
    /// none.
    pub fn awaits_logs(
        &self,
        state: &GroupState,
        name_of: impl Fn(NodeId) -> String,
    ) -> Option<String> {
        let awaited = state.replica.awaited_logs();
        let names: Vec<_> = awaited.iter().map(|node| name_of(*node)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "group {} has no master: a log was torn and may have held acknowledged values, \
                 which only {} can tell: start them, or see `credenza cluster trust-log`",
                self.id,
                names.join(", ")
            )
        })
    }
}

fn lacks(group: &Group, behind: LogIndex) -> String {
    format!(
        "group {} went on with the longest log that was left: so many were torn that values behind \
         index {behind} may have been acknowledged and be lost; compare what you know of the last \
         writes, a restart of this node ends this warning",
        group.id
    )
}
