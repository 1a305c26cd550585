//! Feeds of buckets that move: clients turn feeds on and off by the directory, the keepers of all
//! nodes tend them, and readers follow the buckets through all nodes: what a reader writes it reads
//! up to the next level, and at the end it has what the bucket has.

use super::super::fed::{FeedView, judge_feed};
use super::super::indexed::draw_update;
use super::super::mutants::check;
use super::clients::ask;
use super::world::{ClientTask, World};
use base::feed::{FeedOrigin, FeedQuery};
use base::request::Expiry;
use base::{
    Body, BucketId, BucketName, Call, DirectoryCall, FeedPage, GroupId, Kind, Range, Read,
    ReadLevel, Update,
};
use bytes::Bytes;
use change_feed::FeedPhase;
use runtime::mutants::Mutant;
use sim::{Counts, Suite};
use std::rc::Rc;

/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 12;
/// Interval between two looks of the judge, in microseconds.
const LOOK_US: u64 = 20_000;
/// Number of readers of each bucket.
const READERS: u64 = 2;
/// Time to live of rows that readers write, in milliseconds.
const TTL_MS: u64 = 6_000;
/// Number of pages that a reader reads for one look at a feed.
const PAGES_MAX: usize = 400;
/// Number of histories within which a broken rule must be noticed.
const MUTANT_SEEDS: u64 = 500;

fn alter(mode: &str) -> Call {
    let changes = vec![("feed".into(), mode.into()), ("feed_keep_ms".into(), "1500".into())];
    Call::Directory(DirectoryCall::AlterBucket(changes))
}

/// Turns feeds on and off, and all of them on at the end.
async fn alter_feeds(world: Rc<World>) {
    let scheduler = Rc::clone(&world.scheduler);
    for name in &world.buckets {
        let _ = ask(&world, 0, name, alter("keys"), None).await;
    }
    while world.has_faults.get() {
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(500_000, 4_000_000))).await;
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let place = scheduler.draw(|chance| chance.index(world.buckets.len()));
        let mode = ["keys", "keys", "values", "values", "off"];
        let mode = scheduler.draw(|chance| mode[chance.index(mode.len())]);
        let answer = ask(&world, nth, &world.buckets[place], alter(mode), None).await;
        world.journal.add("feed altered", matches!(answer, Some(Ok(_))).into());
    }
    for name in &world.buckets {
        while !matches!(ask(&world, 0, name, alter("keys"), None).await, Some(Ok(_))) {
            scheduler.sleep_us(20_000).await;
        }
    }
}

/// Writes and removes rows, and lets them expire.
async fn change_rows(world: Rc<World>) {
    while !world.is_over.get() {
        let scheduler = &world.scheduler;
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(500, 40_000))).await;
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let place = scheduler.draw(|chance| chance.index(world.buckets.len()));
        let update = scheduler.draw(draw_update);
        let answer = ask(&world, nth, &world.buckets[place], Call::Update(update), None).await;
        if let Some(Err(error)) = answer {
            assert!(error.kind() != Kind::Corrupt, "{error}");
        }
    }
}

/// Judges the feeds of all replicas, again and again.
async fn judge(world: Rc<World>) {
    loop {
        world.scheduler.sleep_us(LOOK_US).await;
        for nth in 0..world.count {
            for (group, id) in world.remembered_buckets(nth) {
                judge_feed(group, id, &*world.nodes.borrow()[nth].storage.trees);
            }
        }
    }
}

/// Reader of a bucket's feed, through any node.
struct ClientReader {
    name: BucketName,
    token: Option<Bytes>,
    view: FeedView,
}

impl ClientReader {
    /// Reads a page. `None`: there was no answer, or a refusal.
    async fn read(&mut self, world: &Rc<World>, wait_ms: u64) -> Option<FeedPage> {
        let nth = world.scheduler.draw(|chance| chance.index(world.count));
        let from = self.token.clone().map_or(FeedOrigin::Start, FeedOrigin::Token);
        let query = FeedQuery { from, events_max: Some(20), values: true, wait_ms };
        let call = Call::Read(Read::Feed(Box::new(query)), ReadLevel::Consistent);
        match ask(world, nth, &self.name, call, None).await? {
            Ok(reply) => match reply.body {
                Body::FeedPage(page) => {
                    self.token = Some(page.next.clone());
                    if page.restart {
                        self.view.restart();
                        world.journal.count("feed restarted");
                    }
                    let events = page.events.clone();
                    events.into_iter().for_each(|event| self.view.take(event));
                    if page.level {
                        self.view.on_level();
                    }
                    Some(*page)
                }
                other => panic!("a feed is wrong: {other:?}"),
            },
            Err(error) => {
                let fits = !matches!(error.kind(), Kind::Corrupt | Kind::Denied);
                assert!(fits, "a feed is wrong: {error}");
                None
            }
        }
    }

    /// Reads until nothing more was decided. Returns false if that can't be said.
    async fn read_to_level(&mut self, world: &Rc<World>) -> bool {
        for _ in 0..PAGES_MAX {
            match self.read(world, 0).await {
                Some(page) if page.level => return true,
                Some(_) => {}
                None => return false,
            }
        }
        false
    }
}

