//! Logs with a torn tail: what they may have accepted and lost, who can tell, and when that is
//! over.
//!
//! A crash tears the write that was under way, which nobody was told of. Damage to the last write
//! that *was* told of looks the same, so a member whose log had a torn tail counts as *maybe having
//! accepted* more than is left. Of its promises and of which log it adopted nothing is lost: the
//! log states that these are durable before they are told, and below a stated position there is no
//! torn tail, only damage. So what may be missing are values behind its last, under the very ballot
//! it accepted them.
//!
//! Such a member follows, acknowledges and grants leases as ever: all of that hangs on promises.
//! Its *promise to a candidate* says how it is ([`Body::TornPromise`]), and others' logs decide
//! (Alagappan et al., *Protocol-Aware Recovery for Consensus-Based Storage*, FAST 2018: what the
//! last entry was is settled by the other replicas). A value that was acknowledged under ballot `b`
//! is on the disks of a save quorum, the master's among them. Whoever holds it and has not lost it
//! shows it to the candidate. So nothing is missed
//! - if the master of `b` promised, with its log whole, or
//! - if the voters that have not promised, with those whose logs were torn under `b`, are too few
//!   to be a save quorum.
//!
//! Otherwise the candidate waits for more promises. When all voters have promised nobody is left to
//! ask, and where those torn under `b` are a save quorum by themselves, the master of `b` among
//! them, the others' logs could not tell either: after a while it goes on without. In both cases it
//! takes the highest log there is, and says so ([`Effect::MayLack`]).
//!
//! A tear is *made good* once a log was adopted behind it under a higher ballot, or, under the
//! same, once the master said how far its own log went when it heard of this very tear, and all of
//! that is on disk here. Until then it is remembered through restarts.

use super::ballot;
use super::candidate::{Candidate, VoterPromise};
use super::configuration::Configuration;
use super::effect::Effect;
use super::message::{Accepted, Body};
use super::replica::Replica;
use super::restored::Restored;
use super::role::RoleState;
use super::rules::{Rule, broken};
use base::{Ballot, LogIndex, Millis, NodeId};

/// So many lengths of a lease a candidate waits for logs that could not settle what is open: about
/// ten seconds by default, for members that start a little later after a loss of power.
const PATIENCE_LEASES: u64 = 16;

/// One torn tail, by the position in the log's stream at which it was cut. No two of a log that
/// lost different things have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tear(pub u64);

/// The torn tail of this replica's own log, until it is made good.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TornTail {
    pub tear: Tear,
    /// Values accepted under this ballot may be missing.
    ballot: Ballot,
    /// With everything up to here, under this ballot, the log lacks none of them.
    pub level: Option<(Ballot, LogIndex)>,
}

impl TornTail {
    /// A tear of a log that counted as accepted under `ballot`.
    pub(super) fn new(tear: Tear, ballot: Ballot) -> TornTail {
        TornTail { tear, ballot, level: None }
    }

    /// True if a log accepted under `ballot`, and on disk up to `synced`, lacks nothing any more.
    pub(super) fn is_made_good(&self, ballot: Ballot, synced: LogIndex) -> bool {
        let level = self.level.is_some_and(|(under, upto)| under == ballot && upto <= synced);
        ballot > self.ballot || level
    }
}

/// The wait for logs that could settle what torn ones left open. It outlasts attempts to lead, each
/// of which is given up after a lease's length.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct AwaitedLogs {
    since: Millis,
    /// The voters that have not promised.
    voters: Vec<NodeId>,
}

/// What the promises say of values that torn logs may have held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evidence {
    /// No acknowledged value is missed.
    Complete,
    /// Those who have not promised may tell.
    Awaited,
    /// They can't, though their logs may be longer.
    Hopeless,
    /// All have promised.
    Exhausted,
}

