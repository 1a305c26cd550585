//! Pages of a feed, bridges and retention, on the store of one node.

use super::super::keys::position_in;
use super::super::*;
use super::{LIFE, at, bucket, compared, query, record};
use crate::batch::{KeyChanges, Mark};
use crate::layout::{Row, StoredValue, row_key, write_row};
use crate::slots::Slot;
use base::{Actor, Content, NodeId};
use bytes::Bytes;
use change_feed::{BRIDGES_MAX, Bridge, FeedTotals, SlotSet, VnodePosition};
use logic::causal::Dot;
use std::collections::BTreeSet;
use std::ops::Bound;
use store::{MemoryTrees, RowChange, Trees};

/// Store of one node with a feed that is ready.
struct FeedStore {
    trees: MemoryTrees,
    feeds: FeedSet,
    batch: u64,
}

impl FeedStore {
    fn new() -> FeedStore {
        let mut store =
            FeedStore { trees: MemoryTrees::new(1 << 20), feeds: FeedSet::default(), batch: 0 };
        let ready =
            VnodeFeedRecord { floor: VnodePosition::START, ..record(VnodeFeedPhase::Ready) };
        store.feeds.insert(&bucket(), ready.clone());
        store.apply(vec![(feed_record_key(&bucket()), Some(ready.write()))]);
        store
    }

    fn apply(&mut self, changes: KeyChanges) {
        self.batch += 1;
        let mark = Mark { applied: self.batch, clean_incarnation: 0 };
        let row_change = |(key, value): (Bytes, Option<Bytes>)| match value {
            Some(value) => RowChange::Put(key, value),
            None => RowChange::Remove(key),
        };
        let changes = changes.into_iter().map(row_change).chain([mark.change()]);
        self.trees.apply(&mut changes.into_iter()).expect("memory");
    }

    /// Changes the row of a key, as `dynamo` does. Returns its slot.
    fn change(&mut self, key: &'static str, row: Option<Bytes>, now_ms: u64) -> Slot {
        let tree_key = row_key(&bucket(), key.as_bytes());
        let before = self.trees.get(&tree_key).expect("memory");
        let mut changes = KeyChanges::new();
        let place = (at(self.batch + 1), now_ms);
        self.feeds.push_entry(&tree_key, (before.as_ref(), row.as_ref()), place, &mut changes);
        changes.push((tree_key, row));
        self.apply(changes);
        Slot::for_key(&bucket(), key.as_bytes())
    }

    fn page(&self, sections: Vec<FeedSection>, entries_max: usize) -> VnodeFeedPage {
        self.answer(&query(sections, entries_max))
    }

    /// Reads all that a node tells which may own the slots no more.
    fn page_of_former_owner(&self) -> VnodeFeedPage {
        let sections = all_behind(VnodePosition::START);
        self.answer(&VnodeFeedQuery { of_former_owner: true, ..query(sections, 9) })
    }

    fn answer(&self, query: &VnodeFeedQuery) -> VnodeFeedPage {
        let snapshot = self.trees.snapshot();
        match read_feed_answer(&*snapshot, LIFE, &bucket(), query).expect("memory") {
            FeedAnswer::Page(page) => page,
            other => panic!("a page, not {other:?}"),
        }
    }

    fn retention_page(&self, old_ms: u64, excess_bytes: u64) -> RetentionPage {
        let bounds = DeadEntryBounds { old_ms, excess_bytes };
        let snapshot = self.trees.snapshot();
        let behind = VnodePosition::START;
        read_retention_page(&*snapshot, &bucket(), behind, bounds).expect("memory")
    }
}

fn row(count: u64, value: Option<&'static str>) -> Option<Bytes> {
    let mut row = Row::empty();
    let content = value.map(|value| Content::plain(value.into()));
    let id = Actor { node: NodeId(1), vnode: 7, incarnation: 1 };
    row.event(Dot { id, count }, StoredValue::new(content.as_ref(), 5));
    Some(write_row(&row))
}

fn all_behind(position: VnodePosition) -> Vec<FeedSection> {
    vec![FeedSection { position, slots: SlotSet::all() }]
}

fn texts(page: &VnodeFeedPage) -> Vec<String> {
    let text = |entry: &SectionEntry| {
        let key = String::from_utf8_lossy(&entry.key);
        format!("{} {key}", entry.kind.name())
    };
    page.entries.iter().map(text).collect()
}

