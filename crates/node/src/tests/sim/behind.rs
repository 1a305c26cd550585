//! Catch-up of a follower that was away from log entries that its master no longer has in memory,
//! without pauses.

use super::world::{Era, Event, World};
use base::LogIndex;
use std::io::ErrorKind;
use store::DiskCall;

/// Time for which a follower is away, in microseconds.
const AWAY_US: u64 = 20_000_000;
/// Time limit for the follower to catch up, in microseconds.
const LEVEL_US: u64 = 20_000_000;
/// Longest pause between two parts of the catch-up, in microseconds: a part takes its way, a sync,
/// and a pause of 2 ms where nobody writes.
const PAUSE_US: u64 = 20_000;

/// A part that ended within its message was once recorded as unsent only after the answer had
/// arrived, and no other event was due: each time, half a lease passed until the master asked.
/// No request was served meanwhile if a majority needed the follower.
#[test]
fn returning_follower_receives_log_without_pauses() {
    // One group: others catch up at other times, from the next heartbeat of their masters on.
    let worlds = (0..12).map(World::calm).filter(|world| world.judges.len() == 1);
    for mut world in worlds.filter(World::has_three_voters) {
        let (away, last) = world.isolate_follower();
        world.cuts.heal();
        let pause_us = world.longest_pause(away, last);
        assert!(pause_us < PAUSE_US, "none came for {pause_us} us");
        runtime::world::set_time(None);
    }
}

/// A process without free file descriptors can't read its log for the moment. It keeps running, and
/// the follower's catch-up continues once a descriptor is free.
#[test]
fn log_read_without_free_descriptors_is_retried() {
    for mut world in (0..3).map(World::calm).filter(World::has_three_voters) {
        let (away, last) = world.isolate_follower();
        let master = world.master(0).expect("it leads");
        let refused = 10;
        (1..=refused).for_each(|nth| {
            world.nodes[master].disk.fail_nth(DiskCall::Open, nth, ErrorKind::WouldBlock)
        });
        world.cuts.heal();
        let pause_us = world.longest_pause(away, last);
        // The master tries again after 20 ms.
        let most_us = refused * 2 * 20_000;
        assert!(pause_us < most_us, "none came for {pause_us} us");
        let failures = world.nodes[master].disk.take_failures();
        assert_eq!(failures.len() as u64, refused, "all of them were in its way");
        assert_eq!(world.master(0), Some(master), "it leads as before");
        runtime::world::set_time(None);
    }
}

impl World {
    /// Isolates a follower until the others have forgotten what it lacks. Returns the follower, and
    /// the last index of the log.
    fn isolate_follower(&mut self) -> (usize, LogIndex) {
        self.run(3_000_000);
        let master = self.master(0).expect("nothing happens");
        let away = (0..3).find(|nth| *nth != master).expect("there are three");
        let others: Vec<_> = (0..self.nodes.len()).filter(|nth| *nth != away).collect();
        for other in &others {
            self.cuts.cut(away, *other);
            self.cuts.cut(*other, away);
        }
        self.run(AWAY_US);
        self.stop_clients();
        self.run(3_000_000);
        others.iter().for_each(|other| self.drop_memory(*other));
        while self.master(0).is_none() {
            self.run(10_000);
        }
        let last = self.last(self.master(0).expect("it leads"));
        let missed = last.0 - self.last(away).0;
        assert!(missed > 500, "{missed} values");
        (away, last)
    }

    /// Returns a history without faults.
    pub(super) fn calm(seed: u64) -> World {
        let mut world = World::of(seed, Era::Whole);
        world.queue.retain(|event| !matches!(event, Event::Fault));
        world.has_faults = false;
        world
    }

    /// Returns true if the nodes are three voters, or four of which one has no vote: then exactly
    /// one of the first three may be away.
    pub(super) fn has_three_voters(&self) -> bool {
        self.nodes.len() <= 4 && self.nodes.iter().all(|node| !node.witness)
    }

    /// Stops all clients.
    fn stop_clients(&mut self) {
        self.queue.retain(|event| !matches!(event, Event::Client(_)));
    }

    /// Restarts a node: its applied entries are in its trees and its log, but not in memory.
    fn drop_memory(&mut self, nth: usize) {
        let all = vec![LogIndex(0); self.judges.len()];
        while !self.nodes[nth].flush(&all).expect("memory") {
            self.run(1_000);
        }
        // Killed, not without power: two torn logs would wait for the member that is away.
        self.kill(nth);
        self.at(0, Event::Starts(nth));
    }

    /// Returns the last index in a node's log of the first group.
    fn last(&self, nth: usize) -> LogIndex {
        self.process(nth).expect("it lives").group(0).state().replica.last()
    }

    /// Returns the longest time without an append to a node's log while it catches up to index
    /// `all`, in microseconds.
    fn longest_pause(&mut self, nth: usize, all: LogIndex) -> u64 {
        let log = |world: &World| world.process(nth).expect("it lives").writer.log().end();
        let (start, mut end, mut since, mut longest) = (self.queue.now(), log(self), None, 0);
        while self.last(nth) < all {
            assert!(self.queue.now() < start + LEVEL_US, "it does not become level");
            self.run(1_000);
            if log(self) != end {
                longest = longest.max(self.queue.now() - since.unwrap_or(self.queue.now()));
                (end, since) = (log(self), Some(self.queue.now()));
            }
        }
        longest
    }
}
