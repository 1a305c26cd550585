//! Seals in force: what a group refuses, and how a bucket is sealed and unsealed.

use super::group::Group;
use super::layout::{self, StoredRow};
use super::master_state::MasterState;
use super::overlay::Overlay;
use super::seals::{OWN, SEALED, Seal, seal_key, sealed};
use crate::bucket::Bucket;
use base::error::corrupt;
use base::{BucketId, Error, Reason, Result};
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::submit::Ticket;

impl Group {
    /// Refuses the answer to a read of a sealed bucket. Called *after* the rows were read.
    #[inline]
    pub fn check_seal(&self, bucket: &Bucket) -> Result<()> {
        let holds = self.seals.hold(bucket.id) && !Mutant::ReadsBehindSeals.is_active();
        if holds { Err(sealed()) } else { Ok(()) }
    }

    /// Returns the seal of a bucket, if it is applied here.
    pub fn seal_of(&self, bucket: BucketId) -> Result<Option<Seal>> {
        let mut key = Vec::new();
        layout::row_key(self.id, OWN, &seal_key(bucket), &mut key);
        let row = self.shared.trees.get(&key).map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let value = StoredRow::read(&row).map_err(corrupt)?.value;
        Seal::read(&value).map(Some).map_err(corrupt)
    }

    /// Seals a bucket: behind everything that was taken before.
    pub fn seal(&self, bucket: BucketId) -> Result<Ticket> {
        let seal = |overlay: &mut Overlay| {
            let seal = Seal { time: overlay.open.time, version: overlay.version().0 };
            overlay.put(OWN, &seal_key(bucket), None, &[&seal.write()])
        };
        let (ticket, ()) = self.write_own(0, seal, |master| master.seal(bucket))?;
        Ok(ticket.expect("a seal is a value"))
    }

    /// Takes a seal away, or any other row of the group's own, on grounds found in this
    /// leadership epoch: another master may have found others since.
    pub fn forget_own(&self, key: &[u8], epoch: u64) -> Result<Option<Ticket>> {
        let forget = |overlay: &mut Overlay| {
            if self.leadership.epoch() != epoch {
                return Err(Error::new(Reason::Changed, "this node was not master all the time"));
            }
            if let Some(row) = overlay.row(OWN, key)? {
                overlay.remove(OWN, key, row.expires);
            }
            Ok(())
        };
        let unsealed = key.strip_prefix(&[SEALED]).and_then(|number| number.try_into().ok());
        let bucket = unsealed.map(|number| BucketId(u32::from_be_bytes(number)));
        let forgotten = self.write_own(0, forget, |master| {
            if let Some(bucket) = bucket {
                master.unseal(bucket);
            }
        });
        forgotten.map(|(ticket, ())| ticket)
    }

    /// Writes rows of the group's own, atomically. Raises the next version to `version` at least.
    /// `then` runs before anything else is evaluated.
    pub fn write_own<T>(
        &self,
        version: u64,
        write: impl FnOnce(&mut Overlay) -> Result<T>,
        then: impl FnOnce(&mut MasterState),
    ) -> Result<(Option<Ticket>, T)> {
        let mut guard = self.state();
        let state = &mut *guard;
        self.admit(state)?;
        state.queue.raise_version(version);
        let (before, begun) = state.queue.begin(&state.replica);
        let mut overlay = state.queue.overlay(&*self.shared.trees);
        let savepoint = overlay.open.savepoint();
        let written = write(&mut overlay);
        if written.is_err() {
            // The open entry holds updates of others, which are not affected.
            overlay.open.undo(savepoint);
        }
        let written = written?;
        then(&mut state.master);
        if state.queue.changed(begun) {
            self.take(state, before, true);
        }
        Ok((state.queue.ticket(&self.applied), written))
    }
}
