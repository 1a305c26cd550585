//! Feeds of available buckets, followed at random nodes while those crash, are cut off, and while
//! the ring changes. The feed of every node tells of its rows, always; and who read on from any
//! token to the end knows what the rows say.

use super::super::mutants::check;
use super::clients::{self, ask_call};
use super::judge::Write;
use super::world::World;
use base::feed::{FeedOrigin, FeedPage, FeedQuery};
use base::reply::IndexRecord;
use base::{Body, BucketName, Call, Key, Read, ReadLevel, Reason, Reply};
use bytes::Bytes;
use runtime::mutants::Mutant;
use sim::{Chance, Counts, FaultTarget as _, Suite};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use vnode_rows::feed_rows::{VnodeFeedPhase, feed_differences};

/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 12;
/// Interval between two looks of the judge, in microseconds.
const LOOK_US: u64 = 50_000;
/// Pause between two rounds of anti-entropy, in milliseconds: there are many bridges.
const ANTI_ENTROPY_MS: u64 = 700;
/// Number of histories within which every broken rule must be noticed.
const MUTANT_SEEDS: u64 = 500;

/// Reader of a bucket's feed, and what it knows.
#[derive(Clone)]
pub(super) struct FeedFollower {
    bucket: BucketName,
    /// Token of its last page. `None`: it has had none.
    token: Option<Bytes>,
    /// Living values of each key, by its last event.
    keys: BTreeMap<Key, BTreeSet<Write>>,
    /// Keys that are gone if they do not come before the next page that is level.
    doubtful: BTreeSet<Key>,
    /// True if its last page was level.
    is_level: bool,
}

impl FeedFollower {
    fn new(bucket: BucketName) -> FeedFollower {
        let (keys, doubtful) = (BTreeMap::new(), BTreeSet::new());
        FeedFollower { bucket, token: None, keys, doubtful, is_level: false }
    }

    fn take(&mut self, page: FeedPage) {
        if page.restart {
            self.doubtful = self.keys.keys().cloned().collect();
        }
        for event in page.events {
            self.doubtful.remove(&event.key);
            let values = match event.record {
                Some(IndexRecord::Siblings(siblings)) => {
                    let living = siblings.without_tombstones();
                    living.map(|sibling| clients::number(&sibling.content.value)).collect()
                }
                _ => BTreeSet::new(),
            };
            self.keys.insert(event.key, values);
        }
        if page.level {
            for key in std::mem::take(&mut self.doubtful) {
                self.keys.remove(&key);
            }
        }
        (self.token, self.is_level) = (Some(page.next), page.level);
    }

    /// Asks a node for the next page. Returns false if none came.
    async fn read(&mut self, world: &Rc<World>, nth: usize) -> bool {
        let from = self.token.clone().map_or(FeedOrigin::Start, FeedOrigin::Token);
        let events_max = world.scheduler.draw(|chance| chance.between(1, 20)) as usize;
        let query =
            FeedQuery { from, events_max: Some(events_max), values: true, ..FeedQuery::default() };
        let call = Call::Read(Read::Feed(Box::new(query)), ReadLevel::Consistent);
        let answer = ask_call(world, nth, self.bucket.clone(), call).await;
        world.tell(|| format!("feed of {} at {nth}: {answer:?}", self.bucket));
        match answer {
            Some(Ok(Reply { body: Body::FeedPage(page), .. })) => {
                assert!(page.events.len() <= events_max, "a feed is wrong: too many events");
                let repeated = page.events.iter().filter(|event| event.again).count();
                world.journal.count("feed page");
                world.journal.add("feed event", page.events.len() as u64);
                world.journal.add("feed event again", repeated as u64);
                world.journal.add("feed restart", page.restart.into());
                self.take(*page);
                true
            }
            Some(Err(error)) if error.reason == Reason::MalformedToken => {
                panic!("a feed is wrong: its token is refused: {error}")
            }
            _ => {
                world.journal.count("feed page in vain");
                false
            }
        }
    }
}

/// Follows the feed of a bucket until the trouble ends, and keeps what it knew at some tokens.
async fn follow(world: Rc<World>) {
    let mut follower = FeedFollower::new(world.draw_bucket());
    while world.injects_faults() {
        let pause = |chance: &mut Chance| match chance.below(20) {
            // Longer than dead entries are kept.
            0 => chance.between(3_000_000, 6_000_000),
            _ => chance.between(5_000, 400_000),
        };
        world.scheduler.sleep_us(world.scheduler.draw(pause)).await;
        let (nth, keeps) =
            world.scheduler.draw(|chance| (chance.index(world.count), chance.draw_bool(100)));
        if follower.read(&world, nth).await && keeps {
            world.followers.borrow_mut().push(follower.clone());
        }
    }
    world.followers.borrow_mut().push(follower);
}

