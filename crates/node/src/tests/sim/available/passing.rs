//! Writes forwarded to an owner that has just been cut off are answered before its link breaks.

use super::clients::{ask, bucket, key};
use super::world::World;
use base::{AvailableCall, Content, Kind, Reply, Result, Store};
use logic::ring::point;
use std::cell::RefCell;
use std::rc::Rc;

/// Answers to calls, each with its time. `None`: not answered in time.
pub(super) type Answers = Rc<RefCell<Vec<(u64, Option<Result<Reply>>)>>>;

/// Returns a quiet cluster, a node that keeps no copy of the first key, and that key's first owner.
/// No value expires: with clocks seconds apart, one node would show a value that another does not.
pub(super) fn quiet() -> (Rc<World>, usize, usize) {
    let fits = |world: &Rc<World>| world.count > 3 && !world.moves && !world.judge.borrow().has_ttl;
    let world = (0..).map(World::idle).find(fits);
    let world = world.expect("there are many");
    world.network.heal();
    world.begin();
    world.scheduler.run(2_000_000);
    let decision = world.decision();
    let partition = decision.ring.partition(&point(bucket().full().as_bytes(), &key(0)));
    let owners = decision.ring.owners(partition, 3);
    let non_owner =
        decision.nodes.iter().position(|node| !owners.contains(node)).expect("one is left");
    let owner = decision.nodes.iter().position(|node| *node == owners[0]).expect("it is known");
    (world, non_owner, owner)
}

pub(super) fn start_call(world: &Rc<World>, nth: usize, call: AvailableCall) -> Answers {
    let answers = Answers::default();
    let (results, world, scheduler) =
        (Rc::clone(&answers), Rc::clone(world), Rc::clone(&world.scheduler));
    scheduler.spawn(None, async move {
        let answer = ask(&world, nth, bucket(), call).await;
        results.borrow_mut().push((world.scheduler.now(), answer));
    });
    answers
}

fn write() -> AvailableCall {
    let content = Content::plain("v".into());
    AvailableCall::Store(Box::new(Store { key: key(0), content, ..Store::default() }))
}

#[test]
fn write_forwarded_to_cut_off_owner_fails_before_link_breaks() {
    let (world, non_owner, owner) = quiet();
    let forwarded_count = |world: &World| {
        let nodes = world.nodes.borrow();
        let metrics = &nodes[non_owner].running().expect("it lives").router.metrics;
        metrics.forwarded_out.load(std::sync::atomic::Ordering::Relaxed)
    };
    world.network.cut(non_owner, owner);
    world.network.cut(owner, non_owner);
    let began = world.scheduler.now();
    let pending: Vec<_> = (0..3).map(|_| start_call(&world, non_owner, write())).collect();
    world.scheduler.run(960_000);
    assert_eq!(forwarded_count(&world), 3);
    for answers in pending {
        let (when, answer) = answers.take().pop().expect("an answer");
        let error = answer.expect("in time").expect_err("nobody knows");
        assert_eq!(error.kind(), Kind::Unknown, "{}", error.text());
        assert!(when - began < 950_000, "after {} us", when - began);
    }
    // From now on another owner coordinates, although the link has not broken.
    assert!(world.network.is_linked(non_owner, owner));
    let next = start_call(&world, non_owner, write());
    world.scheduler.run(100_000);
    let (_, answer) = next.take().pop().expect("an answer at once");
    assert!(answer.expect("in time").is_ok() && forwarded_count(&world) == 4);
    world.scheduler.uninstall();
}

#[test]
fn write_declined_by_busy_owner_is_forwarded_to_the_next() {
    let (world, non_owner, owner) = quiet();
    let full = world.nodes.borrow()[owner].running().expect("it lives").clone();
    let permits: Vec<_> = std::iter::from_fn(|| full.router.incoming.admit(1)).collect();
    let answers = start_call(&world, non_owner, write());
    world.scheduler.run(100_000);
    let (_, answer) = answers.take().pop().expect("an answer at once");
    assert!(answer.expect("in time").is_ok(), "who is too busy did nothing");
    drop(permits);
    world.scheduler.uninstall();
}
