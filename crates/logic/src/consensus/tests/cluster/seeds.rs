//! Histories, one per seed.

use super::world::{Item, World};
use crate::consensus::{Event, LeaseClock, Member, ValueHandle};
use base::{Millis, Part};

const VOTER: Part = Part::Voter;
/// The groups that histories are about; each seed takes one.
const GROUPS: [&[Part]; 7] = [
    &[VOTER, VOTER, VOTER],
    &[VOTER, VOTER, VOTER],
    &[VOTER, VOTER, VOTER, VOTER, VOTER],
    &[VOTER, VOTER, Part::Witness],
    &[VOTER, VOTER, VOTER, Part::Learner],
    &[VOTER, VOTER, VOTER, VOTER],
    &[VOTER, VOTER, VOTER, Part::Learner, Part::Learner],
];

/// What a history came to.
pub struct History {
    pub digest: u64,
    decided: usize,
    reads: u64,
    reigns: usize,
    changes: usize,
}

pub fn live(seed: u64) -> History {
    // One in eight groups has no lease at all: its reads ask a majority. The clocks of others are
    // bad enough for the bargain's margins to matter.
    let drift_ppm = [10_000, 1_000, 10_000, 100_000, 10_000, 300_000, 10_000, 1_000_000];
    let length = [600, 150, 300, 100, 200];
    let lease = LeaseClock {
        length: Millis(length[(seed % length.len() as u64) as usize]),
        drift_ppm: drift_ppm[(seed % drift_ppm.len() as u64) as usize],
        reads: true,
    };
    let parts = GROUPS[(seed % GROUPS.len() as u64) as usize];
    // In every other group, members come and go.
    let spare = if (seed / 3).is_multiple_of(2) { 2 } else { 0 };
    let mut world = World::new(seed, parts, spare, lease);
    world.after(1, Item::Client);
    world.after(900, Item::Fault);
    world.run(15_000);
    world.make_peace();
    world.run(25_000);
    let masters = world.masters();
    assert_eq!(masters.len(), 1, "left in peace, one leads");
    let before = world.judge.ledger.len();
    world.step(masters[0], Event::Propose { value: ValueHandle { bytes: 10, updates: 1 } });
    world.run(26_500);
    assert!(world.judge.ledger.len() > before, "left in peace, values are decided");
    let history = History {
        digest: world.judge.digest,
        decided: world.judge.ledger.len(),
        reads: world.judge.answered,
        reigns: world.judge.reigns(),
        changes: world.judge.changes(),
    };
    let members = world.slots[masters[0]].machine.replica.configuration().members();
    let slots = members.iter().map(|member| &world.slots[member.node.0 as usize - 1]);
    for slot in slots.filter(|slot| slot.lost.is_none()) {
        let node = slot.identity.node;
        let decided = slot.machine.replica.decided().0 as usize;
        let replica = &slot.machine.replica;
        assert!(decided + 50 >= history.decided, "node {node} is behind: {replica:?}");
        assert_eq!(slot.machine.values[..decided], world.judge.ledger[..decided]);
    }
    who_is_out_knows_it(&world, members);
    history
}

/// Who was away while it was taken out does not take itself for a member for ever, and its log need
/// not keep what it could not know to be decided.
fn who_is_out_knows_it(world: &World, members: &[Member]) {
    for slot in world.slots.iter().filter(|slot| slot.up) {
        let (node, replica) = (slot.identity.node, &slot.machine.replica);
        let is_out = members.iter().all(|member| member.node != node);
        let believes = replica.configuration().part(node).is_some();
        let rests = replica.membership.dismissed && replica.last() == replica.decided();
        assert!(!is_out || !believes || rests, "node {node} is out and waits: {replica:?}");
    }
}

fn live_or_say(seed: u64) -> History {
    std::panic::catch_unwind(|| live(seed)).unwrap_or_else(|panic| {
        eprintln!("./check seed {seed} repeats this history");
        std::panic::resume_unwind(panic)
    })
}

/// The seeds to live through: one by name, or so many from there on, or the first so many.
fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match (number("CREDENZA_SEED"), number("CREDENZA_SEEDS")) {
        (Some(seed), count) => seed..seed + count.unwrap_or(1),
        (None, None) if std::env::var("CREDENZA_TEST_LONG").is_ok() => 0..100_000,
        (None, count) => 0..count.unwrap_or(1_000),
    }
}

#[test]
fn no_history_loses_contradicts_or_reads_back() {
    let (mut decided, mut reads, mut reigns, mut changes) = (0, 0, 0, 0);
    for seed in seeds() {
        let history = live_or_say(seed);
        decided += history.decided;
        reads += history.reads;
        reigns += history.reigns;
        changes += history.changes;
    }
    let count = seeds().count();
    println!(
        "{count} histories: {decided} values decided, {reads} reads, {reigns} reigns, \
         {changes} changes of members"
    );
    if count > 100 {
        assert!(decided / count > 100 && reads as usize / count > 30 && reigns / count > 2);
        assert!(changes > count / 2);
    }
}

#[test]
fn histories_that_once_failed_hold() {
    // A master's values went into what was being learnt of its configuration, which was over.
    live(57_432);
    // A promise to such a master came between what was learnt and its record: it never counted.
    live(85_741);
}

#[test]
fn a_seed_is_a_history() {
    for seed in [3, 11, 40] {
        assert_eq!(live(seed).digest, live(seed).digest);
    }
    assert_ne!(live(3).digest, live(4).digest);
}
