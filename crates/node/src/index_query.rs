//! Queries of the declared indexes of consistent buckets.
//!
//! The directory says which number a name has, and whether the index is ready; the group answers by
//! this number from its own rows, and says in which phase they are. So a directory that is older
//! than the group's rows, or newer, refuses a query and never lets one miss a record.

use crate::feed_page::answer_feed;
use crate::index_keeper::{failure_cause, progress_of};
use base::index::{BuildProgress, IndexContent, IndexQuery, index_failed, no_such_index};
use base::reply::IndexRecord;
use base::{Body, BucketName, Error, IndexPage, IndexRow, Read, Reason, Reply, Result};
use indexes::{FieldQuery, IndexDefinition, KeyQuery};
use metadata::catalog::Catalog;
use replica_state::replicated_index::IndexPhase;
use replication::bucket::Bucket;
use replication::group::Group;
use replication::index_query::{IndexAnswer, IndexProgress, MatchContent, TermPage, TermQuery};
use replication::read::{self, BYTES_AT_ONCE};

/// Bucket of a query: its name, and the bucket as this node's directory has it.
#[derive(Clone, Copy)]
pub(crate) struct NamedBucket<'a> {
    pub name: &'a BucketName,
    pub bucket: &'a Bucket,
}

/// Answers a read from a group's applied rows. Slow: belongs on a thread that may block.
pub(crate) fn read_rows(
    catalog: &Catalog,
    group: &Group,
    of: NamedBucket<'_>,
    read: &Read,
) -> Result<Reply> {
    match read {
        Read::Index(query) => answer_query(catalog, group, of, (query, None)),
        Read::Feed(query) => answer_feed(group, (of.name, of.bucket), query),
        read => read::read(group, of.bucket, read),
    }
}

/// Reads like [`read_rows`], but at once. `None`: the read takes so long that it belongs on a
/// thread that may block.
pub(crate) fn read_rows_at_once(
    catalog: &Catalog,
    group: &Group,
    of: NamedBucket<'_>,
    read: &Read,
) -> Option<Result<Reply>> {
    match read {
        Read::Feed(_) => None,
        // Records may be large, and lie anywhere on the disk.
        Read::Index(query) if read::is_long(read) || query.want == IndexContent::Records => None,
        Read::Index(query) => Some(answer_query(catalog, group, of, (query, Some(BYTES_AT_ONCE)))),
        read => read::read_at_once(group, of.bucket, read),
    }
}

/// Answers a query. `bytes_max`: bytes at which the page ends. Errors: `no_such_index`,
/// `index_building`, `index_failed`; `not_supported` for what these buckets do not offer; those of
/// [`FieldQuery::new`].
fn answer_query(
    catalog: &Catalog,
    group: &Group,
    of: NamedBucket<'_>,
    (query, bytes_max): (&IndexQuery, Option<usize>),
) -> Result<Reply> {
    check_offered(query)?;
    let index = String::from_utf8_lossy(&query.index);
    let definition = catalog.indexes.ready(of.name, &index)?;
    let kind = definition.value_type.kind();
    let field = FieldQuery::new(of.name, definition.field(), kind, query)?;
    let asked = TermQuery {
        number: definition.number,
        terms: field.terms.clone(),
        after: field.after.clone(),
        direction: field.direction,
        rows_max: query.rows_max,
        bytes_max,
        content: match query.want {
            IndexContent::Keys => MatchContent::Keys,
            IndexContent::Terms => MatchContent::Terms,
            IndexContent::Records => MatchContent::Records,
        },
    };
    let (log_index, answer) = group.query_index(of.bucket, &asked);
    match answer? {
        IndexAnswer::Page(page) => {
            let page = to_page(page, &field);
            Ok(Reply::new(log_index, Body::IndexPage(Box::new(page))))
        }
        IndexAnswer::NotReady(progress) => Err(refusal(group, of, &definition, progress)),
        // The bucket was cleared or moved, and its group has not begun the index.
        IndexAnswer::Absent => Err(BuildProgress::default().error(of.name, &index)),
    }
}

/// Refuses a query that the index of a consistent bucket can't answer.
fn check_offered(query: &IndexQuery) -> Result<()> {
    if KeyQuery::is_about(&query.index) {
        let text = "a consistent bucket keeps no index of its keys: read a range of keys instead";
        return Err(Error::new(Reason::NotSupported, text));
    }
    if query.regex.is_some() {
        let text = "a query of a consistent bucket takes no regular expression: ask for a prefix \
                    or a range of terms, and filter the page";
        return Err(Error::new(Reason::NotSupported, text));
    }
    if query.r.is_some() || query.allows_partial || query.timeout_ms.is_some() {
        let text = "a query of a consistent bucket takes no number of replicas, no timeout and no \
                    leave for a partial answer, because one replica answers for all rows: leave \
                    them out";
        return Err(Error::new(Reason::NotSupported, text));
    }
    Ok(())
}

/// Returns the refusal of a query of an index that is not ready in its group.
fn refusal(
    group: &Group,
    of: NamedBucket<'_>,
    definition: &IndexDefinition,
    progress: IndexProgress,
) -> Error {
    let index = definition.name.as_str();
    match progress.phase {
        IndexPhase::Failed => {
            let records = group.indexes.of(of.bucket.id);
            let record = records.iter().find(|one| one.definition.number == definition.number);
            let cause = record.map(|record| failure_cause(record)).unwrap_or_default();
            index_failed(of.name, index, &cause)
        }
        IndexPhase::Dropping => no_such_index(of.name, index),
        IndexPhase::Building | IndexPhase::Ready => {
            progress_of(progress.rows_done, progress.rows_total).error(of.name, index)
        }
    }
}

/// Converts a page of a group into one for a client.
fn to_page(page: TermPage, query: &FieldQuery) -> IndexPage {
    let rows = page.rows.into_iter().map(|found| IndexRow {
        key: found.key,
        term: found.term.map(|term| term.text()),
        record: found.row.map(IndexRecord::Row),
    });
    let after = page.next_after.map(|(term, key)| query.continuation(term, key).encode().into());
    IndexPage { rows: rows.collect(), after, is_partial: false }
}
