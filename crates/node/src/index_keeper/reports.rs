//! Reports about indexes to the directory: what they say, and when one is sent again.

use base::index::{BuildProgress, ReportedState};
use indexes::limits::ENTRIES_PER_VALUE_MAX;
use replica_state::replicated_index::ReplicatedIndex;
use std::collections::BTreeMap;
use std::mem::discriminant;

/// Time after which a report is sent again if the directory does not show it, and after which
/// progress is reported again, in milliseconds. Progress of all indexes goes through group 0.
const REPEAT_MS: u64 = if cfg!(test) { 50 } else { 2_000 };
/// Maximum number of characters of a key or a term in the cause of a failure.
const SHOWN_CHARS: usize = 64;

/// Reports that were sent, by index, each with its time.
pub(crate) struct ReportLog<I>(BTreeMap<I, (ReportedState, u64)>);

impl<I> Default for ReportLog<I> {
    fn default() -> ReportLog<I> {
        ReportLog(BTreeMap::new())
    }
}

impl<I: Ord> ReportLog<I> {
    /// Returns true if a report is to be sent at this time. A change of state is reported at once.
    pub(crate) fn is_due(&self, index: I, state: &ReportedState, now_ms: u64) -> bool {
        self.0.get(&index).is_none_or(|(last, sent_ms)| {
            discriminant(last) != discriminant(state) || now_ms >= sent_ms + REPEAT_MS
        })
    }

    /// Notes a report that was sent.
    pub(crate) fn note(&mut self, index: I, state: ReportedState, now_ms: u64) {
        self.0.insert(index, (state, now_ms));
    }

    /// Forgets reports that are not repeated any more.
    pub(crate) fn forget_old(&mut self, now_ms: u64) {
        self.0.retain(|_, (_, sent_ms)| now_ms < *sent_ms + REPEAT_MS);
    }
}

/// Returns the progress of a build. A bucket that keeps no count has at least the records that were
/// read.
pub(crate) fn progress_of(rows_done: u64, rows_total: Option<u64>) -> BuildProgress {
    // Records that were deleted meanwhile count as read.
    BuildProgress { done: rows_done, total: rows_total.unwrap_or(0).max(rows_done) }
}

/// Returns the cause for which an index could not be built.
pub(crate) fn failure_cause(record: &ReplicatedIndex) -> String {
    if let Some(key) = &record.oversized {
        return format!(
            "the record `{}` has more than {ENTRIES_PER_VALUE_MAX} entries in all indexes of the \
             bucket",
            shown(key)
        );
    }
    let Some(first) = record.duplicates.first() else { return "its cause is not recorded".into() };
    let others = match record.duplicates.len() - 1 {
        0 => String::new(),
        more => format!("; {more} more terms stand at several keys"),
    };
    let (key, holder) = (shown(&first.key), shown(&first.holder));
    format!("the keys `{holder}` and `{key}` have the term `{}`{others}", shown(&first.term.text()))
}

/// Returns bytes as text of a bounded length.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * SHOWN_CHARS)]);
    text.chars().take(SHOWN_CHARS).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::index_definition;
    use base::{BucketId, Key};
    use indexes::{IndexNumber, Term};
    use replica_state::replicated_index::{DuplicateTerm, IndexPhase};

    #[test]
    fn change_of_state_is_reported_at_once_and_progress_from_time_to_time() {
        let (index, mut log) = ((BucketId(1), IndexNumber(2)), ReportLog::default());
        let building = |done| ReportedState::Building(BuildProgress { done, total: 9 });
        assert!(log.is_due(index, &building(1), 5));
        log.note(index, building(1), 5);
        assert!(!log.is_due(index, &building(2), 4 + REPEAT_MS));
        assert!(log.is_due(index, &building(2), 5 + REPEAT_MS));
        assert!(log.is_due(index, &ReportedState::Complete(9), 6));
        assert!(log.is_due((BucketId(2), index.1), &building(1), 6));
        log.forget_old(4 + REPEAT_MS);
        assert!(!log.is_due(index, &building(1), 6), "it is kept as long as it counts");
        log.forget_old(5 + REPEAT_MS);
        assert!(log.is_due(index, &building(1), 6));
    }

    #[test]
    fn cause_names_the_keys_and_stays_short() {
        let mut record = ReplicatedIndex::new(index_definition(1), IndexPhase::Failed);
        let duplicate = |key: &str| DuplicateTerm {
            term: Term::int(7),
            key: Key::copy_from_slice(key.as_bytes()),
            holder: Key::from("a"),
        };
        record.duplicates = vec![duplicate("b")];
        assert_eq!(failure_cause(&record), "the keys `a` and `b` have the term `7`");
        record.duplicates = vec![duplicate(&"b\n".repeat(9_000)), duplicate("c")];
        let cause = failure_cause(&record);
        assert!(cause.len() < 400 && cause.ends_with("; 1 more terms stand at several keys"));
        record.oversized = Some(Key::from("k"));
        assert!(failure_cause(&record).contains("record `k` has more than 1024 entries"));
    }
}
