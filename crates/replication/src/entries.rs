//! Entries of a group, by index: the payloads in memory, and the positions of the others in the
//! log.
//!
//! Consensus knows entries by index only. Their payloads are here: accepted ones until they are
//! applied, and a while longer for lagging members; and staged ones (of a log that is being
//! adopted). Payloads that have left memory are read back from the log: `positions` notes,
//! sparsely, where they are.
//!
//! Promises: a payload under an index is the accepted one; entries that are not applied stay in
//! memory, except staged ones beyond a bound; other memory is bounded.
//! Never: reads or writes the log itself.

use super::in_flight::InFlight;
use base::{Ballot, LogIndex};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use store::{Position, RecordKind};

/// Applied entries are kept in memory up to this many bytes, for members that are a little behind.
const LANDED_BYTES_MAX: usize = 16 << 20;
/// And up to this many.
const LANDED_VALUES_MAX: usize = 4_096;
/// Staged entries are kept in memory up to this many bytes; the others are read back once adopted.
const STAGED_BYTES_MAX: usize = 64 << 20;
/// Distance of index points in the log, in bytes: at most about so much is read to find an entry.
const RUN_BYTES: u64 = 64 << 10;

/// One accepted entry; without its payload, that stands in the log only.
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
    /// The index of the first one in `kept`.
    first: LogIndex,
    kept: VecDeque<CachedEntry>,
    /// Bytes of all in `kept`.
    bytes: usize,
    /// Bytes of those that are applied.
    landed_bytes: usize,
    landed: LogIndex,
    staged: BTreeMap<LogIndex, CachedEntry>,
    staged_under: Ballot,
    staged_bytes: usize,
    /// Beginning of the log when that was looked at last.
    log_start: Position,
    /// Places of entries in the log, by runs of consecutive records.
    pub positions: LogPositions,
    /// Records of which `positions` does not know yet.
    pub(super) in_flight: InFlight,
}

impl Entries {
    /// Restores the entries of a replay: accepted entries behind `applied`, without gaps.
    pub fn restored(
        applied: LogIndex,
        tail: impl IntoIterator<Item = Bytes>,
        positions: LogPositions,
    ) -> Entries {
        let mut entries = Entries {
            first: applied.next(),
            kept: VecDeque::new(),
            bytes: 0,
            landed_bytes: 0,
            landed: applied,
            staged: BTreeMap::new(),
            staged_under: Ballot::default(),
            staged_bytes: 0,
            log_start: Position(0),
            positions,
            in_flight: InFlight::default(),
        };
        tail.into_iter().for_each(|payload| entries.keep(Some(payload), true));
        entries
    }

    /// The last accepted one.
    fn last(&self) -> LogIndex {
        LogIndex(self.first.0 + self.kept.len() as u64 - 1)
    }

    /// An entry is accepted: the next one.
    pub fn accept(&mut self, index: LogIndex, payload: Bytes, sync: bool) {
        assert_eq!(index, self.last().next(), "values are accepted in order");
        self.keep(Some(payload), sync);
    }

    fn keep(&mut self, payload: Option<Bytes>, sync: bool) {
        let kept = CachedEntry { payload, sync };
        self.bytes += kept.bytes();
        self.kept.push_back(kept);
    }

    /// Stages an entry under this ballot. Entries staged under a lower one are void.
    pub fn stage(&mut self, ballot: Ballot, index: LogIndex, payload: Bytes) {
        if ballot != self.staged_under {
            self.unstage();
            self.staged_under = ballot;
        }
        self.staged_bytes += payload.len();
        let payload = Some(payload).filter(|_| self.staged_bytes <= STAGED_BYTES_MAX);
        self.staged.insert(index, CachedEntry { payload, sync: true });
    }

    fn unstage(&mut self) {
        self.staged.clear();
        self.staged_bytes = 0;
    }

