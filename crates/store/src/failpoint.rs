//! Places where a test lets the process die, to see that what is left can be opened again.
//!
//! A point costs one relaxed load and a branch that is never taken. The program that starts the
//! process arms a point once, before anything runs (`CREDENZA_FAILPOINT=NAME=abort`, or
//! `NAME=abort@7` for the seventh time it is reached; `panic` instead of `abort` makes the thread
//! panic there). This crate reads no environment.
//!
//! A process that dies here ends with an exit code that nothing else has, so that a test never
//! takes a panic, an abort or a signal for a death at the place it armed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

macro_rules! points {
    ($($(#[$doc:meta])* $point:ident = $name:literal,)+) => {
        /// Point at which a process may be made to die.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Point {
            $($(#[$doc])* $point,)+
        }

        /// Every place, by its name; a test dies once at each of them.
        pub const POINTS: &[(Point, &str)] = &[$((Point::$point, $name),)+];
    };
}

points! {
    /// First start: the identity is written and synced, under a name beside its own.
    FirstStartWritten = "first_start.identity.written",
    /// First start: the identity has its name; the directory is not synced.
    FirstStartNamed = "first_start.identity.named",
    /// First start: the directory and its folders are there, nothing else.
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
    /// A row was read from a table on disk, within the section that takes a panic for damage.
    RowRead = "row.read",
    /// The active table was sealed; nothing of it is on disk.
    RotateAfter = "rotate.after",
    /// Sealed tables are about to be written.
    FlushBefore = "flush.before",
    /// Sealed tables are on disk and listed.
    FlushAfter = "flush.after",
    /// Tables were merged and the new list is in force.
    CompactAfter = "compact.after",
    /// Table files under a dropped prefix are gone, single rows are not yet.
    DropFilesAfter = "drop.files.after",
    /// All rows under a dropped prefix are gone, on disk too.
    DropAfter = "drop.after",
    /// A table of rows that come from another node is on disk; no list names it.
    InstallWritten = "install.written",
    /// All of them are; the old content is still in force.
    InstallBefore = "install.before",
    /// The list names the tables: the new content is in force, and not reported yet.
    InstallAfter = "install.after",
    /// A checkpoint's tables are linked, its list is not yet named.
    CheckpointLinked = "checkpoint.linked",
    /// A checkpoint of the trees is whole.
    CheckpointAfter = "checkpoint.after",
    /// A checkpoint of the whole node has its name, and is not reported yet.
    CheckpointNamed = "checkpoint.named",
}

/// Exit code of a process that died at its armed place, and of no other.
pub const EXIT_CODE: i32 = 86;

/// Value of `ARMED` if no point is armed.
const NONE: usize = 0;

/// One more than the armed point's number.
static ARMED: AtomicUsize = AtomicUsize::new(NONE);
/// Number of times that the armed point is still passed unharmed.
static SPARED: AtomicU64 = AtomicU64::new(0);
/// True if the thread panics at the point. False: the process dies without a message.
static PANICS: AtomicBool = AtomicBool::new(false);

/// Arms one point: `NAME=abort`, `NAME=abort@7` or `NAME=panic`. An error lists the points if the
/// words are none of these.
pub fn arm(words: &str) -> Result<(), String> {
    let (name, action) = words.split_once('=').unwrap_or((words, ""));
    let (action, nth) = action.split_once('@').unwrap_or((action, "1"));
    let known = matches!(action, "abort" | "panic");
    let nth = nth.parse::<u64>().ok().filter(|nth| known && *nth > 0);
    let at = POINTS.iter().position(|(_, known)| *known == name);
    let (Some(at), Some(nth)) = (at, nth) else {
        let names: Vec<_> = POINTS.iter().map(|(_, name)| *name).collect();
        return Err(format!(
            "`{words}` is no failpoint: NAME=abort, NAME=panic or NAME=abort@N is wanted, NAME one \
             of {}",
            names.join(" ")
        ));
    };
    PANICS.store(action == "panic", Ordering::Relaxed);
    SPARED.store(nth - 1, Ordering::Relaxed);
    ARMED.store(at + 1, Ordering::Relaxed);
    Ok(())
}

/// Passes a point. The process dies here if the point is armed.
#[inline(always)]
pub fn reach(point: Point) {
    let armed = ARMED.load(Ordering::Relaxed);
    if armed != NONE {
        reached(point, armed);
    }
}

/// Ends the process with `EXIT_CODE`, without unwinding: no file is written or synced, no
/// destructor runs. Or lets the thread panic once, as a broken invariant would.
#[cold]
fn reached(point: Point, armed: usize) {
    let is_armed = POINTS.get(armed - 1).is_some_and(|(known, _)| *known == point);
    let spared = |left: u64| left.checked_sub(1);
    if is_armed && SPARED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spared).is_err() {
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
    fn names_are_known_once_and_others_are_refused_in_words() {
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
    fn nothing_happens_where_nothing_is_armed() {
        for (point, _) in POINTS {
            reach(*point);
        }
    }
}
