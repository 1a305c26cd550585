//! Cost of work after many writes and removals: rows walked for each row that is returned or due,
//! on a master, on the next one, and after a restart.

use super::buckets::space_is_back;
use super::cluster::{LOG_BYTES, collapse, large_values, received};
use super::test_cluster::{GROUP, TestCluster, bucket, wait};
use super::{Place, bytes as text};
use base::mutants::activate_on_thread;
use base::range::Direction;
use base::request::{ExpireWhen, Expiry, OnMissing};
use base::{Body, Bound, BucketName, Call, DirectoryCall, Range, Read, Request, RetryId, Update};
use bytes::Bytes;
use replica_state::layout::{self, Space};
use replication::group::Group;
use replication::read::read;
use replication::session::SessionUse;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use store::mutants::StoreMutant;

const ROWS: u32 = 20_000;
/// Number of updates under way at a time.
const TOGETHER: usize = 250;
const HOUR_MS: u64 = 3_600_000;
/// Points that a time series keeps, and those that it gets and drops at a time.
const POINTS: u32 = 1_000;
const POINTS_PER_STEP: u32 = 50;
/// Number of steps of a series; each reads three ranges.
const SERIES_STEPS: u64 = 100;

/// Submits updates to a group, many at a time, and waits until all are decided.
async fn take(group: &Group, updates: impl Iterator<Item = Update>) {
    let updates: Vec<Update> = updates.collect();
    for some in updates.chunks(TOGETHER) {
        let mut last = None;
        for update in some {
            let (ticket, _, outcome) = group.submit(&bucket(), update, None).expect("it is taken");
            outcome.expect("it goes");
            last = ticket.or(last);
        }
        group.wait_applied(last.expect("a value")).await.expect("it is decided");
    }
}

fn key(number: u32) -> Bytes {
    text(&format!("{number:08}"))
}

fn set_for(number: u32, ms: u64) -> Update {
    Update::Set { key: key(number), value: text("v"), expiry: Expiry::After(ms) }
}

fn set(number: u32) -> Update {
    Update::Set { key: key(number), value: text("v"), expiry: Expiry::Never }
}

fn delete(number: u32) -> Update {
    Update::Delete { key: key(number), missing: OnMissing::Skip }
}

/// Rows that range reads of a node walked over and returned so far.
fn counts(cluster: &TestCluster, nth: usize) -> (u64, u64) {
    let trees = cluster.nodes[nth].as_ref().expect("it runs").status.trees.statistics();
    (trees.rows_walked, trees.rows_returned)
}

/// No more than two rows were walked for one that was given out since then, and some.
fn is_bounded(cluster: &TestCluster, nth: usize, since: (u64, u64), what: &str) {
    let now = counts(cluster, nth);
    let (walked, returned) = (now.0 - since.0, now.1 - since.1);
    assert!(is_cheap((walked, returned)), "{what}: {walked} rows walked for {returned}");
}

fn is_cheap((walked, returned): (u64, u64)) -> bool {
    walked <= 2 * returned + 500
}

/// Expiry hints that a node's store has.
fn hints(cluster: &TestCluster, nth: usize) -> usize {
    let mut low = Vec::new();
    layout::space_key(GROUP, Space::Expiry, &mut low);
    let trees = &cluster.nodes[nth].as_ref().expect("it runs").status.trees;
    let rows = store::Chunk::read(&*trees.snapshot(), &low, None, usize::MAX).expect("it reads");
    rows.rows.len()
}

fn first_keys(group: &Group, rows: usize) -> Vec<Bytes> {
    keys_in(group, Range { rows_max: Some(rows), ..Range::default() })
}

fn keys_in(group: &Group, range: Range) -> Vec<Bytes> {
    match read(group, &bucket(), &Read::Range(range)).expect("a page").body {
        Body::Page(page) => page.entries.into_iter().map(|entry| entry.key).collect(),
        other => panic!("a range is answered with a page, not {other:?}"),
    }
}

fn count(group: &Group) -> u64 {
    match read(group, &bucket(), &Read::KeyCount).expect("a count").body {
        Body::Count(count) => count,
        other => panic!("keys are counted, not {other:?}"),
    }
}

