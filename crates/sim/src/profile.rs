//! Faults of the network: messages that are lost, late, overtaken, doubled, and come again when
//! they are old; and ways on which nothing passes.

use crate::chance::Chance;
use std::collections::BTreeMap;

/// The time that the fastest message takes, microseconds.
const FASTEST_US: u64 = 100;
/// The spread of a network without faults, microseconds.
const CALM_SPREAD_US: u64 = 500;
/// The age of a message that comes again when it is old, microseconds.
const STALE_AGE_US: (u64, u64) = (50_000, 10_000_000);

/// What the network does with messages. Numbers are per mille, times are in the simulator's unit.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultProfile {
    /// Messages that are lost.
    pub loss: u64,
    /// Messages that come once more.
    pub duplicates: u64,
    /// The time that a message takes, at least and at most.
    pub delay: (u64, u64),
    /// Of those that come once more, these are old by then.
    pub stale: u64,
    /// How old: the least and the most.
    pub stale_age: (u64, u64),
    /// Messages that are later still.
    pub stragglers: u64,
    /// By how much: the least and the most.
    pub straggler_delay: (u64, u64),
}

impl FaultProfile {
    /// A network between nodes, in microseconds: a message is later than the fastest by less than
    /// `spread_us`.
    pub fn new(loss: u64, duplicates: u64, spread_us: u64) -> FaultProfile {
        let delay = (FASTEST_US, FASTEST_US + spread_us - 1);
        FaultProfile { loss, duplicates, delay, stale_age: STALE_AGE_US, ..FaultProfile::default() }
    }

    /// A network between nodes without faults.
    pub fn calm() -> FaultProfile {
        FaultProfile::new(0, 0, CALM_SPREAD_US)
    }

    /// Draws how often a message comes, unless it is lost.
    pub fn copies(&self, chance: &mut Chance) -> u64 {
        1 + u64::from(chance.often(self.duplicates))
    }

    /// Draws the time that a copy takes, the first being 0; and whether it is old by then.
    pub fn delay(&self, copy: u64, chance: &mut Chance) -> (u64, bool) {
        let mut delay = chance.between(self.delay.0, self.delay.1);
        let is_stale = copy > 0 && self.stale > 0 && chance.often(self.stale);
        if is_stale {
            delay += chance.between(self.stale_age.0, self.stale_age.1);
        }
        if self.stragglers > 0 && chance.often(self.stragglers) {
            delay += chance.between(self.straggler_delay.0, self.straggler_delay.1);
        }
        (delay, is_stale)
    }
}

/// Ways from node to node on which nothing passes. A way may be cut several times over.
#[derive(Default)]
pub struct Cuts(BTreeMap<(usize, usize), u32>);

impl Cuts {
    /// Cuts a way once more.
    pub fn cut(&mut self, from: usize, to: usize) {
        *self.0.entry((from, to)).or_default() += 1;
    }

    /// Takes one cut of a way back.
    pub fn mend(&mut self, from: usize, to: usize) {
        let cuts = self.0.entry((from, to)).or_default();
        *cuts = cuts.saturating_sub(1);
    }

    /// Takes all cuts back.
    pub fn heal(&mut self) {
        self.0.clear();
    }

    /// Returns true if nothing passes that way.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.0.get(&(from, to)).is_some_and(|cuts| *cuts > 0)
    }
}

/// Returns the ways from a node to all, itself included.
pub fn ways_from(node: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).map(move |other| (node, other))
}

/// Returns the ways to a node from all, itself included.
pub fn ways_to(node: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).map(move |other| (other, node))
}

/// Returns the ways between two sides. `half`: the bits of the nodes on one of them.
pub fn ways_between(half: u64, count: usize) -> impl Iterator<Item = (usize, usize)> {
    let side = move |node: usize| half >> node & 1;
    let ways = (0..count).flat_map(move |from| ways_from(from, count));
    ways.filter(move |(from, to)| side(*from) != side(*to))
}
