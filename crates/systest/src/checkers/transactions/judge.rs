//! Check of a history: first assigns effects of the log to updates, then places to all other
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
        Err(why) => {
            report.violations.push(why);
            return report;
        }
    };
    let mut judge = Judge {
        history,
        makers: vec![None; log.effects.len() + 1],
        spans: vec![None; history.len()],
        within: Vec::new(),
        latest: Vec::new(),
        gone: BTreeMap::new(),
        log,
        report,
    };
    judge.claim();
    judge.strangers();
    judge.look_ahead();
    if judge.report.violations.is_empty() {
        judge.place();
        judge.lifetimes();
    }
    judge.report
}

pub(super) struct Judge<'a> {
    pub(super) history: &'a [Transaction],
    pub(super) log: TransactionLog,
    /// Transaction that made each effect, by place. `None`: none is known.
    pub(super) makers: Vec<Option<usize>>,
    /// First and last effect of each transaction that made any.
    spans: Vec<Option<(StatePosition, StatePosition)>>,
    /// True for places in the middle of a transaction, where no other can have been done.
    within: Vec<bool>,
    /// Latest beginning among the transactions that made the effects up to each place.
    latest: Vec<u64>,
    /// Observations of rows with a time to live, by the row's place: the earliest end of a read
    /// that found it gone, and the latest beginning of one that was shown it.
    pub(super) gone: BTreeMap<StatePosition, (Option<u64>, Option<u64>)>,
    pub(super) report: TransactionReport,
}

