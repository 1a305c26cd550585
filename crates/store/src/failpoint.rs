//! Places where a test lets the process die, to check that the files it leaves can be opened again.
//!
//! A point costs one relaxed load and a branch that is never taken. The main program arms a point
//! once, at its start (`CREDENZA_FAILPOINT=NAME=abort`, or `NAME=abort@7` for the seventh time it
//! is reached; `panic` instead of `abort` makes the thread panic there). This crate reads no
//! environment.
//!
//! A process that dies here ends with an exit code of its own, so that a test never mistakes a
//! panic, an abort or a signal for a death at the armed point.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)+) => {
        /// Point at which a process may be made to die.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $($(#[$doc])* $point,)+
        }

        /// Every point with its name; a test lets a process die once at each.
        pub const POINTS: &[(Point, &str)] = &[$((Point::$point, $name),)+];
    };
}

points! {
    /// First start: the identity is written and synced, under a temporary name.
    FirstStartWritten = "first_start.identity.written",
    /// First start: the identity has its name; the directory is not synced.
    FirstStartNamed = "first_start.identity.named",
    /// First start: the directory and its folders exist, nothing else.
    FirstStartAfter = "first_start.after",
    /// A record is about to be put into the log's buffer.
    AppendBefore = "log.append.before",
    /// Records wait in the buffer and are about to be written.
    WriteBefore = "log.write.before",
    /// Records are written and not synced.
    WriteAfter = "log.write.after",
    /// The log is about to be synced.
    SyncBefore = "log.sync.before",
    /// The log is synced; its sync is not reported yet.
    SyncAfter = "log.sync.after",
    /// An unsynced tail of an earlier run is written again, not synced.
    TailRewritten = "log.tail.rewritten",
    /// The first frame of this run of the log is written and not synced.
    OpeningWritten = "log.opening.written",
    /// A file for the next segment is filled, synced and not yet named a spare.
    SpareFilled = "log.spare.filled",
    /// The next segment's header is in its file, still under the spare's name.
    HeaderWritten = "log.roll.header",
    /// The full segment has its footer, synced; the next one has no name.
    RollSealed = "log.roll.sealed",
    /// The next segment has its name; the directory is not synced.
    RollNamed = "log.roll.named",
    /// An unneeded segment is about to lose its name.
    CollapseBefore = "log.collapse.before",
    /// The oldest segment was renamed to be used again; the directory is not synced.
    CollapseRenamed = "log.collapse.renamed",
    /// The oldest segment was removed; the directory is not synced.
    CollapseRemoved = "log.collapse.removed",
    /// A decided batch is about to be put into the trees.
    ApplyBefore = "apply.before",
    /// The batch is in the trees and visible.
    ApplyAfter = "apply.after",
    /// A row was read from a table on disk, within a section in which a panic means damage.
    RowRead = "row.read",
    /// The active table was sealed; nothing of it is on disk.
    RotateAfter = "rotate.after",
    /// Sealed tables are about to be written.
    FlushBefore = "flush.before",
    /// Sealed tables are on disk and listed.
    FlushAfter = "flush.after",
    /// Merged tables are on disk; no list names them.
    MergeWritten = "merge.written",
    /// A new list of tables is in its file, not synced.
    ListWritten = "list.written",
    /// The list is synced, with its name; nothing refers to it.
    ListSynced = "list.synced",
    /// The reference to the list is in a temporary file, not synced.
    CurrentWritten = "current.written",
    /// The reference has its name: the list is in force. The directory is not synced.
    CurrentNamed = "current.named",
    /// Tables were merged and the new list is in force.
    CompactAfter = "compact.after",
    /// Table files under a dropped prefix are gone, single rows are not yet.
    DropFilesAfter = "drop.files.after",
    /// All rows under a dropped prefix are gone, on disk too.
    DropAfter = "drop.after",
    /// A table of rows that come from another node is on disk; no list names it.
    InstallWritten = "install.written",
    /// All such tables are on disk; the old content is still in force.
    InstallBefore = "install.before",
    /// The list names the tables: the new content is in force, and not reported yet.
    InstallAfter = "install.after",
    /// A checkpoint's tables are linked, its list is not yet named.
    CheckpointLinked = "checkpoint.linked",
    /// A checkpoint of the trees is complete.
    CheckpointAfter = "checkpoint.after",
    /// A checkpoint of the whole node has its name, and is not reported yet.
    CheckpointNamed = "checkpoint.named",
}

/// Exit code of a process that died at its armed point, and of no other.
pub const EXIT_CODE: i32 = 86;

/// Value of `ARMED` if no point is armed.
const NONE: usize = 0;

/// One more than the armed point's number.
static ARMED: AtomicUsize = AtomicUsize::new(NONE);
/// Number of times that the process still passes the armed point.
static PASSES_LEFT: AtomicU64 = AtomicU64::new(0);
/// True if the thread panics at the point. False: the process dies without a message.
static PANICS: AtomicBool = AtomicBool::new(false);

/// Arms one point: `NAME=abort`, `NAME=abort@7` or `NAME=panic`. Any other text is an error, which
/// lists the points.
pub fn arm(words: &str) -> Result<(), String> {
    let (name, action) = words.split_once('=').unwrap_or((words, ""));
    let (action, nth) = action.split_once('@').unwrap_or((action, "1"));
    let is_known_action = matches!(action, "abort" | "panic");
    let nth = nth.parse::<u64>().ok().filter(|nth| is_known_action && *nth > 0);
    let at = POINTS.iter().position(|(_, point)| *point == name);
    let (Some(at), Some(nth)) = (at, nth) else {
        let names: Vec<_> = POINTS.iter().map(|(_, name)| *name).collect();
        return Err(format!(
            "invalid failpoint `{words}`: expected NAME=abort, NAME=panic or NAME=abort@N, where \
             NAME is one of {}",
            names.join(" ")
        ));
    };
    PANICS.store(action == "panic", Ordering::Relaxed);
    PASSES_LEFT.store(nth - 1, Ordering::Relaxed);
    ARMED.store(at + 1, Ordering::Relaxed);
    Ok(())
}

/// Passes a point. The process dies here if the point is armed.
#[inline(always)]
pub fn reach(point: Point) {
    let armed = ARMED.load(Ordering::Relaxed);
    if armed != NONE {
        trigger(point, armed);
    }
}

/// Ends the process with `EXIT_CODE`, without unwinding: no file is written or synced, no
/// destructor runs. Or makes the thread panic once, as a broken invariant would.
#[cold]
fn trigger(point: Point, armed: usize) {
    let is_armed = POINTS.get(armed - 1).is_some_and(|(known, _)| *known == point);
    let decrement = |left: u64| left.checked_sub(1);
    if is_armed
        && PASSES_LEFT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, decrement).is_err()
    {
        if PANICS.load(Ordering::Relaxed) {
            ARMED.store(NONE, Ordering::Relaxed);
            panic!("a test wanted a panic here");
        }
        std::process::exit(EXIT_CODE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failpoint_names_are_unique_and_invalid_specifications_rejected() {
        let mut names: Vec<_> = POINTS.iter().map(|(_, name)| *name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), POINTS.len());
        for words in ["", "flush", "flush.before", "flush.before=abort@0", "flush.before=sleep"] {
            assert!(arm(words).expect_err(words).contains("flush.before"), "{words}");
        }
        assert_eq!(ARMED.load(Ordering::Relaxed), NONE);
    }

    #[test]
    fn unarmed_failpoint_does_nothing() {
        for (point, _) in POINTS {
            reach(*point);
        }
    }
}
