//! Begin and end of feeds, as rows of the group's own that its master writes.

use super::build;
use super::trim::{self, TrimStep};
use crate::bucket::Bucket;
use crate::group::Group;
use crate::indexing::{IndexStep, has_rows};
use crate::overlay::Overlay;
use crate::seals::BOOKKEEPING_BUCKET;
use base::error::corrupt;
use base::{BucketId, Error, Reason, Result};
use change_feed::{FeedMaking, FeedPhase, FeedRecord, feed_record_key};
use replica_state::feed::DuePage;
use runtime::submit::Ticket;
use runtime::world;

impl Overlay<'_> {
    /// Returns the record of a bucket's feed.
    pub fn feed_record(&mut self, bucket: BucketId) -> Result<Option<FeedRecord>> {
        let row = self.row(BOOKKEEPING_BUCKET, &feed_record_key(bucket))?;
        row.map(|row| FeedRecord::decode(&row.value).map_err(corrupt)).transpose()
    }

    /// Writes the record of a bucket's feed.
    pub fn put_feed_record(&mut self, bucket: BucketId, record: &FeedRecord) -> Result<()> {
        self.put(BOOKKEEPING_BUCKET, &feed_record_key(bucket), None, &[&record.encode()])
    }

    /// Begins the feed of a bucket: every later change is added to it. It is ready at once if the
    /// bucket has no row. One that was begun keeps or leaves out values from here on. Errors:
    /// `changed` while a former feed is being removed.
    pub fn begin_feed(&mut self, bucket: BucketId, has_values: bool) -> Result<()> {
        let begun = match self.feed_record(bucket)? {
            Some(record) if record.phase == FeedPhase::Dropping => {
                let text = "the former feed of the bucket is being removed";
                return Err(Error::new(Reason::Changed, text));
            }
            Some(record) if record.has_values == has_values => return Ok(()),
            Some(record) => FeedRecord { has_values, ..record },
            None => {
                let is_empty = !has_rows(self, bucket)?;
                FeedRecord {
                    phase: if is_empty { FeedPhase::Ready } else { FeedPhase::Building },
                    has_values,
                    era: 0,
                    making: FeedMaking { group: self.group, index: self.open.index },
                    begun: self.version().0,
                    rows: 0,
                    cursor: None,
                }
            }
        };
        self.put_feed_record(bucket, &begun)
    }

    /// Ends the feed of a bucket: no change is added to it any more, and its entries are removed
    /// step by step. Does nothing if there is none.
    pub fn end_feed(&mut self, bucket: BucketId) -> Result<()> {
        match self.feed_record(bucket)? {
            Some(record) if record.phase != FeedPhase::Dropping => {
                let (phase, cursor) = (FeedPhase::Dropping, None);
                self.put_feed_record(bucket, &FeedRecord { phase, cursor, ..record })
            }
            _ => Ok(()),
        }
    }
}

impl Group {
    /// Begins the feed of a bucket of this group; see [`Overlay::begin_feed`]. `epoch`: the
    /// leadership epoch in which the caller decided it. Errors: `Changed` if that epoch has ended,
    /// and another master may have decided otherwise; `Moved` as for an update of the bucket.
    pub fn begin_feed(
        &self,
        bucket: &Bucket,
        has_values: bool,
        epoch: u64,
    ) -> Result<Option<Ticket>> {
        let begin = |overlay: &mut Overlay| overlay.begin_feed(bucket.id, has_values);
        self.write_for_bucket(bucket, epoch, begin).map(|(ticket, ())| ticket)
    }

    /// Ends the feed of a bucket, if it has one. Errors: see [`Self::begin_feed`].
    pub fn end_feed(&self, bucket: &Bucket, epoch: u64) -> Result<Option<Ticket>> {
        let end = |overlay: &mut Overlay| overlay.end_feed(bucket.id);
        self.write_for_bucket(bucket, epoch, end).map(|(ticket, ())| ticket)
    }

    /// Takes the next step of building or removing a feed. `applied`: its applied record; in
    /// another phase, or for another feed of the bucket, nothing is done. The pacer counts its
    /// bytes; the caller waits until it allows for the next one. Errors: see [`Self::begin_feed`].
    pub fn step_feed(
        &self,
        bucket: &Bucket,
        applied: &FeedRecord,
        epoch: u64,
    ) -> Result<IndexStep> {
        let begun_ms = world::milliseconds();
        let step = |overlay: &mut Overlay| build::step(overlay, bucket.id, applied);
        let (_, step) = self.write_for_bucket(bucket, epoch, step)?;
        self.shared.build_pacer.spend(begun_ms, step.bytes as u64);
        Ok(step)
    }

    /// Removes old entries of a feed, of a page that was read from a snapshot. Errors: see
    /// [`Self::begin_feed`].
    pub fn trim_feed(&self, bucket: &Bucket, page: &DuePage, epoch: u64) -> Result<TrimStep> {
        let trim = |overlay: &mut Overlay| trim::step(overlay, bucket.id, page);
        self.write_for_bucket(bucket, epoch, trim).map(|(_, step)| step)
    }
}
