//! Cost bounds: histories in which clients leave garbage and send large requests, and the judge of
//! the rows walked under a group's lock: by one request, and by turns per row that they get.
//!
//! A simulated store keeps removed rows that were durable, as a real one does until it merges them.

use super::clients::bucket;
use super::flavours::{FROZEN, Flavour, lived};
use super::mutants::check;
use super::node::SimNode;
use super::world::World;
use base::limits::EVALUATION_ROWS_MAX;
use base::request::{Expiry, SequenceMode};
use base::{Range, Read, Update};
use bytes::Bytes;
use runtime::mutants::Mutant;
use sim::{Counts, Suite};
use store::Trees;

/// Longest time to live of a client's row, in milliseconds.
const TTL_MS_MAX: u64 = 3_000;
/// Most ranges in one request: several times what a request may cost.
const RANGES_MAX: u64 = 20_000;
/// Most rows that one request may walk over; a store has several versions of some rows.
const REQUEST_ROWS_MAX: u64 = 2 * EVALUATION_ROWS_MAX as u64;
/// Most rows that all turns of a history may walk over, in addition to two per row that they get.
const TURNS_ROWS_MAX: u64 = 1_000;
/// Number of histories within which a broken bound must be noticed.
const MUTANT_SEEDS: u64 = 1_000;

/// Returns the number of rows that a node's range reads walked over, and that they returned.
pub(super) fn rows_read(node: &SimNode) -> (u64, u64) {
    let statistics = node.trees.statistics();
    (statistics.rows_walked, statistics.rows_returned)
}

impl World {
    /// Writes a row that expires, or sends one large request, as a client.
    pub(super) fn costly_request(&mut self) {
        // A sole voter does not sync what no client waits for, as sweeps write it: after a power
        // cut another entry may stand there, and the judge of consistency knows nothing of that.
        if self.nodes.len() == 1 {
            return;
        }
        let group = self.any_group();
        let Some(which) = self.master(group) else { return };
        self.values += 1;
        let key = Bytes::from(format!("t{}", self.values));
        let expiry = Expiry::After(self.steps.between(1, TTL_MS_MAX));
        let set = Update::Set { key, value: Bytes::from_static(b"v"), expiry };
        let ranges = if self.steps.draw_bool(50) { self.steps.between(1, RANGES_MAX) } else { 0 };
        // Only rows of other clients, none of which is removed.
        let range = Range::prefix(Bytes::from_static(b"k"));
        let reads = (0..ranges).map(|_| Update::Read(Read::Range(range.clone())));
        let steps = std::iter::once(set).chain(reads).collect();
        let update = Update::Sequence { steps, mode: SequenceMode::EachAlone };
        let node = &self.nodes[which];
        let Some(process) = &node.process else { return };
        if self.queue.now() < node.clock.paused_until {
            return;
        }
        node.clock.enter(self.queue.now());
        let before = rows_read(node).0;
        let submitted = process.group(group).submit(&bucket(group), &update, None);
        let walked = rows_read(node).0 - before;
        assert!(walked <= REQUEST_ROWS_MAX, "costs too much: a request walked over {walked} rows");
        let refused = !submitted.is_ok_and(|(_, _, outcome)| outcome.is_ok());
        self.journal.count(match (ranges, refused) {
            (0, false) => "expiring write",
            (0, true) => "expiring write refused",
            (_, false) => "large request",
            (_, true) => "large request refused",
        });
        self.wake(which, 10);
    }

    /// Counts the rows of one turn of a node.
    pub(super) fn count_rows(&self, nth: usize, before: (u64, u64)) {
        let now = rows_read(&self.nodes[nth]);
        self.journal.add("rows walked by turns", now.0 - before.0);
        self.journal.add("rows given to turns", now.1 - before.1);
    }

    /// Asserts that all turns together stayed within the bound.
    pub(super) fn check_costs(&self) {
        let [walked, given] =
            ["rows walked by turns", "rows given to turns"].map(|name| self.journal.count_of(name));
        let limit = 2 * given + TURNS_ROWS_MAX;
        assert!(walked <= limit, "costs too much: turns walked over {walked} rows for {given}");
    }
}

fn costly(seed: u64) -> (u64, Counts) {
    lived(World::with(seed, Flavour::Costly))
}

const COSTLY: Suite = Suite {
    name: "requests that cost much",
    seeds: 40,
    seeds_long: 2_000,
    history: costly,
    required_events: &["wrote", "read", "expiring write", "large request", "large request refused"],
    ..FROZEN
};

#[test]
fn request_and_expiry_sweep_cost_is_bounded_in_histories() {
    COSTLY.run();
}

#[test]
fn unbounded_cost_mutants_are_detected() {
    let soon = [Mutant::EvaluateWithoutBudget, Mutant::RestartExpirySweep];
    check(costly, MUTANT_SEEDS).assert_detected(&soon, &[]);
}
