//! Receiver of a partition's copy: fetches it page by page from one owner, then compares it with
//! all owners.
//!
//! ```text
//! arrival = since u64 | whole u8 | after    the change's name, whether all pages came, up to where
//! ```
//!
//! The progress is stored with the rows, in the same batch: after any crash the transfer continues
//! there. Rows merge, so neither duplicates nor concurrent writes of clients matter.
//!
//! The comparison is needed because pages come from one owner alone, which may have missed writes
//! that others took; and a write that a coordinator sent before it knew of the change went to old
//! owners only. An owner that knows of the change passes such writes on (`epoch_check.rs`), so only
//! owners are asked that know as much of the ring as this node.

use super::send::{PAGE_BYTES, RowPage};
use crate::Available;
use crate::hash_trees::TreeId;
use crate::key_owners::RingTarget;
use crate::layout::{arrival_key, read_row, read_row_tail};
use crate::message::VnodeQuestion;
use crate::vnode_ops::{KeyRef, WritePolicy};
use base::codec::{Malformed, Reader, Writer};
use base::error::{corrupt, shutting_down};
use base::limits::FORWARD_MS_MAX;
use base::{Error, NodeId, Reason, Result};
use bytes::Bytes;
use logic::ring::Ring;
use runtime::world::sleep;
use std::sync::Arc;
use std::time::Duration;

/// Progress of one copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Arrival {
    /// Epoch of the change that it is for.
    since: u64,
    /// True if every page has come.
    whole: bool,
    after: Option<Bytes>,
}

impl Arrival {
    fn write(&self) -> Bytes {
        let after = self.after.as_deref().unwrap_or_default();
        let mut out = Vec::with_capacity(9 + after.len());
        out.put_u64(self.since);
        out.put_u8(self.whole.into());
        out.extend_from_slice(after);
        out.into()
    }

    fn read(bytes: &Bytes) -> std::result::Result<Arrival, Malformed> {
        let mut from = Reader::new(bytes);
        let since = from.u64("since when a copy comes")?;
        let whole = match from.u8("whether a copy is whole")? {
            0 => false,
            1 => true,
            _ => return Err(Malformed("whether a copy is whole")),
        };
        let after = Some(bytes.slice_ref(from.rest())).filter(|after| !after.is_empty());
        Ok(Arrival { since, whole, after })
    }
}

impl Available {
    /// Receives a copy of a partition, of the buckets with so many copies.
    pub(super) async fn receive(
        self: &Arc<Available>,
        ring: &Ring,
        which: TreeId,
        since: u64,
    ) -> Result<()> {
        let sources = self.sources(ring, which)?;
        let mut arrival = self.arrival(which)?;
        // Noted for another change: what had come for it may have been removed since.
        if arrival.since != since {
            arrival = Arrival { since, ..Arrival::default() };
        }
        if !arrival.whole {
            self.fetch_pages(which, sources[0], arrival).await?;
        }
        // Also with the one that sent the pages: it took writes while it sent them.
        for other in sources {
            let chosen = RingTarget { node: other, epoch: ring.epoch() };
            let summary = self.compare_copies(which, chosen).await?;
            if !summary.complete {
                let text =
                    format!("a comparison with {} was cut short", self.members.name_of(other));
                return Err(Error::new(Reason::NoQuorum, text));
            }
        }
        Ok(())
    }

    /// Returns the owners to ask for a partition: all that can be reached. They have to be so many
    /// that one of them has every write that a majority acknowledged, else an error names those
    /// that are missing.
    fn sources(&self, ring: &Ring, (span, n): TreeId) -> Result<Vec<NodeId>> {
        let partition = span.partition;
        let owners = ring.owners(partition, n.into());
        let members = owners.iter().filter(|node| self.members.member(**node).is_some());
        let needed = owners.len().div_ceil(2).min(members.count()).max(1);
        let (reached, away): (Vec<_>, Vec<_>) =
            owners.into_iter().partition(|node| self.reaches(*node));
        if reached.len() >= needed {
            return Ok(reached);
        }
        let text = format!(
            "partition {partition} waits until {needed} of its owners can be reached; these can't: \
             {}",
            self.names(&away)
        );
        Err(Error::new(Reason::NoQuorum, text))
    }

    fn arrival(&self, (span, n): TreeId) -> Result<Arrival> {
        let found = self.vnode_store.firm(&arrival_key(span.partition, n))?;
        let arrival = found.map(|bytes| Arrival::read(&bytes)).transpose().map_err(corrupt)?;
        Ok(arrival.unwrap_or_default())
    }

