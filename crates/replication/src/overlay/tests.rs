//! Tests of range reads over undecided entries: a law against a walk over all their effects, and
//! their cost, counted in keys that are read.

use super::*;
use crate::bucket::Bucket;
use crate::evaluate::evaluate;
use crate::proposal_queue::ProposalQueue;
use crate::proposal_queue::tests::replica;
use base::limits::VALUE_UPDATES_MAX;
use base::{Properties, Update};
use logic::consensus::Replica;
use proptest::prelude::*;
use replica_state::effect_layout::key_reads;
use replica_state::feed::AppliedFeeds;
use replica_state::layout::Mark;
use std::collections::BTreeMap;
use std::ops::RangeBounds;
use store::MemoryTrees;

const GROUP: GroupId = GroupId(3);
const BUCKET: BucketId = BucketId(7);
const OTHER: BucketId = BucketId(8);

type Bounds = (Bound<Bytes>, Bound<Bytes>);
type Visit<'a> = &'a mut dyn FnMut(&Bytes, &Bytes) -> Result<bool>;

/// Part of an update, or a range read in its midst.
#[derive(Clone, Debug)]
enum OverlayStep {
    Put(BucketId, Key, usize),
    Remove(BucketId, Key),
    RemovePrefix(BucketId, Key),
    /// Steps behind a savepoint. True: they are undone.
    Savepoint(Vec<OverlayStep>, bool),
    Range(WalkedRange),
}

/// Step of a master.
#[derive(Clone, Debug)]
enum MasterStep {
    Update(Vec<OverlayStep>),
    Close,
    /// The oldest closed entries are applied, so many.
    Apply(usize),
}

#[derive(Clone, Debug)]
struct WalkedRange {
    low: Bound<(BucketId, Key)>,
    high: Bound<(BucketId, Key)>,
    direction: Direction,
    /// Number of rows at which the reader stops.
    rows: usize,
    /// Budget of a second read.
    budget_rows: usize,
}

impl WalkedRange {
    fn bounds(&self) -> Bounds {
        let key = |(bucket, key): (BucketId, Key)| {
            let mut tree_key = Vec::new();
            layout::row_key(GROUP, bucket, &key, &mut tree_key);
            Bytes::from(tree_key)
        };
        (self.low.clone().map(key), self.high.clone().map(key))
    }
}

fn bucket() -> impl Strategy<Value = BucketId> {
    prop::sample::select(vec![BUCKET, BUCKET, BUCKET, OTHER])
}

fn key() -> impl Strategy<Value = Key> {
    let names = ["", "a", "aa", "ab", "abc", "abd", "b", "ba", "bb", "c", "ca", "d", "\u{7f}"];
    prop::sample::select(names.to_vec()).prop_map(Key::from)
}

fn bound() -> impl Strategy<Value = Bound<(BucketId, Key)>> {
    prop_oneof![
        1 => Just(Bound::Unbounded),
        3 => (bucket(), key()).prop_map(Bound::Included),
        3 => (bucket(), key()).prop_map(Bound::Excluded),
    ]
}

fn range() -> impl Strategy<Value = WalkedRange> {
    let direction = prop::sample::select(vec![Direction::Ascending, Direction::Descending]);
    let rows = prop_oneof![1 => Just(usize::MAX), 1 => 1..6_usize];
    (bound(), bound(), direction, rows, 15..60_usize).prop_map(
        |(low, high, direction, rows, budget_rows)| WalkedRange {
            low,
            high,
            direction,
            rows,
            budget_rows,
        },
    )
}

fn overlay_step() -> impl Strategy<Value = OverlayStep> {
    let single = prop_oneof![
        6 => (bucket(), key(), 0..9_usize).prop_map(|(bucket, key, bytes)| {
            OverlayStep::Put(bucket, key, bytes)
        }),
        3 => (bucket(), key()).prop_map(|(bucket, key)| OverlayStep::Remove(bucket, key)),
        1 => (bucket(), key()).prop_map(|(bucket, key)| OverlayStep::RemovePrefix(bucket, key)),
        4 => range().prop_map(OverlayStep::Range),
    ];
    single.prop_recursive(3, 24, 8, |inner| {
        (prop::collection::vec(inner, 0..8), any::<bool>())
            .prop_map(|(steps, is_undone)| OverlayStep::Savepoint(steps, is_undone))
    })
}

