//! Feed of a bucket that moves to another group: the target has its record before the first row
//! arrives, takes its entries as they are, and adds changes in the next era.
//!
//! Rows that arrive have their entries at the source. What expires here meanwhile has none there,
//! so deletes are added; they count only for keys without a row in the end.

use crate::overlay::Overlay;
use base::error::corrupt;
use base::{BucketId, Error, Reason, Result};
use change_feed::{FeedChange, FeedEntry, FeedPhase, FeedRecord, SentEntry, SentFeed};
use replica_state::feed::{feed_key, read_totals, retention_key, totals_key};

impl Overlay<'_> {
    /// Begins to receive the feed of a bucket whose rows another group is about to send.
    pub fn receive_feed(&mut self, bucket: BucketId, sent: &FeedRecord) -> Result<()> {
        let Some(era) = SentFeed::received_era(sent) else { return Ok(()) };
        let received = FeedRecord { phase: FeedPhase::Receiving, era, cursor: None, ..*sent };
        self.put_feed_record(bucket, &received)
    }

    /// Takes an entry of the other group. `to_local`: converts a time of that group into one of
    /// this group.
    pub fn receive_feed_entry(
        &mut self,
        bucket: BucketId,
        sent: &SentEntry,
        to_local: impl Fn(u64) -> u64,
    ) -> Result<()> {
        let mut entry = FeedEntry::decode(&sent.entry).map_err(corrupt)?;
        entry.time = to_local(entry.time);
        if let FeedChange::PutValue { expires: Some(expires), .. } = &mut entry.change {
            *expires = to_local(*expires);
        }
        let key = feed_key(self.group, bucket, sent.position);
        self.open.put_raw(&key, &entry.encode());
        Ok(())
    }

    /// Completes the feed of a bucket all of whose rows and entries have arrived. `sent`: the feed
    /// of the other group as of its last row. `None`: it has ended there, and ends here. Errors:
    /// `Changed` if one was begun there after [`Self::receive_feed`]: what expired here meanwhile
    /// was not added.
    pub fn complete_feed(&mut self, bucket: BucketId, sent: Option<&SentFeed>) -> Result<()> {
        let own = self.feed_record(bucket)?;
        let is_same = |own: &FeedRecord| sent.is_some_and(|sent| sent.record.making == own.making);
        match (own, sent) {
            (None, None) => Ok(()),
            (Some(own), Some(sent)) if is_same(&own) => {
                let totals = self.meta_row(&totals_key(self.group, bucket))?;
                let totals = read_totals(totals.as_ref())?;
                let retention = sent.received_retention(totals);
                let key = retention_key(self.group, bucket);
                self.open.put_raw(&key, &retention.encode());
                let record = FeedRecord { era: own.era, ..sent.record.clone() };
                self.put_feed_record(bucket, &record)
            }
            (Some(_), None) => self.end_feed(bucket),
            (_, Some(_)) => Err(Error::new(Reason::Changed, "a feed was begun meanwhile")),
        }
    }
}
