//! Laws of one replica: random incarnations with crashes, checked by a judge that keeps a ledger of
//! all that was ever decided.

use super::machine::{Identity, Machine, NODE, Record};
use crate::consensus::quorum::{Quorums, VoterTally};
use crate::consensus::{
    Configuration, Effect, Event, LeaseClock, ReadToken, Replay, Replica, Restored, Role, Tear,
};
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Random event.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Propose,
    /// Sync of this many records; the replica is not notified yet.
    Sync(usize),
    /// The oldest completion of the log arrives.
    Deliver,
    /// A completion that arrived before, perhaps in an earlier incarnation, arrives again.
    Repeat(usize),
    Tick,
    Read,
    Flush,
    Copy,
    Collapse,
    Retire,
    /// The node crashes and restarts; this many of the unsynced records stay.
    Crash(usize),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        20 => Just(Happening::Propose),
        18 => (1..6_usize).prop_map(Happening::Sync),
        20 => Just(Happening::Deliver),
        2 => (0..20_usize).prop_map(Happening::Repeat),
        3 => Just(Happening::Tick),
        5 => Just(Happening::Read),
        3 => Just(Happening::Flush),
        2 => Just(Happening::Copy),
        2 => Just(Happening::Collapse),
        1 => Just(Happening::Retire),
        4 => (0..6_usize).prop_map(Happening::Crash),
    ]
}

/// Judge that sees everything, across all incarnations.
#[derive(Default)]
struct Judge {
    /// Every entry ever decided, by index.
    ledger: Vec<u64>,
    /// Ballot of the last master.
    reign: Ballot,
    /// Last decided index reported in the current incarnation.
    decided: LogIndex,
    /// Every completion of the log that was delivered.
    delivered: Vec<Event>,
    now: Millis,
    reads: u64,
    masters: usize,
}

impl Judge {
    /// Passes an event to the machine, and checks its effects.
    fn step(&mut self, machine: &mut Machine, event: Event) {
        let mut twin = machine.replica.clone();
        let mut twin_effects = Vec::new();
        twin.step(event.clone(), &mut twin_effects);
        let effects = machine.step(event).to_vec();
        assert_eq!(effects, twin_effects, "the same replica does the same");
        assert_eq!(machine.replica, twin);
        assert_eq!(digest(&machine.replica), digest(&twin));
        for effect in effects {
            self.judge(machine, effect);
        }
    }

    fn judge(&mut self, machine: &Machine, effect: Effect) {
        match effect {
            Effect::Save { index, ballot, .. } => {
                assert_eq!(ballot, self.reign, "only the master saves, under its own ballot");
                assert_eq!(index.next(), machine.replica.next());
                assert!(index.0 > self.ledger.len() as u64, "decided values stay");
            }
            Effect::Decided { upto } => {
                assert!(upto > self.decided, "a life decides forwards");
                self.decided = upto;
                for place in 0..upto.0 as usize {
                    let value = machine.values[place];
                    match self.ledger.get(place) {
                        Some(decided) => assert_eq!(*decided, value, "one value at one index"),
                        None => self.ledger.push(value),
                    }
                    assert!(machine.holds(place, value), "decided before it was saved");
                }
            }
            Effect::Role { role: Role::Master, ballot, .. } => {
                assert!(ballot > self.reign, "a ballot is led once");
                assert!(self.decided.0 as usize >= self.ledger.len(), "nothing left to settle");
                self.reign = ballot;
                self.masters += 1;
            }
            Effect::ReadAt { index, .. } => {
                assert_eq!(index.0 as usize, self.ledger.len(), "all that was decided is seen");
            }
            _ => {}
        }
    }

    fn start(&mut self, machine: &mut Machine) {
        self.decided = LogIndex(0);
        let promised = machine.replica.promised();
        self.step(machine, Event::Started { now: self.now });
        assert!(machine.replica.promised() > promised, "each life goes above the last");
    }
}

fn digest(replica: &Replica) -> u64 {
    let mut hasher = DefaultHasher::new();
    replica.hash(&mut hasher);
    hasher.finish()
}

