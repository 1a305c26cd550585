//! Read: asks all primaries, answers at R, repairs stale primaries.

use super::needs::FetchNeeds;
use super::replicas::{AnswerCount, Ask, ReplicaCalls, Replicas};
use base::{NodeId, Share, Shortfall};

/// Replicated value of a key: two can be merged, in any order and any number of times.
pub trait Versions: Clone + PartialEq {
    /// Merges the other value into this one.
    fn merge(&mut self, other: &Self);
}

/// Event for a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchEvent<V> {
    /// First event, once.
    Started,
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
    /// The request's time is up. After the answer: the remaining answers are not awaited.
    TimedOut,
}

/// Effect of a step, to be carried out in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetchEffect<V> {
    /// Ask this node for its value.
    Ask {
        /// Node to ask.
        node: NodeId,
        /// Primary in whose place it is asked. `None`: it is a primary itself.
        fallback_for: Option<NodeId>,
    },
    /// Answer the caller; once.
    Done(FetchOutcome<V>),
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
pub enum FetchOutcome<V> {
    /// Merged value of the replicas that answered.
    Found(V),
    /// No replica that answered holds anything.
    NotFound,
    /// Too few replicas can answer.
    TooFew(Shortfall),
    /// Too few replicas answered in time.
    TimedOut(Shortfall),
}

/// Read of one key.
#[derive(Clone, Debug)]
pub struct Fetch<V> {
    needs: FetchNeeds,
    calls: ReplicaCalls,
    /// Answers, by node.
    answers: Vec<(NodeId, Option<V>)>,
    done: bool,
    finished: bool,
}

impl<V: Versions> Fetch<V> {
    /// Builds a read from these replicas.
    pub fn new(needs: FetchNeeds, replicas: Replicas) -> Fetch<V> {
        let answers = Vec::with_capacity(replicas.primaries.len());
        Fetch { needs, calls: ReplicaCalls::new(replicas), answers, done: false, finished: false }
    }

    /// Returns true if the last effect was emitted.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Marks fallbacks that are down now: they are not asked for later failures.
    pub fn mark_down(&mut self, is_down: impl Fn(NodeId) -> bool) {
        self.calls.mark_down(is_down);
    }

    /// Handles an event; appends the effects, in order.
    pub fn step(&mut self, event: FetchEvent<V>, effects: &mut Vec<FetchEffect<V>>) {
        if self.finished {
            return;
        }
        let in_time = !matches!(event, FetchEvent::TimedOut);
        let ask = match event {
            FetchEvent::Started => {
                self.calls.begin(|ask| effects.push(to_effect(ask)));
                None
            }
            FetchEvent::Answered { by, versions } => {
                if self.calls.record_answer(by) {
                    let index = self.answers.partition_point(|(node, _)| *node < by);
                    self.answers.insert(index, (by, versions));
                }
                None
            }
            FetchEvent::Failed { by } => self.calls.record_failure(by),
            FetchEvent::Late { by } => self.calls.record_late(by),
            FetchEvent::TimedOut => {
                self.calls.fail_outstanding();
                None
            }
        };
        effects.extend(ask.map(to_effect));
        if !self.done
            && let Some(outcome) = self.outcome(in_time)
        {
            self.done = true;
            effects.push(FetchEffect::Done(outcome));
        }
        // Repaired only now: an earlier merge may lack the value of a late primary, and would
        // repair twice.
        if self.calls.is_done() {
            self.finished = true;
            self.repair(effects);
            effects.push(FetchEffect::Finished);
        }
    }

    /// Returns the answer to the caller. `None`: not certain yet.
    fn outcome(&self, in_time: bool) -> Option<FetchOutcome<V>> {
        let counted = self.count(|versions| versions.is_some() || self.needs.notfound_ok);
        if self.shortfall(counted).is_none() {
            return Some(self.merged().map_or(FetchOutcome::NotFound, FetchOutcome::Found));
        }
        let all_empty = self.answers.iter().all(|(_, versions)| versions.is_none());
        // `basic_quorum`: a majority without the key avoids the wait for the slowest replica.
        let is_basic_quorum =
            self.needs.notfound_quorum.is_some_and(|at| self.answers.len() >= usize::from(at));
        if all_empty && is_basic_quorum {
            return Some(FetchOutcome::NotFound);
        }
        // After the time is up no node is awaited, so a shortfall is final.
        let short = self.shortfall(self.with_outstanding(counted))?;
        if all_empty {
            // The answer "nothing" by all required replicas counts as well, and may still arrive.
            let all_answers = self.count(|_| true);
            if self.shortfall(all_answers).is_none() {
                return Some(FetchOutcome::NotFound);
            }
            self.shortfall(self.with_outstanding(all_answers))?;
        }
        // Report the requirement that can't be met, with the number reached now.
        let got = if short.share == Share::Pr { counted.primaries } else { counted.all };
        let short = Shortfall { got: got as u8, ..short };
        Some(if in_time { FetchOutcome::TooFew(short) } else { FetchOutcome::TimedOut(short) })
    }

    fn count(&self, is_counted: impl Fn(&Option<V>) -> bool) -> AnswerCount {
        let counted = self.answers.iter().filter(|(_, versions)| is_counted(versions));
        let primary = |node: &NodeId| usize::from(self.calls.is_primary(*node));
        counted.fold(AnswerCount::default(), |count, (node, _)| AnswerCount {
            all: count.all + 1,
            primaries: count.primaries + primary(node),
        })
    }

    /// Returns the count if all outstanding answers arrive and count.
    fn with_outstanding(&self, count: AnswerCount) -> AnswerCount {
        let AnswerCount { all, primaries } = self.calls.outstanding();
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
        let mut all = self.answers.iter().filter_map(|(_, versions)| versions.as_ref());
        let mut merged = all.next()?.clone();
        all.for_each(|versions| merged.merge(versions));
        Some(merged)
    }

    /// Repairs primaries only: a fallback hands its copy off as a hint, and need not get one.
    fn repair(&self, effects: &mut Vec<FetchEffect<V>>) {
        let Some(merged) = self.merged() else { return };
        for (node, versions) in &self.answers {
            if self.calls.is_primary(*node) && versions.as_ref() != Some(&merged) {
                effects.push(FetchEffect::Repair { node: *node, versions: merged.clone() });
            }
        }
    }
}

fn to_effect<V>((node, fallback_for): Ask) -> FetchEffect<V> {
    FetchEffect::Ask { node, fallback_for }
}
