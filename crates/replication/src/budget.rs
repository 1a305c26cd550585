//! Budget of one evaluation: bounds on the rows that it reads, the bytes of its answer and of its
//! writes and, as the last resort, on its time.
//!
//! It covers a whole update, all steps of a sequence together and undone ones too: an update is
//! evaluated under its group's lock, so all others wait for its cost. The unit of cost is a row:
//! one for each key that is looked up or scanned, present or absent, and more for a large value,
//! which may be read from the disk.
//!
//! Promises: the same update on the same rows is refused for the same number, whatever the machine
//! does meanwhile, unless it exceeds the time limit.

use base::limits::{
    ANSWER_BYTES_MAX, EVALUATION_MS_MAX, EVALUATION_ROWS_MAX, SEQUENCE_ROWS_MAX, UPDATE_BYTES_MAX,
};
use base::{Error, Reason, Result};
use runtime::mutants::Mutant;
use runtime::world;

/// Maximum rows of a page that is read on the thread that received the request; larger ones are
/// read on a thread that may block.
pub(super) const ROWS_AT_ONCE: usize = 128;
/// Maximum number of point reads on the thread that received the request.
pub(super) const KEYS_AT_ONCE: usize = 1_024;
/// Size of a part of a row that costs as much as one more row.
const ROW_PART_BYTES: usize = 16 * 1024;
/// Number of keys of undecided entries, compared in the search for the start of a range, that cost
/// as much as one row.
const COMPARED_PER_ROW: usize = 16;
/// Cost of positioning a range read, in rows.
const ROWS_PER_SEEK: usize = 16;
/// Number of index entries that cost as much as one row to write.
const ENTRIES_PER_ROW: usize = 4;
/// Number of rows between two checks of the clock.
const ROWS_PER_CHECK: usize = 256;
/// Bytes that one update may write, with framing: its own, and half as many for keys that it only
/// lists.
const WRITTEN_BYTES_MAX: usize = UPDATE_BYTES_MAX + UPDATE_BYTES_MAX / 2;

/// See the head of this file.
pub struct Budget {
    /// Maximum number of rows. `None`: unbounded, for the database's own work, which is bounded
    /// elsewhere.
    rows_max: Option<usize>,
    rows: usize,
    /// Number of rows at the last check of the whole budget.
    checked_rows: usize,
    answer_bytes_max: usize,
    answer_bytes: usize,
    written_bytes: usize,
    /// Number of index entries that were written.
    entries: usize,
    /// True if the time is limited.
    has_deadline: bool,
    deadline_ms: Option<u64>,
    is_overdue: bool,
}

/// Part of the budget that is exceeded.
enum Excess {
    Rows(usize),
    Answer,
    Written,
    Time,
}

impl Budget {
    fn new(rows_max: Option<usize>, has_deadline: bool) -> Budget {
        Budget {
            rows_max,
            rows: 0,
            checked_rows: 0,
            answer_bytes_max: ANSWER_BYTES_MAX,
            answer_bytes: 0,
            written_bytes: 0,
            entries: 0,
            has_deadline,
            deadline_ms: None,
            is_overdue: false,
        }
    }

    /// Unbounded budget for the database's own work, which is bounded elsewhere.
    pub fn unbounded() -> Budget {
        Budget::new(None, false)
    }

    /// Budget of an update that is evaluated under the group's lock.
    pub fn for_update() -> Budget {
        Budget::new(Some(EVALUATION_ROWS_MAX), true)
    }

    /// Budget of a read under the group's lock. A read with a longer answer is moved to another
    /// thread.
    pub fn for_short_read(answer_bytes_max: usize) -> Budget {
        Budget { answer_bytes_max, ..Budget::for_update() }
    }

    /// Budget of an update evaluated without the lock: no time limit.
    pub fn for_dry_run() -> Budget {
        Budget::new(Some(EVALUATION_ROWS_MAX), false)
    }

