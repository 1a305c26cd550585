//! Progress of partitions that this node receives: counters, the current rate, and the estimated
//! remaining time.

use crate::message::MessageResult;
use base::RingTransfer;
use base::codec::{Reader, Writer};
use bytes::Bytes;
use runtime::world;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use vnode_rows::transfer_pages::SizeEstimate;

/// Window of the rate, in milliseconds.
const RATE_WINDOW_MS: u64 = 10_000;
/// Maximum length of `waits_for`, in bytes.
const WAITS_FOR_BYTES_MAX: usize = 1_024;

/// See the head of this file.
#[derive(Default)]
pub struct HandoffTracker {
    record: Mutex<HandoffRecord>,
}

#[derive(Default)]
struct HandoffRecord {
    /// Epoch that names the ring change.
    change_epoch: u64,
    rows: u64,
    bytes: u64,
    /// Number of partitions still to receive, as of the start of the current one.
    partitions_left: u64,
    /// Approximate size of one partition's copy, in bytes. `None`: unknown.
    copy_bytes: Option<u64>,
    /// Bytes received of the current partition.
    current_bytes: u64,
    /// Time before which no page is fetched, in milliseconds: the rate limit.
    next_fetch_ms: u64,
    /// Bytes received within the rate's window, with their times in milliseconds.
    recent: VecDeque<(u64, u64)>,
    waits_for: String,
}

/// Progress of a node's transfers, as it reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoffProgress {
    rows: u64,
    bytes: u64,
    /// Bytes remaining, plus one. 0: unknown.
    bytes_left: u64,
    rate: u64,
    waits_for: String,
}

impl HandoffTracker {
    fn record(&self) -> MutexGuard<'_, HandoffRecord> {
        self.record.lock().expect("no one panics while holding it")
    }

    /// Begins a partition in the ring change named by `change_epoch`. `partitions_left`: number of
    /// partitions to receive.
    pub(super) fn begin_partition(&self, change_epoch: u64, partitions_left: u64) {
        let mut record = self.record();
        if record.change_epoch != change_epoch {
            *record = HandoffRecord { change_epoch, ..HandoffRecord::default() };
        }
        record.partitions_left = partitions_left;
        record.current_bytes = 0;
        record.waits_for.clear();
    }

    /// Returns true if the size of a copy is known.
    pub(super) fn has_copy_size(&self) -> bool {
        self.record().copy_bytes.is_some()
    }

    /// Sets the size of a copy to a node's average.
    pub(super) fn set_copy_size(&self, estimate: SizeEstimate) {
        self.record().copy_bytes = estimate.bytes.checked_div(estimate.copies);
    }

    /// Returns the pause before the next page that the rate limit requires.
    pub(super) fn fetch_pause(&self) -> Duration {
        Duration::from_millis(self.record().next_fetch_ms.saturating_sub(world::milliseconds()))
    }

    /// Counts a received page, which must take at least `page_ms_min` milliseconds.
    pub(super) fn record_page(&self, (rows, bytes): (u64, u64), page_ms_min: u64) {
        let now = world::milliseconds();
        let mut record = self.record();
        record.next_fetch_ms = record.next_fetch_ms.max(now) + page_ms_min;
        record.rows += rows;
        record.bytes += bytes;
        record.current_bytes += bytes;
        record.recent.push_back((now, bytes));
        record.waits_for.clear();
        while record.recent.front().is_some_and(|(when, _)| when + RATE_WINDOW_MS < now) {
            record.recent.pop_front();
        }
    }

    /// Sets the reason for which the transfer waits.
    pub(super) fn set_waits_for(&self, why: String) {
        let end =
            (0..=why.len().min(WAITS_FOR_BYTES_MAX)).rev().find(|at| why.is_char_boundary(*at));
        self.record().waits_for = why[..end.unwrap_or(0)].to_string();
    }

    /// Records that no partition is to be received.
    pub(super) fn set_idle(&self) {
        let mut record = self.record();
        record.partitions_left = 0;
        record.recent.clear();
        record.waits_for.clear();
    }

    /// Fills the fields of a transfer that the ring does not hold.
    pub fn fill_transfer(&self, transfer: &mut RingTransfer) {
        self.progress().fill(transfer);
    }

    /// Returns the current progress.
    pub fn progress(&self) -> HandoffProgress {
        let now = world::milliseconds();
        let record = self.record();
        let recent = record.recent.iter().filter(|(when, _)| when + RATE_WINDOW_MS >= now);
        let bytes: u64 = recent.clone().map(|(_, bytes)| bytes).sum();
        let elapsed_ms = recent.clone().next().map_or(0, |(when, _)| now.saturating_sub(*when));
        let all =
            record.copy_bytes.map(|copy_bytes| copy_bytes.saturating_mul(record.partitions_left));
        let bytes_left = match (record.partitions_left, all) {
            (0, _) => 1,
            (_, None) => 0,
            (_, Some(all)) => all.saturating_sub(record.current_bytes).saturating_add(1),
        };
        HandoffProgress {
            rows: record.rows,
            bytes: record.bytes,
            bytes_left,
            rate: bytes.saturating_mul(1_000) / elapsed_ms.max(1_000),
            waits_for: record.waits_for.clone(),
        }
    }
}