/// Writes a key of its own, and reads the feed until it must have the key.
async fn follow(world: Rc<World>, place: usize, which: u64) {
    let name = world.buckets[place].clone();
    let mut reader = ClientReader { name: name.clone(), token: None, view: FeedView::default() };
    for number in 0_u64.. {
        if world.is_over.get() {
            return;
        }
        let scheduler = &world.scheduler;
        // Some sleep past what feeds keep.
        let longest =
            if scheduler.draw(|chance| chance.draw_bool(60)) { 4_000_000 } else { 60_000 };
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(500, longest))).await;
        // A key for each: a write that was given up may happen late.
        let key = Bytes::from(format!("follow{which}-{number}"));
        let (value, expiry) = (key.clone(), Expiry::After(TTL_MS));
        let update = Update::Set { key: key.clone(), value, expiry };
        let began = scheduler.now();
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let written = ask(&world, nth, &name, Call::Update(update), None).await;
        if matches!(written, Some(Ok(_))) && reader.read_to_level(&world).await {
            let known = reader.view.get(&key);
            let is_fresh = scheduler.now() < began + TTL_MS * 1_000 / 2;
            assert!(known.is_some() || !is_fresh, "a feed is wrong: {key:?} is missing");
            world.journal.add("own write read", is_fresh.into());
        } else if reader.read(&world, 50).await.is_some_and(|page| !page.events.is_empty()) {
            world.journal.count("event awaited");
        }
    }
}

impl World {
    /// Returns a history of buckets with feeds.
    fn fed(seed: u64) -> Rc<World> {
        let world = World::new(seed);
        world.is_fed.set(true);
        for nth in 0..world.count {
            world.scheduler.run_as_node(nth, || world.nodes.borrow()[nth].tend_feeds());
        }
        let begin = |task| world.scheduler.spawn(None, task);
        begin(Box::pin(alter_feeds(Rc::clone(&world))) as ClientTask);
        begin(Box::pin(change_rows(Rc::clone(&world))));
        begin(Box::pin(judge(Rc::clone(&world))));
        for place in 0..world.buckets.len() {
            for which in 0..READERS {
                begin(Box::pin(follow(Rc::clone(&world), place, which)));
            }
        }
        world
    }

    /// Returns a feed that is not at rest. `None`: there is none.
    pub(super) fn lacks_feed(&self) -> Option<String> {
        for nth in (0..self.count).filter(|_| self.is_fed.get()) {
            let kept = self.kept_buckets(nth);
            for group in self.running(nth)?.router.locator.groups.all() {
                for (id, record, _) in group.feeds.all() {
                    if !kept.contains(&(group.id, id)) && group.leadership.is_member() {
                        return Some(format!("{nth}: a feed of {id:?} in group {}", group.id));
                    }
                    if record.phase != FeedPhase::Ready {
                        return Some(format!("{nth}: {record:?} of {id:?}"));
                    }
                }
                let of_group = kept.iter().filter(|(other, _)| *other == group.id);
                let lacks = |(_, id): &&(GroupId, BucketId)| group.feeds.find(*id).is_none();
                if let Some((_, id)) = of_group.clone().find(lacks) {
                    return Some(format!("{nth}: {id:?} of group {} has no feed", group.id));
                }
            }
        }
        None
    }

    /// Asserts that a reader who begins now gets what the bucket has.
    pub(super) fn check_feeds(self: &Rc<World>) {
        if !self.is_fed.get() {
            return;
        }
        let world = Rc::clone(self);
        self.scheduler.spawn(None, async move {
            for name in world.buckets.clone() {
                let view = FeedView::default();
                let mut reader = ClientReader { name: name.clone(), token: None, view };
                while !reader.read_to_level(&world).await {}
                let range = Read::Range(Range::default());
                let call = Call::Read(range, ReadLevel::Consistent);
                let reply = ask(&world, 0, &name, call, None).await.expect("an answer");
                let Body::Page(page) = reply.expect("a read").body else { panic!("a page") };
                for entry in page.entries {
                    let (known, row) = (reader.view.get(&entry.key), entry.row.expect("rows"));
                    let is_known = known == Some(&row.value);
                    assert!(is_known, "a feed is wrong: {:?} is {known:?}", entry.key);
                }
                world.journal.count("feed compared");
            }
        });
        let before = self.journal.count_of("feed compared");
        self.scheduler.run(10_000_000);
        let compared = self.journal.count_of("feed compared") - before;
        assert_eq!(compared, self.buckets.len() as u64, "all feeds were read");
    }
}

const SUITE: Suite = Suite {
    name: "feeds of buckets that move",
    seeds: 30,
    seeds_long: 10_000,
    threads: 2,
    history: fed,
    required_events: &[
        "wrote",
        "moved",
        "mover crashed",
        "feed altered",
        "own write read",
        "event awaited",
        "feed restarted",
        "feed compared",
    ],
};

fn fed(seed: u64) -> (u64, Counts) {
    let world = World::fed(seed);
    world.scheduler.run(SECONDS * 1_000_000);
    world.heal();
    world.finish_and_check()
}

#[test]
fn readers_of_moving_buckets_miss_nothing_and_are_told_nothing_twice() {
    SUITE.run();
}

#[test]
fn feed_mutants_are_detected_in_moves() {
    let soon = [Mutant::AddArrivingRows, Mutant::ReuseFeedPositions];
    check(fed, MUTANT_SEEDS).assert_detected(&soon, &[]);
}