#[test]
fn page_has_the_changes_of_the_asked_slots_that_nothing_replaced() {
    let mut store = FeedStore::new();
    let first = store.change("a", row(1, Some("1")), 1);
    store.change("b", row(1, Some("1")), 1);
    store.change("a", row(2, Some("2")), 1);
    store.change("b", row(2, Some("2")), 1);
    store.change("b", row(2, Some("2")), 1);
    store.change("c", row(1, None), 1);
    let page = store.page(all_behind(VnodePosition::START), 100);
    assert_eq!(texts(&page), ["put a", "put b", "delete c"]);
    assert_eq!(page.entries[0].row, row(2, Some("2")));
    assert_eq!((page.is_level, page.end), (true, VnodePosition::end_of(LIFE, store.batch)));
    assert_eq!(page.level, page.end);

    let short = store.page(all_behind(VnodePosition::START), 1);
    assert_eq!((texts(&short), short.is_level), (vec!["put a".to_string()], false));
    assert_eq!(short.end, short.entries[0].position);
    assert_eq!(texts(&store.page(all_behind(short.end), 100)), ["put b", "delete c"]);
    let nothing = store.page(all_behind(VnodePosition::START), 0);
    assert!(nothing.entries.is_empty() && nothing.end == page.level);

    // Slots of two sections, one of which has been read further.
    let slots: SlotSet = [first.0].into_iter().collect();
    let rest = SlotSet::all().difference(&slots);
    let position = page.entries[0].position;
    let read = FeedSection { position, slots };
    let unread = FeedSection { position: VnodePosition::START, slots: rest };
    let texts_of = |sections| texts(&store.page(sections, 100));
    assert_eq!(texts_of(vec![read, unread.clone()]), ["put b", "delete c"]);
    assert_eq!(texts_of(vec![unread]), ["put b", "delete c"], "nobody asked for that of `a`");
}

#[test]
fn slots_that_came_later_are_told_to_readers_from_before() {
    let mut store = FeedStore::new();
    let two: SlotSet = [3, 4].into_iter().collect();
    store.apply(join_slots(None, two, at(10)).expect("no row"));
    let row = store.trees.get(&joined_row_key()).expect("memory");
    let one: SlotSet = [4].into_iter().collect();
    store.apply(join_slots(row.as_ref(), one, at(20)).expect("a row"));
    let other: SlotSet = [3].into_iter().collect();
    let joined = |batch| store.page(all_behind(at(batch)), 9).joined;
    assert_eq!(joined(5), [(at(10), other), (at(20), one)]);
    assert_eq!((joined(10), joined(20)), (vec![(at(20), one)], Vec::new()));
    let row = store.trees.get(&joined_row_key()).expect("memory");
    assert_eq!(row, Some(b"\x02\0\0\0\x01\x0a\x01\x01\x03\x01\x01\x14\x01\x01\x04\x01"[..].into()));
}

#[test]
fn row_that_is_gone_keeps_its_entry_and_removal_adds_none() {
    let mut store = FeedStore::new();
    store.change("a", row(1, Some("1")), 1);
    store.change("a", None, 1);
    assert_eq!(texts(&store.page_of_former_owner()), ["put a"], "it was handed off");
    let snapshot = store.trees.snapshot();
    assert_eq!(feed_differences(&*snapshot).expect("memory"), []);
}

#[test]
fn put_of_a_reaped_key_is_not_told_without_its_delete() {
    let mut store = FeedStore::new();
    store.change("a", row(1, Some("1")), 10);
    // The clock was set back: the delete gets old before the put does.
    store.change("a", row(2, None), 5);
    store.change("a", None, 10);
    let start = || all_behind(VnodePosition::START);
    assert_eq!(texts(&store.page(start(), 9)), ["delete a"]);
    let old = store.retention_page(7, 0);
    assert_eq!((old.removable.len(), old.floor), (1, at(3)), "the delete");
    store.apply(old.removable.into_iter().map(|key| (key, None)).collect());
    let page = store.page(start(), 9);
    assert_eq!((texts(&page), page.is_level), (Vec::new(), true));
    assert_eq!(
        texts(&store.page_of_former_owner()),
        ["put a"],
        "it can't tell why the row is gone"
    );
}

