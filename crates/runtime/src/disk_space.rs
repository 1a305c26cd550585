//! Room on the disk under the data directory: bytes, and files (inodes), for a log and a store make
//! new ones all the time.
//!
//! Promises: below the reserve of either, writes are refused with the words that say which, and
//! taken again by themselves when there is a little more than that. Reads and deletes go on.

use base::{Error, Reason};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// At most this part of the disk is held in reserve for deletes and for collapsing.
const RESERVE_PART: u64 = 8;
/// So many files are held in reserve: segments and tables of a collapse and some merges at once.
const RESERVE_FILES: u64 = 64;

/// What is left of the disk, as last seen.
pub struct DiskSpace {
    /// True if writes are refused.
    full: AtomicBool,
    /// True if inodes are what is lacking.
    lacks_files: AtomicBool,
    free_bytes: AtomicU64,
    total_bytes: AtomicU64,
    free_files: AtomicU64,
    /// With less free than this writes are refused.
    reserve_bytes: AtomicU64,
}

/// What a file system says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Bytes that a process without privileges may still write.
    pub free_bytes: u64,
    /// Bytes in all.
    pub total_bytes: u64,
    /// Those that can still be made; none: it has no such limit.
    pub files: Option<Files>,
}

/// The inodes of a file system that has a fixed number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// Inodes that can still be made.
    pub free: u64,
    /// Inodes in all.
    pub total: u64,
}

impl Default for DiskSpace {
    fn default() -> DiskSpace {
        let (unknown, all) = (|| AtomicU64::new(0), || AtomicU64::new(u64::MAX));
        let no = || AtomicBool::new(false);
        DiskSpace {
            full: no(),
            lacks_files: no(),
            free_bytes: all(),
            total_bytes: unknown(),
            free_files: all(),
            reserve_bytes: unknown(),
        }
    }
}

impl Figures {
    /// Of the file system under a directory; none: it does not say.
    pub fn of(directory: &Path) -> Option<Figures> {
        let disk = rustix::fs::statvfs(directory).ok()?;
        // File systems that make inodes as they need them (Btrfs, ZFS) say that they have none.
        let files = Files { free: disk.f_favail, total: disk.f_files };
        Some(Figures {
            free_bytes: disk.f_bavail * disk.f_frsize,
            total_bytes: disk.f_blocks * disk.f_frsize,
            files: Some(files).filter(|files| files.total > 0),
        })
    }

    /// What is kept free on a disk of this size: on a small one the reserve is a part of it.
    pub fn reserve_bytes(&self, wanted: u64) -> u64 {
        wanted.min(self.total_bytes / RESERVE_PART)
    }

    /// Says if there are too few bytes, and if too few files, when writes were refused before
    /// (`full`) or were not: a little more than the reserve must be free before they go on.
    fn lacks(&self, wanted: u64, full: bool) -> (bool, bool) {
        let line = |reserve: u64| if full { reserve + reserve / 8 } else { reserve };
        let files = self
            .files
            .is_some_and(|files| files.free < line(RESERVE_FILES.min(files.total / RESERVE_PART)));
        (self.free_bytes < line(self.reserve_bytes(wanted)), files)
    }
}

impl DiskSpace {
    /// Notes what was seen; `failed`: the log could not get what it asked for.
    pub fn see(&self, figures: &Figures, wanted: u64, failed: bool) {
        let free_files = figures.files.map_or(u64::MAX, |files| files.free);
        self.free_bytes.store(figures.free_bytes, Ordering::Relaxed);
        self.total_bytes.store(figures.total_bytes, Ordering::Relaxed);
        self.free_files.store(free_files, Ordering::Relaxed);
        self.reserve_bytes.store(figures.reserve_bytes(wanted), Ordering::Relaxed);
        let before = self.is_full();
        let (bytes, files) = figures.lacks(wanted, before);
        let full = bytes || files || failed;
        self.lacks_files.store(files, Ordering::Relaxed);
        if full == before {
            return;
        }
        self.full.store(full, Ordering::Relaxed);
        let free = figures.free_bytes;
        match full {
            true => tracing::warn!(
                target: "store", free, free_files, "nearly full disk: writes are refused"
            ),
            false => tracing::info!(
                target: "store", free, free_files, "the disk has room again: writes go on"
            ),
        }
    }

