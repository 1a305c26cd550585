//! State of a key at a replica, as the quorum of a read merges it.

use super::layout::{Row, read_row};
use base::Result;
use base::error::corrupt;
use bytes::Bytes;
use logic::quorum::Versions;

/// Row of a key at a replica.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldRow(pub Row);

impl Versions for HeldRow {
    fn merge(&mut self, other: &HeldRow) {
        self.0 = std::mem::take(&mut self.0).sync(other.0.clone());
    }
}

/// Decodes a row. A row without values is kept if it has seen writes, which matter to a merge.
pub fn held(row: Option<&Bytes>) -> Result<Option<HeldRow>> {
    let row = row.map(|bytes| read_row(bytes).map_err(corrupt)).transpose()?;
    Ok(row.map(HeldRow))
}
