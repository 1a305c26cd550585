//! Buckets with feeds: histories in which feeds are begun, built, trimmed and removed while rows
//! change and expire, and readers follow them at any replica; and the judges of feeds: entries are
//! what the rows say, on every replica, always, and readers have what the rows have.

use super::flavours::{FROZEN, Flavour};
use super::indexed::draw_update;
use super::mutants::check;
use super::node::group_id;
use super::world::World;
use base::feed::FeedEventKind;
use base::reply::IndexRecord;
use base::{BucketId, FeedEvent, GroupId, Key, LogIndex, Properties, Value, Version};
use change_feed::{ConsistentToken, FeedPhase, FeedPosition};
use replica_state::feed::{FeedAnswer, PageOrigin, PageQuery, check_feed, due_page, read_page};
use replica_state::layout::{Mark, ROW_PREFIX_BYTES, StoredRow, mark_key, row_key};
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::mutants::Mutant;
use sim::{Counts, Suite};
use std::collections::{BTreeMap, BTreeSet};
use store::{Chunk, Snapshot, Trees};

/// Number of readers.
pub(super) const READERS: usize = 4;
/// Time for which feeds keep deletes and dead entries, in milliseconds.
const KEEP_MS: u64 = 1_000;
/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 15;
/// Number of histories within which a broken rule must be noticed.
const MUTANT_SEEDS: u64 = 500;

/// Returns the bucket of a group, as its properties are in these histories.
fn bucket(group: usize) -> Bucket {
    let properties = Properties { feed_keep_ms: KEEP_MS, ..Properties::default() };
    Bucket::new(super::clients::bucket(group).id, group_id(group), properties)
}

/// Asserts that the feed of a bucket is what its rows say. Returns its phase, if it has one.
pub(super) fn judge_feed(group: GroupId, id: BucketId, trees: &dyn Trees) {
    let mismatches = check_feed(&*trees.snapshot(), group, id).expect("memory");
    assert!(mismatches.is_empty(), "a feed is wrong: {mismatches:?} in {group}, {id:?}");
}

/// What a reader of a feed knows: what it was told, and no more.
#[derive(Default)]
pub(super) struct FeedView {
    rows: BTreeMap<Key, (Version, Value)>,
    /// Version of the last put of each key since the reader began at the start.
    puts: BTreeMap<Key, Version>,
    /// Keys that came since a restart. `None`: there was none since the last level.
    again: Option<BTreeSet<Key>>,
}

impl FeedView {
    /// Begins at the start again: what does not come until the next level is gone.
    pub(super) fn restart(&mut self) {
        self.again = Some(BTreeSet::new());
        self.puts.clear();
    }

    /// Takes an event. No put may come twice.
    pub(super) fn take(&mut self, event: FeedEvent) {
        if let Some(again) = &mut self.again {
            again.insert(event.key.clone());
        }
        match (event.kind, event.record) {
            (FeedEventKind::Put, Some(IndexRecord::Row(row))) => {
                let former = self.puts.insert(event.key.clone(), row.version);
                let rises = former < Some(row.version);
                assert!(rises, "a feed is wrong: {:?} came twice: {row:?}", event.key);
                self.rows.insert(event.key, (row.version, row.value));
            }
            (FeedEventKind::Delete, None) => drop(self.rows.remove(&event.key)),
            other => panic!("a feed is wrong: {other:?}"),
        }
    }

    /// Forgets what did not come since a restart: nothing more was decided.
    pub(super) fn on_level(&mut self) {
        if let Some(again) = self.again.take() {
            self.rows.retain(|key, _| again.contains(key));
        }
    }

    /// Returns the value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<&Value> {
        self.rows.get(key).map(|(_, value)| value)
    }

    /// Asserts that it has what the rows have. An expired row is told as deleted once it is
    /// removed.
    pub(super) fn compare(&self, rows: &BTreeMap<Key, StoredRow>, now: u64) {
        for (key, row) in rows.iter().filter(|(_, row)| !row.is_expired(now)) {
            let (known, expected) = (self.rows.get(key), (row.version, row.value.clone()));
            assert!(known == Some(&expected), "a feed is wrong: {key:?} is {known:?}, not {row:?}");
        }
        let stays = self.rows.keys().find(|key| !rows.contains_key(*key));
        assert!(stays.is_none(), "a feed is wrong: nobody told that {stays:?} is gone");
    }
}

