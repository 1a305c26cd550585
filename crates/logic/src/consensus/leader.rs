//! The replica that leads, or tries to: prepare, adopt, replicate, decide.

use super::effect::{Effect, Refusal, RefusedCall};
use super::event::ValueHandle;
use super::lead::{Phase, Promised};
use super::log::Staging;
use super::message::{Accepted, Body};
use super::replica::{Replica, ReplicaStage};
use super::rules::{Rule, broken};
use super::tear::Tear;
use base::{Ballot, LogIndex, NodeId};

impl Replica {
    /// Prepare: promise a ballot above all seen; the others are asked once that is on disk, so that
    /// no round is ever used twice.
    pub(super) fn stand(&mut self, released: Ballot, effects: &mut Vec<Effect>) {
        // None is left where somebody was heard with the last: see `lacks_ballots`.
        let Some(ballot) = self.next_ballot() else { return };
        self.election.rest();
        self.leader = None;
        self.log.unstage();
        self.stage = ReplicaStage::Promising;
        self.released = released;
        self.lead.begin(self.host.now, self.host.after_leases(1));
        self.ballots.promise(ballot, effects);
        self.announce(effects);
        if broken(Rule::OwnPromiseOnDisk) {
            self.prepare(effects);
        }
    }

    /// The lowest ballot of this replica above all that it has promised or heard of; none: there
    /// is none any more in this configuration.
    pub(super) fn next_ballot(&self) -> Option<Ballot> {
        self.ballots.next(self.host.node, self.membership.configuration.id())
    }

    /// Our own promise is on disk: ask the others for theirs.
    pub(super) fn prepare(&mut self, effects: &mut Vec<Effect>) {
        self.promise_to_self();
        for place in 0..self.lead.followers.len() {
            self.ask_promise(place, effects);
        }
        self.try_to_adopt(effects);
    }

    pub(super) fn ask_promise(&mut self, place: usize, effects: &mut Vec<Effect>) {
        let follower = &mut self.lead.followers[place];
        follower.phase = Phase::Asked;
        follower.moved = self.host.now;
        let (to, released) = (follower.node, self.released);
        self.send(to, Body::Prepare { released }, effects);
    }

    /// A promise for our ballot: one more for the majority, or a late one, whose member is now sent
    /// the log.
    pub(super) fn promise_came(
        &mut self,
        from: NodeId,
        log: Accepted,
        tear: Option<Tear>,
        effects: &mut Vec<Effect>,
    ) {
        match self.stage {
            ReplicaStage::Promising | ReplicaStage::Fetching => {
                self.lead.promised(Promised { node: from, log, torn: tear.is_some() });
                self.try_to_adopt(effects);
            }
            ReplicaStage::Adopting | ReplicaStage::Leading | ReplicaStage::Retiring => {
                if let Some(tear) = tear {
                    self.tear_came(from, log, tear, effects);
                }
                self.send_log(from, log, effects);
            }
            _ => {}
        }
    }

    /// With enough promises, take the log accepted under the highest ballot among them
    /// (Sequence Paxos; *Paxos Made Simple* P2c for every index at once). What of it is missing
    /// here is fetched first.
    pub(super) fn try_to_adopt(&mut self, effects: &mut Vec<Effect>) {
        if self.stage != ReplicaStage::Promising {
            return;
        }
        let counts = |node: NodeId| {
            self.membership.configuration.votes(node) || broken(Rule::LearnersElectNobody)
        };
        let promised = self.lead.promises.iter().filter(|it| counts(it.node)).count();
        if promised < self.membership.configuration.quorums().elect || !self.torn_logs_allow() {
            return;
        }
        let (best, source) = self.lead.best().expect("enough is somebody");
        let known = self.lead.promises.iter().map(|it| it.log.decided).max();
        self.log.learn_decided(self.ballots.promised, known.unwrap_or(self.log.decided));
        self.lead.base = best.ballot;
        let own = self.log.accepted();
        let longest = broken(Rule::HighestBallotFirst) && best.last <= own.last;
        let ours = longest || (best.ballot, best.last) <= (own.ballot, own.last);
        // Logs accepted under one ballot are beginnings of each other; logs accepted under
        // different ballots share what is decided.
        let from = if ours || best.ballot == own.ballot { own.last } else { own.decided };
        let upto = if ours { own.last } else { best.last };
        self.stage = ReplicaStage::Fetching;
        self.lead.source = Some(source);
        let ballot = self.ballots.promised;
        self.log.staging = Some(Staging::new(ballot, from, upto));
        if from == upto {
            return self.adopt_staged(effects); // What is voided here, that log never had.
        }
        self.fetch(effects);
    }

