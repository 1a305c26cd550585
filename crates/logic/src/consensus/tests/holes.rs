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

#[derive(Clone, Copy, Debug)]
enum Happening {
    /// The leader's next entry; this many accepted entries are known to be decided then.
    Accept(u64),
    /// A new leader: this many undecided entries are kept, and this many others adopted.
    Lead(u64, u64),
    /// A new leader that gets no further than a promise.
    Promise,
    Decide(u64),
    /// The log restates what is only there.
    State,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        10 => (0..4_u64).prop_map(Happening::Accept),
        2 => ((0..3_u64), (0..4_u64)).prop_map(|(keep, take)| Happening::Lead(keep, take)),
        1 => Just(Happening::Promise),
        2 => (0..3_u64).prop_map(Happening::Decide),
        2 => Just(Happening::State),
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
    fresh: u64,
    log: Vec<Record>,
}

impl Acceptor {
    fn last(&self) -> LogIndex {
        LogIndex(self.values.len() as u64)
    }

    fn fresh(&mut self) -> u64 {
        self.fresh += 1;
        self.fresh
    }

    fn decide(&mut self, more: u64) {
        self.decided = self.decided.saturating_add(more).min(self.values.len() as u64);
    }

    fn does(&mut self, happening: Happening) {
        match happening {
            Happening::Accept(more) => {
                if self.promised != self.accepted || self.promised == Ballot::default() {
                    return;
                }
                self.decide(more);
                let value = self.fresh();
                self.values.push(value);
                let decided = LogIndex(self.decided.min(self.last().0 - 1));
                self.log.push(Record::Accept(self.last(), self.accepted, decided, value));
            }
            Happening::Lead(keep, take) => {
                self.does(Happening::Promise);
                let ballot = self.promised;
                let from = LogIndex((self.decided + keep).min(self.values.len() as u64));
                self.values.truncate(from.0 as usize);
                for _ in 0..take {
                    let value = self.fresh();
                    self.values.push(value);
                    self.log.push(Record::Stage(self.last(), ballot, value));
                }
                self.accepted = ballot;
                self.log.push(Record::Adopt(ballot, from, self.last()));
            }
            Happening::Promise => {
                self.promised = Ballot { round: self.promised.round + 1, node: NodeId(1) };
                self.log.push(Record::Promise(self.promised));
            }
            Happening::Decide(more) => {
                self.decide(more);
                self.log.push(Record::Decided(LogIndex(self.decided)));
            }
            Happening::State => {
                self.log.push(Record::Promise(self.promised));
                self.log.push(Record::Adopt(self.accepted, self.last(), self.last()));
                self.log.push(Record::Decided(LogIndex(self.decided)));
            }
        }
    }
}

fn show(replay: &mut Replay<u64>, record: &Record) -> Result<(), ReplayError> {
    match record.clone() {
        Record::Promise(ballot) => replay.promised(ballot),
        Record::Stage(index, ballot, value) => replay.staged(index, ballot, value),
        Record::Adopt(ballot, from, upto) => replay.adopted(ballot, from, upto)?,
        Record::Accept(index, ballot, decided, value) => {
            replay.accepted(index, ballot, decided, value)?;
        }
        Record::Decided(upto) => replay.decided(upto),
    }
    Ok(())
}

