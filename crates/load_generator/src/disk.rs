//! Time that the disk takes to make a write durable.
//!
//! Measured as a transaction log does it: in a file that was preallocated and written before, one
//! write at a place, then fdatasync.

use crate::charts::short;
use hdrhistogram::Histogram;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Sizes of a write, bytes.
const SIZES: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];
/// Length of the file, bytes.
const FILE_BYTES: usize = 32 << 20;

/// A file for probing, deleted on drop.
struct Probe {
    file: File,
    path: std::path::PathBuf,
}

impl Probe {
    fn create(directory: &Path, bytes: usize) -> Result<Probe, String> {
        let path = directory.join(format!(".credenza-probe-{}", std::process::id()));
        let create = || {
            let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            let mut probe = Probe { file, path: path.clone() };
            let chunk = vec![0x5A; 1 << 20];
            for _ in 0..bytes.div_ceil(chunk.len()) {
                probe.file.write_all(&chunk)?;
            }
            probe.file.sync_all()?;
            Ok(probe)
        };
        create().map_err(|error: std::io::Error| format!("can't write {}: {error}", path.display()))
    }

    /// Measures the times of a write and fdatasync, nanoseconds.
    fn times(&self, size: usize, span: usize, budget: Duration) -> Result<Histogram<u64>, String> {
        let mut times = crate::load::new_histogram();
        let block = vec![0xA5; size];
        let (begin, mut offset) = (Instant::now(), 0);
        while begin.elapsed() < budget || times.len() < 5 {
            let start = Instant::now();
            let written = self.file.write_all_at(&block, offset as u64);
            written.and_then(|()| self.file.sync_data()).map_err(|error| error.to_string())?;
            times.saturating_record(start.elapsed().as_nanos() as u64);
            offset = if offset + 2 * size > span { 0 } else { offset + size };
        }
        Ok(times)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // A file that could not be removed has a name that explains it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Measures for a third of a second; returns the median time of a 4 KiB write with fdatasync,
/// microseconds.
pub fn fdatasync_us(directory: &Path) -> Result<f64, String> {
    let probe = Probe::create(directory, 1 << 20)?;
    let times = probe.times(SIZES[0], 1 << 20, Duration::from_millis(300))?;
    Ok(times.value_at_quantile(0.5) as f64 / 1000.0)
}

/// Returns the disk space that the files below a directory take. Files that are removed meanwhile
/// do not count.
pub fn used_bytes(directory: &Path) -> Result<u64, String> {
    let entries = std::fs::read_dir(directory)
        .map_err(|error| format!("can't read {}: {error}", directory.display()))?;
    let mut bytes = 0;
    for entry in entries.flatten() {
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                bytes += used_bytes(&entry.path()).unwrap_or_default();
            }
            // A block of `stat` has 512 bytes on every system.
            Ok(metadata) => bytes += metadata.blocks() * 512,
            Err(_) => {}
        }
    }
    Ok(bytes)
}

/// Measures all sizes; returns the results as text or JSON.
pub fn run(directory: &Path, json: bool) -> Result<String, String> {
    let probe = Probe::create(directory, FILE_BYTES)?;
    let (mut rows, mut text) = (Vec::new(), String::new());
    for size in SIZES {
        let times = probe.times(size, FILE_BYTES, Duration::from_secs(2))?;
        let microseconds_at = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
        let (p50, p99, max) =
            (microseconds_at(0.5), microseconds_at(0.99), times.max() as f64 / 1000.0);
        rows.push(serde_json::json!({
            "bytes": size, "count": times.len(), "p50_us": p50, "p99_us": p99, "max_us": max,
        }));
        let [p50, p99, max] = [p50, p99, max].map(short);
        let count = times.len();
        text.push_str(&format!(
            "write and fdatasync of {size:>7} bytes: p50 {p50:>6} us, p99 {p99:>6} us, \
             max {max:>6} us ({count} writes)\n"
        ));
    }
    Ok(if json { format!("{:#}\n", serde_json::json!({ "fdatasync": rows })) } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn used_bytes_counts_blocks_of_all_folders() {
        let folder = std::env::temp_dir().join(format!("bench-used-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("inner")).expect("created");
        for name in ["a", "inner/b"] {
            let file = File::create(folder.join(name)).expect("created");
            file.write_all_at(&[1; 8_192], 0).expect("written");
            file.sync_all().expect("synced");
        }
        let used = used_bytes(&folder).expect("read");
        assert!((16_384..200_000).contains(&used), "{used}");
        std::fs::remove_dir_all(&folder).expect("removed");
        assert!(used_bytes(&folder).is_err());
    }
}
