//! Feeds of changes on this node: which are in force, the entry of each change, the build of a
//! feed, its removal, and what retention removes.
//!
//! A feed is in force from the change that writes its record on: later changes of rows have
//! entries, and the build adds those of the rows that were there before. What is in force is kept
//! in the store, changed under its lock, and read again at a start. A build that reads a row that
//! has changed since adds the entry of the newest one. Entries and cursor are one batch. A row may
//! get two entries while a feed is built: a reader has it twice, and retention removes the first.
//!
//! Promises: a feed is ready only once every row here has its entry; after a crash builds and
//! removals continue.
//! Never: decides which buckets have feeds (`feed_keeper.rs`); sends a request.

use crate::vnode_store::{VnodeStore, VnodeStoreState};
use base::{BucketName, Result};
use bytes::Bytes;
use change_feed::{FeedTotals, VnodePosition};
use runtime::world;
use vnode_rows::batch::KeyChanges;
use vnode_rows::feed_rows::{
    DeadEntryBounds, FeedSet, FeedWork, RetentionPage, VnodeFeedExtent, VnodeFeedPhase,
    VnodeFeedRecord, feed_record_key, join_slots, joined_row_key, read_feed_work, read_feeds,
    read_retention_page,
};
use vnode_rows::index_rows::row_place;
use vnode_rows::slots::SlotSpan;

impl VnodeStore {
    /// Reads the feeds in force, once after a start. `admit` calls it before the first change.
    pub(super) fn load_feeds(&self, state: &mut VnodeStoreState) -> Result<()> {
        if state.feeds.set.is_none() {
            state.feeds.set = Some(read_feeds(&*self.trees.snapshot())?);
        }
        Ok(())
    }

    /// Adds the entry of a row that changes, if its bucket has a feed.
    pub(super) fn push_feed_entry(
        &self,
        state: &mut VnodeStoreState,
        tree_key: &Bytes,
        row: (Option<&Bytes>, Option<&Bytes>),
        changes: &mut KeyChanges,
    ) {
        if state.feeds.set.as_ref().is_none_or(FeedSet::is_empty) {
            return;
        }
        let position = self.position_of_change(state, changes.len());
        let feeds = state.feeds.set.get_or_insert_default();
        let bucket = feeds.push_entry(tree_key, row, (position, world::unix_ms()), changes);
        let Some(bucket) = bucket else { return };
        if self.feed_changes.is_asked() {
            let changed = state.feeds.changed.entry(position.batch).or_default();
            changed.insert(bucket.clone());
        }
        state.feeds.last_entry = Some(position);
    }

    /// Returns the extent of all feeds of this node, as far as it is known.
    pub fn feed_extent(&self) -> VnodeFeedExtent {
        // A store that can't be read is reported by who needs it.
        self.with_feeds(FeedSet::extent).unwrap_or_default()
    }

    /// Calls `inspect` on the feeds in force.
    pub(super) fn with_feeds<T>(&self, inspect: impl FnOnce(&FeedSet) -> T) -> Result<T> {
        let mut state = self.state();
        self.load_feeds(&mut state)?;
        Ok(inspect(state.feeds.set.get_or_insert_default()))
    }

    /// Brings the feed of a bucket into force; its build begins. `copies`: number of copies of its
    /// keys. Returns the ticket. Nothing changes if it is in force, or is being removed.
    pub fn begin_feed(&self, bucket: &BucketName, copies: u8) -> Result<u64> {
        let mut state = self.admit()?;
        let known = state.feeds.set.get_or_insert_default().get(bucket);
        let floor = match known {
            None => VnodePosition::START,
            Some(known) if known.phase == VnodeFeedPhase::Off => known.floor,
            Some(_) => return Ok(state.last_ticket()),
        };
        let (phase, copies_since) = (VnodeFeedPhase::Building, self.last_feed_position(&state));
        let cursor = Bytes::new();
        let record = VnodeFeedRecord { phase, copies, copies_since, floor, rows: 0, cursor };
        Ok(self.set_feed_record(&mut state, bucket, record, KeyChanges::new()))
    }

    /// Takes the feed of a bucket out of force; the removal of its entries begins.
    pub fn drop_feed(&self, bucket: &BucketName) -> Result<()> {
        let mut state = self.admit()?;
        let record = state.feeds.set.get_or_insert_default().get(bucket);
        if let Some(record) = record.filter(|record| record.is_in_force()).cloned() {
            let record = VnodeFeedRecord { phase: VnodeFeedPhase::Dropping, ..record };
            self.set_feed_record(&mut state, bucket, record, KeyChanges::new());
        }
        Ok(())
    }

    /// Records that buckets have other numbers of copies by now. Bridges from before may not have
    /// compared their keys, and this node may have lacked some of them for a while: readers start
    /// over.
    pub(super) fn note_copies(&self, state: &mut VnodeStoreState) {
        let since = self.last_feed_position(state);
        let changed = state.feeds.set.get_or_insert_default().with_copies(&self.copies, since);
        for (bucket, record) in changed {
            self.set_feed_record(state, &bucket, record, KeyChanges::new());
        }
    }

