//! Available side of a cluster: assigns the ring, and waits until its copies are equal.

use super::{Cluster, wait};
use std::time::{Duration, Instant};

/// Interval between two queries of the nodes.
const LOOK: Duration = Duration::from_millis(100);
/// Longest wait until the copies are equal, on a busy machine.
const QUIET_MAX: Duration = Duration::from_secs(120);

/// Repair counters, summed over the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mended {
    /// Rows that differed in a comparison.
    pub differed: f64,
    /// Rows of those that were sent or fetched.
    pub moved: f64,
    /// Copies that a read found outdated.
    pub read_repairs: f64,
    /// Hints ever stored. All counters restart with their process.
    pub hints: f64,
}

impl Cluster {
    /// Assigns the ring to all members, and waits until each knows it.
    pub fn share_ring(&self) {
        self.operate(&["cluster", "ring", "init"]);
        wait("a ring that every node has a part of", || {
            let parts = self.nodes().map(|node| self.metric(node, "credenza_ring_partitions"));
            let parts: Vec<_> = parts.collect();
            if parts.iter().all(|part| *part > 0.0) { Ok(()) } else { Err(format!("{parts:?}")) }
        });
        self.must_reach_all();
    }

    /// Waits until every node trusts all others, so that none uses fallbacks.
    pub fn must_reach_all(&self) {
        wait("nodes that trust each other", || {
            let spared = self.nodes().map(|node| {
                // A node that does not answer counts as one that trusts no other.
                let known = self.metric(node, "credenza_ring_epoch") > 0.0;
                self.metric(node, "credenza_ring_suspected_nodes") + f64::from(u8::from(!known))
            });
            let spared: Vec<_> = spared.collect();
            if spared.iter().all(|count| *count == 0.0) {
                Ok(())
            } else {
                Err(format!("{spared:?}"))
            }
        });
    }

    /// Returns the number of hints that are stored now.
    pub fn hints(&self) -> f64 {
        self.nodes().map(|node| self.metric(node, "credenza_hints_pending")).sum()
    }

    /// Returns the repair counters.
    pub fn mended(&self) -> Mended {
        let sum = |name: &str| self.nodes().map(|node| self.metric(node, name)).sum::<f64>();
        Mended {
            differed: sum("credenza_anti_entropy_rows_differed_total"),
            moved: sum("credenza_anti_entropy_rows_sent_total")
                + sum("credenza_anti_entropy_rows_fetched_total"),
            read_repairs: sum("credenza_read_repairs_total"),
            hints: sum("credenza_hints_stored_total"),
        }
    }

    /// Waits until no hints are left and every node has compared all its copies twice without a
    /// difference. Returns the time until the last difference was repaired. No client may write
    /// meanwhile.
    pub fn must_be_quiet(&self) -> Duration {
        let begun = Instant::now();
        let rounds = || {
            let rounds = "credenza_anti_entropy_rounds_total";
            let rounds = self.nodes().map(|node| self.metric(node, rounds));
            rounds.collect::<Vec<_>>()
        };
        let (mut last, mut since) = (begun, rounds());
        let mut before = self.mended().differed;
        loop {
            let (hints, now) = (self.hints(), self.mended().differed);
            if hints > 0.0 || now != before {
                (last, since, before) = (Instant::now(), rounds(), now);
            }
            // A round that was in progress when the last difference was found does not count.
            if rounds().iter().zip(&since).all(|(now, then)| *now >= then + 2.0) {
                return last - begun;
            }
            let words = format!("{hints} hints, {now} rows differed; {:?} of {since:?}", rounds());
            assert!(begun.elapsed() < QUIET_MAX, "copies do not come together: {words}");
            std::thread::sleep(LOOK);
        }
    }
}