/// Keys that live when a round examines them first, and are written again for a long time.
#[test]
fn dead_entries_are_bounded_by_the_rounds_though_they_lived_at_first() {
    let (mut store, keys) = (FeedStore::new(), ["a", "b", "c", "d", "e", "f"]);
    let mut now_ms = 0;
    for count in 1..200 {
        for key in &keys[..if count == 1 { 6 } else { 3 }] {
            now_ms += 1;
            store.change(key, row(count, Some("v")), now_ms);
        }
        let round = store.retention_page(now_ms, 0);
        store.apply(round.removable.into_iter().map(|key| (key, None)).collect());
        let (low, high) = entries_behind(&bucket(), VnodePosition::START);
        let entries = store.trees.snapshot().range(low, high, false).count();
        assert_eq!(entries, keys.len(), "each key has its living entry alone");
    }
}

#[test]
fn feed_that_is_built_or_off_answers_with_no_page() {
    let mut store = FeedStore::new();
    let answer = |store: &FeedStore| {
        let query = query(all_behind(VnodePosition::START), 1);
        read_feed_answer(&*store.trees.snapshot(), LIFE, &bucket(), &query).expect("memory")
    };
    for (phase, expected) in [
        (VnodeFeedPhase::Building, FeedAnswer::Building(0, 1_024)),
        (VnodeFeedPhase::Dropping, FeedAnswer::Absent),
        (VnodeFeedPhase::Off, FeedAnswer::Absent),
    ] {
        store.apply(vec![(feed_record_key(&bucket()), Some(record(phase).write()))]);
        assert_eq!(answer(&store), expected);
    }
    store.apply(vec![(feed_record_key(&bucket()), None)]);
    assert_eq!(answer(&store), FeedAnswer::Absent);
    store.feeds.insert(&bucket(), record(VnodeFeedPhase::Dropping));
    store.change("a", row(1, Some("1")), 1);
    let (low, high) = entries_behind(&bucket(), VnodePosition::START);
    assert_eq!(store.trees.snapshot().range(low, high, false).count(), 0, "it has no entries");
}

#[test]
fn retention_removes_what_is_dead_and_old_or_too_much() {
    let mut store = FeedStore::new();
    store.change("living", row(1, Some("1")), 10);
    store.change("a", row(1, Some("1")), 10);
    store.change("a", row(2, Some("2")), 20);
    store.change("deleted", row(1, None), 20);
    store.change("reaped", row(1, None), 30);
    store.change("reaped", None, 30);
    let positions = |page: &RetentionPage| -> BTreeSet<u64> {
        page.removable.iter().map(|key| position_in(key).expect("a key").batch).collect()
    };
    let young = store.retention_page(9, 0);
    assert_eq!((positions(&young), young.end), (BTreeSet::new(), None));
    assert!(young.kept_bytes > 0);
    let replaced = store.retention_page(20, 0);
    assert_eq!((positions(&replaced), replaced.floor), (BTreeSet::from([3]), VnodePosition::START));
    let old = store.retention_page(30, 0);
    assert_eq!((positions(&old), old.floor, old.kept_bytes), (BTreeSet::from([3, 6]), at(6), 0));
    let one = young.kept_bytes / 2 + 5;
    let excess = store.retention_page(9, one);
    assert_eq!(positions(&excess), BTreeSet::from([3]), "the oldest first");
    assert_eq!(excess.kept_bytes + excess.excess_bytes, young.kept_bytes);
}

#[test]
fn extent_of_a_feed_is_what_a_round_has_left_and_what_was_added_since() {
    let mut store = FeedStore::new();
    store.change("living", row(1, Some("1")), 10);
    store.change("a", row(1, Some("1")), 10);
    store.change("a", row(2, Some("2")), 20);
    store.change("b", row(1, Some("1")), 30);
    store.change("b", row(2, None), 40);
    let entries = |store: &FeedStore| {
        let (low, high) = entries_behind(&bucket(), VnodePosition::START);
        let mut totals = FeedTotals::default();
        for entry in store.trees.snapshot().range(low, high, false) {
            let (key, value) = entry.expect("memory");
            totals.add(key.len() + value.len());
        }
        totals
    };
    let added = VnodeFeedExtent { totals: entries(&store), oldest_ms: None };
    assert_eq!((added.totals.entries, store.feeds.extent()), (5, added));
    let since = store.feeds.totals(&bucket());
    let mut round = RetentionRound::default();
    let page = store.retention_page(10, 0);
    round.take(&page);
    store.change("c", row(1, Some("1")), 50);
    store.apply(page.removable.into_iter().map(|key| (key, None)).collect());
    let (next, left) = round.end(0);
    store.feeds.set_extent(&bucket(), left, since);
    let expected = VnodeFeedExtent { totals: entries(&store), oldest_ms: Some(30) };
    assert_eq!((expected.totals.entries, store.feeds.extent()), (5, expected));
    assert_eq!(next.bounds(7), DeadEntryBounds { old_ms: 7, excess_bytes: 0 });
    store.feeds.insert(&bucket(), record(VnodeFeedPhase::Off));
    assert_eq!(store.feeds.extent(), VnodeFeedExtent::default());
}