    fn fetch(&mut self, effects: &mut Vec<Effect>) {
        let (Some(source), Some(staging)) = (self.lead.source, &self.log.staging) else { return };
        self.lead.ends = self.host.after_leases(1);
        self.send(source, Body::Fetch { after: staging.have }, effects);
    }

    /// Some of the missing values came.
    pub(super) fn fetched(
        &mut self,
        from: NodeId,
        after: LogIndex,
        upto: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        if self.stage != ReplicaStage::Fetching || self.lead.source != Some(from) {
            return;
        }
        self.log.stage(after, upto, effects);
        match &self.log.staging {
            Some(staging) if staging.is_complete() => self.adopt_staged(effects),
            _ => self.fetch(effects),
        }
    }

    /// From here on the log counts as accepted under our ballot, here and wherever it is sent.
    fn adopt_staged(&mut self, effects: &mut Vec<Effect>) {
        self.log.adopt(effects);
        self.stage = ReplicaStage::Adopting;
        self.lead.adopted = self.log.last;
        self.lead.ends = self.host.after_leases(1);
        self.awaited = None;
        if self.lead.uncertain {
            effects.push(Effect::MayLack { behind: self.log.last });
        }
        for Promised { node, log, .. } in self.lead.promises.clone() {
            if node != self.host.node {
                self.send_log(node, log, effects);
            }
        }
        self.beat(effects);
    }

    /// A member has the log on disk up to here.
    pub(super) fn accepted_by(&mut self, from: NodeId, upto: LogIndex, effects: &mut Vec<Effect>) {
        if !self.stage.replicates() || upto > self.log.last {
            return;
        }
        let now = self.host.now;
        let Some(follower) = self.lead.follower(from) else { return };
        if follower.saved < Some(upto) {
            follower.saved = Some(upto);
            follower.moved = now;
        }
        follower.sent = follower.sent.max(upto);
        if follower.phase == Phase::Behind {
            follower.phase = Phase::Streaming;
        }
        self.lead.saved.raise(from, upto);
        self.decide(effects);
        self.pump(from, effects);
        self.try_to_hand_over(effects);
    }

    /// A member missed something: go on where it stopped.
    pub(super) fn gap(&mut self, from: NodeId, last: LogIndex, effects: &mut Vec<Effect>) {
        let (now, again) = (self.host.now, self.host.after(self.host.clock.beat()));
        let Some(follower) = self.lead.follower(from) else { return };
        let possible = follower.saved.unwrap_or(follower.from) <= last && last < follower.sent;
        let told = follower.rewound.0 == last && now < follower.rewound.1;
        if follower.phase == Phase::Streaming && possible && !told {
            follower.rewound = (last, again);
            // Whoever was restarted has forgotten what it staged.
            (follower.sent, follower.staged) = (last, follower.staged.min(last));
            self.pump(from, effects);
        }
    }

    /// The way to a member was full: what was not sent is sent later.
    pub(super) fn unsent(&mut self, to: NodeId, after: LogIndex) {
        let Some(follower) = self.lead.follower(to) else { return };
        if follower.phase == Phase::Streaming && after < follower.sent {
            follower.sent = after.max(follower.done());
        }
    }

    /// A value is decided once a majority has saved it under the master's ballot; since each voter
    /// saves in the order of the log, one mark per voter says it all (Sequence Paxos).
    pub(super) fn decide(&mut self, effects: &mut Vec<Effect>) {
        let Some(saved) = self.lead.saved.agreed() else { return };
        let agreed = saved.min(self.log.synced.unwrap_or(self.log.decided));
        if self.log.decide(agreed, effects) && agreed == self.log.last {
            self.send_all(Body::Decide { upto: agreed }, effects);
        }
        match self.stage {
            // What earlier masters may have decided is decided again, under our ballot, before
            // anyone may read or write; our own disk must have it, too.
            ReplicaStage::Adopting if saved.min(self.log.decided) >= self.lead.adopted => {
                self.stage = ReplicaStage::Leading;
                self.advance_clock(self.host.now);
                self.announce(effects);
            }
            ReplicaStage::Retiring if self.log.decided == self.log.last => self.leave(effects),
            _ => self.lead.window.land(self.log.undecided()),
        }
        self.pass_signs(effects);
    }

