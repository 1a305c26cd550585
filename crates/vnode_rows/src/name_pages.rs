//! Scans of rows for lists: a page of a bucket's keys, or of a type's buckets, in some partitions.

use crate::layout::{
    bucket_prefix, has_live_value, read_row, read_row_key, row_key_in, rows_prefix,
};
use crate::slots::{Slot, SlotSpan};
use base::codec::Malformed;
use base::error::corrupt;
use base::limits::PAGE_BYTES_MAX;
use base::{BucketName, Result};
use bytes::Bytes;
use runtime::log_writer::store_error;
use std::collections::BTreeSet;
use std::ops::Bound;
use store::Snapshot;

/// Names in order, and true if more follow.
pub type NamePage = (Vec<Bytes>, bool);

/// Lists keys with a live value.
pub fn scan_keys(
    snapshot: &dyn Snapshot,
    spans: &[SlotSpan],
    bucket: &BucketName,
    after: Option<&[u8]>,
    rows_max: usize,
) -> Result<NamePage> {
    let mut merged = NamePage::default();
    for slot in slots_of(spans) {
        let prefix = bucket_prefix(slot, bucket);
        let low = match after {
            Some(after) => Bound::Excluded(row_key_in(slot, bucket, after)),
            None => Bound::Included(prefix.clone().into()),
        };
        let (mut keys, mut bytes, mut more) = (Vec::new(), 0, false);
        for row in snapshot.range(low, Bound::Unbounded, false) {
            let (key, row) = row.map_err(store_error)?;
            // Rows after the end of a full page are not needed.
            let last = merged.0.last().filter(|_| merged.1);
            if !key.starts_with(&prefix) || last.is_some_and(|it| key[prefix.len()..] > it[..]) {
                break;
            }
            if !has_live_value(&read_row(&row).map_err(corrupt)?) {
                continue;
            }
            if keys.len() >= rows_max || bytes >= PAGE_BYTES_MAX {
                more = true;
                break;
            }
            bytes += key.len();
            keys.push(key.slice(prefix.len()..));
        }
        merged = merge_pages([merged, (keys, more)], rows_max);
    }
    Ok(merged)
}

/// Lists buckets with a live value. The rows of a slot are ordered by bucket (shorter names
/// first): the scan skips from each bucket's first live key to the next bucket.
pub fn scan_buckets(
    snapshot: &dyn Snapshot,
    spans: &[SlotSpan],
    kind: &str,
    after: Option<&[u8]>,
    rows_max: usize,
) -> Result<NamePage> {
    let (mut names, mut more) = (BTreeSet::new(), false);
    for slot in slots_of(spans) {
        let slot_prefix = rows_prefix(slot);
        let mut low = Bound::Included(Bytes::from(slot_prefix.clone()));
        'buckets: loop {
            let mut found = None;
            for row in snapshot.range(low.clone(), Bound::Unbounded, false) {
                let (key, row) = row.map_err(store_error)?;
                if !key.starts_with(&slot_prefix) {
                    break 'buckets;
                }
                let bucket = read_row_key(&key).ok_or(Malformed("row's key"));
                let (bucket, _) = bucket.map_err(corrupt)?;
                let matches =
                    bucket.kind() == kind && after.is_none_or(|it| bucket.full().as_bytes() > it);
                if !matches || has_live_value(&read_row(&row).map_err(corrupt)?) {
                    found = Some((bucket, matches));
                    break;
                }
            }
            let Some((bucket, matches)) = found else { break };
            // After every key of this bucket.
            let prefix = bucket_prefix(slot, &bucket);
            let Some(next) = base::range::prefix_end(&prefix) else { break };
            low = Bound::Included(next.into());
            if matches {
                names.insert(bucket.full().to_string());
            }
            if names.len() > rows_max {
                names.pop_last();
                more = true;
            }
        }
    }
    let names = names.into_iter().map(Bytes::from).collect();
    Ok((names, more))
}

/// Returns the slots of spans, in order.
fn slots_of(spans: &[SlotSpan]) -> impl Iterator<Item = Slot> {
    spans.iter().flat_map(|span| span.slots()).map(Slot)
}

/// Merges pages of different partitions into one page, up to the earliest end of an incomplete
/// page.
fn merge_pages<const N: usize>(pages: [NamePage; N], rows_max: usize) -> NamePage {
    let ends = pages.iter().filter(|(_, more)| *more).filter_map(|(names, _)| names.last());
    let end = ends.min().cloned();
    let mut more = end.is_some();
    let mut names: Vec<Bytes> = pages.into_iter().flat_map(|(names, _)| names).collect();
    names.sort_unstable();
    names.dedup();
    if let Some(end) = end {
        names.retain(|name| *name <= end);
    }
    let mut bytes = 0;
    let fitting = names.iter().take_while(|name| {
        let fits = bytes < PAGE_BYTES_MAX;
        bytes += name.len();
        fits
    });
    let count = fitting.count().min(rows_max);
    if names.len() > count {
        names.truncate(count);
        more = true;
    }
    (names, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_list_page_stops_at_the_earliest_end_of_a_partial_page() {
        let page = |names: &str, more| {
            let names = names.bytes().map(|byte| Bytes::from(vec![byte])).collect();
            (names, more)
        };
        assert_eq!(merge_pages([], 3), page("", false));
        assert_eq!(merge_pages([page("ace", false), page("bd", false)], 9), page("abcde", false));
        assert_eq!(merge_pages([page("ace", true), page("bdf", false)], 9), page("abcde", true));
        assert_eq!(merge_pages([page("ac", true), page("bdf", false)], 9), page("abc", true));
        assert_eq!(merge_pages([page("ab", false), page("abc", false)], 2), page("ab", true));
        assert_eq!(merge_pages([page("", false), page("x", true)], 2), page("x", true));
        // Merging one by one equals merging all at once; and a page is bounded in bytes.
        let two = merge_pages([page("ace", true), page("bdf", false)], 9);
        assert_eq!(merge_pages([two, page("c", true)], 9), page("abc", true));
        let long = |byte: u8| Bytes::from(vec![byte; PAGE_BYTES_MAX]);
        let many = (vec![long(1), long(2)], false);
        assert_eq!(merge_pages([many, page("", false)], 9), (vec![long(1)], true));
    }
}
