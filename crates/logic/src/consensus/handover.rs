//! Deliberate end of mastership: handed over to another voter, or given up for good by this
//! incarnation.

use super::effect::{Effect, Refusal, RefusedCall, Role};
use super::lease::LeaseBound;
use super::master::{Heir, Master, MasterPhase};
use super::message::Body;
use super::progress::FollowerProgress;
use super::replica::Replica;
use super::role::RoleState;
use base::{Ballot, Millis, NodeId};

/// Methods that span the role, the successors' progress, and the lease that is given back.
impl Replica {
    /// Begins a hand-over for an operator or a preference: nothing new is accepted until the
    /// successor has everything. If that takes too long, or it is not heard any more, this replica
    /// stays master.
    pub(super) fn hand_over(&mut self, to: NodeId, now: Millis, effects: &mut Vec<Effect>) {
        self.advance_clock(now);
        let leads_there = self.membership.configuration.leads(to);
        let refusal = match self.role.leading() {
            Ok(_) if to == self.host.node => return,
            Ok(_) if !leads_there => Refusal::NoSuchVoter,
            Ok(master) if master.phase == MasterPhase::Retiring => Refusal::Retiring,
            // Mastership given to a voter that is away would leave the group without a master.
            Ok(master) if !master.heartbeats.hears(to, &self.host) => Refusal::Unheard,
            Ok(_) => return self.name_heir(to, effects),
            Err(refusal) => refusal,
        };
        effects.push(Effect::Refused { asked: RefusedCall::HandOver(to), reason: refusal });
    }

    fn name_heir(&mut self, node: NodeId, effects: &mut Vec<Effect>) {
        let until = self.host.after_leases(2);
        if let Some(master) = self.role.master_mut() {
            master.heir = Some(Heir { node, until });
        }
        self.try_to_hand_over(effects);
    }

    /// Cancels the hand-over if the successor does not catch up.
    pub(super) fn give_up_heir(&mut self) {
        let Some(master) = self.role.master_mut() else { return };
        let (now, heartbeats) = (self.host.now, &master.heartbeats);
        let comes = |heir: &Heir| now < heir.until && heartbeats.hears(heir.node, &self.host);
        master.heir = master.heir.filter(comes);
    }

    /// Hands over once all is decided and the successor has it.
    pub(super) fn try_to_hand_over(&mut self, effects: &mut Vec<Effect>) {
        let RoleState::Master(Master { phase, heir: Some(heir), .. }) = &self.role else { return };
        let (heir, last) = (heir.node, self.log.last);
        let level = self.progress.of(heir).is_some_and(|heir| heir.saved == Some(last));
        // The heir has nothing to fetch, and no client's entry is left in doubt.
        if *phase == MasterPhase::Leading && self.log.decided == last && level {
            self.log.record_decided(effects);
            let ballot = self.ballots.promised;
            // Before the lease is given back: no read may be answered here once the heir can lead.
            self.step_down(effects);
            self.leave_to(heir, ballot, effects);
        }
    }

    /// Gives the lease back in favour of `heir`: from here on this replica answers no read, and
    /// sends its decision to the successor, whose `Prepare` tells the others. For a while it stands
    /// in nobody else's favour.
    pub(super) fn leave_to(&mut self, heir: NodeId, ballot: Ballot, effects: &mut Vec<Effect>) {
        let round = ballot.round.saturating_add(1);
        self.bound = self.host.grant(Ballot { round, node: heir });
        self.send_under(ballot, heir, Body::HandOver, effects);
    }

    /// Returns true if only this master's own disk keeps entries from being decided: it hangs, and
    /// enough others, to elect one of them and to save an entry, have on disk what it lacks. If no
    /// other could take over, or nothing is held up, a master goes on, and answers reads.
    pub(super) fn holds_up_others(&self) -> bool {
        if !self.host.hangs || !self.role.replicates() {
            return false;
        }
        let mut others = self.ahead();
        let leads =
            |follower: &FollowerProgress| self.membership.configuration.leads(follower.node);
        others.clone().count() >= self.membership.configuration.quorums().most()
            && others.any(leads)
    }

