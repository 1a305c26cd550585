//! Copy of a moving bucket's feed: its entries as they are, from the last copied position on.
//!
//! Entries of changes are added at the end alone, so each is read once. The keeper of feeds leaves
//! a moving bucket alone. A copy starts again if entries were removed all the same: without the
//! delete behind it, a copied put would say that its key is still there. So it does if entries of
//! older records were added: these stand before those that were copied.

use super::Mover;
use crate::message::Item;
use base::{Error, Reason, Result};
use bytes::Bytes;
use change_feed::{FeedRecord, SentEntry, SentFeed};
use replica_state::feed::{feed_prefix, read_feed_key, sent_feed};
use replication::group::Group;
use runtime::log_writer::store_error;
use std::sync::Arc;
use store::Chunk;

/// Copier of a feed.
pub(super) struct FeedCopier {
    group: Arc<Group>,
    /// The feed as of the move's begin. `None`: there is nothing to copy.
    begun: Option<SentFeed>,
    prefix: Bytes,
    /// Tree key of the last copied entry.
    after: Option<Bytes>,
    part_bytes: usize,
}

impl FeedCopier {
    /// Reads the next part. Blocks. `None`: all present entries were read.
    fn next_part(&mut self) -> Result<Option<Vec<Item>>> {
        if self.begun.is_none() {
            return Ok(None);
        }
        let snapshot = self.group.shared.trees.snapshot();
        let chunk = Chunk::read(&*snapshot, &self.prefix, self.after.as_ref(), self.part_bytes);
        let chunk = chunk.map_err(store_error)?;
        let Some((last, _)) = chunk.rows.last() else { return Ok(None) };
        self.after = Some(last.clone());
        let item = |(key, entry): (Bytes, Bytes)| {
            Ok(Item::FeedEntry(SentEntry { position: read_feed_key(&key)?, entry }))
        };
        chunk.rows.into_iter().map(item).collect::<Result<_>>().map(Some)
    }
}

impl Mover {
    /// Returns the copier of the bucket's feed as it is now.
    pub(super) async fn feed_copier(&self) -> Result<FeedCopier> {
        let begun = self.read_sent_feed().await?.map(|(begun, _)| begun);
        let prefix = feed_prefix(self.source.id, self.bucket.id);
        let part_bytes = self.moves.settings.part_bytes;
        Ok(FeedCopier { group: self.source.clone(), begun, prefix, after: None, part_bytes })
    }

    /// Returns the bucket's feed for the target, and the time up to which it has entries.
    pub(super) async fn read_sent_feed(&self) -> Result<Option<(SentFeed, u64)>> {
        let (source, bucket) = (self.source.clone(), self.bucket.id);
        self.run_on_thread(move || sent_feed(&*source.shared.trees.snapshot(), (source.id, bucket)))
            .await
    }

    /// Copies the entries that were added since the last call.
    pub(super) async fn copy_feed(&mut self, mut feed: FeedCopier) -> Result<FeedCopier> {
        loop {
            let read = move || feed.next_part().map(|part| (feed, part));
            let (copier, part) = self.run_on_thread(read).await?;
            feed = copier;
            let Some(items) = part else { return Ok(feed) };
            self.send(items).await?;
        }
    }

    /// Checks that the copied entries are those of the feed. Errors: `Changed`, so that the copy
    /// starts again.
    pub(super) async fn check_feed(&self, feed: &FeedCopier) -> Result<()> {
        // What has ended ends at the target, too.
        let Some((present, _)) = self.read_sent_feed().await? else { return Ok(()) };
        let is_copied = feed.begun.as_ref().is_some_and(|begun| {
            let place =
                |sent: &SentFeed| (sent.record.making, sent.record.rows, sent.retention.removed);
            place(begun) == place(&present)
        });
        if is_copied {
            return Ok(());
        }
        let text = "the feed of the bucket was begun, built or trimmed during the copy";
        Err(Error::new(Reason::Changed, text))
    }
}

impl FeedCopier {
    /// Returns the record with which the target begins to receive the feed.
    pub(super) fn record(&self) -> Option<FeedRecord> {
        self.begun.as_ref().map(|sent| sent.record.clone())
    }
}
