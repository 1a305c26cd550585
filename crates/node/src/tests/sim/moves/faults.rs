//! Fault injection, and the task that moves buckets between groups meanwhile.

use super::super::process::{QUICK, SLOW};
use super::clients::ask;
use super::world::{GROUPS, World};
use base::{BucketId, Call, DirectoryCall, GroupId};
use sim::{Chance, FaultSchedule, FaultTarget, Journal};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Time after which the directory forgets a bucket that has left, in microseconds.
const FORGET_US: u64 = 1_000_000;

pub(super) const SCHEDULE: FaultSchedule = FaultSchedule {
    first_us: 1_500_000,
    length_us: (20_000, 2_500_000),
    pause_us: (50_000, 1_500_000),
    kinds: 12,
};

impl FaultTarget for World {
    fn injects_faults(&self) -> bool {
        self.has_faults.get()
    }

    fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Draws the node that a fault hits: often a master, where it hurts most.
    fn victim(&self) -> usize {
        let groups = [GroupId::DIRECTORY, GROUPS[0], GROUPS[1]];
        let group = groups[self.scheduler.draw(|chance| chance.index(3))];
        match self.master(group) {
            Some((master, _)) if self.scheduler.draw(|chance| chance.draw_bool(600)) => master,
            _ => self.scheduler.draw(|chance| chance.index(self.count)),
        }
    }

    fn inject(self: &Rc<World>, kind: u64, nth: usize, time: u64) -> &'static str {
        let scheduler = &self.scheduler;
        match kind {
            0..=2 => {
                self.crash(nth);
                starts_in(self, nth, time);
                "crash"
            }
            3 => {
                scheduler.pause(nth, time);
                "pause"
            }
            4 => {
                self.network.isolate_for(nth, time);
                "isolated"
            }
            5 => {
                let other = scheduler.draw(|chance| chance.index(self.count));
                self.network.cut_for([(nth, other)].into_iter(), time);
                "one way cut"
            }
            6 => {
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
                hand_over(self, nth);
                "hand over"
            }
            9 if scheduler.draw(|chance| chance.draw_bool(300)) => {
                for nth in 0..self.count {
                    self.crash(nth);
                    starts_in(self, nth, time);
                }
                "all crash"
            }
            11 => {
                self.network.end_links(nth);
                "links ended"
            }
            _ => {
                self.nodes.borrow()[nth].storage.make_durable();
                "flush"
            }
        }
    }
}

fn starts_in(world: &Rc<World>, nth: usize, time: u64) {
    let retry_world = Rc::clone(world);
    world.scheduler.spawn_after(time, move || retry_world.start(nth));
}

fn hand_over(world: &Rc<World>, to: usize) {
    let group = GROUPS[world.scheduler.draw(|chance| chance.below(2)) as usize];
    let successor = world.nodes.borrow()[to].id;
    if let Some((master, group)) = world.master(group) {
        // Fails if the target is no voter, or catches up too late.
        let _ = world.scheduler.run_as_node(master, || group.hand_over(successor));
    }
}

/// Moves buckets between groups, and cancels some moves, until the trouble ends.
pub(super) async fn send_away(world: Rc<World>) {
    let scheduler = Rc::clone(&world.scheduler);
    while world.injects_faults() {
        scheduler.sleep_us(scheduler.draw(|chance| chance.between(100_000, 1_500_000))).await;
        let nth = scheduler.draw(|chance| chance.index(world.count));
        let bucket = &world.buckets[scheduler.draw(|chance| chance.index(world.buckets.len()))];
        let back = scheduler.draw(|chance| chance.draw_bool(150));
        let (call, name) = match GROUPS[scheduler.draw(|chance| chance.below(2)) as usize] {
            _ if back => (DirectoryCall::CancelMove, "called back"),
            group => (DirectoryCall::MoveBucket { group }, "sent"),
        };
        let answer = ask(&world, nth, bucket, Call::Directory(call), None).await;
        world.tell(|| format!("{bucket} {name}: {answer:?}"));
        world.journal.add(name, answer.is_some_and(|answer| answer.is_ok()).into());
    }
}

/// Lets the directory forget buckets that have left, as the housekeeper does, and records the
/// buckets' ids.
pub(super) async fn run_maintenance(world: Rc<World>) {
    let mut seen = BTreeMap::<BucketId, u64>::new();
    loop {
        world.scheduler.sleep_us(20_000).await;
        let Some((master, _)) = world.master(GroupId::DIRECTORY) else { continue };
        let Some(node) = world.running(master).filter(|_| !world.scheduler.is_paused(master))
        else {
            continue;
        };
        for name in &world.buckets {
            let lives = node.router.locator.catalog.find(name).expect("it is never dropped");
            world.bucket_ids.borrow_mut().insert(lives.id);
        }
        let now = world.scheduler.now();
        world.scheduler.run_as_node(master, || {
            for (bucket, _) in node.router.directory.dropped_buckets().expect("memory") {
                if now >= *seen.entry(bucket).or_insert(now) + FORGET_US {
                    world.forgotten_ids.borrow_mut().insert(bucket);
                    let _ = node.router.directory.remove_dropped_row(bucket); // May be no master.
                }
            }
        });
    }
}
