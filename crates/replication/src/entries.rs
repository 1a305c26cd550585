//! Entries of a group, by index: the payloads in memory, and the positions of the others in the
//! log.
//!
//! Consensus names entries by index only. Their payloads are here: accepted ones until they are
//! applied, and a while longer for lagging members; and staged ones (of a log that is being
//! adopted). Payloads that have left memory are read back from the log: `positions` holds sparse
//! log positions of them.
//!
//! Promises: a payload under an index is the accepted one; entries that are not applied stay in
//! memory, except staged ones beyond a bound; other memory is bounded.
//! Never: reads or writes the log itself.

use super::in_flight::InFlight;
use base::{Ballot, LogIndex};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use store::{Position, RecordKind};

/// Maximum bytes of applied entries in memory, for members that are a little behind.
const APPLIED_BYTES_MAX: usize = 16 << 20;
/// Maximum number of applied entries in memory.
const APPLIED_ENTRIES_MAX: usize = 4_096;
/// Maximum bytes of staged entries in memory; further ones are read back once adopted.
const STAGED_BYTES_MAX: usize = 64 << 20;
/// Distance between indexed positions in the log: about as many bytes at most are read to find an
/// entry.
const RUN_BYTES: u64 = 64 << 10;

/// One accepted or staged entry. `payload` is `None`: only the log has it.
struct CachedEntry {
    payload: Option<Bytes>,
    sync: bool,
}

impl CachedEntry {
    fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, Bytes::len)
    }
}

/// See the head of this file.
pub struct Entries {
    /// Index of the first entry in `cached`.
    first: LogIndex,
    cached: VecDeque<CachedEntry>,
    /// Payload bytes of all entries in `cached`.
    bytes: usize,
    /// Payload bytes of the applied entries in `cached`.
    applied_bytes: usize,
    applied: LogIndex,
    staged: BTreeMap<LogIndex, CachedEntry>,
    staged_ballot: Ballot,
    staged_bytes: usize,
    /// Start of the log at its last collapse.
    log_start: Position,
    /// Positions of entries in the log, by runs of consecutive records.
    pub positions: LogPositions,
    /// Records that are not in `positions` yet.
    pub(super) in_flight: InFlight,
}

impl Entries {
    /// Restores the entries of a replay: accepted entries behind `applied`, without gaps.
    pub fn restore(
        applied: LogIndex,
        tail: impl IntoIterator<Item = Bytes>,
        positions: LogPositions,
    ) -> Entries {
        let mut entries = Entries {
            first: applied.next(),
            cached: VecDeque::new(),
            bytes: 0,
            applied_bytes: 0,
            applied,
            staged: BTreeMap::new(),
            staged_ballot: Ballot::default(),
            staged_bytes: 0,
            log_start: Position(0),
            positions,
            in_flight: InFlight::default(),
        };
        tail.into_iter().for_each(|payload| entries.push(Some(payload), true));
        entries
    }

    /// Returns the index of the last accepted entry.
    fn last(&self) -> LogIndex {
        LogIndex(self.first.0 + self.cached.len() as u64 - 1)
    }

    /// Adds the next accepted entry.
    pub fn accept(&mut self, index: LogIndex, payload: Bytes, sync: bool) {
        assert_eq!(index, self.last().next(), "values are accepted in order");
        self.push(Some(payload), sync);
    }

    fn push(&mut self, payload: Option<Bytes>, sync: bool) {
        let entry = CachedEntry { payload, sync };
        self.bytes += entry.bytes();
        self.cached.push_back(entry);
    }

    /// Stages an entry under this ballot. Entries staged under a lower one are void.
    pub fn stage(&mut self, ballot: Ballot, index: LogIndex, payload: Bytes) {
        if ballot != self.staged_ballot {
            self.unstage();
            self.staged_ballot = ballot;
        }
        self.staged_bytes += payload.len();
        let payload = Some(payload).filter(|_| self.staged_bytes <= STAGED_BYTES_MAX);
        self.staged.insert(index, CachedEntry { payload, sync: true });
    }

    fn unstage(&mut self) {
        self.staged.clear();
        self.staged_bytes = 0;
    }

    /// Replaces all entries behind `from` by the entries staged under this ballot, up to `last`.
    pub fn adopt(&mut self, ballot: Ballot, from: LogIndex, last: LogIndex) {
        let retained = (from.0 + 1).saturating_sub(self.first.0);
        while self.cached.len() as u64 > retained {
            self.bytes -= self.cached.pop_back().map_or(0, |entry| entry.bytes());
        }
        let staged = std::mem::take(&mut self.staged);
        self.unstage();
        if from == last {
            return;
        }
        assert_eq!(ballot, self.staged_ballot, "what is adopted was staged under the same ballot");
        for (index, entry) in staged.into_iter().filter(|(index, _)| *index > from) {
            if index <= last {
                assert_eq!(index, self.last().next(), "what is adopted has no gaps");
                self.push(entry.payload, entry.sync);
            }
        }
    }

