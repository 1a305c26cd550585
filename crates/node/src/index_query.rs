//! Queries of the indexes of consistent buckets: declared ones, tags, and the keys.
//!
//! Of a declared index, the directory says which number a name has, and whether the index is
//! ready; the group answers by this number from its own rows, and says in which phase they are. So
//! a directory that is older than the group's rows, or newer, refuses a query and never lets one
//! miss a record.

use crate::index_keeper::{failure_cause, progress_of};
use base::codec::Malformed;
use base::error::corrupt;
use base::index::{BuildProgress, IndexContent, IndexQuery, index_failed, no_such_index};
use base::reply::IndexRecord;
use base::{Body, BucketName, Error, IndexPage, IndexRow, Range, Read, Reason, Reply, Result};
use indexes::{FieldQuery, IndexDefinition, IndexField, KeyQuery};
use metadata::catalog::Catalog;
use replica_host::feed_page::answer_feed;
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
    if KeyQuery::is_about(&query.index) {
        return answer_keys(group, of, (query, bytes_max));
    }
    let (field, kind, definition) = catalog.indexes.field(of.name, &query.index)?;
    let field = FieldQuery::new(of.name, field, kind, query)?;
    let asked = TermQuery {
        field: field.field.clone(),
        terms: field.terms.clone(),
        filter: field.filter.clone(),
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
    match (answer?, definition) {
        (IndexAnswer::Page(page), _) => {
            let page = to_page(page, &field);
            Ok(Reply::new(log_index, Body::IndexPage(Box::new(page))))
        }
        (IndexAnswer::NotReady(progress), Some(definition)) => {
            Err(refusal(group, of, &definition, progress))
        }
        // The bucket was cleared or moved, and its group has not begun the index.
        (IndexAnswer::Absent | IndexAnswer::NotReady(_), _) => {
            let index = String::from_utf8_lossy(&query.index);
            Err(BuildProgress::default().error(of.name, &index))
        }
    }
}

/// Answers a query of the keys of a bucket, which its rows tell. Errors: those of
/// [`KeyQuery::new`].
fn answer_keys(
    group: &Group,
    of: NamedBucket<'_>,
    (query, bytes_max): (&IndexQuery, Option<usize>),
) -> Result<Reply> {
    let keys = KeyQuery::new(of.name, query)?;
    let range = Range { rows_max: query.rows_max, bytes_max, ..keys.range() };
    let Reply { index, body, .. } = read::read(group, of.bucket, &Read::Range(range))?;
    let Body::Page(page) = body else { return Err(corrupt(Malformed("a page of keys"))) };
    Ok(Reply::new(index, Body::IndexPage(Box::new(keys.page(page)?))))
}

/// Refuses a query that a consistent bucket can't answer. A time limit of a query of tags or keys
/// is that of a client of Riak, whose front-end keeps it: a page is answered at once.
fn check_offered(query: &IndexQuery) -> Result<()> {
    let is_of_riak = KeyQuery::is_about(&query.index) || IndexField::tag(&query.index).is_ok();
    let has_timeout = query.timeout_ms.is_some() && !is_of_riak;
    if query.r.is_some() || query.allows_partial || has_timeout {
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
