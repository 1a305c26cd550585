//! How mastership ends on purpose: handed over to another voter, or given back with a life.

use super::effect::{Effect, Refusal, RefusedCall};
use super::lead::Follower;
use super::lease::LeaseBound;
use super::message::Body;
use super::replica::{Replica, ReplicaStage};
use base::{Ballot, Millis, NodeId};

impl Replica {
    /// An operator, or a preference, wants another master: nothing new is taken until it has
    /// everything. If that takes too long, or it is not heard any more, all stays as it is.
    pub(super) fn hand_over(&mut self, to: NodeId, now: Millis, effects: &mut Vec<Effect>) {
        self.advance_clock(now);
        let leads_there = self.membership.configuration.leads(to);
        let refusal = match self.leads() {
            Ok(()) if to == self.host.node => return,
            Ok(()) if !leads_there => Refusal::NoSuchVoter,
            Ok(()) if self.stage == ReplicaStage::Retiring => Refusal::Retiring,
            Ok(()) if !self.hears(to) => Refusal::Unheard,
            Ok(()) => {
                let until = self.host.after_leases(2);
                self.lead.heir = Some((to, until));
                return self.try_to_hand_over(effects);
            }
            Err(refusal) => refusal,
        };
        effects.push(Effect::Refused { asked: RefusedCall::HandOver(to), reason: refusal });
    }

    /// Goes on as master where the heir does not come.
    pub(super) fn give_up_heir(&mut self) {
        let comes = |(heir, until)| self.host.now < until && self.hears(heir);
        self.lead.heir = self.lead.heir.filter(|heir| comes(*heir));
    }

    /// Once all is decided, and the heir has it.
    pub(super) fn try_to_hand_over(&mut self, effects: &mut Vec<Effect>) {
        let Some((heir, _)) = self.lead.heir else { return };
        let last = self.log.last;
        let level = self.lead.follower(heir).is_some_and(|heir| heir.saved == Some(last));
        if self.stage == ReplicaStage::Leading && self.log.decided == last && level {
            self.log.record_decided(effects);
            let ballot = self.ballots.promised;
            self.follow(effects);
            self.leave_to(heir, ballot, effects);
        }
    }

    /// The lease is given back: from here on this replica answers no read, and says so to the heir,
    /// who tells the others with its prepare. For a while it stands in nobody else's favour.
    pub(super) fn leave_to(&mut self, heir: NodeId, ballot: Ballot, effects: &mut Vec<Effect>) {
        let round = ballot.round.saturating_add(1);
        self.bound = self.host.grant(Ballot { round, node: heir });
        self.send_under(ballot, heir, Body::HandOver, effects);
    }

    /// Whether only this master's own disk keeps values from being decided: it hangs, and others,
    /// enough to elect one of them and to save a value, have on disk what it lacks. Where nobody
    /// could take over, or nothing is held up, a master goes on, and answers reads.
    pub(super) fn holds_up_others(&self) -> bool {
        if !self.host.hangs || !self.stage.replicates() {
            return false;
        }
        let mut others = self.ahead();
        let leads = |follower: &Follower| self.membership.configuration.leads(follower.node);
        others.clone().count() >= self.membership.configuration.quorums().most()
            && others.any(leads)
    }

    /// Voters that have on disk what this one, their master, has not.
    fn ahead(&self) -> impl Iterator<Item = &Follower> + Clone {
        self.lead.followers.iter().filter(|follower| {
            self.membership.configuration.votes(follower.node) && follower.saved > self.log.synced
        })
    }

    /// The one that can lead and has most; of equals the one that was heard last.
    fn best_heir<'a>(&self, some: impl Iterator<Item = &'a Follower>) -> Option<NodeId> {
        let heirs = some.filter(|follower| self.membership.configuration.leads(follower.node));
        let best = heirs.max_by_key(|follower| (follower.saved, follower.moved, follower.node));
        best.map(|follower| follower.node)
    }

    /// Leaves the lead without having decided what is in flight, to the voter that has most of it.
    /// Nothing hangs on what that one has: like anyone who stands it asks for promises, and takes
    /// over whatever may have been decided. Only the lease is given back, as in a hand-over, so
    /// that nobody waits for its end.
    pub(super) fn resign(&mut self, effects: &mut Vec<Effect>) {
        let heir = self.best_heir(self.ahead());
        let ballot = self.ballots.promised;
        self.follow(effects);
        if let Some(heir) = heir {
            self.leave_to(heir, ballot, effects);
        }
    }

    /// Ends a reign that no majority hears any more, and leaves it to others, where others can
    /// lead. What was said to them before may arrive late and bind them anew: so one of them is
    /// told that the lease is over, and this one seeks no master for some rounds of theirs. One
    /// whose cables come and go would else be master again and again, for a moment each time.
    pub(super) fn leave_to_others(&mut self, effects: &mut Vec<Effect>) {
        let followers = self.lead.followers.iter();
        let voters =
            followers.filter(|follower| self.membership.configuration.votes(follower.node));
        let (heir, ballot) = (self.best_heir(voters), self.ballots.promised);
        self.follow(effects);
        if let Some(heir) = heir {
            self.election.left_until = self.host.after(self.host.clock.patience());
            self.send_under(ballot, heir, Body::HandOver, effects);
        }
    }

    /// The master gives its place to us.
    pub(super) fn inherit(&mut self, from: NodeId, ballot: Ballot, effects: &mut Vec<Effect>) {
        let may_lead = self.may_lead();
        let ready = self.stage == ReplicaStage::Following && self.log.ballot == ballot;
        if ballot.node == from && ballot == self.ballots.promised && may_lead && ready {
            self.bound = LeaseBound::default();
            self.stand(ballot, effects);
        }
    }

    /// The end of a life on purpose: a master first finishes what is in flight.
    pub(super) fn retire(&mut self, effects: &mut Vec<Effect>) {
        match self.stage {
            ReplicaStage::Leading if self.log.decided < self.log.last => {
                self.stage = ReplicaStage::Retiring
            }
            ReplicaStage::Retiring | ReplicaStage::Retired => {}
            _ => self.leave(effects),
        }
    }

    /// Nothing of ours is in flight any more: give mastership, if we have it, and the lease back.
    pub(super) fn leave(&mut self, effects: &mut Vec<Effect>) {
        let led = matches!(self.stage, ReplicaStage::Leading | ReplicaStage::Retiring);
        let last = self.log.last;
        let level = self.lead.followers.iter().filter(|follower| {
            let leads = self.membership.configuration.leads(follower.node);
            leads && follower.saved == Some(last)
        });
        let heir = level.max_by_key(|follower| (follower.moved, follower.node));
        let heir = heir.filter(|_| led).map(|follower| follower.node);
        self.log.record_decided(effects);
        self.stage = ReplicaStage::Retired;
        let ballot = self.ballots.promised;
        self.follow(effects);
        if let Some(heir) = heir {
            self.leave_to(heir, ballot, effects);
        }
    }
}
