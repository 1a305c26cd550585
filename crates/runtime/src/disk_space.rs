//! Free space on the disk under the data directory: bytes, and files (inodes), since log and store
//! create new files all the time.
//!
//! Promises: below the reserve of either, writes are refused with an error that names it; they are
//! accepted again on their own when slightly more than the reserve is free. Reads and deletes go
//! on.

use base::{Error, Reason};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Divisor that bounds the reserve on a small disk: at most this part of it is held back for
/// deletes and log truncation.
const RESERVE_PART: u64 = 8;
/// Number of files held in reserve: segments and tables of a log truncation and some merges at
/// once.
const RESERVE_FILES: u64 = 64;

/// Free space as last measured.
pub struct DiskSpace {
    /// True if writes are refused.
    full: AtomicBool,
    /// True if inodes, not bytes, are lacking.
    lacks_files: AtomicBool,
    free_bytes: AtomicU64,
    total_bytes: AtomicU64,
    free_files: AtomicU64,
    /// Bytes that must be free; with less, writes are refused.
    reserve_bytes: AtomicU64,
}

/// Figures that a file system reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Bytes that a process without privileges may still write.
    pub free_bytes: u64,
    /// Total bytes.
    pub total_bytes: u64,
    /// Inode counts. `None`: the file system has no fixed number of inodes.
    pub files: Option<Files>,
}

/// Inode counts of a file system with a fixed number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Files {
    /// Inodes that can still be made.
    pub free: u64,
    /// Total inodes.
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
    /// Returns the figures of the file system under a directory. `None`: the system call failed.
    pub fn of(directory: &Path) -> Option<Figures> {
        let disk = rustix::fs::statvfs(directory).ok()?;
        // File systems that create inodes on demand (Btrfs, ZFS) report a total of 0.
        let files = Files { free: disk.f_favail, total: disk.f_files };
        Some(Figures {
            free_bytes: disk.f_bavail * disk.f_frsize,
            total_bytes: disk.f_blocks * disk.f_frsize,
            files: Some(files).filter(|files| files.total > 0),
        })
    }

    /// Returns the bytes to hold in reserve: the wanted number, or on a small disk a part of its
    /// size.
    pub fn reserve_bytes(&self, wanted: u64) -> u64 {
        wanted.min(self.total_bytes / RESERVE_PART)
    }

    /// Returns whether too few bytes, and whether too few files, are free. `full`: writes were
    /// refused before, so slightly more than the reserve must be free before they go on.
    fn lacks(&self, wanted: u64, full: bool) -> (bool, bool) {
        let line = |reserve: u64| if full { reserve + reserve / 8 } else { reserve };
        let files = self
            .files
            .is_some_and(|files| files.free < line(RESERVE_FILES.min(files.total / RESERVE_PART)));
        (self.free_bytes < line(self.reserve_bytes(wanted)), files)
    }
}

impl DiskSpace {
    /// Stores new figures. `failed`: the log's last allocation found the disk full.
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

    /// Returns true if writes are refused.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Returns true if writes are refused because too few inodes are free.
    pub fn lacks_files(&self) -> bool {
        self.lacks_files.load(Ordering::Relaxed)
    }

    /// Returns the text that names what is lacking.
    pub fn lack(&self) -> &'static str {
        match self.lacks_files() {
            true => "the disk has nearly no inodes left",
            false => "the disk is nearly full",
        }
    }

    /// Returns the error of a write that is refused for lack of space: `out_of_space`.
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

    /// Returns true if writes go on and less than twice the reserve is free.
    pub fn fills_up(&self) -> bool {
        !self.is_full() && self.free_bytes() < self.reserve_bytes().saturating_mul(2)
    }

    /// Returns the bytes that must be free; with less, writes are refused.
    pub fn reserve_bytes(&self) -> u64 {
        self.reserve_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes free at the last measurement.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes.load(Ordering::Relaxed)
    }

    /// Returns the total bytes at the last measurement.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of inodes free at the last measurement. `None`: no limit is known.
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
