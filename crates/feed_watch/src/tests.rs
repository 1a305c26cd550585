//! Laws of waits: who waits is woken, and a thousand waiters cost what one does.

use crate::bucket_poller::BucketPoller;
use crate::feed_signals::WATCHED_MS;
use crate::{
    ChangeSource, ChangesFuture, FeedPages, FeedSignals, FeedWatch, PageFuture, RecentChanges,
    follow_nodes,
};
use base::feed::{FeedOrigin, feed_building, malformed_token};
use base::index::BuildProgress;
use base::limits::FEED_WATCHERS_MAX;
use base::{BucketName, Error, FeedPage, NodeId};
use bytes::Bytes;
use change_feed::{ChangeMark, FeedChanges};
use runtime::{CancellationToken, world};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

/// Number of requests that wait.
const WAITERS: usize = 1_000;

fn bucket(number: usize) -> BucketName {
    BucketName::new("available", &format!("b{number}")).expect("a name")
}

fn watches(signals: &Arc<FeedSignals>, number: usize, count: usize) -> Vec<FeedWatch> {
    (0..count).map(|_| signals.watch(&bucket(number)).expect("there is space")).collect()
}

/// Returns true if the signal of a wait has changed. Takes the change.
fn is_woken(watch: &mut FeedWatch) -> bool {
    // Tokio makes a task pause that has polled many times.
    let changed = pin!(tokio::task::unconstrained(watch.changed()));
    changed.poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn woken(watches: &mut [FeedWatch]) -> usize {
    watches.iter_mut().map(is_woken).filter(|is_woken| *is_woken).count()
}

/// Sets the time of this thread, in milliseconds, until it is dropped.
struct TestTime;

impl TestTime {
    fn set(&self, ms: u64) {
        world::set_time(Some(ms * 1_000_000));
    }
}

impl Drop for TestTime {
    fn drop(&mut self) {
        world::set_time(None);
    }
}

#[test]
fn signal_wakes_all_who_wait_for_its_bucket_and_nobody_else() {
    let signals = Arc::<FeedSignals>::default();
    let (mut first, mut second) = (watches(&signals, 1, 3), watches(&signals, 2, 2));
    assert_eq!((woken(&mut first), woken(&mut second)), (0, 0));
    signals.signal(&bucket(1));
    signals.signal(&bucket(3));
    assert_eq!((woken(&mut first), woken(&mut second)), (3, 0));
    assert_eq!(woken(&mut first), 0, "each change wakes once");
    signals.signal_all();
    assert_eq!((woken(&mut first), woken(&mut second)), (3, 2));
    assert_eq!(woken(&mut watches(&signals, 1, 1)), 0, "it came later");
}

#[test]
fn bucket_is_forgotten_some_time_after_its_last_waiter() {
    let (time, signals) = (TestTime, Arc::<FeedSignals>::default());
    time.set(1);
    let waiting = watches(&signals, 1, 1);
    time.set(1 + 2 * WATCHED_MS);
    assert_eq!(signals.watched(), [bucket(1)]);
    drop(waiting);
    time.set(2 * WATCHED_MS + WATCHED_MS);
    assert_eq!(signals.watched(), [bucket(1)], "a reader asks again soon");
    time.set(1 + 3 * WATCHED_MS);
    assert_eq!(signals.watched(), []);
    let all: Vec<_> = (0..FEED_WATCHERS_MAX).flat_map(|it| watches(&signals, it, 1)).collect();
    assert!(signals.watch(&bucket(FEED_WATCHERS_MAX)).is_none(), "too many buckets");
    assert!(signals.watch(&bucket(0)).is_some(), "one that is watched has space for all");
    drop(all);
}

#[test]
fn token_is_level_until_the_next_signal_of_its_bucket() {
    let (time, signals) = (TestTime, Arc::<FeedSignals>::default());
    time.set(1);
    let (mut watch, other) =
        (signals.watch(&bucket(1)).expect("space"), signals.watch(&bucket(2)).expect("space"));
    assert!(!watch.is_level(b"t1"));
    watch.note_level(b"t1");
    assert!(watch.is_level(b"t1") && !watch.is_level(b"t2"));
    assert!(!other.is_level(b"t1"), "another bucket");
    signals.signal(&bucket(2));
    assert!(signals.watch(&bucket(1)).expect("space").is_level(b"t1"));
    signals.signal(&bucket(1));
    assert!(!watch.is_level(b"t1"));
    watch.note_level(b"t1");
    assert!(!watch.is_level(b"t1"), "the page may be older than the signal");
    assert!(is_woken(&mut watch));
    watch.note_level(b"t1");
    assert!(watch.is_level(b"t1"));
    time.set(60_000);
    watch.note_level(b"t1");
    time.set(60_001);
    assert!(!watch.is_level(b"t1"), "a page is read from time to time");
}

#[test]
fn changes_are_noted_for_those_who_asked_and_told_behind_their_mark() {
    let (time, recent) = (TestTime, RecentChanges::new(7));
    time.set(5_000);
    assert!(!recent.is_asked());
    let asked = |behind| {
        assert!(recent.ask(Some(behind)), "it is known");
        let waiting = pin!(recent.wait_behind(behind, Duration::ZERO));
        match waiting.poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(changes) => changes,
            std::task::Poll::Pending => panic!("there are changes"),
        }
    };
    assert!(!recent.ask(None) && recent.is_asked());
    let FeedChanges { mark, buckets } = recent.any();
    assert_eq!((mark.life, buckets), (7, None));
    recent.note([bucket(1), bucket(2)].into());
    recent.note([bucket(1)].into());
    let found = asked(mark);
    assert_eq!(found.buckets, Some(vec![bucket(2), bucket(1)]), "each once, the last one last");
    recent.note([bucket(3)].into());
    assert_eq!(asked(found.mark).buckets, Some(vec![bucket(3)]));
    for (life, number) in [(6, mark.number), (7, mark.number - 1), (7, mark.number + 9)] {
        assert!(!recent.ask(Some(ChangeMark { life, number })), "{life} {number}");
    }
    recent.note((10..1_034).map(bucket).collect());
    assert!(!recent.ask(Some(mark)), "one of the changes behind it is forgotten");
    let mark = recent.any().mark;
    assert!(recent.ask(Some(mark)));
    time.set(60_000);
    assert!(!recent.is_asked(), "nobody asks any more");
    assert!(!recent.ask(Some(mark)), "changes of the meantime were not noted");
}

