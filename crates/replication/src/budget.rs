//! The budget of one evaluation: the rows it may look at, the bytes it may answer with and write,
//! and, where all of these are too slow, the time it may take.
//!
//! It is counted over a whole update, all steps of a sequence together and undone ones too: an
//! update is evaluated under its group's lock, so what it costs all others wait for. Rows are what
//! costs: one for a key that is looked up or walked over, whether it is there or not, and more for
//! a large value, since it may have to come from the disk.
//!
//! Promises: the same update on the same rows is refused for the same number, whatever the machine
//! does meanwhile, unless it takes so long that the clock is asked.

use base::limits::{
    ANSWER_BYTES_MAX, EVALUATION_MS_MAX, EVALUATION_ROWS_MAX, SEQUENCE_ROWS_MAX, UPDATE_BYTES_MAX,
};
use base::{Error, Reason, Result};
use runtime::mutants::Mutant;
use runtime::world;

/// Pages up to this many rows are read where the request came in; larger ones on a thread that may
/// wait.
pub(super) const ROWS_AT_ONCE: usize = 128;
/// Maximum number of point reads at once.
pub(super) const KEYS_AT_ONCE: usize = 1_024;
/// Each part of a row of this size costs as much as one more row.
const PART_BYTES: usize = 16 * 1024;
/// Rows of undecided entries, passed over because they lie outside a range, that cost as much as
/// one row read.
const PASSED_PER_ROW: usize = 64;
/// Cost of positioning a range read, in rows.
const ROWS_PER_WALK: usize = 16;
/// Number of rows between two checks of the clock.
const ROWS_PER_LOOK: usize = 256;
/// Bytes that one update may write, with framing: its own, and half as many for keys that it only
/// lists.
const WRITTEN_BYTES_MAX: usize = UPDATE_BYTES_MAX + UPDATE_BYTES_MAX / 2;

/// See the head of this file.
pub struct Budget {
    /// `None`: unbounded, for the database's own work, which is bounded elsewhere.
    rows_max: Option<usize>,
    rows: usize,
    /// Number of rows at the last check of the whole budget.
    looked: usize,
    answer_bytes_max: usize,
    answer_bytes: usize,
    written_bytes: usize,
    /// True if the clock counts.
    timed: bool,
    until_ms: Option<u64>,
    late: bool,
}

/// Part of the budget that is exceeded.
enum Excess {
    Rows(usize),
    Answer,
    Written,
    Time,
}

impl Budget {
    fn new(rows_max: Option<usize>, timed: bool) -> Budget {
        Budget {
            rows_max,
            rows: 0,
            looked: 0,
            answer_bytes_max: ANSWER_BYTES_MAX,
            answer_bytes: 0,
            written_bytes: 0,
            timed,
            until_ms: None,
            late: false,
        }
    }

    /// Unbounded budget for the database's own work, which is bounded elsewhere.
    pub fn unbounded() -> Budget {
        Budget::new(None, false)
    }

    /// For an update, evaluated under the group's lock.
    pub fn of_update() -> Budget {
        Budget::new(Some(EVALUATION_ROWS_MAX), true)
    }

    /// Budget of a read under the group's lock. A read with a longer answer is moved to another
    /// thread.
    pub fn of_short_read(answer_bytes_max: usize) -> Budget {
        Budget { answer_bytes_max, ..Budget::of_update() }
    }

    /// Budget of an update evaluated without the lock: no time limit.
    pub fn of_rehearsal() -> Budget {
        Budget::new(Some(EVALUATION_ROWS_MAX), false)
    }

    /// For a sequence of reads, away from the lock.
    pub fn of_reads() -> Budget {
        Budget::new(Some(SEQUENCE_ROWS_MAX), false)
    }

    /// Counts a row of so many bytes (0: an absent row).
    #[inline]
    pub fn look(&mut self, bytes: usize) -> Result<()> {
        self.rows += 1 + bytes / PART_BYTES;
        if self.rows < self.looked + ROWS_PER_LOOK { Ok(()) } else { self.check() }
    }

    /// Counts the positioning of a range read, which has to search every table.
    pub fn walk(&mut self) -> Result<()> {
        self.rows += ROWS_PER_WALK - 1;
        self.look(0)
    }

    /// Counts rows of undecided entries that are passed over.
    pub fn pass(&mut self, rows: usize) -> Result<()> {
        self.rows += rows / PASSED_PER_ROW;
        if self.rows < self.looked + ROWS_PER_LOOK { Ok(()) } else { self.check() }
    }

    /// Counts bytes of the answer.
    #[inline]
    pub fn answer(&mut self, bytes: usize) -> Result<()> {
        self.answer_bytes += bytes;
        if self.answer_bytes <= self.answer_bytes_max { Ok(()) } else { self.check() }
    }