impl World {
    /// Asserts that the feeds of every node tell of its rows.
    fn judge_feeds(&self) {
        for node in self.nodes.borrow().iter() {
            let Some(running) = node.running() else { continue };
            let found = feed_differences(&*running.status.trees.snapshot()).expect("memory");
            assert!(found.is_empty(), "a feed is wrong: node {} has {found:?}", node.id);
        }
    }

    /// Judges what readers know once all copies are equal.
    pub(super) fn judge_settled_feeds(self: &Rc<World>) {
        if !self.is_fed {
            return;
        }
        self.judge_feeds();
        for bucket in self.buckets() {
            self.followers.borrow_mut().push(FeedFollower::new(bucket));
        }
        self.scheduler.spawn(None, judge_end(Rc::clone(self)));
        for _ in 0..600 {
            self.scheduler.run(100_000);
            if self.followers.borrow().is_empty() {
                self.journal.count("feed read at the end");
                return;
            }
        }
        panic!("a feed is wrong: it does not end");
    }

    /// Asserts that a follower knows what the rows say. Where disks lose data, a change that only
    /// they had may be known to a reader and to nobody else.
    fn judge_follower(&self, follower: &FeedFollower) {
        if self.may_lose_disk || self.judge.borrow().has_ttl {
            return;
        }
        for number in 0..self.keys {
            let (bucket, key) = self.place(number);
            if bucket == follower.bucket {
                let expected: BTreeSet<_> = self.values_of(number).into_iter().collect();
                let known = follower.keys.get(&key).cloned().unwrap_or_default();
                assert!(
                    known == expected,
                    "a feed is wrong: a reader knows {known:?} of key {number}, not {expected:?}"
                );
            }
        }
    }
}

/// Lets every follower read to the end, and judges what it knows then.
async fn judge_end(world: Rc<World>) {
    loop {
        let Some(mut follower) = world.followers.borrow().last().cloned() else { return };
        follower.is_level = false;
        while !follower.is_level {
            let nth = world.scheduler.draw(|chance| chance.index(world.count));
            if !follower.read(&world, nth).await {
                world.scheduler.sleep_us(100_000).await;
            }
        }
        world.judge_follower(&follower);
        world.followers.borrow_mut().pop();
    }
}

/// Judges the feeds of all nodes, again and again.
async fn judge(world: Rc<World>) {
    loop {
        world.scheduler.sleep_us(LOOK_US).await;
        world.judge_feeds();
        let nodes = world.nodes.borrow();
        for node in nodes.iter().filter_map(|node| node.running()) {
            let snapshot = node.status.trees.snapshot();
            let feeds = vnode_rows::feed_rows::read_feeds(&*snapshot).expect("memory");
            let is_ready = feeds.iter().any(|(_, it)| it.phase == VnodeFeedPhase::Ready);
            world.journal.add("ready feed", is_ready.into());
        }
    }
}

const SUITE: Suite = Suite {
    name: "feeds of available buckets",
    seeds: 40,
    seeds_long: 20_000,
    threads: 1,
    history,
    required_events: &[
        "write",
        "remove",
        "crash",
        "split",
        "ring join",
        "ring leave",
        "ring replace",
        "ready feed",
        "feed page",
        "feed event",
        "feed event again",
        "feed restart",
        "feed read at the end",
    ],
};

fn history(seed: u64) -> (u64, Counts) {
    let world = World::with_feeds(seed, Some(1_000 + seed % 4 * 1_000));
    let mut nodes = world.nodes.borrow_mut();
    nodes.iter_mut().for_each(|node| node.anti_entropy_ms = Some(ANTI_ENTROPY_MS));
    drop(nodes);
    world.begin();
    world.begin_trouble();
    for _ in 0..3 {
        world.scheduler.spawn(None, follow(Rc::clone(&world)));
    }
    world.scheduler.spawn(None, judge(Rc::clone(&world)));
    world.scheduler.run(SECONDS * 1_000_000);
    world.heal();
    world.finish_and_check()
}

#[test]
fn feeds_of_available_buckets_tell_of_rows_and_readers_miss_nothing() {
    SUITE.run();
}

#[test]
fn mutants_of_feeds_are_detected() {
    let (soon, rare) = ([Mutant::MergeWithoutFeedEntry], [Mutant::NoteBridgeAtEnd]);
    check(history, MUTANT_SEEDS).assert_detected(&soon, &rare);
}
