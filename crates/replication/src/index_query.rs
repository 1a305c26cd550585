//! Queries of an index: one page of the records whose terms lie in a range.
//!
//! A page is read from one state: the entries and the records, and the record that says that the
//! index is ready. Entries that have expired or do not match the query's expression are passed
//! over, and are counted and bounded like the others: a page may end early, and hold no row.

use super::budget::Budget;
use super::counts::{BucketCount, count_key};
use super::group::Group;
use super::overlay::{Overlay, StoreSource};
use super::seals::BOOKKEEPING_BUCKET;
use crate::bucket::Bucket;
use base::error::corrupt;
use base::range::Direction;
use base::{BucketId, Error, Key, LogIndex, Reason, Result, Row, limits};
use bytes::Bytes;
use indexes::layout::EntryQuery;
use indexes::{IndexEntry, IndexField, Term, TermFilter, TermRange};
use replica_state::index_row::{EntryRow, entry_space};
use replica_state::layout::{self, Space};
use replica_state::replicated_index::{IndexPhase, ReplicatedIndex};
use std::ops::Bound;

/// Number of entries that a short page passes over at most, expired or not: it is read on the
/// thread that received the request.
const PASSED_MIN: usize = 1_000;

/// Position among the rows of an index: a term and a key.
pub type TermPosition = (Term, Key);

/// Content of each row of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchContent {
    /// Keys alone.
    Keys,
    /// Keys and terms.
    Terms,
    /// Keys, terms and records.
    Records,
}

/// Query for a page of a declared index or of a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermQuery {
    /// Field of the entries.
    pub field: IndexField,
    /// Terms of the records.
    pub terms: TermRange,
    /// Filter of these terms. `None`: all are asked for.
    pub filter: Option<TermFilter>,
    /// Position of the last row of the page before.
    pub after: Option<TermPosition>,
    /// Direction in which rows and pages follow each other.
    pub direction: Direction,
    /// Maximum number of rows. `None`: [`limits::PAGE_ROWS_DEFAULT`]. A page of 0 rows has no next
    /// one.
    pub rows_max: Option<usize>,
    /// Bytes of keys, terms and values at which the page ends, with one row at least. `None`:
    /// [`limits::PAGE_BYTES_MAX`].
    pub bytes_max: Option<usize>,
    /// Content of each row.
    pub content: MatchContent,
}

/// Row of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexMatch {
    /// Key of the record.
    pub key: Key,
    /// Term under which it was found. A record with several is found under each.
    pub term: Option<Term>,
    /// The record.
    pub row: Option<Row>,
}

/// Page of matches, in the order of (term, key).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TermPage {
    /// Rows of the page.
    pub rows: Vec<IndexMatch>,
    /// Position behind which the next page begins. `None`: this is the last one.
    pub next_after: Option<TermPosition>,
}

/// Progress of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexProgress {
    /// Phase of the index.
    pub phase: IndexPhase,
    /// Number of rows that were read for it.
    pub rows_done: u64,
    /// Number of rows of the bucket. `None`: the bucket keeps no complete count.
    pub rows_total: Option<u64>,
}

/// Answer to a query.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexAnswer {
    /// A page.
    Page(TermPage),
    /// The index can't answer in this phase.
    NotReady(IndexProgress),
    /// The bucket has no such index here.
    Absent,
}

/// Bounds of a page that is being read.
struct PageLimits {
    rows_max: usize,
    bytes_max: usize,
    /// Number of entries that are still passed over, expired or not.
    entries_left: usize,
}

impl TermQuery {
    fn limits(&self) -> PageLimits {
        let rows_max = self.rows_max.unwrap_or(limits::PAGE_ROWS_DEFAULT);
        let bytes_max = self.bytes_max.unwrap_or(limits::PAGE_BYTES_MAX);
        PageLimits {
            rows_max: rows_max.min(limits::PAGE_ROWS_MAX),
            bytes_max: bytes_max.min(limits::PAGE_BYTES_MAX),
            entries_left: rows_max.clamp(PASSED_MIN, limits::PAGE_ROWS_MAX),
        }
    }

    /// Returns true if the query asks for an entry in its range.
    fn selects(&self, entry: &IndexEntry) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.matches(&entry.term))
    }

    fn check(&self, record: &ReplicatedIndex) -> Result<()> {
        let value_type = record.definition.value_type;
        if self.terms.kind() == value_type.kind() {
            return Ok(());
        }
        let text = format!(
            "index `{}` holds terms of the type {}: query it by such",
            record.definition.name,
            value_type.name()
        );
        Err(Error::new(Reason::Malformed, text))
    }
}

