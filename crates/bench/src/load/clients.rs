//! Logical clients: each with its own random numbers and keys, and its operations in flight.

use crate::config::{Config, Weighted};
use crate::generators::{ClientKeys, Dice, DrawnKey};
use std::collections::VecDeque;
use std::time::Instant;

/// An operation that was begun and is not finished.
#[derive(Debug)]
pub struct Flight {
    /// Index of the operation in the config.
    pub operation: usize,
    /// Number of its calls that were answered.
    pub stage: u8,
    /// Intended start by the schedule; in a closed load the actual start.
    pub intended: Instant,
    /// Time at which its current call was sent.
    pub sent: Instant,
    /// The key.
    pub key: DrawnKey,
    /// Context that the get of an update returned for its put, or the key that a pop found.
    pub context: Option<Box<[u8]>>,
    /// Expected and wanted value of a test_and_set.
    pub swap: Option<Box<Swap>>,
}

/// The two values of a test_and_set.
#[derive(Debug)]
pub struct Swap {
    /// Value that the row must hold. `None`: the row must be absent.
    pub expected: Option<Vec<u8>>,
    /// New value.
    pub wanted: Vec<u8>,
}

/// A logical client.
pub struct LogicalClient {
    /// Its own random numbers.
    pub dice: Dice,
    /// Its keys.
    pub keys: ClientKeys,
    /// True if its keys are used up.
    pub finished: bool,
    /// Its operations in flight, in the order of its calls.
    pub flights: VecDeque<Flight>,
    /// Number of its operations that were begun and are not finished.
    pub outstanding: usize,
    /// True if a call of the current batch failed because the connection is lost.
    pub lost: bool,
}

impl LogicalClient {
    /// Returns client `number` of all the config's clients.
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

/// Weighted draw of operations.
pub struct Draw {
    ends: Vec<u64>,
}

impl Draw {
    /// Returns the draw over these operations.
    pub fn new(operations: &[Weighted]) -> Draw {
        let mut sum = 0;
        let ends = operations.iter().map(|weighted| {
            sum += weighted.weight;
            sum
        });
        Draw { ends: ends.collect() }
    }

    /// Draws the index of the next operation.
    #[inline]
    pub fn next(&self, dice: &mut Dice) -> usize {
        if self.ends.len() == 1 {
            return 0;
        }
        let drawn = dice.below(self.ends.last().copied().unwrap_or(1));
        self.ends.partition_point(|end| *end <= drawn)
    }
}
