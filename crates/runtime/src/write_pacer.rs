//! Write pacer: pauses of those that apply writes to the store, while its flushes and merges lag.
//!
//! A writer, which is a group or the vnodes of a node, asks before each batch and reports after it.
//! [`Pressure`] says how long to pause for how many bytes. Time that passes between two batches
//! counts as part of the pause, so a writer that is slow by itself is not slowed more. Only full
//! memory *stops* a writer: it asks again until a flush has ended.
//!
//! Promises: a pause is at most `store::PAUSE_MAX`; all time that writers have waited is counted.

use crate::maintenance_signal::MaintenanceSignal;
use crate::world;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::{PAUSE_MAX, Pressure, Trees};

/// Time after which a writer asks again if memory was full.
const STOP_PAUSE: Duration = Duration::from_millis(2);
/// Pause below which a writer goes on: timers are not finer. It is paid with the next ones.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Pauses of one writer.
#[derive(Default)]
pub struct WriterPauses {
    /// Time before which nothing more should be applied, in nanoseconds.
    resume_ns: AtomicU64,
    /// Time at which the present wait began, in nanoseconds. 0: the writer does not wait.
    since_ns: AtomicU64,
}

/// See the head of this file.
pub struct WritePacer {
    /// Wake-up signal of the thread that flushes.
    pub maintenance: MaintenanceSignal,
    trees: Arc<dyn Trees>,
    waited_us: AtomicU64,
}

impl WritePacer {
    /// Creates the pacer of all writers of these trees.
    pub fn new(trees: Arc<dyn Trees>) -> WritePacer {
        WritePacer { maintenance: MaintenanceSignal::default(), trees, waited_us: 0.into() }
    }

    /// Returns how far flushes and merges lag.
    pub fn pressure(&self) -> Pressure {
        self.trees.pressure()
    }

    /// Returns for how long a writer must wait before its next batch. `None`: it need not.
    pub fn wait(&self, writer: &WriterPauses, pressure: &Pressure) -> Option<Duration> {
        // 0 means no time; a simulation may begin there.
        let now = world::nanoseconds().max(1);
        let pause = if pressure.must_wait() {
            self.maintenance.raise();
            Some(STOP_PAUSE)
        } else {
            let resume = writer.resume_ns.load(Ordering::Relaxed);
            Some(Duration::from_nanos(resume.saturating_sub(now))).filter(|left| *left >= PAUSE_MIN)
        };
        if pause.is_some() {
            let relaxed = Ordering::Relaxed;
            // A failure is a wait that goes on.
            let _ = writer.since_ns.compare_exchange(0, now, relaxed, relaxed);
        } else {
            let since = writer.since_ns.swap(0, Ordering::Relaxed);
            let waited_ns = if since == 0 { 0 } else { now.saturating_sub(since) };
            self.waited_us.fetch_add(waited_ns / 1_000, Ordering::Relaxed);
        }
        pause
    }

    /// Plans the pause of a writer after it has applied this many bytes, and wakes the thread that
    /// flushes if there is enough to flush.
    pub fn applied(&self, writer: &WriterPauses, bytes: usize) {
        let pressure = self.trees.pressure();
        if pressure.is_rotation_due() {
            self.maintenance.raise();
        }
        let pause = pressure.pause(bytes as u64);
        if pause.is_zero() {
            return;
        }
        let now = world::nanoseconds();
        let resume = writer.resume_ns.load(Ordering::Relaxed).max(now) + nanoseconds(pause);
        writer.resume_ns.store(resume.min(now + nanoseconds(PAUSE_MAX)), Ordering::Relaxed);
    }

    /// Returns for how long writers have waited since the start, all together.
    pub fn waited(&self) -> Duration {
        Duration::from_micros(self.waited_us.load(Ordering::Relaxed))
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use store::{MemoryTrees, PAUSE_PER_MIB_MAX, RowChange};

    const TABLE: u64 = 1 << 20;
    const START_NS: u64 = 5_000_000_000;

    /// Writes until the active table has this part of its due size, in hundredths.
    fn fill(trees: &MemoryTrees, percent: u64) {
        for number in trees.pressure().active_bytes.. {
            if trees.pressure().active_bytes >= TABLE * percent / 100 {
                return;
            }
            let row = RowChange::Put(Bytes::from(number.to_string()), Bytes::from(vec![1; 1_000]));
            trees.apply(&mut [row].into_iter()).expect("memory");
        }
    }

    fn pacer() -> (Arc<MemoryTrees>, WritePacer) {
        let trees = Arc::new(MemoryTrees::new(TABLE));
        world::set_time(Some(START_NS));
        (trees.clone(), WritePacer::new(trees))
    }

    fn wait(pacer: &WritePacer, writer: &WriterPauses) -> Option<Duration> {
        pacer.wait(writer, &pacer.pressure())
    }

    #[test]
    fn writer_pauses_by_debt_and_bytes_and_time_counts() {
        let (trees, pacer) = pacer();
        let writer = WriterPauses::default();
        fill(&trees, 110);
        pacer.applied(&writer, 1 << 30);
        assert_eq!(wait(&pacer, &writer), None, "there is no debt");
        fill(&trees, 180);
        let slowdown = pacer.pressure().slowdown_permille() as u32;
        assert!((600..900).contains(&slowdown), "{slowdown}");
        let per_mib = PAUSE_PER_MIB_MAX / 1_000 * slowdown;
        pacer.applied(&writer, 100 << 10);
        let paused = wait(&pacer, &writer).expect("a pause");
        assert!(paused.abs_diff(per_mib * 100 / 1_024) < Duration::from_micros(10), "{paused:?}");
        assert_eq!(wait(&pacer, &WriterPauses::default()), None, "another writer");
        // Half of it passes: the rest is left.
        world::set_time(Some(START_NS + nanoseconds(paused) / 2));
        let left = wait(&pacer, &writer).expect("a pause");
        assert!(left.abs_diff(paused / 2) < Duration::from_micros(10), "{left:?}");
        world::set_time(Some(START_NS + nanoseconds(paused)));
        assert_eq!(wait(&pacer, &writer), None);
        assert!(pacer.waited().abs_diff(paused) < Duration::from_micros(10));
        world::set_time(None);
    }

    #[test]
    fn many_short_pauses_are_paid_together_and_the_sum_is_bounded() {
        let (trees, pacer) = pacer();
        let writer = WriterPauses::default();
        fill(&trees, 180);
        pacer.applied(&writer, 1 << 10);
        assert_eq!(wait(&pacer, &writer), None, "too short for a timer");
        (0..9).for_each(|_| pacer.applied(&writer, 1 << 10));
        assert!(wait(&pacer, &writer).is_some(), "ten of them are not");
        (0..100).for_each(|_| pacer.applied(&writer, 1 << 30));
        assert_eq!(wait(&pacer, &writer), Some(PAUSE_MAX));
        world::set_time(None);
    }

    #[test]
    fn full_memory_stops_writers_until_it_is_flushed() {
        let (trees, pacer) = pacer();
        let writer = WriterPauses::default();
        fill(&trees, 200);
        assert_eq!(wait(&pacer, &writer), Some(STOP_PAUSE));
        world::set_time(Some(START_NS + 3_000_000_000));
        assert_eq!(wait(&pacer, &writer), Some(STOP_PAUSE), "however long it takes");
        trees.rotate().expect("memory");
        trees.flush().expect("memory");
        assert_eq!(wait(&pacer, &writer), None);
        assert_eq!(pacer.waited(), Duration::from_secs(3));
        world::set_time(None);
    }
}
