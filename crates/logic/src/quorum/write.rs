//! Write: sends the coordinator's row to all N primaries, answers at W.

use super::needs::StoreNeeds;
use super::replicas::{Ask, ReplicaCalls, Replicas};
use base::{NodeId, Share, Shortfall};

/// Event for a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreEvent {
    /// First event, once.
    Started,
    /// A replica has accepted the write, and has yet to sync it.
    Accepted {
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
    /// The request's time is up. After the answer: the remaining answers are not awaited.
    TimedOut,
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
        fallback_for: Option<NodeId>,
    },
    /// Answer the caller; once.
    Done(StoreOutcome),
    /// Last effect of the write.
    Finished,
}

/// Outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// Enough replicas have it.
    Enough,
    /// Too few replicas can take it; those that have it keep it, and it may spread.
    TooFew(Shortfall),
    /// Too few replicas had it in time; those that have it keep it, and it may spread.
    TimedOut(Shortfall),
}

/// Write of one key.
#[derive(Clone, Debug)]
pub struct Store {
    needs: StoreNeeds,
    calls: ReplicaCalls,
    done: bool,
    finished: bool,
}

impl Store {
    /// Builds a write to these replicas. The coordinator is one of them and is asked like all
    /// others.
    pub fn new(needs: StoreNeeds, replicas: Replicas) -> Store {
        Store { needs, calls: ReplicaCalls::new(replicas), done: false, finished: false }
    }

    /// Returns true if the last effect was emitted.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns the number of replicas that have stored it.
    pub fn stored(&self) -> usize {
        self.calls.answered().all
    }

    /// Marks fallbacks that are down now: they are not asked for later failures.
    pub fn mark_down(&mut self, is_down: impl Fn(NodeId) -> bool) {
        self.calls.mark_down(is_down);
    }

    /// Handles an event; appends the effects, in order.
    pub fn step(&mut self, event: StoreEvent, effects: &mut Vec<StoreEffect>) {
        if self.finished {
            return;
        }
        let ask = match event {
            StoreEvent::Started => {
                self.calls.begin(|ask| effects.push(to_effect(ask)));
                None
            }
            StoreEvent::Accepted { by } => {
                self.calls.record_acceptance(by);
                None
            }
            StoreEvent::Stored { by } => {
                self.calls.record_answer(by);
                None
            }
            StoreEvent::Failed { by } => self.calls.record_failure(by),
            StoreEvent::Late { by } => self.calls.record_late(by),
            StoreEvent::TimedOut => {
                self.calls.fail_outstanding();
                None
            }
        };
        effects.extend(ask.map(to_effect));
        if !self.done
            && let Some(outcome) = self.outcome(event != StoreEvent::TimedOut)
        {
            self.done = true;
            effects.push(StoreEffect::Done(outcome));
        }
        // Not at `Done`: the remaining nodes still receive the row, fallbacks with a hint.
        if self.calls.is_done() {
            self.finished = true;
            effects.push(StoreEffect::Finished);
        }
    }

    /// Returns the answer to the caller. `None`: not certain yet.
    fn outcome(&self, in_time: bool) -> Option<StoreOutcome> {
        let Some(short) = Store::shortfall(self.reached()) else {
            return Some(StoreOutcome::Enough);
        };
        if !in_time {
            return Some(StoreOutcome::TimedOut(short));
        }
        // Report the requirement that can't be met, with the number reached now.
        let unreachable = Store::shortfall(self.best_case())?;
        let now = self.reached().into_iter().find(|(share, ..)| *share == unreachable.share);
        let got = now.map_or(0, |(_, got, _)| got as u8);
        Some(StoreOutcome::TooFew(Shortfall { got, ..unreachable }))
    }

    /// Returns each requirement with the number reached.
    fn reached(&self) -> [(Share, usize, u8); 4] {
        let stored = self.calls.answered();
        self.shares(self.calls.accepted(), stored.all, stored.primaries)
    }

    /// Returns each requirement with the number reached if all awaited nodes stored it. A node that
    /// has accepted it and not stored it yet is still awaited: it counts once.
    fn best_case(&self) -> [(Share, usize, u8); 4] {
        let (stored, awaited) = (self.calls.answered(), self.calls.outstanding());
        let all = stored.all + awaited.all;
        self.shares(all, all, stored.primaries + awaited.primaries)
    }

    fn shares(&self, accepted: usize, stored: usize, primaries: usize) -> [(Share, usize, u8); 4] {
        [
            (Share::W, accepted, self.needs.w),
            (Share::Dw, stored, self.needs.dw),
            (Share::Pw, primaries, self.needs.pw),
            (Share::NodeConfirms, stored, self.needs.node_confirms),
        ]
    }

    fn shortfall(numbers: [(Share, usize, u8); 4]) -> Option<Shortfall> {
        let short = numbers.into_iter().find(|(_, got, needed)| *got < usize::from(*needed));
        short.map(|(share, got, needed)| Shortfall { share, got: got as u8, needed })
    }
}

fn to_effect((node, fallback_for): Ask) -> StoreEffect {
    StoreEffect::Ask { node, fallback_for }
}