    /// Counts bytes written. The limit is checked after each step: one step alone writes little
    /// more than its update brings.
    #[inline]
    pub fn write(&mut self, bytes: usize) {
        self.written_bytes += bytes;
    }

    /// Returns true if it is used up. Then the whole update fails, whatever its steps are to each
    /// other.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.excess().is_some()
    }

    /// An error if it is used up.
    pub fn check(&mut self) -> Result<()> {
        self.looked = self.rows;
        if self.timed {
            // From the first look on: a small update never asks for the time.
            let now = world::milliseconds();
            self.late |= now > *self.until_ms.get_or_insert(now + EVALUATION_MS_MAX);
        }
        match self.excess() {
            None => Ok(()),
            Some(excess) => Err(excess.error()),
        }
    }

    #[inline]
    fn excess(&self) -> Option<Excess> {
        let rows_max = self.rows_max.filter(|_| !Mutant::EvaluatesWithoutBudget.is_active())?;
        if self.rows > rows_max {
            Some(Excess::Rows(rows_max))
        } else if self.answer_bytes > self.answer_bytes_max {
            Some(Excess::Answer)
        } else if self.written_bytes > WRITTEN_BYTES_MAX {
            Some(Excess::Written)
        } else {
            self.late.then_some(Excess::Time)
        }
    }
}

impl Excess {
    fn error(&self) -> Error {
        let told = match self {
            Excess::Rows(rows_max) => {
                let name = match *rows_max {
                    EVALUATION_ROWS_MAX => "evaluation_rows_max",
                    _ => "sequence_rows_max",
                };
                format!(
                    "looks at no more than {rows_max} rows ({name}; a large value counts as \
                     several): use several smaller ones"
                )
            }
            Excess::Answer => format!(
                "is answered with no more than {ANSWER_BYTES_MAX} bytes (answer_bytes_max): ask \
                 for it in parts"
            ),
            Excess::Written => format!(
                "changes no more than {UPDATE_BYTES_MAX} bytes of keys and values \
                 (update_bytes_max): use several, or clear the bucket"
            ),
            Excess::Time => format!(
                "keeps the others waiting for no longer than {EVALUATION_MS_MAX} ms \
                 (evaluation_ms_max): use several smaller ones"
            ),
        };
        let text = format!("nothing was done: one request, all its steps together, {told}");
        Error::new(Reason::TooLarge, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(result: Result<()>, name: &str) {
        let error = result.expect_err("it is used up");
        assert_eq!(error.reason, Reason::TooLarge);
        assert!(
            error.text().contains(name) && error.text().contains("nothing was done"),
            "{error}"
        );
    }

    #[test]
    fn rows_are_counted_to_the_last_one_and_large_ones_several_times() {
        let mut budget = Budget::of_rehearsal();
        for _ in 0..EVALUATION_ROWS_MAX {
            budget.look(0).expect("there is room");
        }
        budget.check().expect("these are all");
        budget.look(0).expect("the next look at all of it comes later");
        assert!(budget.is_spent());
        refused(budget.check(), "evaluation_rows_max");
        let mut budget = Budget::of_rehearsal();
        let large = |budget: &mut Budget| budget.look(8 << 20);
        let fit = EVALUATION_ROWS_MAX / (1 + (8 << 20) / PART_BYTES);
        (0..fit).for_each(|_| large(&mut budget).expect("there is room"));
        refused(large(&mut budget), "evaluation_rows_max");
    }

    #[test]
    fn answers_and_writes_are_counted_together() {
        let mut budget = Budget::of_update();
        budget.answer(ANSWER_BYTES_MAX).expect("it fits");
        refused(budget.answer(1), "answer_bytes_max");
        let mut budget = Budget::of_update();
        budget.write(WRITTEN_BYTES_MAX);
        budget.check().expect("it fits");
        budget.write(1);
        refused(budget.check(), "update_bytes_max");
    }

    #[test]
    fn the_clock_ends_what_takes_too_long_under_the_lock_and_nothing_else() {
        world::set_time(Some(1_000_000_000));
        let late = 1_000_000_000 + (EVALUATION_MS_MAX + 1) * 1_000_000;
        for (mut budget, patient) in [(Budget::of_update(), false), (Budget::of_rehearsal(), true)]
        {
            world::set_time(Some(1_000_000_000));
            budget.check().expect("it has just begun");
            world::set_time(Some(late));
            match patient {
                true => budget.check().expect("nobody waits"),
                false => refused(budget.check(), "evaluation_ms_max"),
            }
        }
        let mut unbounded_budget = Budget::unbounded();
        unbounded_budget.write(usize::MAX / 2);
        unbounded_budget.look(usize::MAX / 4).expect("it is bounded elsewhere");
        unbounded_budget.check().expect("likewise");
        world::set_time(None);
    }
}
