//! Effects of a log on the keys of a history: the index of each effect, and each key's values with
//! the position from which it held them.

use crate::workload::KeyValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Position in the log: the number of effects before it; 0 is before the first.
pub(super) type LogPosition = usize;

/// One decided value of a log: its effects, in order, of which readers see all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Log index.
    pub index: u64,
    /// Keys, each with the value that it holds from then on.
    pub effects: Vec<(String, KeyValue)>,
}

/// Range of positions, without its end, in which a key holds one value.
pub(super) type PositionSpan = (LogPosition, LogPosition);

/// History of one key: its values with the positions from which it held them; absent at the
/// beginning.
#[derive(Clone, Debug)]
pub(super) struct KeyTimeline {
    values: Vec<(LogPosition, KeyValue)>,
    /// Ranges in which the key was absent.
    absent: Arc<[PositionSpan]>,
}

impl Default for KeyTimeline {
    fn default() -> KeyTimeline {
        KeyTimeline { values: vec![(0, None)], absent: Arc::new([(0, LogPosition::MAX)]) }
    }
}

impl KeyTimeline {
    /// Returns the value just before a position.
    pub(super) fn before(&self, position: LogPosition) -> &KeyValue {
        let at = self.values.partition_point(|(from, _)| *from < position);
        &self.values[at.max(1) - 1].1
    }

    /// Returns the ranges in which the key was absent.
    pub(super) fn absent(&self) -> Arc<[PositionSpan]> {
        self.absent.clone()
    }

    /// Returns the positions at which the key was deleted.
    pub(super) fn removals(&self) -> impl Iterator<Item = LogPosition> + '_ {
        self.values.iter().skip(1).filter(|(_, value)| value.is_none()).map(|(from, _)| *from)
    }

    /// Returns the first value after a position, with its own position. `None`: the value stays to
    /// the end.
    pub(super) fn next(&self, position: LogPosition) -> Option<&(LogPosition, KeyValue)> {
        self.values.get(self.values.partition_point(|(from, _)| *from <= position))
    }

    fn finish(&mut self) {
        let ends = self.values.iter().skip(1).map(|(from, _)| *from).chain([LogPosition::MAX]);
        let all = self.values.iter().zip(ends);
        let absent = all.filter(|((_, value), _)| value.is_none());
        self.absent = absent.map(|((from, _), end)| (*from, end)).collect();
    }
}

/// A log, indexed for the checker.
#[derive(Debug, Default)]
pub(super) struct ReplayLog {
    timelines: BTreeMap<String, KeyTimeline>,
    /// History of a key that the log does not name.
    absent_key: KeyTimeline,
    /// Positions at which each value was written.
    written: BTreeMap<(String, Vec<u8>), Vec<LogPosition>>,
    /// Positions after the last effect of each decided value: the states that readers may see.
    visible: Vec<LogPosition>,
    /// Log index of each effect.
    indexes: Vec<u64>,
}

impl ReplayLog {
    /// Indexes a log. Fails if its indexes do not rise.
    pub(super) fn new(decided: &[Decided]) -> Result<ReplayLog, String> {
        let mut log = ReplayLog { visible: vec![0], ..ReplayLog::default() };
        let mut last_index = None;
        for value in decided {
            if last_index.is_some_and(|last_index| value.index <= last_index) {
                return Err(format!("index {} of the log does not rise", value.index));
            }
            last_index = Some(value.index);
            for (key, new_value) in &value.effects {
                log.indexes.push(value.index);
                let position = log.indexes.len();
                log.timelines
                    .entry(key.clone())
                    .or_default()
                    .values
                    .push((position, new_value.clone()));
                if let Some(bytes) = new_value {
                    log.written.entry((key.clone(), bytes.clone())).or_default().push(position);
                }
            }
            log.visible.push(log.indexes.len());
        }
        log.visible.dedup();
        log.timelines.values_mut().for_each(KeyTimeline::finish);
        Ok(log)
    }

    pub(super) fn effects(&self) -> usize {
        self.indexes.len()
    }

    /// Returns the log index of an effect.
    pub(super) fn index(&self, position: LogPosition) -> u64 {
        position.checked_sub(1).map_or(0, |at| self.indexes[at])
    }

    pub(super) fn timeline(&self, key: &str) -> &KeyTimeline {
        self.timelines.get(key).unwrap_or(&self.absent_key)
    }

    /// Returns the ranges in which a key held this value.
    pub(super) fn spans(&self, key: &str, value: &KeyValue) -> Arc<[PositionSpan]> {
        let timeline = self.timeline(key);
        let Some(bytes) = value else { return timeline.absent() };
        let end_of = |from| timeline.next(from).map_or(LogPosition::MAX, |(next, _)| *next);
        self.positions(key, bytes).iter().map(|from| (*from, end_of(*from))).collect()
    }

    pub(super) fn timelines(&self) -> impl Iterator<Item = (&String, &KeyTimeline)> {
        self.timelines.iter()
    }

    /// Returns the positions at which this value was written to the key.
    pub(super) fn positions(&self, key: &str, value: &[u8]) -> &[LogPosition] {
        self.written.get(&(key.into(), value.to_vec())).map_or(&[], Vec::as_slice)
    }

    /// Returns all written values with their keys and positions.
    pub(super) fn written(&self) -> impl Iterator<Item = (&(String, Vec<u8>), &Vec<LogPosition>)> {
        self.written.iter()
    }

    /// Returns the first position at or after this one that readers may see.
    pub(super) fn first_visible(&self, position: LogPosition) -> Option<LogPosition> {
        self.visible.get(self.visible.partition_point(|end| *end < position)).copied()
    }

    /// Returns the last position at or before this one that readers may see.
    pub(super) fn last_visible(&self, position: LogPosition) -> LogPosition {
        self.visible[self.visible.partition_point(|end| *end <= position) - 1]
    }
}
