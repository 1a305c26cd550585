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
    is_short_of_inodes: AtomicBool,
    free_bytes: AtomicU64,
    total_bytes: AtomicU64,
    free_files: AtomicU64,
    /// Bytes that must be free; with less, writes are refused.
    reserve_bytes: AtomicU64,
}

/// Figures that a file system reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskFigures {
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
        let (zero, unlimited) = (|| AtomicU64::new(0), || AtomicU64::new(u64::MAX));
        let unset = || AtomicBool::new(false);
        DiskSpace {
            full: unset(),
            is_short_of_inodes: unset(),
            free_bytes: unlimited(),
            total_bytes: zero(),
            free_files: unlimited(),
            reserve_bytes: zero(),
        }
    }
}

impl DiskFigures {
    /// Returns the figures of the file system under a directory. `None`: the system call failed.
    pub fn measure(directory: &Path) -> Option<DiskFigures> {
        let disk = rustix::fs::statvfs(directory).ok()?;
        // File systems that create inodes on demand (Btrfs, ZFS) report a total of 0.
        let files = Files { free: disk.f_favail, total: disk.f_files };
        Some(DiskFigures {
            free_bytes: disk.f_bavail * disk.f_frsize,
            total_bytes: disk.f_blocks * disk.f_frsize,
            files: Some(files).filter(|files| files.total > 0),
        })
    }

    /// Returns the bytes to hold in reserve: the configured number, or on a small disk a fixed part
    /// of its size.
    pub fn reserve_bytes(&self, configured: u64) -> u64 {
        configured.min(self.total_bytes / RESERVE_PART)
    }

    /// Returns true for a shortage of bytes, and for one of inodes. `full`: writes are refused now;
    /// to accept them again, slightly more than the reserve must be free (hysteresis).
    fn shortage(&self, configured: u64, full: bool) -> (bool, bool) {
        let threshold = |reserve: u64| if full { reserve + reserve / 8 } else { reserve };
        let files = self.files.is_some_and(|files| {
            files.free < threshold(RESERVE_FILES.min(files.total / RESERVE_PART))
        });
        (self.free_bytes < threshold(self.reserve_bytes(configured)), files)
    }
}

impl DiskSpace {
    /// Stores new figures. `failed`: the log's last allocation found the disk full.
    pub fn update(&self, figures: &DiskFigures, configured: u64, failed: bool) {
        let free_files = figures.files.map_or(u64::MAX, |files| files.free);
        self.free_bytes.store(figures.free_bytes, Ordering::Relaxed);
        self.total_bytes.store(figures.total_bytes, Ordering::Relaxed);
        self.free_files.store(free_files, Ordering::Relaxed);
        self.reserve_bytes.store(figures.reserve_bytes(configured), Ordering::Relaxed);
        let was_full = self.is_full();
        let (bytes, files) = figures.shortage(configured, was_full);
        let full = bytes || files || failed;
        self.is_short_of_inodes.store(files, Ordering::Relaxed);
        if full == was_full {
            return;
        }
        self.full.store(full, Ordering::Relaxed);
        let free = figures.free_bytes;
        match full {
            true => tracing::warn!(
                target: "store", free, free_files, "the disk is nearly full: writes are refused"
            ),
            false => tracing::info!(
                target: "store", free, free_files,
                "the disk has free space again: writes are accepted"
            ),
        }
    }

    /// Returns true if writes are refused.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Returns true if writes are refused because too few inodes are free.
    pub fn is_short_of_inodes(&self) -> bool {
        self.is_short_of_inodes.load(Ordering::Relaxed)
    }

    /// Returns the text that names what is lacking.
    pub fn shortage_text(&self) -> &'static str {
        match self.is_short_of_inodes() {
            true => "the disk has nearly no inodes left",
            false => "the disk is nearly full",
        }
    }

    /// Returns the error of a write that is refused for lack of space: `out_of_space`.
    pub fn refusal_error(&self) -> Error {
        let text = match self.is_short_of_inodes() {
            false => {
                "the disk is nearly full: only deletes and reads are accepted; free some space, or \
                 lower disk_reserve_bytes"
            }
            true => {
                "the disk has nearly no inodes left (df -i): only deletes and reads are accepted; \
                 remove files that are not needed"
            }
        };
        Error::new(Reason::OutOfSpace, text)
    }

    /// Returns true if writes go on and less than twice the reserve is free.
    pub fn is_nearly_full(&self) -> bool {
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

    const RESERVE: u64 = 64 << 20;

    fn figures(free_bytes: u64, free: u64, total: u64) -> DiskFigures {
        DiskFigures { free_bytes, total_bytes: 10 << 30, files: Some(Files { free, total }) }
    }

    #[test]
    fn disk_is_full_if_blocks_or_inodes_fall_below_reserve() {
        let space = DiskSpace::default();
        let full = |figures: DiskFigures| {
            space.update(&figures, RESERVE, false);
            space.is_full()
        };
        assert!(!full(figures(1 << 30, 64, 100_000)));
        assert!(full(figures(1 << 30, 63, 100_000)));
        assert!(full(figures(1 << 30, 71, 100_000)), "a little more than the reserve");
        assert!(!full(figures(1 << 30, 72, 100_000)));
        assert!(full(figures(RESERVE - 1, 72, 100_000)));
        assert!(full(figures(RESERVE + RESERVE / 8 - 1, 72, 100_000)));
        assert!(!full(figures(RESERVE + RESERVE / 8, 72, 100_000)));
    }

    #[test]
    fn filling_disk_is_reported_before_writes_are_refused() {
        let space = DiskSpace::default();
        assert!(!space.is_nearly_full(), "nothing is known yet");
        let fills = |free_bytes| {
            space.update(&figures(free_bytes, 72, 100_000), RESERVE, false);
            (space.is_nearly_full(), space.is_full())
        };
        assert_eq!(fills(2 * RESERVE), (false, false));
        assert_eq!(fills(2 * RESERVE - 1), (true, false));
        assert_eq!(fills(RESERVE - 1), (false, true), "then that is said");
    }

    #[test]
    fn reserve_is_a_share_of_a_small_disk_and_ignores_dynamic_inodes() {
        let space = DiskSpace::default();
        space.update(&figures(1 << 30, 25, 200), RESERVE, false);
        assert!(!space.is_full(), "an eighth of 200");
        space.update(&figures(1 << 30, 24, 200), RESERVE, false);
        assert!(space.is_full() && space.is_short_of_inodes());
        assert_eq!(space.free_files(), Some(24));
        let no_inode_limit = DiskFigures { files: None, ..figures(1 << 30, 0, 0) };
        space.update(&no_inode_limit, RESERVE, false);
        assert!(!space.is_full());
        assert_eq!(space.free_files(), None);
        let small_disk = DiskFigures { total_bytes: 64 << 20, files: None, free_bytes: 8 << 20 };
        assert_eq!(small_disk.reserve_bytes(RESERVE), 8 << 20);
        space.update(&small_disk, RESERVE, false);
        assert!(!space.is_full());
        space.update(&small_disk, RESERVE, true);
        assert!(space.is_full(), "the log could not get a block");
    }
}
