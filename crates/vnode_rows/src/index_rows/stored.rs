//! Records of indexes as the store has them.

use super::in_force::IndexSet;
use super::keys::{read_record_key, record_keys};
use super::record::{IndexId, IndexRecord};
use base::Result;
use base::error::corrupt;
use runtime::log_writer::store_error;
use store::Snapshot;

/// Reads the record of an index as of a snapshot.
pub fn read_record(snapshot: &dyn Snapshot, id: &IndexId) -> Result<Option<IndexRecord>> {
    let bytes = snapshot.get(&id.record_key()).map_err(store_error)?;
    bytes.map(|bytes| IndexRecord::read(id, &bytes)).transpose().map_err(corrupt)
}

/// Reads the records of all indexes as of a snapshot.
pub fn read_indexes(snapshot: &dyn Snapshot) -> Result<IndexSet> {
    let mut indexes = IndexSet::default();
    let (low, high) = record_keys();
    for record in snapshot.range(low, high, false) {
        let (tree_key, bytes) = record.map_err(store_error)?;
        let id = read_record_key(&tree_key).map_err(corrupt)?;
        let record = IndexRecord::read(&id, &bytes).map_err(corrupt)?;
        indexes.insert(&id, record)?;
    }
    Ok(indexes)
}