impl Judge<'_> {
    fn violated(&mut self, what: &str, at: usize) {
        self.report.violations.push(format!("{what}: {}", self.history[at]));
    }

    /// Finds the effects of each update.
    fn claim(&mut self) {
        for (at, one) in self.history.iter().enumerate() {
            let anchors = anchors(one);
            if anchors.is_empty() {
                continue;
            }
            let mut written = anchors.iter().map(|(key, value)| self.log.written(key, value));
            let places = written.find(|places| !places.is_empty());
            let places = places.unwrap_or_default().to_vec();
            match (&one.outcome, &places[..]) {
                (Acknowledged(Done(_)), []) => {
                    self.violated("acknowledged, and not in the log", at)
                }
                (Acknowledged(Done(_)) | CallOutcome::Unknown, [place]) => {
                    self.claim_at(at, *place)
                }
                (_, []) => {}
                (CallOutcome::Refused, _) => self.violated("refused, and in the log", at),
                (Acknowledged(Failed), _) => self.violated("failed, and in the log", at),
                _ => self.violated(&format!("{} times in the log", places.len()), at),
            }
        }
    }

    /// Assigns the effect at `place`, and the adjacent effects of the same update, to this update.
    fn claim_at(&mut self, at: usize, place: StatePosition) {
        let one = &self.history[at];
        let mut words = "its answers are not those of the state before it".to_string();
        for start in place.saturating_sub(one.op.steps.len())..place {
            let Ok((said, changed)) = self.log.run(&one.op.steps, start) else { continue };
            let end = start + changed.len();
            if end < place || end >= self.makers.len() || !self.stands(start, &changed) {
                continue;
            }
            match &one.outcome {
                Acknowledged(Done(told)) if !agree(told, &said) => {
                    words = format!("the state before it answers {said:?}");
                    continue;
                }
                Acknowledged(Done(_)) => self.report.updates += 1,
                _ => self.report.late += 1,
            }
            let index = self.log.effect(place).0;
            if one.op.index.is_some_and(|told| told != index) {
                self.violated(&format!("its answer names another index than its own, {index}"), at);
            }
            for place in start + 1..=end {
                if self.makers[place].replace(at).is_some() {
                    self.violated("shares an effect with another", at);
                }
            }
            self.spans[at] = Some((start + 1, end));
            return;
        }
        self.violated(&words, at);
    }

    /// Returns true if the log has these changes after a place, under one index.
    fn stands(&self, start: StatePosition, changed: &[(String, KeyValue)]) -> bool {
        let same = |(at, (key, value)): (usize, &(String, KeyValue))| {
            let (index, _, effect) = self.log.effect(start + 1 + at);
            let row = effect.row.as_ref().map(|(value, _)| value);
            let first = self.log.effect(start + 1).0;
            *index == first && effect.key == *key && row == value.as_ref()
        };
        changed.iter().enumerate().all(same)
    }

    /// Explains effects that no known update made: removals of expired rows, and additions to
    /// numbers by clients without an answer. The addition that began first gets the first effect,
    /// because it may be the earliest.
    fn strangers(&mut self) {
        let mut unknown: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
        for (at, one) in self.history.iter().enumerate() {
            if let (CallOutcome::Unknown, [step]) = (&one.outcome, &one.op.steps[..]) {
                let delta = match step {
                    TransactionStep::Add(key, delta) => (key.clone(), delta.to_string()),
                    TransactionStep::AddFloat(key, delta) => (key.clone(), delta.to_string()),
                    _ => continue,
                };
                unknown.entry(delta).or_default().push(at);
            }
        }
        for all in unknown.values_mut() {
            all.sort_by_key(|at| Reverse(self.history[*at].began));
        }
        for place in 1..self.makers.len() {
            if self.makers[place].is_some() {
                continue;
            }
            let (index, time, effect) = self.log.effect(place).clone();
            let key = &effect.key;
            let before = self.log.maker(key, place - 1).map(|place| self.log.effect(place));
            let expires = before.and_then(|(_, _, effect)| effect.row.as_ref()?.1);
            if effect.row.is_none() && expires.is_some_and(|expires| expires <= time) {
                continue;
            }
            let adder = unknown.iter_mut().find_map(|((other, _), all)| {
                let at = *all.last().filter(|_| other == key)?;
                let (_, changed) = self.log.run(&self.history[at].op.steps, place - 1).ok()?;
                let row = effect.row.as_ref().map(|(value, _)| value);
                (changed[0].1.as_ref() == row).then(|| all.pop()).flatten()
            });
            match adder {
                Some(at) => {
                    self.makers[place] = Some(at);
                    self.spans[at] = Some((place, place));
                    self.report.late += 1;
                }
                None => {
                    let words = format!("nobody asked for {effect:?}, at {index}");
                    self.report.violations.push(words);
                }
            }
        }
    }

    fn look_ahead(&mut self) {
        let mut latest = 0;
        self.latest = vec![0];
        for maker in &self.makers[1..] {
            latest = latest.max(maker.map_or(0, |at| self.history[at].began));
            self.latest.push(latest);
        }
        self.within = vec![false; self.makers.len()];
        for (first, last) in self.spans.iter().flatten() {
            self.within[*first..*last].fill(true);
        }
    }

    /// Assigns to every transaction the least place that its answer, the transactions that ended
    /// before it began, and the reads of its connection allow.
    fn place(&mut self) {
        let mut order: Vec<usize> = (0..self.history.len()).collect();
        order.sort_by_key(|at| (self.history[*at].began, self.history[*at].client, *at));
        let (mut ends, mut floor) = (BinaryHeap::new(), 0);
        let mut seen: BTreeMap<(u32, bool), StatePosition> = BTreeMap::new();
        // Time at which the last update of each connection was answered, among those processed.
        let mut updated: BTreeMap<u32, u64> = BTreeMap::new();
        for at in order {
            let one = &self.history[at];
            while let Some(Reverse((ended, place))) = ends.peek() {
                if *ended >= one.began {
                    break;
                }
                floor = floor.max(*place);
                ends.pop();
            }
            let strict = one.op.level == Level::Consistent;
            let mine = seen.get(&(one.client, strict)).copied().unwrap_or(0);
            let least = match one.op.level {
                Level::Consistent => floor.max(mine),
                Level::Dirty => mine,
                Level::AtLeast(index) => mine.max(self.log.at_index(index)),
            };
            let last = updated.entry(one.client).or_default();
            let is_behind_update = *last > one.began;
            if !one.is_read() {
                *last = one.ended.max(*last);
            }
            let Some(place) = self.placed(at, least, is_behind_update) else { continue };
            let known = one.outcome != CallOutcome::Unknown;
            if known {
                let mine = seen.entry((one.client, strict)).or_default();
                *mine = place.max(*mine);
            }
            if strict && known {
                ends.push(Reverse((one.ended, place)));
            }
        }
    }

    /// Returns the place where it was done, not before `least`. `None`: nowhere, or the place does
    /// not matter.
    ///
    /// A read of one step shows the applied state, which consists of whole values of the log. But
    /// after an update of its own connection that is not answered yet it is evaluated like an
    /// update: on that update and all that were evaluated before itself, which may be a part of a
    /// value. So is a sequence.
    fn placed(
        &mut self,
        at: usize,
        least: StatePosition,
        is_behind_update: bool,
    ) -> Option<StatePosition> {
        let one = &self.history[at];
        if let Some((first, last)) = self.spans[at] {
            if first <= least {
                let words =
                    format!("done at place {first}, what was answered before is at {least}");
                self.violated(&words, at);
            }
            return Some(last);
        }
        let is_single_read = one.is_read() && one.op.steps.len() == 1;
        // A read shows nothing later than the index of its answer. An update is in the value that
        // its index names, so it saw all values before that.
        let most = one.op.index.map_or(StatePosition::MAX, |index| self.log.at_index(index));
        let least = match one.op.index.filter(|_| !one.is_read()) {
            Some(index) => least.max(self.log.at_index(index.saturating_sub(1))),
            None => least,
        };
        let told = match &one.outcome {
            CallOutcome::Refused | CallOutcome::Unknown => return None,
            Acknowledged(Failed) => {
                self.report.failed += 1;
                None
            }
            Acknowledged(Done(told)) => {
                self.report.reads += usize::from(one.is_read());
                self.report.loose += usize::from(one.op.level != Level::Consistent);
                Some(told)
            }
        };
        let is_behind_update = is_behind_update && one.op.level == Level::Consistent;
        let every: Box<dyn Iterator<Item = StatePosition>> = match told {
            Some(_) if is_single_read && !is_behind_update => Box::new(self.log.boundaries(least)),
            _ => Box::new((least..self.makers.len()).filter(|place| !self.within[*place])),
        };
        let is_early = |place: &StatePosition| *place <= most && self.latest[*place] <= one.ended;
        let answers = |place: &StatePosition| match (self.log.run(&one.op.steps, *place), told) {
            (Err(_), None) => true,
            (Ok((said, changed)), Some(told)) => {
                changed.is_empty() && self.fits(one, told, &said, *place)
            }
            _ => false,
        };
        let found = every.take_while(is_early).find(answers);
        if let Some(place) = found {
            self.note_lifetimes(at, place);
            return Some(place);
        }
        self.violated(&format!("no state from place {least} on answers so"), at);
        None
    }

    /// Returns true if these answers are those of the state, except for rows whose time to live may
    /// be over: such a row may be gone only then, whatever the log says.
    fn fits(
        &self,
        one: &Transaction,
        told: &[StepAnswer],
        said: &[StepAnswer],
        place: StatePosition,
    ) -> bool {
        let each = one.op.steps.iter().zip(told.iter().zip(said));
        told.len() == said.len()
            && each.into_iter().all(|(step, (told, said))| match (step, told, said) {
                (TransactionStep::Get(key), StepAnswer::Row(None), StepAnswer::Row(row)) => {
                    self.may_be_over(key, place, one.ended).unwrap_or(row.is_none())
                }
                _ => agree(std::slice::from_ref(told), std::slice::from_ref(said)),
            })
    }
}

/// Returns true if a transaction got the answers that the specification gives.
fn agree(told: &[StepAnswer], said: &[StepAnswer]) -> bool {
    told == [StepAnswer::Mute]
        || told.len() == said.len() && told.iter().zip(said).all(|(a, b)| a == b)
}

/// Returns keys, each with a value that only this update wrote to it; empty if it writes none. Any
/// of several tests of an update without an answer may have succeeded, so each of them yields a
/// candidate.
fn anchors(one: &Transaction) -> Vec<(String, Vec<u8>)> {
    let written = one.op.steps.iter().find_map(|step| match step {
        TransactionStep::Set(key, value, _) => Some((key.clone(), value.clone())),
        _ => None,
    });
    if let Some(written) = written {
        return vec![written];
    }
    let Acknowledged(Done(told)) = &one.outcome else {
        let wanted = |step: &TransactionStep| match step {
            TransactionStep::TestAndSet(key, _, wanted) => Some((key.clone(), wanted.clone())),
            _ => None,
        };
        return one.op.steps.iter().filter_map(wanted).collect();
    };
    let mut each = one.op.steps.iter().zip(told);
    let first = each.find_map(|(step, told)| match (step, told) {
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