    /// Replaces everything behind `from` by the entries staged under this ballot up to `upto`.
    pub fn adopt(&mut self, ballot: Ballot, from: LogIndex, upto: LogIndex) {
        let keep = (from.0 + 1).saturating_sub(self.first.0);
        while self.kept.len() as u64 > keep {
            self.bytes -= self.kept.pop_back().map_or(0, |kept| kept.bytes());
        }
        let staged = std::mem::take(&mut self.staged);
        self.unstage();
        if from == upto {
            return;
        }
        assert_eq!(ballot, self.staged_under, "what is adopted was staged under the same ballot");
        for (index, kept) in staged.into_iter().filter(|(index, _)| *index > from) {
            if index <= upto {
                assert_eq!(index, self.last().next(), "what is adopted has no gaps");
                self.keep(kept.payload, kept.sync);
            }
        }
    }

    /// Bytes of accepted entries that are not applied.
    pub fn waiting_bytes(&self) -> usize {
        self.bytes - self.landed_bytes
    }

    /// The payload under an index, and whether it must be synced, if it is in memory.
    pub fn get(&self, index: LogIndex) -> Option<(Bytes, bool)> {
        let place = index.0.checked_sub(self.first.0)?;
        let kept = self.kept.get(usize::try_from(place).ok()?)?;
        Some((kept.payload.clone()?, kept.sync))
    }

    /// Notes that everything up to `applied` is applied. A group without other replicas (`alone`)
    /// drops the entries at once.
    pub fn land(&mut self, applied: LogIndex, alone: bool) {
        while self.landed < applied {
            self.landed = self.landed.next();
            self.landed_bytes += self.get(self.landed).map_or(0, |(payload, _)| payload.len());
        }
        let (bytes_max, values_max) =
            if alone { (0, 0) } else { (LANDED_BYTES_MAX, LANDED_VALUES_MAX as u64) };
        let written = self.positions.last;
        while self.first <= self.landed && self.first <= written {
            let landed = self.landed.0 + 1 - self.first.0;
            if self.landed_bytes <= bytes_max && landed <= values_max {
                return;
            }
            let Some(kept) = self.kept.pop_front() else { return };
            self.landed_bytes -= kept.bytes();
            self.bytes -= kept.bytes();
            self.first = self.first.next();
        }
    }

    /// A snapshot holds everything up to here.
    pub fn installed(&mut self, upto: LogIndex) {
        while self.first <= upto && !self.kept.is_empty() {
            self.bytes -= self.kept.pop_front().map_or(0, |kept| kept.bytes());
            self.first = self.first.next();
        }
        self.first = self.first.max(upto.next());
        self.landed = self.landed.max(upto);
        self.landed_bytes = 0;
        self.unstage();
        self.positions.installed(upto);
    }

    /// Beginning of the log when it was last collapsed.
    pub(super) fn log_start(&self) -> Position {
        self.log_start
    }

    /// The log lost what stands before this position; entries behind `applied` are not among it.
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

/// Places of entries in the log. It is fed with every record of the group in the order of the log,
/// live and at replay, so both find the same.
#[derive(Clone, Debug, Default)]
pub struct LogPositions {
    /// Start of each run of entries: from such an index on, entries stand in order behind the
    /// position, and the first one found there is the accepted one.
    pub(super) entries: BTreeMap<LogIndex, Position>,
    /// The last accepted entry that is written.
    pub(super) last: LogIndex,
    /// The log holds entries of the next indexes that do not count: whatever comes begins a run.
    spoiled: bool,
    staged: BTreeMap<LogIndex, Position>,
    staged_under: Ballot,
    /// A snapshot takes the place of everything up to here: what the log holds of it may never
    /// have counted, or there are entries missing.
    superseded: LogIndex,
}

impl LogPositions {
    /// A record of the group. `staged` is what its field `decided` says where it is a truncate: how
    /// many staged entries it adopts. A `Decided` with an index stands before and behind a
    /// snapshot.
    pub fn record(
        &mut self,
        kind: RecordKind,
        ballot: Ballot,
        index: LogIndex,
        staged: LogIndex,
        position: Position,
    ) {
        match kind {
            RecordKind::Accept => self.accepted(index, position),
            RecordKind::Stage => {
                self.spoiled = true;
                if ballot != self.staged_under {
                    self.staged.clear();
                    self.staged_under = ballot;
                }
                self.staged.entry(index).or_insert(position);
            }
            RecordKind::Truncate => {
                self.adopted(ballot, LogIndex(index.0.saturating_sub(staged.0)), index);
            }
            RecordKind::Decided => self.installed(index),
            _ => {}
        }
    }