impl Restored {
    /// The tear that something may have been lost by: nothing was accepted under no ballot, and
    /// what was decided before the present configuration is all here.
    pub(super) fn open_tear(&self) -> Option<Tear> {
        let accepted = self.accepted_ballot;
        let nothing = accepted == Ballot::default();
        self.tear.filter(|_| !nothing && !ballot::is_earlier(accepted, self.configuration.id()))
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
        for VoterPromise { log: Accepted { ballot, .. }, .. } in torn() {
            let sharing = torn().filter(|promise| promise.log.ballot == *ballot).count();
            let master = self.promise_of(ballot.node);
            if master.is_some_and(|master| !master.torn) || absent + sharing < save {
                continue;
            }
            if absent == 0 {
                return Evidence::Exhausted;
            }
            // If all who are absent came, with their logs whole.
            if master.is_none() || sharing < save {
                return Evidence::Awaited;
            }
            evidence = Evidence::Hopeless;
        }
        evidence
    }
}

/// Across this replica's own torn tail, and the promises of others whose logs were torn.
impl Replica {
    /// The tear of this log that is not made good yet.
    pub fn tear(&self) -> Option<Tear> {
        self.log.torn.as_ref().map(|torn| torn.tear)
    }

    /// The voters whose logs an attempt to lead waits for, because logs at hand were torn; empty
    /// where none does.
    pub fn awaited_logs(&self) -> &[NodeId] {
        self.election.awaited.as_ref().map_or(&[], |awaited| &awaited.voters)
    }

    /// Tells whom we promised what we have accepted.
    pub(super) fn tell_promise(&self, log: Accepted, effects: &mut Vec<Effect>) {
        let body = match self.tear() {
            None => Body::Promise { log },
            Some(tear) => Body::TornPromise { log, tear },
        };
        self.send(self.ballots.promised.node, body, effects);
    }

    /// Whether the promises at hand allow to go on in spite of torn logs; notes whom it waits for
    /// if not.
    pub(super) fn torn_logs_allow(&mut self) -> bool {
        let RoleState::Candidate(candidate) = &mut self.role else { return false };
        let configuration = &self.membership.configuration;
        let evidence = candidate.evidence(configuration);
        if evidence == Evidence::Complete || broken(Rule::TornMayHaveAccepted) {
            return true;
        }
        let now = self.host.now;
        let since = self.election.awaited.as_ref().map_or(now, |awaited| awaited.since);
        let patience = self.host.clock.length.0.saturating_mul(PATIENCE_LEASES);
        let late = now.0 >= since.0.saturating_add(patience);
        if evidence == Evidence::Exhausted || (evidence == Evidence::Hopeless && late) {
            candidate.uncertain = true;
            return true;
        }
        let absent = |voter: &NodeId| candidate.promise_of(*voter).is_none();
        let voters = configuration.voters().filter(absent).collect();
        self.election.awaited = Some(AwaitedLogs { since, voters });
        false
    }

    /// A follower of ours lost the end of its log: what it acknowledged of it counts no more, and
    /// it hears how far our log goes: it can't have had more.
    pub(super) fn on_torn_promise(
        &mut self,
        from: NodeId,
        log: Accepted,
        tear: Tear,
        effects: &mut Vec<Effect>,
    ) {
        if log.ballot != self.log.ballot || log.last > self.log.last {
            return;
        }
        let RoleState::Master(master) = &mut self.role else { return };
        let Some(follower) = self.progress.of_mut(from) else { return };
        follower.saved = follower.saved.min(Some(log.last));
        master.saved.lower(from, log.last);
        self.send(from, Body::Level { tear, upto: self.log.last }, effects);
    }

    /// Under the ballot of its master a torn log is told until the master has said how far that
    /// goes. Under another there will be an adoption.
    pub(super) fn tell_tear(&self, effects: &mut Vec<Effect>) {
        let Some(torn) = &self.log.torn else { return };
        let same = self.log.ballot == self.ballots.promised;
        let told = torn.level.is_some_and(|(ballot, _)| ballot == self.ballots.promised);
        if same && !told {
            self.promise_again(effects);
        }
    }

    /// The master said how far a log goes that lacks nothing.
    pub(super) fn on_level(&mut self, tear: Tear, upto: LogIndex, effects: &mut Vec<Effect>) {
        let promised = self.ballots.promised;
        let Some(torn) = &mut self.log.torn else { return };
        let this = torn.tear == tear || broken(Rule::LevelOfThisTear);
        if this && self.log.ballot == promised {
            torn.level = Some((promised, upto));
            self.log.mend(promised, effects);
        }
    }
}
