//! Effects of a log on the keys of a history: the index of each effect, and each key's values with
//! the place from which it held them.

use crate::workload::KeyValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Place in the log: the number of effects before it; 0 is before the first.
pub(super) type LogPosition = usize;

/// One decided value of a log: its effects, in order, of which readers see all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Log index.
    pub index: u64,
    /// Keys, each with the value that it holds from then on.
    pub effects: Vec<(String, KeyValue)>,
}

/// Range of places, without its end, in which a key holds one value.
pub(super) type PlaceSpan = (LogPosition, LogPosition);

/// History of one key: its values with the places from which it held them; absent at the beginning.
#[derive(Clone, Debug)]
pub(super) struct KeyLine {
    held: Vec<(LogPosition, KeyValue)>,
    /// Ranges in which the key was absent.
    absent: Arc<[PlaceSpan]>,
}

impl Default for KeyLine {
    fn default() -> KeyLine {
        KeyLine { held: vec![(0, None)], absent: Arc::new([(0, LogPosition::MAX)]) }
    }
}

impl KeyLine {
    /// Returns the value just before a place.
    pub(super) fn before(&self, place: LogPosition) -> &KeyValue {
        let at = self.held.partition_point(|(from, _)| *from < place);
        &self.held[at.max(1) - 1].1
    }

    /// Returns the ranges in which the key was absent.
    pub(super) fn absent(&self) -> Arc<[PlaceSpan]> {
        self.absent.clone()
    }

    /// Returns the places at which the key was deleted.
    pub(super) fn removals(&self) -> impl Iterator<Item = LogPosition> + '_ {
        self.held.iter().skip(1).filter(|(_, value)| value.is_none()).map(|(from, _)| *from)
    }

    /// Returns the first value after a place, with its own place. `None`: the value stays to the
    /// end.
    pub(super) fn next(&self, place: LogPosition) -> Option<&(LogPosition, KeyValue)> {
        self.held.get(self.held.partition_point(|(from, _)| *from <= place))
    }

    fn end(&mut self) {
        let ends = self.held.iter().skip(1).map(|(from, _)| *from).chain([LogPosition::MAX]);
        let all = self.held.iter().zip(ends);
        let absent = all.filter(|((_, held), _)| held.is_none());
        self.absent = absent.map(|((from, _), end)| (*from, end)).collect();
    }
}

/// A log, indexed for the checker.
#[derive(Debug, Default)]
pub(super) struct ReplayLog {
    lines: BTreeMap<String, KeyLine>,
    /// History of a key that the log does not name.
    never: KeyLine,
    /// Places at which each value was written.
    written: BTreeMap<(String, Vec<u8>), Vec<LogPosition>>,
    /// Places after the last effect of each decided value: the states that readers may see.
    seen: Vec<LogPosition>,
    /// Log index of each effect.
    indexes: Vec<u64>,
}

impl ReplayLog {
    /// Indexes a log. Fails if its indexes do not rise.
    pub(super) fn new(decided: &[Decided]) -> Result<ReplayLog, String> {
        let mut log = ReplayLog { seen: vec![0], ..ReplayLog::default() };
        let mut last = None;
        for value in decided {
            if last.is_some_and(|last| value.index <= last) {
                return Err(format!("index {} of the log does not rise", value.index));
            }
            last = Some(value.index);
            for (key, held) in &value.effects {
                log.indexes.push(value.index);
                let place = log.indexes.len();
                log.lines.entry(key.clone()).or_default().held.push((place, held.clone()));
                if let Some(bytes) = held {
                    log.written.entry((key.clone(), bytes.clone())).or_default().push(place);
                }
            }
            log.seen.push(log.indexes.len());
        }
        log.seen.dedup();
        log.lines.values_mut().for_each(KeyLine::end);
        Ok(log)
    }

    pub(super) fn effects(&self) -> usize {
        self.indexes.len()
    }

    /// Returns the log index of an effect.
    pub(super) fn index(&self, place: LogPosition) -> u64 {
        place.checked_sub(1).map_or(0, |at| self.indexes[at])
    }

    pub(super) fn line(&self, key: &str) -> &KeyLine {
        self.lines.get(key).unwrap_or(&self.never)
    }

    /// Returns the ranges in which a key held this value.
    pub(super) fn spans(&self, key: &str, value: &KeyValue) -> Arc<[PlaceSpan]> {
        let line = self.line(key);
        let Some(bytes) = value else { return line.absent() };
        let until = |from| line.next(from).map_or(LogPosition::MAX, |(next, _)| *next);
        self.places(key, bytes).iter().map(|from| (*from, until(*from))).collect()
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = (&String, &KeyLine)> {
        self.lines.iter()
    }

    /// Returns the places at which this value was written to the key.
    pub(super) fn places(&self, key: &str, value: &[u8]) -> &[LogPosition] {
        self.written.get(&(key.into(), value.to_vec())).map_or(&[], Vec::as_slice)
    }

    /// Returns all written values with their keys and places.
    pub(super) fn written(&self) -> impl Iterator<Item = (&(String, Vec<u8>), &Vec<LogPosition>)> {
        self.written.iter()
    }

    /// Returns the first place at or after this one that readers may see.
    pub(super) fn seen_from(&self, place: LogPosition) -> Option<LogPosition> {
        self.seen.get(self.seen.partition_point(|end| *end < place)).copied()
    }

    /// Returns the last place at or before this one that readers may see.
    pub(super) fn seen_upto(&self, place: LogPosition) -> LogPosition {
        self.seen[self.seen.partition_point(|end| *end <= place) - 1]
    }
}