impl Overlay<'_> {
    /// Answers a query. Of a tag, the caller has read the terms by the field's kind. Errors:
    /// `malformed` if its terms are not of a declared index's type; `too_large` if it exceeds the
    /// budget.
    pub fn query_index(&mut self, bucket: BucketId, query: &TermQuery) -> Result<IndexAnswer> {
        let mut is_unique = false;
        // Tags have their entries since the rows were written.
        if let IndexField::Declared(number) = query.field {
            let Some(record) = self.index_record(bucket, number)? else {
                return Ok(IndexAnswer::Absent);
            };
            if record.phase != IndexPhase::Ready {
                return Ok(IndexAnswer::NotReady(self.index_progress(bucket, &record)?));
            }
            query.check(&record)?;
            is_unique = record.definition.is_unique;
        }
        let mut limits = query.limits();
        let (found, next_after) = self.read_entries(bucket, is_unique, query, &mut limits)?;
        let mut page = TermPage { rows: Vec::new(), next_after };
        let mut bytes = 0;
        let mut last: Option<&EntryRow> = None;
        for found in &found {
            if let Some(last) = last.filter(|_| bytes >= limits.bytes_max) {
                page.next_after = Some((last.entry.term.clone(), last.key.clone()));
                break;
            }
            last = Some(found);
            let EntryRow { entry, key, .. } = found;
            let row = match query.content {
                MatchContent::Records => self.row(bucket, key)?,
                MatchContent::Keys | MatchContent::Terms => None,
            };
            let term = (query.content != MatchContent::Keys).then(|| entry.term.clone());
            bytes += key.len() + row.as_ref().map_or(0, |row| row.value.len());
            bytes += term.as_ref().map_or(0, |term| term.as_bytes().len());
            let row = row.map(|row| row.into_row(self.open.time));
            page.rows.push(IndexMatch { key: key.clone(), term, row });
        }
        self.budget.count_answer(bytes + page.rows.len() * limits::ROW_OVERHEAD_BYTES)?;
        Ok(IndexAnswer::Page(page))
    }

    /// Reads the entries of a page, without those that have expired or are filtered out, and the
    /// place behind which the next page begins.
    fn read_entries(
        &mut self,
        bucket: BucketId,
        is_unique: bool,
        query: &TermQuery,
        limits: &mut PageLimits,
    ) -> Result<(Vec<EntryRow>, Option<TermPosition>)> {
        let span = entry_space(is_unique).span(&EntryQuery {
            field: &query.field,
            terms: &query.terms,
            after: query.after.as_ref().map(|(term, key)| (term, &key[..])),
            direction: query.direction,
        });
        let tree_key = |name: &[u8]| {
            let mut key = Vec::new();
            layout::bucket_key(self.group, Space::Index, bucket, name, &mut key);
            Bytes::from(key)
        };
        let low = Bound::Included(tree_key(&span.low));
        let high = Bound::Excluded(tree_key(&span.high));
        let (now, mut saw_expired, mut bytes) = (self.open.time, false, 0);
        let (mut found, mut last, mut next_after) = (Vec::new(), None, None);
        self.walk(low, high, query.direction, |tree_key, row| {
            let EntryRow { entry, key, expires } =
                EntryRow::decode(is_unique, tree_key, row).map_err(corrupt)?;
            let is_full = found.len() >= limits.rows_max
                || (bytes >= limits.bytes_max && !found.is_empty())
                || limits.entries_left == 0;
            if is_full {
                next_after = last.take();
                return Ok(false);
            }
            limits.entries_left -= 1;
            last = Some((entry.term.clone(), key.clone()));
            if expires.is_some_and(|expires| expires <= now) {
                saw_expired = true;
                return Ok(true);
            }
            if !query.selects(&entry) {
                return Ok(true);
            }
            bytes += key.len() + entry.term.as_bytes().len();
            found.push(EntryRow { entry, key, expires });
            Ok(true)
        })?;
        self.saw_expired |= saw_expired;
        Ok((found, next_after))
    }

    /// Returns the progress of an index.
    fn index_progress(
        &mut self,
        bucket: BucketId,
        record: &ReplicatedIndex,
    ) -> Result<IndexProgress> {
        let count = self.row(BOOKKEEPING_BUCKET, &count_key(bucket))?;
        let count = count.map(|row| BucketCount::read(&row.value).map_err(corrupt)).transpose()?;
        let rows_total = count.filter(|count| count.is_complete).map(|count| count.keys);
        Ok(IndexProgress { phase: record.phase, rows_done: record.rows, rows_total })
    }
}

impl Group {
    /// Answers a query of an index from the applied rows at one moment. Returns the answer, and an
    /// index that is not behind anything read. The caller checks before and after that this node
    /// may answer. Errors: see [`Overlay::query_index`].
    pub fn query_index(
        &self,
        bucket: &Bucket,
        query: &TermQuery,
    ) -> (LogIndex, Result<IndexAnswer>) {
        // Before the rows are read, as for `read_steps`.
        let time = self.applied.time();
        let snapshot = self.shared.trees.snapshot();
        let index = self.applied.visible_index();
        let store = StoreSource::Snapshot(&*snapshot);
        let answer = self.with_unlocked_overlay(bucket, (time, store), |overlay| {
            overlay.budget = Budget::for_reads();
            overlay.query_index(bucket.id, query)
        });
        (index, answer)
    }
}
