//! The law: whatever happens, a feed is what its rows say, and readers miss nothing.

use super::*;
use base::request::{Expiry, OnMissing, SequenceMode};
use proptest::prelude::*;
use runtime::mutants::Mutant;

/// Step of a history.
#[derive(Clone, Debug)]
enum FeedStep {
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
    /// The feed is begun, or keeps values from now on, or no longer.
    Begin(bool),
    /// The feed is built or removed, one page.
    Step,
    Trim,
    End,
    /// One of the readers reads a page of so many events.
    Read(usize, usize),
    /// One of the readers is replaced by a new one.
    Forget(usize),
}

const READERS: usize = 3;

fn key() -> impl Strategy<Value = Key> {
    prop::sample::select(vec!["", "a", "ab", "b", "c", "d"]).prop_map(Key::from)
}

fn value() -> impl Strategy<Value = Value> {
    prop::sample::select(vec!["", "1", "2"]).prop_map(Value::from)
}

fn single_update() -> impl Strategy<Value = Update> {
    let expiry = prop_oneof![
        3 => Just(Expiry::Default),
        1 => Just(Expiry::Keep),
        2 => (0..40_u64).prop_map(Expiry::After),
    ];
    let missing = OnMissing::Skip;
    prop_oneof![
        6 => (key(), value(), expiry).prop_map(|(key, value, expiry)| {
            Update::Set { key, value, expiry }
        }),
        3 => key().prop_map(move |key| Update::Delete { key, missing }),
        1 => key().prop_map(|prefix| Update::DeletePrefix { prefix }),
        1 => (key(), key()).prop_map(|(from, to)| {
            Update::Rename { from, to, when: base::request::When::Always }
        }),
    ]
}

fn update() -> impl Strategy<Value = Update> {
    let modes = vec![SequenceMode::AllOrNothing, SequenceMode::EachAlone];
    let sequence = (prop::collection::vec(single_update(), 0..5), prop::sample::select(modes))
        .prop_map(|(steps, mode)| Update::Sequence { steps, mode });
    prop_oneof![4 => single_update(), 1 => sequence]
}

fn step() -> impl Strategy<Value = FeedStep> {
    prop_oneof![
        14 => (prop::bool::weighted(0.9), update()).prop_map(|(is_fed, update)| {
            FeedStep::Update(if is_fed { FED } else { PLAIN }, update)
        }),
        3 => (1..40_u64).prop_map(FeedStep::Pass),
        2 => (1..4_usize).prop_map(FeedStep::Sweep),
        2 => Just(FeedStep::Close),
        5 => Just(FeedStep::Apply),
        1 => Just(FeedStep::EndEpoch),
        2 => prop::bool::ANY.prop_map(FeedStep::Begin),
        4 => Just(FeedStep::Step),
        4 => Just(FeedStep::Trim),
        1 => prop::bool::weighted(0.3).prop_map(|is_end| {
            if is_end { FeedStep::End } else { FeedStep::Apply }
        }),
        6 => (0..READERS, 1..4_usize).prop_map(|(reader, events)| FeedStep::Read(reader, events)),
        1 => (0..READERS).prop_map(FeedStep::Forget),
    ]
}

struct FedHistory {
    group: FedGroup,
    readers: [FeedReader; READERS],
}

impl FedHistory {
    fn run(&mut self, step: FeedStep) {
        let group = &mut self.group;
        match step {
            // Refused or not, the feed holds.
            FeedStep::Update(id, update) => {
                drop(group.write(|overlay| evaluate(overlay, &bucket(id), &update)));
            }
            FeedStep::Pass(ms) => group.pass(ms),
            FeedStep::Sweep(max) => group.sweep(max),
            FeedStep::Close => group.queue.close(),
            FeedStep::Apply => group.apply(),
            FeedStep::EndEpoch => group.end_epoch(),
            FeedStep::Begin(has_values) => group.begin(has_values),
            FeedStep::Step => drop(group.step()),
            FeedStep::Trim => drop(group.trim()),
            FeedStep::End => group.write(|overlay| overlay.end_feed(FED)).expect("memory"),
            FeedStep::Read(reader, events) => self.readers[reader].read(group, events),
            FeedStep::Forget(reader) => self.readers[reader] = FeedReader::default(),
        }
    }
}

fn live(steps: Vec<FeedStep>) {
    let (group, readers) = (FedGroup::new(), Default::default());
    let mut history = FedHistory { group, readers };
    steps.into_iter().for_each(|step| history.run(step));
    // Whatever happened, a feed can be built to its end, and read.
    history.group.finish();
    history.group.begin(false);
    history.group.finish();
    let phase = history.group.feeds.find(FED).map(|record| record.phase);
    assert_eq!(phase, Some(FeedPhase::Ready));
    for reader in &mut history.readers {
        reader.read_all(&history.group);
    }
    let loaded = AppliedFeeds::load(GROUP, &history.group.trees).expect("memory");
    assert_eq!(history.group.feeds.all(), loaded.all(), "every record and every entry was seen");
    // It can be removed without a rest.
    history.group.write(|overlay| overlay.end_feed(FED)).expect("memory");
    history.group.finish();
    assert_eq!((history.group.entries(), history.group.feeds.find(FED)), (0, None));
}

proptest! {
    #[test]
    fn feed_equals_its_rows_after_every_entry_and_readers_miss_nothing(
        steps in prop::collection::vec(step(), 0..120),
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
    let steps = prop::collection::vec(step(), 20..120);
    (0..400).any(|_| {
        let steps = steps.new_tree(&mut runner).expect("steps").current();
        let lived = std::panic::AssertUnwindSafe(|| mutant.while_active(|| live(steps)));
        std::panic::catch_unwind(lived).is_err()
    })
}

#[test]
fn feed_mutants_are_detected_by_the_check_or_by_readers() {
    for mutant in [Mutant::ReuseFeedPositions, Mutant::BuildFeedOfAllRows, Mutant::ForgetFeedFloor]
    {
        assert!(notices(mutant), "{mutant:?} was not noticed");
    }
}
