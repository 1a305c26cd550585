//! Laws of feeds: random updates, sweeps, begins, builds, trims and ends of epochs, after each of
//! which the entries must be what the rows say, and readers have what the rows have.

use super::{build, trim};
use crate::apply::apply_entry_to;
use crate::bucket::Bucket;
use crate::counts::BucketCounts;
use crate::evaluate::{evaluate, expire_due};
use crate::group_indexes::GroupIndexes;
use crate::overlay::Overlay;
use crate::proposal_queue::ProposalQueue;
use crate::proposal_queue::tests::replica_at;
use crate::wait::Applied;
use base::feed::FeedEventKind;
use base::reply::IndexRecord;
use base::{BucketId, GroupId, Key, LogIndex, Properties, Result, Update, Value, Version};
use bytes::Bytes;
use change_feed::{ConsistentToken, FeedMaking, FeedPhase, FeedPosition};
use logic::consensus::Replica;
use replica_state::feed::{
    AppliedFeeds, FeedAnswer, FoundPage, PageOrigin, PageQuery, check_feed, due_page, read_page,
};
use replica_state::layout::{self, Mark, StoredRow};
use runtime::world;
use std::collections::{BTreeMap, BTreeSet};
use store::{Chunk, MemoryTrees, Snapshot, Trees};

mod law;
mod stories;

const GROUP: GroupId = GroupId(3);
/// Bucket with a feed at times.
const FED: BucketId = BucketId(7);
/// Bucket that never has one.
const PLAIN: BucketId = BucketId(8);
/// Time for which the feed keeps deletes and dead entries, in milliseconds.
const KEEP_MS: u64 = 60;

fn bucket(id: BucketId) -> Bucket {
    let properties = Properties { feed_keep_ms: KEEP_MS, ..Properties::default() };
    Bucket::new(id, GROUP, properties)
}

fn set(key: &str, value: &str) -> Update {
    let expiry = base::request::Expiry::Default;
    let value = Value::copy_from_slice(value.as_bytes());
    Update::Set { key: Key::copy_from_slice(key.as_bytes()), value, expiry }
}

fn remove(key: &str) -> Update {
    Update::Replace { key: Key::copy_from_slice(key.as_bytes()), wanted: None }
}

/// Group without its protocol: updates are evaluated, and entries applied.
struct FedGroup {
    trees: MemoryTrees,
    queue: ProposalQueue,
    replica: Replica,
    mark: Mark,
    now_ms: u64,
    feeds: AppliedFeeds,
}

impl FedGroup {
    fn new() -> FedGroup {
        let mark = Mark { applied: 0, time: 1, next_version: 1 };
        world::set_time(Some(1_000_000));
        FedGroup {
            trees: MemoryTrees::new(1 << 20),
            queue: ProposalQueue::new(GROUP, mark, 1 << 30),
            replica: replica_at(LogIndex(0)),
            mark,
            now_ms: 1,
            feeds: AppliedFeeds::default(),
        }
    }

    /// Evaluates into the open entry, as the master does.
    fn write<T>(&mut self, write: impl FnOnce(&mut Overlay) -> Result<T>) -> Result<T> {
        let (is_first, begun_bytes) = self.queue.begin(&self.replica);
        let written = self.queue.overlay(&self.trees).write_atomically(write);
        if self.queue.changed(begun_bytes) {
            self.queue.add(is_first, true);
        }
        written
    }

    fn update(&mut self, update: &Update) {
        self.write(|overlay| evaluate(overlay, &bucket(FED), update)).expect("it is sound");
    }

    fn begin(&mut self, has_values: bool) {
        // Refused while a former feed is removed.
        drop(self.write(|overlay| overlay.begin_feed(FED, has_values)));
    }

    /// Takes a step of building or removing the feed, as its keeper does: by what is applied.
    /// Returns false if there is nothing to do.
    fn step(&mut self) -> bool {
        let Some(applied) = self.feeds.find(FED) else { return false };
        if !matches!(applied.phase, FeedPhase::Building | FeedPhase::Dropping) {
            return false;
        }
        self.write(|overlay| build::step(overlay, FED, &applied)).expect("memory");
        true
    }

    /// Builds or removes the feed to its end.
    fn finish(&mut self) {
        self.apply();
        while self.step() {
            self.apply();
        }
    }

    /// Removes old entries, as the keeper of feeds does. Returns their number.
    fn trim(&mut self) -> u64 {
        let (properties, now) = (bucket(FED).properties, self.queue.clock.now());
        let page = due_page(&*self.trees.snapshot(), (GROUP, FED), &properties, now);
        let Some(page) = page.expect("memory") else { return 0 };
        self.write(|overlay| trim::step(overlay, FED, &page)).expect("memory").removed
    }

    fn sweep(&mut self, max: usize) {
        let swept = self.write(|overlay| expire_due(overlay, Bytes::new(), max, 1_000));
        swept.map(|_| ()).expect("memory");
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        world::set_time(Some(self.now_ms * 1_000_000));
        self.queue.close();
    }

    /// Applies what was evaluated, and checks the feeds after each entry.
    fn apply(&mut self) {
        self.apply_with(check);
    }