/// Reader of a bucket's feed at any replica.
#[derive(Default)]
pub(super) struct ReplicaReader {
    token: Option<ConsistentToken>,
    view: FeedView,
    /// Highest index whose effects it has seen: what was replaced up to there was left out.
    seen: u64,
}

impl ReplicaReader {
    /// Reads a page from a replica's rows, and compares both if the page is level with them.
    /// Returns what came of it.
    fn read(
        &mut self,
        (group, id): (GroupId, BucketId),
        trees: &dyn Trees,
        events_max: usize,
    ) -> Option<&'static str> {
        let snapshot = trees.snapshot();
        let origin = self.token.map_or(PageOrigin::Start, PageOrigin::Token);
        let query =
            PageQuery { origin, events_max, bytes_max: 1 << 18, has_values: true, decided: None };
        let answer = read_page(&*snapshot, (group, id), &query).expect("memory");
        let FeedAnswer::Page(page) = answer else { return None };
        if page.is_restart {
            self.view.restart();
        } else if let Some(token) = self.token {
            let rises = page.next.position >= token.position;
            assert!(rises, "a feed is wrong: {:?} after {token:?}", page.next);
        }
        self.token = Some(page.next);
        page.events.into_iter().for_each(|event| self.view.take(event));
        let mark = mark(group, &*snapshot);
        let end = FeedPosition::end_of(page.next.position.era, LogIndex(mark.applied));
        self.seen = self.seen.max(mark.applied);
        // A replica that lags behind one that was read before has rows of the past.
        if page.is_level && page.next.position == end && mark.applied == self.seen {
            self.view.on_level();
            self.view.compare(&rows(group, id, &*snapshot), mark.time);
            return Some(if page.is_restart { "feed restarted" } else { "feed read" });
        }
        page.is_restart.then_some("feed restarted")
    }
}

fn mark(group: GroupId, snapshot: &dyn Snapshot) -> Mark {
    let mut key = Vec::new();
    mark_key(group, &mut key);
    let mark = snapshot.get(&key).expect("memory");
    mark.map_or(Mark::default(), |mark| Mark::read(&mark).expect("a mark"))
}

fn rows(group: GroupId, id: BucketId, snapshot: &dyn Snapshot) -> BTreeMap<Key, StoredRow> {
    let mut key = Vec::new();
    row_key(group, id, &[], &mut key);
    let all = Chunk::read(snapshot, &key, None, usize::MAX).expect("memory").rows.into_iter();
    all.map(|(key, row)| (key.slice(ROW_PREFIX_BYTES..), StoredRow::read(&row).expect("a row")))
        .collect()
}

/// Takes the next step of building or removing the feed of a bucket, as its keeper does.
fn step(group: &Group, of: &Bucket) -> Option<&'static str> {
    let applied = group.feeds.find(of.id)?;
    // Refused where this node is master no more.
    let step = group.step_feed(of, &applied, group.leadership.epoch()).ok()?;
    let name = match applied.phase {
        FeedPhase::Building => "feed built",
        FeedPhase::Dropping => "feed removed",
        FeedPhase::Ready | FeedPhase::Receiving => return None,
    };
    step.is_last.then_some(name)
}

impl World {
    /// Changes rows or the feed of a group, as clients and the keeper of feeds, or reads the feed.
    pub(super) fn fed_request(&mut self) {
        // As for counts: a sole voter does not sync what no client waits for.
        if self.nodes.len() == 1 {
            return;
        }
        let group = self.any_group();
        let name = match self.steps.below(20) {
            0..=7 => self.read_feed(group),
            pick => self.change_fed(group, pick),
        };
        if let Some(name) = name {
            self.journal.count(name);
        }
    }

