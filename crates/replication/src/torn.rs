//! Messages to operators about the consequences of torn logs.

use super::group::Group;
use super::state::GroupState;
use base::{LogIndex, NodeId};
use runtime::metrics::Metrics;

impl Group {
    /// Reports that this replica leads although torn logs may have held more entries.
    pub(super) fn report_possible_loss(&self, state: &mut GroupState, after: LogIndex) {
        state.mastership.possible_loss_after = Some(after);
        Metrics::count(&self.shared.metrics.may_lack);
        tracing::error!(target: "consensus", group = self.id.0, "{}", loss_text(self, after));
    }

    /// Describes, for operators, the consequences of torn logs in a sentence. `None`: there are
    /// none.
    pub fn describe_torn_logs(
        &self,
        state: &GroupState,
        name_of: impl Fn(NodeId) -> String,
    ) -> Option<String> {
        let possible_loss =
            || state.mastership.possible_loss_after.map(|after| loss_text(self, after));
        self.describe_awaited_logs(state, name_of).or_else(possible_loss)
    }

    /// Describes the members for whose logs an election waits, in a sentence. `None`: it waits for
    /// none.
    pub fn describe_awaited_logs(
        &self,
        state: &GroupState,
        name_of: impl Fn(NodeId) -> String,
    ) -> Option<String> {
        let awaited = state.replica.awaited_log_voters();
        let names: Vec<_> = awaited.iter().map(|node| name_of(*node)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "group {} has no master: a log was torn and may have held acknowledged entries, \
                 which only {} can confirm: start them, or see `credenza cluster trust-log`",
                self.id,
                names.join(", ")
            )
        })
    }
}

fn loss_text(group: &Group, after: LogIndex) -> String {
    format!(
        "group {} continued with the longest remaining log: so many logs were torn that \
         acknowledged writes after index {after} may be lost; check the last writes; a restart of \
         this node clears this alarm",
        group.id
    )
}
