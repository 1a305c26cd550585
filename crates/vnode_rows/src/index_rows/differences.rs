//! Differences between the indexes of a node and its rows, as of one snapshot: the judge of tests.
//!
//! Derives the entries of every row, and holds them in memory against those that are there. So it
//! is for small stores; the scrub (`dynamo/index_upkeep/scrub.rs`) does the same in pages.

use super::in_force::bucket_name_in;
use super::keys::{EntryValue, entries_prefix, entry_key};
use super::row_entries::{RowDeriver, row_place};
use super::stored::read_indexes;
use crate::layout::{slot_keys, slot_of};
use base::Result;
use base::range::prefix_end;
use bytes::Bytes;
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::Snapshot;

/// Entry that is not what the rows ask for, by tree key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexDifference {
    /// A row asks for an entry that is not there, or has another value.
    Missing(Bytes),
    /// No row asks for an entry that is there.
    Stale(Bytes),
}

/// Entry that a row asks for.
struct ExpectedEntry {
    value: Bytes,
    /// True if the build of its index has read the row.
    must_exist: bool,
}

/// Returns all differences as of a snapshot. Entries of an index that is being built may be missing
/// where the build has not come; those of a dropped index are no difference.
pub fn differences(snapshot: &dyn Snapshot) -> Result<Vec<IndexDifference>> {
    let indexes = read_indexes(snapshot)?;
    let mut expected = BTreeMap::new();
    let (low, high) = slot_keys(None);
    for found in snapshot.range(low, high, false) {
        let (tree_key, row) = found.map_err(store_error)?;
        if slot_of(&tree_key).is_none() {
            continue;
        }
        let name = bucket_name_in(&tree_key).unwrap_or_default();
        let (Some(deriver), Some((slot, bucket, key))) =
            (indexes.deriver(name), row_place(&tree_key))
        else {
            continue;
        };
        let (definitions, has_tags) = indexes.complete_at(name, &tree_key);
        let complete = RowDeriver { definitions: &definitions, has_tags }.entries(Some(&row));
        for (entry, expires_ms) in deriver.entries(Some(&row)) {
            let value = EntryValue { slot, expires_ms }.write();
            let must_exist = complete.contains_key(&entry);
            let expected_entry = ExpectedEntry { value, must_exist };
            expected.insert(entry_key(&bucket, &entry, &key), expected_entry);
        }
    }
    let mut differences = Vec::new();
    let prefix = entries_prefix();
    let high = prefix_end(&prefix).map_or(Bound::Unbounded, |end| Bound::Excluded(end.into()));
    for found in snapshot.range(Bound::Included(prefix.into()), high, false) {
        let (tree_key, value) = found.map_err(store_error)?;
        match expected.remove(&tree_key) {
            _ if indexes.is_dropped(&tree_key) => {}
            None => differences.push(IndexDifference::Stale(tree_key)),
            Some(entry) if entry.value != value => {
                differences.push(IndexDifference::Missing(tree_key));
            }
            Some(_) => {}
        }
    }
    let absent = expected.into_iter().filter(|(_, entry)| entry.must_exist);
    differences.extend(absent.map(|(tree_key, _)| IndexDifference::Missing(tree_key)));
    Ok(differences)
}