async fn hand_over(cluster: &TestCluster) -> usize {
    let from = cluster.master().await;
    let to = (from + 1) % cluster.nodes.len();
    wait("the next master", || {
        let _ = cluster.group(from).hand_over(cluster.ids[to]);
        cluster.group(to).leadership.is_master().then_some(())
    })
    .await;
    to
}

/// Learns in the background, which a test does not wait for.
fn study(cluster: &TestCluster, nth: usize) {
    let trees = Arc::clone(&cluster.nodes[nth].as_ref().expect("it runs").status.trees);
    trees.compact().expect("it merges");
}

#[tokio::test]
async fn expiry_sweep_cost_is_bounded_by_due_rows_at_any_master() {
    let mut cluster = TestCluster::with_long_lease(3, 3).await;
    for round in 0..3 {
        let master = match round {
            0 => cluster.master().await,
            1 => hand_over(&cluster).await,
            _ => {
                for nth in 0..3 {
                    cluster.stop(nth).await;
                    cluster.start(nth).await;
                }
                cluster.master().await
            }
        };
        let group = cluster.group(master);
        study(&cluster, master);
        let since = counts(&cluster, master);
        let ages = |number: u32| u64::from(number % 97) * 10 + 1;
        take(&group, (0..ROWS).map(|number| set_for(number, ages(number)))).await;
        wait("the last to expire", || (hints(&cluster, master) == 0).then_some(())).await;
        is_bounded(&cluster, master, since, &format!("round {round}"));
        let metrics = &cluster.nodes[master].as_ref().expect("it runs").router.metrics;
        assert!(metrics.expired.load(Ordering::Relaxed) >= u64::from(ROWS) / 2);
    }
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}

#[tokio::test]
async fn touched_or_deleted_row_leaves_no_stale_expiry_hint() {
    let mut cluster = TestCluster::new(1, 1).await;
    let group = cluster.group(cluster.master().await);
    take(&group, (0..ROWS).map(|number| set_for(number % 100, HOUR_MS + u64::from(number)))).await;
    assert_eq!(hints(&cluster, 0), 100, "a touch takes the place of the last");
    let expire = |expiry| {
        move |number| Update::Expire { key: key(number), expiry, when: ExpireWhen::Always }
    };
    take(&group, (0..50).map(expire(Expiry::After(2 * HOUR_MS)))).await;
    assert_eq!(hints(&cluster, 0), 100, "so does another time to live");
    take(&group, (0..20).map(expire(Expiry::Never))).await;
    assert_eq!(hints(&cluster, 0), 80, "who lives for ever is not looked at");
    take(&group, (20..50).map(delete)).await;
    assert_eq!(hints(&cluster, 0), 50, "nor is who is gone");
    let since = counts(&cluster, 0);
    let expired = || group.shared.metrics.expired.load(Ordering::Relaxed);
    let before = expired();
    take(&group, [set_for(7, 1)].into_iter()).await;
    wait("the sweep", || (expired() > before).then_some(())).await;
    is_bounded(&cluster, 0, since, "a look at what is due");
    wait("the row to go", || (count(&group) == 69).then_some(())).await;
    cluster.stop(0).await;
}

#[tokio::test]
async fn queue_pop_and_key_count_cost_is_bounded_at_any_master() {
    let mut cluster = TestCluster::with_long_lease(3, 3).await;
    let master = cluster.master().await;
    let group = cluster.group(master);
    take(&group, (0..ROWS).map(set)).await;
    let since = counts(&cluster, master);
    for popped in 0..500 {
        assert_eq!(first_keys(&group, 1), [key(popped)]);
        take(&group, [delete(popped)].into_iter()).await;
    }
    is_bounded(&cluster, master, since, "a queue");
    take(&group, (500..ROWS - 100).map(delete)).await;
    let mut at = master;
    for round in 0..3 {
        match round {
            0 => {}
            1 => at = hand_over(&cluster).await,
            _ => {
                cluster.stop(at).await;
                cluster.start(at).await;
                at = hand_over(&cluster).await;
            }
        }
        study(&cluster, at);
        let (group, since) = (cluster.group(at), counts(&cluster, at));
        assert_eq!(first_keys(&group, 2), [key(ROWS - 100), key(ROWS - 99)]);
        is_bounded(&cluster, at, since, &format!("the first, round {round}"));
        assert_eq!(count(&group), 100);
        is_bounded(&cluster, at, since, &format!("a count, round {round}"));
    }
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}

