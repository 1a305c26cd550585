//! Slow-down watch: tells the log when the store begins to slow writes, and when that has ended.

use runtime::WritePacer;
use std::time::Duration;

/// Time without a delay after which a slow-down has ended, in milliseconds. Under a steady load the
/// delays come and go with each merge.
const ENDED_MS: u64 = 10_000;

/// A slow-down of writes.
struct Slowdown {
    /// Time for which writers had waited before it, all together.
    waited_before: Duration,
    /// Last time at which writes were slowed, in milliseconds.
    last_ms: u64,
}

/// See the head of this file.
#[derive(Default)]
pub struct SlowdownWatch {
    current: Option<Slowdown>,
}

impl SlowdownWatch {
    /// Notes the present write pressure. Returns true if a slow-down has begun or ended.
    pub fn observe(&mut self, pacer: &WritePacer, now_ms: u64) -> bool {
        let pressure = pacer.pressure();
        let is_slow = pressure.must_wait() || pressure.slowdown_permille() > 0;
        match &mut self.current {
            Some(slowdown) if is_slow => {
                slowdown.last_ms = now_ms;
                false
            }
            Some(slowdown) if now_ms.saturating_sub(slowdown.last_ms) < ENDED_MS => false,
            Some(slowdown) => {
                let waited_ms = pacer.waited().saturating_sub(slowdown.waited_before).as_millis();
                tracing::info!(target: "store", waited_ms, "writes are no longer slowed");
                self.current = None;
                true
            }
            None if is_slow => {
                let (runs, unmerged_runs) = (pressure.runs, pressure.unmerged_runs);
                let sealed_tables = pressure.sealed_tables;
                tracing::warn!(
                    target: "store", runs, unmerged_runs, sealed_tables,
                    "writes are slowed: flushes and merges lag behind them"
                );
                self.current = Some(Slowdown { waited_before: pacer.waited(), last_ms: now_ms });
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::sync::Arc;
    use store::{MemoryTrees, RowChange, Trees};

    #[test]
    fn slowdown_is_told_once_and_ends_after_a_quiet_time() {
        let trees = Arc::new(MemoryTrees::new(10_000));
        let pacer = WritePacer::new(trees.clone());
        let mut watch = SlowdownWatch::default();
        assert!(!watch.observe(&pacer, 0));
        let row = RowChange::Put(Bytes::from_static(b"key"), Bytes::from(vec![1; 15_000]));
        trees.apply(&mut [row].into_iter()).expect("memory");
        assert!(pacer.pressure().slowdown_permille() > 0);
        assert!(watch.observe(&pacer, 1_000), "it begins");
        assert!(!watch.observe(&pacer, 60_000), "it lasts");
        trees.rotate().expect("memory");
        trees.flush().expect("memory");
        assert!(!watch.observe(&pacer, 60_000 + ENDED_MS - 1), "it may begin again soon");
        assert!(watch.observe(&pacer, 60_000 + ENDED_MS), "it has ended");
        assert!(!watch.observe(&pacer, 90_000), "once");
    }
}
