//! Run of sets: consecutive plain sets of one connection, evaluated under one lock.
//!
//! Each set stays an update of its own, with its place in the log, its version and its ticket: the
//! run is neither atomic nor one update. It only saves the lock and the driver's wake-ups.

use super::evaluate::evaluate_set;
use super::group::Group;
use crate::bucket::Bucket;
use base::{Result, SyncPolicy};
use runtime::metrics::Metrics;
use runtime::submit::Ticket;

impl Group {
    /// Evaluates sets of keys and values into the open entry, in order, and passes the ticket of
    /// each to `accepted`. Ends before the first one that is not accepted; that one and those
    /// behind it had no effect, and are to be submitted one by one. Returns the number of accepted
    /// ones.
    ///
    /// The caller bounds the run, for which the driver may wait. The bucket's rows have no default
    /// expiry, and are neither counted nor indexed, so that no row is read. `accepted` is called
    /// under the group's lock.
    ///
    /// Errors: those of [`Group::submit`] for the first one; nothing happened.
    pub fn submit_sets(
        &self,
        bucket: &Bucket,
        sets: &[(&[u8], &[u8])],
        accepted: &mut dyn FnMut(Ticket),
    ) -> Result<usize> {
        let sync = bucket.properties.sync == SyncPolicy::Sync;
        let mut guard = self.lock_for_update(bucket)?;
        let state = &mut *guard;
        let epoch = self.applied.epoch();
        let (mut count, mut must_wake) = (0, false);
        for (key, value) in sets {
            // The lock was given with room for one update.
            if count > 0 && state.queue.check_room().is_err() {
                break;
            }
            let (is_first, _) = state.queue.begin(&state.replica);
            let mut overlay = state.queue.overlay(&*self.shared.trees);
            if let Err(error) = evaluate_set(&mut overlay, bucket, key, value) {
                if count == 0 {
                    return Err(error);
                }
                break;
            }
            let (index, is_due) = state.queue.add(is_first, sync);
            state.latencies.add(index);
            must_wake |= is_due;
            accepted(Ticket { group: self.id, index, epoch });
            count += 1;
        }
        drop(guard);
        // After the lock is free: the driver needs it first of all.
        if must_wake {
            self.driver.wake();
        }
        Metrics::add(&self.shared.metrics.updates, count as u64);
        Ok(count)
    }
}