    /// Returns the voters that have on disk what this master has not.
    fn ahead(&self) -> impl Iterator<Item = &FollowerProgress> + Clone {
        self.progress.followers.iter().filter(|follower| {
            self.membership.configuration.votes(follower.node) && follower.saved > self.log.synced
        })
    }

    /// Returns the follower that can lead and has most; of equals the one that was heard last.
    fn best_heir<'a>(&self, some: impl Iterator<Item = &'a FollowerProgress>) -> Option<NodeId> {
        let heirs = some.filter(|follower| self.membership.configuration.leads(follower.node));
        let best = heirs.max_by_key(|follower| (follower.saved, follower.moved, follower.node));
        best.map(|follower| follower.node)
    }

    /// Gives mastership up to the voter that has most of what is in flight, without deciding it.
    /// Safety does not depend on what that voter has: like any candidate it gathers promises, and
    /// takes over whatever may have been decided. Only the lease is given back, as in a hand-over,
    /// so that nobody waits for its end.
    pub(super) fn resign(&mut self, effects: &mut Vec<Effect>) {
        let heir = self.best_heir(self.ahead());
        let ballot = self.ballots.promised;
        self.step_down(effects);
        if let Some(heir) = heir {
            self.leave_to(heir, ballot, effects);
        }
    }

    /// Ends a reign that no majority hears any more, and leaves mastership to others that can lead.
    /// Heartbeats sent before may arrive late and bind voters anew. So one of them is told that the
    /// lease is over, and this replica seeks no master for some of their rounds. Otherwise a
    /// replica with a flapping link would be master again and again, for a moment each time.
    pub(super) fn leave_to_others(&mut self, effects: &mut Vec<Effect>) {
        let followers = self.progress.followers.iter();
        let voters =
            followers.filter(|follower| self.membership.configuration.votes(follower.node));
        let (heir, ballot) = (self.best_heir(voters), self.ballots.promised);
        self.step_down(effects);
        if let Some(heir) = heir {
            self.election.left_until = self.host.after(self.host.clock.patience());
            self.send_under(ballot, heir, Body::HandOver, effects);
        }
    }

    /// Handles a master's hand-over to this replica.
    pub(super) fn on_hand_over(&mut self, from: NodeId, ballot: Ballot, effects: &mut Vec<Effect>) {
        let may_lead = self.may_lead();
        let ready = self.role.follows() && self.log.ballot == ballot;
        if ballot.node == from && ballot == self.ballots.promised && may_lead && ready {
            // The grant that binds us is of the sender's ballot, and the sender answers no reads
            // any more.
            self.bound = LeaseBound::default();
            self.stand(ballot, effects);
        }
    }

    /// Begins the clean end of this incarnation: a master first finishes what is in flight.
    pub(super) fn retire(&mut self, effects: &mut Vec<Effect>) {
        let in_flight = self.log.decided < self.log.last;
        match &self.role {
            RoleState::Master(master) if master.phase == MasterPhase::Retiring => {}
            RoleState::Retired { .. } => {}
            RoleState::Master(master) if in_flight && master.phase == MasterPhase::Leading => {
                self.role.retire();
            }
            // Only a master that leads has clients' entries in flight; what one that adopts
            // inherited, the next one adopts as well.
            _ => self.leave(effects),
        }
    }

    /// Gives mastership, if this replica has it, and the lease back: nothing of ours is in flight
    /// any more.
    pub(super) fn leave(&mut self, effects: &mut Vec<Effect>) {
        let configuration = &self.membership.configuration;
        let heir = self.progress.level_heir(configuration, self.log.last);
        let heir = heir.filter(|_| self.role.role() == Role::Master);
        let ballot = self.ballots.promised;
        self.log.record_decided(effects);
        self.role.retire();
        self.step_down(effects);
        if let Some(heir) = heir {
            self.leave_to(heir, ballot, effects);
        }
    }
}
