//! End of a history: no bucket is moving, no marks of moves are left, replicas are equal, and the
//! judge accepts every answer.

use super::super::rows::assert_same_rows;
use super::clients::{ask, get};
use super::world::{FILLERS, GROUPS, World, filler};
use crate::Node;
use base::{Body, BucketId, GroupId};
use replication::seals::BucketMarks;
use sim::Counts;
use std::rc::Rc;

/// Time limit for all moves to end, in microseconds.
const BOUND_US: u64 = 60_000_000;
/// Number of writes that must succeed meanwhile.
const WRITES: u64 = 20;

impl World {
    pub(super) fn finish_and_check(self: Rc<World>) -> (u64, Counts) {
        let (begin, wrote) = (self.scheduler.now(), self.journal.count_of("wrote"));
        while let Some(why) = self.unfinished(wrote + WRITES) {
            let told = || self.journal.outcome().1;
            assert!(self.scheduler.now() < begin + BOUND_US, "no end: {why}; {:?}", told());
            self.scheduler.run(100_000);
        }
        self.journal.add("ms to come to rest", (self.scheduler.now() - begin) / 1_000);
        self.is_over.set(true);
        self.scheduler.run(3_000_000);
        self.check_fillers();
        self.check_feeds();
        self.check_answers();
        GROUPS.into_iter().chain([GroupId::DIRECTORY]).for_each(|group| self.check_rows(group));
        self.judge.borrow().judge();
        let moves = self.bucket_ids.borrow().len() - self.buckets.len();
        self.journal.add("moved", moves as u64);
        self.scheduler.uninstall();
        self.journal.outcome()
    }

    /// Returns a part of the cluster that is not at rest. `None`: all moves have ended.
    fn unfinished(&self, wrote: u64) -> Option<String> {
        for group in GROUPS.into_iter().chain([GroupId::DIRECTORY]) {
            let Some((_, master)) = self.master(group) else {
                return Some(format!("group {group} has no master"));
            };
            let members = master.configuration().members().to_vec();
            for member in members {
                let node = self.running(member.node.0 as usize - 1).expect("everyone lives");
                let there = node.router.locator.groups.get(group).expect("it has a part");
                if there.applied.index().0 + 50 < master.applied.index().0 {
                    return Some(format!("{} is behind in group {group}", member.node));
                }
                // Late updates for a bucket may arrive as long as the bucket is in this group.
                let is_alive = |id: &BucketId| self.lives(&node, *id);
                let BucketMarks { sealed, intakes } = there.seals.all();
                let remaining = !sealed.is_empty() || !intakes.iter().all(is_alive);
                if group != GroupId::DIRECTORY && remaining {
                    return Some(format!("{}, group {group}: {sealed:?} {intakes:?}", member.node));
                }
            }
        }
        for which in 0..self.count {
            let node = self.running(which).expect("everyone lives");
            assert!(node.lifecycle.failure().is_none(), "{which} failed");
            for name in &self.buckets {
                let bucket = node.router.locator.catalog.find(name).expect("it is never dropped");
                if let Some(moving) = bucket.moving {
                    return Some(format!("{name} is on its way to {moving:?}"));
                }
            }
        }
        let lacks_writes = self.journal.count_of("wrote") < wrote;
        self.lacks_count()
            .or_else(|| self.lacks_index())
            .or_else(|| self.lacks_declared())
            .or_else(|| self.lacks_feed())
            .or(lacks_writes.then(|| "nothing is written".into()))
    }

    fn lives(&self, node: &Node, id: BucketId) -> bool {
        let numbers =
            self.buckets.iter().map(|name| node.router.locator.catalog.find(name).map(|it| it.id));
        numbers.flatten().any(|number| number == id)
    }

    /// Asserts that rows that nobody changes can be read at every node.
    fn check_fillers(self: &Rc<World>) {
        let world = Rc::clone(self);
        self.scheduler.spawn(None, async move {
            for place in 0..world.buckets.len() {
                for number in 0..FILLERS {
                    let (key, value) = filler(number);
                    let name = &world.buckets[place];
                    let answer = ask(&world, number % world.count, name, get(&key), None).await;
                    let reply = answer.expect("an answer").expect("a read");
                    let Body::Row(row) = reply.body else { panic!("a get gives a row") };
                    assert_eq!(row.expect("it is there").value, value, "{key:?} of {name}");
                    world.journal.add("fillers", 1);
                }
            }
        });
        let (before, expected) =
            (self.journal.count_of("fillers"), (self.buckets.len() * FILLERS) as u64);
        self.scheduler.run(10_000_000);
        assert_eq!(self.journal.count_of("fillers") - before, expected, "all were looked at");
    }

    fn check_rows(&self, group: GroupId) {
        let nodes = self.nodes.borrow();
        let replicas = nodes.iter().filter_map(|node| {
            let there = node.running()?.router.locator.groups.get(group)?;
            Some((there.applied.index(), &*node.storage.trees))
        });
        assert_same_rows(group, replicas);
    }
}
