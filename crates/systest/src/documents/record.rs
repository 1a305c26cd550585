//! Record of what was acknowledged of each key, and what follows from it for a reader: the state of
//! every key that no write is changing.
//!
//! A key has one writer. A write that gets no answer leaves its key in doubt: nobody writes it
//! again. A key with a time to live is written once.

use super::document::{DocumentRows, document, term, write_number};
use crate::client::CallOutcome;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time to live of the records that have one.
pub(super) const TTL: Duration = Duration::from_secs(8);
/// Part of it in which the record must be found. Groups count time of their own, which may lag
/// behind by a second or two while a bucket moves.
const CERTAIN_LIFE: Duration = Duration::from_secs(4);

/// State that a reader must find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyExpectation {
    /// Number of writes that were attempted so far.
    attempts: u64,
    /// The value. `None`: the key is absent.
    pub value: Option<String>,
    /// End of the time in which this is certain. `None`: it has none.
    certain_until: Option<Instant>,
}

/// States of the keys that no write is changing.
pub type Expectations = BTreeMap<String, KeyExpectation>;

/// Phase of the last write of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WritePhase {
    /// Answered, so its outcome is known.
    Settled,
    /// Sent, and not answered yet.
    Open,
    /// Given up: it took effect, will do so, or never does. With the value that it leaves.
    InDoubt(Option<String>),
}

/// Writes of one key.
#[derive(Clone, Debug)]
struct DocumentKey {
    attempts: u64,
    /// Value after the last acknowledged write. `None`: absent.
    value: Option<String>,
    /// Numbers of writes that left no value of theirs: deletes, and what was refused.
    valueless: BTreeSet<u64>,
    phase: WritePhase,
    /// Time of the last answer.
    settled_at: Instant,
    /// Time at which the write of a record with a time to live began. `None`: it has none.
    mortal_since: Option<Instant>,
    /// True if that time has passed, and the record was seen to be gone.
    is_buried: bool,
}

/// Record of all keys of a bucket.
#[derive(Debug, Default)]
pub struct DocumentRecord {
    keys: Mutex<BTreeMap<String, DocumentKey>>,
}

impl DocumentRecord {
    fn keys(&self) -> MutexGuard<'_, BTreeMap<String, DocumentKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a write of a key begins; returns its number, from 1. The first write of a key
    /// decides whether its record `expires`.
    pub fn begin(&self, key: &str, expires: bool) -> u64 {
        let mut keys = self.keys();
        let known = keys.entry(key.into()).or_insert_with(|| DocumentKey {
            attempts: 0,
            value: None,
            valueless: BTreeSet::new(),
            phase: WritePhase::Settled,
            settled_at: Instant::now(),
            mortal_since: expires.then(Instant::now),
            is_buried: false,
        });
        assert!(known.phase == WritePhase::Settled, "{key} has one writer, and is not in doubt");
        (known.attempts, known.phase) = (known.attempts + 1, WritePhase::Open);
        known.attempts
    }

    /// Records the outcome of the write that began last. `value`: what it leaves.
    pub fn end(&self, key: &str, value: Option<String>, outcome: CallOutcome) {
        let mut keys = self.keys();
        let known = keys.get_mut(key).expect("its write has begun");
        if value.is_none() || outcome == CallOutcome::Refused {
            known.valueless.insert(known.attempts);
        }
        known.phase = match outcome {
            CallOutcome::Unknown => WritePhase::InDoubt(value),
            CallOutcome::Refused => WritePhase::Settled,
            CallOutcome::Acknowledged(()) => {
                known.value = value;
                WritePhase::Settled
            }
        };
        known.settled_at = Instant::now();
    }

    /// Returns the states of all keys whose last write was answered at least `settle` ago, but for
    /// those whose record may expire at any moment, or has.
    pub fn expectations(&self, settle: Duration) -> Expectations {
        let now = Instant::now();
        let expectation = |(key, known): (&String, &DocumentKey)| {
            let certain_until = known.mortal_since.map(|since| since + CERTAIN_LIFE);
            let is_settled = known.phase == WritePhase::Settled && known.settled_at + settle <= now;
            let is_certain = certain_until.is_none_or(|end| now < end) && !known.is_buried;
            let (attempts, value) = (known.attempts, known.value.clone());
            let expectation = KeyExpectation { attempts, value, certain_until };
            (is_settled && is_certain).then(|| (key.clone(), expectation))
        };
        self.keys().iter().filter_map(expectation).collect()
    }