    /// Returns true if writes are refused for lack of it.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Returns true if they are because there are too few inodes.
    pub fn lacks_files(&self) -> bool {
        self.lacks_files.load(Ordering::Relaxed)
    }

    /// What is lacking, where writes are refused.
    pub fn lack(&self) -> &'static str {
        match self.lacks_files() {
            true => "the disk has nearly no inodes left",
            false => "the disk is nearly full",
        }
    }

    /// Error of a write that is refused for lack of space; `out_of_space`.
    pub fn refusal(&self) -> Error {
        let text = match self.lacks_files() {
            false => {
                "the disk is nearly full: deletes and reads go on; free some space, or lower \
                 disk_reserve_bytes"
            }
            true => {
                "the disk has nearly no inodes left (df -i): deletes and reads go on; remove \
                 files that are not needed"
            }
        };
        Error::new(Reason::OutOfSpace, text)
    }

    /// True if writes go on, and less than twice the reserve is free.
    pub fn fills_up(&self) -> bool {
        !self.is_full() && self.free_bytes() < self.reserve_bytes().saturating_mul(2)
    }

    /// With less free than this, in bytes, writes are refused.
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes.load(Ordering::Relaxed)
    }

    /// Bytes free when last measured.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Bytes in all when last measured.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Files that can still be made; none: no such limit is known.
    pub fn free_files(&self) -> Option<u64> {
        Some(self.free_files.load(Ordering::Relaxed)).filter(|free| *free < u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: u64 = 64 << 20;

    fn figures(free_bytes: u64, free: u64, total: u64) -> Figures {
        Figures { free_bytes, total_bytes: 10 << 30, files: Some(Files { free, total }) }
    }

    #[test]
    fn a_disk_without_inodes_is_as_full_as_one_without_blocks() {
        let space = DiskSpace::default();
        let full = |figures: Figures| {
            space.see(&figures, WANTED, false);
            space.is_full()
        };
        assert!(!full(figures(1 << 30, 64, 100_000)));
        assert!(full(figures(1 << 30, 63, 100_000)));
        assert!(full(figures(1 << 30, 71, 100_000)), "a little more than the reserve");
        assert!(!full(figures(1 << 30, 72, 100_000)));
        assert!(full(figures(WANTED - 1, 72, 100_000)));
        assert!(full(figures(WANTED + WANTED / 8 - 1, 72, 100_000)));
        assert!(!full(figures(WANTED + WANTED / 8, 72, 100_000)));
    }

    #[test]
    fn a_disk_that_fills_up_is_seen_before_writes_are_refused() {
        let space = DiskSpace::default();
        assert!(!space.fills_up(), "nothing is known yet");
        let fills = |free_bytes| {
            space.see(&figures(free_bytes, 72, 100_000), WANTED, false);
            (space.fills_up(), space.is_full())
        };
        assert_eq!(fills(2 * WANTED), (false, false));
        assert_eq!(fills(2 * WANTED - 1), (true, false));
        assert_eq!(fills(WANTED - 1), (false, true), "then that is said");
    }

    #[test]
    fn of_a_small_disk_a_part_is_kept_and_where_inodes_are_made_on_demand_none() {
        let space = DiskSpace::default();
        space.see(&figures(1 << 30, 25, 200), WANTED, false);
        assert!(!space.is_full(), "an eighth of 200");
        space.see(&figures(1 << 30, 24, 200), WANTED, false);
        assert!(space.is_full() && space.lacks_files());
        assert_eq!(space.free_files(), Some(24));
        let without = Figures { files: None, ..figures(1 << 30, 0, 0) };
        space.see(&without, WANTED, false);
        assert!(!space.is_full());
        assert_eq!(space.free_files(), None);
        let small = Figures { total_bytes: 64 << 20, files: None, free_bytes: 8 << 20 };
        assert_eq!(small.reserve_bytes(WANTED), 8 << 20);
        space.see(&small, WANTED, false);
        assert!(!space.is_full());
        space.see(&small, WANTED, true);
        assert!(space.is_full(), "the log could not get a block");
    }
}
