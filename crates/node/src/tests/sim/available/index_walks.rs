//! Queries of indexes of available buckets, page by page at random nodes, and their judge: queries
//! show what reads would show, and keys that nobody changes exactly once.

use super::clients::{self, ask_call};
use super::indexed::{INDEXES, index_name};
use super::world::World;
use base::index::{IndexContent, IndexQuery, TermSelection};
use base::range::Direction;
use base::reply::IndexRecord;
use base::{
    AvailableCall, Body, Bound, BucketName, Call, Content, Headers, IndexRow, Key, Read, ReadLevel,
    Reason, Reply, Store,
};
use bytes::Bytes;
use sim::FaultTarget as _;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Numbers of keys that no client changes, and the value of the first.
const UNTOUCHED: Range<usize> = 1_000..1_016;
const UNTOUCHED_VALUE: i64 = 1_000_000;
/// Tag of these keys alone, with their value.
const TAG: &str = "u_int";

impl World {
    /// Asserts that a walk shows each term once, in order, with the record that has it; every key
    /// that nobody changes; and, where the ring's changes are the only trouble, every acknowledged
    /// write.
    fn judge_walk(&self, walk: &Walk, stands: &BTreeMap<usize, Vec<usize>>, rows: &[IndexRow]) {
        let mut positions: Vec<_> = rows.iter().map(|row| (term_of(row), &row.key)).collect();
        if walk.query.direction == Direction::Descending {
            positions.reverse();
        }
        let is_ordered = positions.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(is_ordered, "a query is wrong: a row twice, or out of order: {positions:?}");
        for row in rows {
            let Some(IndexRecord::Siblings(record)) = &row.record else { continue };
            let text = row.term.as_ref().expect("it is asked for");
            let has_term = record.values.iter().any(|value| value.content.value == text);
            assert!(has_term, "a query is wrong: {row:?} has another value");
        }
        let has_ttl = self.judge.borrow().has_ttl;
        let is_asked = |value: i64| walk.low.is_none_or(|low| low <= value);
        for (number, value) in UNTOUCHED.zip(UNTOUCHED_VALUE..) {
            let (bucket, key) = self.place(number);
            if bucket != walk.bucket || self.may_lose_disk || has_ttl || !is_asked(value) {
                continue;
            }
            let is_found = positions.contains(&(value, &key));
            assert!(
                is_found,
                "a query is wrong: the untouched {key:?} is missing: {:?}",
                walk.query
            );
        }
        if walk.query.index == TAG {
            let is_tagged = |(term, _): &(i64, &Key)| *term >= UNTOUCHED_VALUE;
            assert!(positions.iter().all(is_tagged), "a query is wrong: {positions:?} have tags");
            self.journal.count("query of a tag");
            return;
        }
        if !self.calm || self.has_stragglers || walk.low.is_some() {
            return;
        }
        for (number, stood) in stands {
            let (bucket, key) = self.place(*number);
            if bucket == walk.bucket {
                let shown = positions.iter().filter(|(_, it)| **it == key);
                let shown: Vec<_> = shown.map(|(term, _)| *term as usize).collect();
                self.judge.borrow().check_read(*number, stood, &shown);
                self.journal.count("query that must meet");
            }
        }
    }

    /// Judges queries once all copies are equal.
    pub(super) fn judge_settled_queries(self: &Rc<World>) {
        if !self.is_indexed.get() || self.judge.borrow().has_ttl {
            return;
        }
        self.judge_indexes();
        let mut expected: BTreeMap<BucketName, Vec<(i64, Key)>> = BTreeMap::new();
        for number in (0..self.keys).chain(UNTOUCHED) {
            let (bucket, key) = self.place(number);
            let values = self.values_of(number).into_iter();
            let values = values.map(|value| (value as i64, key.clone()));
            expected.entry(bucket).or_default().extend(values);
        }
        for bucket in self.buckets() {
            // A write that was repeated may have left two siblings with one value.
            let expected = expected.entry(bucket).or_default();
            expected.sort();
            expected.dedup();
        }
        let before = self.journal.count_of("query at the end");
        self.scheduler.spawn(None, judge_end(Rc::clone(self), expected));
        for _ in 0..100 {
            self.scheduler.run(100_000);
            if self.journal.count_of("query at the end") > before {
                return;
            }
        }
        panic!("a query is wrong: it does not end");
    }
}

fn term_of(row: &IndexRow) -> i64 {
    let text = row.term.as_ref().expect("terms are asked for");
    std::str::from_utf8(text).expect("decimal").parse().expect("an integer")
}

/// Query of an index, for all of its pages.
struct Walk {
    bucket: BucketName,
    query: IndexQuery,
    /// First term that is asked for. `None`: all are.
    low: Option<i64>,
}