    fn read_feed(&mut self, group: usize) -> Option<&'static str> {
        let nth = self.steps.below(self.nodes.len() as u64) as usize;
        let reader = self.steps.below(READERS as u64) as usize;
        let events_max = 1 + self.steps.below(5) as usize;
        // Some readers are away for long, and some begin anew.
        if self.steps.draw_bool(10) {
            self.feed_readers[group][reader] = ReplicaReader::default();
        }
        self.nodes[nth].process.as_ref()?;
        let place = (group_id(group), bucket(group).id);
        self.feed_readers[group][reader].read(place, &*self.nodes[nth].trees, events_max)
    }

    fn change_fed(&mut self, group: usize, pick: u64) -> Option<&'static str> {
        let which = self.master(group)?;
        let node = &self.nodes[which];
        let process = node.process.as_ref()?;
        if self.queue.now() < node.clock.paused_until {
            return None;
        }
        node.clock.enter(self.queue.now());
        let (part, of) = (process.group(group), bucket(group));
        let epoch = part.leadership.epoch();
        let name = match pick {
            // Refused where this node is master no more, or a former feed is being removed.
            8 => {
                let has_values = self.steps.draw_bool(300);
                part.begin_feed(&of, has_values, epoch).ok().map(|_| "feed begun")
            }
            9 if self.steps.draw_bool(100) => part.end_feed(&of, epoch).ok().map(|_| "feed ended"),
            9..=11 => step(part, &of),
            12 | 13 => {
                let (snapshot, now) = (node.trees.snapshot(), part.now());
                let page = due_page(&*snapshot, (part.id, of.id), &of.properties, now);
                let trimmed = part.trim_feed(&of, &page.expect("memory")?, epoch).ok();
                trimmed.filter(|step| step.removed > 0).map(|_| "feed trimmed")
            }
            _ => {
                let update = draw_update(&mut self.steps);
                drop(part.submit(&of, &update, None));
                None
            }
        };
        self.wake(which, 10);
        name
    }

    /// Judges the feeds of a node's replicas.
    pub(super) fn judge_feeds(&mut self, nth: usize) {
        // Each look reads every row.
        if self.steps.draw_bool(250) {
            for group in 0..self.judges.len() {
                judge_feed(group_id(group), bucket(group).id, &*self.nodes[nth].trees);
            }
        }
    }

    /// Runs until every group has a feed that is ready, and reads it to its end.
    fn complete_feeds(&mut self) {
        if self.nodes.len() == 1 {
            return;
        }
        let begin = self.queue.now();
        for group in 0..self.judges.len() {
            let of = bucket(group);
            loop {
                assert!(self.queue.now() < begin + 60_000_000, "no progress: a feed of {group}");
                if let Some(master) = self.master(group) {
                    self.nodes[master].clock.enter(self.queue.now());
                    let part = self.process(master).expect("it leads").group(group).clone();
                    let phase = part.feeds.find(of.id).map(|record| record.phase);
                    if phase == Some(FeedPhase::Ready) {
                        break;
                    }
                    let _ = part.begin_feed(&of, false, part.leadership.epoch());
                    step(&part, &of);
                    self.wake(master, 10);
                }
                self.run(20_000);
            }
        }
        self.journal.count("feeds at rest");
    }
}

fn fed(seed: u64) -> (u64, Counts) {
    let mut world = World::with(seed, Flavour::Fed);
    world.run(SECONDS * 1_000_000);
    world.heal();
    world.wait_until_level();
    world.complete_feeds();
    world.finish_and_check()
}

const FED: Suite = Suite {
    name: "buckets with feeds",
    seeds: 40,
    seeds_long: 20_000,
    history: fed,
    required_events: &[
        "wrote",
        "read",
        "crash",
        "snapshot",
        "feed begun",
        "feed built",
        "feed ended",
        "feed removed",
        "feed trimmed",
        "feed read",
        "feed restarted",
        "feeds at rest",
    ],
    ..FROZEN
};

#[test]
fn feeds_equal_rows_on_every_replica_and_readers_miss_nothing() {
    FED.run();
}

#[test]
fn feed_mutants_are_detected_in_histories() {
    let soon = [Mutant::ReuseFeedPositions, Mutant::BuildFeedOfAllRows, Mutant::ForgetFeedFloor];
    check(fed, MUTANT_SEEDS).assert_detected(&soon, &[]);
}
