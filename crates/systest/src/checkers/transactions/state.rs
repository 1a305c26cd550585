//! State at every place of a log, and the evaluation of a transaction on it.
//!
//! A place is a number of effects: 0 is before the first. Readers see only the places between two
//! decided values. An update, an assertion that fails, and a read after an update of its own
//! pipeline may have been evaluated at any place.

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
    /// Places at which each key changes.
    lines: BTreeMap<String, Vec<StatePosition>>,
    /// Places at which each value is written.
    written: BTreeMap<(String, Vec<u8>), Vec<StatePosition>>,
    /// Index of each decided value, with the place after its last effect.
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

    /// Returns the places at which this value was written to the key.
    pub fn written(&self, key: &str, value: &[u8]) -> &[StatePosition] {
        self.written.get(&(key.into(), value.to_vec())).map_or(&[], Vec::as_slice)
    }

    pub fn effect(&self, place: StatePosition) -> &(u64, u64, ValueEffect) {
        &self.effects[place - 1]
    }

    /// Returns the places that readers may see, from this one on.
    pub fn boundaries(&self, from: StatePosition) -> impl Iterator<Item = StatePosition> + '_ {
        let at = self.boundaries.partition_point(|(_, place)| *place < from);
        self.boundaries[at..].iter().map(|(_, place)| *place)
    }

    /// Returns the least place of a reader that has seen this index.
    pub fn at_index(&self, index: u64) -> StatePosition {
        let at = self.boundaries.partition_point(|(known, _)| *known <= index);
        self.boundaries[at - 1].1
    }

    /// Returns the place of the effect that made a key's value at a place. `None`: the key was
    /// never written.
    pub fn maker(&self, key: &str, place: StatePosition) -> Option<StatePosition> {
        let line = self.lines.get(key)?;
        line.partition_point(|changed| *changed <= place).checked_sub(1).map(|at| line[at])
    }

    /// Returns the key's value at a place, without regard to its time to live.
    pub fn value(&self, key: &str, place: StatePosition) -> KeyValue {
        let maker = self.maker(key, place)?;
        self.effect(maker).2.row.as_ref().map(|(value, _)| value.clone())
    }

    fn keys(&self, prefix: &str) -> impl Iterator<Item = &String> {
        let from = self.lines.range(prefix.to_string()..);
        from.map(|(key, _)| key).take_while(move |key| key.starts_with(prefix))
    }

    /// Evaluates a transaction at a place; returns its answers and its changes. Fails if an
    /// assertion does.
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

/// Parses a number; an absent value or one that is not a number counts as 0.
fn number<T: std::str::FromStr + Default>(value: KeyValue) -> T {
    let text = value.and_then(|bytes| String::from_utf8(bytes).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}
