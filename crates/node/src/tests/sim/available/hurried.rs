//! Failure detection with short timeouts: a silent node is suspected as with any other request; a
//! node that answers a little late is not.

use super::clients::{bucket, key};
use super::passing::{quiet, start_call};
use super::world::World;
use base::{AvailableCall, Content, FetchOptions, Store, StoreOptions};
use logic::ring::point;
use sim::FaultProfile;

/// Silence after which a node is suspected, in milliseconds.
const SUSPECT_MS: u64 = 500;

fn read(timeout_ms: u64) -> AvailableCall {
    let options = FetchOptions { timeout_ms: Some(timeout_ms), ..FetchOptions::default() };
    AvailableCall::Fetch { key: key(0), options }
}

fn write(timeout_ms: u64) -> AvailableCall {
    let options = StoreOptions { timeout_ms: Some(timeout_ms), ..StoreOptions::default() };
    let content = Content::plain("v".into());
    AvailableCall::Store(Box::new(Store { key: key(0), content, options, ..Store::default() }))
}

fn suspects(world: &World, nth: usize, other: usize) -> bool {
    let nodes = world.nodes.borrow();
    let node = world.decision().nodes[other];
    nodes[nth].running().expect("it lives").router.available.failure_detector.is_suspected(node)
}

fn second_owner(world: &World) -> usize {
    let decision = world.decision();
    let partition = decision.ring.partition(&point(bucket().full().as_bytes(), &key(0)));
    let owner = decision.ring.owners(partition, 3)[1];
    decision.nodes.iter().position(|node| *node == owner).expect("it is known")
}

/// Makes three calls to an owner that has just been cut off from another one. Returns true if it
/// suspects that one while the link still stands.
fn suspects_after_three_calls(call: impl Fn() -> AvailableCall) -> bool {
    let (world, _, cut_off) = quiet();
    let caller = second_owner(&world);
    for (from, to) in [(caller, cut_off), (cut_off, caller)] {
        world.network.cut(from, to);
    }
    let answers: Vec<_> = (0..3).map(|_| start_call(&world, caller, call())).collect();
    world.scheduler.run(SUSPECT_MS * 1_000 + 100_000);
    for answers in answers {
        let (_, answer) = answers.take().pop().expect("two of three are enough");
        assert!(answer.expect("in time").is_ok());
    }
    assert!(world.network.is_linked(caller, cut_off));
    let suspect = suspects(&world, caller, cut_off);
    world.scheduler.uninstall();
    suspect
}

#[test]
fn silent_node_is_suspected_even_with_short_timeouts() {
    for timeout_ms in [50, SUSPECT_MS - 1, SUSPECT_MS, SUSPECT_MS + 1, 5_000] {
        assert!(suspects_after_three_calls(|| read(timeout_ms)), "reads within {timeout_ms} ms");
        assert!(suspects_after_three_calls(|| write(timeout_ms)), "writes within {timeout_ms} ms");
    }
}

#[test]
fn late_answering_node_is_not_suspected() {
    let (world, ..) = quiet();
    // Every message takes up to 40 ms; the requests time out after 5 ms.
    world.network.set_profile(|profile| *profile = FaultProfile::new(0, 0, 40_000));
    let caller = second_owner(&world);
    for _ in 0..8 {
        let answers = start_call(&world, caller, read(5));
        world.scheduler.run(200_000);
        assert_eq!(answers.take().len(), 1, "it is answered, well or not");
    }
    for other in (0..world.count).filter(|other| *other != caller) {
        assert!(!suspects(&world, caller, other), "{other} has answered every time");
    }
    world.scheduler.uninstall();
}
