//! Lists of keys while a node that takes part is lost.

use super::clients::key;
use super::passing::{Answers, quiet, start_call};
use super::world::World;
use base::{AvailableCall, Body, Content, Reply, Store};
use std::rc::Rc;

const KEYS: usize = 40;

/// Returns a quiet cluster with [`KEYS`] keys, a node that keeps no copy of the first key, and that
/// key's first owner.
fn filled() -> (Rc<World>, usize, usize) {
    let (world, non_owner, owner) = quiet();
    for number in 0..KEYS {
        let (key, content) = (key(number), Content::plain("v".into()));
        let store = Store { key, content, ..Store::default() };
        start_call(&world, number % world.count, AvailableCall::Store(Box::new(store)));
    }
    world.scheduler.run(500_000);
    (world, non_owner, owner)
}

fn list() -> AvailableCall {
    AvailableCall::Keys { after: None, rows_max: 1_000 }
}

/// Returns the time of an answer, and the number of keys that it lists.
fn listed(answers: &Answers) -> (u64, usize) {
    let (when, answer) = answers.take().pop().expect("an answer");
    match answer.expect("in time") {
        Ok(Reply { body: Body::Keys(keys), .. }) => (when, keys.keys.len()),
        other => panic!("keys are listed, not {other:?}"),
    }
}

#[test]
fn listing_completes_though_a_node_crashes() {
    for other in 1..4 {
        for after_us in [0, 50, 150, 300, 600, 1_200] {
            let (world, non_owner, _) = filled();
            let lost = (non_owner + other) % world.count;
            let answers = start_call(&world, non_owner, list());
            world.scheduler.run(after_us);
            world.crash(lost);
            world.scheduler.run(900_000);
            assert_eq!(listed(&answers).1, KEYS, "{lost} ends after {after_us} us");
            world.scheduler.uninstall();
        }
    }
}

#[test]
fn listing_completes_before_link_to_a_cut_off_node_breaks() {
    let (world, non_owner, owner) = filled();
    for (from, to) in [(non_owner, owner), (owner, non_owner)] {
        world.network.cut(from, to);
    }
    let began = world.scheduler.now();
    let answers = start_call(&world, non_owner, list());
    world.scheduler.run(960_000);
    let (when, keys) = listed(&answers);
    assert!(world.network.is_linked(non_owner, owner));
    assert_eq!((keys, when - began < 950_000), (KEYS, true), "after {} us", when - began);
    world.scheduler.uninstall();
}
