//! Fence: refuses all changes while the ring is being assigned, for a bounded time.

use super::VnodeStore;

impl VnodeStore {
    /// Refuses changes until `until_ms`. Returns the ticket of the last accepted change.
    pub(crate) fn fence(&self, epoch: u64, until_ms: u64) -> u64 {
        let mut state = self.state();
        state.fence = Some((epoch, until_ms));
        state.last_ticket()
    }

    /// Returns the epoch of the ring for which the fence was set. `None`: there is no fence.
    pub(crate) fn fence_epoch(&self) -> Option<u64> {
        self.state().fence.map(|(epoch, _)| epoch)
    }

    /// Removes the fence: changes are accepted again.
    pub(crate) fn lift_fence(&self) {
        self.state().fence = None;
    }
}