    /// Returns the payload bytes of accepted entries that are not applied.
    pub fn unapplied_bytes(&self) -> usize {
        self.bytes - self.applied_bytes
    }

    /// Returns the payload at an index, and true if it must be synced. `None`: it is not in memory.
    pub fn get(&self, index: LogIndex) -> Option<(Bytes, bool)> {
        let offset = index.0.checked_sub(self.first.0)?;
        let entry = self.cached.get(usize::try_from(offset).ok()?)?;
        Some((entry.payload.clone()?, entry.sync))
    }

    /// Notes that all entries up to `applied` are applied, and drops those beyond the bounds of
    /// memory: a sole replica drops all of them.
    pub fn release_applied(&mut self, applied: LogIndex, is_sole_replica: bool) {
        while self.applied < applied {
            self.applied = self.applied.next();
            self.applied_bytes += self.get(self.applied).map_or(0, |(payload, _)| payload.len());
        }
        let (bytes_max, entries_max) =
            if is_sole_replica { (0, 0) } else { (APPLIED_BYTES_MAX, APPLIED_ENTRIES_MAX as u64) };
        let written = self.positions.last;
        while self.first <= self.applied && self.first <= written {
            let applied_count = self.applied.0 + 1 - self.first.0;
            if self.applied_bytes <= bytes_max && applied_count <= entries_max {
                return;
            }
            let Some(entry) = self.cached.pop_front() else { return };
            self.applied_bytes -= entry.bytes();
            self.bytes -= entry.bytes();
            self.first = self.first.next();
        }
    }

    /// Drops the entries up to `index`: an installed snapshot covers them. `is_ahead`: the snapshot
    /// holds more than was known to be decided, so a log that is being adopted is void.
    pub fn install_snapshot(&mut self, index: LogIndex, is_ahead: bool) {
        while self.first <= index && !self.cached.is_empty() {
            self.bytes -= self.cached.pop_front().map_or(0, |entry| entry.bytes());
            self.first = self.first.next();
        }
        self.first = self.first.max(index.next());
        self.applied = self.applied.max(index);
        self.applied_bytes = 0;
        // Otherwise the adoption began behind what was decided by then, and goes on.
        if is_ahead {
            self.unstage();
        }
        self.positions.on_snapshot(index);
    }

    /// Returns the position from which an entry can be read back, and the last index that can be
    /// read on from there. `None`: the log does not hold it, or not yet as it was accepted.
    pub(super) fn log_range(&self, index: LogIndex) -> Option<(Position, LogIndex)> {
        // Until an adoption is written, the positions are those of the log that it replaces: the
        // first record of an index may be an entry that was void before.
        let kept = self.in_flight.kept_by_adoptions().unwrap_or(self.positions.last);
        let last = kept.min(self.positions.last);
        let position = self.positions.find(index).filter(|_| index <= last)?;
        Some((position, self.positions.end(index).min(last)))
    }

    /// Returns the start of the log at its last collapse.
    pub(super) fn log_start(&self) -> Position {
        self.log_start
    }

    /// Notes that the log was collapsed up to this position. It still holds the entries behind
    /// `applied`.
    pub(super) fn collapse(&mut self, start: Position, applied: LogIndex) {
        self.log_start = start;
        self.positions.collapse(start, applied);
    }

    /// Last index whose entry is neither in the log nor in memory. It rises when the log is
    /// collapsed, and when memory drops entries that the log does not have any more.
    pub fn floor(&self) -> LogIndex {
        let logged = self.positions.first();
        let floor = logged.map_or(self.first, |logged| logged.min(self.first));
        LogIndex(floor.0 - 1)
    }
}

/// Positions of entries in the log. It is fed with every record of the group in the order of the
/// log, live and at replay, so both build the same index.
#[derive(Clone, Debug, Default)]
pub struct LogPositions {
    /// Start of each run of entries: from such an index on, entries stand in order behind the
    /// position, and the first one found there is the accepted one.
    pub(super) entries: BTreeMap<LogIndex, Position>,
    /// The last accepted entry that is written.
    pub(super) last: LogIndex,
    /// True if the log holds superseded entries of the next indexes: the next entry begins a run.
    run_broken: bool,
    staged: BTreeMap<LogIndex, Position>,
    staged_ballot: Ballot,
    /// Index of the last snapshot, installed or announced. Entries up to it are not read from the
    /// log: they may have been superseded, or be incomplete there.
    snapshot_index: LogIndex,
}