    /// Budget of a sequence of reads without the lock.
    pub fn for_reads() -> Budget {
        Budget::new(Some(SEQUENCE_ROWS_MAX), false)
    }

    /// Budget of this many rows.
    #[cfg(test)]
    pub(super) fn for_rows(rows_max: usize) -> Budget {
        Budget::new(Some(rows_max), false)
    }

    /// Returns the rows that were counted.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Counts a row of this many bytes (0: an absent row).
    #[inline]
    pub fn count_row(&mut self, bytes: usize) -> Result<()> {
        self.rows += 1 + bytes / ROW_PART_BYTES;
        if self.rows < self.checked_rows + ROWS_PER_CHECK { Ok(()) } else { self.check() }
    }

    /// Counts the positioning of a range read, which has to search every table.
    pub fn count_seek(&mut self) -> Result<()> {
        self.rows += ROWS_PER_SEEK - 1;
        self.count_row(0)
    }

    /// Counts the search for the start of a range in undecided entries. `rows`: number of rows of
    /// each. The sort before it is not counted: each write pays for that of its own effects.
    pub fn count_searches(&mut self, rows: impl Iterator<Item = usize>) -> Result<()> {
        let compared: u32 = rows.map(|rows| usize::BITS - rows.leading_zeros()).sum();
        self.rows += compared as usize / COMPARED_PER_ROW;
        if self.rows < self.checked_rows + ROWS_PER_CHECK { Ok(()) } else { self.check() }
    }

    /// Counts bytes of the answer.
    #[inline]
    pub fn count_answer(&mut self, bytes: usize) -> Result<()> {
        self.answer_bytes += bytes;
        if self.answer_bytes <= self.answer_bytes_max { Ok(()) } else { self.check() }
    }

    /// Counts bytes written. The limit is checked after each step: one step alone writes little
    /// more than its update brings.
    #[inline]
    pub fn count_written(&mut self, bytes: usize) {
        self.written_bytes += bytes;
    }

    /// Counts an index entry that was written or removed. The limits are checked after each:
    /// entries are derived, so their number and their bytes are not bounded by what an update
    /// brings, and one step may write those of thousands of rows.
    pub(super) fn count_entry(&mut self, bytes: usize) -> Result<()> {
        self.count_written(bytes);
        self.entries += 1;
        if self.entries.is_multiple_of(ENTRIES_PER_ROW) {
            self.count_row(0)?;
        }
        if self.is_exhausted() { self.check() } else { Ok(()) }
    }

    /// Returns true if it is exceeded. Then the whole update fails, whether or not its steps are
    /// atomic.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.excess().is_some()
    }

    /// Returns `TooLarge` if the budget is exceeded.
    pub fn check(&mut self) -> Result<()> {
        self.checked_rows = self.rows;
        if self.has_deadline {
            // The time counts from the first check on: a small update never reads the clock.
            let now = world::milliseconds();
            self.is_overdue |= now > *self.deadline_ms.get_or_insert(now + EVALUATION_MS_MAX);
        }
        match self.excess() {
            None => Ok(()),
            Some(excess) => Err(excess.error()),
        }
    }

    #[inline]
    fn excess(&self) -> Option<Excess> {
        let rows_max = self.rows_max.filter(|_| !Mutant::EvaluateWithoutBudget.is_active())?;
        if self.rows > rows_max {
            Some(Excess::Rows(rows_max))
        } else if self.answer_bytes > self.answer_bytes_max {
            Some(Excess::Answer)
        } else if self.written_bytes > WRITTEN_BYTES_MAX {
            Some(Excess::Written)
        } else {
            self.is_overdue.then_some(Excess::Time)
        }
    }
}

