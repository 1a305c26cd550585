//! Tests of clocks: examples, laws, and vnodes that forget.

mod coding;
mod examples;
mod laws;
mod lost_memory;
mod model;

use super::Clock;
use super::clock::Entry;
use base::dots::{CounterSet, DotContext};

/// Builds a clock in the paper's notation: each actor with its count and its newest values, without
/// gaps between them; then values without a dot.
fn clock<V: Clone>(entries: &[(&'static str, u64, &[V])], anon: &[V]) -> Clock<&'static str, V> {
    let entry = |(id, count, values): &(&'static str, u64, &[V])| {
        let dots = (1..=*count).rev();
        let values = dots.zip(values.iter().cloned()).collect();
        CounterSet::up_to(*count).map(|seen| Entry { id: *id, seen, values })
    };
    Clock { entries: entries.iter().filter_map(entry).collect(), anon: anon.to_vec() }
}

fn context(counts: &[(&'static str, u64)]) -> DotContext<&'static str> {
    DotContext::from_counts(counts.iter().copied())
}

/// Generator of small pseudo-random numbers from a seed: splitmix64 (Steele, Lea, Flood, 2014).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }
}
