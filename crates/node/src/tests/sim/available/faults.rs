//! What goes wrong, and when.

use super::mate::{self, Place};
use super::world::World;
use super::{directory, wire};
use base::NodeId;
use bytes::Bytes;
use std::ops::Bound;
use std::rc::Rc;

/// One after the other, until the trouble ends.
pub(super) async fn happen(world: Rc<World>) {
    let stage = Rc::clone(&world.stage);
    stage.rest(1_000_000).await;
    while world.is_troubled() {
        let which = stage.dice(|dice| dice.below(world.count as u64)) as usize;
        let time = stage.dice(|dice| dice.between(20_000, 4_000_000));
        let kind = stage.dice(|dice| dice.below(14));
        let name = one(&world, kind, which, time);
        world.stage_told(|| format!("fault: {name} {which} for {time} us"));
        world.count(name);
        let pause = stage.dice(|dice| dice.between(50_000, 1_500_000));
        stage.rest(pause).await;
    }
}

fn one(world: &Rc<World>, kind: u64, which: usize, time: u64) -> &'static str {
    let stage = &world.stage;
    match kind {
        // It is back soon, goes by what it knew long ago, and hears nothing newer for a while.
        0 | 1 if world.forgetful => {
            world.crash(which);
            isolate(world, which, time);
            starts_in(world, which, time / 8);
            "crash into the past"
        }
        0 | 1 => {
            world.crash(which);
            starts_in(world, which, time);
            "crash"
        }
        2 => {
            stage.pause(which, time);
            "pause"
        }
        3 => {
            isolate(world, which, time);
            "isolated"
        }
        4 => {
            let other = stage.dice(|dice| dice.below(world.count as u64 + 1)) as usize;
            cut(world, which, other, time);
            "one way cut"
        }
        5 | 6 => {
            split(world, stage.dice(|dice| dice.next()), time);
            "split"
        }
        7 => {
            let mates = world.mates.borrow();
            let mut slow = mates[which].slow_disk.lock().expect("one thread");
            *slow = !*slow;
            "slow disk"
        }
        8 => {
            let off = stage.dice(|dice| dice.below(2 * world.wall_ms)) as i64;
            stage.clock(which, |clock| clock.wall_off_ms = off - world.wall_ms as i64);
            "clock"
        }
        9 => {
            stop(world, which, time);
            "stop"
        }
        10 if stage.dice(|dice| dice.often(200)) => {
            for which in 0..world.count {
                world.crash(which);
                starts_in(world, which, time);
            }
            "all crash"
        }
        11 => {
            let copy = world.mates.borrow()[which].place.copy();
            world.copies.borrow_mut().insert(which, copy);
            "copy"
        }
        12 | 13 if world.may_lose() => lose(world, which, time),
        _ => {
            world.mates.borrow_mut()[which].flush();
            "flush"
        }
    }
}

fn cut(world: &Rc<World>, from: usize, to: usize, time: u64) {
    wire::at(&world.hub).cut(from, to);
    let (hub, stage) = (world.hub.clone(), Rc::clone(&world.stage));
    world.stage.begin(None, async move {
        stage.rest(time).await;
        wire::at(&hub).mend(from, to);
    });
}

fn isolate(world: &Rc<World>, which: usize, time: u64) {
    (0..=world.count).for_each(|other| cut(world, which, other, time));
    (0..=world.count).for_each(|other| cut(world, other, which, time));
}

fn split(world: &Rc<World>, half: u64, time: u64) {
    let side = |which: usize| half >> which & 1;
    for from in 0..=world.count {
        for to in (0..=world.count).filter(|to| side(*to) != side(from)) {
            cut(world, from, to, time);
        }
    }
}

fn starts_in(world: &Rc<World>, which: usize, time: u64) {
    let world = Rc::clone(world);
    Rc::clone(&world.stage).begin(None, async move {
        world.stage.rest(time).await;
        world.start(which);
    });
}

/// In good order, if it comes to that in time.
fn stop(world: &Rc<World>, which: usize, time: u64) {
    let Some(node) = world.mates.borrow()[which].running().cloned() else { return };
    let incarnation = node.cluster.incarnations.incarnation;
    let (sender, ended) = tokio::sync::oneshot::channel();
    world.stage.begin(Some(which), async move {
        let _ = sender.send(mate::end_well(node).await);
    });
    let world = Rc::clone(world);
    Rc::clone(&world.stage).begin(None, async move {
        let ended = ended.await;
        let incarnations = |mate: &mate::Mate| {
            mate.running().is_some_and(|node| node.cluster.incarnations.incarnation == incarnation)
        };
        if !incarnations(&world.mates.borrow()[which]) {
            return; // It crashed meanwhile.
        }
        match ended {
            Ok(true) => world.mates.borrow_mut()[which].leave(&world.stage, &world.hub),
            _ => world.crash(which),
        }
        world.stage.rest(time).await;
        world.start(which);
    });
}

/// A disk loses what it had; only one does in a history, so that two of three copies are left.
fn lose(world: &Rc<World>, which: usize, time: u64) -> &'static str {
    world.lost.set(true);
    match world.stage.dice(|dice| dice.below(3)) {
        0 => {
            let keys = rows(world, which);
            world.stage.within(which, || world.mates.borrow_mut()[which].lose(&keys));
            "lost rows"
        }
        1 if world.copies.borrow().contains_key(&which) => {
            world.crash(which);
            let copy = world.copies.borrow_mut().remove(&which).expect("there is one");
            world.mates.borrow_mut()[which].place = copy;
            again_and_again(world, which, time);
            "restored"
        }
        _ => {
            world.crash(which);
            replace(world, which);
            starts_in(world, which, time);
            "wiped"
        }
    }
}

/// Some of the rows a node has.
fn rows(world: &World, which: usize) -> Vec<Bytes> {
    let mates = world.mates.borrow();
    let Some(node) = mates[which].running() else { return Vec::new() };
    let snapshot = node.status.trees.snapshot();
    let all = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
    let keys = all.map(|row| row.expect("memory").0);
    let rows = keys.filter(|key| dynamo::layout::slot_of(key).is_some());
    rows.filter(|_| world.stage.dice(|dice| dice.often(600))).collect()
}

/// Who watches over it starts a node that is refused again and again.
fn again_and_again(world: &Rc<World>, which: usize, time: u64) {
    let world = Rc::clone(world);
    Rc::clone(&world.stage).begin(None, async move {
        for _ in 0..6 {
            world.stage.rest(time.min(500_000)).await;
            world.start(which);
            world.stage.rest(300_000).await;
            world.crash(which);
        }
        world.stage.rest(time).await;
        world.start(which);
    });
}

/// A new node, with nothing, is a member in place of one whose disk is gone; it has yet to get that
/// one's place in the ring.
fn replace(world: &Rc<World>, which: usize) {
    let mut mates = world.mates.borrow_mut();
    let new = NodeId(mates[which].node.0 + 100);
    let mut directory = directory::at(&world.directory);
    directory.exchanges(which, new);
    mates[which].node = new;
    mates[which].place = Place::of_new(directory.last());
}
