//! Times of a master's own entries, from the first update of each until it is applied: the stages
//! for which a slow update waited.
//!
//! They are the times of the driver's turns, which read the clock anyway, and of the end of each
//! round of applying. Entries that took long are kept for their waiters, who ask right after the
//! wait.
//!
//! Invariant: entries stand in the order of their indexes; those that are saved, and those that are
//! decided, precede the others.

use base::LogIndex;
use std::collections::VecDeque;

/// Least time, in milliseconds, of an entry that is kept once it is applied.
const KEPT_MS_MIN: u64 = 10;
/// Number of entries that are kept.
const KEPT_MAX: usize = 64;

/// Times that an applied entry spent in each stage, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryStages {
    /// Time from its first update until it was proposed: it gathered updates, or waited for
    /// earlier entries.
    pub batch_ms: u64,
    /// Then until this node's log had it, or until it was decided without that.
    pub log_ms: u64,
    /// Then until it was decided: until enough other members had it.
    pub replicas_ms: u64,
    /// Then until its rows were visible.
    pub apply_ms: u64,
}

impl EntryStages {
    fn total_ms(&self) -> u64 {
        self.batch_ms + self.log_ms + self.replicas_ms + self.apply_ms
    }
}

/// Times of an entry that is not applied yet.
struct EntryTime {
    index: LogIndex,
    batch_ms: u64,
    proposed_ms: u64,
    saved_ms: u64,
    decided_ms: u64,
}

/// See the head of this file.
#[derive(Default)]
pub struct EntryTimes {
    /// Time of the driver's turn, in milliseconds.
    now_ms: u64,
    in_flight: VecDeque<EntryTime>,
    /// Number of entries at the front that are saved, and decided.
    saved: usize,
    decided: usize,
    kept: VecDeque<(LogIndex, EntryStages)>,
}

