//! Fault injection of clusters with available buckets.

use super::super::process::{QUICK, SLOW};
use super::directory;
use super::node::{self, Place};
use super::world::World;
use base::NodeId;
use bytes::Bytes;
use sim::{Chance, FaultSchedule, FaultTarget, Journal};
use std::ops::Bound;
use std::rc::Rc;

pub(super) const SCHEDULE: FaultSchedule = FaultSchedule {
    first_us: 1_000_000,
    length_us: (20_000, 4_000_000),
    pause_us: (50_000, 1_500_000),
    kinds: 14,
};

impl FaultTarget for World {
    fn injects_faults(&self) -> bool {
        self.has_faults.get()
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }

    fn victim(&self) -> usize {
        self.scheduler.draw(|chance| chance.index(self.count))
    }

    fn inject(self: &Rc<World>, kind: u64, nth: usize, time: u64) -> &'static str {
        let scheduler = &self.scheduler;
        match kind {
            // The node restarts soon with an old copy of the directory, and is isolated for a
            // while.
            0 | 1 if self.forgets_directory => {
                self.crash(nth);
                self.network.isolate_for(nth, time);
                starts_in(self, nth, time / 8);
                "crash into the past"
            }
            0 | 1 => {
                self.crash(nth);
                starts_in(self, nth, time);
                "crash"
            }
            2 => {
                scheduler.pause(nth, time);
                "pause"
            }
            3 => {
                self.network.isolate_for(nth, time);
                "isolated"
            }
            4 => {
                let other = scheduler.draw(|chance| chance.index(self.count + 1));
                self.network.cut_for([(nth, other)].into_iter(), time);
                "one way cut"
            }
            5 | 6 => {
                self.network.split_for(scheduler.draw(Chance::next_u64), time);
                "split"
            }
            7 => {
                let nodes = self.nodes.borrow();
                let mut takes = nodes[nth].write_time.lock().expect("one thread");
                *takes = if *takes == QUICK { SLOW } else { QUICK };
                "slow disk"
            }
            8 => {
                let off = scheduler.draw(|chance| chance.below(2 * self.wall_ms)) as i64;
                scheduler.clock(nth, |clock| clock.wall_offset_ms = off - self.wall_ms as i64);
                "clock"
            }
            9 => {
                stop(self, nth, time);
                "stop"
            }
            10 if scheduler.draw(|chance| chance.draw_bool(200)) => {
                for nth in 0..self.count {
                    self.crash(nth);
                    starts_in(self, nth, time);
                }
                "all crash"
            }
            11 => {
                let copy = self.nodes.borrow()[nth].place.copy();
                self.copies.borrow_mut().insert(nth, copy);
                "copy"
            }
            12 | 13 if self.may_lose() => lose(self, nth, time),
            _ => {
                self.nodes.borrow_mut()[nth].flush();
                "flush"
            }
        }
    }
}

fn starts_in(world: &Rc<World>, nth: usize, time: u64) {
    let retry_world = Rc::clone(world);
    world.scheduler.spawn_after(time, move || retry_world.start(nth));
}

/// Stops a node gracefully, if that succeeds in time.
fn stop(world: &Rc<World>, nth: usize, time: u64) {
    let Some(node) = world.nodes.borrow()[nth].running().cloned() else { return };
    let incarnation = node.cluster.incarnations.incarnation;
    let (sender, ended) = tokio::sync::oneshot::channel();
    world.scheduler.spawn(Some(nth), async move {
        let _ = sender.send(node::end_well(node).await);
    });
    let world = Rc::clone(world);
    Rc::clone(&world.scheduler).spawn(None, async move {
        let ended = ended.await;
        let is_alive = |node: &node::RingNode| {
            node.running().is_some_and(|node| node.cluster.incarnations.incarnation == incarnation)
        };
        if !is_alive(&world.nodes.borrow()[nth]) {
            return; // The node crashed meanwhile.
        }
        match ended {
            Ok(true) => world.nodes.borrow_mut()[nth].leave(&world.scheduler),
            _ => world.crash(nth),
        }
        world.scheduler.sleep_us(time).await;
        world.start(nth);
    });
}

/// Loses data of a disk; at most one disk in a history, so that two of three copies are left.
fn lose(world: &Rc<World>, nth: usize, time: u64) -> &'static str {
    world.lost.set(true);
    match world.scheduler.draw(|chance| chance.below(3)) {
        0 => {
            let keys = rows(world, nth);
            world.scheduler.run_as_node(nth, || world.nodes.borrow_mut()[nth].lose(&keys));
            "lost rows"
        }
        1 if world.copies.borrow().contains_key(&nth) => {
            world.crash(nth);
            let copy = world.copies.borrow_mut().remove(&nth).expect("there is one");
            world.nodes.borrow_mut()[nth].place = copy;
            again_and_again(world, nth, time);
            "restored"
        }
        _ => {
            world.crash(nth);
            replace(world, nth);
            starts_in(world, nth, time);
            "wiped"
        }
    }
}

/// Returns the keys of some of a node's rows.
fn rows(world: &World, nth: usize) -> Vec<Bytes> {
    let nodes = world.nodes.borrow();
    let Some(node) = nodes[nth].running() else { return Vec::new() };
    let snapshot = node.status.trees.snapshot();
    let all = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
    let keys = all.map(|row| row.expect("memory").0);
    let rows = keys.filter(|key| vnode_rows::layout::slot_of(key).is_some());
    rows.filter(|_| world.scheduler.draw(|chance| chance.draw_bool(600))).collect()
}

/// Starts a node repeatedly, as a supervisor does, although it is refused each time.
fn again_and_again(world: &Rc<World>, nth: usize, time: u64) {
    let world = Rc::clone(world);
    Rc::clone(&world.scheduler).spawn(None, async move {
        for _ in 0..6 {
            world.scheduler.sleep_us(time.min(500_000)).await;
            world.start(nth);
            world.scheduler.sleep_us(300_000).await;
            world.crash(nth);
        }
        world.scheduler.sleep_us(time).await;
        world.start(nth);
    });
}

/// Replaces a node that lost its disk by a new, empty member, which gets that one's place in the
/// ring later.
fn replace(world: &Rc<World>, nth: usize) {
    let mut nodes = world.nodes.borrow_mut();
    let new = NodeId(nodes[nth].id.0 + 100);
    let mut directory = directory::at(&world.directory);
    directory.replace_member(nth, new);
    nodes[nth].id = new;
    nodes[nth].place = Place::new(directory.last());
}