/// Costs of the range reads of a time series.
#[derive(Debug, Default)]
struct SeriesCosts {
    /// Rows that reads of the oldest points walked and returned, as the client reads that drops
    /// them.
    oldest: (u64, u64),
    /// The same of the points since a time.
    recent: (u64, u64),
    /// The same of the last points, the newest first.
    newest: (u64, u64),
}

/// Appends points to a time series and drops as many of its oldest, a hundred times; reads it after
/// each. `next`: number of the next point.
async fn run_series(cluster: &TestCluster, nth: usize, next: &mut u32) -> SeriesCosts {
    let (group, mut costs) = (cluster.group(nth), SeriesCosts::default());
    let cost_of = |cost: &mut (u64, u64), range: Range, expected: [u32; 2]| {
        let before = counts(cluster, nth);
        let found = keys_in(&group, range);
        let after = counts(cluster, nth);
        assert_eq!([found.first(), found.last()], expected.map(key).each_ref().map(Some));
        *cost = (cost.0 + after.0 - before.0, cost.1 + after.1 - before.1);
    };
    for _ in 0..SERIES_STEPS {
        take(&group, (*next..*next + POINTS_PER_STEP).map(set)).await;
        *next += POINTS_PER_STEP;
        let (first, last) = (*next - POINTS, *next - 1);
        take(&group, (first - POINTS_PER_STEP..first).map(delete)).await;
        let page = || Range { rows_max: Some(POINTS_PER_STEP as usize), ..Range::default() };
        cost_of(&mut costs.oldest, page(), [first, first + POINTS_PER_STEP - 1]);
        let since = *next - 2 * POINTS_PER_STEP;
        let recent = Range { low: Bound::Included(key(since)), ..Range::default() };
        cost_of(&mut costs.recent, recent, [since, last]);
        let newest = Range { direction: Direction::Descending, ..page() };
        cost_of(&mut costs.newest, newest, [last, *next - POINTS_PER_STEP]);
    }
    costs
}

#[tokio::test]
async fn time_series_read_cost_does_not_grow_with_dropped_points_at_any_master() {
    let mut cluster = TestCluster::with_long_lease(3, 3).await;
    let (mut at, mut next) = (cluster.master().await, POINTS);
    take(&cluster.group(at), (0..POINTS).map(set)).await;
    for round in 0..3 {
        match round {
            0 => {}
            1 => at = hand_over(&cluster).await,
            _ => {
                for nth in 0..3 {
                    cluster.stop(nth).await;
                    cluster.start(nth).await;
                }
                at = cluster.master().await;
            }
        }
        study(&cluster, at);
        let costs = run_series(&cluster, at, &mut next).await;
        // A read may meet some points that were dropped since the last search for dead rows.
        let [oldest, recent, newest] = [costs.oldest, costs.recent, costs.newest]
            .map(|(walked, returned)| walked <= 2 * returned + SERIES_STEPS * 64);
        assert!(oldest && recent && newest, "round {round}: {costs:?}");
    }
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}

/// The positive control: reads of the oldest points that do not jump over dropped ones are found.
#[tokio::test]
async fn cost_check_detects_time_series_reads_that_walk_over_dropped_points() {
    let mut cluster = TestCluster::new(1, 1).await;
    let (at, mut next) = (cluster.master().await, POINTS);
    take(&cluster.group(at), (0..POINTS).map(set)).await;
    activate_on_thread(Some(StoreMutant::IgnoreDeadSpans));
    let costs = run_series(&cluster, at, &mut next).await;
    activate_on_thread::<StoreMutant>(None);
    assert!(!is_cheap(costs.oldest) && is_cheap(costs.recent), "{costs:?}");
    cluster.stop(0).await;
}

