//! Indexed buckets: histories in which indexes are begun, built, queried and removed while rows
//! change and expire; and the judge of indexes: they are what a scan of the rows says, both ways,
//! on every replica, always.

use super::clients::bucket;
use super::flavours::{FROZEN, Flavour};
use super::mutants::check;
use super::node::group_id;
use super::world::World;
use base::range::Direction;
use base::request::{Expiry, OnMissing, SequenceMode, TaggedSet, When};
use base::{BucketId, GroupId, Key, Tags, Update};
use bytes::Bytes;
use indexes::{
    DefinitionSet, IndexDefinition, IndexField, IndexName, IndexNumber, JsonPath, LivingValue,
    Term, TermKind, TermRange, ValueFormat, ValueType, stored_entries,
};
use replica_state::index_check::check_indexes;
use replica_state::layout::{ROW_PREFIX_BYTES, StoredRow, row_key};
use replica_state::replicated_index::{IndexPhase, ReplicatedIndex};
use replication::group::Group;
use replication::index_query::{IndexAnswer, MatchContent, TermQuery};
use runtime::mutants::Mutant;
use sim::{Chance, Counts, Suite};
use std::sync::Arc;
use store::{Chunk, Trees};

/// Longest time to live of a client's row, in milliseconds.
const TTL_MS_MAX: u64 = 1_500;
/// Number of keys of these clients.
const KEYS: u64 = 6;
/// Number of indexes that a bucket may have.
const INDEXES: u64 = 6;
/// Maximum number of differences that the judge lists.
const MISMATCHES: usize = 5;
/// Length of the trouble in a history, in simulated seconds.
const SECONDS: u64 = 15;
/// Number of histories within which a broken rule must be noticed.
const MUTANT_SEEDS: u64 = 500;

/// Returns the definition of an index. Every third is unique, and every third of a list.
pub(crate) fn definition(number: u32) -> IndexDefinition {
    let path = ["$.n", "$.u", "$.l[*]"][number as usize % 3];
    IndexDefinition {
        number: IndexNumber(number),
        name: IndexName::parse(&format!("i{number}")).expect("a name"),
        path: JsonPath::parse(path).expect("a path"),
        value_type: ValueType::Int,
        format: ValueFormat::Json,
        is_unique: path == "$.u",
        is_strict: false,
    }
}

/// Asserts that the indexes of a bucket are what its rows say. Returns their records.
pub(super) fn judge_index(
    group: GroupId,
    id: BucketId,
    trees: &dyn Trees,
) -> Vec<(IndexNumber, IndexPhase)> {
    let snapshot = trees.snapshot();
    let mismatches = check_indexes(&*snapshot, group, id, MISMATCHES).expect("memory");
    assert!(mismatches.is_empty(), "an index is wrong: {mismatches:?} in {group}, {id:?}");
    let mut key = Vec::new();
    row_key(group, BucketId(0), &[&b"x"[..], &id.0.to_be_bytes()].concat(), &mut key);
    let records = Chunk::read(&*snapshot, &key, None, usize::MAX).expect("memory").rows;
    let record = |(_, row): &(Bytes, Bytes)| {
        let record = ReplicatedIndex::decode(&StoredRow::read(row).expect("a row").value);
        record.map(|record| (record.definition.number, record.phase)).expect("a record")
    };
    records.iter().map(record).collect()
}

/// Asserts that a query, page by page, finds what a scan of a group's applied rows finds. Returns
/// the number of rows. `None`: the index does not answer queries.
pub(super) fn judge_query(
    group: &Group,
    id: BucketId,
    trees: &dyn Trees,
    (number, rows_max, direction): (IndexNumber, usize, Direction),
) -> Option<usize> {
    let mut definitions = DefinitionSet::default();
    definitions.insert(definition(number.0)).expect("the only one");
    let field = IndexField::Declared(number);
    let query = all_of((field, ValueType::Int.kind()), rows_max, direction);
    judge_field((group, id), trees, &definitions, query)
}

/// Asserts that a query of the tag `a_int` finds what a scan finds; see [`judge_query`].
pub(super) fn judge_tag_query(
    group: &Group,
    id: BucketId,
    trees: &dyn Trees,
    (rows_max, direction): (usize, Direction),
) -> Option<usize> {
    let field = IndexField::tag(b"a_int").expect("a field");
    let query = all_of((field, TermKind::TagInteger), rows_max, direction);
    judge_field((group, id), trees, &DefinitionSet::default(), query)
}

/// Returns the query for all records of a field.
fn all_of(
    (field, kind): (IndexField, TermKind),
    rows_max: usize,
    direction: Direction,
) -> TermQuery {
    TermQuery {
        field,
        terms: TermRange::all(kind),
        filter: None,
        after: None,
        direction,
        rows_max: Some(rows_max),
        bytes_max: None,
        content: MatchContent::Records,
    }
}