    /// Fetches the remaining rows of a partition. While one page is synced, the next one is under
    /// way.
    async fn fetch_pages(
        self: &Arc<Available>,
        which: TreeId,
        from: NodeId,
        mut arrival: Arrival,
    ) -> Result<()> {
        let mut next = self.fetch_page(which, from, arrival.after.clone()).await?;
        loop {
            let RowPage { rows, upto } = next;
            arrival.whole = upto.is_none();
            arrival.after = upto;
            let ticket = self.take_page(which, rows, &arrival)?;
            if arrival.whole {
                return self.vnode_store.settled(ticket).await;
            }
            let fetching = self.fetch_page(which, from, arrival.after.clone());
            let (settled, page) = tokio::join!(self.vnode_store.settled(ticket), fetching);
            settled?;
            next = page?;
            if self.tasks.is_cancelled() {
                return Err(shutting_down());
            }
            let ring = self.schema.ring();
            // Otherwise a copy would come that this node has to remove again.
            let on = ring.as_ref().is_some_and(|ring| {
                let same = ring.pending().is_some_and(|it| it.since() == arrival.since);
                same && self.copies_to_receive(ring, which.0.partition).contains(&which.1)
            });
            if !on {
                return Err(Error::new(Reason::Changed, "the ring has changed"));
            }
        }
    }

    async fn fetch_page(
        self: &Arc<Available>,
        which: TreeId,
        from: NodeId,
        after: Option<Bytes>,
    ) -> Result<RowPage> {
        // What came before has used up this much of the rate.
        sleep(self.moving.pause()).await;
        let within = Duration::from_millis(FORWARD_MS_MAX);
        let question = VnodeQuestion::Rows { which, after, bytes_max: PAGE_BYTES };
        let epoch = self.schema.changed_in(which.0.slots());
        let bytes = self.ask_vnode_of(epoch, from, question.write(), within).await?;
        RowPage::read(&bytes).map_err(corrupt)
    }

    /// Merges a page's rows, and notes how far the copy is: in that order in the log. Gives the
    /// ticket.
    fn take_page(
        &self,
        which: TreeId,
        rows: Vec<(Bytes, Bytes)>,
        arrival: &Arrival,
    ) -> Result<u64> {
        let (count, mut bytes) = (rows.len(), 0);
        for (tail, row) in rows {
            bytes += tail.len() + row.len();
            let named = read_row_tail(&tail).ok_or_else(|| corrupt(Malformed("row's key")))?;
            let (bucket, key) = named;
            let Some(properties) = self.schema.find(&bucket) else { continue };
            // The sender removes its rows later: they must not be lost here, whatever risk the
            // bucket accepts.
            let policy = WritePolicy { sync: true, ..WritePolicy::of(&properties) };
            let key_ref = KeyRef::new(bucket, key);
            self.vnode_store.merge(&key_ref, read_row(&row).map_err(corrupt)?, policy, None)?;
        }
        let mut state = self.vnode_store.admit()?;
        let noted = [(arrival_key(which.0.partition, which.1), Some(arrival.write()))];
        let ticket = self.vnode_store.change(&mut state, noted, true);
        drop(state);
        let least_ms = least_ms(bytes, self.settings.handoff_bytes_per_second);
        self.moving.took((count as u64, bytes as u64), least_ms);
        Ok(ticket)
    }
}

/// Returns the milliseconds that so many bytes must take at a limit of `per_second`. A limit of 0
/// is none.
fn least_ms(bytes: usize, per_second: u64) -> u64 {
    (bytes as u64).saturating_mul(1_000).checked_div(per_second).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_copy_is_reads_back_and_the_bytes_are_for_ever() {
        let after = Some(Bytes::from_static(b"\x01key"));
        let arrival = Arrival { since: 7, whole: false, after };
        assert_eq!(arrival.write(), b"\x07\0\0\0\0\0\0\0\0\x01key"[..]);
        let whole = Arrival { since: 7, whole: true, after: None };
        for one in [arrival, whole, Arrival::default()] {
            assert_eq!(Arrival::read(&one.write()), Ok(one));
        }
        assert!(Arrival::read(&Bytes::from_static(b"\x07\0\0\0\0\0\0\0\x02")).is_err());
    }

    #[test]
    fn a_rate_is_a_least_time() {
        assert_eq!(least_ms(1 << 20, 1 << 20), 1_000);
        assert_eq!(least_ms(1 << 20, 0), 0, "no rate, no pause");
    }
}