impl HandoffProgress {
    /// Encodes the progress.
    pub fn write(&self, out: &mut Vec<u8>) {
        let numbers = [self.rows, self.bytes, self.bytes_left, self.rate];
        numbers.into_iter().for_each(|number| out.put_u64(number));
        out.put_string(self.waits_for.as_bytes());
    }

    /// Decodes the progress of another node.
    pub fn read(bytes: &Bytes) -> MessageResult<HandoffProgress> {
        let mut from = Reader::new(bytes);
        let mut number = || from.u64("progress");
        let (rows, bytes) = (number()?, number()?);
        let (bytes_left, rate) = (number()?, number()?);
        let text = from.string(WAITS_FOR_BYTES_MAX, "what is waited for")?;
        let waits_for = String::from_utf8_lossy(text).into_owned();
        from.end("progress")?;
        Ok(HandoffProgress { rows, bytes, bytes_left, rate, waits_for })
    }

    /// Fills the fields of a transfer that the ring does not hold.
    pub fn fill(self, transfer: &mut RingTransfer) {
        let HandoffProgress { rows, bytes, bytes_left, rate, waits_for } = self;
        transfer.rows = rows;
        transfer.bytes = bytes;
        transfer.bytes_left = bytes_left.checked_sub(1);
        transfer.rate = rate;
        transfer.waits_for = waits_for;
        // Another node's numbers may be anything.
        transfer.eta_ms = transfer.bytes_left.and_then(|bytes| match bytes {
            0 => Some(0),
            bytes => bytes.saturating_mul(1_000).checked_div(rate),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handoff_progress_round_trips_and_estimates_remaining_time() {
        let tracker = HandoffTracker::default();
        tracker.begin_partition(7, 4);
        assert!(!tracker.has_copy_size());
        assert_eq!(tracker.progress().bytes_left, 0, "not known");
        tracker.set_copy_size(SizeEstimate { copies: 2, rows: 9, bytes: 2_000 });
        tracker.record_page((3, 400), 5_000);
        assert!(tracker.fetch_pause() > Duration::from_secs(1));
        tracker.set_waits_for("n2".into());
        let mut bytes = Vec::new();
        tracker.progress().write(&mut bytes);
        let read = HandoffProgress::read(&bytes.into()).expect("it reads");
        let mut transfer = RingTransfer::default();
        read.fill(&mut transfer);
        assert_eq!((transfer.rows, transfer.bytes), (3, 400));
        assert_eq!(transfer.bytes_left, Some(3_600), "four of a thousand, less what came");
        assert_eq!((transfer.rate, transfer.eta_ms), (400, Some(9_000)));
        assert_eq!(transfer.waits_for, "n2");
        tracker.set_idle();
        let mut transfer = RingTransfer::default();
        tracker.progress().fill(&mut transfer);
        assert_eq!((transfer.bytes_left, transfer.eta_ms), (Some(0), Some(0)));
    }

    #[test]
    fn largest_numbers_of_another_node_overflow_nothing() {
        for (rate, eta_ms) in [(0, None), (1, Some(u64::MAX)), (u64::MAX, Some(1))] {
            let progress = HandoffProgress { bytes_left: u64::MAX, rate, ..Default::default() };
            let mut transfer = RingTransfer::default();
            progress.fill(&mut transfer);
            assert_eq!((transfer.bytes_left, transfer.eta_ms), (Some(u64::MAX - 1), eta_ms));
        }
    }
}
