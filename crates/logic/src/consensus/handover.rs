//! Deliberate end of mastership: handed over to another voter, or given up for good by this
//! incarnation.

use super::effect::{Effect, Refusal, RefusedCall, Role};
use super::lease::{LeaseGrant, LeaseTerm};
use super::master::{Master, MasterPhase, Successor};
use super::message::Body;
use super::progress::FollowerProgress;
use super::replica::Replica;
use super::role::RoleState;
use base::{Ballot, Millis, NodeId};

/// Methods that span the role, the successors' progress, and the lease that is given back.
impl Replica {
    /// Begins a hand-over for an operator or a preference: no new entry is accepted until the
    /// successor has all of the log. If that takes too long, or the successor stops answering, this
    /// replica stays master.
    pub(super) fn hand_over(&mut self, to: NodeId, now: Millis, effects: &mut Vec<Effect>) {
        self.advance_clock(now);
        let may_lead = self.membership.configuration.may_lead(to);
        let refusal = match self.role.leading_master() {
            Ok(_) if to == self.host.node => return,
            Ok(_) if !may_lead => Refusal::NoSuchVoter,
            Ok(master) if master.phase == MasterPhase::Retiring => Refusal::Retiring,
            // A hand-over to an unreachable voter would leave the group without a master.
            Ok(master) if !master.heartbeats.has_contact(to, &self.host) => Refusal::Unresponsive,
            Ok(_) => return self.set_successor(to, effects),
            Err(refusal) => refusal,
        };
        effects.push(Effect::Refused { call: RefusedCall::HandOver(to), reason: refusal });
    }

    fn set_successor(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        let until = self.host.after_leases(2);
        if let Some(master) = self.role.master_mut() {
            master.successor = Some(Successor { node, until });
        }
        self.try_to_hand_over(effects);
    }

    /// Cancels the hand-over if the successor does not catch up.
    pub(super) fn cancel_stalled_hand_over(&mut self) {
        let Some(master) = self.role.master_mut() else { return };
        let (now, heartbeats) = (self.host.now, &master.heartbeats);
        let is_catching_up = |successor: &Successor| {
            now < successor.until && heartbeats.has_contact(successor.node, &self.host)
        };
        master.successor = master.successor.filter(is_catching_up);
    }

    /// Hands over once all is decided and the successor has it.
    pub(super) fn try_to_hand_over(&mut self, effects: &mut Vec<Effect>) {
        let RoleState::Master(Master { phase, successor: Some(successor), .. }) = &self.role else {
            return;
        };
        let (successor, last) = (successor.node, self.log.last);
        let is_caught_up = self
            .progress
            .follower(successor)
            .is_some_and(|successor| successor.saved == Some(last));
        // The successor has nothing to fetch, and no client's entry is in doubt.
        if *phase == MasterPhase::Leading && self.log.decided == last && is_caught_up {
            self.log.record_decided(effects);
            let ballot = self.ballots.promised;
            // Before the lease is released: no read may be answered here once the successor can
            // lead.
            self.step_down(effects);
            self.release_lease_to(successor, ballot, effects);
        }
    }

    /// Releases the lease in favour of `successor`: from here on this replica answers no read. The
    /// `Prepare` of the successor reports the release to the other voters. For a while this replica
    /// promises no other candidate anything.
    pub(super) fn release_lease_to(
        &mut self,
        successor: NodeId,
        ballot: Ballot,
        effects: &mut Vec<Effect>,
    ) {
        let round = ballot.round.saturating_add(1);
        self.grant = self.host.grant(Ballot { round, node: successor }, LeaseTerm::Whole);
        self.send_under(ballot, successor, Body::HandOver, effects);
    }

    /// Returns true if only this master's own disk keeps entries from being decided: it hangs, and
    /// voters enough to elect one of them and to save an entry have entries on disk that it lacks.
    /// If no other voter could take over, or no entry waits, a master stays, and answers reads.
    pub(super) fn blocks_decisions(&self) -> bool {
        if !self.host.disk_hangs || !self.role.is_replicating() {
            return false;
        }
        let mut ahead = self.voters_ahead();
        let leads =
            |follower: &FollowerProgress| self.membership.configuration.may_lead(follower.node);
        ahead.clone().count() >= self.membership.configuration.quorums().required_connected()
            && ahead.any(leads)
    }

