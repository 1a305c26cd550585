//! Laws of indexing: random updates, sweeps, copies, builds, drops and ends of epochs, after each
//! of which the entries must be what the rows say, and queries what a scan finds.

use super::build;
use crate::apply::apply_entry_to;
use crate::bucket::Bucket;
use crate::counts::BucketCounts;
use crate::evaluate::{evaluate, expire_due};
use crate::group_indexes::{AppliedIndexes, GroupIndexes};
use crate::index_query::{IndexAnswer, IndexMatch, MatchContent, TermPage, TermQuery};
use crate::overlay::Overlay;
use crate::proposal_queue::ProposalQueue;
use crate::proposal_queue::tests::replica;
use crate::wait::Applied;
use base::range::Direction;
use base::{BucketId, GroupId, Key, LogIndex, Properties, Range, Result, Update, Value, Version};
use bytes::Bytes;
use indexes::{
    DefinitionSet, IndexDefinition, IndexField, IndexName, IndexNumber, JsonPath, LivingValue,
    Term, TermRange, ValueFormat, ValueType, stored_entries,
};
use logic::consensus::Replica;
use replica_state::feed::AppliedFeeds;
use replica_state::index_check::check_indexes;
use replica_state::layout::{Mark, StoredRow};
use replica_state::replicated_index::{IndexPhase, ReplicatedIndex};
use runtime::world;
use std::ops::Bound;
use store::{MemoryTrees, RowChange, Snapshot, Trees};

mod builds;
mod law;
mod mends;
mod moves;
mod queries;
mod tags;
mod uniqueness;
mod writes;

const GROUP: GroupId = GroupId(3);
/// Bucket with indexes.
const INDEXED: BucketId = BucketId(7);
/// Bucket without.
const PLAIN: BucketId = BucketId(8);

fn bucket(id: BucketId) -> Bucket {
    Bucket::new(id, GROUP, Properties::default())
}

/// Returns a definition over JSON that is neither unique nor strict.
fn definition(number: u32, path: &str, value_type: ValueType) -> IndexDefinition {
    IndexDefinition {
        number: IndexNumber(number),
        name: IndexName::parse(&format!("i{number}")).expect("a name"),
        path: JsonPath::parse(path).expect("a path"),
        value_type,
        format: ValueFormat::Json,
        is_unique: false,
        is_strict: false,
    }
}

fn unique(number: u32, path: &str) -> IndexDefinition {
    IndexDefinition { is_unique: true, ..definition(number, path, ValueType::Int) }
}

fn set(key: &str, value: &str) -> Update {
    let expiry = base::request::Expiry::Default;
    Update::Set {
        key: Key::copy_from_slice(key.as_bytes()),
        value: value.to_owned().into(),
        expiry,
    }
}

/// Group without its protocol: updates are evaluated, and entries applied.
struct IndexedGroup {
    trees: MemoryTrees,
    queue: ProposalQueue,
    replica: Replica,
    mark: Mark,
    now_ms: u64,
    applied_indexes: AppliedIndexes,
    feeds: AppliedFeeds,
}

impl IndexedGroup {
    fn new() -> IndexedGroup {
        let mark = Mark { applied: 0, time: 1, next_version: 1 };
        world::set_time(Some(1_000_000));
        IndexedGroup {
            trees: MemoryTrees::new(1 << 20),
            queue: ProposalQueue::new(GROUP, mark, 1 << 30),
            replica: replica(),
            mark,
            now_ms: 1,
            applied_indexes: AppliedIndexes::default(),
            feeds: AppliedFeeds::default(),
        }
    }

    /// Evaluates into the open entry, as the master does.
    fn write<T>(&mut self, write: impl FnOnce(&mut Overlay) -> Result<T>) -> Result<T> {
        let (is_first, begun_bytes) = self.queue.begin(&self.replica);
        let written = self.queue.overlay(&self.trees).write_atomically(write);
        if self.queue.changed(begun_bytes) {
            self.queue.add(is_first, true);
        }
        written
    }