/// Replays a log in which these ranges are unreadable; gives back the decided entries of them, at
/// the end or at each hole. Returns the entries taken out early, too.
fn read(
    acceptor: &Acceptor,
    applied: u64,
    holes: &[std::ops::Range<usize>],
    at_once: bool,
) -> Result<(Vec<u64>, ReplayResult<u64>), Option<ReplayError>> {
    let (mut lost, mut early) = (Vec::new(), Vec::new());
    for gives in if at_once { vec![false, true] } else { vec![true] } {
        let mut replay = Replay::new(LogIndex(applied));
        early.clear();
        for (place, record) in acceptor.log.iter().enumerate() {
            if holes.iter().any(|hole| hole.contains(&place)) {
                continue;
            }
            if holes.iter().any(|hole| hole.end == place && !hole.is_empty()) {
                replay.hole();
                lost.iter().for_each(|(index, value)| replay.mend(*index, *value));
            }
            show(&mut replay, record).map_err(Some)?;
            while let Some((_, value)) = replay.next_decided() {
                early.push(value);
            }
        }
        if holes.iter().any(|hole| hole.end == acceptor.log.len() && !hole.is_empty()) {
            replay.hole();
        }
        if !at_once || !gives {
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
        if gives {
            lost.iter().for_each(|(index, value)| replay.mend(*index, *value));
            while let Some((_, value)) = replay.next_decided() {
                early.push(value);
            }
            return replay.finish().map(|found| (early, found)).map_err(Some);
        }
    }
    unreachable!("the last round gives")
}

fn acceptor(happenings: Vec<Happening>) -> Acceptor {
    let mut acceptor = Acceptor::default();
    acceptor.does(Happening::Lead(0, 0));
    happenings.into_iter().for_each(|happening| acceptor.does(happening));
    acceptor
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn what_is_mended_is_what_would_be_there(
        happenings in prop::collection::vec(happening(), 1..40),
        cuts in prop::collection::vec((0..100_usize, 1..6_usize), 1..3),
        applied in 0..100_u64,
        at_once in any::<bool>(),
    ) {
        let acceptor = acceptor(happenings);
        let applied = if acceptor.decided == 0 { 0 } else { applied % (acceptor.decided + 1) };
        let mut holes: Vec<_> = cuts.iter().map(|(from, length)| {
            let from = from % acceptor.log.len();
            from..(from + length).min(acceptor.log.len())
        }).collect();
        holes.sort_by_key(|hole| hole.start);
        if holes.len() == 2 && holes[0].end >= holes[1].start {
            holes.pop();
        }
        let whole = read(&acceptor, applied, &[], false).expect("nothing is damaged");
        match read(&acceptor, applied, &holes, at_once) {
            Ok(mended) => prop_assert_eq!(seen(&mended, &acceptor), seen(&whole, &acceptor)),
            // An undecided entry was lost, or the log does not state that nothing else was.
            Err(None) => {}
            Err(Some(error)) => {
                let stated = is_stated(&acceptor.log[holes.last().expect("one").end..]);
                prop_assert_eq!((error, stated), (ReplayError::Unstated, false));
            }
        }
    }

    #[test]
    fn a_log_that_says_again_what_counts_is_always_mended(
        happenings in prop::collection::vec(happening(), 1..40),
        later in prop::collection::vec(happening(), 0..10),
        from in 0..100_usize,
        length in 1..6_usize,
    ) {
        let mut acceptor = acceptor(happenings);
        acceptor.decide(u64::MAX);
        let from = from % acceptor.log.len();
        let hole = from..(from + length).min(acceptor.log.len());
        acceptor.does(Happening::State);
        later.into_iter().for_each(|happening| acceptor.does(happening));
        acceptor.decided = acceptor.values.len() as u64;
        let whole = read(&acceptor, 0, &[], false).expect("nothing is damaged");
        let mended = read(&acceptor, 0, &[hole], true);
        let mended = mended.expect("it is all decided, and the log says so");
        prop_assert_eq!(seen(&mended, &acceptor), seen(&whole, &acceptor));
    }
}

/// Returns everything that a replica would rely on: its decided index may be lower, never wrong.
fn seen(
    (early, found): &(Vec<u64>, ReplayResult<u64>),
    acceptor: &Acceptor,
) -> (Vec<u64>, Ballot, Ballot, LogIndex) {
    assert!(found.decided.0 <= acceptor.decided, "{found:?}");
    let values = early.iter().chain(found.tail.values()).copied().collect();
    (values, found.promised, found.accepted_ballot, found.last)
}

fn is_stated(rest: &[Record]) -> bool {
    let promise = rest.iter().any(|record| matches!(record, Record::Promise(_)));
    promise && rest.iter().any(|record| matches!(record, Record::Adopt(..)))
}