/// Nodes whose changes the test makes.
struct TestNodes {
    nodes: BTreeMap<NodeId, Arc<RecentChanges>>,
    questions: AtomicUsize,
}

impl ChangeSource for TestNodes {
    fn nodes(&self) -> BTreeSet<NodeId> {
        self.nodes.keys().copied().collect()
    }

    fn changes(self: Arc<Self>, node: NodeId, behind: Option<ChangeMark>) -> ChangesFuture {
        self.questions.fetch_add(1, Ordering::Relaxed);
        let (recent, stop) = (self.nodes[&node].clone(), CancellationToken::new());
        // Until there is a change: the test has no clock.
        let wait = Duration::from_secs(3_600);
        let readable = async { Ok(()) };
        Box::pin(async move { recent.answer(behind, wait, readable, &stop).await })
    }
}

#[tokio::test]
async fn thousand_waiters_share_one_question_to_each_node_and_all_are_woken() {
    let node = |number| (NodeId(number), Arc::new(RecentChanges::new(1)));
    let nodes = BTreeMap::from([node(1), node(2)]);
    let source = Arc::new(TestNodes { nodes, questions: AtomicUsize::new(0) });
    let (signals, stop) = (Arc::<FeedSignals>::default(), CancellationToken::new());
    let (mut first, mut second) = (watches(&signals, 1, WAITERS), watches(&signals, 2, 1));
    let following = tokio::spawn(follow_nodes(source.clone(), signals.clone(), stop.clone()));
    // Their pages may be older than what the nodes note, so each is woken first, by the two nodes
    // together or apart.
    for watch in first.iter_mut().chain(&mut second) {
        watch.changed().await;
    }
    let is_asked_again = || source.questions.load(Ordering::Relaxed) == 4;
    while !is_asked_again() {
        tokio::task::yield_now().await;
    }
    // By the other node.
    let _ = woken(&mut first) + woken(&mut second);
    source.nodes[&NodeId(2)].note([bucket(1)].into());
    for watch in &mut first {
        watch.changed().await;
    }
    assert_eq!(woken(&mut second), 0, "its bucket has not changed");
    let questions = source.questions.load(Ordering::Relaxed);
    assert!((4..=5).contains(&questions), "{questions} questions");
    stop.cancel();
    following.await.expect("it ends");
}

/// Feeds of which the test says what a page has.
#[derive(Default)]
struct TestPages {
    /// What has happened since the last page of a poller.
    next: Mutex<NextPage>,
    read: Mutex<Vec<FeedOrigin>>,
}

#[derive(Default)]
enum NextPage {
    #[default]
    Level,
    More,
    Fails(Error),
}

impl FeedPages for TestPages {
    fn page(self: Arc<Self>, _bucket: BucketName, from: FeedOrigin) -> PageFuture {
        let mut read = self.read.lock().expect("one thread");
        read.push(from.clone());
        let next = Bytes::from(format!("t{}", read.len()));
        let page = |level| FeedPage { events: Vec::new(), next, level, restart: false };
        let answer = match &*self.next.lock().expect("one thread") {
            NextPage::Fails(error) => Err(error.clone()),
            NextPage::More if from != FeedOrigin::Now => Ok(page(false)),
            NextPage::Level | NextPage::More => Ok(page(true)),
        };
        Box::pin(async move { answer })
    }
}

#[tokio::test]
async fn thousand_waiters_share_one_poll_and_all_are_woken() {
    let (pages, signals) = (Arc::<TestPages>::default(), Arc::<FeedSignals>::default());
    let mut poller = BucketPoller::new(pages.clone(), signals.clone());
    let mut waiting = watches(&signals, 1, WAITERS);
    let read = || std::mem::take(&mut *pages.read.lock().expect("one thread"));
    let set = |next| *pages.next.lock().expect("one thread") = next;
    let token = |number: u32| FeedOrigin::Token(format!("t{number}").into());

    poller.take_round().await;
    assert_eq!(read(), [FeedOrigin::Now]);
    assert_eq!(woken(&mut waiting), WAITERS, "their pages may be older than the poll's");
    poller.take_round().await;
    assert_eq!((read(), woken(&mut waiting)), (vec![token(1)], 0));
    set(NextPage::More);
    poller.take_round().await;
    assert_eq!((read(), woken(&mut waiting)), (vec![token(1), FeedOrigin::Now], WAITERS));

    set(NextPage::Fails(feed_building(&bucket(1), BuildProgress::default())));
    poller.take_round().await;
    assert_eq!((read(), woken(&mut waiting)), (vec![token(2)], 0), "another poll will tell");
    set(NextPage::Fails(malformed_token()));
    poller.take_round().await;
    assert_eq!((read().len(), woken(&mut waiting)), (2, WAITERS), "each gets the error itself");
}
