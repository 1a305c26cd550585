//! Judge of consistent groups: linearizability of each key.
//!
//! All nodes must apply the same entry at every index, so the log is the one order of all writes. A
//! history of registers is then linearizable exactly if that order agrees with the answers: every
//! acknowledged write is in it; no write that started after another one ended is before that one;
//! and each read saw the last write as of some moment between its start and its end.

use base::LogIndex;
use bytes::Bytes;
use replica_state::entry::read_entry;
use replica_state::layout::StoredRow;
use std::collections::BTreeMap;
use store::RowChange;

#[derive(Default)]
pub(super) struct Judge {
    /// Payload that the first node applied at each index.
    log: BTreeMap<LogIndex, Bytes>,
    /// Position of each write in the order of its key; values are unique.
    places: BTreeMap<(Bytes, Bytes), u64>,
    next_place: u64,
    /// Acknowledged writes and answered reads, checked once all is applied.
    answers: Vec<Answer>,
    /// Refused writes, which must not be in the log.
    refused: Vec<(Bytes, Bytes)>,
    /// Entries that members returned as decided.
    returned: Vec<(LogIndex, Bytes)>,
}

struct Answer {
    key: Bytes,
    /// Value written or read. `None`: a read found no row.
    value: Option<Bytes>,
    began: u64,
    ended: u64,
}

impl Judge {
    /// Records an entry that a node applied.
    pub fn applied(&mut self, index: LogIndex, payload: &Bytes) {
        if let Some(known) = self.log.get(&index) {
            assert_eq!(known, payload, "two values at index {index}");
            return;
        }
        assert_eq!(index.0, self.log.len() as u64 + 1, "values are applied in order");
        self.log.insert(index, payload.clone());
        let (_, changes) = read_entry(payload).expect("a value");
        for change in changes {
            let RowChange::Put(key, row) = change.expect("a change") else { continue };
            let Ok(row) = StoredRow::read(&row) else { continue };
            self.next_place += 1;
            self.places.insert((key.slice(9..), row.value), self.next_place);
        }
    }

    /// Records an acknowledged write, or the value that a read found.
    pub fn answered(&mut self, key: Bytes, value: Option<Bytes>, began: u64, ended: u64) {
        self.answers.push(Answer { key, value, began, ended });
    }

    /// Records a write that was refused without effect.
    pub fn refused(&mut self, key: Bytes, value: Bytes) {
        self.refused.push((key, value));
    }

    /// Records an entry that a member returned as decided.
    pub fn record_returned(&mut self, index: LogIndex, value: Bytes) {
        self.returned.push((index, value));
    }

    /// Checks every answer against the order of the log.
    pub fn judge(mut self) {
        for (index, value) in &self.returned {
            assert_eq!(self.log.get(index), Some(value), "given for value {index}");
        }
        for write in &self.refused {
            assert!(!self.places.contains_key(write), "refused, and written: {write:?}");
        }
        let mut answers = std::mem::take(&mut self.answers);
        answers.sort_by_key(|answer| answer.began);
        let place = |answer: &Answer| match &answer.value {
            None => 0,
            Some(value) => {
                let known = self.places.get(&(answer.key.clone(), value.clone()));
                *known.unwrap_or_else(|| panic!("lost: {:?} = {value:?}", answer.key))
            }
        };
        let mut ended: Vec<(u64, Bytes, u64)> =
            answers.iter().map(|a| (a.ended, a.key.clone(), place(a))).collect();
        ended.sort();
        let mut ended = ended.into_iter().peekable();
        let mut latest: BTreeMap<Bytes, u64> = BTreeMap::new();
        for answer in &answers {
            while let Some((_, key, place)) = ended.next_if(|(end, ..)| *end < answer.began) {
                let latest = latest.entry(key).or_default();
                *latest = (*latest).max(place);
            }
            let seen = latest.get(&answer.key).copied().unwrap_or(0);
            let found = place(answer);
            assert!(
                found >= seen,
                "stale: {:?} = {:?} between {} and {} us stands at {found}, {seen} was seen before",
                answer.key,
                answer.value,
                answer.began,
                answer.ended
            );
        }
    }
}

#[test]
#[should_panic(expected = "refused, and written")]
fn refused_write_in_the_log_is_detected() {
    let (key, value) = (Bytes::from("k"), Bytes::from("v"));
    let mut judge = Judge::default();
    judge.places.insert((key.clone(), value.clone()), 1);
    judge.refused(key, value);
    judge.judge();
}
