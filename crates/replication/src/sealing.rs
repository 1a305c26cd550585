//! Seals in force: what a group refuses, and how a bucket is sealed and unsealed.

use super::group::Group;
use super::master_state::MasterState;
use super::overlay::Overlay;
use super::seals::{BOOKKEEPING_BUCKET, SEALED, Seal, bucket_moved_error, seal_key};
use super::state::GroupState;
use crate::bucket::Bucket;
use base::error::corrupt;
use base::limits::LOG_RECORD_BYTES_MAX;
use base::{BucketId, Error, Reason, Result};
use replica_state::layout::{self, StoredRow};
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use runtime::submit::Ticket;

/// Maximum bytes that a write of the group's own may add to an entry of the log.
const WRITTEN_BYTES_MAX: usize = LOG_RECORD_BYTES_MAX / 4 * 3;

impl Group {
    /// Refuses the answer to a read of a sealed bucket, or of one that was changed since it was
    /// looked up: a bucket that was moved, cleared or dropped loses its rows one by one, and the
    /// seal with the last of them. Called *after* the rows were read.
    #[inline]
    pub fn check_seal(&self, bucket: &Bucket) -> Result<()> {
        let is_sealed = self.seals.is_sealed(bucket.id) && !Mutant::ReadSealedBuckets.is_active();
        if is_sealed || bucket.is_retired() { Err(bucket_moved_error()) } else { Ok(()) }
    }

    /// Returns the seal of a bucket, if it is applied here.
    pub fn find_seal(&self, bucket: BucketId) -> Result<Option<Seal>> {
        let mut key = Vec::new();
        layout::row_key(self.id, BOOKKEEPING_BUCKET, &seal_key(bucket), &mut key);
        let row = self.shared.trees.get(&key).map_err(store_error)?;
        let Some(row) = row else { return Ok(None) };
        let value = StoredRow::read(&row).map_err(corrupt)?.value;
        Seal::read(&value).map(Some).map_err(corrupt)
    }

    /// Seals a bucket, behind all updates that were accepted before.
    pub fn seal(&self, bucket: BucketId) -> Result<Ticket> {
        let seal = |overlay: &mut Overlay| {
            let seal = Seal { time: overlay.open.time, version: overlay.version().0 };
            overlay.put(BOOKKEEPING_BUCKET, &seal_key(bucket), None, &[&seal.write()])
        };
        let (ticket, ()) = self.write_bookkeeping(0, seal, |master| master.seal(bucket))?;
        Ok(ticket.expect("a seal is a value"))
    }

    /// Removes a seal, or any other row of the group's own. `epoch`: the leadership epoch in which
    /// the caller decided it. `Changed`: that epoch has ended, and another master may have decided
    /// otherwise.
    pub fn remove_bookkeeping(&self, key: &[u8], epoch: u64) -> Result<Option<Ticket>> {
        let forget = |overlay: &mut Overlay| {
            self.check_epoch(epoch)?;
            if let Some(row) = overlay.row(BOOKKEEPING_BUCKET, key)? {
                overlay.remove(BOOKKEEPING_BUCKET, key, row.expires)?;
            }
            Ok(())
        };
        let unsealed = key.strip_prefix(&[SEALED]).and_then(|number| number.try_into().ok());
        let bucket = unsealed.map(|number| BucketId(u32::from_be_bytes(number)));
        let forgotten = self.write_bookkeeping(0, forget, |master| {
            if let Some(bucket) = bucket {
                master.unseal(bucket);
            }
        });
        forgotten.map(|(ticket, ())| ticket)
    }

    /// Checks, at the master, that the leadership epoch in which something was decided has not
    /// ended.
    fn check_epoch(&self, epoch: u64) -> Result<()> {
        if self.leadership.epoch() == epoch {
            return Ok(());
        }
        Err(Error::new(Reason::Changed, "this node was not master all the time"))
    }

    /// Writes rows of the group's own, atomically. Raises the next version to `version` at least.
    /// `on_written` runs before any other update is evaluated.
    pub fn write_bookkeeping<T>(
        &self,
        version: u64,
        write: impl FnOnce(&mut Overlay) -> Result<T>,
        on_written: impl FnOnce(&mut MasterState),
    ) -> Result<(Option<Ticket>, T)> {
        let mut guard = self.state();
        self.admit(&guard)?;
        guard.queue.raise_version(version);
        self.write_own(&mut guard, write, on_written)
    }

    /// Writes rows of the group's own, as [`Self::write_bookkeeping`]. `epoch`: the leadership
    /// epoch in which the caller decided it. Errors: `Changed` if that epoch has ended, and another
    /// master may have decided otherwise.
    pub(super) fn write_in_epoch<T>(
        &self,
        epoch: u64,
        write: impl FnOnce(&mut Overlay) -> Result<T>,
    ) -> Result<(Option<Ticket>, T)> {
        let write = |overlay: &mut Overlay| {
            self.check_epoch(epoch)?;
            write(overlay)
        };
        self.write_bookkeeping(0, write, |_| {})
    }

    /// Writes rows of the group's own that belong to a bucket. Errors: those of
    /// [`Self::write_in_epoch`]; `Moved` if the bucket was changed since it was looked up, or has
    /// left this group, as for an update of it: the space of a dropped bucket is freed once earlier
    /// updates are applied, and a row that came later would stay for ever.
    pub(super) fn write_for_bucket<T>(
        &self,
        bucket: &Bucket,
        epoch: u64,
        write: impl FnOnce(&mut Overlay) -> Result<T>,
    ) -> Result<(Option<Ticket>, T)> {
        let mut guard = self.lock_for_update(bucket)?;
        self.check_epoch(epoch)?;
        self.write_own(&mut guard, write, |_| {})
    }

    fn write_own<T>(
        &self,
        state: &mut GroupState,
        write: impl FnOnce(&mut Overlay) -> Result<T>,
        on_written: impl FnOnce(&mut MasterState),
    ) -> Result<(Option<Ticket>, T)> {
        let (is_first, begun_bytes) = state.queue.begin(&state.replica);
        let written = state.queue.overlay(&*self.shared.trees).write_atomically(write)?;
        on_written(&mut state.master);
        if state.queue.changed(begun_bytes) {
            self.add_update(state, is_first, true);
        }
        Ok((state.queue.ticket(&self.applied), written))
    }
}

impl Overlay<'_> {
    /// Runs a write of the group's own. After an error neither an effect remains nor a change of
    /// the indexes in force. Errors: `TooLarge` if it does not fit into an entry of the log.
    pub(super) fn write_atomically<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let (savepoint, indexes) = (self.savepoint(), self.indexes.clone());
        let begun_bytes = self.open.payload_bytes();
        let written = write(self).and_then(|written| {
            check_written_bytes(self.open.payload_bytes() - begun_bytes).map(|()| written)
        });
        if written.is_err() {
            // The open entry holds updates of others, which are not affected.
            self.undo(savepoint);
            *self.indexes = indexes;
        }
        written
    }
}

/// Refuses what would not fit into a record of the log: copied rows may have many index entries.
fn check_written_bytes(bytes: usize) -> Result<()> {
    if bytes <= WRITTEN_BYTES_MAX {
        return Ok(());
    }
    let text = format!(
        "{bytes} bytes of rows and their index entries do not fit into one entry of the log: drop \
         an index of the bucket"
    );
    Err(Error::new(Reason::TooLarge, text))
}