    fn apply_with(&mut self, check: impl Fn(&dyn Snapshot)) {
        self.queue.close();
        while let Some(index) = self.queue.next_proposal().map(|entry| entry.index) {
            let (payload, _) = self.queue.payload(index);
            self.queue.mark_proposed();
            let observers = (None, &self.feeds);
            let applied = apply_entry_to(GROUP, &self.trees, index, &payload, observers);
            self.mark = applied.expect("memory");
            check(&*self.trees.snapshot());
        }
        let applied = LogIndex(self.mark.applied);
        self.queue.release_applied(applied);
        self.replica = replica_at(applied);
    }

    fn end_epoch(&mut self) {
        self.queue.end_epoch(LogIndex(0), &Applied::default());
        let counts = BucketCounts::load(GROUP, &self.trees).expect("memory");
        self.queue.restart(self.mark, counts, GroupIndexes::default());
    }

    /// Reads a page of the feed. `None`: it is not ready.
    fn page(&self, origin: PageOrigin, events_max: usize) -> Option<FoundPage> {
        let decided = Some(LogIndex(self.mark.applied));
        let query = PageQuery { origin, events_max, bytes_max: 1 << 18, has_values: true, decided };
        match read_page(&*self.trees.snapshot(), (GROUP, FED), &query).expect("memory") {
            FeedAnswer::Page(page) => Some(page),
            FeedAnswer::Building(_) | FeedAnswer::Off => None,
        }
    }

    /// Returns the applied rows, expired or not.
    fn rows(&self) -> BTreeMap<Key, StoredRow> {
        let mut prefix = Vec::new();
        layout::row_key(GROUP, FED, &[], &mut prefix);
        let all = Chunk::read(&*self.trees.snapshot(), &prefix, None, usize::MAX);
        let all = all.expect("memory").rows.into_iter();
        all.map(|(key, row)| (key.slice(prefix.len()..), StoredRow::read(&row).expect("a row")))
            .collect()
    }

    /// Returns the number of entries of the feed.
    fn entries(&self) -> usize {
        let mut prefix = Vec::new();
        layout::bucket_key(GROUP, layout::Space::Feed, FED, &[], &mut prefix);
        let all = Chunk::read(&*self.trees.snapshot(), &prefix, None, usize::MAX);
        all.expect("memory").rows.len()
    }
}

impl Drop for FedGroup {
    fn drop(&mut self) {
        world::set_time(None);
    }
}

/// Checks that the feeds of all buckets are what the rows say.
fn check(snapshot: &dyn Snapshot) {
    for bucket in [FED, PLAIN] {
        assert_eq!(check_feed(snapshot, GROUP, bucket).expect("memory"), [], "a feed lies");
    }
}

/// Reader of the feed, who keeps what it was told.
#[derive(Default)]
struct FeedReader {
    token: Option<ConsistentToken>,
    view: BTreeMap<Key, (Version, Value)>,
    /// Version of the last put of each key since the reader began at the start.
    puts: BTreeMap<Key, Version>,
    /// Keys that came since a restart. `None`: there was none since the last level.
    again: Option<BTreeSet<Key>>,
    events: usize,
    restarts: usize,
}

impl FeedReader {
    /// Reads a page, and compares with the rows if nothing follows.
    fn read(&mut self, group: &FedGroup, events_max: usize) {
        let origin = self.token.map_or(PageOrigin::Start, PageOrigin::Token);
        let Some(page) = group.page(origin, events_max) else { return };
        assert!(page.events.len() <= events_max);
        if page.is_restart {
            (self.again, self.restarts) = (Some(BTreeSet::new()), self.restarts + 1);
            self.puts.clear();
        } else if let Some(token) = self.token {
            assert!(page.next.position >= token.position, "positions rise");
        }
        self.token = Some(page.next);
        self.events += page.events.len();
        for event in page.events {
            if let Some(again) = &mut self.again {
                again.insert(event.key.clone());
            }
            match (event.kind, event.record) {
                (FeedEventKind::Put, Some(IndexRecord::Row(row))) => {
                    assert_eq!(event.version, Some(row.version));
                    let former = self.puts.insert(event.key.clone(), row.version);
                    assert!(former < Some(row.version), "{:?} came twice", event.key);
                    self.view.insert(event.key, (row.version, row.value));
                }
                (FeedEventKind::Delete, None) => drop(self.view.remove(&event.key)),
                other => panic!("no event of this bucket: {other:?}"),
            }
        }
        if page.is_level {
            if let Some(again) = self.again.take() {
                self.view.retain(|key, _| again.contains(key));
            }
            self.compare(group);
        }
    }

    fn compare(&self, group: &FedGroup) {
        let (rows, now) = (group.rows(), group.mark.time);
        for (key, row) in rows.iter().filter(|(_, row)| !row.is_expired(now)) {
            let known = self.view.get(key).map(|(version, value)| (*version, value.clone()));
            assert_eq!(known, Some((row.version, row.value.clone())), "{key:?}");
        }
        for key in self.view.keys() {
            // One that has expired is told as deleted once it is removed.
            assert!(rows.contains_key(key), "the reader was not told that {key:?} is gone");
        }
    }

    fn read_all(&mut self, group: &FedGroup) {
        loop {
            self.read(group, 2);
            let origin = self.token.map_or(PageOrigin::Start, PageOrigin::Token);
            if group.page(origin, 1).is_none_or(|page| page.is_level && page.events.is_empty()) {
                return;
            }
        }
    }
}
