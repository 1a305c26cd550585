//! First ring: the owners take no write from their answers to the decision, or the claim is
//! refused.

use super::world::World;
use base::{Reason, Result};
use std::cell::Cell;
use std::rc::Rc;

/// Longest time of a claim's questions, in microseconds.
const RUN_US: u64 = 120_000_000;

/// Asks all owners of a ring that holds nothing, in a network in which a message takes this long.
/// Returns the outcome and the time that it took, in milliseconds by the clock of the simulation.
fn claim_with_delay(message_us: u64) -> (Result<()>, u64) {
    let large = |world: &Rc<World>| world.decision().ring.layout().nodes().len() >= 4;
    let world = (0..).map(World::idle).find(large).expect("there are many");
    world.network.heal();
    world.begin();
    world.scheduler.run(2_000_000);
    world.network.set_profile(|profile| {
        profile.stragglers = 1_000;
        profile.straggler_delay = (message_us, message_us);
    });
    let result = Rc::new(Cell::new(None));
    let (result_cell, claim_world) = (Rc::clone(&result), Rc::clone(&world));
    world.scheduler.spawn(Some(0), async move {
        let node = claim_world.nodes.borrow()[0].running().expect("it lives").clone();
        let began = claim_world.scheduler.now();
        let fence = node.router.available.fence_empty_ring().await;
        let took_us = claim_world.scheduler.now() - began;
        result_cell.set(Some((fence.map(drop), took_us / 1_000)));
    });
    world.scheduler.run(RUN_US);
    let result = result.take().expect("an answer");
    world.scheduler.uninstall();
    result
}

#[test]
fn claim_whose_owners_promised_too_long_ago_is_refused() {
    let (fence, took_ms) = claim_with_delay(1_000_000);
    assert_eq!(fence, Ok(()), "all are asked at once");
    assert!(took_ms < 5_000, "two questions of 2 s each: {took_ms} ms");
    let (fence, took_ms) = claim_with_delay(3_000_000);
    let error = fence.expect_err("the first to promise may take writes before the ring changes");
    assert_eq!(error.reason, Reason::Overloaded, "{} after {took_ms} ms", error.text());
    assert!(error.text().contains("try again"), "{}", error.text());
}
