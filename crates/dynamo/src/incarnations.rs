//! Actors that create dots on this node, from one incarnation to the next.
//!
//! A vnode keeps its actor only if the previous incarnation shut down cleanly, and other nodes have
//! admitted this one. A data directory that was restored from a copy looks like a clean shutdown,
//! but the cluster has already seen the incarnation that it would begin.
//!
//! Promises: a dot that an earlier incarnation may have minted and lost belongs to another actor,
//! even if incarnations without writes lie between.
//! Never: sends a request.

use super::vnode_store::{VnodeStore, VnodeStoreState};
use base::Result;
use base::error::corrupt;
use logic::causal::{Minter, StartState};
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::world;
use std::sync::atomic::Ordering;
use store::RowChange;
use vnode_rows::batch::Mark;
use vnode_rows::layout::record_key;
use vnode_rows::slots::Slot;

impl VnodeStore {
    /// Returns the minter of a slot on this node.
    pub(super) fn minter(&self, state: &mut VnodeStoreState, slot: Slot) -> Result<Minter> {
        if let Some(minter) = state.minters.get(slot) {
            return Ok(minter);
        }
        let (_, record) = self.newest(state, &record_key(slot))?;
        let record =
            record.map(|bytes| Minter::from_record(&bytes)).transpose().map_err(corrupt)?;
        let crashed = self.unclean_shutdown && !Mutant::ReuseActorAfterCrash.is_active();
        let is_restored = self.incarnation > 1 && !self.is_acknowledged();
        let found = StartState {
            record,
            incarnation: self.incarnation,
            was_held: crashed,
            // A write goes to the other replicas while this one syncs it: they may know writes that
            // the crash lost here.
            may_lack_writes: crashed,
            is_damaged: false,
            is_restored,
        };
        let (minter, doubt) = Minter::start(self.node, slot.0, found, world::random_u64());
        if let Some(doubt) = doubt {
            tracing::debug!(
                target: "node", slot = slot.0, ?doubt, actor = %minter.actor(),
                "a vnode continues with a new actor id"
            );
        }
        state.minters.insert(slot, minter);
        Ok(minter)
    }

    /// Records that another node has admitted this incarnation.
    pub fn mark_acknowledged(&self) {
        self.acknowledged.store(true, Ordering::Release);
    }

    fn is_acknowledged(&self) -> bool {
        self.acknowledged.load(Ordering::Acquire) || (self.is_sole_member)()
    }

    /// Records a clean shutdown: the next incarnation keeps the actors. An incarnation that no
    /// other node has admitted records none.
    pub fn record_clean_shutdown(&self) -> Result<()> {
        let clean_incarnation = if self.is_acknowledged() { self.incarnation } else { 0 };
        let mark = Mark { applied: self.progress.borrow().applied, clean_incarnation };
        let mut changes = vec![mark.change()];
        if self.unclean_shutdown && !Mutant::ForgetUncleanShutdown.is_active() {
            changes.extend(self.renewed_records()?);
        }
        self.trees.apply(&mut changes.into_iter()).map_err(store_error)?;
        Ok(())
    }

    /// Returns renewed records of the vnodes without writes since the crash. After a clean shutdown
    /// nothing else would mark their actors as doubtful.
    fn renewed_records(&self) -> Result<Vec<RowChange>> {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut changes = Vec::new();
        for slot in Slot::all() {
            let key = record_key(slot);
            let idle = state.minters.get(slot).is_none();
            if idle && self.newest(state, &key)?.1.is_some() {
                let record = self.minter(state, slot)?.record();
                changes.push(RowChange::Put(key, record.into()));
            }
        }
        Ok(changes)
    }
}