impl Excess {
    fn error(&self) -> Error {
        let bound = match self {
            Excess::Rows(rows_max) => {
                let name = match *rows_max {
                    EVALUATION_ROWS_MAX => "evaluation_rows_max",
                    _ => "sequence_rows_max",
                };
                format!(
                    "may read at most {rows_max} rows ({name}; a large value counts as several): \
                     use several smaller requests"
                )
            }
            Excess::Answer => format!(
                "may return at most {ANSWER_BYTES_MAX} bytes (answer_bytes_max): read in several \
                 requests"
            ),
            Excess::Written => format!(
                "may change at most {UPDATE_BYTES_MAX} bytes of keys and values \
                 (update_bytes_max): use several requests, or clear the bucket"
            ),
            Excess::Time => format!(
                "may take at most {EVALUATION_MS_MAX} ms (evaluation_ms_max): use several smaller \
                 requests"
            ),
        };
        let text = format!("nothing was done: one request with all its steps {bound}");
        Error::new(Reason::TooLarge, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_refused(result: Result<()>, name: &str) {
        let error = result.expect_err("it is used up");
        assert_eq!(error.reason, Reason::TooLarge);
        assert!(
            error.text().contains(name) && error.text().contains("nothing was done"),
            "{error}"
        );
    }

    #[test]
    fn row_budget_is_exact_and_large_rows_count_several_times() {
        let mut budget = Budget::for_dry_run();
        for _ in 0..EVALUATION_ROWS_MAX {
            budget.count_row(0).expect("there is room");
        }
        budget.check().expect("these are all");
        budget.count_row(0).expect("the next look at all of it comes later");
        assert!(budget.is_exhausted());
        assert_refused(budget.check(), "evaluation_rows_max");
        let mut budget = Budget::for_dry_run();
        let large = |budget: &mut Budget| budget.count_row(8 << 20);
        let fit = EVALUATION_ROWS_MAX / (1 + (8 << 20) / ROW_PART_BYTES);
        (0..fit).for_each(|_| large(&mut budget).expect("there is room"));
        assert_refused(large(&mut budget), "evaluation_rows_max");
    }

    #[test]
    fn answer_and_write_bytes_are_bounded_per_update() {
        let mut budget = Budget::for_update();
        budget.count_answer(ANSWER_BYTES_MAX).expect("it fits");
        assert_refused(budget.count_answer(1), "answer_bytes_max");
        let mut budget = Budget::for_update();
        budget.count_written(WRITTEN_BYTES_MAX);
        budget.check().expect("it fits");
        budget.count_written(1);
        assert_refused(budget.check(), "update_bytes_max");
    }

    #[test]
    fn index_entries_are_bounded_one_by_one_in_bytes_and_number() {
        let mut budget = Budget::for_update();
        budget.count_entry(WRITTEN_BYTES_MAX).expect("it fits");
        assert_refused(budget.count_entry(1), "update_bytes_max");
        let mut budget = Budget::for_update();
        for _ in 0..EVALUATION_ROWS_MAX * ENTRIES_PER_ROW {
            budget.count_entry(1).expect("there is room");
        }
        let more = (0..ENTRIES_PER_ROW).try_for_each(|_| budget.count_entry(1));
        assert_refused(more, "evaluation_rows_max");
    }

    #[test]
    fn evaluation_time_limit_applies_to_updates_and_not_rehearsals() {
        world::set_time(Some(1_000_000_000));
        let late = 1_000_000_000 + (EVALUATION_MS_MAX + 1) * 1_000_000;
        for (mut budget, has_no_deadline) in
            [(Budget::for_update(), false), (Budget::for_dry_run(), true)]
        {
            world::set_time(Some(1_000_000_000));
            budget.check().expect("it has just begun");
            world::set_time(Some(late));
            match has_no_deadline {
                true => budget.check().expect("nobody waits"),
                false => assert_refused(budget.check(), "evaluation_ms_max"),
            }
        }
        let mut unbounded_budget = Budget::unbounded();
        unbounded_budget.count_written(usize::MAX / 2);
        unbounded_budget.count_row(usize::MAX / 4).expect("it is bounded elsewhere");
        unbounded_budget.check().expect("likewise");
        world::set_time(None);
    }
}
