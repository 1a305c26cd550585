//! Comparison with the simplest model: a set of seen writes, and a set of living writes.

use super::Dice;
use crate::causal::{Clock, Minter, StartState, decode, encode};
use base::dots::DotContext;
use base::{Actor, NodeId};

/// Model of a clock. Writes are numbered from 0, at most 64 in one history; a set of them is a
/// word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Plain {
    seen: u64,
    alive: u64,
}

impl Plain {
    fn sync(self, other: Plain) -> Plain {
        let alive =
            (self.alive & other.alive) | (self.alive & !other.seen) | (other.alive & !self.seen);
        Plain { seen: self.seen | other.seen, alive }
    }

    fn write(self, context: u64, write: u64) -> Plain {
        let after = self.sync(Plain { seen: context, alive: 0 });
        Plain { seen: after.seen | 1 << write, alive: after.alive | 1 << write }
    }
}

/// One key on some replicas, each with its model.
pub(super) struct World {
    pub(super) rows: Vec<(Clock<Actor, u64>, Plain)>,
    minters: Vec<Minter>,
    /// Contexts that clients may hold: every returned context, with the writes that it covers.
    contexts: Vec<(DotContext<Actor>, u64)>,
    /// Actor and counter of each write.
    dots: Vec<(Actor, u64)>,
}

/// Source of the replicas' dots.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Rows never vanish: the clock alone determines the next counter.
    Perfect,
    /// Rows vanish, tombstones are reaped, nodes restart: the minter determines it.
    Lossy,
}

impl World {
    pub(super) fn new(replicas: u64) -> World {
        let minter = |node| Minter::start(NodeId(node), 7, StartState::FIRST, 0).0;
        World {
            rows: (0..replicas).map(|_| (Clock::empty(), Plain::default())).collect(),
            minters: (1..=replicas).map(minter).collect(),
            contexts: vec![(DotContext::empty(), 0)],
            dots: Vec::new(),
        }
    }

    /// Carries out one random event at a random replica.
    pub(super) fn step(&mut self, memory: Memory, dice: &mut Dice) {
        let at = dice.below(self.rows.len() as u64) as usize;
        let other = dice.below(self.rows.len() as u64) as usize;
        match dice.below(if memory == Memory::Perfect { 8 } else { 11 }) {
            0..=3 if self.dots.len() < 64 => self.write(at, memory, dice),
            4 | 5 => self.read(at, other),
            8 => self.rows[at] = (Clock::empty(), Plain::default()),
            9 => self.restart(at, dice),
            _ => self.receive(at, other, memory, dice),
        }
        self.check(at);
    }

    fn write(&mut self, at: usize, memory: Memory, dice: &mut Dice) {
        let write = self.dots.len() as u64;
        let index = dice.below(self.contexts.len() as u64) as usize;
        let (context, covered) = self.contexts[index].clone();
        let (clock, plain) = std::mem::take(&mut self.rows[at]);
        let (clock, id, count) = match memory {
            Memory::Perfect => {
                let id = self.minters[at].actor();
                let clock = clock.update(&context, write, id);
                let count = clock.seen(&id).expect("just written").highest();
                (clock, id, count)
            }
            Memory::Lossy => {
                let written = self.minters[at].write(clock, &context, write, dice.roll());
                (written.clock, written.dot.id, written.dot.count)
            }
        };
        assert!(!self.dots.contains(&(id, count)), "a dot was minted twice");
        self.dots.push((id, count));
        self.rows[at] = (clock, plain.write(covered, write));
        // A put returns a context for its own write alone.
        self.contexts.push((context.with_dot(id, count), covered | 1 << write));
    }

    fn read(&mut self, at: usize, other: usize) {
        let rows = [self.rows[at].clone(), self.rows[other].clone()];
        let plain = rows[0].1.sync(rows[1].1);
        let clock = Clock::sync_many(rows.map(|(clock, _)| clock));
        self.contexts.push((clock.join(), plain.seen));
    }

