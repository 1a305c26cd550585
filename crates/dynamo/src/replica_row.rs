//! Row of a key at one replica, as the quorum of a read merges it.

use super::layout::{Row, read_row};
use base::Result;
use base::error::corrupt;
use bytes::Bytes;
use logic::quorum::Versions;

/// Row of a key at a replica.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaRow(pub Row);

impl Versions for ReplicaRow {
    fn merge(&mut self, other: &ReplicaRow) {
        self.0 = std::mem::take(&mut self.0).sync(other.0.clone());
    }
}

/// Decodes a row. A row without values counts too: its context matters to a merge.
pub fn read_replica_row(row: Option<&Bytes>) -> Result<Option<ReplicaRow>> {
    let row = row.map(|bytes| read_row(bytes).map_err(corrupt)).transpose()?;
    Ok(row.map(ReplicaRow))
}
