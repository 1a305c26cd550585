//! The state that a log makes, at every place of it, and what a transaction does on a state.
//!
//! A place is a count of effects: 0 is before the first. Readers see the places between two decided
//! values only; an update, an assertion that fails, and a read behind an update of its own pipeline
//! may have been evaluated at any.

use super::{Committed, KeyValue, StepAnswer, TransactionStep, ValueEffect};
use std::collections::BTreeMap;

/// A key, and what a transaction leaves under it.
pub type Changed = (String, KeyValue);

pub(super) type StatePosition = usize;

/// Why a transaction does nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failed;

/// A log, laid out.
#[derive(Default)]
pub(super) struct TransactionLog {
    /// All effects, each with the index and the time of its value.
    pub effects: Vec<(u64, u64, ValueEffect)>,
    /// Where each key changes.
    lines: BTreeMap<String, Vec<StatePosition>>,
    /// Where each value is written.
    written: BTreeMap<(String, Vec<u8>), Vec<StatePosition>>,
    /// Behind each decided value: its index, and what readers may see.
    boundaries: Vec<(u64, StatePosition)>,
}

impl TransactionLog {
    pub fn new(committed: &[Committed]) -> Result<TransactionLog, String> {
        let mut log = TransactionLog { boundaries: vec![(0, 0)], ..TransactionLog::default() };
        for Committed { index, time_ms, effects } in committed {
            if log.boundaries.last().is_some_and(|(last, _)| last >= index) {
                return Err(format!("index {index} of the log does not rise"));
            }
            for effect in effects {
                log.effects.push((*index, *time_ms, effect.clone()));
                let place = log.effects.len();
                log.lines.entry(effect.key.clone()).or_default().push(place);
                if let Some((value, _)) = &effect.row {
                    let name = (effect.key.clone(), value.clone());
                    log.written.entry(name).or_default().push(place);
                }
            }
            log.boundaries.push((*index, log.effects.len()));
        }
        Ok(log)
    }

    /// Where this was written under the key.
    pub fn written(&self, key: &str, value: &[u8]) -> &[StatePosition] {
        self.written.get(&(key.into(), value.to_vec())).map_or(&[], Vec::as_slice)
    }

    pub fn effect(&self, place: StatePosition) -> &(u64, u64, ValueEffect) {
        &self.effects[place - 1]
    }

    /// The places that readers may see, from this one on.
    pub fn boundaries(&self, from: StatePosition) -> impl Iterator<Item = StatePosition> + '_ {
        let at = self.boundaries.partition_point(|(_, place)| *place < from);
        self.boundaries[at..].iter().map(|(_, place)| *place)
    }

    /// The least place that readers see who have an index.
    pub fn at_index(&self, index: u64) -> StatePosition {
        let at = self.boundaries.partition_point(|(known, _)| *known <= index);
        self.boundaries[at - 1].1
    }

    /// The place of the effect that made what a key holds at a place; none: it was never touched.
    pub fn maker(&self, key: &str, place: StatePosition) -> Option<StatePosition> {
        let line = self.lines.get(key)?;
        line.partition_point(|changed| *changed <= place).checked_sub(1).map(|at| line[at])
    }

    /// What a key holds, whatever its time to live.
    pub fn value(&self, key: &str, place: StatePosition) -> KeyValue {
        let maker = self.maker(key, place)?;
        self.effect(maker).2.row.as_ref().map(|(value, _)| value.clone())
    }

    fn keys(&self, prefix: &str) -> impl Iterator<Item = &String> {
        let from = self.lines.range(prefix.to_string()..);
        from.map(|(key, _)| key).take_while(move |key| key.starts_with(prefix))
    }

    /// What a transaction is answered at a place, and what it changes.
    pub fn run(
        &self,
        steps: &[TransactionStep],
        place: StatePosition,
    ) -> Result<(Vec<StepAnswer>, Vec<Changed>), Failed> {
        let mut changed: Vec<Changed> = Vec::new();
        let mut said = Vec::with_capacity(steps.len());
        for step in steps {
            let get = |key: &str| match changed.iter().rev().find(|(other, _)| other == key) {
                Some((_, value)) => value.clone(),
                None => self.value(key, place),
            };
            let rows = |prefix: &str| {
                let fresh = changed.iter().map(|(key, _)| key);
                let mut keys: Vec<&String> =
                    self.keys(prefix).chain(fresh.filter(|key| key.starts_with(prefix))).collect();
                keys.sort();
                keys.dedup();
                let row = |key: &String| Some((key.clone(), get(key)?));
                keys.into_iter().filter_map(row).collect::<Vec<_>>()
            };
            let (answer, change) = match step {
                TransactionStep::Get(key) => (StepAnswer::Row(get(key)), None),
                TransactionStep::Range(prefix) => (StepAnswer::Rows(rows(prefix)), None),
                TransactionStep::Set(key, value, _) => {
                    (StepAnswer::Done, Some((key.clone(), Some(value.clone()))))
                }
                TransactionStep::Delete(key) => {
                    (StepAnswer::Done, get(key).map(|_| (key.clone(), None)))
                }
                TransactionStep::TestAndSet(key, expected, wanted) => {
                    let old = get(key);
                    let change = (old == *expected).then(|| (key.clone(), Some(wanted.clone())));
                    (StepAnswer::Row(old), change)
                }
                TransactionStep::Assert(key, expected) if get(key) == *expected => {
                    (StepAnswer::Done, None)
                }
                TransactionStep::AssertRange(prefix, keys) => {
                    let there: Vec<_> = rows(prefix).into_iter().map(|(key, _)| key).collect();
                    if there != *keys {
                        return Err(Failed);
                    }
                    (StepAnswer::Done, None)
                }
                TransactionStep::Assert(..) => return Err(Failed),
                TransactionStep::Add(key, delta) => {
                    let sum = number::<i64>(get(key)) + delta;
                    let sum = sum.to_string().into_bytes();
                    (StepAnswer::Number(sum.clone()), Some((key.clone(), Some(sum))))
                }
                TransactionStep::AddFloat(key, delta) => {
                    let sum = number::<f64>(get(key)) + delta;
                    let sum = sum.to_string().into_bytes();
                    (StepAnswer::Number(sum.clone()), Some((key.clone(), Some(sum))))
                }
            };
            said.push(answer);
            changed.extend(change);
        }
        Ok((said, changed))
    }
}

/// A number as its text says; absent, or no number, counts as nothing.
fn number<T: std::str::FromStr + Default>(value: KeyValue) -> T {
    let text = value.and_then(|bytes| String::from_utf8(bytes).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}