#[test]
fn second_entry_of_a_row_makes_the_first_one_dead() {
    let mut store = FeedStore::new();
    let slot = store.change("a", row(1, Some("1")), 10);
    let bytes = row(1, Some("1")).expect("a row");
    let entry = VnodeFeedEntry::of_row(slot, Bytes::from_static(b"a"), &bytes, 10);
    let second = entry_key(bucket().full().as_bytes(), at(9));
    store.apply(vec![(second, Some(entry.write()))]);
    let page = store.retention_page(0, 0);
    assert_eq!(page.removable, [entry_key(bucket().full().as_bytes(), at(2))]);
    assert_eq!(page.floor, VnodePosition::START);
}

#[test]
fn bridges_are_kept_found_and_thinned() {
    let mut store = FeedStore::new();
    let place = BridgePlace { peer: NodeId(5), compared: compared() };
    let other = BridgePlace { peer: NodeId(6), ..place };
    let note = |store: &mut FeedStore, place, peer: u64, own: u64| {
        let bridge = Bridge { peer: at(peer), own: at(own) };
        let changes = bridge_changes(&*store.trees.snapshot(), place, bridge).expect("memory");
        store.apply(changes);
    };
    note(&mut store, place, 10, 20);
    note(&mut store, other, 10, 70);
    note(&mut store, place, 30, 40);
    note(&mut store, place, 35, 39);
    let ready = record(VnodeFeedPhase::Ready);
    store.apply(vec![(feed_record_key(&bucket()), Some(ready.write()))]);
    let asked: SlotSet = [127, 128, 255, 256].into_iter().collect();
    let inside: SlotSet = [128, 255].into_iter().collect();
    let behind = |store: &FeedStore, peer: u64, copies| {
        let (snapshot, bucket) = (store.trees.snapshot(), bucket());
        let peer = (NodeId(5), at(peer));
        bridges_behind(&*snapshot, (&bucket, copies), peer, &asked).expect("memory")
    };
    assert_eq!(behind(&store, 9, 3), []);
    assert_eq!(behind(&store, 29, 3), [(at(20), inside)]);
    assert_eq!(behind(&store, 99, 3), [(at(40), inside)], "one that proves less is not kept");
    assert_eq!(behind(&store, 99, 2), [], "of other buckets");
    let came: SlotSet = [128, 200].into_iter().collect();
    store.apply(join_slots(None, came, at(41)).expect("no row"));
    let left: SlotSet = [255].into_iter().collect();
    assert_eq!(behind(&store, 99, 3), [(at(40), left)], "a slot that came later has none");
    store.apply(vec![(joined_row_key(), None)]);
    let late = VnodeFeedRecord { copies_since: at(41), ..ready };
    store.apply(vec![(feed_record_key(&bucket()), Some(late.write()))]);
    assert_eq!(behind(&store, 99, 3), [], "its keys were not compared");
    let last = last_bridge(&*store.trees.snapshot(), place).expect("memory");
    assert_eq!(last, Some(Bridge { peer: at(30), own: at(40) }));
    for number in 100..300 {
        note(&mut store, place, number, number);
    }
    let prefix = entries_prefix(&bucket());
    let snapshot = store.trees.snapshot();
    let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
    let is_feed = |key: &Bytes| key[..4] == prefix[..4] && key[4] == 2;
    let bridges = rows.filter(|row| is_feed(&row.as_ref().expect("memory").0)).count();
    assert_eq!(bridges, BRIDGES_MAX + 1, "and that from the other node");
}
