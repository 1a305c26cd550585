//! Faults of the network: messages that are lost, delayed, overtaken, duplicated, or repeated when
//! they are old; and cut directions.

use crate::chance::Chance;
use std::collections::BTreeMap;

/// Time that the fastest message takes, in microseconds.
const FASTEST_US: u64 = 100;
/// Spread of delays in a network without faults, in microseconds.
const CALM_SPREAD_US: u64 = 500;
/// Additional delay of a stale duplicate, in microseconds.
const STALE_AGE_US: (u64, u64) = (50_000, 10_000_000);

/// Fault profile of a network. Rates are per mille; times are in the simulator's unit; pairs are a
/// minimum and a maximum.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultProfile {
    /// Rate of messages that are lost.
    pub loss: u64,
    /// Rate of messages that are duplicated.
    pub duplicates: u64,
    /// Delay of a message.
    pub delay: (u64, u64),
    /// Rate of duplicates that are stale.
    pub stale: u64,
    /// Additional delay of a stale duplicate.
    pub stale_age: (u64, u64),
    /// Rate of messages that are stragglers.
    pub stragglers: u64,
    /// Additional delay of a straggler.
    pub straggler_delay: (u64, u64),
}

impl FaultProfile {
    /// Returns the profile of a network between nodes, in microseconds: a message takes less than
    /// `spread_us` longer than the fastest.
    pub fn new(loss: u64, duplicates: u64, spread_us: u64) -> FaultProfile {
        let delay = (FASTEST_US, FASTEST_US + spread_us - 1);
        FaultProfile { loss, duplicates, delay, stale_age: STALE_AGE_US, ..FaultProfile::default() }
    }

    /// Returns the profile of a network between nodes without faults.
    pub fn calm() -> FaultProfile {
        FaultProfile::new(0, 0, CALM_SPREAD_US)
    }

    /// Draws the number of copies of a message, before losses.
    pub fn copies(&self, chance: &mut Chance) -> u64 {
        1 + u64::from(chance.draw_bool(self.duplicates))
    }

    /// Draws the delay of a copy (0 is the original), and whether the copy is stale.
    pub fn delay(&self, copy: u64, chance: &mut Chance) -> (u64, bool) {
        let mut delay = chance.between(self.delay.0, self.delay.1);
        let is_stale = copy > 0 && self.stale > 0 && chance.draw_bool(self.stale);
        if is_stale {
            delay += chance.between(self.stale_age.0, self.stale_age.1);
        }
        if self.stragglers > 0 && chance.draw_bool(self.stragglers) {
            delay += chance.between(self.straggler_delay.0, self.straggler_delay.1);
        }
        (delay, is_stale)
    }
}

/// Directions between nodes in which nothing passes. A direction may be cut several times.
#[derive(Default)]
pub struct Cuts(BTreeMap<(usize, usize), u32>);

impl Cuts {
    /// Adds a cut to a direction.
    pub fn cut(&mut self, from: usize, to: usize) {
        *self.0.entry((from, to)).or_default() += 1;
    }

    /// Removes one cut from a direction.
    pub fn mend(&mut self, from: usize, to: usize) {
        let cuts = self.0.entry((from, to)).or_default();
        *cuts = cuts.saturating_sub(1);
    }

    /// Removes all cuts.
    pub fn heal(&mut self) {
        self.0.clear();
    }

    /// Returns true if a direction has a cut.
    pub fn is_cut(&self, from: usize, to: usize) -> bool {
        self.0.get(&(from, to)).is_some_and(|cuts| *cuts > 0)
    }
}

/// Returns the directions from a node to all, itself included.
pub fn directions_from(node: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).map(move |other| (node, other))
}

/// Returns the directions to a node from all, itself included.
pub fn directions_to(node: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).map(move |other| (other, node))
}

/// Returns the directions between two sides. `half`: bit mask of the nodes on one side.
pub fn directions_between(half: u64, count: usize) -> impl Iterator<Item = (usize, usize)> {
    let side = move |node: usize| half >> node & 1;
    let ways = (0..count).flat_map(move |from| directions_from(from, count));
    ways.filter(move |(from, to)| side(*from) != side(*to))
}
