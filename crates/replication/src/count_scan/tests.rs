//! Laws of counts: random updates, sweeps, ends of epochs and scans against a naive count of rows.

use super::{CountScan, begin_count, end_count};
use crate::apply::apply_entry_to;
use crate::bucket::Bucket;
use crate::counts::{BucketCount, BucketCounts, count_tree_key};
use crate::evaluate::{evaluate, expire_due};
use crate::group_indexes::GroupIndexes;
use crate::overlay::{Overlay, row_bounds};
use crate::proposal_queue::ProposalQueue;
use crate::proposal_queue::tests::replica;
use crate::wait::Applied;
use base::range::Direction;
use base::request::{ExpireWhen, Expiry, OnMissing, SequenceMode, When};
use base::{BucketId, GroupId, Key, LogIndex, Properties, Range, Result, Update, Value};
use bytes::Bytes;
use logic::consensus::Replica;
use proptest::prelude::*;
use replica_state::feed::AppliedFeeds;
use replica_state::layout::{Mark, StoredRow};
use runtime::mutants::Mutant;
use runtime::world;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::{MemoryTrees, Trees};

const GROUP: GroupId = GroupId(3);
/// Bucket that is counted at times.
const COUNTED: BucketId = BucketId(7);
/// Bucket that never is.
const OTHER: BucketId = BucketId(8);
/// Bytes of one part of a scan: a row or two.
const PART_BYTES: usize = 40;

fn bucket(id: BucketId) -> Bucket {
    Bucket::new(id, GROUP, Properties { counted: id == COUNTED, ..Properties::default() })
}

/// Step of a history.
#[derive(Clone, Debug)]
enum CountStep {
    Update(BucketId, Update),
    /// Time passes, in milliseconds.
    Pass(u64),
    /// Expired rows are removed, at most so many.
    Sweep(usize),
    /// The open entry is closed.
    Close,
    /// All entries are decided and applied.
    Apply,
    /// Another master follows: what is not decided is lost.
    EndEpoch,
    BeginCount,
    EndCount,
    /// A scan begins, goes on, or completes the count.
    BeginScan,
    AdvanceScan,
    CompleteScan,
}

fn key() -> impl Strategy<Value = Key> {
    prop::sample::select(vec!["", "a", "ab", "abc", "b", "c"]).prop_map(Key::from)
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::new()),
        Just(Value::from("7")),
        (0..40_usize).prop_map(|length| Value::from(vec![b'x'; length])),
    ]
}

fn expiry() -> impl Strategy<Value = Expiry> {
    prop_oneof![
        4 => Just(Expiry::Default),
        1 => Just(Expiry::Keep),
        1 => Just(Expiry::Never),
        3 => (0..30_u64).prop_map(Expiry::After),
    ]
}

fn when() -> impl Strategy<Value = When> {
    prop::sample::select(vec![When::Always, When::Absent, When::Present])
}

fn single_update() -> impl Strategy<Value = Update> {
    let missing = prop::sample::select(vec![OnMissing::Fail, OnMissing::Skip]);
    let maybe = || prop::option::of(value());
    prop_oneof![
        4 => (key(), value(), expiry()).prop_map(|(key, value, expiry)| {
            Update::Set { key, value, expiry }
        }),
        2 => (key(), value(), expiry(), when()).prop_map(|(key, value, expiry, when)| {
            Update::SetIf { key, value, expiry, when }
        }),
        2 => (key(), missing).prop_map(|(key, missing)| Update::Delete { key, missing }),
        1 => (key(), maybe(), maybe()).prop_map(|(key, expected, wanted)| {
            Update::TestAndSet { key, expected, wanted }
        }),
        1 => (key(), maybe()).prop_map(|(key, wanted)| Update::Replace { key, wanted }),
        1 => (key(), value()).prop_map(|(key, value)| Update::Confirm { key, value }),
        1 => key().prop_map(|key| Update::AssertExists { key }),
        1 => key().prop_map(|prefix| Update::DeletePrefix { prefix }),
        1 => (key(), -9..9_i64).prop_map(|(key, delta)| Update::Add { key, delta }),
        1 => (key(), value()).prop_map(|(key, value)| Update::Append { key, value }),
        1 => (key(), 0..20_usize, value()).prop_map(|(key, offset, value)| {
            Update::SetRange { key, offset, value }
        }),
        1 => (key(), key(), when()).prop_map(|(from, to, when)| Update::Rename { from, to, when }),
        1 => (key(), key(), when()).prop_map(|(from, to, when)| Update::Copy { from, to, when }),
        1 => (key(), expiry()).prop_map(|(key, expiry)| {
            Update::Expire { key, expiry, when: ExpireWhen::Always }
        }),
    ]
}