    /// Returns the voters that have more of the log on disk than this master.
    fn voters_ahead(&self) -> impl Iterator<Item = &FollowerProgress> + Clone {
        self.progress.followers.iter().filter(|follower| {
            self.membership.configuration.is_voter(follower.node)
                && follower.saved > self.log.synced
        })
    }

    /// Returns the follower that can lead and has the longest log; of equals the last active one.
    fn best_successor<'a>(
        &self,
        followers: impl Iterator<Item = &'a FollowerProgress>,
    ) -> Option<NodeId> {
        let successors =
            followers.filter(|follower| self.membership.configuration.may_lead(follower.node));
        let best = successors
            .max_by_key(|follower| (follower.saved, follower.last_activity, follower.node));
        best.map(|follower| follower.node)
    }

    /// Resigns in favour of the voter that has most of the entries in flight, without deciding
    /// them. Safety does not depend on that voter's log: like any candidate it gathers promises,
    /// and adopts every entry that may have been decided. Only the lease is released, as in a
    /// hand-over, so that no voter waits for its end.
    pub(super) fn resign(&mut self, effects: &mut Vec<Effect>) {
        let successor = self.best_successor(self.voters_ahead());
        let ballot = self.ballots.promised;
        self.step_down(effects);
        if let Some(successor) = successor {
            self.release_lease_to(successor, ballot, effects);
        }
    }

    /// Steps down because no majority answers any more, and leaves mastership to a voter that can
    /// lead. Earlier heartbeats may arrive late and renew the voters' grants. So the best of them
    /// is sent the release of the lease, and this replica holds no rounds for a while. Otherwise a
    /// replica with a flapping link would become master repeatedly, for a moment each time.
    pub(super) fn step_down_without_majority(&mut self, effects: &mut Vec<Effect>) {
        let followers = self.progress.followers.iter();
        let voters =
            followers.filter(|follower| self.membership.configuration.is_voter(follower.node));
        let (successor, ballot) = (self.best_successor(voters), self.ballots.promised);
        self.step_down(effects);
        if let Some(successor) = successor {
            self.election.abstains_until = self.host.after(self.host.clock.answer_timeout_ms());
            self.send_under(ballot, successor, Body::HandOver, effects);
        }
    }

    /// Handles a master's hand-over to this replica.
    pub(super) fn on_hand_over(&mut self, from: NodeId, ballot: Ballot, effects: &mut Vec<Effect>) {
        let may_lead = self.may_lead();
        let is_ready = self.role.is_following() && self.log.ballot == ballot;
        if ballot.node == from && ballot == self.ballots.promised && may_lead && is_ready {
            // The own grant is to the sender's ballot, and the sender answers no reads any more.
            self.grant = LeaseGrant::default();
            self.stand_for_election(ballot, effects);
        }
    }

    /// Begins the clean end of this incarnation: a master first finishes the entries in flight.
    pub(super) fn retire(&mut self, effects: &mut Vec<Effect>) {
        let has_in_flight = self.log.decided < self.log.last;
        match &self.role {
            RoleState::Master(master) if master.phase == MasterPhase::Retiring => {}
            RoleState::Retired { .. } => {}
            RoleState::Master(master) if has_in_flight && master.phase == MasterPhase::Leading => {
                self.role.retire();
            }
            // Only a leading master has clients' entries in flight; entries that an adopting master
            // inherited are adopted by the next one as well.
            _ => self.finish_retirement(effects),
        }
    }

    /// Gives up mastership, if this replica has it, and releases the lease: no own entry is in
    /// flight any more.
    pub(super) fn finish_retirement(&mut self, effects: &mut Vec<Effect>) {
        let configuration = &self.membership.configuration;
        let successor = self.progress.caught_up_successor(configuration, self.log.last);
        let successor = successor.filter(|_| self.role.role() == Role::Master);
        let ballot = self.ballots.promised;
        self.log.record_decided(effects);
        self.role.retire();
        self.step_down(effects);
        if let Some(successor) = successor {
            self.release_lease_to(successor, ballot, effects);
        }
    }
}
