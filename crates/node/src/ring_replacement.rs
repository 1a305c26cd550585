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
use runtime::world::rest;
use runtime::{CancellationToken, world};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);
/// Number of refusals in a row before one is logged: at first a successor often can't be reached.
const REFUSALS: u32 = 20;

/// Time after which a replaced node that can't be reached is given up, in milliseconds.
const GONE_MS: u64 = 20_000;

/// Replaced nodes that can't be reached, with the time since which they can't.
type UnreachableSince = BTreeMap<NodeId, u64>;

/// Gives replacements of members their parts of the ring.
pub(crate) struct RingReplacement {
    pub directory: Arc<Directory>,
    pub available: Arc<Available>,
}

/// Hands parts of the ring over until the node stops.
pub(crate) async fn run(heirs: RingReplacement, stop: CancellationToken) {
    let (mut refused, mut away) = (RefusedAttempts::default(), UnreachableSince::new());
    while !stop.is_cancelled() {
        match heirs.pay(&mut away).await {
            Ok(()) => refused = RefusedAttempts::default(),
            Err(error) => refused.note(&error),
        }
        rest(&stop, PAUSE).await;
    }
}

/// Number of attempts refused in a row.
#[derive(Default)]
struct RefusedAttempts {
    times: u32,
}

impl RefusedAttempts {
    fn note(&mut self, error: &Error) {
        self.times = self.times.saturating_add(1);
        if error.reason == Reason::NotMaster || !self.times.is_multiple_of(REFUSALS) {
            tracing::debug!(target: "node", %error, "who replaced a member waits for its part");
        } else {
            tracing::warn!(
                target: "node", %error, "a member was replaced, and its part of the ring can't go \
                 over yet"
            );
        }
    }
}

impl RingReplacement {
    async fn pay(&self, away: &mut UnreachableSince) -> Result<()> {
        let directory = &self.directory;
        if !directory.group.leadership.is_master() {
            away.clear();
            return Ok(());
        }
        let owed = directory.owed()?;
        if owed.is_empty() && !self.waits_for_the_gone() {
            away.clear();
            return Ok(());
        }
        let (down, now) = (self.available.down(), world::milliseconds());
        away.retain(|node, _| owed.contains(node) && down.contains(node));
        for node in owed.iter().filter(|node| down.contains(node)) {
            away.entry(*node).or_insert(now);
        }
        let gone = away.iter().filter(|(_, since)| **since + GONE_MS <= now);
        directory.replace_owners(&down, &gone.map(|(node, _)| *node).collect()).await
    }

    /// Returns true if a node that is no member any more is to receive or remove a partition by the
    /// ring.
    fn waits_for_the_gone(&self) -> bool {
        let catalog = &self.directory.catalog;
        let Some(ring) = catalog.available.ring() else { return false };
        let numbers: Vec<_> = catalog.available.numbers().into_iter().map(usize::from).collect();
        let partitions = (0..ring.partitions()).map(Partition);
        let left = partitions.flat_map(|partition| ring.leftovers(partition).collect::<Vec<_>>());
        let mut all = left.chain(ring.awaited(&numbers));
        all.any(|node| catalog.member(node).is_none())
    }
}
