//! Latencies of the updates that clients submit to a master, for the pace of builds: from before an
//! update waits for the lock under which it is evaluated until its entry of the log is applied,
//! when it is answered.
//!
//! All updates of an entry count with the longest latency among them. The owner adds no updates of
//! its own, among them the steps of builds: nobody waits for them.
//!
//! Invariant: entries stand in the order of their indexes; each has an update that is not applied,
//! so the bound on those bounds their number.

use crate::world;
use base::LogIndex;
use std::collections::VecDeque;

/// Updates of clients in an entry that is not applied yet.
struct EntryWrites {
    index: LogIndex,
    /// Time at which the first of them came, in nanoseconds.
    begun_ns: u64,
    count: u32,
}

/// See the head of this file. The lock of its owner protects it.
#[derive(Default)]
pub struct WriteLatencies {
    /// Time for which the update that is being evaluated waited for the lock, in nanoseconds.
    waited_ns: u64,
    entries: VecDeque<EntryWrites>,
}

impl WriteLatencies {
    /// Notes that the lock was taken for an update, after a wait of this many nanoseconds.
    #[inline]
    pub fn begin_update(&mut self, waited_ns: u64) {
        self.waited_ns = waited_ns;
    }

    /// Notes that a client's update was written into this entry. Later ones of the same lock have
    /// not waited for it.
    #[inline]
    pub fn add(&mut self, index: LogIndex) {
        let waited_ns = std::mem::take(&mut self.waited_ns);
        if let Some(entry) = self.entries.back_mut().filter(|entry| entry.index == index) {
            entry.count += 1;
            if waited_ns > 0 {
                let begun_ns = world::nanoseconds().saturating_sub(waited_ns);
                entry.begun_ns = entry.begun_ns.min(begun_ns);
            }
            return;
        }
        let begun_ns = world::nanoseconds().saturating_sub(waited_ns);
        self.entries.push_back(EntryWrites { index, begun_ns, count: 1 });
    }

    /// Removes the entries up to an index that is applied at this time, in nanoseconds. Returns the
    /// latency of each, in microseconds, and its number of updates.
    pub fn take_applied(
        &mut self,
        last: LogIndex,
        now_ns: u64,
    ) -> impl Iterator<Item = (u64, u32)> + '_ {
        std::iter::from_fn(move || {
            let entry = self.entries.pop_front_if(|entry| entry.index <= last)?;
            Some((now_ns.saturating_sub(entry.begun_ns) / 1_000, entry.count))
        })
    }

    /// Forgets all entries: others may get their indexes.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(latencies: &mut WriteLatencies, last: u64, now_us: u64) -> Vec<(u64, u32)> {
        latencies.take_applied(LogIndex(last), now_us * 1_000).collect()
    }

    #[test]
    fn latency_of_an_entry_counts_from_the_update_that_came_first() {
        let mut latencies = WriteLatencies::default();
        let mut add = |now_us: u64, waited_us: u64, index| {
            world::set_time(Some(now_us * 1_000));
            latencies.begin_update(waited_us * 1_000);
            latencies.add(LogIndex(index));
        };
        add(1_000, 0, 5);
        add(1_100, 0, 5);
        // It came before the first one, and waited for the lock.
        add(1_200, 500, 5);
        add(1_300, 100, 6);
        add(1_400, 0, 9);
        assert_eq!(applied(&mut latencies, 4, 2_000), []);
        assert_eq!(applied(&mut latencies, 6, 2_000), [(1_300, 3), (800, 1)]);
        assert_eq!(applied(&mut latencies, 8, 2_500), []);
        assert_eq!(applied(&mut latencies, 9, 2_500), [(1_100, 1)]);
        world::set_time(None);
    }

    #[test]
    fn run_of_updates_under_one_lock_has_waited_once() {
        let mut latencies = WriteLatencies::default();
        world::set_time(Some(1_000_000));
        latencies.begin_update(300_000);
        // The first entry is full: the rest goes into the next one.
        [1, 1, 2].into_iter().for_each(|index| latencies.add(LogIndex(index)));
        assert_eq!(applied(&mut latencies, 2, 1_000), [(300, 2), (0, 1)]);
        latencies.add(LogIndex(3));
        latencies.clear();
        assert_eq!(applied(&mut latencies, 9, 1_000), []);
        world::set_time(None);
    }
}
