//! Write: sends the coordinator's row to all N primaries, answers at W.

use super::needs::StoreNeeds;
use super::replicas::{Ask, ReplicaCalls, Replicas};
use base::{NodeId, Share, Shortfall};
use std::collections::BTreeSet;

/// Event for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// First event, once.
    Begun,
    /// A replica has taken the write, and has yet to sync it.
    Taken {
        /// Replica that took it.
        by: NodeId,
    },
    /// A replica has stored the write as durably as its bucket requires.
    Stored {
        /// Replica that stored it.
        by: NodeId,
    },
    /// A replica refuses, or can't be reached.
    Failed {
        /// Replica that failed.
        by: NodeId,
    },
    /// A replica takes so long that another one should be asked in addition.
    Late {
        /// Replica that is late.
        by: NodeId,
    },
    /// The request's time is up. After the answer: nobody waits for the rest any longer.
    OutOfTime,
}

/// Effect of a step, to be carried out in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEffect {
    /// Ask this node to store the row.
    Ask {
        /// Node to ask.
        node: NodeId,
        /// Primary in whose place it is asked, for which it keeps a hint. `None`: it is a primary
        /// itself.
        instead_of: Option<NodeId>,
    },
    /// Answer the caller; once.
    Done(Stored),
    /// Last effect of the write.
    Finished,
}

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Enough replicas have it.
    Enough,
    /// Too few replicas can take it; those that have it keep it, and it may spread.
    TooFew(Shortfall),
    /// Too few replicas had it in time; those that have it keep it, and it may spread.
    OutOfTime(Shortfall),
}

/// Write of one key.
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
    /// Builds a write to these replicas. The coordinator is one of them and is asked like all
    /// others.
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

    /// Returns true if the last effect was emitted.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns the number of replicas that have stored it.
    pub fn stored(&self) -> usize {
        self.stored.len()
    }

    /// Handles an event; appends the effects, in order.
    pub fn step(&mut self, event: StoreEvent, effects: &mut Vec<StoreEffect>) {
        if self.finished {
            return;
        }
        let asks = match event {
            StoreEvent::Begun => self.asking.begin(),
            StoreEvent::Taken { by } => {
                // After a failure or the deadline an answer does not count.
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
                // A row that it only took may be lost; a stored one stays.
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
        // Not at `Done`: the rest still get the row, with hints where fallbacks stand in.
        if self.asking.open() == 0 {
            self.finished = true;
            effects.push(StoreEffect::Finished);
        }
    }

    /// Returns the answer to the caller. `None`: not certain yet.
    fn outcome(&self, in_time: bool) -> Option<Stored> {
        let Some(short) = Store::short(self.numbers()) else { return Some(Stored::Enough) };
        if !in_time {
            return Some(Stored::OutOfTime(short));
        }
        // Report the requirement that can't be met, with the number reached now.
        let hopeless = Store::short(self.hopes())?;
        let now = self.numbers().into_iter().find(|(share, ..)| *share == hopeless.share);
        let got = now.map_or(0, |(_, got, _)| got as u8);
        Some(Stored::TooFew(Shortfall { got, ..hopeless }))
    }

    /// Returns each requirement with the number reached.
    fn numbers(&self) -> [(Share, usize, u8); 4] {
        let primaries = self.stored.iter().filter(|node| self.asking.is_primary(**node)).count();
        self.shares(self.taken.len(), self.stored.len(), primaries)
    }

    /// Returns each requirement with the number reached if all awaited nodes stored it. A node that
    /// has taken it and not stored it yet is still awaited: it counts once.
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
