//! Time that this disk takes to make a small write durable, which bounds every synced write.

use super::FileDisk;
use crate::StoreError;
use std::io;
use std::path::Path;
use std::time::Instant;

/// Times of one small write with its sync, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFigures {
    /// Median of the times, in microseconds.
    pub p50_us: u64,
    /// 99th percentile of the times, in microseconds.
    pub p99_us: u64,
}

const FILE_BYTES: u64 = 1024 * 1024;
const WRITE_BYTES: u64 = 4 * 1024;

/// Writes and syncs 4 KiB `count` times as the log does, in a file without a name: the directory
/// may be a copy, in which nothing may change.
pub fn measure_sync(directory: &Path, count: usize) -> Result<SyncFigures, StoreError> {
    let disk = FileDisk::open(directory)?;
    let measure = || -> io::Result<SyncFigures> {
        let file = disk.create_unnamed(FILE_BYTES)?;
        file.write_at(&vec![0; FILE_BYTES as usize], 0)?;
        file.sync_data()?;
        let mut times_us = Vec::with_capacity(count.max(1));
        for turn in 0..count.max(1) as u64 {
            let bytes = [turn as u8; WRITE_BYTES as usize];
            let started = Instant::now();
            file.write_at(&bytes, turn * WRITE_BYTES % FILE_BYTES)?;
            file.sync_data()?;
            times_us.push(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        times_us.sort_unstable();
        let percentile = |hundredths: usize| times_us[(times_us.len() - 1) * hundredths / 100];
        Ok(SyncFigures { p50_us: percentile(50), p99_us: percentile(99) })
    };
    let text = || format!("can't measure the disk of {}", directory.display());
    measure().map_err(|error| StoreError::io(text(), error))
}
