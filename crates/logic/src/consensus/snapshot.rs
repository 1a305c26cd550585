//! Snapshots in place of entries: requests where others' logs do not reach back far enough, and the
//! effect of an installed one.

use super::ballot;
use super::configuration::Configuration;
use super::effect::Effect;
use super::replica::Replica;
use base::{Ballot, LogIndex, NodeId};

/// Methods that span log, role and configuration: a snapshot changes all three.
impl Replica {
    /// Fetches a snapshot: the missing entries were truncated at the source of the fetch, or at the
    /// master.
    pub(super) fn on_behind(&mut self, from: NodeId, ballot: Ballot, effects: &mut Vec<Effect>) {
        if ballot != self.ballots.promised {
            return;
        }
        let of_source = self.role.is_fetching_from(from);
        if let Some(candidate) = self.role.candidate_mut().filter(|_| of_source) {
            candidate.deadline = self.host.after_leases(1);
        }
        if of_source || ballot.node == from {
            self.fetch_snapshot(from, effects);
        }
    }

    pub(super) fn fetch_snapshot(&mut self, from: NodeId, effects: &mut Vec<Effect>) {
        if self.ballots.promised == Ballot::default() {
            // A store with rows implies a log, and a log begins with a promise.
            let first = ballot::next_above(
                self.ballots.promised,
                self.host.node,
                self.membership.configuration.id(),
            );
            let Some(first) = first else { return };
            self.ballots.promise(first, effects);
        }
        effects.push(Effect::FetchSnapshot { from });
    }

    /// Handles an installed snapshot, which replaces the log's beginning, or all of it.
    pub(super) fn on_installed(
        &mut self,
        last: LogIndex,
        configuration: (LogIndex, Configuration),
        effects: &mut Vec<Effect>,
    ) {
        if last <= self.log.decided {
            return;
        }
        if self.role.is_replicating() {
            // Decided by another master: the entries in flight here are void.
            self.step_down(effects);
        }
        self.log.install(last, effects);
        self.log.mend(self.ballots.promised, effects);
        if configuration.1.id() > self.membership.configuration.id() {
            return self.enter_configuration(configuration.1, configuration.0, effects);
        }
        if let Some(candidate) = self.role.candidate_mut() {
            // The log to adopt is chosen again, with the entries of the snapshot.
            if candidate.source.take().is_some() {
                self.promise_to_self();
                self.try_to_adopt(effects);
            }
            return;
        }
        self.report_log(effects);
    }

    /// Reports the log to the master, which sends what follows. Also if the fetched snapshot was
    /// not newer: an earlier report was lost, and the master still knows of an older log only.
    pub(super) fn report_log(&self, effects: &mut Vec<Effect>) {
        let of_other = self.ballots.is_saved() && self.ballots.promised.node != self.host.node;
        if self.role.is_waiting() || !of_other {
            return;
        }
        if self.log.ballot == self.ballots.promised {
            self.report_synced(effects);
        } else {
            self.resend_promise(effects);
        }
    }
}
