//! Index reads: a page of an index of an available bucket, from R replicas of each partition.
//!
//! Each node derives entries from its own rows, so replicas differ in their entries where they
//! differ in their rows. An entry that R replicas have alike is shown as it is. The key of any
//! other is read as a whole, from at least as many replicas as the bucket requires and as many
//! owners as answered for the entry. Its entries are derived from what that read returns: an
//! outdated entry is left out, one that a replica lacks is shown, and read repair follows.
//!
//! Promises: with R + W > N no acknowledged write is missed; the pages of a query show each term of
//! a key that nobody changes exactly once, whichever nodes are lost and however the ring changes
//! between them; a page ends, though no entry of it be shown, after [`WALKED_MAX`] entries.
//! Never: answers for a partition of which fewer than R replicas can answer, unless the query
//! allows it; changes an entry.

use super::coverage_plans::CoverageNeeds;
use super::coverage_read::CoverageRead;
use super::index_coverage::IndexEntries;
use super::key_request::{KeyRequest, excessive, request_timeout, unsupported};
use super::vnode_ops::WritePolicy;
use crate::Available;
use base::error::corrupt;
use base::index::IndexContent;
use base::limits::{PAGE_BYTES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use base::reply::IndexRecord;
use base::{
    Body, BucketName, Error, FetchOptions, IndexPage, IndexQuery, IndexRow, Key, LogIndex,
    Properties, Quorum, ReadLevel, Reason, Reply, Result, Share,
};
use bytes::Bytes;
use indexes::{DefinitionSet, FieldQuery, IndexEntry, IndexField, Term};
use logic::coverage::MergedRow;
use logic::quorum::QuorumError;
use runtime::join_set::JoinSet;
use runtime::mutants::Mutant;
use runtime::world;
use std::collections::BTreeMap;
use std::sync::Arc;
use vnode_rows::index_rows::{EntryPosition, IndexContent as PageContent, RowDeriver};
use vnode_rows::layout::{Row, read_row};
use vnode_rows::slots::Slot;

/// Maximum number of entries that are taken from the replicas for a page.
const WALKED_MAX: usize = 2 * PAGE_ROWS_MAX;
/// Maximum number of entries that are verified together, and of bytes of their rows; one row may
/// exceed the latter.
const BATCH_ROWS_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 1 << 20;
/// Maximum number of keys that are read at a time.
const FETCHES_MAX: usize = 16;

/// Query of an index of an available bucket, with what the directory says of the index.
#[derive(Clone, Debug)]
pub struct IndexRead {
    /// The bucket.
    pub bucket: BucketName,
    /// Properties of the bucket.
    pub properties: Arc<Properties>,
    /// Definition of the index alone. Empty: the field is a tag.
    pub definitions: DefinitionSet,
    /// Field, terms and place that the query asks for.
    pub field: FieldQuery,
    /// The query, as a client wrote it.
    pub query: IndexQuery,
    /// Level of the read: `Dirty` asks one replica of each partition.
    pub level: ReadLevel,
}

/// Entry as the replicas have it.
type ReplicaEntry = MergedRow<EntryPosition, Option<Bytes>>;

impl IndexRead {
    /// Returns the number of replicas of each partition that answer. Errors: `malformed` if a
    /// bucket has fewer copies.
    fn replicas(&self) -> Result<u8> {
        let quorum = match self.level {
            ReadLevel::Consistent => Quorum::Quorum,
            ReadLevel::Dirty => Quorum::One,
            ReadLevel::AtLeast(_) => {
                let what = "read level at_least is not supported, because there is no log index";
                return Err(unsupported(what));
            }
        };
        let n = self.properties.replication.n_val;
        match self.query.r.unwrap_or(quorum).size_for(n).max(1) {
            replicas if replicas > n => Err(excessive(QuorumError { shares: vec![Share::R], n })),
            replicas => Ok(replicas),
        }
    }

    /// Returns the entries to ask nodes for.
    fn entries(&self) -> IndexEntries {
        IndexEntries {
            bucket: self.bucket.clone(),
            field: self.field.field.clone(),
            terms: self.field.terms.clone(),
            direction: self.field.direction,
            content: match self.query.want {
                IndexContent::Keys | IndexContent::Terms => PageContent::Entries,
                IndexContent::Records => PageContent::Records,
            },
            allows_partial: self.query.allows_partial,
        }
    }

    /// Returns true if the key of an entry must be read before the entry is shown.
    fn must_fetch(&self, entry: &ReplicaEntry) -> bool {
        // A node leaves out a record that is too large for a page.
        let lacks_record = self.query.want == IndexContent::Records && entry.value.is_none();
        lacks_record || !(entry.is_agreed || Mutant::ShowUnverifiedEntries.is_active())
    }

    /// Returns the key of an entry, and the number of owners that answered for it.
    fn key_and_owners(
        &self,
        entry: &ReplicaEntry,
        walk: &CoverageRead<IndexEntries>,
    ) -> (Key, usize) {
        let key = entry.position.1.clone();
        let owners = walk.owners_of(Slot::for_key(&self.bucket, &key));
        (key, owners)
    }

    /// Returns true if a row has an entry with this term.
    fn has_entry(&self, row: &Row, term: &Term) -> bool {
        let field = self.field.field.clone();
        let has_tags = matches!(field, IndexField::Tag(_));
        let deriver = RowDeriver { definitions: &self.definitions, has_tags };
        let entry = IndexEntry { field, term: term.clone() };
        let found = deriver.entries_of(row);
        found
            .get(&entry)
            .is_some_and(|expires_ms| expires_ms.is_none_or(|at| at > world::unix_ms()))
    }
}

impl Available {
    /// Answers a query of an index. Errors: `read_quorum_unmet` names the partitions of which too
    /// few replicas are reached; `index_building` if too few of them have built the index;
    /// `no_quorum` at the end of the query's time.
    pub async fn read_index(self: &Arc<Available>, read: IndexRead) -> Result<Reply> {
        let read = Arc::new(read);
        self.page_within(read.query.timeout_ms, self.read_index_page(&read)).await
    }

    /// Answers a query with a page, which is read once the node is warm. Errors: `no_quorum` at the
    /// end of the query's time; those of the page.
    pub(super) async fn page_within(
        self: &Arc<Available>,
        timeout_ms: Option<u64>,
        page: impl Future<Output = Result<IndexPage>>,
    ) -> Result<Reply> {
        let within = request_timeout(timeout_ms);
        let page = async {
            self.wait_until_warm(within.as_millis() as u64).await;
            page.await
        };
        match world::timeout(within, page).await {
            Some(page) => Ok(Reply::new(LogIndex(0), Body::IndexPage(Box::new(page?)))),
            None => {
                let text = "the query was not answered within its time: ask for fewer rows, or \
                            give it a longer timeout";
                Err(Error::new(Reason::NoQuorum, text))
            }
        }
    }

    async fn read_index_page(self: &Arc<Available>, read: &Arc<IndexRead>) -> Result<IndexPage> {
        let rows_max = read.query.rows_max.unwrap_or(PAGE_ROWS_DEFAULT).clamp(1, PAGE_ROWS_MAX);
        let (replicas, copies) = (read.replicas()?, read.properties.replication.n_val.into());
        // A fallback has only what its owner missed: alone, it would pass for a whole copy.
        let use_fallbacks = replicas > 1;
        let needs = CoverageNeeds { copies, replicas: replicas.into(), use_fallbacks };
        let mut walk = CoverageRead::plan(self, read.entries(), needs, read.field.after.clone())?;
        let (mut page, mut bytes, mut walked) = (IndexPage::default(), 0, 0);
        while page.rows.len() < rows_max && bytes < PAGE_BYTES_MAX && walked < WALKED_MAX {
            let left = rows_max - page.rows.len();
            let entries = next_entries(&mut walk, &read.field, left, &mut walked).await?;
            if entries.is_empty() {
                break;
            }
            let unsure = entries.iter().filter(|entry| read.must_fetch(entry));
            let unsure = unsure.map(|entry| read.key_and_owners(entry, &walk)).collect();
            let fetched = self.fetch_indexed(read, replicas, unsure).await?;
            bytes += self.push_verified(read, entries, &fetched, &mut page)?;
        }
        page.is_partial |= walk.is_partial();
        let position = walk.position().filter(|_| walk.has_more()).cloned();
        page.after = position.map(|(term, key)| read.field.continuation(term, key).encode().into());
        Ok(page)
    }

    /// Appends the rows of these entries to a page, without those that the read of a key takes
    /// away. The page is partial if a key could not be read. Returns the bytes of the rows.
    fn push_verified(
        self: &Arc<Available>,
        read: &IndexRead,
        entries: Vec<ReplicaEntry>,
        fetched: &BTreeMap<Key, Row>,
        page: &mut IndexPage,
    ) -> Result<usize> {
        let mut bytes = 0;
        for entry in entries {
            let known = fetched.get(&entry.position.1);
            if known.is_none() && read.must_fetch(&entry) {
                page.is_partial = true;
                continue;
            }
            if let Some(row) = self.index_row(read, entry, known)? {
                bytes += row_bytes(&row);
                page.rows.push(row);
            }
        }
        Ok(bytes)
    }

    /// Reads keys on which replicas differ, from at least this many of them and as many owners as
    /// stand beside each key. One that can't be read is left out if the query allows it.
    async fn fetch_indexed(
        self: &Arc<Available>,
        read: &Arc<IndexRead>,
        replicas: u8,
        keys: BTreeMap<Key, usize>,
    ) -> Result<BTreeMap<Key, Row>> {
        let replication = &read.properties.replication;
        // With fewer than were asked for entries, a row that one of those has could be missed.
        let r = Some(Quorum::Number(replication.r.size_for(replication.n_val).max(replicas)));
        let (pr, timeout_ms) = (replication.pr.size_for(replication.n_val), read.query.timeout_ms);
        let (mut keys, mut fetched) = (keys.into_iter(), BTreeMap::new());
        let (mut tasks, mut waiting) = (JoinSet::new(), 0);
        loop {
            for (key, owners) in keys.by_ref().take(FETCHES_MAX - waiting) {
                // A fallback of an owner that answered for entries, and is down by now, may have
                // nothing: the read would know less than the entries.
                let pr = pr.max(owners.min(replication.n_val.into()) as u8);
                let pr = Some(Quorum::Number(pr));
                let options = FetchOptions { r, pr, timeout_ms, ..Default::default() };
                tasks.push(self.clone().fetch_one(read.clone(), key, options));
                waiting += 1;
            }
            if waiting == 0 {
                return Ok(fetched);
            }
            let (key, row) = tasks.next().await;
            waiting -= 1;
            match row {
                Ok(row) => drop(fetched.insert(key, row.unwrap_or_default())),
                Err(error)
                    if read.query.allows_partial && error.reason == Reason::ReadQuorumUnmet => {}
                Err(error) => return Err(error),
            }
        }
    }

    async fn fetch_one(
        self: Arc<Available>,
        read: Arc<IndexRead>,
        key: Key,
        options: FetchOptions,
    ) -> (Key, Result<Option<Row>>) {
        let IndexRead { bucket, properties, .. } = &*read;
        let request = KeyRequest { available: &self, bucket, properties };
        let row = request.fetch(&key, &options).await;
        (key, row)
    }

    /// Returns the row of an entry for the client. `fetched`: its key, if it was read. `None`: the
    /// key has no such entry any more.
    fn index_row(
        self: &Arc<Available>,
        read: &IndexRead,
        entry: ReplicaEntry,
        fetched: Option<&Row>,
    ) -> Result<Option<IndexRow>> {
        let IndexRead { bucket, properties, query, .. } = read;
        let (term, key) = entry.position;
        let agreed = match (fetched, entry.value) {
            (None, Some(bytes)) => {
                let policy = WritePolicy::from_properties(properties);
                Some(policy.resolve(read_row(&bytes).map_err(corrupt)?))
            }
            _ => None,
        };
        let row = fetched.or(agreed.as_ref());
        if row.is_some_and(|row| !read.has_entry(row, &term)) {
            return Ok(None);
        }
        let request = KeyRequest { available: self, bucket, properties };
        let record = row.filter(|_| query.want == IndexContent::Records);
        let record = record.map(|row| request.siblings(&key, row)).transpose()?;
        let term = (query.want != IndexContent::Keys).then(|| term.text());
        Ok(Some(IndexRow { key, term, record: record.map(IndexRecord::Siblings) }))
    }
}

/// Takes the next entries that the query asks for, of up to this many that the caller wants. Adds
/// the number of all that it passed to `walked`.
async fn next_entries(
    walk: &mut CoverageRead<IndexEntries>,
    field: &FieldQuery,
    rows_max: usize,
    walked: &mut usize,
) -> Result<Vec<ReplicaEntry>> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    while entries.len() < rows_max.min(BATCH_ROWS_MAX)
        && bytes < BATCH_BYTES_MAX
        && *walked < WALKED_MAX
    {
        // A filter may leave out most of a page.
        let page_rows = match field.filter {
            None => rows_max - entries.len(),
            Some(_) => BATCH_ROWS_MAX,
        };
        let Some(entry) = walk.next(page_rows).await? else { break };
        *walked += 1;
        if field.selects(&entry.position.0) {
            bytes += entry.value.as_ref().map_or(0, Bytes::len);
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Returns about how many bytes a row takes in an answer.
fn row_bytes(row: &IndexRow) -> usize {
    let values = match &row.record {
        Some(IndexRecord::Siblings(siblings)) => {
            siblings.values.iter().map(|it| it.content.value.len()).sum()
        }
        Some(IndexRecord::Row(row)) => row.value.len(),
        None => 0,
    };
    row.key.len() + row.term.as_ref().map_or(0, Bytes::len) + values
}
