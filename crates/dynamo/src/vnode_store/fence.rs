//! Fence: refuses all changes while the ring is being assigned, for a bounded time.

use super::VnodeStore;
use std::sync::atomic::Ordering;

impl VnodeStore {
    /// Refuses changes until `until_ms`. Returns the ticket of the last accepted change.
    pub(crate) fn fence(&self, epoch: u64, until_ms: u64) -> u64 {
        let mut state = self.state();
        state.fence = Some((epoch, until_ms));
        self.has_fence.store(true, Ordering::Release);
        state.last_ticket()
    }

    /// Returns the epoch of the ring for which the fence was set. `None`: there is no fence.
    pub(crate) fn fence_epoch(&self) -> Option<u64> {
        // Every write asks, and there is hardly ever a fence.
        let has_fence = self.has_fence.load(Ordering::Acquire);
        if has_fence { self.state().fence.map(|(epoch, _)| epoch) } else { None }
    }

    /// Removes the fence: changes are accepted again.
    pub(crate) fn lift_fence(&self) {
        let mut state = self.state();
        state.fence = None;
        self.has_fence.store(false, Ordering::Release);
    }
}