fn master_step() -> impl Strategy<Value = MasterStep> {
    prop_oneof![
        8 => prop::collection::vec(overlay_step(), 1..8).prop_map(MasterStep::Update),
        3 => Just(MasterStep::Close),
        1 => (1..4_usize).prop_map(MasterStep::Apply),
    ]
}

/// Walks like [`Overlay::walk`], over all effects of all entries. It counts no row for effects
/// outside the range.
fn walk_all(
    overlay: &mut Overlay,
    (low, high): Bounds,
    direction: Direction,
    visit: Visit<'_>,
) -> Result<()> {
    if is_empty_range(&low, &high) {
        return Ok(());
    }
    overlay.budget.count_seek()?;
    let bounds = (low.as_ref().map(|low| &low[..]), high.as_ref().map(|high| &high[..]));
    let is_within = |key: &[u8]| RangeBounds::<[u8]>::contains(&bounds, key);
    let mut newer = BTreeMap::new();
    for entry in overlay.pending.iter().chain(std::iter::once(&*overlay.open)) {
        for (key, row) in entry.select(is_within) {
            overlay.budget.count_row(row.as_ref().map_or(0, Bytes::len))?;
            newer.insert(key, row);
        }
    }
    let StoreSource::Live(trees) = overlay.store else { unreachable!("the queue's store") };
    let stored: BTreeMap<Bytes, Bytes> = trees
        .snapshot()
        .range(low.clone(), high.clone(), false)
        .collect::<std::result::Result<_, _>>()
        .map_err(store_error)?;
    let mut keys: Vec<&Bytes> = newer.keys().chain(stored.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    if direction == Direction::Descending {
        keys.reverse();
    }
    for key in keys {
        let row = match (newer.get(key), stored.get(key)) {
            (Some(row), stored) => {
                stored.map_or(Ok(()), |_| overlay.budget.count_row(0))?;
                row.as_ref()
            }
            (None, stored) => {
                overlay.budget.count_row(stored.map_or(0, Bytes::len))?;
                stored
            }
        };
        if let Some(row) = row
            && !visit(key, row)?
        {
            return Ok(());
        }
    }
    Ok(())
}

/// Result of a range read: the rows, whether the budget sufficed, and the rows that it counted.
struct Walked {
    rows: Vec<(Bytes, Bytes)>,
    is_within_budget: bool,
    counted: usize,
}

impl Walked {
    fn read(overlay: &mut Overlay, range: &WalkedRange, budget: Budget, is_naive: bool) -> Walked {
        let (mut rows, (low, high)) = (Vec::new(), range.bounds());
        let mut visit = |key: &Bytes, row: &Bytes| {
            rows.push((key.clone(), row.clone()));
            Ok(rows.len() < range.rows)
        };
        let outer_budget = std::mem::replace(&mut overlay.budget, budget);
        let walked = match is_naive {
            true => walk_all(overlay, (low, high), range.direction, &mut visit),
            false => overlay.walk(low, high, range.direction, visit),
        };
        let is_within_budget = walked.is_ok() && overlay.budget.check().is_ok();
        let counted = std::mem::replace(&mut overlay.budget, outer_budget).rows();
        Walked { rows, is_within_budget, counted }
    }
}

/// Rows that a range read counts for its search in the entries.
fn search_rows(overlay: &Overlay, range: &WalkedRange) -> usize {
    let (low, high) = range.bounds();
    if is_empty_range(&low, &high) {
        return 0;
    }
    let mut budget = Budget::unbounded();
    let entries = overlay.pending.iter().chain(std::iter::once(&*overlay.open));
    budget.count_searches(entries.map(PendingEntry::rows)).expect("it has no bound");
    budget.rows()
}

fn check_range(overlay: &mut Overlay, range: &WalkedRange) {
    let searched = search_rows(overlay, range);
    let naive = Walked::read(overlay, range, Budget::unbounded(), true);
    let ordered = Walked::read(overlay, range, Budget::unbounded(), false);
    assert_eq!(ordered.rows, naive.rows);
    if ordered.rows.len() < range.rows {
        assert_eq!(ordered.counted, naive.counted + searched, "all was walked over");
    } else {
        assert!(ordered.counted <= naive.counted + searched);
    }
    let naive = Walked::read(overlay, range, Budget::for_rows(range.budget_rows), true);
    let budget = Budget::for_rows(range.budget_rows + searched);
    let ordered = Walked::read(overlay, range, budget, false);
    if naive.is_within_budget {
        assert!(ordered.is_within_budget);
        assert_eq!(ordered.rows, naive.rows);
    } else if ordered.rows.len() < range.rows {
        assert!(!ordered.is_within_budget, "it walked over the same rows");
    }
}

/// Queue of a master, over a store.
struct Master {
    trees: MemoryTrees,
    queue: ProposalQueue,
    replica: Replica,
}

impl Master {
    fn new() -> Master {
        let mark = Mark { applied: 0, time: 1, next_version: 1 };
        let queue = ProposalQueue::new(GROUP, mark, usize::MAX);
        Master { trees: MemoryTrees::new(1 << 20), queue, replica: replica() }
    }

    /// Evaluates into the open entry.
    fn write(&mut self, write: impl FnOnce(&mut Overlay)) {
        let (is_first, begun_bytes) = self.queue.begin(&self.replica);
        write(&mut self.queue.overlay(&self.trees));
        if self.queue.changed(begun_bytes) {
            self.queue.add(is_first, true);
        }
    }

    fn run(&mut self, step: &MasterStep) {
        match step {
            MasterStep::Update(steps) => self.write(|overlay| run_steps(overlay, steps)),
            MasterStep::Close => self.queue.close(),
            MasterStep::Apply(count) => {
                for _ in 0..*count {
                    let Some(index) = self.queue.next_proposal().map(|entry| entry.index) else {
                        break;
                    };
                    let (payload, _) = self.queue.payload(index);
                    self.queue.mark_proposed();
                    let observers = (None, &AppliedFeeds::default());
                    crate::apply::apply_entry_to(GROUP, &self.trees, index, &payload, observers)
                        .expect("memory");
                    self.queue.release_applied(index);
                }
            }
        }
    }
}

fn run_steps(overlay: &mut Overlay, steps: &[OverlayStep]) {
    for step in steps {
        match step {
            OverlayStep::Put(bucket, key, bytes) => {
                overlay.put(*bucket, key, None, &[&vec![b'x'; *bytes]]).expect("memory");
            }
            OverlayStep::Remove(bucket, key) => {
                overlay.remove(*bucket, key, None).expect("memory");
            }
            OverlayStep::RemovePrefix(bucket, prefix) => {
                let update = Update::DeletePrefix { prefix: prefix.clone() };
                let bucket = Bucket::new(*bucket, GROUP, Properties::default());
                evaluate(overlay, &bucket, &update).expect("a few rows");
            }
            OverlayStep::Savepoint(steps, is_undone) => {
                let savepoint = overlay.savepoint();
                run_steps(overlay, steps);
                if *is_undone {
                    overlay.undo(savepoint);
                }
            }
            OverlayStep::Range(range) => check_range(overlay, range),
        }
    }
}

proptest! {
    #[test]
    fn range_read_equals_a_walk_over_all_undecided_effects(
        steps in prop::collection::vec(master_step(), 1..24),
        last in prop::collection::vec(range(), 4),
    ) {
        let mut master = Master::new();
        steps.iter().for_each(|step| master.run(step));
        master.write(|overlay| last.iter().for_each(|range| check_range(overlay, range)));
    }
}

mod cost;