    fn update(&mut self, update: &Update) -> Result<base::Outcome> {
        self.write(|overlay| evaluate(overlay, &bucket(INDEXED), update))
    }

    fn begin_index(&mut self, definition: IndexDefinition) -> Result<()> {
        self.write(|overlay| overlay.begin_index(INDEXED, definition))
    }

    fn end_index(&mut self, number: u32) {
        let end = |overlay: &mut Overlay| overlay.end_index(INDEXED, IndexNumber(number));
        self.write(end).expect("memory");
    }

    /// Begins an index and builds it.
    fn build_index(&mut self, definition: IndexDefinition) -> IndexPhase {
        let number = definition.number;
        self.begin_index(definition).expect("it can be built");
        while !self.step(number.0) {}
        self.record(number.0).expect("it was begun").phase
    }

    /// Takes a step of an index. Returns true if it was the last one.
    fn step(&mut self, number: u32) -> bool {
        let step = self.write(|overlay| build::step(overlay, INDEXED, IndexNumber(number)));
        step.expect("memory").is_last
    }

    fn record(&mut self, number: u32) -> Option<ReplicatedIndex> {
        self.write(|overlay| overlay.index_record(INDEXED, IndexNumber(number))).expect("memory")
    }

    fn sweep(&mut self, max: usize) -> usize {
        let swept = self.write(|overlay| expire_due(overlay, Bytes::new(), max, 1_000));
        swept.expect("memory").checked
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
            let observer = Some(&self.applied_indexes as &dyn crate::group::Observer);
            self.mark =
                apply_entry_to(GROUP, &self.trees, index, &payload, (observer, &self.feeds))
                    .expect("memory");
            check(&*self.trees.snapshot(), "applied");
        }
        self.queue.release_applied(LogIndex(u64::MAX));
    }

    fn end_epoch(&mut self) {
        self.queue.end_epoch(LogIndex(0), &Applied::default());
        let counts = BucketCounts::load(GROUP, &self.trees).expect("memory");
        let indexes = GroupIndexes::load(GROUP, &self.trees).expect("memory");
        self.queue.restart(self.mark, counts, indexes);
    }

    /// Returns a store with everything that is accepted, decided or not.
    fn accepted(&mut self) -> MemoryTrees {
        let (all, mut rows) = (MemoryTrees::new(1 << 20), Vec::new());
        self.queue.begin(&self.replica);
        let mut overlay = self.queue.overlay(&self.trees);
        let low = Bound::Included(Bytes::copy_from_slice(&GROUP.0.to_be_bytes()));
        let walked = overlay.walk(low, Bound::Unbounded, Direction::Ascending, |key, row| {
            rows.push(RowChange::Put(key.clone(), row.clone()));
            Ok(true)
        });
        walked.expect("memory");
        all.apply(&mut rows.into_iter()).expect("memory");
        all
    }

    fn check_accepted(&mut self) {
        let accepted = self.accepted();
        check(&*accepted.snapshot(), "accepted");
        let recorded = GroupIndexes::load(GROUP, &accepted).expect("memory");
        assert_eq!(self.queue.indexes, recorded, "what is in force is what the records say");
    }

    /// Returns the number of entries in the bucket's indexes.
    fn entries(&mut self) -> usize {
        let mut prefix = Vec::new();
        let space = replica_state::layout::Space::Index;
        replica_state::layout::bucket_key(GROUP, space, INDEXED, &[], &mut prefix);
        let accepted = self.accepted();
        let all = store::Chunk::read(&*accepted.snapshot(), &prefix, None, usize::MAX);
        all.expect("memory").rows.len()
    }
}

impl Drop for IndexedGroup {
    fn drop(&mut self) {
        world::set_time(None);
    }
}

/// Checks that the indexes of all buckets are what the rows say.
fn check(snapshot: &dyn Snapshot, place: &str) {
    for bucket in [INDEXED, PLAIN] {
        let mismatches = check_indexes(snapshot, GROUP, bucket, 10).expect("memory");
        assert_eq!(mismatches, [], "an index lies ({place})");
    }
}
