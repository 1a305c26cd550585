//! Positions of feed entries: where a change stands among the batches of this life.
//!
//! The life is the incarnation of the node: its number is durable before the node serves, and a
//! copy of a data directory that begins a number again is refused by the other nodes.

use super::{VnodeStore, VnodeStoreState};
use change_feed::VnodePosition;
use runtime::mutants::Mutant;

impl VnodeStore {
    /// Returns the life of the store.
    pub(crate) fn life(&self) -> u32 {
        if Mutant::ReuseFeedLife.is_active() {
            return 1;
        }
        // A node that starts each second reaches this number in a century.
        u32::try_from(self.incarnation).unwrap_or(u32::MAX)
    }

    /// Returns the position of the change that is added to the open batch behind this many others.
    pub(crate) fn position_of_change(
        &self,
        state: &VnodeStoreState,
        behind: usize,
    ) -> VnodePosition {
        let ordinal = (state.open.changes + behind) as u32;
        VnodePosition { life: self.life(), batch: state.open.index, ordinal }
    }

    /// Returns the position of the last feed entry, or one before this life and behind all earlier
    /// ones.
    pub(crate) fn last_feed_position(&self, state: &VnodeStoreState) -> VnodePosition {
        state.feeds.last_entry.unwrap_or(VnodePosition::start_of(self.life()))
    }
}
