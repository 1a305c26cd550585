//! Receiver of a partition's copy: fetches it page by page from one owner, then compares it with
//! all owners.
//!
//! ```text
//! arrival = since u64 | complete u8 | after   epoch that names the change, 1 after the last page,
//!                                            last key received
//! ```
//!
//! The progress is stored with the rows, in the same batch: after any crash the transfer continues
//! there. Rows merge, so neither duplicates nor concurrent writes of clients matter.
//!
//! The comparison is needed because pages come from one owner alone, which may have missed writes
//! that others stored; and a coordinator without the new ring sends writes to old owners only. An
//! owner with the new ring forwards such writes (`epoch_check.rs`), so only owners are asked whose
//! ring is at least as new as this node's.

use super::send::PAGE_BYTES;
use crate::Available;
use crate::key_owners::RingTarget;
use crate::message::VnodeQuestion;
use crate::vnode_ops::{KeyRef, WritePolicy};
use base::codec::{Malformed, Reader, Writer};
use base::error::{corrupt, shutting_down};
use base::limits::FORWARD_MS_MAX;
use base::{Error, NodeId, Reason, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::round::progress;
use runtime::world::sleep;
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::hash_trees::TreeId;
use vnode_rows::layout::{arrival_key, read_row, read_row_tail};
use vnode_rows::transfer_pages::RowPage;

/// Progress of one copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Arrival {
    /// Epoch that names the ring change.
    since: u64,
    /// True if every page was received.
    complete: bool,
    after: Option<Bytes>,
}

impl Arrival {
    fn write(&self) -> Bytes {
        let after = self.after.as_deref().unwrap_or_default();
        let mut out = Vec::with_capacity(9 + after.len());
        out.put_u64(self.since);
        out.put_u8(self.complete.into());
        out.extend_from_slice(after);
        out.into()
    }

    fn read(bytes: &Bytes) -> std::result::Result<Arrival, Malformed> {
        let mut from = Reader::new(bytes);
        let since = from.u64("start of a copy")?;
        let complete = match from.u8("completeness of a copy")? {
            0 => false,
            1 => true,
            _ => return Err(Malformed("completeness of a copy")),
        };
        let after = Some(bytes.slice_ref(from.rest())).filter(|after| !after.is_empty());
        Ok(Arrival { since, complete, after })
    }
}

impl Available {
    /// Receives a copy of a partition, for the buckets with one number of copies.
    pub(super) async fn receive(
        self: &Arc<Available>,
        ring: &Ring,
        tree_id: TreeId,
        since: u64,
    ) -> Result<()> {
        let sources = self.sources(ring, tree_id)?;
        let mut arrival = self.arrival(tree_id)?;
        // Progress of another change: the rows received for it may have been removed since.
        if arrival.since != since {
            self.vnode_store.note_joined(tree_id.0)?;
            arrival = Arrival { since, ..Arrival::default() };
        }
        if !arrival.complete {
            self.fetch_pages(tree_id, sources[0], arrival).await?;
        }
        // Also with the sender of the pages: it accepted writes while it sent them.
        for other in sources {
            let chosen = RingTarget { node: other, epoch: ring.epoch() };
            let summary = self.compare_copies(tree_id, chosen).await?;
            if !summary.is_complete {
                let text =
                    format!("a comparison with {} was interrupted", self.members.name_of(other));
                return Err(Error::new(Reason::NoQuorum, text));
            }
        }
        Ok(())
    }

    /// Returns the reachable owners of a partition. There must be enough that every write
    /// acknowledged by a majority is at one of them, else an error names the unreachable ones.
    fn sources(&self, ring: &Ring, (span, n): TreeId) -> Result<Vec<NodeId>> {
        let partition = span.partition;
        let owners = ring.owners(partition, n.into());
        let members = owners.iter().filter(|node| self.members.member(**node).is_some());
        let needed = owners.len().div_ceil(2).min(members.count()).max(1);
        let (reached, unreachable): (Vec<_>, Vec<_>) =
            owners.into_iter().partition(|node| self.reaches(*node));
        if reached.len() >= needed {
            return Ok(reached);
        }
        let text = format!(
            "partition {partition} waits until {needed} of its owners are reached; unreachable: {}",
            self.node_names(&unreachable)
        );
        Err(Error::new(Reason::NoQuorum, text))
    }

    fn arrival(&self, (span, n): TreeId) -> Result<Arrival> {
        let found = self.vnode_store.read_durable(&arrival_key(span.partition, n))?;
        let arrival = found.map(|bytes| Arrival::read(&bytes)).transpose().map_err(corrupt)?;
        Ok(arrival.unwrap_or_default())
    }

