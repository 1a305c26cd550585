//! Tests of recent removals: a law about assertions of absent keys, and the table itself.

use super::*;
use crate::apply::apply_entry_to;
use crate::bucket::Bucket;
use crate::counts::BucketCounts;
use crate::evaluate::{evaluate, expire_due};
use crate::group_indexes::GroupIndexes;
use crate::proposal_queue::ProposalQueue;
use crate::proposal_queue::tests::replica;
use base::request::{Expiry, OnMissing, When};
use base::{
    Absence, Body, BucketId, GroupId, Key, KeyVersion, LogIndex, Outcome, Properties, Read, Reason,
    Result, Update, Value,
};
use bytes::Bytes;
use logic::consensus::Replica;
use proptest::prelude::*;
use replica_state::feed::AppliedFeeds;
use replica_state::layout::Mark;
use std::collections::{BTreeMap, BTreeSet};
use store::{MemoryTrees, Trees};

const GROUP: GroupId = GroupId(3);
const BUCKET: BucketId = BucketId(7);
const KEYS: [&str; 4] = ["a", "aa", "b", "c"];

fn key(text: &str) -> Key {
    Key::copy_from_slice(text.as_bytes())
}

fn set(name: &str, expiry: Expiry) -> Update {
    Update::Set { key: key(name), value: Value::from_static(b"v"), expiry }
}

fn delete(name: &str) -> Update {
    Update::Delete { key: key(name), missing: OnMissing::Skip }
}

/// Key that a client saw absent.
struct WatchedKey {
    name: &'static str,
    absence: Absence,
    /// True if it was written since.
    is_written: bool,
    /// True if it may count as written without being: after a change of master, and after a write
    /// that expired at once.
    may_seem_written: bool,
}

/// Group without its protocol, and the keys that clients watch.
struct WatchedGroup {
    trees: MemoryTrees,
    queue: ProposalQueue,
    replica: Replica,
    mark: Mark,
    now_ms: u64,
    bucket: BucketId,
    watched: Vec<WatchedKey>,
}

impl WatchedGroup {
    fn new() -> WatchedGroup {
        world::set_time(Some(1_000_000));
        let mark = Mark { applied: 0, time: 1, next_version: 1 };
        WatchedGroup {
            trees: MemoryTrees::new(1 << 20),
            queue: ProposalQueue::new(GROUP, mark, 1 << 30),
            replica: replica(),
            mark,
            now_ms: 1,
            bucket: BUCKET,
            watched: Vec::new(),
        }
    }

    /// Evaluates into the open entry, as the master does.
    fn update(&mut self, update: &Update) -> Result<Outcome> {
        let bucket = Bucket::new(self.bucket, GROUP, Properties::default());
        let (is_first, begun_bytes) = self.queue.begin(&self.replica);
        let outcome = evaluate(&mut self.queue.overlay(&self.trees), &bucket, update);
        if self.queue.changed(begun_bytes) {
            self.queue.add(is_first, true);
        }
        outcome
    }

    /// Runs an update of a client, and notes the keys that it wrote.
    fn run(&mut self, update: &Update) {
        let outcome = self.update(update);
        let mut expires_at_once = false;
        let written = match (update, outcome) {
            (Update::Set { key, expiry, .. }, Ok(_)) => {
                expires_at_once = *expiry == Expiry::After(0);
                Some(key)
            }
            (Update::SetIf { key, .. }, Ok(Outcome::Swapped { written: true, .. })) => Some(key),
            (Update::Rename { to, .. }, Ok(Outcome::Applied(true))) => Some(to),
            _ => None,
        };
        for watched in &mut self.watched {
            let is_it = written.is_some_and(|key| key[..] == *watched.name.as_bytes());
            watched.is_written |= is_it && !expires_at_once;
            watched.may_seem_written |= is_it;
        }
    }

