//! Row of a key at one replica, as the quorum of a read merges it.
//!
//! Replicas mostly have the same bytes. Then one row is decoded, nothing is merged, and nothing is
//! encoded again. A clock has one form in bytes, so equal bytes mean equal rows.

use base::Result;
use base::error::corrupt;
use bytes::Bytes;
use logic::quorum::Versions;
use std::sync::Arc;
use vnode_rows::layout::{Row, read_row, write_row};

/// Row of a key at a replica: its bytes, and what they hold. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReplicaRow {
    bytes: Bytes,
    row: Arc<Row>,
}

impl PartialEq for ReplicaRow {
    fn eq(&self, other: &ReplicaRow) -> bool {
        self.bytes == other.bytes
    }
}

impl Versions for ReplicaRow {
    fn merge(&mut self, other: &ReplicaRow) {
        if self != other {
            let merged = Row::clone(&self.row).sync(Row::clone(&other.row));
            *self = ReplicaRow { bytes: write_row(&merged), row: Arc::new(merged) };
        }
    }
}

impl ReplicaRow {
    /// Decodes a row, unless one of the `known` rows has the same bytes. A row without values
    /// counts too: its context matters to a merge.
    pub fn read(bytes: Bytes, known: &[ReplicaRow]) -> Result<ReplicaRow> {
        if let Some(known) = known.iter().find(|known| known.bytes == bytes) {
            return Ok(known.clone());
        }
        let row = Arc::new(read_row(&bytes).map_err(corrupt)?);
        Ok(ReplicaRow { bytes, row })
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns what the bytes hold.
    pub fn into_row(self) -> Row {
        Arc::unwrap_or_clone(self.row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Actor, Content, NodeId};
    use logic::causal::Dot;
    use vnode_rows::layout::StoredValue;

    /// Returns a row with values of these nodes, each with its counter.
    fn row(values: &[(u64, u64)]) -> Row {
        let mut row = Row::empty();
        for (node, count) in values {
            let content = Content::plain(format!("{node} {count}").into());
            let id = Actor { node: NodeId(*node), vnode: 7, incarnation: 1 };
            row.event(Dot { id, count: *count }, StoredValue::new(Some(&content), *count));
        }
        row
    }

    fn read(row: &Row, known: &[ReplicaRow]) -> ReplicaRow {
        ReplicaRow::read(write_row(row), known).expect("it reads")
    }

    #[test]
    fn equal_rows_are_decoded_once_and_not_merged() {
        let first = read(&row(&[(1, 1), (2, 1)]), &[]);
        let mut second = read(&row(&[(1, 1), (2, 1)]), std::slice::from_ref(&first));
        assert!(Arc::ptr_eq(&first.row, &second.row));
        second.merge(&first);
        assert!(first == second && Arc::ptr_eq(&first.row, &second.row), "nothing was merged");
        let other = read(&row(&[(1, 2)]), std::slice::from_ref(&first));
        assert!(first != other && !Arc::ptr_eq(&first.row, &other.row));
    }

    #[test]
    fn merged_row_equals_the_merge_of_decoded_rows_in_any_order() {
        let rows = [&[(1, 1), (2, 1)][..], &[(1, 2)], &[(3, 4), (2, 1)], &[]].map(row);
        for one in &rows {
            for other in &rows {
                let expected = one.clone().sync(other.clone());
                let mut merged = read(one, &[]);
                merged.merge(&read(other, &[]));
                assert_eq!(*merged.bytes(), write_row(&expected));
                let mut reverse = read(other, &[]);
                reverse.merge(&read(one, &[]));
                assert!(merged == reverse);
                assert_eq!(merged.into_row(), expected);
            }
        }
    }

    #[test]
    fn damaged_row_is_an_error() {
        let known = read(&row(&[(1, 1)]), &[]);
        let damaged = known.bytes.slice(..known.bytes.len() - 1);
        assert!(ReplicaRow::read(damaged, &[known]).is_err());
        assert!(ReplicaRow::read(Bytes::new(), &[]).is_err());
    }
}