fn live(happenings: &[Happening]) -> Judge {
    let mut judge = Judge::default();
    let mut machine = Machine::fresh(Identity::alone());
    let mut answers = VecDeque::new();
    judge.start(&mut machine);
    for happening in happenings {
        judge.now.0 += 7;
        let now = judge.now;
        match *happening {
            Happening::Propose => {
                let value = crate::consensus::ValueHandle { bytes: 10, updates: 1 };
                judge.step(&mut machine, Event::Propose { value });
            }
            Happening::Sync(count) => answers.extend(machine.sync(count)),
            Happening::Deliver => {
                if let Some(event) = answers.pop_front() {
                    judge.delivered.push(event.clone());
                    judge.step(&mut machine, event);
                }
            }
            Happening::Repeat(which) => {
                if let Some(event) = judge.delivered.get(which).cloned() {
                    judge.step(&mut machine, event);
                }
            }
            Happening::Tick => judge.step(&mut machine, Event::Tick { now }),
            Happening::Read => {
                judge.reads += 1;
                judge.step(&mut machine, Event::Read { token: ReadToken(judge.reads), now });
            }
            Happening::Flush => machine.flush(),
            Happening::Copy => machine.copy(),
            Happening::Collapse => {
                machine.collapse();
            }
            Happening::Retire => judge.step(&mut machine, Event::Retire),
            Happening::Crash(kept) => {
                machine = machine.crash(kept, Identity::alone());
                answers.clear();
                judge.start(&mut machine);
            }
        }
    }
    // The last incarnation is left undisturbed: it must lead, and hold all that was ever decided.
    machine = machine.crash(0, Identity::alone());
    judge.start(&mut machine);
    for _ in 0..2 {
        for event in machine.sync(machine.records.len()) {
            judge.step(&mut machine, event);
        }
    }
    assert_eq!(machine.replica.role(), Role::Master, "left in peace, it leads");
    assert_eq!(machine.replica.decided(), machine.replica.last(), "nothing stays undecided");
    assert_eq!(machine.values, judge.ledger, "what was decided outlives all crashes");
    judge
}

fn small_ballot() -> impl Strategy<Value = Ballot> {
    (0..4_u64).prop_map(|round| Ballot { round, node: NODE })
}

/// Any record, also such as no replica would write.
fn record() -> impl Strategy<Value = Record> {
    let index = || (0..6_u64).prop_map(LogIndex);
    prop_oneof![
        small_ballot().prop_map(Record::Promise),
        (small_ballot(), index(), index()).prop_map(|(ballot, from, upto)| Record::Adopt(
            ballot,
            from.min(upto),
            upto
        )),
        (index(), small_ballot()).prop_map(|(at, ballot)| Record::Stage(at, ballot, at.0)),
        (index(), small_ballot(), index())
            .prop_map(|(at, ballot, decided)| { Record::Accept(at, ballot, decided, at.0) }),
        index().prop_map(Record::Decided),
        index().prop_map(|at| Record::Torn(Tear(at.0))),
        index().prop_map(|at| Record::States((at.0 > 2).then_some(Tear(at.0)))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn no_life_loses_or_changes_what_was_decided(
        happenings in prop::collection::vec(happening(), 0..250),
    ) {
        let judge = live(&happenings);
        prop_assert!(judge.masters > 0);
    }

    #[test]
    fn any_records_are_an_error_or_a_replica(
        applied in 0..4_u64,
        records in prop::collection::vec(record(), 0..12),
    ) {
        let mut replay = Replay::new(LogIndex(applied));
        let mut shown = Ok(());
        for record in records {
            shown = shown.and_then(|()| match record {
                Record::Promise(ballot) => { replay.promised(ballot); Ok(()) }
                Record::Adopt(ballot, from, upto) => replay.adopted(ballot, from, upto),
                Record::Stage(at, ballot, v) => { replay.staged(at, ballot, v); Ok(()) }
                Record::Accept(at, ballot, decided, v) => replay.accepted(at, ballot, decided, v),
                Record::Decided(upto) => { replay.decided(upto); Ok(()) }
                Record::Torn(tear) => { replay.torn(tear); Ok(()) }
                Record::States(tear) => { replay.states(tear); Ok(()) }
            });
            replay.next_decided();
        }
        if let Ok(found) = shown.and_then(|()| replay.finish()) {
            let replica = Replica::restore(Restored {
                node: NODE,
                configuration: Configuration::alone(ConfigurationId(0), NODE).expect("sound"),
                base: LogIndex(0),
                signs: Vec::new(),
                promised: found.promised,
                accepted_ballot: found.accepted_ballot,
                last: found.last,
                decided: found.decided,
                tear: None,
                lease: LeaseClock::default(),
            });
            prop_assert!(replica.is_ok());
            prop_assert!(found.tail.keys().all(|index| *index <= found.last));
        }
    }

    #[test]
    fn enough_have_come_as_far_as_counting_says(
        marks in prop::collection::vec(prop::option::of(0..9_u64), 1..8),
        save in prop::option::of(1..8_u8),
    ) {
        let save = save.filter(|save| usize::from(*save) <= marks.len());
        let quorums = Quorums::of(marks.len(), save);
        let voters = || (1..=marks.len() as u64).map(NodeId);
        let mut tally = VoterTally::new(voters(), quorums.save);
        for (voter, mark) in voters().zip(&marks) {
            if let Some(mark) = mark {
                tally.raise(voter, *mark);
                tally.raise(voter, mark / 2);
            }
        }
        tally.raise(NodeId(99), 1_000);
        let mut sorted = marks.clone();
        sorted.sort_by(|one, other| other.cmp(one));
        prop_assert_eq!(tally.agreed(), sorted[quorums.save - 1]);
        prop_assert!(quorums.save + quorums.elect > marks.len(), "they share a voter");
        prop_assert!(2 * quorums.elect > marks.len(), "nobody else is elected beside");
        prop_assert!(quorums.most() <= marks.len(), "all together are enough");
    }
}
