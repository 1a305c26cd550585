//! Records that a group handed to the log writer and has not processed yet, with their positions.
//!
//! A record stands in the log before its group learns of it, and another thread truncates the log.
//! [`super::entries::LogPositions`] knows what a group needs of the log from the moment that its
//! driver has processed the record's `Done`; until then these records do.
//!
//! Promises: [`InFlight::oldest`] is never behind the beginning of a record that was handed over
//! and not processed; memory is one entry per turn with records on their way.

use runtime::log_writer::{Append, LoggedRecord};
use runtime::mutants::Mutant;
use std::collections::VecDeque;
use store::{Position, RecordKind};

/// See the head of this file.
#[derive(Default)]
pub struct InFlight {
    /// The oldest first, as the log writer answers.
    turns: VecDeque<Turn>,
    /// Number of adoption records.
    adoptions: usize,
}

/// Records of one turn.
struct Turn {
    /// Lowest position at which the first of them can begin.
    bound: Position,
    /// Number of them that are not processed.
    records: usize,
}

impl InFlight {
    /// These are about to be handed over; `end`: where the log ended before that, so that all of
    /// them begin there or behind it.
    pub fn hand_over(&mut self, end: Position, jobs: &[Append]) {
        if !jobs.is_empty() {
            self.turns.push_back(Turn { bound: end, records: jobs.len() });
            self.adoptions += jobs.iter().filter(|job| job.kind == RecordKind::Truncate).count();
        }
    }

    /// The oldest of them is processed.
    pub fn processed(&mut self, done: &LoggedRecord) {
        let Some(turn) = self.turns.front_mut() else { return };
        turn.records -= 1;
        if turn.records == 0 {
            self.turns.pop_front();
        }
        self.adoptions -= usize::from(done.kind == RecordKind::Truncate);
    }

    /// Returns the lowest position at which the oldest may begin. `None`: nothing is in flight.
    pub fn oldest(&self) -> Option<Position> {
        let turn = self.turns.front().filter(|_| !Mutant::TruncatesUnprocessed.is_active());
        turn.map(|turn| turn.bound)
    }

    /// Returns true if an adoption is on its way: its record stands behind the staged entries it
    /// makes count, and a replay that finds the one without the others refuses the log.
    pub fn adopts(&self) -> bool {
        self.adoptions > 0 && !Mutant::TruncatesUnprocessed.is_active()
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::{accept, adopt, stage};
    use super::*;
    use base::{Ballot, GroupId, LogIndex};
    use bytes::Bytes;

    const GROUP: GroupId = GroupId(1);

    fn entry(index: u64) -> Append {
        let (ballot, index) = (Ballot::default(), LogIndex(index));
        accept(GROUP, ballot, index, LogIndex(0), Bytes::new(), true)
    }

    #[test]
    fn the_oldest_turn_counts_until_its_last_record_is_processed() {
        let mut flight = InFlight::default();
        flight.hand_over(Position(5), &[]);
        assert_eq!(flight.oldest(), None, "nothing was handed over");
        let (first, second) = ([entry(1), entry(2)], [entry(3)]);
        flight.hand_over(Position(10), &first);
        flight.hand_over(Position(30), &second);
        let mut processed = |job: &Append| {
            flight.processed(&job.done(Position(0)));
            flight.oldest()
        };
        assert_eq!(processed(&first[0]), Some(Position(10)));
        assert_eq!(processed(&first[1]), Some(Position(30)));
        assert_eq!(processed(&second[0]), None);
    }

    #[test]
    fn an_adoption_is_on_its_way_until_it_is_processed() {
        let mut flight = InFlight::default();
        let (ballot, from, upto) = (Ballot::default(), LogIndex(0), LogIndex(1));
        let jobs = [stage(GROUP, ballot, upto, Bytes::new()), adopt(GROUP, ballot, from, upto)];
        flight.hand_over(Position(10), &jobs);
        assert!(flight.adopts());
        flight.processed(&jobs[0].done(Position(10)));
        assert!(flight.adopts());
        flight.processed(&jobs[1].done(Position(20)));
        assert!(!flight.adopts());
    }
}
