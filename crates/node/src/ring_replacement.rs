//! Ring replacement: gives the part of a replaced member on the ring to its successor.
//!
//! The directory stores the replacement (`metadata/replacements.rs`). Its master checks repeatedly
//! whether the ring can be changed for it: it may be changing already, or the successor can't be
//! reached yet. The transfers are those of any ring change (`handoff/`).
//!
//! Never: changes the ring of a cluster in which no member was replaced or removed.

use base::{Error, NodeId, Partition, Reason, Result};
use dynamo::Available;
use metadata::Directory;
use runtime::world::next_or_cancelled;
use runtime::{CancellationToken, world};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Period of the checks.
const PERIOD: Duration = Duration::from_millis(500);
/// Number of consecutive refusals per warning: at first a successor is often unreachable.
const REFUSALS_PER_WARNING: u32 = 20;

/// Time after which a replaced node that can't be reached is given up, in milliseconds.
const GIVE_UP_MS: u64 = 20_000;

/// Unreachable replaced nodes, with the time since which they are, in milliseconds.
type UnreachableSince = BTreeMap<NodeId, u64>;

/// Transfer of the ring part of replaced members to their successors.
pub(crate) struct RingReplacement {
    pub directory: Arc<Directory>,
    pub available: Arc<Available>,
}

/// Runs until the node stops.
pub(crate) async fn run(replacement: RingReplacement, stop: CancellationToken) {
    let (mut refusals, mut unreachable) = (RefusedAttempts::default(), UnreachableSince::new());
    while !stop.is_cancelled() {
        match replacement.advance(&mut unreachable).await {
            Ok(()) => refusals = RefusedAttempts::default(),
            Err(error) => refusals.record(&error),
        }
        next_or_cancelled(&stop, PERIOD).await;
    }
}

/// Number of consecutive refused attempts.
#[derive(Default)]
struct RefusedAttempts {
    count: u32,
}

impl RefusedAttempts {
    fn record(&mut self, error: &Error) {
        self.count = self.count.saturating_add(1);
        if error.reason == Reason::NotMaster || !self.count.is_multiple_of(REFUSALS_PER_WARNING) {
            tracing::debug!(
                target: "node", %error, "a replacement member waits for its part of the ring"
            );
        } else {
            tracing::warn!(
                target: "node", %error,
                "a member was replaced, but its part of the ring can't be transferred yet"
            );
        }
    }
}

impl RingReplacement {
    async fn advance(&self, unreachable: &mut UnreachableSince) -> Result<()> {
        let directory = &self.directory;
        if !directory.group.leadership.is_master() {
            unreachable.clear();
            return Ok(());
        }
        let pending = directory.pending_replacements()?;
        if pending.is_empty() && !self.waits_for_former_members() {
            unreachable.clear();
            return Ok(());
        }
        let (down, now) = (self.available.unreachable_nodes(), world::milliseconds());
        unreachable.retain(|node, _| pending.contains(node) && down.contains(node));
        for node in pending.iter().filter(|node| down.contains(node)) {
            unreachable.entry(*node).or_insert(now);
        }
        let given_up = unreachable.iter().filter(|(_, since)| **since + GIVE_UP_MS <= now);
        directory.replace_owners(&down, &given_up.map(|(node, _)| *node).collect()).await
    }

    /// Returns true if the ring waits for a former member to receive or remove a partition.
    fn waits_for_former_members(&self) -> bool {
        let catalog = &self.directory.catalog;
        let Some(ring) = catalog.available.ring() else { return false };
        let n_vals: Vec<_> = catalog.available.n_vals().into_iter().map(usize::from).collect();
        let partitions = (0..ring.partitions()).map(Partition);
        let leftovers =
            partitions.flat_map(|partition| ring.leftovers(partition).collect::<Vec<_>>());
        let mut all = leftovers.chain(ring.awaited_receivers(&n_vals));
        all.any(|node| catalog.member(node).is_none())
    }
}
