//! Loads of the study: mixes, sizes, and the cost of a message.

use load_generator::config::{Operation, named_mix};
use std::time::Duration;

/// Gets, puts and updates by weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Name in tables.
    pub name: &'static str,
    /// Weights of get, put and update.
    pub weights: [u64; 3],
}

/// Returns the mixes of the case study: two generic ones, and TPC-W's.
pub fn mixes() -> Vec<Mix> {
    let tpc_w = |name, mix| {
        let operations = named_mix(mix).unwrap_or_default();
        let weight = |operation: Operation| {
            let same = operations.iter().filter(|one| one.operation == operation);
            same.map(|one| one.weight).sum()
        };
        Mix { name, weights: [Operation::Get, Operation::Put, Operation::Update].map(weight) }
    };
    vec![
        Mix { name: "60/10/30", weights: [60, 10, 30] },
        Mix { name: "30/10/60", weights: [30, 10, 60] },
        tpc_w("TPC-W browsing", "tpcw_browsing"),
        tpc_w("TPC-W shopping", "tpcw_shopping"),
        tpc_w("TPC-W ordering", "tpcw_ordering"),
    ]
}

/// One load, the same for every kind of clock.
#[derive(Clone, Debug)]
pub struct StudyLoad {
    /// Operations of the clients.
    pub mix: Mix,
    /// Clients, each with one operation at a time.
    pub clients: usize,
    /// Keys, drawn by a truncated Pareto distribution.
    pub keys: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Think time between an update's get and its put.
    pub think: Duration,
    /// Simulated time in which the clients begin operations.
    pub time: Duration,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Costs in simulated time.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Fixed time of a message,
    pub hop: Duration,
    /// mean of the exponential time added to it,
    pub jitter: Duration,
    /// and time for each byte of values and clocks.
    pub byte: Duration,
    /// Time for which a node, which does one thing at a time, receives a message,
    pub handle: Duration,
    /// reads a row,
    pub read: Duration,
    /// and writes one.
    pub write: Duration,
}

impl Cost {
    /// Costs of a network of 1 Gbit/s, and of nodes that keep rows on disk as Riak does.
    pub const STATED: Cost = Cost {
        hop: Duration::from_micros(100),
        jitter: Duration::from_micros(50),
        byte: Duration::from_nanos(8),
        handle: Duration::from_micros(20),
        read: Duration::from_micros(100),
        write: Duration::from_micros(200),
    };
}

/// Number of nodes of the study.
pub const NODES: usize = 6;
/// Number of replicas of a key.
pub const REPLICAS: usize = 3;
/// Number of replicas that must have answered a read.
pub const READ: usize = 2;
/// Number of replicas that must have stored a write.
pub const WRITTEN: usize = 2;
/// Number of partitions of the ring.
pub const PARTITIONS: u32 = 64;

/// Returns the partition of a key.
pub fn partition(key: u32) -> u32 {
    (u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 % PARTITIONS
}

/// Returns the replicas of a key, in the order of the ring.
pub fn replicas(key: u32) -> [usize; REPLICAS] {
    let first = partition(key) as usize;
    [0, 1, 2].map(|step| (first + step) % NODES)
}
