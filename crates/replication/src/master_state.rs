//! State of a group's master beyond the log entries: facts about rows that are not looked up for
//! every update.
//!
//! It is loaded from the store when this node becomes master, and updated with every update: it
//! covers all accepted updates, decided or not. A candidate that becomes master again without
//! another in between keeps it. While another node is master it is stale and unused.

use super::expiry_sweep::ExpirySweep;
use super::seals::bucket_moved_error;
use super::session_counts::SessionCounts;
use crate::bucket::Bucket;
use base::{BucketId, Error, GroupId, Reason, Result};
use replica_state::layout::{self, Space, StoredSession};
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use std::collections::BTreeSet;
use std::ops::Bound;
use store::Trees;

/// See the head of this file.
#[derive(Default)]
pub struct MasterState {
    /// Counts of open sessions.
    pub sessions: SessionCounts,
    /// Buckets with a seal, decided or not: later updates are evaluated behind it.
    sealed: BTreeSet<BucketId>,
    /// Sweep of expired rows.
    pub(super) sweep: ExpirySweep,
}

impl MasterState {
    /// Creates the state from the applied seals.
    pub(super) fn new(sealed: BTreeSet<BucketId>) -> MasterState {
        MasterState { sealed, ..MasterState::default() }
    }

    /// Loads the state. Everything before this leadership epoch is applied.
    pub(super) fn load(
        &mut self,
        group: GroupId,
        trees: &dyn Trees,
        sealed: BTreeSet<BucketId>,
    ) -> Result<()> {
        self.sessions = count_sessions(group, trees)?;
        self.sealed = sealed;
        self.sweep.restart();
        Ok(())
    }

    /// Refuses an update of a bucket that was changed since it was looked up, or has left this
    /// group.
    #[inline]
    pub(super) fn check_bucket(&self, bucket: &Bucket) -> Result<()> {
        if bucket.is_retired() {
            return Err(Error::new(
                Reason::Moved,
                "the bucket was changed in the meantime: try again",
            ));
        }
        let sealed_here = !self.sealed.is_empty() && self.sealed.contains(&bucket.id);
        if sealed_here && !Mutant::EvaluateSealedBuckets.is_active() {
            return Err(bucket_moved_error());
        }
        Ok(())
    }

    /// Adds the seal of a bucket.
    pub(super) fn seal(&mut self, bucket: BucketId) {
        self.sealed.insert(bucket);
    }

    /// Removes the seal of a bucket.
    pub(super) fn unseal(&mut self, bucket: BucketId) {
        self.sealed.remove(&bucket);
    }
}

fn count_sessions(group: GroupId, trees: &dyn Trees) -> Result<SessionCounts> {
    let mut low = Vec::new();
    layout::space_key(group, Space::Session, &mut low);
    let high = base::range::prefix_end(&low).expect("a space is not all 0xFF");
    let snapshot = trees.snapshot();
    let bounds = (Bound::Included(low.into()), Bound::Excluded(high.into()));
    let mut counts = SessionCounts::default();
    for session in snapshot.range(bounds.0, bounds.1, false) {
        let (_, row) = session.map_err(store_error)?;
        // What can't be decoded is reported to whoever uses the session.
        let stored = StoredSession::read(&row).ok();
        counts.add(stored.and_then(|stored| stored.user));
    }
    Ok(counts)
}
