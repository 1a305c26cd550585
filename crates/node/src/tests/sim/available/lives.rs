//! Actor of a vnode across incarnations of its node: the story of seed 111.

use super::clients::{ask, bucket, key, seen};
use super::node;
use super::world::World;
use base::mutants::Mutation as _;
use base::{Actor, AvailableCall, Body, Content, Store};
use logic::ring::point;
use runtime::mutants::Mutant;
use std::cell::Cell;
use std::rc::Rc;

/// Writes the first key at its first owner. Returns the actor of the new dot.
fn writes(world: &Rc<World>, which: usize) -> Actor {
    let told = Rc::new(Cell::new(None));
    let (world, tells) = (Rc::clone(world), Rc::clone(&told));
    let scheduler = Rc::clone(&world.scheduler);
    scheduler.begin(None, async move {
        let content = Content::plain("v".into());
        let store = Store { key: key(0), content, ..Store::default() };
        let answer = ask(&world, which, bucket(), AvailableCall::Store(Box::new(store))).await;
        let reply = answer.expect("an answer").expect("it is stored");
        let Body::Stored(context) = reply.body else { panic!("a context") };
        let actor = seen(&(bucket(), key(0)), &context).entries().next().map(|(actor, _)| *actor);
        tells.set(actor);
    });
    scheduler.run(2_000_000);
    told.get().expect("a dot")
}

fn ends_well(world: &Rc<World>, which: usize) {
    let node = world.nodes.borrow()[which].running().expect("it lives").clone();
    world.scheduler.begin(Some(which), async move { assert!(node::end_well(node).await) });
    world.scheduler.run(2_000_000);
    world.nodes.borrow_mut()[which].leave(&world.scheduler);
}

fn starts(world: &Rc<World>, which: usize) {
    world.start(which);
    world.scheduler.run(2_000_000);
}

/// Returns the actors of three incarnations: the first, the second and the fourth. The first and
/// the third ended cleanly; the third followed a crash and wrote nothing.
fn lives() -> [Actor; 3] {
    let world = World::still(1);
    world.network.heal();
    world.begin();
    world.scheduler.run(2_000_000);
    let decision = world.decision();
    let partition = decision.ring.partition(&point(bucket().full().as_bytes(), &key(0)));
    let owner = decision.ring.owners(partition, 3)[0];
    let which = decision.nodes.iter().position(|node| *node == owner).expect("it is known");
    let first = writes(&world, which);
    ends_well(&world, which);
    starts(&world, which);
    let second = writes(&world, which);
    world.crash(which);
    starts(&world, which);
    ends_well(&world, which);
    starts(&world, which);
    let last = writes(&world, which);
    world.scheduler.leave();
    [first, second, last]
}

#[test]
fn a_fall_is_not_forgotten_in_a_life_that_wrote_nothing() {
    let [first, second, last] = lives();
    assert_eq!(first, second, "a life that ended well goes on");
    assert!(last.incarnation > second.incarnation, "{last:?}");
    let [_, second, last] = Mutant::ForgetsTheFall.while_active(lives);
    assert_eq!(second, last, "the rule is what makes the difference");
}
