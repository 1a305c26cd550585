//! Torn logs: logs with a torn tail, the entries that they may have accepted and lost, and the
//! evidence that ends the doubt.
//!
//! A crash tears the write in progress, which was never reported. Damage to the last write that
//! *was* reported looks the same, so a member whose log had a torn tail counts as *maybe having
//! accepted* more than is left. Its promises and the adoption of its log are not lost: the log
//! states that these are durable before they are sent, and below a stated position there is no torn
//! tail, only damage. So only entries after its last one may be missing, under the ballot of its
//! log.
//!
//! Such a member follows, acknowledges and grants leases as before: all of that depends on promises
//! only. Its *promise to a candidate* reports the tear ([`Body::TornPromise`]), and others' logs
//! decide (Alagappan et al., *Protocol-Aware Recovery for Consensus-Based Storage*, FAST 2018: the
//! other replicas determine the last entry). An entry that was acknowledged under ballot `b` is on
//! the disks of a save quorum, the master's among them. A holder that has not lost it shows it to
//! the candidate. So nothing is missed
//! - if the master of `b` promised, with its log whole, or
//! - if the voters that have not promised, with those whose logs were torn under `b`, are too few
//!   to be a save quorum.
//!
//! Otherwise the candidate waits for more promises. If all voters have promised, nobody is left to
//! ask. If those torn under `b` are a save quorum by themselves, the master of `b` among them, the
//! others' logs can't tell either: after a while the candidate goes on without. In both cases it
//! takes the highest log there is, and reports it ([`Effect::PossibleLoss`]).
//!
//! A tear is *mended* once a log was adopted after it under a higher ballot, or, under the same,
//! once the master reported how far its own log went when it learned of this very tear, and all of
//! that is on disk here. Until then it is remembered through restarts.

use super::ballot;
use super::candidate::{Candidate, VoterPromise};
use super::configuration::Configuration;
use super::effect::Effect;
use super::message::{Body, LogSummary};
use super::replica::Replica;
use super::restored::RestoredState;
use super::role::RoleState;
use super::rules::{Rule, broken};
use base::{Ballot, LogIndex, Millis, NodeId};

/// Lengths of a lease for which a candidate waits for logs that can't settle the doubt alone: about
/// ten seconds by default, for members that start slightly later after a power failure.
const LOG_WAIT_LEASES: u64 = 16;

/// Id of one torn tail: the position in the log's stream at which it was cut. No two tears of a log
/// that lost different entries have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tear(pub u64);

/// Torn tail of this replica's own log, until it is mended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TornTail {
    pub tear: Tear,
    /// Ballot under which missing entries were accepted.
    ballot: Ballot,
    /// Ballot and index up to which the log must be on disk to lack none of them. `None`: unknown
    /// yet.
    pub complete_at: Option<(Ballot, LogIndex)>,
}

impl TornTail {
    /// Builds the tear of a log that counted as accepted under `ballot`.
    pub(super) fn new(tear: Tear, ballot: Ballot) -> TornTail {
        TornTail { tear, ballot, complete_at: None }
    }

    /// Returns true if a log accepted under `ballot`, and on disk up to `synced`, has all entries
    /// again.
    pub(super) fn is_mended_by(&self, ballot: Ballot, synced: LogIndex) -> bool {
        let is_complete =
            self.complete_at.is_some_and(|(under, last)| under == ballot && last <= synced);
        ballot > self.ballot || is_complete
    }
}

/// Wait for logs that could settle the doubt about torn ones. It spans several attempts to lead,
/// each of which ends after a lease's length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AwaitedLogs {
    since: Millis,
    /// Voters that have not promised.
    voters: Vec<NodeId>,
}

/// Evidence of the promises about entries that torn logs may have held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// No acknowledged entry is missing.
    Complete,
    /// Outstanding promises may settle it.
    Awaited,
    /// Outstanding promises can't settle it, though their logs may be longer.
    Inconclusive,
    /// All voters have promised.
    Exhausted,
}

impl RestoredState {
    /// Returns the tear by which entries may be lost. There is none if nothing was accepted under
    /// any ballot, or only before the current configuration: every entry decided before it is here.
    pub(super) fn open_tear(&self) -> Option<Tear> {
        let accepted = self.accepted_ballot;
        let is_unused = accepted == Ballot::default();
        self.tear.filter(|_| !is_unused && !ballot::is_earlier(accepted, self.configuration.id()))
    }
}