#[tokio::test]
async fn session_cost_per_update_does_not_grow_with_its_length() {
    let mut cluster = TestCluster::new(1, 1).await;
    let group = cluster.group(cluster.master().await);
    let (ticket, session) = group.open_session(&bucket(), None).expect("it opens");
    group.wait_applied(ticket).await.expect("it is decided");
    let since = counts(&cluster, 0);
    let mut last = None;
    for number in 1..=u64::from(ROWS) {
        let retry = Some(SessionUse { retry: RetryId { session, number }, user: None });
        let (ticket, _, outcome) = group.submit(&bucket(), &set(1), retry).expect("it is taken");
        outcome.expect("it goes");
        last = ticket.or(last);
        if number % TOGETHER as u64 == 0 {
            group.wait_applied(last.expect("a value")).await.expect("it is decided");
        }
    }
    is_bounded(&cluster, 0, since, "outcomes");
    let since = counts(&cluster, 0);
    let ticket = group.close_session(&bucket(), session, None).expect("it closes");
    group.wait_applied(ticket.expect("a value")).await.expect("it is decided");
    is_bounded(&cluster, 0, since, "the end of the session");
    let mut outcomes = Vec::new();
    layout::space_key(GROUP, Space::Outcome, &mut outcomes);
    let trees = &cluster.nodes[0].as_ref().expect("it runs").status.trees;
    let remaining = store::Chunk::read(&*trees.snapshot(), &outcomes, None, usize::MAX);
    assert!(remaining.expect("it reads").rows.is_empty(), "nothing is left of it");
    cluster.stop(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_after_snapshot_walk_no_deleted_rows() {
    let mut cluster = TestCluster::with_long_lease_and_log(3, 3, LOG_BYTES).await;
    let master = cluster.master().await;
    let away = (master + 1) % 3;
    let group = cluster.group(master);
    take(&group, (0..ROWS).map(set)).await;
    wait("what is to be gone", || (count(&cluster.group(away)) == u64::from(ROWS)).then_some(()))
        .await;
    cluster.stop(away).await;
    take(&group, (0..ROWS - 100).map(delete)).await;
    let last = large_values(&cluster, 0..40).await;
    collapse(&cluster).await;
    cluster.start(away).await;
    cluster.applied(away, last).await;
    assert!(received(&cluster, away) >= 1);
    let (group, since) = (cluster.group(away), counts(&cluster, away));
    assert_eq!(first_keys(&group, 2), [key(ROWS - 100), key(ROWS - 99)]);
    is_bounded(&cluster, away, since, "the first");
    assert_eq!(count(&group), 140);
    is_bounded(&cluster, away, since, "a count");
    for nth in 0..3 {
        cluster.stop(nth).await;
    }
}

#[tokio::test]
async fn dropped_buckets_do_not_slow_down_listing() {
    const BUCKETS: usize = 1_500;
    let place = Place::new();
    let node = place.start().await;
    let direct = async |name: &str, call: DirectoryCall| {
        let bucket = BucketName::parse(name).expect("a name");
        let request = Request { bucket, call: Call::Directory(call), retry: None };
        node.handle(&base::Principal::Node, request).await.expect("it goes").body
    };
    for number in 0..BUCKETS {
        direct(&format!("b{number}"), DirectoryCall::CreateBucket(vec![])).await;
        direct(&format!("b{number}"), DirectoryCall::DropBucket).await;
    }
    assert!(space_is_back(&node).await);
    direct("last", DirectoryCall::CreateBucket(vec![])).await;
    let trees = &node.status.trees;
    trees.compact().expect("it merges");
    let before = trees.statistics();
    for _ in 0..10 {
        let list = DirectoryCall::ListBuckets { after: None, rows_max: 1_000 };
        let Body::Buckets(found) = direct("last", list).await else { panic!("a list") };
        assert!(found.iter().any(|bucket| bucket.name.to_string().contains("last")));
        assert!(found.len() < 10, "{} buckets are left", found.len());
        assert!(node.router.directory.dropped_buckets().expect("readable").is_empty());
    }
    let after = trees.statistics();
    let walked = after.rows_walked - before.rows_walked;
    let returned = after.rows_returned - before.rows_returned;
    assert!(walked <= 2 * returned + 500, "{walked} rows walked for {returned}");
    node.stop().await.expect("it stops");
}
