//! A read: asks all, answers at R, repairs who was behind.

use super::needs::FetchNeeds;
use super::replicas::{Ask, ReplicaCalls, Replicas};
use base::{NodeId, Share, Shortfall};
use std::collections::BTreeMap;

/// What replicas keep under a key: two can be merged, in any order and any number of times.
pub trait Versions: Clone + PartialEq {
    /// Takes up what the other knows.
    fn merge(&mut self, other: &Self);
}

/// What can happen to a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchEvent<V> {
    /// The first event, once.
    Begun,
    /// A replica tells what it has; `None`: nothing.
    Answered {
        /// Who.
        by: NodeId,
        /// What it has.
        versions: Option<V>,
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

/// What a read wants done, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchEffect<V> {
    /// Ask this node what it has.
    Ask {
        /// Whom.
        node: NodeId,
        /// The primary in whose place it is asked.
        instead_of: Option<NodeId>,
    },
    /// Answer the caller; once.
    Done(Fetched<V>),
    /// Let this primary merge what it is behind with.
    Repair {
        /// Whom.
        node: NodeId,
        /// All that was heard of.
        versions: V,
    },
    /// That was the last effect.
    Finished,
}

/// How a read ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched<V> {
    /// What those that answered have, merged.
    Found(V),
    /// They have nothing.
    Nothing,
    /// Too few can answer.
    TooFew(Shortfall),
    /// Too few answered in time.
    OutOfTime(Shortfall),
}

/// How many answers, and how many of them by primaries.
#[derive(Clone, Copy, Debug, Default)]
struct AnswerCount {
    all: usize,
    primaries: usize,
}

/// One read.
#[derive(Clone, Debug)]
pub struct Fetch<V> {
    needs: FetchNeeds,
    asking: ReplicaCalls,
    heard: BTreeMap<NodeId, Option<V>>,
    done: bool,
    finished: bool,
}

impl<V: Versions> Fetch<V> {
    /// A read of what these replicas have.
    pub fn new(needs: FetchNeeds, replicas: Replicas) -> Fetch<V> {
        let heard = BTreeMap::new();
        Fetch { needs, asking: ReplicaCalls::new(replicas), heard, done: false, finished: false }
    }

    /// Whether the last effect was given.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes in what happened; appends what is to be done, in this order.
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
        if self.asking.open() == 0 {
            self.finished = true;
            self.repair(effects);
            effects.push(FetchEffect::Finished);
        }
    }

    /// The answer, once it is certain.
    fn outcome(&self, in_time: bool) -> Option<Fetched<V>> {
        let counted = self.count(|versions| versions.is_some() || self.needs.notfound_ok);
        if self.shortfall(counted).is_none() {
            return Some(self.merged().map_or(Fetched::Nothing, Fetched::Found));
        }
        let nothing = self.heard.values().all(Option::is_none);
        let enough = self.needs.nothing_at.is_some_and(|at| self.heard.len() >= usize::from(at));
        if nothing && enough {
            return Some(Fetched::Nothing);
        }
        // With the time up nobody is awaited, and what is not met can't be met.
        let short = self.shortfall(self.hoped(counted))?;
        if nothing {
            // That all who were asked for have nothing is an answer too, and may still come.
            let heard = self.count(|_| true);
            if self.shortfall(heard).is_none() {
                return Some(Fetched::Nothing);
            }
            self.shortfall(self.hoped(heard))?;
        }
        // Told is what can't be met, with how far it is met now.
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

    /// As many as these, if all who are awaited answer as wished.
    fn hoped(&self, count: AnswerCount) -> AnswerCount {
        let (all, primaries) = (self.asking.open(), self.asking.open_primaries());
        AnswerCount { all: count.all + all, primaries: count.primaries + primaries }
    }

    /// Which number so many do not meet.
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

    /// Primaries only: a fallback's copy goes home as a hint, and one it never had is not its own.
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
