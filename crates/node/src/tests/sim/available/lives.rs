//! Actor of a vnode across incarnations of its node: the story of seed 111.

use super::clients::{ask, bucket, key, seen};
use super::node;
use super::world::World;
use base::mutants::MutantList as _;
use base::{Actor, AvailableCall, Body, Content, Store};
use logic::ring::point;
use runtime::mutants::Mutant;
use std::cell::Cell;
use std::rc::Rc;

/// Writes the first key at its first owner. Returns the actor of the new dot.
fn write_actor(world: &Rc<World>, nth: usize) -> Actor {
    let actor_cell = Rc::new(Cell::new(None));
    let (world, shared_cell) = (Rc::clone(world), Rc::clone(&actor_cell));
    let scheduler = Rc::clone(&world.scheduler);
    scheduler.spawn(None, async move {
        let content = Content::plain("v".into());
        let store = Store { key: key(0), content, ..Store::default() };
        let answer = ask(&world, nth, bucket(), AvailableCall::Store(Box::new(store))).await;
        let reply = answer.expect("an answer").expect("it is stored");
        let Body::Stored(context) = reply.body else { panic!("a context") };
        let actor = seen(&(bucket(), key(0)), &context).entries().next().map(|(actor, _)| *actor);
        shared_cell.set(actor);
    });
    scheduler.run(2_000_000);
    actor_cell.get().expect("a dot")
}

fn stop_cleanly(world: &Rc<World>, nth: usize) {
    let node = world.nodes.borrow()[nth].running().expect("it lives").clone();
    world.scheduler.spawn(Some(nth), async move { assert!(node::end_well(node).await) });
    world.scheduler.run(2_000_000);
    world.nodes.borrow_mut()[nth].leave(&world.scheduler);
}

fn restart_node(world: &Rc<World>, nth: usize) {
    world.start(nth);
    world.scheduler.run(2_000_000);
}

/// Returns the actors of three incarnations: the first, the second and the fourth. The first and
/// the third ended cleanly; the third followed a crash and wrote nothing.
fn incarnation_actors() -> [Actor; 3] {
    let world = World::idle(1);
    world.network.heal();
    world.begin();
    world.scheduler.run(2_000_000);
    let decision = world.decision();
    let partition = decision.ring.partition(&point(bucket().full().as_bytes(), &key(0)));
    let owner = decision.ring.owners(partition, 3)[0];
    let which = decision.nodes.iter().position(|node| *node == owner).expect("it is known");
    let first = write_actor(&world, which);
    stop_cleanly(&world, which);
    restart_node(&world, which);
    let second = write_actor(&world, which);
    world.crash(which);
    restart_node(&world, which);
    stop_cleanly(&world, which);
    restart_node(&world, which);
    let last = write_actor(&world, which);
    world.scheduler.uninstall();
    [first, second, last]
}

#[test]
fn vnode_actor_is_renewed_after_crash_despite_idle_clean_run() {
    let [first, second, last] = incarnation_actors();
    assert_eq!(first, second, "a life that ended well goes on");
    assert!(last.incarnation > second.incarnation, "{last:?}");
    let [_, second, last] = Mutant::ForgetUncleanShutdown.while_active(incarnation_actors);
    assert_eq!(second, last, "the rule is what makes the difference");
}