    /// Records that slots come to this node: their readers from before start over.
    pub(super) fn note_joined(&self, span: SlotSpan) -> Result<()> {
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let (_, row) = self.newest(state, &joined_row_key())?;
        // Behind all entries of this life, and before those of the rows that come.
        let position = self.position_of_change(state, 0);
        let changes = join_slots(row.as_ref(), span.slots().collect(), position)?;
        self.log_changes(state, changes, false);
        Ok(())
    }

    /// Reads the next page of the build or the removal of a feed. Slow: must run on a blocking
    /// thread. `None`: neither is due, as far as the store knows.
    pub(super) fn read_feed_page(&self, bucket: &BucketName) -> Result<Option<FeedWork>> {
        read_feed_work(&*self.trees.snapshot(), bucket)
    }

    /// Writes a page of a build or a removal. Returns the ticket. `None`: something else came
    /// first.
    pub(super) fn write_feed_page(
        &self,
        bucket: &BucketName,
        page: FeedWork,
    ) -> Result<Option<u64>> {
        let mut guard = self.admit()?;
        let state = &mut *guard;
        let record = state.feeds.set.get_or_insert_default().get(bucket).cloned();
        let Some(mut record) = record else { return Ok(None) };
        let mut changes = KeyChanges::new();
        match page {
            FeedWork::Build(page)
                if record.phase == VnodeFeedPhase::Building && record.cursor == page.after =>
            {
                record.rows += page.rows.len() as u64;
                for (tree_key, _) in page.rows {
                    let (_, newest) = self.newest(state, &tree_key)?;
                    self.push_built_entry(state, bucket, (&tree_key, newest), &mut changes);
                }
                record.cursor = page.cursor;
                if page.is_last {
                    (record.phase, record.cursor) = (VnodeFeedPhase::Ready, Bytes::new());
                }
            }
            FeedWork::Removal(keys, is_last) if record.phase == VnodeFeedPhase::Dropping => {
                changes.extend(keys.into_iter().map(|tree_key| (tree_key, None)));
                if is_last {
                    // Whoever read the feed until now misses what happens until it begins again.
                    record.floor = self.position_of_change(state, changes.len());
                    record.phase = VnodeFeedPhase::Off;
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(self.set_feed_record(state, bucket, record, changes)))
    }

    fn push_built_entry(
        &self,
        state: &mut VnodeStoreState,
        bucket: &BucketName,
        (tree_key, row): (&Bytes, Option<Bytes>),
        changes: &mut KeyChanges,
    ) {
        let (Some(row), Some((slot, _, key))) = (row, row_place(tree_key)) else { return };
        let position = self.position_of_change(state, changes.len());
        let built = (bucket, slot, key);
        let feeds = state.feeds.set.get_or_insert_default();
        feeds.push_built_entry(built, &row, (position, world::unix_ms()), changes);
        state.feeds.last_entry = Some(position);
    }

    /// Reads the next dead entries of a feed. Slow: must run on a blocking thread.
    pub(super) fn read_dead_entries(
        &self,
        bucket: &BucketName,
        behind: VnodePosition,
        bounds: DeadEntryBounds,
    ) -> Result<RetentionPage> {
        read_retention_page(&*self.trees.snapshot(), bucket, behind, bounds)
    }

    /// Removes dead entries, and records the last trace of a key that goes with them. Returns the
    /// ticket.
    pub(super) fn remove_dead_entries(
        &self,
        bucket: &BucketName,
        page: RetentionPage,
    ) -> Result<u64> {
        let mut state = self.admit()?;
        let record = state.feeds.set.get_or_insert_default().get(bucket).cloned();
        let is_ready = |record: &VnodeFeedRecord| record.phase == VnodeFeedPhase::Ready;
        let Some(record) = record.filter(is_ready) else { return Ok(state.last_ticket()) };
        let changes = page.removable.into_iter().map(|tree_key| (tree_key, None)).collect();
        if page.floor <= record.floor {
            return Ok(self.log_changes(&mut state, changes, false));
        }
        let record = VnodeFeedRecord { floor: page.floor, ..record };
        Ok(self.set_feed_record(&mut state, bucket, record, changes))
    }

    /// Sets the extent of a feed ([`FeedSet::set_extent`]).
    pub(super) fn set_feed_extent(
        &self,
        bucket: &BucketName,
        counted: VnodeFeedExtent,
        since: FeedTotals,
    ) {
        let mut state = self.state();
        state.feeds.set.get_or_insert_default().set_extent(bucket, counted, since);
    }

    /// Sets the record of a feed, in one batch with other changes. Returns the ticket.
    fn set_feed_record(
        &self,
        state: &mut VnodeStoreState,
        bucket: &BucketName,
        record: VnodeFeedRecord,
        mut changes: KeyChanges,
    ) -> u64 {
        changes.push((feed_record_key(bucket), Some(record.write())));
        state.feeds.set.get_or_insert_default().insert(bucket, record);
        self.log_changes(state, changes, false)
    }
}