impl EntryTimes {
    /// Notes the time of the driver's turn.
    pub(super) fn begin_turn(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Notes that an entry is proposed, this long after its first update.
    pub(super) fn on_proposed(&mut self, index: LogIndex, batch_ms: u64) {
        // Entries of an ended epoch may have been given up: this one takes their place.
        while self.in_flight.pop_back_if(|entry| entry.index >= index).is_some() {}
        self.saved = self.saved.min(self.in_flight.len());
        self.decided = self.decided.min(self.in_flight.len());
        let proposed_ms = self.now_ms;
        self.in_flight.push_back(EntryTime {
            index,
            batch_ms,
            proposed_ms,
            saved_ms: proposed_ms,
            decided_ms: proposed_ms,
        });
    }

    /// Notes that this node's log has the entries up to this index.
    pub(super) fn on_saved(&mut self, last: LogIndex) {
        while let Some(entry) = self.in_flight.get_mut(self.saved)
            && entry.index <= last
        {
            entry.saved_ms = self.now_ms;
            self.saved += 1;
        }
    }

    /// Notes that the entries up to this index are decided.
    pub(super) fn on_decided(&mut self, last: LogIndex) {
        while let Some(entry) = self.in_flight.get_mut(self.decided)
            && entry.index <= last
        {
            entry.decided_ms = self.now_ms;
            self.decided += 1;
        }
    }

    /// Notes that the entries up to this index are applied, at this time. Keeps those that took
    /// long.
    pub(super) fn on_applied(&mut self, last: LogIndex, now_ms: u64) {
        let mut applied = 0;
        while let Some(entry) = self.in_flight.pop_front_if(|entry| entry.index <= last) {
            // Decided by the logs of other members, if it is not saved here.
            let is_saved = applied < self.saved;
            let logged_ms =
                if is_saved { entry.saved_ms.min(entry.decided_ms) } else { entry.decided_ms };
            let stages = EntryStages {
                batch_ms: entry.batch_ms,
                log_ms: logged_ms.saturating_sub(entry.proposed_ms),
                replicas_ms: entry.decided_ms.saturating_sub(logged_ms),
                apply_ms: now_ms.saturating_sub(entry.decided_ms),
            };
            applied += 1;
            if stages.total_ms() < KEPT_MS_MIN {
                continue;
            }
            if self.kept.len() == KEPT_MAX {
                self.kept.pop_front();
            }
            self.kept.push_back((entry.index, stages));
        }
        self.saved = self.saved.saturating_sub(applied);
        self.decided = self.decided.saturating_sub(applied);
    }

    /// Returns the stages of an applied entry. `None`: it did not take long, many others did since,
    /// or another master proposed it.
    pub fn of_applied(&self, index: LogIndex) -> Option<EntryStages> {
        self.kept.iter().rev().find(|(kept, _)| *kept == index).map(|(_, stages)| *stages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(batch_ms: u64, log_ms: u64, replicas_ms: u64, apply_ms: u64) -> Option<EntryStages> {
        Some(EntryStages { batch_ms, log_ms, replicas_ms, apply_ms })
    }

    #[test]
    fn slow_entry_has_the_time_of_each_stage() {
        let mut times = EntryTimes::default();
        times.begin_turn(1_000);
        times.on_proposed(LogIndex(5), 3);
        times.on_proposed(LogIndex(6), 1);
        times.begin_turn(1_040);
        times.on_saved(LogIndex(5));
        times.begin_turn(1_100);
        times.on_decided(LogIndex(5));
        times.on_applied(LogIndex(5), 1_107);
        assert_eq!(times.of_applied(LogIndex(5)), stages(3, 40, 60, 7));
        // The logs of other members were faster than the own one.
        times.begin_turn(1_120);
        times.on_decided(LogIndex(6));
        times.on_applied(LogIndex(6), 1_120);
        assert_eq!(times.of_applied(LogIndex(6)), stages(1, 120, 0, 0));
        times.on_proposed(LogIndex(7), 20);
        times.on_saved(LogIndex(7));
        times.on_decided(LogIndex(7));
        times.on_applied(LogIndex(7), 1_120);
        assert_eq!(times.of_applied(LogIndex(7)), stages(20, 0, 0, 0));
        assert!(times.in_flight.is_empty());
    }

    #[test]
    fn fast_entries_are_not_kept_and_slow_ones_up_to_a_bound() {
        let mut times = EntryTimes::default();
        for number in 1..=1_000 {
            times.begin_turn(number * 1_000);
            times.on_proposed(LogIndex(number), 0);
            times.on_saved(LogIndex(number));
            times.on_decided(LogIndex(number));
            let took_ms = if number <= 500 { KEPT_MS_MIN } else { KEPT_MS_MIN - 1 };
            times.on_applied(LogIndex(number), number * 1_000 + took_ms);
        }
        assert_eq!((times.kept.len(), times.in_flight.len()), (KEPT_MAX, 0));
        assert_eq!(times.of_applied(LogIndex(500)), stages(0, 0, 0, KEPT_MS_MIN));
        assert_eq!(times.of_applied(LogIndex(501)), None);
        assert_eq!(times.of_applied(LogIndex(1)), None, "newer ones took its place");
    }

    #[test]
    fn entry_of_an_ended_epoch_gives_its_place_to_another() {
        let mut times = EntryTimes::default();
        times.begin_turn(1_000);
        (1..=3).for_each(|index| times.on_proposed(LogIndex(index), 0));
        times.on_saved(LogIndex(3));
        times.begin_turn(9_000);
        times.on_proposed(LogIndex(2), 0);
        assert_eq!((times.in_flight.len(), times.saved), (2, 1));
        times.begin_turn(9_050);
        times.on_saved(LogIndex(2));
        times.on_decided(LogIndex(2));
        times.on_applied(LogIndex(2), 9_050);
        assert_eq!(times.of_applied(LogIndex(2)), stages(0, 50, 0, 0));
    }
}
