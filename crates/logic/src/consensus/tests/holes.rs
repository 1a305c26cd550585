//! Logs with holes: a mended log equals the undamaged one, and a log that can't be proven complete
//! is refused.

use crate::consensus::replay::ReplayResult;
use crate::consensus::{Replay, ReplayError};
use base::{Ballot, LogIndex, NodeId};
use proptest::prelude::*;

/// Record of a group in a log.
#[derive(Clone, Debug)]
enum Record {
    Promise(Ballot),
    Stage(LogIndex, Ballot, u64),
    Adopt(Ballot, LogIndex, LogIndex),
    Accept(LogIndex, Ballot, LogIndex, u64),
    Decided(LogIndex),
}

/// Event of an acceptor that writes a log.
#[derive(Clone, Copy, Debug)]
enum AcceptorEvent {
    /// The leader's next entry; this many accepted entries are known to be decided then.
    Accept(u64),
    /// A new leader: this many undecided entries are kept, and this many others adopted.
    Lead(u64, u64),
    /// A new leader that gets no further than a promise.
    Promise,
    Decide(u64),
    /// The log restates the state that exists only in it.
    State,
}

fn acceptor_event() -> impl Strategy<Value = AcceptorEvent> {
    prop_oneof![
        10 => (0..4_u64).prop_map(AcceptorEvent::Accept),
        2 => ((0..3_u64), (0..4_u64)).prop_map(|(keep, staged)| AcceptorEvent::Lead(keep, staged)),
        1 => Just(AcceptorEvent::Promise),
        2 => (0..3_u64).prop_map(AcceptorEvent::Decide),
        2 => Just(AcceptorEvent::State),
    ]
}

/// Acceptor that writes a log.
#[derive(Default)]
struct Acceptor {
    promised: Ballot,
    accepted: Ballot,
    /// Entries of the indexes 1, 2, ...
    values: Vec<u64>,
    decided: u64,
    last_value: u64,
    log: Vec<Record>,
}

impl Acceptor {
    fn last(&self) -> LogIndex {
        LogIndex(self.values.len() as u64)
    }

    fn next_value(&mut self) -> u64 {
        self.last_value += 1;
        self.last_value
    }

    fn decide(&mut self, more: u64) {
        self.decided = self.decided.saturating_add(more).min(self.values.len() as u64);
    }

    fn apply(&mut self, event: AcceptorEvent) {
        match event {
            AcceptorEvent::Accept(more) => {
                if self.promised != self.accepted || self.promised == Ballot::default() {
                    return;
                }
                self.decide(more);
                let value = self.next_value();
                self.values.push(value);
                let decided = LogIndex(self.decided.min(self.last().0 - 1));
                self.log.push(Record::Accept(self.last(), self.accepted, decided, value));
            }
            AcceptorEvent::Lead(keep, staged) => {
                self.apply(AcceptorEvent::Promise);
                let ballot = self.promised;
                let from = LogIndex((self.decided + keep).min(self.values.len() as u64));
                self.values.truncate(from.0 as usize);
                for _ in 0..staged {
                    let value = self.next_value();
                    self.values.push(value);
                    self.log.push(Record::Stage(self.last(), ballot, value));
                }
                self.accepted = ballot;
                self.log.push(Record::Adopt(ballot, from, self.last()));
            }
            AcceptorEvent::Promise => {
                self.promised = Ballot { round: self.promised.round + 1, node: NodeId(1) };
                self.log.push(Record::Promise(self.promised));
            }
            AcceptorEvent::Decide(more) => {
                self.decide(more);
                self.log.push(Record::Decided(LogIndex(self.decided)));
            }
            AcceptorEvent::State => {
                self.log.push(Record::Promise(self.promised));
                self.log.push(Record::Adopt(self.accepted, self.last(), self.last()));
                self.log.push(Record::Decided(LogIndex(self.decided)));
            }
        }
    }
}

fn replay_record(replay: &mut Replay<u64>, record: &Record) -> Result<(), ReplayError> {
    match record.clone() {
        Record::Promise(ballot) => replay.replay_promise(ballot),
        Record::Stage(index, ballot, value) => replay.replay_staged(index, ballot, value),
        Record::Adopt(ballot, from, last) => replay.replay_adoption(ballot, from, last)?,
        Record::Accept(index, ballot, decided, value) => {
            replay.replay_accepted(index, ballot, decided, value)?;
        }
        Record::Decided(last) => replay.replay_decided(last),
    }
    Ok(())
}

