//! Work on indexes in the background, page by page: builds and removals, within a budget of bytes a
//! second, and the scrub. The caller says when (`node/vnode_index_keeper.rs`).

use super::scrub::{ScrubCursor, ScrubPage};
use crate::Available;
use crate::index_mends::IndexMends;
use crate::vnode_store::VnodeStore;
use base::Result;
use runtime::metrics::Metrics;
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
    /// Takes the next step of a build or a removal: one page, within a budget of bytes a second; 0:
    /// no limit. Returns false if there is nothing to build or to remove.
    pub async fn work_on_index(self: &Arc<Available>, bytes_per_second: u64) -> Result<bool> {
        let Some((id, phase)) = self.vnode_store.unfinished_index()? else { return Ok(false) };
        // The page is read from the store: it must have what was changed for the page before.
        self.vnode_store.wait_stored(self.vnode_store.last_ticket()).await?;
        let (began_ms, available) = (world::milliseconds(), self.clone());
        let written = self.read_blocking(move || available.vnode_store.write_next_page(&id, phase));
        let WrittenPage { ticket, bytes } = written.await?;
        if let Some(ticket) = ticket {
            self.vnode_store.wait_stored(ticket).await?;
        }
        self.pace(began_ms, bytes, bytes_per_second).await;
        Ok(true)
    }

    /// Checks the next page of rows or entries, and mends the entries that differ.
    pub async fn scrub_index_page(self: &Arc<Available>, cursor: ScrubCursor) -> Result<ScrubPage> {
        let available = self.clone();
        let page = self.read_blocking(move || available.vnode_store.scrub_page(cursor)).await?;
        if page.mends != IndexMends::default() {
            let IndexMends { missing, stale } = page.mends;
            Metrics::add(&self.metrics.index_entries_mended, missing + stale);
            tracing::error!(target: "node", missing, stale, "index entries differed from rows");
        }
        Ok(page)
    }

    /// Pauses until a page has taken as long as the budget asks for.
    pub(crate) async fn pace(&self, began_ms: u64, bytes: usize, bytes_per_second: u64) {
        let page_ms = (bytes as u64).saturating_mul(1_000).checked_div(bytes_per_second);
        let took_ms = world::milliseconds().saturating_sub(began_ms);
        let pause_ms = page_ms.unwrap_or(0).saturating_sub(took_ms);
        if pause_ms > 0 {
            let stop = self.tasks.cancellation_token();
            sleep_or_cancelled(stop, Duration::from_millis(pause_ms)).await;
        }
    }
}
