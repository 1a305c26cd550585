//! Read: asks all primaries, answers at R, repairs stale primaries.

use super::needs::FetchNeeds;
use super::replicas::{Ask, ReplicaCalls, Replicas};
use base::{NodeId, Share, Shortfall};
use std::collections::BTreeMap;

/// Replicated value of a key: two can be merged, in any order and any number of times.
pub trait Versions: Clone + PartialEq {
    /// Merges the other value into this one.
    fn merge(&mut self, other: &Self);
}

/// Event for a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchEvent<V> {
    /// First event, once.
    Begun,
    /// A replica answers with what it has. `None`: nothing.
    Answered {
        /// Replica that answered.
        by: NodeId,
        /// Value that it has. `None`: nothing.
        versions: Option<V>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchEffect<V> {
    /// Ask this node for its value.
    Ask {
        /// Node to ask.
        node: NodeId,
        /// Primary in whose place it is asked. `None`: it is a primary itself.
        instead_of: Option<NodeId>,
    },
    /// Answer the caller; once.
    Done(Fetched<V>),
    /// Send this primary the merged value, of which it lacks a part.
    Repair {
        /// Primary to repair.
        node: NodeId,
        /// Merge of all answers.
        versions: V,
    },
    /// Last effect of the read.
    Finished,
}

/// Outcome of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched<V> {
    /// Merged value of the replicas that answered.
    Found(V),
    /// No replica that answered holds anything.
    Nothing,
    /// Too few replicas can answer.
    TooFew(Shortfall),
    /// Too few replicas answered in time.
    OutOfTime(Shortfall),
}

/// Number of answers, and of those by primaries.
#[derive(Clone, Copy, Debug, Default)]
struct AnswerCount {
    all: usize,
    primaries: usize,
}

/// Read of one key.
#[derive(Clone, Debug)]
pub struct Fetch<V> {
    needs: FetchNeeds,
    asking: ReplicaCalls,
    heard: BTreeMap<NodeId, Option<V>>,
    done: bool,
    finished: bool,
}

impl<V: Versions> Fetch<V> {
    /// Builds a read from these replicas.
    pub fn new(needs: FetchNeeds, replicas: Replicas) -> Fetch<V> {
        let heard = BTreeMap::new();
        Fetch { needs, asking: ReplicaCalls::new(replicas), heard, done: false, finished: false }
    }

    /// Returns true if the last effect was emitted.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Handles an event; appends the effects, in order.
    pub fn step(&mut self, event: FetchEvent<V>, effects: &mut Vec<FetchEffect<V>>) {
        if self.finished {
            return;
        }
        let in_time = event != FetchEvent::OutOfTime;
        let asks = match event {
            FetchEvent::Begun => self.asking.begin(),
            FetchEvent::Answered { by, versions } => {
                if self.asking.answered(by) {
                    self.heard.insert(by, versions);
                }
                Vec::new()
            }
            FetchEvent::Failed { by } => self.asking.failed(by).into_iter().collect(),
            FetchEvent::Late { by } => self.asking.late(by).into_iter().collect(),
            FetchEvent::OutOfTime => {
                self.asking.give_up();
                Vec::new()
            }
        };
        effects.extend(asks.into_iter().map(told));
        if !self.done
            && let Some(outcome) = self.outcome(in_time)
        {
            self.done = true;
            effects.push(FetchEffect::Done(outcome));
        }
        // Repaired only now: an earlier merge may lack what a late primary has, and would repair
        // twice.
        if self.asking.open() == 0 {
            self.finished = true;
            self.repair(effects);
            effects.push(FetchEffect::Finished);
        }
    }

    /// Returns the answer to the caller. `None`: not certain yet.
    fn outcome(&self, in_time: bool) -> Option<Fetched<V>> {
        let counted = self.count(|versions| versions.is_some() || self.needs.notfound_ok);
        if self.shortfall(counted).is_none() {
            return Some(self.merged().map_or(Fetched::Nothing, Fetched::Found));
        }
        let nothing = self.heard.values().all(Option::is_none);
        // `basic_quorum`: a majority without the key spares the wait for the slowest.
        let enough = self.needs.nothing_at.is_some_and(|at| self.heard.len() >= usize::from(at));
        if nothing && enough {
            return Some(Fetched::Nothing);
        }
        // After the time is up no node is awaited, so a shortfall is final.
        let short = self.shortfall(self.hoped(counted))?;
        if nothing {
            // The answer "nothing" by all required replicas counts as well, and may still come.
            let heard = self.count(|_| true);
            if self.shortfall(heard).is_none() {
                return Some(Fetched::Nothing);
            }
            self.shortfall(self.hoped(heard))?;
        }
        // Report the requirement that can't be met, with the number reached now.
        let got = if short.share == Share::Pr { counted.primaries } else { counted.all };
        let short = Shortfall { got: got as u8, ..short };
        Some(if in_time { Fetched::TooFew(short) } else { Fetched::OutOfTime(short) })
    }

    fn count(&self, counts: impl Fn(&Option<V>) -> bool) -> AnswerCount {
        let counted = self.heard.iter().filter(|(_, versions)| counts(versions));
        let primary = |node: &NodeId| usize::from(self.asking.is_primary(*node));
        counted.fold(AnswerCount::default(), |count, (node, _)| AnswerCount {
            all: count.all + 1,
            primaries: count.primaries + primary(node),
        })
    }

    /// Returns the count if all awaited nodes answer as hoped.
    fn hoped(&self, count: AnswerCount) -> AnswerCount {
        let (all, primaries) = (self.asking.open(), self.asking.open_primaries());
        AnswerCount { all: count.all + all, primaries: count.primaries + primaries }
    }

    /// Returns the first requirement that the count does not meet. `None`: all are met.
    fn shortfall(&self, count: AnswerCount) -> Option<Shortfall> {
        let numbers = [
            (Share::R, count.all, self.needs.r),
            (Share::Pr, count.primaries, self.needs.pr),
            (Share::NodeConfirms, count.all, self.needs.node_confirms),
        ];
        let short = numbers.into_iter().find(|(_, got, needed)| *got < usize::from(*needed));
        short.map(|(share, got, needed)| Shortfall { share, got: got as u8, needed })
    }

    fn merged(&self) -> Option<V> {
        let mut all = self.heard.values().flatten();
        let mut merged = all.next()?.clone();
        all.for_each(|versions| merged.merge(versions));
        Some(merged)
    }

    /// Repairs primaries only: a fallback hands its copy off as a hint, and need not get one.
    fn repair(&self, effects: &mut Vec<FetchEffect<V>>) {
        let Some(merged) = self.merged() else { return };
        for (node, versions) in &self.heard {
            if self.asking.is_primary(*node) && versions.as_ref() != Some(&merged) {
                effects.push(FetchEffect::Repair { node: *node, versions: merged.clone() });
            }
        }
    }
}

fn told<V>((node, instead_of): Ask) -> FetchEffect<V> {
    FetchEffect::Ask { node, instead_of }
}
