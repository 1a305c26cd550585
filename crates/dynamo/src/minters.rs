//! Minters of this node's vnodes, by slot: each write and each merge looks one up.

use logic::causal::Minter;
use vnode_rows::slots::{SLOTS, Slot};

/// See the head of this file.
pub(super) struct Minters(Box<[Option<Minter>]>);

impl Default for Minters {
    fn default() -> Minters {
        Minters(vec![None; SLOTS as usize].into())
    }
}

impl Minters {
    /// Returns the minter of a slot. `None`: the slot was not written since the start.
    pub(super) fn get(&self, slot: Slot) -> Option<Minter> {
        self.0.get(slot.0 as usize).copied().flatten()
    }

    /// Sets the minter of a slot.
    pub(super) fn insert(&mut self, slot: Slot, minter: Minter) {
        if let Some(place) = self.0.get_mut(slot.0 as usize) {
            *place = Some(minter);
        }
    }
}