    /// Returns those of former expectations that hold until now: no write began since.
    pub fn still_certain(&self, mut before: Expectations) -> Expectations {
        let (now, keys) = (Instant::now(), self.keys());
        before.retain(|key, expected| {
            let is_unchanged = keys.get(key).is_some_and(|known| {
                known.phase == WritePhase::Settled && known.attempts == expected.attempts
            });
            is_unchanged && expected.certain_until.is_none_or(|end| now < end)
        });
        before
    }

    /// Returns true if somebody wrote this value of this key, and it was not refused.
    pub fn has_value(&self, key: &str, value: &str) -> bool {
        let Some(number) = write_number(key, value) else { return false };
        self.keys().get(key).is_some_and(|known| known.may_have_written(number))
    }

    /// Returns true if a value of this key with this term was written.
    pub fn has_term(&self, key: &str, found: i64) -> bool {
        self.keys().get(key).is_some_and(|known| {
            let mut numbers = (1..=known.attempts).rev();
            numbers.any(|number| term(key, number) == found && known.may_have_written(number))
        })
    }

    /// Returns all keys but those that were seen to be gone after their time to live.
    pub fn readable_keys(&self) -> Vec<String> {
        let keys = self.keys();
        keys.iter().filter(|(_, known)| !known.is_buried).map(|(key, _)| key.clone()).collect()
    }

    /// Returns the keys whose record has a time to live and may still be there.
    pub fn mortal_keys(&self) -> BTreeSet<String> {
        let keys = self.keys();
        let mortal = keys.iter().filter(|(_, known)| {
            let is_doubtful = matches!(known.phase, WritePhase::InDoubt(_));
            known.mortal_since.is_some() && (known.value.is_some() || is_doubtful)
        });
        mortal.map(|(key, _)| key.clone()).collect()
    }

    /// Judges the rows of the bucket while nobody writes: returns what is lost, and what is wrong.
    pub fn judge_rows(&self, rows: &DocumentRows) -> (Vec<String>, Vec<String>) {
        let (mut lost, mut wrong) = (Vec::new(), Vec::new());
        let (keys, none) = (self.keys(), BTreeSet::new());
        for key in rows.keys().filter(|key| !keys.contains_key(*key)) {
            wrong.push(format!("{key}: nobody wrote this key"));
        }
        for (key, known) in &*keys {
            let found = rows.get(key).unwrap_or(&none);
            let (possible, is_required) = known.possible_values();
            if let Some(value) = found.iter().find(|value| !possible.contains(value)) {
                wrong.push(format!("{key}: found {value}, not {possible:?}"));
            } else if found.is_empty() && is_required {
                lost.push(format!("{key}: found nothing, not {possible:?}"));
            }
        }
        (lost, wrong)
    }

    /// Records which keys have expired by now: those whose time to live has passed, and that are in
    /// no row and in no reader's view, where `found` has them. They stay absent from now on.
    pub fn bury_expired(&self, found: &BTreeSet<String>) {
        for (key, known) in self.keys().iter_mut() {
            let has_passed =
                known.mortal_since.is_some_and(|since| since.elapsed() > TTL + TTL / 2);
            if has_passed && !found.contains(key) && known.phase != WritePhase::Open {
                (known.value, known.mortal_since, known.is_buried) = (None, None, true);
                known.phase = WritePhase::Settled;
            }
        }
    }
}

impl DocumentKey {
    fn may_have_written(&self, number: u64) -> bool {
        let is_attempted = (1..=self.attempts).contains(&number);
        is_attempted && !self.is_buried && !self.valueless.contains(&number)
    }

    /// Returns the values that a read may find, and true if it must find one.
    fn possible_values(&self) -> (Vec<&String>, bool) {
        let (doubtful, may_be_deleted) = match &self.phase {
            WritePhase::InDoubt(value) => (value.as_ref(), value.is_none()),
            WritePhase::Settled | WritePhase::Open => (None, false),
        };
        let possible = self.value.iter().chain(doubtful).collect();
        (possible, self.value.is_some() && !may_be_deleted && self.mortal_since.is_none())
    }
}

