//! Many histories, whichever side of the node they are of: which seeds, what they counted together,
//! and whether they see a broken rule.

use super::remains;
use runtime::mutants::{Flaw, break_on_thread};
use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::catch_unwind;

/// How often each thing happened.
pub(super) type Counts = BTreeMap<&'static str, u64>;

/// Lives through the history of a seed: what it came to, and what happened.
pub(super) type History = fn(u64) -> (u64, Counts);

fn add(all: &mut Counts, counts: Counts) {
    counts.into_iter().for_each(|(name, many)| *all.entry(name).or_default() += many);
}

/// Whether these are the long tests.
pub(super) fn long() -> bool {
    std::env::var_os("CREDENZA_TEST_LONG").is_some()
}

/// The seeds of this run: `CREDENZA_SEED` alone, or `CREDENZA_SEEDS` of them (from that one on,
/// where both are there: a long run in parts), or so many as in every run, or in the long ones.
pub(super) fn seeds(every: u64, in_long: u64) -> Range<u64> {
    let named = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (named("CREDENZA_SEED"), named("CREDENZA_SEEDS")) {
        (Some(seed), many) => seed..seed + many.unwrap_or(1),
        (None, many) => 0..many.unwrap_or(if long() { in_long } else { every }),
    }
}

/// Lives through one, of which nothing is left then.
fn live(seed: u64, history: History) -> Counts {
    remains::forget();
    let (_, counts) = history(seed);
    remains::nothing();
    counts
}

/// Lives through all of them; of one that fails the command that repeats it is said.
pub(super) fn live_through(seeds: &Range<u64>, threads: usize, history: History) -> Counts {
    let share = |which: usize| {
        let mut all = Counts::new();
        for seed in seeds.clone().skip(which).step_by(threads) {
            let counts = catch_unwind(|| live(seed, history));
            add(&mut all, counts.unwrap_or_else(|_| failed(seed)));
        }
        all
    };
    let mut all = Counts::new();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|which| scope.spawn(move || share(which))).collect();
        for counts in threads.into_iter().map(|thread| thread.join().expect("no seed failed")) {
            add(&mut all, counts);
        }
    });
    all
}

fn failed(seed: u64) -> ! {
    panic!("the history of seed {seed} fails: `./check seed {seed}` repeats it")
}

/// Each of these must have happened somewhere.
pub(super) fn all_happened(all: &Counts, wanted: &[&str]) {
    for name in wanted {
        assert!(all.get(name).is_some_and(|many| *many > 0), "never: {name}");
    }
}

/// What the judges say of a violation. Any other panic, an assertion of the product included, is no
/// proof that they see a rule broken.
const VERDICTS: [&str; 16] = [
    "two values at index",
    "values are applied in order",
    "given for value",
    "lost: ",
    "stale: ",
    "missed: ",
    "phantom: ",
    "resurrected: ",
    "lost or stale: ",
    " was never written",
    " was read before it was written",
    " was read, and its write was refused",
    " had to stand at once",
    "an attempt was lost, or applied twice",
    "nodes differ at index",
    ", which replaced it",
];

/// Rules that show in other words: what they are for is that this does not happen.
///
/// A log truncated too early is told by the next life, which does not start; a master that stays
/// though its disk hangs by the writes that stop.
const OTHERWISE: [(Flaw, &str); 2] =
    [(Flaw::TruncatesUnprocessed, "the log lacks value"), (Flaw::HangsInOffice, ": a disk hangs")];

fn is_verdict(flaw: Flaw, said: &str) -> bool {
    let named = OTHERWISE.iter().filter(|(other, _)| *other == flaw).map(|(_, words)| *words);
    VERDICTS.into_iter().chain(named).any(|words| said.contains(words))
}

/// What a history with this broken rule says, if it fails.
fn failure(flaw: Flaw, seed: u64, history: History) -> Option<String> {
    remains::forget();
    break_on_thread(Some(flaw));
    let incarnation_id = catch_unwind(|| history(seed));
    break_on_thread(None);
    incarnation_id.err().map(|panic| words(&*panic))
}

/// The words of a panic.
pub(super) fn words(panic: &(dyn Any + Send)) -> String {
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
    said.unwrap_or_default()
}

/// The first seed that is tried for a broken rule: a little below one that showed it. It only saves
/// time; where histories have changed, as many others are tried.
fn first_of(flaw: Flaw) -> u64 {
    match flaw {
        Flaw::AcceptedUnsynced => 900,
        Flaw::TornCountsAsWhole => 600,
        _ => 0,
    }
}

/// Each of these broken rules must be seen by a judge within so many histories; the rare ones are
/// looked for in the long tests.
pub(super) fn all_are_noticed(soon: &[Flaw], rare: &[Flaw], within: u64, history: History) {
    let rare = if long() { rare } else { &[] };
    let mut unnoticed = Vec::new();
    for flaw in soon.iter().chain(rare) {
        let mut otherwise = Vec::new();
        let first = first_of(*flaw);
        let seen = (first..first + within).find_map(|seed| {
            let said = failure(*flaw, seed, history)?;
            if is_verdict(*flaw, &said) {
                return Some((seed, said));
            }
            otherwise.push(said);
            None
        });
        otherwise.truncate(3);
        match seen {
            Some((seed, said)) => println!("{flaw:?}: seed {seed}: {said:.100}"),
            None => unnoticed.push(format!("{flaw:?}, but for {otherwise:.100?}")),
        }
    }
    let unnoticed = unnoticed.join("\n");
    assert!(unnoticed.is_empty(), "no judge of {within} histories sees broken:\n{unnoticed}");
}

/// The control of the control: a panic that is nobody's verdict is not taken for one.
#[test]
fn a_panic_of_the_product_is_no_verdict() {
    let panics: History = |_| panic!("assertion failed: applied <= decided");
    let finds: History = |_| panic!("lost: k = v");
    let flaw = Flaw::GivesUndecided;
    let said = |history| failure(flaw, 0, history).expect("it fails");
    assert!(!is_verdict(flaw, &said(panics)) && is_verdict(flaw, &said(finds)));
}