impl Candidate {
    fn evidence(&self, configuration: &Configuration) -> Evidence {
        let voters = || configuration.voters();
        let absent = voters().filter(|voter| self.promise_of(*voter).is_none()).count();
        let save = configuration.quorums().save;
        let torn = || {
            let promises = voters().filter_map(|voter| self.promise_of(voter));
            promises.filter(|promise| promise.torn)
        };
        let mut evidence = Evidence::Complete;
        for VoterPromise { log: LogSummary { ballot, .. }, .. } in torn() {
            let torn_count = torn().filter(|promise| promise.log.ballot == *ballot).count();
            let master = self.promise_of(ballot.node);
            if master.is_some_and(|master| !master.torn) || absent + torn_count < save {
                continue;
            }
            if absent == 0 {
                return Evidence::Exhausted;
            }
            // Assumes that all absent voters promise, with complete logs.
            if master.is_none() || torn_count < save {
                return Evidence::Awaited;
            }
            evidence = Evidence::Inconclusive;
        }
        evidence
    }
}

/// Methods that span this replica's own torn tail, and the promises of others whose logs were torn.
impl Replica {
    /// Returns the tear of this log that is not mended yet.
    pub fn tear(&self) -> Option<Tear> {
        self.log.torn.as_ref().map(|torn| torn.tear)
    }

    /// Returns the voters for whose logs an attempt to lead waits, because the logs at hand were
    /// torn. Empty: it waits for none.
    pub fn awaited_log_voters(&self) -> &[NodeId] {
        self.election.awaited_logs.as_ref().map_or(&[], |awaited| &awaited.voters)
    }

    /// Sends our accepted log to the promised ballot's node.
    pub(super) fn send_promise(&self, log: LogSummary, effects: &mut Vec<Effect>) {
        let body = match self.tear() {
            None => Body::Promise { log },
            Some(tear) => Body::TornPromise { log, tear },
        };
        self.send(self.ballots.promised.node, body, effects);
    }

    /// Returns true if the promises at hand allow the attempt to go on in spite of torn logs;
    /// otherwise records the voters for which it waits.
    pub(super) fn torn_logs_allow(&mut self) -> bool {
        let RoleState::Candidate(candidate) = &mut self.role else { return false };
        let configuration = &self.membership.configuration;
        let evidence = candidate.evidence(configuration);
        if evidence == Evidence::Complete || broken(Rule::TornMayHaveAccepted) {
            return true;
        }
        let now = self.host.now;
        // The wait of earlier attempts counts: each attempt alone is shorter than the timeout.
        let since = self.election.awaited_logs.as_ref().map_or(now, |awaited| awaited.since);
        let timeout_ms = self.host.clock.length.0.saturating_mul(LOG_WAIT_LEASES);
        let timed_out = now.0 >= since.0.saturating_add(timeout_ms);
        if evidence == Evidence::Exhausted || (evidence == Evidence::Inconclusive && timed_out) {
            candidate.uncertain = true;
            return true;
        }
        let absent = |voter: &NodeId| candidate.promise_of(*voter).is_none();
        let voters = configuration.voters().filter(absent).collect();
        self.election.awaited_logs = Some(AwaitedLogs { since, voters });
        false
    }

    /// Handles a follower that lost the end of its log: its acknowledgements of lost entries no
    /// longer count, and it is sent the last index of our log, since it can't have had more.
    pub(super) fn on_torn_promise(
        &mut self,
        from: NodeId,
        log: LogSummary,
        tear: Tear,
        effects: &mut Vec<Effect>,
    ) {
        // Under another ballot an `Adopt` follows, which mends the tear.
        if log.ballot != self.log.ballot || log.last > self.log.last {
            return;
        }
        let RoleState::Master(master) = &mut self.role else { return };
        let Some(follower) = self.progress.follower_mut(from) else { return };
        follower.saved = follower.saved.min(Some(log.last));
        master.saved.lower(from, log.last);
        self.send(from, Body::LogEnd { tear, last: self.log.last }, effects);
    }

    /// Repeats a torn promise under the ballot of its master until the master has reported the end
    /// of its log. Under another ballot there will be an adoption.
    pub(super) fn report_tear(&self, effects: &mut Vec<Effect>) {
        let Some(torn) = &self.log.torn else { return };
        let is_same_ballot = self.log.ballot == self.ballots.promised;
        let is_reported =
            torn.complete_at.is_some_and(|(ballot, _)| ballot == self.ballots.promised);
        if is_same_ballot && !is_reported {
            self.resend_promise(effects);
        }
    }

    /// Handles the master's report of the last index of a complete log.
    pub(super) fn on_log_end(&mut self, tear: Tear, last: LogIndex, effects: &mut Vec<Effect>) {
        let promised = self.ballots.promised;
        let Some(torn) = &mut self.log.torn else { return };
        let is_same_tear = torn.tear == tear || broken(Rule::LogEndOfThisTear);
        if is_same_tear && self.log.ballot == promised {
            torn.complete_at = Some((promised, last));
            self.log.mend(promised, effects);
        }
    }
}
