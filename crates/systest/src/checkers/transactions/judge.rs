//! Check of a history: first assigns effects of the log to updates, then positions to all other
//! transactions.

use super::state::{StatePosition, TransactionLog};
use super::{Committed, TransactionReport};
use crate::workload::CallOutcome::Acknowledged;
use crate::workload::transactions::TransactionAnswer::{Done, Failed};
use crate::workload::transactions::{Level, StepAnswer, Transaction, TransactionStep};
use crate::workload::{CallOutcome, KeyValue};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Checks a history against the log that decided it. The log must hold at least all values decided
/// between the beginning of the first transaction and the end of the last, and the state before it
/// must be empty.
pub fn judge(history: &[Transaction], committed: &[Committed]) -> TransactionReport {
    let mut report = TransactionReport::default();
    let log = match TransactionLog::new(committed) {
        Ok(log) => log,
        Err(reason) => {
            report.violations.push(reason);
            return report;
        }
    };
    let mut judge = Judge {
        history,
        makers: vec![None; log.effects.len() + 1],
        spans: vec![None; history.len()],
        inside_transaction: Vec::new(),
        latest: Vec::new(),
        ttl_observations: BTreeMap::new(),
        log,
        report,
    };
    judge.assign_effects();
    judge.explain_unclaimed();
    judge.index_effects();
    if judge.report.violations.is_empty() {
        judge.place_transactions();
        judge.check_ttl_observations();
    }
    judge.report
}

pub(super) struct Judge<'a> {
    pub(super) history: &'a [Transaction],
    pub(super) log: TransactionLog,
    /// Transaction that made each effect, by position. `None`: none is known.
    pub(super) makers: Vec<Option<usize>>,
    /// First and last effect of each transaction that made any.
    spans: Vec<Option<(StatePosition, StatePosition)>>,
    /// True for positions in the middle of a transaction, where no other can have been done.
    inside_transaction: Vec<bool>,
    /// Latest beginning among the transactions that made the effects up to each position.
    latest: Vec<u64>,
    /// Observations of rows with a time to live, by the row's position: the earliest end of a read
    /// that found it expired, and the latest beginning of a read that returned it.
    pub(super) ttl_observations: BTreeMap<StatePosition, (Option<u64>, Option<u64>)>,
    pub(super) report: TransactionReport,
}

