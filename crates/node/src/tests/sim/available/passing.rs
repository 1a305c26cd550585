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
pub(super) fn quiet() -> (Rc<World>, usize, usize) {
    let world = (0..).map(World::still).find(|world| world.count > 3 && !world.moves);
    let world = world.expect("there are many");
    world.network.heal();
    world.begin();
    world.scheduler.run(2_000_000);
    let decision = world.decision();
    let partition = decision.ring.partition(&point(bucket().full().as_bytes(), &key(0)));
    let owners = decision.ring.owners(partition, 3);
    let guest = decision.nodes.iter().position(|node| !owners.contains(node)).expect("one is left");
    let owner = decision.nodes.iter().position(|node| *node == owners[0]).expect("it is known");
    (world, guest, owner)
}

pub(super) fn asks(world: &Rc<World>, which: usize, call: AvailableCall) -> Answers {
    let answers = Answers::default();
    let (told, world, scheduler) =
        (Rc::clone(&answers), Rc::clone(world), Rc::clone(&world.scheduler));
    scheduler.begin(None, async move {
        let answer = ask(&world, which, bucket(), call).await;
        told.borrow_mut().push((world.scheduler.now(), answer));
    });
    answers
}

fn write() -> AvailableCall {
    let content = Content::plain("v".into());
    AvailableCall::Store(Box::new(Store { key: key(0), content, ..Store::default() }))
}

#[test]
fn a_write_passed_on_to_who_was_just_cut_off_is_answered_before_the_link_breaks() {
    let (world, guest, owner) = quiet();
    let passed_on = |world: &World| {
        let nodes = world.nodes.borrow();
        let metrics = &nodes[guest].running().expect("it lives").router.metrics;
        metrics.forwarded_out.load(std::sync::atomic::Ordering::Relaxed)
    };
    world.network.cut(guest, owner);
    world.network.cut(owner, guest);
    let began = world.scheduler.now();
    let held: Vec<_> = (0..3).map(|_| asks(&world, guest, write())).collect();
    world.scheduler.run(960_000);
    assert_eq!(passed_on(&world), 3);
    for answers in held {
        let (when, answer) = answers.take().pop().expect("an answer");
        let error = answer.expect("in time").expect_err("nobody knows");
        assert_eq!(error.kind(), Kind::Unknown, "{}", error.text());
        assert!(when - began < 950_000, "after {} us", when - began);
    }
    // From now on another owner coordinates, although the link has not broken.
    assert!(world.network.is_linked(guest, owner));
    let next = asks(&world, guest, write());
    world.scheduler.run(100_000);
    let (_, answer) = next.take().pop().expect("an answer at once");
    assert!(answer.expect("in time").is_ok() && passed_on(&world) == 4);
    world.scheduler.leave();
}

#[test]
fn a_write_that_was_not_sent_is_passed_on_to_the_next_owner() {
    let (world, guest, owner) = quiet();
    let full = world.nodes.borrow()[owner].running().expect("it lives").clone();
    let seats: Vec<_> = std::iter::from_fn(|| full.router.incoming.admit(1)).collect();
    let answers = asks(&world, guest, write());
    world.scheduler.run(100_000);
    let (_, answer) = answers.take().pop().expect("an answer at once");
    assert!(answer.expect("in time").is_ok(), "who is too busy did nothing");
    drop(seats);
    world.scheduler.leave();
}