    fn receive(&mut self, at: usize, other: usize, memory: Memory, dice: &mut Dice) {
        let (theirs, plain) = self.rows[other].clone();
        let (ours, own) = std::mem::take(&mut self.rows[at]);
        let clock = match memory {
            Memory::Perfect => ours.sync(theirs),
            Memory::Lossy => self.minters[at].merge(ours, theirs, dice.roll()).0,
        };
        self.rows[at] = (clock, own.sync(plain));
    }

    /// Restarts the node: cleanly, or in one of the ways that renew the actor.
    fn restart(&mut self, at: usize, dice: &mut Dice) {
        let minter = self.minters[at];
        let record = Minter::from_record(&minter.record()).expect("a record reads back");
        let kind = dice.below(5);
        let found = StartState {
            incarnation: 1,
            record: (kind != 1).then_some(record),
            was_held: true,
            may_lack_writes: kind == 2,
            is_damaged: kind == 3,
            is_restored: false,
        };
        let (node, vnode) = (minter.actor().node, minter.actor().vnode);
        let (after, doubt) = Minter::start(node, vnode, found, dice.roll());
        assert_eq!(doubt.is_some(), matches!(kind, 1..=3));
        assert_eq!(after.actor() == minter.actor(), doubt.is_none());
        self.minters[at] = after;
    }

    /// Checks that values and dots are those of the model.
    fn check(&self, at: usize) {
        let (clock, plain) = &self.rows[at];
        let alive = clock.values().fold(0, |alive, write| alive | 1 << write);
        assert_eq!((alive, clock.size()), (plain.alive, plain.alive.count_ones() as usize));
        for (write, (id, count)) in self.dots.iter().enumerate() {
            let seen = clock.seen(id).is_some_and(|seen| seen.contains(*count));
            assert_eq!(seen, plain.seen & (1 << write) != 0, "write {write}");
        }
    }

    /// Exchanges rows among all replicas: all agree, on the values of the model.
    pub(super) fn exchange_all(&mut self, memory: Memory, dice: &mut Dice) {
        let all = self.rows.len();
        // A merge may consume a dot, which the other replicas lack until their next merge.
        for _ in 0..3 {
            for (at, other) in (0..all).flat_map(|at| (0..all).map(move |other| (at, other))) {
                self.receive(at, other, memory, dice);
                self.check(at);
            }
        }
        for row in &self.rows {
            assert_eq!(row, &self.rows[0]);
        }
    }
}

fn run_histories(count: u64, seed: u64, memory: Memory) -> usize {
    let mut steps = 0;
    for history in 0..count {
        let mut dice = Dice(seed ^ history);
        let mut world = World::new(2 + dice.below(3));
        for _ in 0..4 + dice.below(16) {
            world.step(memory, &mut dice);
            steps += 1;
        }
        if history % 8 == 0 {
            world.exchange_all(memory, &mut dice);
        }
    }
    steps
}

#[test]
fn clock_matches_set_model_in_random_histories() {
    assert!(run_histories(100_000, 0x5EED_0001, Memory::Perfect) > 1_000_000);
}

/// Rows vanish and return from other replicas, contexts are arbitrarily old, actors become others:
/// no dot is ever minted twice, and nothing is replaced that no context covered.
#[test]
fn minter_with_row_loss_matches_set_model_in_random_histories() {
    assert!(run_histories(100_000, 0x5EED_0002, Memory::Lossy) > 1_000_000);
}

#[test]
fn clocks_and_contexts_of_random_histories_round_trip() {
    for history in 0..5_000 {
        let mut dice = Dice(0x5EED_0003 ^ history);
        let mut world = World::new(3);
        for _ in 0..20 {
            world.step(Memory::Lossy, &mut dice);
        }
        for (clock, _) in &world.rows {
            let mut bytes = Vec::new();
            encode(clock, &mut bytes);
            let read = decode(&bytes, super::coding::number);
            assert_eq!(read.as_ref(), Ok(clock));
        }
        for (context, _) in &world.contexts {
            let bytes = context.encode(history);
            assert_eq!(DotContext::decode(&bytes, history).as_ref(), Ok(context));
        }
    }
}
