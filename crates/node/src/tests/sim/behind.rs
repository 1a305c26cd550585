//! Who was away is sent what the others no longer have in memory, without waiting for what never
//! comes.

use super::world::{Era, Event, World};
use base::LogIndex;
use std::io::ErrorKind;
use store::DiskCall;

/// While one is away, microseconds.
const AWAY_US: u64 = 20_000_000;
/// By then it has what it missed, microseconds.
const LEVEL_US: u64 = 20_000_000;
/// A part takes its way, a sync, and its rest, of 2 ms where nobody writes, microseconds.
const PAUSE_US: u64 = 20_000;

/// A part that ended within its letter was noted as unsent only after the answer to it had come,
/// and then nothing else was to come: each time, half a lease passed until the master asked. Where
/// the one that is behind is needed for a majority, nobody was served for as long as that took.
#[test]
fn a_log_is_sent_without_pauses_to_who_was_away() {
    for mut world in (0..8).map(World::calm).filter(World::has_three_voters) {
        let (away, last) = world.falls_behind();
        world.cuts.heal();
        let pause_us = world.longest_pause(away, last);
        assert!(pause_us < PAUSE_US, "none came for {pause_us} us");
        runtime::world::set_time(None);
    }
}

/// A process that has no descriptor left can't read its log now, and that is all: it goes on, and
/// so does the other once there is one.
#[test]
fn a_log_that_can_not_be_read_for_want_of_descriptors_is_read_later() {
    for mut world in (0..3).map(World::calm).filter(World::has_three_voters) {
        let (away, last) = world.falls_behind();
        let master = world.master(0).expect("it leads");
        let refused = 10;
        (1..=refused).for_each(|nth| {
            world.nodes[master].disk.fail_nth(DiskCall::Open, nth, ErrorKind::WouldBlock)
        });
        world.cuts.heal();
        let pause_us = world.longest_pause(away, last);
        // It tries again after 20 ms.
        let most_us = refused * 2 * 20_000;
        assert!(pause_us < most_us, "none came for {pause_us} us");
        let failures = world.nodes[master].disk.take_failures();
        assert_eq!(failures.len() as u64, refused, "all of them were in its way");
        assert_eq!(world.master(0), Some(master), "it leads as before");
        runtime::world::set_time(None);
    }
}

impl World {
    /// One is away until the others have forgotten what it lacks; gives it, and the end of the log.
    fn falls_behind(&mut self) -> (usize, LogIndex) {
        self.run(3_000_000);
        let master = self.master(0).expect("nothing happens");
        let away = (0..3).find(|which| *which != master).expect("there are three");
        let others: Vec<_> = (0..self.nodes.len()).filter(|which| *which != away).collect();
        for other in &others {
            self.cuts.cut(away, *other);
            self.cuts.cut(*other, away);
        }
        self.run(AWAY_US);
        self.silence();
        self.run(3_000_000);
        others.iter().for_each(|other| self.forgets(*other));
        while self.master(0).is_none() {
            self.run(10_000);
        }
        let last = self.last(self.master(0).expect("it leads"));
        let missed = last.0 - self.last(away).0;
        assert!(missed > 500, "{missed} values");
        (away, last)
    }

    /// A world without faults.
    fn calm(seed: u64) -> World {
        let mut world = World::of(seed, Era::Whole);
        world.queue.retain(|event| !matches!(event, Event::Fault));
        world.troubled = false;
        world
    }

    /// Whether one of the first three may go, and no more.
    fn has_three_voters(&self) -> bool {
        self.nodes.len() <= 4 && self.nodes.iter().all(|node| !node.witness)
    }

    /// Clients ask nothing any more.
    fn silence(&mut self) {
        self.queue.retain(|event| !matches!(event, Event::Client(_)));
    }

    /// A node begins anew: what it applied is in its store, and in its log, but not in its memory.
    fn forgets(&mut self, which: usize) {
        let all = vec![LogIndex(0); self.judges.len()];
        while !self.nodes[which].flush(&all).expect("memory") {
            self.run(1_000);
        }
        self.loses_power(which, 0);
    }

    /// The end of its log of the first group.
    fn last(&self, which: usize) -> LogIndex {
        self.process(which).expect("it lives").group(0).state().replica.last()
    }

    /// For how long at most nothing was added to a node's disk, from when something comes until it
    /// has all, microseconds.
    fn longest_pause(&mut self, which: usize, all: LogIndex) -> u64 {
        let log = |world: &World| world.process(which).expect("it lives").writer.log().end();
        let (start, mut end, mut since, mut longest) = (self.queue.now(), log(self), None, 0);
        while self.last(which) < all {
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