fn update() -> impl Strategy<Value = Update> {
    let modes = [SequenceMode::AllOrNothing, SequenceMode::EachAlone, SequenceMode::Batch];
    single_update().prop_recursive(2, 12, 5, move |inner| {
        (prop::collection::vec(inner, 0..6), prop::sample::select(modes.to_vec()))
            .prop_map(|(steps, mode)| Update::Sequence { steps, mode })
    })
}

fn step() -> impl Strategy<Value = CountStep> {
    prop_oneof![
        12 => (prop::bool::weighted(0.8), update()).prop_map(|(counted, update)| {
            CountStep::Update(if counted { COUNTED } else { OTHER }, update)
        }),
        2 => (1..40_u64).prop_map(CountStep::Pass),
        2 => (1..4_usize).prop_map(CountStep::Sweep),
        2 => Just(CountStep::Close),
        3 => Just(CountStep::Apply),
        1 => Just(CountStep::EndEpoch),
        2 => Just(CountStep::BeginCount),
        1 => (0..4_u8).prop_map(|number| match number {
            0 => CountStep::EndCount,
            _ => CountStep::BeginCount,
        }),
        2 => Just(CountStep::BeginScan),
        4 => Just(CountStep::AdvanceScan),
        3 => Just(CountStep::CompleteScan),
    ]
}

/// A group without its protocol: updates are evaluated, and entries applied.
struct BareGroup {
    trees: MemoryTrees,
    queue: ProposalQueue,
    replica: Replica,
    mark: Mark,
    now_ms: u64,
    /// Scan in progress, and whether it has read everything.
    scan: Option<(CountScan, bool)>,
    /// Rows minus count, by the version at which the count began.
    differences: BTreeMap<u64, (u64, u64)>,
    /// Number of counts that were completed.
    completed: usize,
}

impl BareGroup {
    fn new() -> BareGroup {
        let mark = Mark { applied: 0, time: 1, next_version: 1 };
        world::set_time(Some(1_000_000));
        BareGroup {
            trees: MemoryTrees::new(1 << 20),
            queue: ProposalQueue::new(GROUP, mark, 1 << 20),
            replica: replica(),
            mark,
            now_ms: 1,
            scan: None,
            differences: BTreeMap::new(),
            completed: 0,
        }
    }

    /// Evaluates into the open entry, as the master does.
    fn write<T>(&mut self, write: impl FnOnce(&mut Overlay) -> Result<T>) -> Result<T> {
        let (is_first, begun_bytes) = self.queue.begin(&self.replica);
        let mut overlay = self.queue.overlay(&self.trees);
        let savepoint = overlay.savepoint();
        let written = write(&mut overlay);
        if written.is_err() {
            overlay.undo(savepoint);
        }
        if self.queue.changed(begun_bytes) {
            self.queue.add(is_first, true);
        }
        written
    }

    fn apply(&mut self) {
        self.queue.close();
        while let Some(index) = self.queue.next_proposal().map(|entry| entry.index) {
            let (payload, _) = self.queue.payload(index);
            self.queue.mark_proposed();
            let observers = (None, &AppliedFeeds::default());
            let applied = apply_entry_to(GROUP, &self.trees, index, &payload, observers);
            self.mark = applied.expect("memory");
            self.check_applied();
        }
        self.queue.release_applied(LogIndex(u64::MAX));
    }

    fn end_epoch(&mut self) {
        self.queue.end_epoch(LogIndex(0), &Applied::default());
        let counts = BucketCounts::load(GROUP, &self.trees).expect("memory");
        // A version that was never applied is given again.
        let applied = counts.get(COUNTED).map(|count| count.begun);
        self.differences.retain(|begun, _| applied == Some(*begun));
        self.queue.restart(self.mark, counts, GroupIndexes::default());
    }

    fn run(&mut self, step: CountStep) {
        match step {
            // Refused or not, the counts hold.
            CountStep::Update(id, update) => {
                drop(self.write(|overlay| evaluate(overlay, &bucket(id), &update)));
            }
            CountStep::Pass(ms) => {
                self.now_ms += ms;
                world::set_time(Some(self.now_ms * 1_000_000));
            }
            CountStep::Sweep(max) => {
                let swept = self.write(|overlay| expire_due(overlay, Bytes::new(), max, 1_000));
                swept.expect("memory");
            }
            CountStep::Close => self.queue.close(),
            CountStep::Apply => self.apply(),
            CountStep::EndEpoch => self.end_epoch(),
            CountStep::BeginCount => self.write(|all| begin_count(all, COUNTED)).expect("memory"),
            CountStep::EndCount => self.write(|all| end_count(all, COUNTED)).expect("memory"),
            CountStep::BeginScan => {
                let scan = CountScan::begin(GROUP, &self.trees, COUNTED).expect("memory");
                self.scan = scan.map(|scan| (scan, false));
            }
            CountStep::AdvanceScan => {
                if let Some((scan, is_read)) = &mut self.scan
                    && !*is_read
                {
                    *is_read = scan.advance(PART_BYTES).expect("memory");
                }
            }
            CountStep::CompleteScan => {
                // A count that was begun anew has nothing to do with the scan.
                if let Some((scan, _)) = self.scan.take_if(|(_, is_read)| *is_read) {
                    let completed = self.write(|overlay| scan.complete(overlay));
                    self.completed += usize::from(completed.is_ok());
                }
            }
        }
        self.check_undecided();
    }

