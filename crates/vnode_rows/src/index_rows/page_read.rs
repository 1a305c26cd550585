//! Reads of a page of an index from the rows of this node, for the slots that are asked for.
//!
//! A node keeps the entries of all its slots in one order, so a page is one range read. It leaves
//! out entries of slots that it was not asked for, and expired ones. With three copies a query that
//! asks one replica reads about three entries for each that it returns, and more if a node is asked
//! for a few partitions in place of a lost one. So a page ends after [`WALKED_MAX`] entries,
//! whether it has rows or not, and says through which place it has read: the next one continues
//! there.
//!
//! Promises: entries, records and the state of the index are those of one snapshot; a page moves on
//! by at least one entry.
//! Never: answers for an index whose build is not complete here.

use super::keys::{EntryValue, query_keys, read_entry_key};
use super::page::{IndexAnswer, IndexContent, IndexPage, IndexQuery};
use super::record::{IndexId, IndexPhase};
use super::stored::read_record;
use crate::layout::row_key_in;
use crate::slots::{SLOTS, SlotSpan};
use base::error::corrupt;
use base::limits::PAGE_ROWS_MAX;
use base::range::Direction;
use base::{BucketName, Result};
use bytes::Bytes;
use indexes::IndexField;
use indexes::layout::EntryQuery;
use logic::coverage::PageEnd;
use runtime::log_writer::store_error;
use store::Snapshot;

/// Maximum number of entries that a page reads.
pub const WALKED_MAX: usize = 16_384;
/// Number of bytes of rows at which a page ends, and the largest record that it holds.
const PAGE_BYTES_MAX: usize = 1 << 20;
const RECORD_BYTES_MAX: usize = 4 << 20;

/// Filter of the slots that a query asks for.
struct SlotFilter([bool; SLOTS as usize]);

impl SlotFilter {
    fn new(spans: &[SlotSpan]) -> SlotFilter {
        let mut asked = [false; SLOTS as usize];
        for slot in spans.iter().flat_map(|span| span.slots()) {
            asked[slot as usize] = true;
        }
        SlotFilter(asked)
    }

    fn has(&self, value: EntryValue) -> bool {
        self.0.get(value.slot.0 as usize).copied().unwrap_or_default()
    }
}

/// Answers a query of a bucket's index as of a snapshot, for the slots of these spans. Entries that
/// have expired by `now_ms` are left out.
pub fn read_answer(
    snapshot: &dyn Snapshot,
    (bucket, spans): (&BucketName, &[SlotSpan]),
    query: &IndexQuery,
    now_ms: u64,
) -> Result<IndexAnswer> {
    let id = match &query.field {
        IndexField::Tag(_) => IndexId::Tags,
        IndexField::Declared(number) => IndexId::Declared(bucket.clone(), *number),
    };
    // Of the same snapshot: one that says that the index is ready has all its entries.
    match read_record(snapshot, &id)? {
        Some(record) if record.phase == IndexPhase::Building => {
            Ok(IndexAnswer::Building(record.slots_done(), SLOTS))
        }
        Some(record) if record.phase == IndexPhase::Ready => {
            let asked = SlotFilter::new(spans);
            read_page(snapshot, bucket, query, (&asked, now_ms)).map(IndexAnswer::Page)
        }
        _ => Ok(IndexAnswer::Absent),
    }
}

/// Reads a page of a snapshot. Entries of other slots than those asked for, and entries that have
/// expired by `now_ms`, are left out.
fn read_page(
    snapshot: &dyn Snapshot,
    bucket: &BucketName,
    query: &IndexQuery,
    (asked, now_ms): (&SlotFilter, u64),
) -> Result<IndexPage> {
    let IndexQuery { field, terms, after, direction, content, rows_max } = query;
    let after = after.as_ref().map(|(term, key)| (term, &key[..]));
    let direction = *direction;
    let (low, high) = query_keys(bucket, &EntryQuery { field, terms, after, direction });
    let rows_max = (*rows_max).clamp(1, PAGE_ROWS_MAX);
    let mut page = IndexPage { rows: Vec::new(), end: PageEnd::Complete };
    let mut bytes = 0;
    let entries = snapshot.range(low, high, direction == Direction::Descending);
    for (walked, found) in (1..).zip(entries) {
        let (tree_key, value) = found.map_err(store_error)?;
        let value = EntryValue::read(&value).map_err(corrupt)?;
        let is_asked = asked.has(value) && value.expires_ms.is_none_or(|at_ms| at_ms > now_ms);
        if !is_asked && walked < WALKED_MAX {
            continue;
        }
        let (_, entry, key) = read_entry_key(&tree_key).map_err(corrupt)?;
        let position = (entry.term, key);
        if is_asked {
            let record = match content {
                IndexContent::Entries => None,
                IndexContent::Records => {
                    let row = snapshot.get(&row_key_in(value.slot, bucket, &position.1));
                    row.map_err(store_error)?.filter(|row| row.len() <= RECORD_BYTES_MAX)
                }
            };
            bytes += tree_key.len() + record.as_ref().map_or(0, Bytes::len);
            page.rows.push((position.clone(), record));
        }
        if page.rows.len() == rows_max || bytes >= PAGE_BYTES_MAX || walked == WALKED_MAX {
            page.end = PageEnd::Through(position);
            break;
        }
    }
    Ok(page)
}