/// Replays a log in which these ranges are unreadable; restores their decided entries, at the end
/// or at each hole. Also returns the entries taken out early.
fn read(
    acceptor: &Acceptor,
    applied: u64,
    holes: &[std::ops::Range<usize>],
    at_each_hole: bool,
) -> Result<(Vec<u64>, ReplayResult<u64>), Option<ReplayError>> {
    let (mut lost, mut early) = (Vec::new(), Vec::new());
    for mends in if at_each_hole { vec![false, true] } else { vec![true] } {
        let mut replay = Replay::new(LogIndex(applied));
        early.clear();
        for (place, record) in acceptor.log.iter().enumerate() {
            if holes.iter().any(|hole| hole.contains(&place)) {
                continue;
            }
            if holes.iter().any(|hole| hole.end == place && !hole.is_empty()) {
                replay.replay_hole();
                lost.iter().for_each(|(index, value)| replay.mend(*index, *value));
            }
            replay_record(&mut replay, record).map_err(Some)?;
            while let Some((_, value)) = replay.next_decided() {
                early.push(value);
            }
        }
        if holes.iter().any(|hole| hole.end == acceptor.log.len() && !hole.is_empty()) {
            replay.replay_hole();
        }
        if !at_each_hole || !mends {
            lost.clear();
            for (first, last) in replay.missing() {
                for index in first.0..=last.0 {
                    let value = acceptor.values.get(index as usize - 1);
                    let known = value.filter(|_| index <= acceptor.decided);
                    let Some(value) = known else { return Err(None) };
                    lost.push((LogIndex(index), *value));
                }
            }
        }
        if mends {
            lost.iter().for_each(|(index, value)| replay.mend(*index, *value));
            while let Some((_, value)) = replay.next_decided() {
                early.push(value);
            }
            return replay.finish().map(|found| (early, found)).map_err(Some);
        }
    }
    unreachable!("the last round gives")
}

fn acceptor(events: Vec<AcceptorEvent>) -> Acceptor {
    let mut acceptor = Acceptor::default();
    acceptor.apply(AcceptorEvent::Lead(0, 0));
    events.into_iter().for_each(|event| acceptor.apply(event));
    acceptor
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn mended_log_replays_like_undamaged_log(
        events in prop::collection::vec(acceptor_event(), 1..40),
        cuts in prop::collection::vec((0..100_usize, 1..6_usize), 1..3),
        applied in 0..100_u64,
        at_each_hole in any::<bool>(),
    ) {
        let acceptor = acceptor(events);
        let applied = if acceptor.decided == 0 { 0 } else { applied % (acceptor.decided + 1) };
        let mut holes: Vec<_> = cuts.iter().map(|(from, length)| {
            let from = from % acceptor.log.len();
            from..(from + length).min(acceptor.log.len())
        }).collect();
        holes.sort_by_key(|hole| hole.start);
        if holes.len() == 2 && holes[0].end >= holes[1].start {
            holes.pop();
        }
        let undamaged = read(&acceptor, applied, &[], false).expect("nothing is damaged");
        match read(&acceptor, applied, &holes, at_each_hole) {
            Ok(mended) => prop_assert_eq!(
                observed_state(&mended, &acceptor),
                observed_state(&undamaged, &acceptor)
            ),
            // An undecided entry was lost, or the log does not state that nothing else was.
            Err(None) => {}
            Err(Some(error)) => {
                let restated = is_restated(&acceptor.log[holes.last().expect("one").end..]);
                prop_assert_eq!((error, restated), (ReplayError::StateLost, false));
            }
        }
    }

    #[test]
    fn hole_followed_by_restated_state_is_always_mended(
        events in prop::collection::vec(acceptor_event(), 1..40),
        later in prop::collection::vec(acceptor_event(), 0..10),
        from in 0..100_usize,
        length in 1..6_usize,
    ) {
        let mut acceptor = acceptor(events);
        acceptor.decide(u64::MAX);
        let from = from % acceptor.log.len();
        let hole = from..(from + length).min(acceptor.log.len());
        acceptor.apply(AcceptorEvent::State);
        later.into_iter().for_each(|event| acceptor.apply(event));
        acceptor.decided = acceptor.values.len() as u64;
        let undamaged = read(&acceptor, 0, &[], false).expect("nothing is damaged");
        let mended = read(&acceptor, 0, &[hole], true);
        let mended = mended.expect("it is all decided, and the log says so");
        prop_assert_eq!(observed_state(&mended, &acceptor), observed_state(&undamaged, &acceptor));
    }
}

/// Returns everything that a replica would rely on: its decided index may be lower, never wrong.
fn observed_state(
    (early, found): &(Vec<u64>, ReplayResult<u64>),
    acceptor: &Acceptor,
) -> (Vec<u64>, Ballot, Ballot, LogIndex) {
    assert!(found.decided.0 <= acceptor.decided, "{found:?}");
    let values = early.iter().chain(found.tail.values()).copied().collect();
    (values, found.promised, found.accepted_ballot, found.last)
}

fn is_restated(rest: &[Record]) -> bool {
    let promise = rest.iter().any(|record| matches!(record, Record::Promise(_)));
    promise && rest.iter().any(|record| matches!(record, Record::Adopt(..)))
}