impl Walk {
    fn draw(world: &World) -> Walk {
        let bucket = world.draw_bucket();
        let (index, direction, want, rows_max, low) = world.scheduler.draw(|chance| {
            let direction =
                if chance.draw_bool(300) { Direction::Descending } else { Direction::Ascending };
            let want =
                if chance.draw_bool(300) { IndexContent::Records } else { IndexContent::Terms };
            let low = chance.draw_bool(200).then_some(UNTOUCHED_VALUE + 5);
            (chance.index(INDEXES + 1), direction, want, chance.between(1, 20), low)
        });
        let low_bound = low.map_or(Bound::Open, |low| Bound::Included(low.to_string().into()));
        let query = IndexQuery {
            index: if index == INDEXES { TAG.into() } else { index_name(index).into() },
            terms: TermSelection::Between(low_bound, Bound::Open),
            direction,
            rows_max: Some(rows_max as usize),
            want,
            timeout_ms: Some(1_000),
            ..IndexQuery::default()
        };
        Walk { bucket, query, low }
    }

    /// Returns the rows of all pages, each asked of a random node. `None`: a page was refused
    /// again and again, or the index is another one by now.
    async fn rows(&self, world: &Rc<World>) -> Option<Vec<IndexRow>> {
        let (mut rows, mut query, mut refusals) = (Vec::new(), self.query.clone(), 0);
        loop {
            let nth = world.scheduler.draw(|chance| chance.index(world.count));
            let read = Call::Read(Read::Index(Box::new(query.clone())), ReadLevel::Consistent);
            let page = match ask_call(world, nth, self.bucket.clone(), read).await {
                Some(Ok(Reply { body: Body::IndexPage(page), .. })) => page,
                Some(Err(error)) if error.reason == Reason::Malformed => return None,
                other => {
                    refusals += 1;
                    if refusals > 10 {
                        return None;
                    }
                    world.tell(|| format!("query at {nth}: {other:?}"));
                    world.journal.count("query in vain");
                    let pause = world.scheduler.draw(|chance| chance.between(5_000, 300_000));
                    world.scheduler.sleep_us(pause).await;
                    continue;
                }
            };
            world.tell(|| {
                let keys: Vec<_> = page.rows.iter().map(|row| &row.key).collect();
                format!("query {query:?} at {nth}: {keys:?}, more: {}", page.after.is_some())
            });
            assert!(!page.is_partial);
            assert!(query.rows_max.is_none_or(|most| page.rows.len() <= most));
            rows.extend(page.rows);
            query.after = page.after;
            if query.after.is_none() {
                return Some(rows);
            }
        }
    }
}

/// Queries until the trouble ends.
pub(super) async fn query(world: Rc<World>) {
    while world.injects_faults() {
        let pause = world.scheduler.draw(|chance| chance.between(5_000, 300_000));
        world.scheduler.sleep_us(pause).await;
        let walk = Walk::draw(&world);
        let acknowledged = |number| (number, world.judge.borrow().acknowledged(number));
        let stands = (0..world.keys).map(acknowledged).collect();
        if let Some(rows) = walk.rows(&world).await {
            world.judge_walk(&walk, &stands, &rows);
            world.journal.count("query");
        }
    }
}

/// Writes the keys that nobody changes.
pub(super) async fn write_untouched(world: Rc<World>, written: Rc<Cell<bool>>) {
    for (number, value) in UNTOUCHED.zip(UNTOUCHED_VALUE..) {
        let (bucket, key) = world.place(number);
        let value = Bytes::from(value.to_string());
        let headers = Headers { indexes: vec![(TAG.into(), value.clone())], ..Headers::default() };
        let content = Content { value, headers };
        let store = Store { key, content, ..Store::default() };
        let call = || AvailableCall::Store(Box::new(store.clone()));
        let nth = || world.scheduler.draw(|chance| chance.index(world.count));
        while !matches!(clients::ask(&world, nth(), bucket.clone(), call()).await, Some(Ok(_))) {
            world.scheduler.sleep_us(50_000).await;
        }
    }
    written.set(true);
}

/// Compares the rows of a query at the end, of every node, with the rows of the keys.
async fn judge_end(world: Rc<World>, expected: BTreeMap<BucketName, Vec<(i64, Key)>>) {
    for (bucket, expected) in expected {
        for number in 0..INDEXES {
            let query = IndexQuery {
                index: index_name(number).into(),
                want: IndexContent::Terms,
                ..IndexQuery::default()
            };
            let walk = Walk { bucket: bucket.clone(), query, low: None };
            let rows = walk.rows(&world).await.expect("everyone lives");
            let found: Vec<_> = rows.iter().map(|row| (term_of(row), row.key.clone())).collect();
            assert!(found == expected, "a query is wrong: {found:?}, not {expected:?}");
        }
    }
    world.journal.count("query at the end");
}
