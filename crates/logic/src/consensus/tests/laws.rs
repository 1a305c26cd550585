//! Laws of one replica: random incarnations with crashes, checked by a judge that keeps a ledger of
//! all that was ever decided.

use super::machine::{Identity, Machine, NODE, Record};
use crate::consensus::quorum::{Quorums, VoterTally};
use crate::consensus::{
    Configuration, Effect, Event, LeaseClock, ReadToken, Replay, Replica, RestoredState, Role, Tear,
};
use base::{Ballot, ConfigurationId, LogIndex, Millis, NodeId};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Random event.
#[derive(Clone, Copy, Debug)]
enum RandomEvent {
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

fn random_event() -> impl Strategy<Value = RandomEvent> {
    prop_oneof![
        20 => Just(RandomEvent::Propose),
        18 => (1..6_usize).prop_map(RandomEvent::Sync),
        20 => Just(RandomEvent::Deliver),
        2 => (0..20_usize).prop_map(RandomEvent::Repeat),
        3 => Just(RandomEvent::Tick),
        5 => Just(RandomEvent::Read),
        3 => Just(RandomEvent::Flush),
        2 => Just(RandomEvent::Copy),
        2 => Just(RandomEvent::Collapse),
        1 => Just(RandomEvent::Retire),
        4 => (0..6_usize).prop_map(RandomEvent::Crash),
    ]
}

/// Judge that sees everything, across all incarnations.
#[derive(Default)]
struct Judge {
    /// Every entry ever decided, by index.
    ledger: Vec<u64>,
    /// Ballot of the last master.
    last_ballot: Ballot,
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
                assert_eq!(ballot, self.last_ballot, "only the master saves, under its own ballot");
                assert_eq!(index.next(), machine.replica.next());
                assert!(index.0 > self.ledger.len() as u64, "decided values stay");
            }
            Effect::Decided { last } => {
                assert!(last > self.decided, "a life decides forwards");
                self.decided = last;
                for place in 0..last.0 as usize {
                    let value = machine.values[place];
                    match self.ledger.get(place) {
                        Some(decided) => assert_eq!(*decided, value, "one value at one index"),
                        None => self.ledger.push(value),
                    }
                    assert!(machine.holds(place, value), "decided before it was saved");
                }
            }
            Effect::Role { role: Role::Master, ballot, .. } => {
                assert!(ballot > self.last_ballot, "a ballot is led once");
                assert!(self.decided.0 as usize >= self.ledger.len(), "nothing left to settle");
                self.last_ballot = ballot;
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

fn run_events(events: &[RandomEvent]) -> Judge {
    let mut judge = Judge::default();
    let mut machine = Machine::fresh(Identity::sole_member());
    let mut completions = VecDeque::new();
    judge.start(&mut machine);
    for random in events {
        judge.now.0 += 7;
        let now = judge.now;
        match *random {
            RandomEvent::Propose => {
                let size = crate::consensus::EntrySize { bytes: 10, updates: 1 };
                judge.step(&mut machine, Event::Propose { size });
            }
            RandomEvent::Sync(count) => completions.extend(machine.sync(count)),
            RandomEvent::Deliver => {
                if let Some(event) = completions.pop_front() {
                    judge.delivered.push(event.clone());
                    judge.step(&mut machine, event);
                }
            }
            RandomEvent::Repeat(place) => {
                if let Some(event) = judge.delivered.get(place).cloned() {
                    judge.step(&mut machine, event);
                }
            }
            RandomEvent::Tick => judge.step(&mut machine, Event::Tick { now }),
            RandomEvent::Read => {
                judge.reads += 1;
                judge.step(&mut machine, Event::Read { token: ReadToken(judge.reads), now });
            }
            RandomEvent::Flush => machine.flush(),
            RandomEvent::Copy => machine.copy(),
            RandomEvent::Collapse => {
                machine.collapse();
            }
            RandomEvent::Retire => judge.step(&mut machine, Event::Retire),
            RandomEvent::Crash(kept) => {
                machine = machine.crash(kept, Identity::sole_member());
                completions.clear();
                judge.start(&mut machine);
            }
        }
    }
    // The last incarnation is left undisturbed: it must lead, and hold all that was ever decided.
    machine = machine.crash(0, Identity::sole_member());
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
        (small_ballot(), index(), index()).prop_map(|(ballot, from, last)| Record::Adopt(
            ballot,
            from.min(last),
            last
        )),
        (index(), small_ballot()).prop_map(|(at, ballot)| Record::Stage(at, ballot, at.0)),
        (index(), small_ballot(), index())
            .prop_map(|(at, ballot, decided)| { Record::Accept(at, ballot, decided, at.0) }),
        index().prop_map(Record::Decided),
        index().prop_map(|at| Record::Torn(Tear(at.0))),
        index().prop_map(|at| Record::OpenTear((at.0 > 2).then_some(Tear(at.0)))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn decided_entries_survive_random_crashes_of_single_replica(
        events in prop::collection::vec(random_event(), 0..250),
    ) {
        let judge = run_events(&events);
        prop_assert!(judge.masters > 0);
    }

    #[test]
    fn arbitrary_records_replay_to_error_or_valid_replica(
        applied in 0..4_u64,
        records in prop::collection::vec(record(), 0..12),
    ) {
        let mut replay = Replay::new(LogIndex(applied));
        let mut replayed = Ok(());
        for record in records {
            replayed = replayed.and_then(|()| match record {
                Record::Promise(ballot) => { replay.replay_promise(ballot); Ok(()) }
                Record::Adopt(ballot, from, last) => replay.replay_adoption(ballot, from, last),
                Record::Stage(at, ballot, v) => { replay.replay_staged(at, ballot, v); Ok(()) }
                Record::Accept(at, ballot, decided, value) => {
                    replay.replay_accepted(at, ballot, decided, value)
                }
                Record::Decided(last) => { replay.replay_decided(last); Ok(()) }
                Record::Torn(tear) => { replay.replay_torn_tail(tear); Ok(()) }
                Record::OpenTear(tear) => { replay.replay_open_tear(tear); Ok(()) }
            });
            replay.next_decided();
        }
        if let Ok(found) = replayed.and_then(|()| replay.finish()) {
            let replica = Replica::restore(RestoredState {
                node: NODE,
                configuration: Configuration::single_member(ConfigurationId(0), NODE)
                    .expect("sound"),
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
    fn voter_tally_matches_sorted_marks_and_quorums_intersect(
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
        prop_assert!(quorums.required_connected() <= marks.len(), "all together are enough");
    }
}
