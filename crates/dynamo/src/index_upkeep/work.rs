//! Work on indexes in the background: builds, removals and the scrub, page by page, within a budget
//! of bytes a second.

use super::scrub::ScrubCursor;
use crate::Available;
use crate::index_mends::IndexMends;
use crate::vnode_store::VnodeStore;
use base::Result;
use runtime::round::progress;
use runtime::world;
use runtime::world::sleep_or_cancelled;
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::index_rows::{IndexId, IndexPhase};

/// Page of a build or a removal that was written.
pub(crate) struct WrittenPage {
    /// Ticket of its batch. `None`: nothing was written, because something else came first.
    pub ticket: Option<u64>,
    /// Number of bytes that were read for it.
    pub bytes: usize,
}

impl VnodeStore {
    /// Returns an index that has to be built or removed. `None`: there is none.
    pub(crate) fn unfinished_index(&self) -> Result<Option<(IndexId, IndexPhase)>> {
        let mut state = self.state();
        self.load_indexes(&mut state)?;
        let indexes = state.indexes.get_or_insert_default();
        // Removals first: they give space back.
        let phases = [IndexPhase::Dropping, IndexPhase::Building];
        Ok(phases.into_iter().find_map(|phase| Some((indexes.first_in(phase)?, phase))))
    }

    /// Writes the next page of a build or a removal. Slow: must run on a blocking thread.
    pub(crate) fn write_next_page(&self, id: &IndexId, phase: IndexPhase) -> Result<WrittenPage> {
        let nothing = WrittenPage { ticket: None, bytes: 0 };
        if phase == IndexPhase::Dropping {
            let Some(page) = self.read_removal_page(id)? else { return Ok(nothing) };
            let bytes = page.bytes;
            return Ok(WrittenPage { ticket: self.write_removal_page(id, page)?, bytes });
        }
        let Some(page) = self.read_build_page(id)? else { return Ok(nothing) };
        let bytes = page.bytes;
        Ok(WrittenPage { ticket: self.write_build_page(id, page)?, bytes })
    }
}

impl Available {
    /// Builds and removes indexes until nothing is left to do, or the node stops. Asks
    /// `bytes_per_second` for the budget before each page; 0: no limit.
    pub async fn work_on_indexes(
        self: &Arc<Available>,
        bytes_per_second: impl Fn() -> u64,
    ) -> Result<()> {
        while let Some((id, phase)) = self.vnode_store.unfinished_index()? {
            progress();
            if self.tasks.is_cancelled() {
                return Ok(());
            }
            // The page is read from the store: it must have what was changed for the page before.
            self.vnode_store.wait_stored(self.vnode_store.last_ticket()).await?;
            let (began_ms, available) = (world::milliseconds(), self.clone());
            let written =
                self.read_blocking(move || available.vnode_store.write_next_page(&id, phase));
            let WrittenPage { ticket, bytes } = written.await?;
            if let Some(ticket) = ticket {
                self.vnode_store.wait_stored(ticket).await?;
            }
            self.pace(began_ms, bytes, bytes_per_second()).await;
        }
        Ok(())
    }

    /// Checks all entries of this node against its rows once, both ways, and mends them. Returns
    /// the numbers of entries that were mended. Asks `bytes_per_second` as
    /// [`Available::work_on_indexes`] does.
    pub async fn scrub_indexes(
        self: &Arc<Available>,
        bytes_per_second: impl Fn() -> u64,
    ) -> Result<IndexMends> {
        let (mut mends, mut next) = (IndexMends::default(), Some(ScrubCursor::default()));
        while let Some(cursor) = next {
            progress();
            if self.tasks.is_cancelled() {
                return Ok(mends);
            }
            let (began_ms, available) = (world::milliseconds(), self.clone());
            let page = self.read_blocking(move || available.vnode_store.scrub_page(cursor)).await?;
            mends.add(page.mends);
            next = page.next;
            self.pace(began_ms, page.bytes, bytes_per_second()).await;
        }
        if mends != IndexMends::default() {
            let IndexMends { missing, stale } = mends;
            tracing::warn!(target: "node", missing, stale, "entries of indexes differed from rows");
        }
        Ok(mends)
    }

    /// Pauses until a page has taken as long as the budget asks for.
    async fn pace(&self, began_ms: u64, bytes: usize, bytes_per_second: u64) {
        let page_ms = (bytes as u64).saturating_mul(1_000).checked_div(bytes_per_second);
        let took_ms = world::milliseconds().saturating_sub(began_ms);
        let pause_ms = page_ms.unwrap_or(0).saturating_sub(took_ms);
        if pause_ms > 0 {
            let stop = self.tasks.cancellation_token();
            sleep_or_cancelled(stop, Duration::from_millis(pause_ms)).await;
        }
    }
}