impl LogPositions {
    /// Adds a record of the group. `staged`: the field `decided` of a truncate, which is the number
    /// of staged entries that it adopts. A `Decided` record with an index stands before and behind
    /// a snapshot.
    pub fn record(
        &mut self,
        kind: RecordKind,
        ballot: Ballot,
        index: LogIndex,
        staged: LogIndex,
        position: Position,
    ) {
        match kind {
            RecordKind::Accept => self.on_accept(index, position),
            RecordKind::Stage => {
                self.run_broken = true;
                if ballot != self.staged_ballot {
                    self.staged.clear();
                    self.staged_ballot = ballot;
                }
                self.staged.entry(index).or_insert(position);
            }
            RecordKind::Truncate => {
                self.on_adopt(ballot, LogIndex(index.0.saturating_sub(staged.0)), index);
            }
            RecordKind::Decided => self.on_snapshot(index),
            _ => {}
        }
    }

    fn on_accept(&mut self, index: LogIndex, position: Position) {
        let is_next = index == self.last.next();
        let newest = self.entries.last_key_value();
        // Adopted entries may stand before the newest run.
        let distance = newest.and_then(|(_, at)| position.0.checked_sub(at.0));
        let is_near = distance.is_some_and(|bytes| bytes < RUN_BYTES);
        self.last = index;
        if !is_next || !is_near || std::mem::take(&mut self.run_broken) {
            self.entries.split_off(&index);
            self.entries.insert(index, position);
        }
    }

    fn on_adopt(&mut self, ballot: Ballot, from: LogIndex, last: LogIndex) {
        self.entries.split_off(&from.next());
        self.run_broken |= self.last > from;
        self.last = self.last.min(from);
        if self.staged_ballot > ballot {
            // The copy of an older truncate at the log's head: the staging continues.
            self.last = last;
            return;
        }
        let staged = std::mem::take(&mut self.staged);
        let is_current = self.staged_ballot == ballot;
        let adopted = staged.range(..=last).filter(|(index, _)| is_current && **index > from);
        for (index, position) in adopted {
            if *index == from.next() {
                self.entries.insert(*index, *position);
                self.last = *index;
                self.run_broken = false;
            } else {
                self.on_accept(*index, *position);
            }
        }
        self.last = last;
    }

    fn on_snapshot(&mut self, index: LogIndex) {
        self.snapshot_index = self.snapshot_index.max(index);
        self.run_broken |= index > self.last;
        self.last = self.last.max(index);
    }

    /// Notes a part of the log that can't be read: no entry is searched there, or read across it.
    pub fn record_hole(&mut self) {
        self.entries.clear();
        self.staged.clear();
        self.run_broken = true;
    }

    /// Drops positions before `start`. A run that continues behind `start` now begins there, with
    /// the first entry that is not applied: the log was needed from that entry on, so it is
    /// retained. Without a position the log would not count as needed, and the next collapse would
    /// drop it.
    pub(super) fn collapse(&mut self, start: Position, applied: LogIndex) {
        let unapplied = applied.next();
        let run_continues =
            unapplied <= self.last && self.run_position(unapplied).is_some_and(|at| at < start);
        self.entries.retain(|_, position| *position >= start);
        if run_continues {
            self.entries.insert(unapplied, start);
        }
    }

    /// Returns the index of the first entry that can be read from the log.
    fn first(&self) -> Option<LogIndex> {
        let first = self.entries.keys().next()?;
        Some((*first).max(self.snapshot_index.next()))
    }

    /// Returns the position of an entry: the entry is the first of its index at or behind it.
    /// `None`: the log does not hold it.
    pub fn find(&self, index: LogIndex) -> Option<Position> {
        if index <= self.snapshot_index { None } else { self.run_position(index) }
    }

    fn run_position(&self, index: LogIndex) -> Option<Position> {
        self.entries.range(..=index).next_back().map(|(_, position)| *position)
    }

    /// Returns the last index of the run: entries up to it may be read onward from the position of
    /// this one. Further on in the log may stand entries that the next run replaced.
    pub fn end(&self, index: LogIndex) -> LogIndex {
        let next = self.entries.range(index.next()..).next();
        next.map_or(LogIndex(u64::MAX), |(next, _)| LogIndex(next.0 - 1))
    }

    /// Returns the position from which the log is needed after a restart: for entries that are not
    /// applied, and for staged entries. Staged entries count under one of these ballots (the
    /// promised one, and the one of a staging that is incomplete), or under any while an adoption
    /// is in flight to the log.
    pub fn needed(
        &self,
        applied: LogIndex,
        ballots: [Option<Ballot>; 2],
        has_adoption: bool,
    ) -> Option<Position> {
        let unapplied = if applied < self.last { self.run_position(applied.next()) } else { None };
        let is_valid = has_adoption || ballots.contains(&Some(self.staged_ballot));
        let staged = self.staged.values().next().copied().filter(|_| is_valid);
        unapplied.into_iter().chain(staged).min()
    }
}

#[cfg(test)]
mod tests;