impl Judge<'_> {
    fn add_violation(&mut self, problem: &str, at: usize) {
        self.report.violations.push(format!("{problem}: {}", self.history[at]));
    }

    /// Finds the effects of each update.
    fn assign_effects(&mut self) {
        for (at, transaction) in self.history.iter().enumerate() {
            let unique_writes = unique_writes(transaction);
            if unique_writes.is_empty() {
                continue;
            }
            let mut written = unique_writes.iter().map(|(key, value)| self.log.written(key, value));
            let positions = written.find(|positions| !positions.is_empty());
            let positions = positions.unwrap_or_default().to_vec();
            match (&transaction.outcome, &positions[..]) {
                (Acknowledged(Done(_)), []) => {
                    self.add_violation("acknowledged, and not in the log", at)
                }
                (Acknowledged(Done(_)) | CallOutcome::Unknown, [position]) => {
                    self.assign_effects_at(at, *position)
                }
                (_, []) => {}
                (CallOutcome::Refused, _) => self.add_violation("refused, and in the log", at),
                (Acknowledged(Failed), _) => self.add_violation("failed, and in the log", at),
                _ => self.add_violation(&format!("{} times in the log", positions.len()), at),
            }
        }
    }

    /// Assigns the effect at `position`, and the adjacent effects of the same update, to this
    /// update.
    fn assign_effects_at(&mut self, at: usize, position: StatePosition) {
        let transaction = &self.history[at];
        let mut problem = "its answers are not those of the state before it".to_string();
        for start in position.saturating_sub(transaction.op.steps.len())..position {
            let Ok((expected, changed)) = self.log.evaluate(&transaction.op.steps, start) else {
                continue;
            };
            let end = start + changed.len();
            if end < position || end >= self.makers.len() || !self.has_changes_at(start, &changed) {
                continue;
            }
            match &transaction.outcome {
                Acknowledged(Done(answers)) if !answers_agree(answers, &expected) => {
                    problem = format!("the state before it answers {expected:?}");
                    continue;
                }
                Acknowledged(Done(_)) => self.report.updates += 1,
                _ => self.report.late += 1,
            }
            let index = self.log.effect(position).0;
            if transaction.op.index.is_some_and(|answers| answers != index) {
                self.add_violation(
                    &format!("its answer names another index than its own, {index}"),
                    at,
                );
            }
            for position in start + 1..=end {
                if self.makers[position].replace(at).is_some() {
                    self.add_violation("shares an effect with another", at);
                }
            }
            self.spans[at] = Some((start + 1, end));
            return;
        }
        self.add_violation(&problem, at);
    }

    /// Returns true if the log has these changes after a position, under one index.
    fn has_changes_at(&self, start: StatePosition, changed: &[(String, KeyValue)]) -> bool {
        let is_same = |(at, (key, value)): (usize, &(String, KeyValue))| {
            let (index, _, effect) = self.log.effect(start + 1 + at);
            let row = effect.row.as_ref().map(|(value, _)| value);
            let first = self.log.effect(start + 1).0;
            *index == first && effect.key == *key && row == value.as_ref()
        };
        changed.iter().enumerate().all(is_same)
    }

    /// Explains effects that no known update made: removals of expired rows, and additions to
    /// numbers by clients without an answer. The addition that began first gets the first effect,
    /// because it may be the earliest.
    fn explain_unclaimed(&mut self) {
        let mut unknown: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (at, transaction) in self.history.iter().enumerate() {
            if let (CallOutcome::Unknown, [step]) =
                (&transaction.outcome, &transaction.op.steps[..])
            {
                let delta = match step {
                    TransactionStep::Add(key, delta) => (key.clone(), delta.to_string()),
                    TransactionStep::AddFloat(key, delta) => (key.clone(), delta.to_string()),
                    _ => continue,
                };
                unknown.entry(delta).or_default().push(at);
            }
        }
        for pending in unknown.values_mut() {
            pending.sort_by_key(|at| Reverse(self.history[*at].began));
        }
        for position in 1..self.makers.len() {
            if self.makers[position].is_some() {
                continue;
            }
            let (index, time, effect) = self.log.effect(position).clone();
            let key = &effect.key;
            let previous =
                self.log.maker(key, position - 1).map(|position| self.log.effect(position));
            let expires = previous.and_then(|(_, _, effect)| effect.row.as_ref()?.1);
            if effect.row.is_none() && expires.is_some_and(|expires| expires <= time) {
                continue;
            }
            let addition = unknown.iter_mut().find_map(|((other, _), pending)| {
                let at = *pending.last().filter(|_| other == key)?;
                let (_, changed) =
                    self.log.evaluate(&self.history[at].op.steps, position - 1).ok()?;
                let row = effect.row.as_ref().map(|(value, _)| value);
                (changed[0].1.as_ref() == row).then(|| pending.pop()).flatten()
            });
            match addition {
                Some(at) => {
                    self.makers[position] = Some(at);
                    self.spans[at] = Some((position, position));
                    self.report.late += 1;
                }
                None => {
                    let problem = format!("nobody asked for {effect:?}, at {index}");
                    self.report.violations.push(problem);
                }
            }
        }
    }

    fn index_effects(&mut self) {
        let mut latest = 0;
        self.latest = vec![0];
        for maker in &self.makers[1..] {
            latest = latest.max(maker.map_or(0, |at| self.history[at].began));
            self.latest.push(latest);
        }
        self.inside_transaction = vec![false; self.makers.len()];
        for (first, last) in self.spans.iter().flatten() {
            self.inside_transaction[*first..*last].fill(true);
        }
    }

    /// Assigns to every transaction the least position that its answer, the transactions that ended
    /// before it began, and the reads of its connection allow.
    fn place_transactions(&mut self) {
        let mut order: Vec<usize> = (0..self.history.len()).collect();
        order.sort_by_key(|at| (self.history[*at].began, self.history[*at].client, *at));
        let (mut ends, mut floor) = (BinaryHeap::new(), 0);
        let mut seen: BTreeMap<(u32, bool), StatePosition> = BTreeMap::new();
        // Time at which the last update of each connection was answered, among those processed.
        let mut update_ends: BTreeMap<u32, u64> = BTreeMap::new();
        for at in order {
            let transaction = &self.history[at];
            while let Some(Reverse((ended, position))) = ends.peek() {
                if *ended >= transaction.began {
                    break;
                }
                floor = floor.max(*position);
                ends.pop();
            }
            let is_consistent = transaction.op.level == Level::Consistent;
            let own = seen.get(&(transaction.client, is_consistent)).copied().unwrap_or(0);
            let least = match transaction.op.level {
                Level::Consistent => floor.max(own),
                Level::Dirty => own,
                Level::AtLeast(index) => own.max(self.log.at_index(index)),
            };
            let last_update_end = update_ends.entry(transaction.client).or_default();
            let is_behind_update = *last_update_end > transaction.began;
            if !transaction.is_read() {
                *last_update_end = transaction.ended.max(*last_update_end);
            }
            let Some(position) = self.find_position(at, least, is_behind_update) else { continue };
            let is_known = transaction.outcome != CallOutcome::Unknown;
            if is_known {
                let own = seen.entry((transaction.client, is_consistent)).or_default();
                *own = position.max(*own);
            }
            if is_consistent && is_known {
                ends.push(Reverse((transaction.ended, position)));
            }
        }
    }

    /// Returns the position of the transaction, not before `least`. `None`: none fits, or the
    /// position does not matter.
    ///
    /// A read of one step shows the applied state, which consists of whole values of the log. But
    /// after an update of its own connection that is not answered yet it is evaluated like an
    /// update: on that update and all that were evaluated before itself, which may be a part of a
    /// value. So is a sequence.
    fn find_position(
        &mut self,
        at: usize,
        least: StatePosition,
        is_behind_update: bool,
    ) -> Option<StatePosition> {
        let transaction = &self.history[at];
        if let Some((first, last)) = self.spans[at] {
            if first <= least {
                let problem =
                    format!("done at place {first}, what was answered before is at {least}");
                self.add_violation(&problem, at);
            }
            return Some(last);
        }
        let is_single_read = transaction.is_read() && transaction.op.steps.len() == 1;
        // A read returns nothing later than the index of its answer. An update is in the value that
        // its index names, so it was evaluated on all values before that.
        let latest_position =
            transaction.op.index.map_or(StatePosition::MAX, |index| self.log.at_index(index));
        let least = match transaction.op.index.filter(|_| !transaction.is_read()) {
            Some(index) => least.max(self.log.at_index(index.saturating_sub(1))),
            None => least,
        };
        let answers = match &transaction.outcome {
            CallOutcome::Refused | CallOutcome::Unknown => return None,
            Acknowledged(Failed) => {
                self.report.failed += 1;
                None
            }
            Acknowledged(Done(answers)) => {
                self.report.reads += usize::from(transaction.is_read());
                self.report.weak_reads += usize::from(transaction.op.level != Level::Consistent);
                Some(answers)
            }
        };
        let is_behind_update = is_behind_update && transaction.op.level == Level::Consistent;
        let candidates: Box<dyn Iterator<Item = StatePosition>> = match answers {
            Some(_) if is_single_read && !is_behind_update => Box::new(self.log.boundaries(least)),
            _ => Box::new(
                (least..self.makers.len()).filter(|position| !self.inside_transaction[*position]),
            ),
        };
        let is_early = |position: &StatePosition| {
            *position <= latest_position && self.latest[*position] <= transaction.ended
        };
        let gives_answers = |position: &StatePosition| match (
            self.log.evaluate(&transaction.op.steps, *position),
            answers,
        ) {
            (Err(_), None) => true,
            (Ok((expected, changed)), Some(answers)) => {
                changed.is_empty() && self.matches_state(transaction, answers, &expected, *position)
            }
            _ => false,
        };
        let position = candidates.take_while(is_early).find(gives_answers);
        if let Some(position) = position {
            self.record_ttl_observations(at, position);
            return Some(position);
        }
        self.add_violation(&format!("no state from place {least} on answers so"), at);
        None
    }

    /// Returns true if these answers are those of the state, except for rows whose time to live may
    /// be over: such a row may be absent only then, whatever the log contains.
    fn matches_state(
        &self,
        transaction: &Transaction,
        answers: &[StepAnswer],
        expected: &[StepAnswer],
        position: StatePosition,
    ) -> bool {
        let steps = transaction.op.steps.iter().zip(answers.iter().zip(expected));
        answers.len() == expected.len()
            && steps.into_iter().all(|(step, (answers, expected))| {
                match (step, answers, expected) {
                    (TransactionStep::Get(key), StepAnswer::Row(None), StepAnswer::Row(row)) => {
                        self.may_have_expired(key, position, transaction.ended)
                            .unwrap_or(row.is_none())
                    }
                    _ => {
                        answers_agree(std::slice::from_ref(answers), std::slice::from_ref(expected))
                    }
                }
            })
    }
}

