//! Reads of the indexes `$key` and `$bucket`: a page of a bucket's keys in order.
//!
//! The keys are those of a list (`list.rs`), of one replica of each partition. The continuation has
//! the last key and neither node nor epoch, so a key that every owner has throughout is shown
//! exactly once, whichever nodes are lost and however the ring changes between the pages.

use crate::Available;
use base::limits::{PAGE_BYTES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use base::{BucketName, Error, IndexPage, Key, Quorum, ReadLevel, Reason, Reply, Result};
use indexes::KeyQuery;
use std::sync::Arc;

/// Query of the keys of an available bucket.
#[derive(Clone, Debug)]
pub struct KeyIndexRead {
    /// The bucket.
    pub bucket: BucketName,
    /// Keys and place that the query asks for.
    pub query: KeyQuery,
    /// Most rows. `None`: [`PAGE_ROWS_DEFAULT`].
    pub rows_max: Option<usize>,
    /// Number of replicas of each partition that the client asked for.
    pub r: Option<Quorum>,
    /// Level of the read.
    pub level: ReadLevel,
    /// Timeout in milliseconds.
    pub timeout_ms: Option<u64>,
}

impl KeyIndexRead {
    /// Refuses a read of several replicas, and one of a log index.
    fn check(&self) -> Result<()> {
        let text = if !matches!(self.r, None | Some(Quorum::One | Quorum::Number(0 | 1))) {
            "a query of `$key` or `$bucket` asks one replica of each key: leave out `r`"
        } else if matches!(self.level, ReadLevel::AtLeast(_)) {
            "an available bucket has no log index to read at: leave out the read level"
        } else {
            return Ok(());
        };
        Err(Error::new(Reason::NotSupported, text))
    }

    fn page_rows(&self) -> usize {
        match self.query.is_of_one_key() {
            true => 1,
            false => self.rows_max.unwrap_or(PAGE_ROWS_DEFAULT).clamp(1, PAGE_ROWS_MAX),
        }
    }
}

impl Available {
    /// Answers a query of the keys of a bucket. Errors: `read_quorum_unmet` if no replica of a
    /// partition is reached; `no_quorum` at the end of the query's time; `not_supported`.
    pub async fn read_key_index(self: &Arc<Available>, read: KeyIndexRead) -> Result<Reply> {
        read.check()?;
        self.page_within(read.timeout_ms, self.read_key_page(&read)).await
    }

    async fn read_key_page(self: &Arc<Available>, read: &KeyIndexRead) -> Result<IndexPage> {
        let mut names = self.stream_keys(&read.bucket, read.query.start())?;
        let (rows_max, mut page, mut bytes) = (read.page_rows(), IndexPage::default(), 0);
        loop {
            let (keys, has_more) = names.next_page(rows_max - page.rows.len()).await?;
            let last = keys.last().cloned();
            let selected = keys.into_iter().filter(|key| read.query.selects(key));
            page.rows.extend(selected.map(|key| {
                bytes += key.len();
                read.query.row(key)
            }));
            let is_next = |last: &Key| has_more && !read.query.ends_at(last);
            let Some(last) = last.filter(is_next) else { return Ok(page) };
            if page.rows.len() >= rows_max || bytes >= PAGE_BYTES_MAX {
                page.after = Some(read.query.continuation(last)?.encode().into());
                return Ok(page);
            }
        }
    }
}