    /// The master gives the value the next index and lets it fly beside those before it: an index
    /// may be decided only after all before it are, so no gap can open (Sequence Paxos).
    pub(super) fn propose(&mut self, value: ValueHandle, effects: &mut Vec<Effect>) {
        if let Err(reason) = self.admits(value) {
            effects.push(Effect::Refused { asked: RefusedCall::Propose, reason });
            return;
        }
        let index = self.log.last.next();
        self.log.append(index, effects);
        self.lead.window.push(value);
        if broken(Rule::MasterCountsItsDisk) {
            self.lead.saved.raise(self.host.node, index);
            self.log.synced = Some(index);
        }
        self.pump_all(effects);
    }

    /// Whether one more value may be proposed.
    pub(super) fn admits(&self, value: ValueHandle) -> Result<(), Refusal> {
        self.leads()?;
        match self.stage {
            ReplicaStage::Retiring => Err(Refusal::Retiring),
            _ if self.lead.heir.is_some() => Err(Refusal::HandingOver),
            _ if !self.log.signs.is_empty() => Err(Refusal::Reconfiguring),
            _ => self.lead.window.admits(value),
        }
    }

    /// Somebody has promised another ballot than ours.
    pub(super) fn refused(&mut self, from: NodeId, promised: Ballot, effects: &mut Vec<Effect>) {
        let (now, pause) = (self.host.now.0, self.host.clock.beat());
        if promised > self.ballots.promised {
            // It will never again listen to this ballot. A master stands again, above it: its
            // lease is its own, and whoever granted it lets its holder pass.
            return match self.stage {
                ReplicaStage::Promising | ReplicaStage::Fetching => self.follow(effects),
                ReplicaStage::Adopting | ReplicaStage::Leading => {
                    self.follow(effects);
                    if !self.host.hangs {
                        self.stand(Ballot::default(), effects);
                    }
                }
                _ => {}
            };
        }
        if promised == self.ballots.promised || !self.stage.replicates() {
            return;
        }
        let Some(place) = self.lead.place(from) else { return };
        if now >= self.lead.followers[place].moved.0.saturating_add(pause) {
            self.ask_promise(place, effects);
        }
    }

    /// What time brings to a master and to whoever tries to become one.
    pub(super) fn lead_on(&mut self, effects: &mut Vec<Effect>) {
        if self.stage.attempts() && (self.host.now >= self.lead.ends || self.host.hangs) {
            return self.follow(effects);
        }
        if self.holds_up_others() {
            return self.resign(effects);
        }
        if self.awaited.is_some() {
            self.try_to_adopt(effects);
        }
        if self.stage.replicates() {
            let heard = self.lead.contact.agreed().unwrap_or(self.lead.ends);
            // It hears no majority: others may lead already.
            if self.host.now.0
                > heard.0.max(self.lead.ends.0).saturating_add(self.host.clock.length.0)
            {
                return self.leave_to_others(effects);
            }
            if self.host.now >= self.lead.next_beat {
                self.beat(effects);
            }
        }
        self.insist(effects);
        self.give_up_heir();
    }

    /// Says again, or asks about, what was not answered for long.
    fn insist(&mut self, effects: &mut Vec<Effect>) {
        let (now, patience, last) = (self.host.now, self.host.clock.patience(), self.log.last);
        for place in 0..self.lead.followers.len() {
            let adopted = self.lead.adopted;
            let follower = &mut self.lead.followers[place];
            if now.0 < follower.moved.0.saturating_add(patience) {
                continue;
            }
            let to = follower.node;
            match follower.phase {
                Phase::Asked if self.ballots.is_saved() => {
                    self.ask_promise(place, effects);
                }
                Phase::Asked => {}
                Phase::Behind => {
                    follower.moved = now;
                    self.send(to, Body::Behind, effects);
                }
                Phase::Streaming if follower.saved >= Some(last) => {}
                // Values are large, and may only be slow: those that are on their way are not sent
                // again before it is known that they were lost.
                Phase::Streaming => {
                    follower.moved = now;
                    let (from, upto) = (follower.from, follower.sent);
                    let asks = upto > follower.done();
                    if follower.saved.is_none() {
                        self.send(to, Body::Adopt { from, upto: adopted.max(from) }, effects);
                    }
                    if asks {
                        self.send(to, Body::Sent { upto }, effects);
                    }
                    self.pump(to, effects);
                }
            }
        }
        if self.stage == ReplicaStage::Fetching {
            // An answer was lost, or never asked for.
            let late = self.lead.ends.0.saturating_sub(self.host.clock.length.0 / 2) <= now.0;
            if let (true, Some(source), Some(staging)) = (late, self.lead.source, &self.log.staging)
            {
                self.send(source, Body::Fetch { after: staging.have }, effects);
            }
        }
    }
}
