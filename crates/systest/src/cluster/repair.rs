//! Available side of a cluster: assigns the ring, and waits until its copies are equal.

use super::{Cluster, wait_until};
use std::time::{Duration, Instant};

/// Interval between two queries of the nodes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait until the copies are equal, on a busy machine.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(120);

/// Repair counters, summed over the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RepairCounts {
    /// Rows that differed in a comparison.
    pub differed: f64,
    /// Rows of those that were sent or fetched.
    pub transferred: f64,
    /// Copies that a read found outdated.
    pub read_repairs: f64,
    /// Hints ever stored. All counters restart with their process.
    pub hints: f64,
}

impl Cluster {
    /// Assigns the ring to all members, and waits until each has its partitions.
    pub fn init_ring(&self) {
        self.run_tool(&["cluster", "ring", "init"]);
        wait_until("a ring that every node has a part of", || {
            let partitions = self.nodes().map(|node| self.metric(node, "credenza_ring_partitions"));
            let partitions: Vec<_> = partitions.collect();
            if partitions.iter().all(|count| *count > 0.0) {
                Ok(())
            } else {
                Err(format!("{partitions:?}"))
            }
        });
        self.must_suspect_none();
    }

    /// Waits until no node suspects another, so that none uses fallbacks.
    pub fn must_suspect_none(&self) {
        wait_until("nodes that trust each other", || {
            let suspected = self.nodes().map(|node| {
                // A node that does not answer counts as one that suspects another.
                let has_ring = self.metric(node, "credenza_ring_epoch") > 0.0;
                self.metric(node, "credenza_ring_suspected_nodes") + f64::from(u8::from(!has_ring))
            });
            let suspected: Vec<_> = suspected.collect();
            if suspected.iter().all(|count| *count == 0.0) {
                Ok(())
            } else {
                Err(format!("{suspected:?}"))
            }
        });
    }

    /// Returns the number of hints that are stored now.
    pub fn hints(&self) -> f64 {
        self.nodes().map(|node| self.metric(node, "credenza_hints_pending")).sum()
    }

    /// Returns the repair counters.
    pub fn repair_counts(&self) -> RepairCounts {
        let sum = |name: &str| self.nodes().map(|node| self.metric(node, name)).sum::<f64>();
        RepairCounts {
            differed: sum("credenza_anti_entropy_rows_differed_total"),
            transferred: sum("credenza_anti_entropy_rows_sent_total")
                + sum("credenza_anti_entropy_rows_fetched_total"),
            read_repairs: sum("credenza_read_repairs_total"),
            hints: sum("credenza_hints_stored_total"),
        }
    }

    /// Waits until no hints are left and every node has compared all its copies twice without a
    /// difference. Returns the time until the last difference was repaired. No client may write
    /// meanwhile.
    pub fn must_finish_repair(&self) -> Duration {
        let started = Instant::now();
        let rounds = || {
            let rounds = "credenza_anti_entropy_rounds_total";
            let rounds = self.nodes().map(|node| self.metric(node, rounds));
            rounds.collect::<Vec<_>>()
        };
        let (mut last_repair, mut rounds_at_repair) = (started, rounds());
        let mut differed_before = self.repair_counts().differed;
        loop {
            let (hints, differed) = (self.hints(), self.repair_counts().differed);
            if hints > 0.0 || differed != differed_before {
                (last_repair, rounds_at_repair, differed_before) =
                    (Instant::now(), rounds(), differed);
            }
            // A round that was in progress when the last difference was found does not count.
            if rounds()
                .iter()
                .zip(&rounds_at_repair)
                .all(|(differed, then)| *differed >= then + 2.0)
            {
                return last_repair - started;
            }
            let progress = format!(
                "{hints} hints, {differed} rows differed; {:?} of {rounds_at_repair:?}",
                rounds()
            );
            assert!(started.elapsed() < REPAIR_TIMEOUT, "copies do not come together: {progress}");
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