/// Returns the value that the `number`th write of a key leaves.
pub fn value_of(key: &str, number: u64, is_delete: bool) -> Option<String> {
    (!is_delete).then(|| document(key, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use CallOutcome::{Acknowledged, Refused, Unknown};

    fn write(record: &DocumentRecord, key: &str, is_delete: bool, outcome: CallOutcome) {
        let number = record.begin(key, false);
        record.end(key, value_of(key, number, is_delete), outcome);
    }

    fn rows(of: &[(&str, &[u64])]) -> DocumentRows {
        let row = |(key, numbers): &(&str, &[u64])| {
            let values = numbers.iter().map(|number| document(key, *number)).collect();
            (key.to_string(), values)
        };
        of.iter().map(row).collect()
    }

    #[test]
    fn rows_are_lost_or_wrong_unless_their_last_acknowledged_write_is_there() {
        let record = DocumentRecord::default();
        for outcome in [Acknowledged(()), Acknowledged(()), Refused] {
            write(&record, "a", false, outcome);
        }
        write(&record, "b", false, Acknowledged(()));
        write(&record, "b", true, Acknowledged(()));
        let judge = |of: &[(&str, &[u64])]| {
            let (lost, wrong) = record.judge_rows(&rows(of));
            (lost.len(), wrong.len())
        };
        assert_eq!(judge(&[("a", &[2])]), (0, 0));
        assert_eq!(judge(&[]), (1, 0), "it is gone");
        assert_eq!(judge(&[("a", &[1])]), (0, 1), "an older write");
        assert_eq!(judge(&[("a", &[3])]), (0, 1), "a refused write");
        assert_eq!(judge(&[("a", &[1, 2])]), (0, 1), "a value that was replaced");
        assert_eq!(judge(&[("a", &[2]), ("b", &[1])]), (0, 1), "a deleted row");
        assert_eq!(judge(&[("a", &[2]), ("c", &[1])]), (0, 1), "nobody's row");
    }

    #[test]
    fn write_without_an_answer_leaves_both_states_possible_and_none_certain() {
        let record = DocumentRecord::default();
        write(&record, "put", false, Acknowledged(()));
        write(&record, "put", false, Unknown);
        write(&record, "gone", false, Acknowledged(()));
        write(&record, "gone", true, Unknown);
        for of in [
            rows(&[("put", &[1]), ("gone", &[1])]),
            rows(&[("put", &[2])]),
            rows(&[("put", &[1, 2])]),
        ] {
            assert_eq!(record.judge_rows(&of), (Vec::new(), Vec::new()), "{of:?}");
        }
        assert_eq!(record.judge_rows(&rows(&[])).0.len(), 1, "one of the two puts is there");
        assert!(record.expectations(Duration::ZERO).is_empty());
        assert!(record.has_value("put", &document("put", 2)));
        assert!(!record.has_value("gone", &document("gone", 2)), "a delete has no value");
    }

    #[test]
    fn expectation_ends_with_the_next_write_of_its_key() {
        let record = DocumentRecord::default();
        for key in ["a", "b", "c"] {
            write(&record, key, false, Acknowledged(()));
        }
        let before = record.expectations(Duration::ZERO);
        assert_eq!(before.len(), 3);
        assert!(record.expectations(TTL).is_empty(), "they were written just now");
        record.begin("a", false);
        write(&record, "b", false, Refused);
        let certain = record.still_certain(before);
        assert_eq!(certain.keys().collect::<Vec<_>>(), ["c"]);
        assert_eq!(certain["c"].value, Some(document("c", 1)));
    }

    #[test]
    fn terms_of_refused_writes_are_nobodys() {
        let record = DocumentRecord::default();
        write(&record, "a", false, Acknowledged(()));
        write(&record, "a", false, Refused);
        assert!(record.has_term("a", term("a", 1)));
        assert!(!record.has_term("a", term("a", 2)));
        assert!(!record.has_term("b", term("b", 1)));
    }

    #[test]
    fn record_with_a_time_to_live_may_be_gone() {
        let record = DocumentRecord::default();
        let number = record.begin("m", true);
        record.end("m", value_of("m", number, false), Acknowledged(()));
        assert_eq!(record.judge_rows(&rows(&[])), (Vec::new(), Vec::new()));
        assert_eq!(record.judge_rows(&rows(&[("m", &[2])])).1.len(), 1);
        assert_eq!(record.mortal_keys(), BTreeSet::from(["m".to_string()]));
        record.bury_expired(&BTreeSet::new());
        assert_eq!(record.readable_keys(), ["m"], "its time has not passed");
        let long_ago = Instant::now().checked_sub(3 * TTL);
        record.keys().get_mut("m").expect("it was written").mortal_since = long_ago;
        record.bury_expired(&BTreeSet::from(["m".to_string()]));
        assert_eq!(record.readable_keys(), ["m"], "it was found");
        record.bury_expired(&BTreeSet::new());
        assert!(record.readable_keys().is_empty() && record.mortal_keys().is_empty());
        assert_eq!(record.judge_rows(&rows(&[("m", &[1])])).1.len(), 1, "it came back");
        assert!(!record.has_term("m", term("m", 1)));
    }
}