fn judge_field(
    (group, id): (&Group, BucketId),
    trees: &dyn Trees,
    definitions: &DefinitionSet,
    mut query: TermQuery,
) -> Option<usize> {
    let (mut key, now) = (Vec::new(), group.applied.time());
    row_key(group.id, id, &[], &mut key);
    let mut expected: Vec<(Term, Key)> = Vec::new();
    for (key, row) in Chunk::read(&*trees.snapshot(), &key, None, usize::MAX).expect("memory").rows
    {
        let row = StoredRow::read(&row).expect("a row");
        let tags = row.tags.as_ref().map_or(&[][..], |tags| &tags.0);
        let value = LivingValue { tags, bytes: &row.value };
        let entries = stored_entries(definitions, &[value]).entries.into_iter();
        let entries = entries.filter(|one| one.field == query.field && !row.is_expired(now));
        expected.extend(entries.map(|entry| (entry.term, key.slice(ROW_PREFIX_BYTES..))));
    }
    expected.sort();
    if query.direction == Direction::Descending {
        expected.reverse();
    }
    let of = replication::bucket::Bucket::new(id, group.id, base::Properties::default());
    let mut found = Vec::new();
    loop {
        let (_, answer) = group.query_index(&of, &query);
        let IndexAnswer::Page(page) = answer.expect("memory") else { return None };
        for row in page.rows {
            assert!(row.row.is_some(), "a query is wrong: no record of {:?}", row.key);
            found.push((row.term.expect("terms are asked for"), row.key));
        }
        query.after = page.next_after;
        if query.after.is_none() {
            break;
        }
    }
    assert!(found == expected, "a query is wrong: {found:?}, and not {expected:?}");
    Some(found.len())
}

/// Draws a document: few terms, so that they meet.
fn draw_value(chance: &mut Chance) -> Bytes {
    let mut members = Vec::new();
    if chance.draw_bool(800) {
        members.push(format!("\"n\":{}", chance.below(3)));
    }
    if chance.draw_bool(600) {
        members.push(format!("\"u\":{}", chance.below(9)));
    }
    let list: Vec<_> = (0..chance.below(3)).map(|_| chance.below(4).to_string()).collect();
    members.push(format!("\"l\":[{}]", list.join(",")));
    format!("{{{}}}", members.join(",")).into()
}

/// Draws tags: few terms, so that they meet.
fn draw_tags(chance: &mut Chance) -> Tags {
    let number = Bytes::from(chance.below(3).to_string());
    let mut tags = vec![(Bytes::from_static(b"a_int"), number)];
    if chance.draw_bool(500) {
        let text = Bytes::from("x".repeat(chance.below(3) as usize));
        tags.push((Bytes::from_static(b"b_bin"), text));
    }
    Tags(tags)
}

/// Draws an update that writes or removes rows which no judge of answers reads.
pub(super) fn draw_update(chance: &mut Chance) -> Update {
    let key = |chance: &mut Chance| Bytes::from(format!("t{}", chance.below(KEYS)));
    let expiry = |chance: &mut Chance| match chance.below(3) {
        0 => Expiry::After(chance.below(TTL_MS_MAX)),
        _ => Expiry::Never,
    };
    let set = |chance: &mut Chance| {
        let (key, value, expiry) = (key(chance), draw_value(chance), expiry(chance));
        if chance.draw_bool(600) {
            return Update::Set { key, value, expiry };
        }
        let (when, tags) = (When::Always, draw_tags(chance));
        Update::SetTagged(Box::new(TaggedSet { key, value, expiry, when, tags }))
    };
    let delete = |chance: &mut Chance, missing| Update::Delete { key: key(chance), missing };
    match chance.below(10) {
        0..=4 => set(chance),
        5 => delete(chance, OnMissing::Skip),
        6 if chance.draw_bool(300) => Update::DeletePrefix { prefix: Bytes::from_static(b"t") },
        7 => {
            let (from, to) = (key(chance), key(chance));
            Update::Rename { from, to, when: When::Always }
        }
        // A step that fails takes its entries with it, or all that came before.
        _ => {
            let steps = vec![set(chance), delete(chance, OnMissing::Fail), set(chance)];
            let modes = [SequenceMode::EachAlone, SequenceMode::AllOrNothing];
            Update::Sequence { steps, mode: modes[chance.below(2) as usize] }
        }
    }
}

/// Takes the next step of one of the indexes of a bucket that have one to take. Returns what came
/// of it.
pub(super) fn step_some(
    group: &Group,
    of: &replication::bucket::Bucket,
    pick: u64,
) -> Option<&'static str> {
    let is_due = |record: &Arc<ReplicatedIndex>| {
        matches!(record.phase, IndexPhase::Building | IndexPhase::Dropping)
    };
    let due: Vec<_> = group.indexes.of(of.id).into_iter().filter(is_due).collect();
    let record = due.get(pick as usize % due.len().max(1))?;
    let number = record.definition.number;
    // Refused where this node is master no more.
    let step = group.step_index(of, number, group.leadership.epoch()).ok()?;
    let name = if record.phase == IndexPhase::Building { "index built" } else { "index removed" };
    step.is_last.then_some(name)
}

