//! The law: whatever happens, an index is what a scan of its rows says, both ways.

use super::*;
use base::Tags;
use base::request::{ExpireWhen, Expiry, OnMissing, SequenceMode, TaggedSet, When};
use proptest::prelude::*;
use runtime::mutants::Mutant;
use std::collections::BTreeMap;

/// Step of a history.
#[derive(Clone, Debug)]
enum IndexingStep {
    Update(BucketId, Update),
    /// Another group's row arrives.
    Copy(Key, Value, Option<u64>, Option<Tags>),
    /// A key that another group has removed.
    CopyRemoval(Key),
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
    /// An index of a kind is begun, goes on, or ends.
    Begin(usize),
    Step(usize),
    End(usize),
    Query(usize, queries::QuerySketch),
    /// A query of the tag `a_int`.
    TagQuery(queries::QuerySketch),
}

/// Kinds of indexes: path, type, unique, strict.
const KINDS: [(&str, ValueType, bool, bool); 4] = [
    ("$.n", ValueType::Int, false, false),
    ("$.u", ValueType::Int, true, false),
    ("$.l[*]", ValueType::Int, false, false),
    ("$.s", ValueType::String, false, true),
];

fn kind(number: u32, kind: usize) -> IndexDefinition {
    let (path, value_type, is_unique, is_strict) = KINDS[kind];
    IndexDefinition { is_unique, is_strict, ..definition(number, path, value_type) }
}

fn key() -> impl Strategy<Value = Key> {
    prop::sample::select(vec!["", "a", "ab", "abc", "b", "c"]).prop_map(Key::from)
}

fn value() -> impl Strategy<Value = Value> {
    document(true)
}

/// Returns documents and some other values. `has_unique`: true if some have a term of the unique
/// index.
fn document(has_unique: bool) -> impl Strategy<Value = Value> {
    let document = (
        prop::option::of(0..3_u8),
        prop::option::of(0..5_u8),
        prop::collection::vec(0..3_u8, 0..3),
        prop::option::of(prop::sample::select(vec!["", "x", "xy", "y"])),
    );
    let document = document.prop_map(move |(n, u, l, s)| {
        let number =
            |name: &str, number: Option<u8>| number.map(|number| format!("\"{name}\":{number}"));
        let list: Vec<_> = l.iter().map(u8::to_string).collect();
        let list = Some(format!("\"l\":[{}]", list.join(",")));
        let text = s.map(|text| format!("\"s\":\"{text}\""));
        let u = u.filter(|_| has_unique);
        let members = [number("n", n), number("u", u), list, text];
        let members: Vec<_> = members.into_iter().flatten().collect();
        Value::from(format!("{{{}}}", members.join(",")))
    });
    prop_oneof![8 => document, 1 => Just(Value::from("7")), 1 => Just(Value::new())]
}