    /// Checks the count of rows against the rows.
    fn check(&mut self, count: Option<BucketCount>, rows: (u64, u64), place: &str) {
        let Some(BucketCount { is_complete, begun, keys, bytes }) = count else { return };
        let difference = (rows.0.wrapping_sub(keys), rows.1.wrapping_sub(bytes));
        match is_complete {
            true => assert_eq!(difference, (0, 0), "a complete count is wrong ({place})"),
            false => {
                let first = *self.differences.entry(begun).or_insert(difference);
                assert_eq!(difference, first, "a count has missed a change ({place})");
            }
        }
    }

    fn check_applied(&mut self) {
        let mut key = Vec::new();
        count_tree_key(GROUP, COUNTED, &mut key);
        let row = self.trees.get(&key).expect("memory");
        let count = row.map(|row| BucketCount::read_row(&row).expect("a count"));
        let (low, high) = row_bounds(GROUP, COUNTED, &Range::default());
        let snapshot = self.trees.snapshot();
        let rows = snapshot.range(low, high, false).map(|row| row.expect("memory"));
        let rows = count_rows(rows);
        self.check(count, rows, "applied");
    }

    fn check_undecided(&mut self) {
        self.queue.begin(&self.replica);
        let mut overlay = self.queue.overlay(&self.trees);
        let (low, high) = row_bounds(GROUP, COUNTED, &Range::default());
        let mut rows = Vec::new();
        let walked = overlay.walk(low, high, Direction::Ascending, |key, row| {
            rows.push((key.clone(), row.clone()));
            Ok(true)
        });
        walked.expect("memory");
        let count = overlay.counts.get(COUNTED);
        self.check(count, count_rows(rows.into_iter()), "undecided");
    }
}

/// Counts rows, expired or not, and the bytes of their keys and values.
fn count_rows(rows: impl Iterator<Item = (Bytes, Bytes)>) -> (u64, u64) {
    let prefix = row_bounds(GROUP, COUNTED, &Range::default()).0;
    let Bound::Included(prefix) = prefix else { unreachable!("it begins with the first key") };
    rows.fold((0, 0), |(keys, bytes), (key, row)| {
        let value = StoredRow::read(&row).expect("a row").value;
        (keys + 1, bytes + (key.len() - prefix.len() + value.len()) as u64)
    })
}

fn live(steps: Vec<CountStep>) -> usize {
    let mut stage = BareGroup::new();
    steps.into_iter().for_each(|step| stage.run(step));
    // Whatever happened, a scan completes the count, or it was complete.
    let last = [CountStep::BeginCount, CountStep::Apply, CountStep::BeginScan];
    last.into_iter().for_each(|step| stage.run(step));
    while stage.scan.as_ref().is_some_and(|(_, is_read)| !is_read) {
        stage.run(CountStep::AdvanceScan);
    }
    stage.run(CountStep::CompleteScan);
    stage.apply();
    let count = stage.queue.counts.get(COUNTED).expect("it was begun");
    assert!(count.is_complete, "nothing prevents it");
    world::set_time(None);
    stage.completed
}

proptest! {
    #[test]
    fn counts_equal_rows_after_every_entry_and_update(
        steps in prop::collection::vec(step(), 0..80),
    ) {
        live(steps);
    }
}

/// Returns true if some history shows that a rule is broken.
fn notices(mutant: Mutant) -> bool {
    use base::mutants::MutantList;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let steps = prop::collection::vec(step(), 20..80);
    (0..400).any(|_| {
        let steps = steps.new_tree(&mut runner).expect("steps").current();
        let lived = std::panic::AssertUnwindSafe(|| mutant.while_active(|| live(steps)));
        let failed = std::panic::catch_unwind(lived).is_err();
        world::set_time(None);
        failed
    })
}

#[test]
fn count_mutants_are_detected_by_the_naive_count() {
    for mutant in [Mutant::SweepUncounted, Mutant::KeepUndoneCounts, Mutant::CountWithoutChanges] {
        assert!(notices(mutant), "{mutant:?} was not noticed");
    }
}
