//! A write: brings what the coordinator laid out to all N, answers at W.

use super::needs::StoreNeeds;
use super::replicas::{Ask, ReplicaCalls, Replicas};
use base::{NodeId, Share, Shortfall};
use std::collections::BTreeSet;

/// What can happen to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// The first event, once.
    Begun,
    /// A replica has taken it, and is yet to sync it.
    Taken {
        /// Who.
        by: NodeId,
    },
    /// A replica has it as safe as its bucket wants.
    Stored {
        /// Who.
        by: NodeId,
    },
    /// A replica refuses, or can't be reached.
    Failed {
        /// Who.
        by: NodeId,
    },
    /// A replica takes long enough that another one should be asked beside it.
    Late {
        /// Who.
        by: NodeId,
    },
    /// The request's time is up; after the answer: nobody waits for the rest any longer.
    OutOfTime,
}

/// What a write wants done, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEffect {
    /// Let this node store it.
    Ask {
        /// Whom.
        node: NodeId,
        /// The primary in whose place it is asked: it keeps a hint for it.
        instead_of: Option<NodeId>,
    },
    /// Answer the caller; once.
    Done(Stored),
    /// That was the last effect.
    Finished,
}

/// How a write ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// As many have it as were asked for.
    Enough,
    /// Too few can take it; those that have it keep it, and it may spread.
    TooFew(Shortfall),
    /// Too few had it in time; those that have it keep it, and it may spread.
    OutOfTime(Shortfall),
}

/// One write.
#[derive(Clone, Debug)]
pub struct Store {
    needs: StoreNeeds,
    asking: ReplicaCalls,
    taken: BTreeSet<NodeId>,
    stored: BTreeSet<NodeId>,
    done: bool,
    finished: bool,
}

impl Store {
    /// A write to these replicas. The coordinator is one of them and is asked like all others.
    pub fn new(needs: StoreNeeds, replicas: Replicas) -> Store {
        Store {
            needs,
            asking: ReplicaCalls::new(replicas),
            taken: BTreeSet::new(),
            stored: BTreeSet::new(),
            done: false,
            finished: false,
        }
    }

    /// Whether the last effect was given.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// How many have it for certain.
    pub fn stored(&self) -> usize {
        self.stored.len()
    }

    /// Takes in what happened; appends what is to be done, in this order.
    pub fn step(&mut self, event: StoreEvent, effects: &mut Vec<StoreEffect>) {
        if self.finished {
            return;
        }
        let asks = match event {
            StoreEvent::Begun => self.asking.begin(),
            StoreEvent::Taken { by } => {
                if self.asking.is_open(by) {
                    self.taken.insert(by);
                }
                Vec::new()
            }
            StoreEvent::Stored { by } => {
                if self.asking.answered(by) {
                    self.taken.insert(by);
                    self.stored.insert(by);
                }
                Vec::new()
            }
            StoreEvent::Failed { by } => {
                let ask = self.asking.failed(by);
                if !self.stored.contains(&by) {
                    self.taken.remove(&by);
                }
                ask.into_iter().collect()
            }
            StoreEvent::Late { by } => self.asking.late(by).into_iter().collect(),
            StoreEvent::OutOfTime => {
                self.asking.give_up();
                Vec::new()
            }
        };
        effects.extend(asks.into_iter().map(told));
        if !self.done
            && let Some(outcome) = self.outcome(event != StoreEvent::OutOfTime)
        {
            self.done = true;
            effects.push(StoreEffect::Done(outcome));
        }
        if self.asking.open() == 0 {
            self.finished = true;
            effects.push(StoreEffect::Finished);
        }
    }

    /// The answer, once it is certain.
    fn outcome(&self, in_time: bool) -> Option<Stored> {
        let Some(short) = Store::short(self.numbers()) else { return Some(Stored::Enough) };
        if !in_time {
            return Some(Stored::OutOfTime(short));
        }
        // Told is what can't be met, with how far it is met now.
        let hopeless = Store::short(self.hopes())?;
        let now = self.numbers().into_iter().find(|(share, ..)| *share == hopeless.share);
        let got = now.map_or(0, |(_, got, _)| got as u8);
        Some(Stored::TooFew(Shortfall { got, ..hopeless }))
    }

    /// How far each number is met.
    fn numbers(&self) -> [(Share, usize, u8); 4] {
        let primaries = self.stored.iter().filter(|node| self.asking.is_primary(**node)).count();
        self.shares(self.taken.len(), self.stored.len(), primaries)
    }

    /// How far each would be met if all who are awaited stored it. Who has taken it and not yet
    /// stored it is awaited still: it counts once.
    fn hopes(&self) -> [(Share, usize, u8); 4] {
        let primaries = self.stored.iter().filter(|node| self.asking.is_primary(**node)).count();
        let stored = self.stored.len() + self.asking.open();
        self.shares(stored, stored, primaries + self.asking.open_primaries())
    }

    fn shares(&self, taken: usize, stored: usize, primaries: usize) -> [(Share, usize, u8); 4] {
        [
            (Share::W, taken, self.needs.w),
            (Share::Dw, stored, self.needs.dw),
            (Share::Pw, primaries, self.needs.pw),
            (Share::NodeConfirms, stored, self.needs.node_confirms),
        ]
    }

    fn short(numbers: [(Share, usize, u8); 4]) -> Option<Shortfall> {
        let short = numbers.into_iter().find(|(_, got, needed)| *got < usize::from(*needed));
        short.map(|(share, got, needed)| Shortfall { share, got: got as u8, needed })
    }
}

fn told((node, instead_of): Ask) -> StoreEffect {
    StoreEffect::Ask { node, instead_of }
}
