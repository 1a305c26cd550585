//! Begin and end of indexes, as rows of the group's own that its master writes.

use super::build::{self, IndexStep};
use crate::bucket::Bucket;
use crate::group::Group;
use crate::overlay::Overlay;
use crate::seals::BOOKKEEPING_BUCKET;
use base::error::corrupt;
use base::{BucketId, Consistency, Error, Key, Range, Reason, Result};
use indexes::{IndexDefinition, IndexNumber};
use replica_state::replicated_index::{IndexPhase, ReplicatedIndex, record_key, records_prefix};
use replica_state::tag_record::tag_record_key;
use runtime::submit::Ticket;
use runtime::world;

impl Overlay<'_> {
    /// Returns the record of an index.
    pub(crate) fn index_record(
        &mut self,
        bucket: BucketId,
        number: IndexNumber,
    ) -> Result<Option<ReplicatedIndex>> {
        let row = self.row(BOOKKEEPING_BUCKET, &record_key(bucket, number))?;
        row.map(|row| ReplicatedIndex::decode(&row.value).map_err(corrupt)).transpose()
    }

    /// Writes the record of an index.
    pub(super) fn put_index_record(
        &mut self,
        bucket: BucketId,
        record: &ReplicatedIndex,
    ) -> Result<()> {
        let key = record_key(bucket, record.definition.number);
        self.put(BOOKKEEPING_BUCKET, &key, None, &[&record.encode()])
    }

    /// Begins an index: every later change of a row maintains it. It is ready at once if the bucket
    /// has no row. Does nothing if it was begun with the same definition. Errors: `already_exists`
    /// if the number or the name is taken; `malformed` or `too_large` if the bucket can't have it.
    pub fn begin_index(&mut self, bucket: BucketId, definition: IndexDefinition) -> Result<()> {
        definition.check(Consistency::Consistent)?;
        if let Some(record) = self.index_record(bucket, definition.number)? {
            if record.definition == definition && record.phase != IndexPhase::Dropping {
                return Ok(());
            }
            let text = format!(
                "the bucket has or had an index number {}: use another number",
                definition.number
            );
            return Err(Error::new(Reason::AlreadyExists, text));
        }
        let mut indexes = self.indexes.clone();
        indexes.insert(bucket, definition.clone())?;
        let phase = match build::has_rows(self, bucket)? {
            true => IndexPhase::Building,
            false => IndexPhase::Ready,
        };
        self.put_index_record(bucket, &ReplicatedIndex::new(definition, phase))?;
        *self.indexes = indexes;
        Ok(())
    }

    /// Ends an index: nothing maintains it any more, and its entries are removed step by step. Does
    /// nothing if there is none.
    pub fn end_index(&mut self, bucket: BucketId, number: IndexNumber) -> Result<()> {
        let Some(record) = self.index_record(bucket, number)? else { return Ok(()) };
        if record.phase != IndexPhase::Dropping {
            let (phase, duplicates) = (IndexPhase::Dropping, Vec::new());
            let dropping = ReplicatedIndex { phase, cursor: None, duplicates, ..record };
            self.put_index_record(bucket, &dropping)?;
            self.indexes.remove(bucket, number);
        }
        Ok(())
    }

    /// Removes the records of all indexes and of tags of a bucket that was dropped. Its entries are
    /// freed with its rows.
    pub fn forget_indexes(&mut self, bucket: BucketId) -> Result<()> {
        let mut keys = Vec::new();
        let prefix = Key::copy_from_slice(&records_prefix(bucket));
        self.rows(BOOKKEEPING_BUCKET, &Range::prefix(prefix), |key, _| {
            keys.push(key);
            Ok(true)
        })?;
        for key in keys {
            self.remove(BOOKKEEPING_BUCKET, &key, None)?;
        }
        if self.indexes.has_tags(bucket) {
            self.remove(BOOKKEEPING_BUCKET, &tag_record_key(bucket), None)?;
        }
        self.indexes.remove_all(bucket);
        Ok(())
    }
}

impl Group {
    /// Begins an index of a bucket of this group; see [`Overlay::begin_index`]. `epoch`: the
    /// leadership epoch in which the caller decided it. Errors: `Changed` if that epoch has ended,
    /// and another master may have decided otherwise; `Moved` as for an update of the bucket.
    pub fn begin_index(
        &self,
        bucket: &Bucket,
        definition: IndexDefinition,
        epoch: u64,
    ) -> Result<Option<Ticket>> {
        let begin = |overlay: &mut Overlay| overlay.begin_index(bucket.id, definition);
        self.write_for_bucket(bucket, epoch, begin).map(|(ticket, ())| ticket)
    }

    /// Ends an index, if there is one: nothing maintains it any more, and steps remove it. Errors:
    /// see [`Self::begin_index`].
    pub fn end_index(
        &self,
        bucket: &Bucket,
        number: IndexNumber,
        epoch: u64,
    ) -> Result<Option<Ticket>> {
        let end = |overlay: &mut Overlay| overlay.end_index(bucket.id, number);
        self.write_for_bucket(bucket, epoch, end).map(|(ticket, ())| ticket)
    }

    /// Removes the records of all indexes of a dropped bucket, whose entries are freed with its
    /// rows. Errors: `Changed`, see [`Self::begin_index`].
    pub fn forget_indexes(&self, bucket: BucketId, epoch: u64) -> Result<Option<Ticket>> {
        let forget = |overlay: &mut Overlay| overlay.forget_indexes(bucket);
        self.write_in_epoch(epoch, forget).map(|(ticket, ())| ticket)
    }

    /// Takes the next step of building or removing an index. The pacer counts its bytes; the caller
    /// waits until it allows for the next one. Errors: see [`Self::begin_index`]; those of an
    /// update, after which the same step is due.
    pub fn step_index(
        &self,
        bucket: &Bucket,
        number: IndexNumber,
        epoch: u64,
    ) -> Result<IndexStep> {
        let begun_ms = world::milliseconds();
        let step = |overlay: &mut Overlay| build::step(overlay, bucket.id, number);
        let (_, step) = self.write_for_bucket(bucket, epoch, step)?;
        self.shared.build_pacer.spend(begun_ms, step.bytes as u64);
        Ok(step)
    }
}
