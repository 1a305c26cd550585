//! Logical clients: each with its own random numbers and keys, and its operations in flight.

use crate::config::{Config, Weighted};
use crate::generators::{ClientKeys, DrawnKey, SeededRng};
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
    /// Expected and new value of a test_and_set.
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
    /// Random numbers of this client.
    pub rng: SeededRng,
    /// Its keys.
    pub keys: ClientKeys,
    /// True if its keys are used up.
    pub keys_exhausted: bool,
    /// Its operations in flight, in the order of its calls.
    pub flights: VecDeque<Flight>,
    /// Number of its operations that were begun and are not finished.
    pub outstanding: usize,
    /// True if a call of the current batch failed because the connection is lost.
    pub is_lost: bool,
}

impl LogicalClient {
    /// Returns client `number` of all the config's clients.
    pub fn new(config: &Config, number: usize) -> LogicalClient {
        LogicalClient {
            rng: SeededRng::new(config.rng_seed, number as u64),
            keys: ClientKeys::new(&config.key_generator, number, config.concurrent),
            keys_exhausted: false,
            flights: VecDeque::new(),
            outstanding: 0,
            is_lost: false,
        }
    }
}

/// Weighted draw of operations.
pub struct Draw {
    cumulative_weights: Vec<u64>,
}

impl Draw {
    /// Returns the draw over these operations.
    pub fn new(operations: &[Weighted]) -> Draw {
        let mut total = 0;
        let cumulative_weights = operations.iter().map(|weighted| {
            total += weighted.weight;
            total
        });
        Draw { cumulative_weights: cumulative_weights.collect() }
    }

    /// Draws the index of the next operation.
    #[inline]
    pub fn next(&self, rng: &mut SeededRng) -> usize {
        if self.cumulative_weights.len() == 1 {
            return 0;
        }
        let drawn = rng.below(self.cumulative_weights.last().copied().unwrap_or(1));
        self.cumulative_weights.partition_point(|weight| *weight <= drawn)
    }
}