/// Returns tags, some of which have no entry if they are written.
fn tags() -> impl Strategy<Value = Tags> {
    let tag = prop_oneof![
        6 => (0..4_u8).prop_map(|number| ("a_int", number.to_string())),
        4 => prop::sample::select(vec!["", "x", "xy"]).prop_map(|text| ("b_bin", text.to_string())),
        1 => Just(("a_int", "no number".to_string())),
    ];
    let tag = tag.prop_map(|(field, text)| (Bytes::from(field), Bytes::from(text)));
    prop::collection::btree_set(tag, 1..4).prop_map(|tags| Tags(tags.into_iter().collect()))
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
        6 => (key(), value(), expiry()).prop_map(|(key, value, expiry)| {
            Update::Set { key, value, expiry }
        }),
        2 => (key(), value(), expiry(), when()).prop_map(|(key, value, expiry, when)| {
            Update::SetIf { key, value, expiry, when }
        }),
        4 => (key(), value(), expiry(), when(), tags()).prop_map(
            |(key, value, expiry, when, tags)| {
                Update::SetTagged(Box::new(TaggedSet { key, value, expiry, when, tags }))
            },
        ),
        2 => (key(), missing).prop_map(|(key, missing)| Update::Delete { key, missing }),
        1 => (key(), maybe(), maybe()).prop_map(|(key, expected, wanted)| {
            Update::TestAndSet { key, expected, wanted }
        }),
        1 => (key(), maybe()).prop_map(|(key, wanted)| Update::Replace { key, wanted }),
        1 => (key(), value()).prop_map(|(key, value)| Update::Confirm { key, value }),
        1 => key().prop_map(|prefix| Update::DeletePrefix { prefix }),
        1 => (key(), -9..9_i64).prop_map(|(key, delta)| Update::Add { key, delta }),
        1 => (key(), value()).prop_map(|(key, value)| Update::Append { key, value }),
        1 => (key(), 0..8_usize, value()).prop_map(|(key, offset, value)| {
            Update::SetRange { key, offset, value }
        }),
        2 => (key(), key(), when()).prop_map(|(from, to, when)| Update::Rename { from, to, when }),
        1 => (key(), key(), when()).prop_map(|(from, to, when)| Update::Copy { from, to, when }),
        2 => (key(), expiry()).prop_map(|(key, expiry)| {
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

fn step() -> impl Strategy<Value = IndexingStep> {
    let which = || 0..KINDS.len();
    prop_oneof![
        14 => (prop::bool::weighted(0.9), update()).prop_map(|(is_indexed, update)| {
            IndexingStep::Update(if is_indexed { INDEXED } else { PLAIN }, update)
        }),
        // Without unique terms, which may stand twice until a copy is complete.
        1 => (key(), document(false), prop::option::of(0..90_u64), prop::option::of(tags()))
            .prop_map(|(key, value, expires, tags)| IndexingStep::Copy(key, value, expires, tags)),
        1 => key().prop_map(IndexingStep::CopyRemoval),
        2 => (1..40_u64).prop_map(IndexingStep::Pass),
        2 => (1..4_usize).prop_map(IndexingStep::Sweep),
        2 => Just(IndexingStep::Close),
        3 => Just(IndexingStep::Apply),
        1 => Just(IndexingStep::EndEpoch),
        3 => which().prop_map(IndexingStep::Begin),
        4 => which().prop_map(IndexingStep::Step),
        1 => which().prop_map(IndexingStep::End),
        3 => (which(), queries::sketch()).prop_map(|(kind, query)| {
            IndexingStep::Query(kind, query)
        }),
        2 => queries::sketch().prop_map(IndexingStep::TagQuery),
    ]
}

/// A group and the numbers of its indexes.
struct IndexedHistory {
    group: IndexedGroup,
    /// Number of the last index of each kind.
    numbers: BTreeMap<usize, u32>,
    next_number: u32,
}

impl IndexedHistory {
    fn number(&self, kind: usize) -> u32 {
        self.numbers.get(&kind).copied().unwrap_or(u32::MAX)
    }

    fn run(&mut self, step: IndexingStep) {
        let group = &mut self.group;
        match step {
            // Refused or not, the indexes hold.
            IndexingStep::Update(id, update) => {
                drop(group.write(|overlay| evaluate(overlay, &bucket(id), &update)));
            }
            IndexingStep::Copy(key, value, expires, tags) => {
                let tags = tags.map(Box::new);
                let row = StoredRow { version: Version(1), expires, value, tags };
                let copied = group.write(|overlay| overlay.put_versioned(INDEXED, &key, &row));
                copied.expect("what another group has accepted is accepted");
            }
            IndexingStep::CopyRemoval(key) => {
                let removed = group.write(|overlay| {
                    let expires = overlay.expires_at(INDEXED, &key)?;
                    overlay.remove(INDEXED, &key, expires)
                });
                removed.expect("memory");
            }
            IndexingStep::Pass(ms) => group.pass(ms),
            IndexingStep::Sweep(max) => drop(group.sweep(max)),
            IndexingStep::Close => group.queue.close(),
            IndexingStep::Apply => group.apply(),
            IndexingStep::EndEpoch => group.end_epoch(),
            IndexingStep::Begin(kind) => self.begin(kind),
            IndexingStep::Step(kind) => {
                let number = self.number(kind);
                self.group.step(number);
            }
            IndexingStep::End(kind) => {
                let number = self.number(kind);
                self.group.end_index(number);
            }
            IndexingStep::Query(kind, sketch) => {
                let number = self.number(kind);
                if KINDS[kind].1 == ValueType::Int {
                    queries::check(&mut self.group, number, &sketch);
                }
            }
            IndexingStep::TagQuery(sketch) => queries::check_tag(&mut self.group, &sketch),
        }
        self.group.check_accepted();
    }

    fn begin(&mut self, which: usize) {
        let number = self.next_number;
        // Refused if the bucket has an index of this kind still.
        let is_there = self.group.record(self.number(which)).is_some();
        if !is_there && self.group.begin_index(kind(number, which)).is_ok() {
            self.numbers.insert(which, number);
            self.next_number += 1;
        }
    }
}

fn live(steps: Vec<IndexingStep>) {
    let (group, numbers) = (IndexedGroup::new(), BTreeMap::new());
    let mut history = IndexedHistory { group, numbers, next_number: 1 };
    steps.into_iter().for_each(|step| history.run(step));
    // Whatever happened, indexes can be built to their ends.
    for (kind, (_, _, is_unique, _)) in KINDS.into_iter().enumerate() {
        history.run(IndexingStep::Begin(kind));
        let number = history.number(kind);
        while !history.group.step(number) {}
        let record = history.group.record(number);
        let expected = match &record {
            None => continue, // It was being removed.
            Some(record) if record.is_buildable() => IndexPhase::Ready,
            Some(_) => IndexPhase::Failed,
        };
        assert_eq!(record.map(|record| record.phase), Some(expected));
        assert!(expected == IndexPhase::Ready || is_unique, "only a unique index fails");
    }
    history.group.check_accepted();
    history.group.apply();
    history.group.end_epoch();
    history.group.check_accepted();
    let applied = history.group.applied_indexes.all();
    let loaded = AppliedIndexes::load(GROUP, &history.group.trees).expect("memory");
    assert_eq!(applied, loaded.all(), "the observer has seen every record");
    // A dropped bucket keeps no record.
    for bucket in [INDEXED, PLAIN] {
        history.group.write(|overlay| overlay.forget_indexes(bucket)).expect("memory");
    }
    assert!(history.group.queue.indexes.is_empty());
}

proptest! {
    #[test]
    fn index_equals_rescan_both_ways_after_every_entry_and_update(
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
        std::panic::catch_unwind(lived).is_err()
    })
}

#[test]
fn indexing_mutants_are_detected_by_the_rescan() {
    for mutant in [
        Mutant::KeepOldIndexEntries,
        Mutant::SkipUniqueCheck,
        Mutant::BuildFromAppliedRows,
        // A row goes without its entries.
        Mutant::SweepUncounted,
    ] {
        assert!(notices(mutant), "{mutant:?} was not noticed");
    }
}
