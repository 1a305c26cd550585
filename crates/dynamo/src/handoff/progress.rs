//! Progress of partitions that this node receives: counters, the current rate, and about how long
//! they still take.

use super::send::PartitionWeight;
use crate::message::MessageResult;
use base::RingTransfer;
use base::codec::{Reader, Writer};
use bytes::Bytes;
use runtime::world;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Window of the rate, in milliseconds.
const OF_LATE_MS: u64 = 10_000;
/// Maximum length of `waits_for`, in bytes.
const WORDS_BYTES_MAX: usize = 1_024;

/// See the head of this file.
#[derive(Default)]
pub struct HandoffTracker {
    known: Mutex<HandoffRecord>,
}

#[derive(Default)]
struct HandoffRecord {
    /// Epoch of the change that it is about.
    since: u64,
    rows: u64,
    bytes: u64,
    /// Partitions that were to be received when it was looked last.
    left: u64,
    /// Approximate size of one partition's copy, in bytes. `None`: unknown.
    each: Option<u64>,
    /// Bytes that have come of the present partition.
    of_this: u64,
    /// Time before which no more is fetched, in milliseconds.
    free_at: u64,
    /// Bytes received lately, with their times in milliseconds.
    of_late: VecDeque<(u64, u64)>,
    waits_for: String,
}

/// Progress of a node's transfers, as it reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoffProgress {
    rows: u64,
    bytes: u64,
    /// Bytes left, plus one. 0: unknown.
    bytes_left: u64,
    rate: u64,
    waits_for: String,
}

impl HandoffTracker {
    fn known(&self) -> MutexGuard<'_, HandoffRecord> {
        self.known.lock().expect("no one panics while holding it")
    }

    /// Begins a partition in the change of epoch `since`; `left`: number of partitions to receive.
    pub(super) fn begins(&self, since: u64, left: u64) {
        let mut known = self.known();
        if known.since != since {
            *known = HandoffRecord { since, ..HandoffRecord::default() };
        }
        known.left = left;
        known.of_this = 0;
        known.waits_for.clear();
    }

    /// Returns true if it is known how large a copy is.
    pub(super) fn is_weighed(&self) -> bool {
        self.known().each.is_some()
    }

    /// Sets the size of a copy to the average of those on a node that has some.
    pub(super) fn weigh(&self, weight: PartitionWeight) {
        self.known().each = weight.bytes.checked_div(weight.copies);
    }

    /// Returns the time for which nothing more is to be fetched.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_millis(self.known().free_at.saturating_sub(world::milliseconds()))
    }

    /// Counts rows and bytes that came, which should take `least_ms` milliseconds at least.
    pub(super) fn took(&self, (rows, bytes): (u64, u64), least_ms: u64) {
        let now = world::milliseconds();
        let mut known = self.known();
        known.free_at = known.free_at.max(now) + least_ms;
        known.rows += rows;
        known.bytes += bytes;
        known.of_this += bytes;
        known.of_late.push_back((now, bytes));
        known.waits_for.clear();
        while known.of_late.front().is_some_and(|(when, _)| when + OF_LATE_MS < now) {
            known.of_late.pop_front();
        }
    }

    /// Notes the reason for which the transfer waits.
    pub(super) fn waits(&self, why: String) {
        let end = (0..=why.len().min(WORDS_BYTES_MAX)).rev().find(|at| why.is_char_boundary(*at));
        self.known().waits_for = why[..end.unwrap_or(0)].to_string();
    }

    /// Notes that no partition is to be received.
    pub(super) fn rests(&self) {
        let mut known = self.known();
        known.left = 0;
        known.of_late.clear();
        known.waits_for.clear();
    }

    /// Fills the fields of a transfer that the ring does not hold.
    pub fn told(&self, transfer: &mut RingTransfer) {
        self.progress().fill(transfer);
    }

    /// All of it, now.
    pub fn progress(&self) -> HandoffProgress {
        let now = world::milliseconds();
        let known = self.known();
        let of_late = known.of_late.iter().filter(|(when, _)| when + OF_LATE_MS >= now);
        let bytes: u64 = of_late.clone().map(|(_, bytes)| bytes).sum();
        let took = of_late.clone().next().map_or(0, |(when, _)| now.saturating_sub(*when));
        let all = known.each.map(|each| each.saturating_mul(known.left));
        let bytes_left = match (known.left, all) {
            (0, _) => 1,
            (_, None) => 0,
            (_, Some(all)) => all.saturating_sub(known.of_this).saturating_add(1),
        };
        HandoffProgress {
            rows: known.rows,
            bytes: known.bytes,
            bytes_left,
            rate: bytes.saturating_mul(1_000) / took.max(1_000),
            waits_for: known.waits_for.clone(),
        }
    }
}

impl HandoffProgress {
    /// Appends it as it is sent.
    pub fn write(&self, out: &mut Vec<u8>) {
        let numbers = [self.rows, self.bytes, self.bytes_left, self.rate];
        numbers.into_iter().for_each(|number| out.put_u64(number));
        out.put_string(self.waits_for.as_bytes());
    }

    /// Reads what another node sent.
    pub fn read(bytes: &Bytes) -> MessageResult<HandoffProgress> {
        let mut from = Reader::new(bytes);
        let mut number = || from.u64("progress");
        let (rows, bytes) = (number()?, number()?);
        let (bytes_left, rate) = (number()?, number()?);
        let words = from.string(WORDS_BYTES_MAX, "what is waited for")?;
        let waits_for = String::from_utf8_lossy(words).into_owned();
        from.end("progress")?;
        Ok(HandoffProgress { rows, bytes, bytes_left, rate, waits_for })
    }

    /// Fills in what the ring does not say.
    pub fn fill(self, transfer: &mut RingTransfer) {
        let HandoffProgress { rows, bytes, bytes_left, rate, waits_for } = self;
        transfer.rows = rows;
        transfer.bytes = bytes;
        transfer.bytes_left = bytes_left.checked_sub(1);
        transfer.rate = rate;
        transfer.waits_for = waits_for;
        transfer.eta_ms = transfer
            .bytes_left
            .and_then(|left| if left == 0 { Some(0) } else { (left * 1_000).checked_div(rate) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_node_tells_reads_back_and_says_how_long_it_takes() {
        let moving = HandoffTracker::default();
        moving.begins(7, 4);
        assert!(!moving.is_weighed());
        assert_eq!(moving.progress().bytes_left, 0, "not known");
        moving.weigh(PartitionWeight { copies: 2, rows: 9, bytes: 2_000 });
        moving.took((3, 400), 5_000);
        assert!(moving.pause() > Duration::from_secs(1));
        moving.waits("n2".into());
        let mut bytes = Vec::new();
        moving.progress().write(&mut bytes);
        let read = HandoffProgress::read(&bytes.into()).expect("it reads");
        let mut transfer = RingTransfer::default();
        read.fill(&mut transfer);
        assert_eq!((transfer.rows, transfer.bytes), (3, 400));
        assert_eq!(transfer.bytes_left, Some(3_600), "four of a thousand, less what came");
        assert_eq!((transfer.rate, transfer.eta_ms), (400, Some(9_000)));
        assert_eq!(transfer.waits_for, "n2");
        moving.rests();
        let mut transfer = RingTransfer::default();
        moving.progress().fill(&mut transfer);
        assert_eq!((transfer.bytes_left, transfer.eta_ms), (Some(0), Some(0)));
    }
}
