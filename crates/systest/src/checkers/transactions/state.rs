//! State at every position of a log, and the evaluation of a transaction on it.
//!
//! A position is a number of effects: 0 is before the first. Readers see only the positions between
//! two decided values. An update, an assertion that fails, and a read after an update of its own
//! pipeline may have been evaluated at any position.

use super::{Committed, ValueEffect};
use crate::workload::KeyValue;
use crate::workload::transactions::{StepAnswer, TransactionStep};
use std::collections::BTreeMap;

/// A key with its value after a transaction.
pub type Changed = (String, KeyValue);

pub(super) type StatePosition = usize;

/// Failure of an assertion: the transaction has no effect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failed;

/// A log, laid out.
#[derive(Default)]
pub(super) struct TransactionLog {
    /// All effects, each with the index and the group time of its value.
    pub effects: Vec<(u64, u64, ValueEffect)>,
    /// Positions at which each key changes.
    timelines: BTreeMap<String, Vec<StatePosition>>,
    /// Positions at which each value is written.
    written: BTreeMap<(String, Vec<u8>), Vec<StatePosition>>,
    /// Index of each decided value, with the position after its last effect.
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
                let position = log.effects.len();
                log.timelines.entry(effect.key.clone()).or_default().push(position);
                if let Some((value, _)) = &effect.row {
                    let key_and_value = (effect.key.clone(), value.clone());
                    log.written.entry(key_and_value).or_default().push(position);
                }
            }
            log.boundaries.push((*index, log.effects.len()));
        }
        Ok(log)
    }

    /// Returns the positions at which this value was written to the key.
    pub fn written(&self, key: &str, value: &[u8]) -> &[StatePosition] {
        self.written.get(&(key.into(), value.to_vec())).map_or(&[], Vec::as_slice)
    }

    pub fn effect(&self, position: StatePosition) -> &(u64, u64, ValueEffect) {
        &self.effects[position - 1]
    }

    /// Returns the positions that readers may see, from this one on.
    pub fn boundaries(&self, from: StatePosition) -> impl Iterator<Item = StatePosition> + '_ {
        let at = self.boundaries.partition_point(|(_, position)| *position < from);
        self.boundaries[at..].iter().map(|(_, position)| *position)
    }

    /// Returns the least position of a reader that has seen this index.
    pub fn at_index(&self, index: u64) -> StatePosition {
        let at = self.boundaries.partition_point(|(boundary, _)| *boundary <= index);
        self.boundaries[at - 1].1
    }

    /// Returns the position of the effect that made a key's value at a position. `None`: the key
    /// was never written.
    pub fn maker(&self, key: &str, position: StatePosition) -> Option<StatePosition> {
        let timeline = self.timelines.get(key)?;
        timeline
            .partition_point(|changed| *changed <= position)
            .checked_sub(1)
            .map(|at| timeline[at])
    }

    /// Returns the key's value at a position, without regard to its time to live.
    pub fn value(&self, key: &str, position: StatePosition) -> KeyValue {
        let maker = self.maker(key, position)?;
        self.effect(maker).2.row.as_ref().map(|(value, _)| value.clone())
    }

    fn keys(&self, prefix: &str) -> impl Iterator<Item = &String> {
        let from = self.timelines.range(prefix.to_string()..);
        from.map(|(key, _)| key).take_while(move |key| key.starts_with(prefix))
    }

    /// Evaluates a transaction at a position; returns its answers and its changes. Fails if an
    /// assertion does.
    pub fn evaluate(
        &self,
        steps: &[TransactionStep],
        position: StatePosition,
    ) -> Result<(Vec<StepAnswer>, Vec<Changed>), Failed> {
        let mut changed: Vec<Changed> = Vec::new();
        let mut answers = Vec::with_capacity(steps.len());
        for step in steps {
            let get = |key: &str| match changed.iter().rev().find(|(other, _)| other == key) {
                Some((_, value)) => value.clone(),
                None => self.value(key, position),
            };
            let rows = |prefix: &str| {
                let changed_keys = changed.iter().map(|(key, _)| key);
                let mut keys: Vec<&String> = self
                    .keys(prefix)
                    .chain(changed_keys.filter(|key| key.starts_with(prefix)))
                    .collect();
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
                    let found_keys: Vec<_> = rows(prefix).into_iter().map(|(key, _)| key).collect();
                    if found_keys != *keys {
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
            answers.push(answer);
            changed.extend(change);
        }
        Ok((answers, changed))
    }
}

/// Parses a number; an absent value or one that is not a number counts as 0.
fn number<T: std::str::FromStr + Default>(value: KeyValue) -> T {
    let text = value.and_then(|bytes| String::from_utf8(bytes).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}
