//! Queries of the indexes and feeds of available buckets, which the vnodes answer. The name of an
//! index is that of a declared one or of a tag's field, or stands for the keys of the bucket.
//!
//! The directory says which number the name of a declared index has, and whether the index was
//! complete at enough nodes. From then on, and always for tags, each node answers for itself: one
//! that has not built the index refuses, and the coordinator asks others.

use crate::answers::read_answer_bytes_max;
use crate::route::Router;
use base::limits::FEED_PAGE_BYTES_MAX;
use base::{
    BucketName, Call, IndexQuery, IndexRow, Properties, Read, ReadLevel, Reply, Request, Result,
};
use bytes::Bytes;
use dynamo::{FeedRead, IndexRead, KeyIndexRead};
use indexes::{DefinitionSet, FieldQuery, IndexField, KeyQuery, Term, TermFilter, TermKind};
use runtime::submit::SubmitResult;
use std::sync::Arc;

/// Query of an index, and its bucket.
struct QueryRequest {
    bucket: BucketName,
    properties: Arc<Properties>,
    query: IndexQuery,
    level: ReadLevel,
}

impl Router {
    /// Answers a request of an available bucket.
    pub(crate) fn submit_available(
        self: &Arc<Router>,
        request: Request,
        properties: Arc<Properties>,
    ) -> SubmitResult {
        match request {
            Request { bucket, call: Call::Read(Read::Index(query), level), retry: None } => {
                let asked = QueryRequest { bucket, properties, query: *query, level };
                SubmitResult::Later(Box::pin(self.clone().answer_query(asked)))
            }
            Request { bucket, call: Call::Read(Read::Feed(query), level), retry: None } => {
                let read = FeedRead { bucket, properties, query: *query, level };
                SubmitResult::Later(Box::pin(self.clone().answer_available_feed(read)))
            }
            request => self.available.submit(request, properties),
        }
    }

    async fn answer_available_feed(self: Arc<Router>, read: FeedRead) -> Result<Reply> {
        read.query.check()?;
        // Released when the caller has the answer.
        let _permit = self.answers.reserve(FEED_PAGE_BYTES_MAX).await?;
        self.available.read_feed(read).await.map_err(|error| self.or_stale_directory(error))
    }

    async fn answer_query(self: Arc<Router>, asked: QueryRequest) -> Result<Reply> {
        let read = Read::Index(Box::new(asked.query.clone()));
        base::check::read(&read, &asked.properties)?;
        let read_bytes_max = read_answer_bytes_max(&read);
        if KeyQuery::is_about(&asked.query.index) {
            let key_read = key_read(asked)?;
            let _permit = self.answers.reserve(read_bytes_max).await?;
            return self.available.read_key_index(key_read).await;
        }
        let index_read = self.index_read(asked).map_err(|error| self.or_stale_directory(error))?;
        // Released when the caller has the answer.
        let _permit = self.answers.reserve(read_bytes_max).await?;
        self.available.read_index(index_read).await
    }

    /// Reads a query by what the directory says of the index. Errors: `no_such_index`,
    /// `index_building`; those of [`FieldQuery::new`].
    fn index_read(&self, asked: QueryRequest) -> Result<IndexRead> {
        let QueryRequest { bucket, properties, query, level } = asked;
        let mut definitions = DefinitionSet::default();
        let (field, kind, definition) =
            self.locator.catalog.indexes.field(&bucket, &query.index)?;
        definition.into_iter().try_for_each(|definition| definitions.insert(definition))?;
        let field = FieldQuery::new(&bucket, field, kind, &query)?;
        Ok(IndexRead { bucket, properties, definitions, field, query, level })
    }
}

/// Reads a query of the keys of a bucket. Errors: those of [`KeyQuery::new`].
fn key_read(asked: QueryRequest) -> Result<KeyIndexRead> {
    let QueryRequest { bucket, query, level, .. } = asked;
    let IndexQuery { rows_max, r, timeout_ms, .. } = query;
    let query = KeyQuery::new(&bucket, &query)?;
    Ok(KeyIndexRead { bucket, query, rows_max, r, level, timeout_ms })
}

/// Returns the continuation behind a row of a query of a tag or of keys, for protocols in which a
/// full page has one though no row follows yet. `row` has its term, if the query is of a tag.
/// Errors: those of [`FieldQuery::new`] and [`KeyQuery::new`].
pub fn continuation_behind(
    bucket: &BucketName,
    query: &IndexQuery,
    row: &IndexRow,
) -> Result<Bytes> {
    let key = row.key.clone();
    if KeyQuery::is_about(&query.index) {
        return Ok(KeyQuery::new(bucket, query)?.continuation(key)?.encode().into());
    }
    let (field, kind) = IndexField::tag_and_kind(&query.index)?;
    let term = Term::parse(kind, row.term.as_deref().unwrap_or_default())?;
    Ok(FieldQuery::new(bucket, field, kind, query)?.continuation(term, key).encode().into())
}

/// Refuses a regular expression that no query of a tag takes. Errors: those of [`TermFilter::new`].
pub fn check_tag_filter(expression: &str) -> Result<()> {
    TermFilter::new(TermKind::TagBytes, expression).map(|_| ())
}