    fn accepted(&mut self, index: LogIndex, position: Position) {
        let follows = index == self.last.next();
        let newest = self.entries.last_key_value();
        // What was staged may stand before what is newest here.
        let ahead = newest.and_then(|(_, at)| position.0.checked_sub(at.0));
        let near = ahead.is_some_and(|bytes| bytes < RUN_BYTES);
        self.last = index;
        if !follows || !near || std::mem::take(&mut self.spoiled) {
            self.entries.split_off(&index);
            self.entries.insert(index, position);
        }
    }

    fn adopted(&mut self, ballot: Ballot, from: LogIndex, upto: LogIndex) {
        self.entries.split_off(&from.next());
        self.spoiled |= self.last > from;
        self.last = self.last.min(from);
        if self.staged_under > ballot {
            // The copy of an older mark at the head of the log: what is staged goes on.
            self.last = upto;
            return;
        }
        let staged = std::mem::take(&mut self.staged);
        let of_this = self.staged_under == ballot;
        let adopted = staged.range(..=upto).filter(|(index, _)| of_this && **index > from);
        for (index, position) in adopted {
            if *index == from.next() {
                self.entries.insert(*index, *position);
                self.last = *index;
                self.spoiled = false;
            } else {
                self.accepted(*index, *position);
            }
        }
        self.last = upto;
    }

    fn installed(&mut self, upto: LogIndex) {
        self.superseded = self.superseded.max(upto);
        self.spoiled |= upto > self.last;
        self.last = self.last.max(upto);
    }

    /// Notes a part of the log that can't be read: no entry is searched there, or read across it.
    pub fn hole(&mut self) {
        self.entries.clear();
        self.staged.clear();
        self.spoiled = true;
    }

    /// Drops positions before `start`. A run that continues behind it now begins there, with the
    /// first entry that is not applied: the log was needed from that one on, so it was kept.
    /// Without a position the log would not be needed any longer, and be dropped with the next
    /// segment.
    pub(super) fn collapse(&mut self, start: Position, applied: LogIndex) {
        let unapplied = applied.next();
        let goes_on = unapplied <= self.last && self.place(unapplied).is_some_and(|at| at < start);
        self.entries.retain(|_, position| *position >= start);
        if goes_on {
            self.entries.insert(unapplied, start);
        }
    }

    /// The first entry that can be had from the log.
    fn first(&self) -> Option<LogIndex> {
        let first = self.entries.keys().next()?;
        Some((*first).max(self.superseded.next()))
    }

    /// Returns the position of an entry: it is the first one of its index at or behind it. `None`:
    /// the log does not have it.
    pub fn find(&self, index: LogIndex) -> Option<Position> {
        if index <= self.superseded { None } else { self.place(index) }
    }

    fn place(&self, index: LogIndex) -> Option<Position> {
        self.entries.range(..=index).next_back().map(|(_, position)| *position)
    }

    /// The last index for which the place of this one may be read on from: behind it another run
    /// begins, and what stands further on in the log may be what that replaced.
    pub fn end(&self, index: LogIndex) -> LogIndex {
        let next = self.entries.range(index.next()..).next();
        next.map_or(LogIndex(u64::MAX), |(next, _)| LogIndex(next.0 - 1))
    }

    /// Returns the position from which the log is needed after a restart: for entries that are not
    /// applied, and for staged entries. Staged entries count under one of these ballots (the
    /// promised one, and the one for which more is awaited), or under any, while an adoption is on
    /// its way to the log.
    pub fn needed(
        &self,
        applied: LogIndex,
        ballots: [Option<Ballot>; 2],
        adopts: bool,
    ) -> Option<Position> {
        let unapplied = if applied < self.last { self.place(applied.next()) } else { None };
        let counts = adopts || ballots.contains(&Some(self.staged_under));
        let staged = self.staged.values().next().copied().filter(|_| counts);
        unapplied.into_iter().chain(staged).min()
    }
}

#[cfg(test)]
mod tests;
