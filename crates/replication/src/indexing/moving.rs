//! Indexes of a bucket that moves to another group: the source names them, and the target has them
//! in force before the first row arrives. Entries are not copied: the target derives them.
//!
//! While rows arrive, a target's index counts as being built, so that nobody queries it or relies
//! on it. At the end it is what it is at the source: all rows came while it was in force.

use crate::overlay::Overlay;
use crate::seals::BOOKKEEPING_BUCKET;
use base::error::corrupt;
use base::{BucketId, Consistency, Error, Key, Range, Reason, Result};
use replica_state::replicated_index::{IndexPhase, ReplicatedIndex, records_prefix};

impl Overlay<'_> {
    /// Begins the indexes of a bucket whose rows another group is about to send. `sent`: the
    /// records of that group.
    pub fn receive_indexes(&mut self, bucket: BucketId, sent: &[ReplicatedIndex]) -> Result<()> {
        for record in sent.iter().filter(|record| record.phase.is_in_force()) {
            record.definition.check(Consistency::Consistent)?;
            let mut indexes = self.indexes.clone();
            indexes.insert(bucket, record.definition.clone())?;
            let begun = ReplicatedIndex::new(record.definition.clone(), IndexPhase::Building);
            self.put_index_record(bucket, &begun)?;
            *self.indexes = indexes;
        }
        Ok(())
    }

    /// Completes the indexes of a bucket all of whose rows have arrived. `sent`: the records of the
    /// other group as of its last row. An index that is ready there is ready here; one that was
    /// being built there is built here; one that has failed or has ended there does so here.
    /// Errors: `Changed` if one was begun there after [`Self::receive_indexes`]: rows have come
    /// without their entries.
    pub fn complete_indexes(&mut self, bucket: BucketId, sent: &[ReplicatedIndex]) -> Result<()> {
        let own = self.index_records(bucket)?;
        for ReplicatedIndex { definition, .. } in &own {
            if !sent.iter().any(|record| record.definition.number == definition.number) {
                self.end_index(bucket, definition.number)?;
            }
        }
        for record in sent {
            let is_here = own.iter().any(|own| own.definition == record.definition);
            match record.phase {
                IndexPhase::Building | IndexPhase::Ready if !is_here => {
                    return Err(Error::new(Reason::Changed, "an index was begun meanwhile"));
                }
                IndexPhase::Building => {}
                IndexPhase::Ready | IndexPhase::Failed => self.put_index_record(bucket, record)?,
                IndexPhase::Dropping => self.end_index(bucket, record.definition.number)?,
            }
            if record.phase == IndexPhase::Failed {
                self.indexes.remove(bucket, record.definition.number);
            }
        }
        Ok(())
    }

    /// Returns the records of a bucket's indexes.
    fn index_records(&mut self, bucket: BucketId) -> Result<Vec<ReplicatedIndex>> {
        let mut records = Vec::new();
        let prefix = Key::copy_from_slice(&records_prefix(bucket));
        self.rows(BOOKKEEPING_BUCKET, &Range::prefix(prefix), |_, row| {
            records.push(ReplicatedIndex::decode(&row.value).map_err(corrupt)?);
            Ok(true)
        })?;
        Ok(records)
    }
}