impl World {
    /// Changes rows or indexes of a group, as clients and whoever tends indexes.
    pub(super) fn indexed_request(&mut self) {
        // As for counts: a sole voter does not sync what no client waits for.
        if self.nodes.len() == 1 {
            return;
        }
        let group = self.any_group();
        let Some(which) = self.master(group) else { return };
        let node = &self.nodes[which];
        let Some(process) = &node.process else { return };
        if self.queue.now() < node.clock.paused_until {
            return;
        }
        node.clock.enter(self.queue.now());
        let (part, of) = (process.group(group), bucket(group));
        let epoch = part.leadership.epoch();
        let number = IndexNumber(1 + self.steps.below(INDEXES) as u32);
        let name = match self.steps.below(20) {
            // Refused where this node is master no more, or there is one of this number.
            0 => part.begin_index(&of, definition(number.0), epoch).ok().map(|_| "index begun"),
            1 if self.steps.draw_bool(300) => {
                part.end_index(&of, number, epoch).ok().map(|_| "index ended")
            }
            1..=6 => step_some(part, &of, self.steps.below(INDEXES)),
            7 | 8 => {
                let rows_max = 1 + self.steps.below(4) as usize;
                let directions = [Direction::Ascending, Direction::Descending];
                let direction = directions[self.steps.below(2) as usize];
                if self.steps.draw_bool(300) {
                    let query = (rows_max, direction);
                    let found = judge_tag_query(part, of.id, &*node.trees, query);
                    found.filter(|found| *found > 0).map(|_| "tags queried")
                } else {
                    let query = (number, rows_max, direction);
                    judge_query(part, of.id, &*node.trees, query).map(|_| "index queried")
                }
            }
            _ => {
                let update = draw_update(&mut self.steps);
                let outcome = part.submit(&of, &update, None).map(|(_, _, outcome)| outcome);
                let is_duplicate =
                    |error: &base::Error| error.reason == base::Reason::AlreadyExists;
                let refused = outcome.is_ok_and(|outcome| outcome.is_err_and(|e| is_duplicate(&e)));
                refused.then_some("duplicate refused")
            }
        };
        if let Some(name) = name {
            self.journal.count(name);
        }
        self.wake(which, 10);
    }

    /// Judges the indexes of a node's replicas.
    pub(super) fn judge_indexes(&self, nth: usize) {
        for group in 0..self.judges.len() {
            let trees = &*self.nodes[nth].trees;
            for (_, phase) in judge_index(group_id(group), bucket(group).id, trees) {
                if phase == IndexPhase::Failed {
                    self.journal.count("index failed");
                }
            }
        }
    }

    /// Runs until no index of any group has a step to take.
    fn complete_indexes(&mut self) {
        if self.nodes.len() == 1 {
            return;
        }
        let begin = self.queue.now();
        let is_at_rest = |world: &World, group: usize| {
            let Some(master) = world.master(group) else { return false };
            let trees = &*world.nodes[master].trees;
            let records = judge_index(group_id(group), bucket(group).id, trees);
            let rests =
                |phase: &IndexPhase| matches!(phase, IndexPhase::Ready | IndexPhase::Failed);
            records.iter().all(|(_, phase)| rests(phase))
        };
        while let Some(group) = (0..self.judges.len()).find(|group| !is_at_rest(self, *group)) {
            assert!(self.queue.now() < begin + 60_000_000, "no progress: an index of {group}");
            if let Some(master) = self.master(group) {
                self.nodes[master].clock.enter(self.queue.now());
                let part = self.process(master).expect("it leads").group(group).clone();
                step_some(&part, &bucket(group), self.steps.below(INDEXES));
                self.wake(master, 10);
            }
            self.run(20_000);
        }
        self.journal.count("indexes at rest");
    }
}

fn indexed(seed: u64) -> (u64, Counts) {
    let mut world = World::with(seed, Flavour::Indexed);
    world.run(SECONDS * 1_000_000);
    world.heal();
    world.wait_until_level();
    world.complete_indexes();
    world.finish_and_check()
}

const INDEXED: Suite = Suite {
    name: "indexed buckets",
    seeds: 60,
    seeds_long: 20_000,
    history: indexed,
    required_events: &[
        "wrote",
        "read",
        "crash",
        "snapshot",
        "index begun",
        "index built",
        "index failed",
        "index ended",
        "index removed",
        "index queried",
        "tags queried",
        "duplicate refused",
        "indexes at rest",
    ],
    ..FROZEN
};

#[test]
fn indexes_equal_rows_on_every_replica_in_histories() {
    INDEXED.run();
}

#[test]
fn index_mutants_are_detected() {
    let soon = [
        Mutant::KeepOldIndexEntries,
        Mutant::SkipUniqueCheck,
        Mutant::BuildFromAppliedRows,
        Mutant::SweepUncounted,
    ];
    check(indexed, MUTANT_SEEDS).assert_detected(&soon, &[]);
}
