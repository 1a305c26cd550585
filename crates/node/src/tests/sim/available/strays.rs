//! A node that has fallen goes by a ring of long ago, in which it still keeps what it has let go
//! of: what it takes and acknowledges then, and nobody else has, is not lost.

use super::clients::ask;
use super::wire;
use super::world::World;
use crate::available::layout::row_key;
use crate::flaws::{BROKEN, Flaw};
use base::{AvailableCall, Content, Store};
use bytes::Bytes;
use logic::ring::{Change, Rack, point};
use std::rc::Rc;

/// What two nodes have of a key in the end: one that kept its only copy, let it go, fell, forgot
/// that, and took a write; and the one that keeps it now.
fn taken_by_a_ring_of_long_ago() -> [Option<Bytes>; 2] {
    let quiet = |world: &Rc<World>| world.few == Some(1) && !world.judge.borrow().mortal;
    let world = (0..).map(World::still).find(quiet).expect("there are many");
    wire::at(&world.hub).heal();
    world.begin();
    world.stage.run(2_000_000);
    let (bucket, key) = world.place(0);
    let told = world.told();
    let partition = told.ring.partition(&point(bucket.full().as_bytes(), &key));
    let old = told.ring.owners(partition, 1)[0];
    let new = told.nodes.iter().find(|node| !told.ring.layout().nodes().contains_key(node));
    let new = *new.expect("one is spare");
    let at = |node| told.nodes.iter().position(|it| *it == node).expect("it is known");
    assert!(world.begin_change(Change::Replace { old, new, rack: Rack::default() }));
    world.stage.run(20_000_000);
    let ring = world.told().ring;
    assert!(ring.pending().is_none() && ring.left_at(old).next().is_none(), "all is over");

    world.crash(at(old));
    world.mates.borrow_mut()[at(old)].place.heard = 0;
    let directory = world.count;
    for (from, to) in [(at(old), directory), (directory, at(old))] {
        wire::at(&world.hub).cut(from, to);
    }
    world.start(at(old));
    world.stage.run(1_000_000);
    let (asks, which, place) = (Rc::clone(&world), at(old), bucket.clone());
    let content = Content::plain("v".into());
    let store = Store { key: key.clone(), content, ..Store::default() };
    world.stage.begin(None, async move {
        let answer = ask(&asks, which, place, AvailableCall::Store(Box::new(store))).await;
        answer.expect("an answer").expect("it takes it");
    });
    world.stage.run(500_000);
    let has = |node| {
        let mates = world.mates.borrow();
        let inner = mates[at(node)].inner().expect("it lives");
        inner.trees.get(&row_key(&bucket, &key)).expect("memory")
    };
    assert!(has(old).is_some() && has(new).is_none(), "nobody else has it");
    wire::at(&world.hub).heal();
    world.stage.run(20_000_000);
    let rows = [has(old), has(new)];
    world.stage.clear();
    rows
}

#[test]
fn what_was_taken_by_a_ring_of_long_ago_goes_to_who_keeps_it_now() {
    let [old, new] = taken_by_a_ring_of_long_ago();
    assert!(old.is_none() && new.is_some());
    BROKEN.set(Some(Flaw::DropsStrays));
    let rows = taken_by_a_ring_of_long_ago();
    BROKEN.set(None);
    assert_eq!(rows, [None, None], "the rule is what makes the difference");
}