/// Returns true if a transaction's answers equal those of the specification.
fn answers_agree(answers: &[StepAnswer], expected: &[StepAnswer]) -> bool {
    answers == [StepAnswer::Mute]
        || answers.len() == expected.len() && answers.iter().zip(expected).all(|(a, b)| a == b)
}

/// Returns keys, each with a value that only this update wrote to it; empty if it writes none. Any
/// of several tests of an update without an answer may have succeeded, so each of them yields a
/// candidate.
fn unique_writes(transaction: &Transaction) -> Vec<(String, Vec<u8>)> {
    let written = transaction.op.steps.iter().find_map(|step| match step {
        TransactionStep::Set(key, value, _) => Some((key.clone(), value.clone())),
        _ => None,
    });
    if let Some(written) = written {
        return vec![written];
    }
    let Acknowledged(Done(answers)) = &transaction.outcome else {
        let wanted = |step: &TransactionStep| match step {
            TransactionStep::TestAndSet(key, _, wanted) => Some((key.clone(), wanted.clone())),
            _ => None,
        };
        return transaction.op.steps.iter().filter_map(wanted).collect();
    };
    let mut steps = transaction.op.steps.iter().zip(answers);
    let first = steps.find_map(|(step, answers)| match (step, answers) {
        (TransactionStep::TestAndSet(key, expected, wanted), StepAnswer::Row(old))
            if old == expected =>
        {
            Some((key.clone(), wanted.clone()))
        }
        (
            TransactionStep::Add(key, _) | TransactionStep::AddFloat(key, _),
            StepAnswer::Number(sum),
        ) => Some((key.clone(), sum.clone())),
        _ => None,
    });
    first.into_iter().collect()
}