    /// Fetches the remaining rows of a partition. The next page is fetched while one is synced.
    async fn fetch_pages(
        self: &Arc<Available>,
        tree_id: TreeId,
        source: NodeId,
        mut arrival: Arrival,
    ) -> Result<()> {
        let mut next = self.fetch_page(tree_id, source, arrival.after.clone()).await?;
        loop {
            progress();
            let RowPage { rows, last } = next;
            arrival.complete = last.is_none();
            arrival.after = last;
            let ticket = self.store_page(tree_id, rows, &arrival)?;
            if arrival.complete {
                return self.vnode_store.wait_stored(ticket).await;
            }
            let next_page = self.fetch_page(tree_id, source, arrival.after.clone());
            let (stored, page) = tokio::join!(self.vnode_store.wait_stored(ticket), next_page);
            stored?;
            next = page?;
            if self.tasks.is_cancelled() {
                return Err(shutting_down());
            }
            let ring = self.schema.ring();
            // Checked for each page: a copy for an obsolete change would have to be removed again.
            let is_needed = ring.as_ref().is_some_and(|ring| {
                let is_same_change =
                    ring.pending().is_some_and(|it| it.start_epoch() == arrival.since);
                is_same_change
                    && self.n_vals_to_receive(ring, tree_id.0.partition).contains(&tree_id.1)
            });
            if !is_needed {
                return Err(Error::new(Reason::Changed, "the ring has changed"));
            }
        }
    }

    async fn fetch_page(
        self: &Arc<Available>,
        tree_id: TreeId,
        source: NodeId,
        after: Option<Bytes>,
    ) -> Result<RowPage> {
        // Pause for the rate limit, after the pages before.
        sleep(self.handoff_tracker.fetch_pause()).await;
        let within = Duration::from_millis(FORWARD_MS_MAX);
        let question = VnodeQuestion::Rows { tree_id, after, bytes_max: PAGE_BYTES };
        let epoch = self.schema.change_epoch_in(tree_id.0.slots());
        let bytes = self.ask_vnode_of(epoch, source, question.write(), within).await?;
        RowPage::read(&bytes).map_err(corrupt)
    }

    /// Merges a page's rows, and then stores the progress of the copy: in that order in the log.
    /// Returns the ticket.
    fn store_page(
        &self,
        tree_id: TreeId,
        rows: Vec<(Bytes, Bytes)>,
        arrival: &Arrival,
    ) -> Result<u64> {
        let (count, mut bytes) = (rows.len(), 0);
        for (tail, row) in rows {
            bytes += tail.len() + row.len();
            let bucket_and_key =
                read_row_tail(&tail).ok_or_else(|| corrupt(Malformed("row's key")))?;
            let (bucket, key) = bucket_and_key;
            let Some(properties) = self.schema.find(&bucket) else { continue };
            // Synced even in a bucket that does not require it: the sender removes its rows later.
            let policy = WritePolicy { sync: true, ..WritePolicy::from_properties(&properties) };
            let key_ref = KeyRef::new(bucket, key);
            self.vnode_store.merge(&key_ref, read_row(&row).map_err(corrupt)?, policy, None)?;
        }
        let mut state = self.vnode_store.admit()?;
        let progress_row = [(arrival_key(tree_id.0.partition, tree_id.1), Some(arrival.write()))];
        let ticket = self.vnode_store.change(&mut state, progress_row, true);
        drop(state);
        let page_ms_min = page_ms_min(bytes, self.settings.handoff_bytes_per_second);
        self.handoff_tracker.record_page((count as u64, bytes as u64), page_ms_min);
        Ok(ticket)
    }
}

/// Returns the minimum time of a page, in milliseconds, at a limit of `per_second` bytes. 0: no
/// limit.
fn page_ms_min(bytes: usize, per_second: u64) -> u64 {
    (bytes as u64).saturating_mul(1_000).checked_div(per_second).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrival_record_round_trips_and_matches_golden_bytes() {
        let after = Some(Bytes::from_static(b"\x01key"));
        let arrival = Arrival { since: 7, complete: false, after };
        assert_eq!(arrival.write(), b"\x07\0\0\0\0\0\0\0\0\x01key"[..]);
        let complete = Arrival { since: 7, complete: true, after: None };
        for one in [arrival, complete, Arrival::default()] {
            assert_eq!(Arrival::read(&one.write()), Ok(one));
        }
        assert!(Arrival::read(&Bytes::from_static(b"\x07\0\0\0\0\0\0\0\x02")).is_err());
    }

    #[test]
    fn handoff_rate_limit_sets_the_minimum_time_of_a_page() {
        assert_eq!(page_ms_min(1 << 20, 1 << 20), 1_000);
        assert_eq!(page_ms_min(1 << 20, 0), 0, "no rate, no pause");
    }
}
