//! Records that a group handed to the log writer and has not processed yet, with their positions.
//!
//! A record is in the log before its group processes it, and another thread truncates the log.
//! [`super::entries::LogPositions`] covers a record from the moment that the driver has processed
//! its completion; until then it is covered here.
//!
//! Promises: [`InFlight::oldest`] is never behind the start of a record that was handed over and
//! not processed; memory is one item per turn with records in flight.

use base::LogIndex;
use runtime::log_writer::{Append, AppendCompletion};
use runtime::mutants::Mutant;
use std::collections::VecDeque;
use store::{Position, RecordKind};

/// See the head of this file.
#[derive(Default)]
pub struct InFlight {
    /// Turns with records in flight, oldest first: the log writer completes records in order.
    turns: VecDeque<Turn>,
    /// Index up to which each adoption in flight keeps the log, oldest first.
    adoptions: VecDeque<LogIndex>,
}

/// Records of one turn.
struct Turn {
    /// Lowest position at which its first record can start.
    start_min: Position,
    /// Number of its records that are not processed.
    records: usize,
}

impl InFlight {
    /// Notes that these records are about to be handed over. `end`: end of the log before that;
    /// every record starts there or behind it.
    pub fn record_appends(&mut self, end: Position, appends: &[Append]) {
        if !appends.is_empty() {
            self.turns.push_back(Turn { start_min: end, records: appends.len() });
            let adoptions = appends.iter().filter(|job| job.kind == RecordKind::Truncate);
            let kept = |job: &Append| LogIndex(job.index.0.saturating_sub(job.decided.0));
            self.adoptions.extend(adoptions.map(kept));
        }
    }

    /// Notes that the oldest record was processed.
    pub fn mark_processed(&mut self, record: &AppendCompletion) {
        let Some(turn) = self.turns.front_mut() else { return };
        turn.records -= 1;
        if turn.records == 0 {
            self.turns.pop_front();
        }
        if record.kind == RecordKind::Truncate {
            self.adoptions.pop_front();
        }
    }

    /// Returns the lowest position at which the oldest record may start. `None`: nothing is in
    /// flight.
    pub fn oldest(&self) -> Option<Position> {
        let turn = self.turns.front().filter(|_| !Mutant::TruncateUnprocessedRecords.is_active());
        turn.map(|turn| turn.start_min)
    }

    /// Returns true if an adoption is in flight. Its record stands behind the staged entries that
    /// it accepts, and a replay that finds the record without the entries refuses the log.
    pub fn has_adoption(&self) -> bool {
        !self.adoptions.is_empty() && !Mutant::TruncateUnprocessedRecords.is_active()
    }

    /// Returns the index up to which all adoptions in flight keep the log. `None`: none is in
    /// flight.
    pub fn kept_by_adoptions(&self) -> Option<LogIndex> {
        self.adoptions.iter().min().copied()
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
    fn oldest_position_holds_until_its_turn_is_fully_processed() {
        let mut flight = InFlight::default();
        flight.record_appends(Position(5), &[]);
        assert_eq!(flight.oldest(), None, "nothing was handed over");
        let (first, second) = ([entry(1), entry(2)], [entry(3)]);
        flight.record_appends(Position(10), &first);
        flight.record_appends(Position(30), &second);
        let mut processed = |job: &Append| {
            flight.mark_processed(&job.completion(Position(0)));
            flight.oldest()
        };
        assert_eq!(processed(&first[0]), Some(Position(10)));
        assert_eq!(processed(&first[1]), Some(Position(30)));
        assert_eq!(processed(&second[0]), None);
    }

    #[test]
    fn adoption_is_in_flight_until_its_record_is_processed() {
        let mut flight = InFlight::default();
        let (ballot, from, upto) = (Ballot::default(), LogIndex(0), LogIndex(1));
        let appends = [stage(GROUP, ballot, upto, Bytes::new()), adopt(GROUP, ballot, from, upto)];
        flight.record_appends(Position(10), &appends);
        assert!(flight.has_adoption());
        flight.mark_processed(&appends[0].completion(Position(10)));
        assert!(flight.has_adoption());
        assert_eq!(flight.kept_by_adoptions(), Some(LogIndex(0)));
        flight.mark_processed(&appends[1].completion(Position(20)));
        assert!(!flight.has_adoption());
        assert_eq!(flight.kept_by_adoptions(), None);
    }
}
