//! Logical clients: each with its own chance and keys, and its operations in flight.

use crate::config::{Config, Weighted};
use crate::generators::{ClientKeys, Dice, DrawnKey};
use std::collections::VecDeque;
use std::time::Instant;

/// An operation that was begun and is not finished.
#[derive(Debug)]
pub struct Flight {
    /// Which of the config's operations.
    pub operation: usize,
    /// How many of its calls were answered before.
    pub stage: u8,
    /// When the schedule wanted it to start; in a closed load when it did.
    pub intended: Instant,
    /// When its present call was sent.
    pub sent: Instant,
    /// The key.
    pub key: DrawnKey,
    /// What the get of an update gave for its put, or the key that a pop found.
    pub context: Option<Box<[u8]>>,
    /// What a test_and_set expected and wanted.
    pub swap: Option<Box<Swap>>,
}

/// The two values of a test_and_set.
#[derive(Debug)]
pub struct Swap {
    /// What the row must hold.
    pub expected: Option<Vec<u8>>,
    /// What it shall hold.
    pub wanted: Vec<u8>,
}

/// A logical client.
pub struct LogicalClient {
    /// Its own chance.
    pub dice: Dice,
    /// Its keys.
    pub keys: ClientKeys,
    /// Its keys are used up.
    pub finished: bool,
    /// Its operations in flight, in the order of its calls.
    pub flights: VecDeque<Flight>,
    /// Operations begun and not finished.
    pub outstanding: usize,
    /// A call of the present batch failed because the connection is lost.
    pub lost: bool,
}

impl LogicalClient {
    /// Client `number` of all the config's clients.
    pub fn new(config: &Config, number: usize) -> LogicalClient {
        LogicalClient {
            dice: Dice::new(config.rng_seed, number as u64),
            keys: ClientKeys::new(&config.key_generator, number, config.concurrent),
            finished: false,
            flights: VecDeque::new(),
            outstanding: 0,
            lost: false,
        }
    }
}

/// Draws operations by weight.
pub struct Draw {
    ends: Vec<u64>,
}

impl Draw {
    /// For these operations.
    pub fn new(operations: &[Weighted]) -> Draw {
        let mut sum = 0;
        let ends = operations.iter().map(|weighted| {
            sum += weighted.weight;
            sum
        });
        Draw { ends: ends.collect() }
    }

    /// The place of the next one.
    #[inline]
    pub fn next(&self, dice: &mut Dice) -> usize {
        if self.ends.len() == 1 {
            return 0;
        }
        let drawn = dice.below(self.ends.last().copied().unwrap_or(1));
        self.ends.partition_point(|end| *end <= drawn)
    }
}