    fn sweep(&mut self) {
        let (is_first, begun_bytes) = self.queue.begin(&self.replica);
        let mut overlay = self.queue.overlay(&self.trees);
        expire_due(&mut overlay, Bytes::new(), 9, 1_000).expect("memory");
        if self.queue.changed(begun_bytes) {
            self.queue.add(is_first, true);
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        world::set_time(Some(self.now_ms * 1_000_000));
        self.queue.close();
    }

    fn apply(&mut self) {
        self.queue.close();
        while let Some(index) = self.queue.next_proposal().map(|entry| entry.index) {
            let (payload, _) = self.queue.payload(index);
            self.queue.mark_proposed();
            let observers = (None, &AppliedFeeds::default());
            let applied = apply_entry_to(GROUP, &self.trees, index, &payload, observers);
            self.mark = applied.expect("memory");
        }
        self.queue.release_applied(LogIndex(u64::MAX));
    }

    /// Another node becomes master, once all is applied.
    fn change_master(&mut self) {
        self.apply();
        self.queue.restart(self.mark, BucketCounts::default(), GroupIndexes::default());
        self.watched.iter_mut().for_each(|watched| watched.may_seem_written = true);
    }

    fn version(&mut self, name: &str) -> KeyVersion {
        let read = Update::Read(Read::KeyVersions(vec![key(name)]));
        let Ok(Outcome::Read(body)) = self.update(&read) else { panic!("it is a read") };
        let Body::KeyVersions(versions) = *body else { panic!("it reads versions") };
        versions[0]
    }

    fn absence(&mut self, name: &str) -> Absence {
        match self.version(name) {
            KeyVersion::Absent(absence) => absence,
            KeyVersion::Present(version) => panic!("`{name}` has version {version}"),
        }
    }

    fn watch(&mut self, name: &'static str) {
        if let KeyVersion::Absent(absence) = self.version(name) {
            let (is_written, may_seem_written) = (false, false);
            self.watched.push(WatchedKey { name, absence, is_written, may_seem_written });
        }
    }

    /// Returns true if an update may rely on the key not to have changed.
    fn is_unchanged(&mut self, name: &str, absence: Absence) -> bool {
        match self.update(&Update::AssertAbsentSince { key: key(name), absence }) {
            Ok(outcome) => outcome == Outcome::Done,
            Err(error) => {
                assert_eq!(error.reason, Reason::Changed);
                false
            }
        }
    }

    fn check(&mut self) {
        for watched in std::mem::take(&mut self.watched) {
            let is_unchanged = self.is_unchanged(watched.name, watched.absence);
            let name = watched.name;
            assert!(!(is_unchanged && watched.is_written), "a write of `{name}` was missed");
            assert!(is_unchanged || watched.may_seem_written, "`{name}` was not written");
            self.watched.push(watched);
        }
    }
}

impl Drop for WatchedGroup {
    fn drop(&mut self) {
        world::set_time(None);
    }
}

#[derive(Clone, Debug)]
enum WatchStep {
    Update(Update),
    Watch(&'static str),
    Pass(u64),
    Sweep,
    Close,
    Apply,
    ChangeMaster,
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&KEYS[..])
}

fn updates() -> impl Strategy<Value = Update> {
    let expiry = prop_oneof![Just(Expiry::Default), (0..20_u64).prop_map(Expiry::After)];
    prop_oneof![
        3 => (name(), expiry).prop_map(|(name, expiry)| set(name, expiry)),
        4 => name().prop_map(delete),
        1 => name().prop_map(|name| Update::SetIf {
            key: key(name),
            value: Value::from_static(b"w"),
            expiry: Expiry::Default,
            when: When::Absent,
        }),
        1 => (name(), name()).prop_map(|(from, to)| Update::Rename {
            from: key(from),
            to: key(to),
            when: When::Always,
        }),
        1 => name().prop_map(|name| Update::DeletePrefix { prefix: key(name) }),
    ]
}

fn steps() -> impl Strategy<Value = WatchStep> {
    prop_oneof![
        12 => updates().prop_map(WatchStep::Update),
        6 => name().prop_map(WatchStep::Watch),
        3 => (1..15_u64).prop_map(WatchStep::Pass),
        2 => Just(WatchStep::Sweep),
        2 => Just(WatchStep::Close),
        2 => Just(WatchStep::Apply),
        1 => Just(WatchStep::ChangeMaster),
    ]
}

proptest! {
    /// A key that was absent, written and gone again is noticed, by whatever it went; and one that
    /// nobody wrote counts as unchanged, whatever happened to its older rows.
    #[test]
    fn absent_key_counts_as_unchanged_exactly_if_nobody_wrote_it(
        steps in prop::collection::vec(steps(), 1..60),
    ) {
        let mut group = WatchedGroup::new();
        for step in steps {
            match step {
                WatchStep::Update(update) => group.run(&update),
                WatchStep::Watch(name) => group.watch(name),
                WatchStep::Pass(ms) => group.pass(ms),
                WatchStep::Sweep => group.sweep(),
                WatchStep::Close => group.queue.close(),
                WatchStep::Apply => group.apply(),
                WatchStep::ChangeMaster => group.change_master(),
            }
            group.check();
        }
    }
}

/// A bucket that is cleared gets another number, and its former rows stay for a while.
#[test]
fn key_written_before_its_bucket_was_cleared_counts_as_written() {
    let mut group = WatchedGroup::new();
    group.update(&set("old", Expiry::Default)).expect("memory");
    let [a, b] = ["a", "b"].map(|name| group.absence(name));
    group.update(&set("a", Expiry::Default)).expect("memory");
    group.bucket = BucketId(8);
    assert!(!group.is_unchanged("a", a), "it was written before");
    assert!(group.is_unchanged("b", b), "it was absent all the time");
    group.apply();
    assert!(!group.is_unchanged("a", a) && group.is_unchanged("b", b));
    // Before the former rows go without an update, what was removed up to now is forgotten.
    group.queue.forget_removals();
    let mut prefix = Vec::new();
    replica_state::layout::row_key(GROUP, BUCKET, &[], &mut prefix);
    group.trees.drop_prefix(&prefix).expect("memory");
    assert!(!group.is_unchanged("a", a) && !group.is_unchanged("b", b));
    let b = group.absence("b");
    assert!(group.is_unchanged("b", b));
}

#[test]
fn absence_in_another_group_is_no_absence_here() {
    let mut group = WatchedGroup::new();
    let absence = group.absence("a");
    assert!(group.is_unchanged("a", absence));
    assert!(!group.is_unchanged("a", Absence { group: GroupId(4), ..absence }));
}

/// Rows that are emptied by the thousand are older than what clients watch.
#[test]
fn delete_of_older_rows_by_prefix_changes_no_absent_key() {
    let mut group = WatchedGroup::new();
    for row in 0..9_000 {
        group.update(&set(&format!("old{row}"), Expiry::Default)).expect("memory");
    }
    group.apply();
    let names: Vec<String> = (0..64).map(|at| format!("absent{at}")).collect();
    let absences: Vec<Absence> = names.iter().map(|name| group.absence(name)).collect();
    let emptied = group.update(&Update::DeletePrefix { prefix: key("old") });
    assert_eq!(emptied, Ok(Outcome::Count(9_000)));
    for (name, absence) in names.iter().zip(absences) {
        assert!(group.is_unchanged(name, absence), "{name}");
    }
}

#[test]
fn keys_of_the_law_have_slots_of_their_own() {
    let _group = WatchedGroup::new(); // with the salt of a set time
    let slots: BTreeMap<usize, &str> = KEYS.map(|name| (slot_of(name), name)).into();
    assert_eq!(slots.len(), BTreeSet::from(KEYS).len());
}

fn slot_of(name: &str) -> usize {
    let mut tree_key = Vec::new();
    replica_state::layout::row_key(GROUP, BUCKET, name.as_bytes(), &mut tree_key);
    slot(&tree_key)
}

#[test]
fn row_written_since_a_version_and_removed_is_noted_in_a_table_of_fixed_size() {
    let mut removals = RecentRemovals::known_from(100);
    let may_have = |removals: &RecentRemovals, version| removals.may_have(b"key", Version(version));
    assert!(!may_have(&removals, 100));
    assert!(removals.slots.is_empty(), "nothing was removed yet");
    removals.note(b"key", Version(120));
    removals.note(b"key", Version(110));
    assert!(may_have(&removals, 110) && may_have(&removals, 120));
    assert!(!may_have(&removals, 121), "it was removed before, or written before");
    for key in 0..100_000_u32 {
        removals.note(&key.to_be_bytes(), Version(130));
    }
    assert_eq!(removals.slots.len(), SLOTS);
    assert!(may_have(&removals, 120));
}

/// Rows that were there before are no writes since: their removals abort no transaction.
#[test]
fn removal_of_older_rows_changes_no_key() {
    let mut removals = RecentRemovals::known_from(1);
    for key in 0..100_000_u32 {
        removals.note(&key.to_be_bytes(), Version(key.into()));
    }
    assert!((0..1_000_u32).all(|key| !removals.may_have(&key.to_be_bytes(), Version(100_000))));
}

#[test]
fn removals_of_another_master_are_unknown() {
    let removals = RecentRemovals::known_from(100);
    assert!(removals.may_have(b"key", Version(99)));
    assert!(RecentRemovals::default().may_have(b"key", Version(1 << 60)));
}

/// Absent keys that seem written though they are not: few, unless thousands are.
#[test]
fn few_keys_share_a_slot_with_one_that_was_removed() {
    let mut removals = RecentRemovals::known_from(1);
    (0..40_u32).for_each(|key| removals.note(&key.to_be_bytes(), Version(9)));
    let shared =
        (1_000..11_000_u32).filter(|key| removals.may_have(&key.to_be_bytes(), Version(9))).count();
    assert!(shared > 0 && shared < 300, "{shared} of 10000, about 98 expected");
}
