//! Actors that create dots on this node, from one incarnation to the next.
//!
//! A vnode keeps its actor only if the incarnation before shut down cleanly, and other nodes have
//! admitted this one. A data directory that was restored from a copy looks as if it had shut down
//! cleanly, but the cluster has seen the incarnation that it would begin.
//!
//! Promises: a dot that an earlier incarnation may have minted and lost belongs to another actor,
//! also if incarnations that wrote nothing lie between.
//! Never: asks anyone.

use super::batch::Mark;
use super::layout::record_key;
use super::slots::Slot;
use super::vnode_store::{VnodeStore, VnodeStoreState};
use base::Result;
use base::error::corrupt;
use logic::causal::{Minter, Start};
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::world;
use std::sync::atomic::Ordering;
use store::RowChange;

impl VnodeStore {
    /// Returns the minter of a slot on this node.
    pub(super) fn minter(&self, state: &mut VnodeStoreState, slot: Slot) -> Result<Minter> {
        if let Some(minter) = state.minters.get(&slot) {
            return Ok(*minter);
        }
        let (_, record) = self.newest(state, &record_key(slot))?;
        let record = record.map(|bytes| Minter::recall(&bytes)).transpose().map_err(corrupt)?;
        let fell = self.after_a_fall && !Mutant::MintsAsBefore.is_active();
        let restored = self.life > 1 && !self.was_met();
        let found = Start {
            record,
            life: self.life,
            held_before: fell,
            // A write goes to the other replicas while this one syncs it: unsynced writes of before
            // the crash may be known to them.
            unsynced: fell,
            damaged: false,
            restored,
        };
        let (minter, doubt) = Minter::start(self.node, slot.0, found, world::chance());
        if let Some(doubt) = doubt {
            tracing::debug!(
                target: "node", slot = slot.0, ?doubt, actor = %minter.actor(),
                "a vnode goes on as another actor"
            );
        }
        state.minters.insert(slot, minter);
        Ok(minter)
    }

    /// Notes that another node has admitted this incarnation.
    pub fn meet(&self) {
        self.met.store(true, Ordering::Release);
    }

    fn was_met(&self) -> bool {
        self.met.load(Ordering::Acquire) || (self.alone)()
    }

    /// Records a clean shutdown: the next incarnation keeps the actors. An incarnation that no
    /// other node has met records none.
    pub fn end_well(&self) -> Result<()> {
        let ended = if self.was_met() { self.life } else { 0 };
        let mark = Mark { applied: self.landed.borrow().upto, ended };
        let mut changes = vec![mark.change()];
        if self.after_a_fall && !Mutant::ForgetsTheFall.is_active() {
            changes.extend(self.renewed()?);
        }
        self.trees.apply(&mut changes.into_iter()).map_err(store_error)?;
        Ok(())
    }

    /// Returns new records of the vnodes that wrote nothing since the crash. After a clean shutdown
    /// nothing else would tell that they are in doubt.
    fn renewed(&self) -> Result<Vec<RowChange>> {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut changes = Vec::new();
        for slot in Slot::all() {
            let key = record_key(slot);
            let idle = !state.minters.contains_key(&slot);
            if idle && self.newest(state, &key)?.1.is_some() {
                let record = self.minter(state, slot)?.record();
                changes.push(RowChange::Put(key, record.into()));
            }
        }
        Ok(changes)
    }
}
