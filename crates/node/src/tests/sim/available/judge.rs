//! Judge of a history: the set of writes, and the writes that each of them had seen.
//!
//! Every write has a value of its own, so a client's answers show which writes it has seen, and
//! therefore which ones its next write may have replaced. The dots of an acknowledged write's
//! context show which ones it did replace. Between the two are writes whose outcome is unknown.

use base::dots::DotContext;
use base::{Actor, Vtag};
use std::collections::{BTreeMap, BTreeSet};

pub(super) type Seen = DotContext<Actor>;
pub(super) type Dot = (Actor, u64);

/// Write, by its number in the order of starts.
pub(super) type Write = usize;

/// Outcome of a write.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    /// Unknown.
    Doubtful,
    /// Acknowledged: the context that covers all it has seen and itself, and its dot if known.
    Stands(Seen, Option<Dot>),
}

#[derive(Clone, Debug)]
struct WriteRecord {
    key: usize,
    /// True for a value, false for a delete.
    value: bool,
    /// Writes that it may have replaced. `None`: any.
    may: Option<BTreeSet<Write>>,
    fate: Fate,
    /// True if it asked for so many owners that a read of owners must see it. Otherwise it may
    /// still be on its way to them when it is acknowledged.
    owned: bool,
}

/// Judge of one history; see the head of this file.
#[derive(Default)]
pub(super) struct Judge {
    writes: Vec<WriteRecord>,
    dots: BTreeMap<(usize, Dot), Write>,
    /// Deletes by the vtag of their tombstones.
    deletes: BTreeMap<Vtag, Write>,
    /// True if values expire.
    pub has_ttl: bool,
}

impl Judge {
    pub(super) fn new(mortal: bool) -> Judge {
        Judge { has_ttl: mortal, ..Judge::default() }
    }

    /// Records the start of a write that may replace these. `None`: a delete that reads by itself,
    /// which may replace anything.
    pub(super) fn start_write(
        &mut self,
        key: usize,
        value: bool,
        may: Option<BTreeSet<Write>>,
    ) -> Write {
        self.writes.push(WriteRecord { key, value, may, fate: Fate::Doubtful, owned: true });
        self.writes.len() - 1
    }

    fn of(&self, key: usize) -> impl Iterator<Item = Write> {
        (0..self.writes.len()).filter(move |write| self.writes[*write].key == key)
    }

    /// Records the end of a delete that read by itself: it saw at most the writes that had started
    /// before.
    pub(super) fn ends(&mut self, write: Write) {
        let all = self.of(self.writes[write].key).filter(|it| *it != write).collect();
        self.writes[write].may = Some(all);
    }

    /// Records that a write does not ask for owners, unlike reads.
    pub(super) fn mark_unowned(&mut self, write: Write) {
        self.writes[write].owned = false;
    }

    /// Records that a write was refused and had no effect.
    pub(super) fn mark_without_effect(&mut self, write: Write) {
        self.writes[write].may = Some(BTreeSet::new());
    }

    /// Returns the writes that a write may have replaced, among those started so far.
    fn replaced_by(&self, write: Write) -> BTreeSet<Write> {
        let WriteRecord { key, may, .. } = &self.writes[write];
        may.clone().unwrap_or_else(|| self.of(*key).collect())
    }

    /// Records an acknowledged write with the context of its answer. `seen`: the context that was
    /// sent, if known. Returns the write's dot, which must be new.
    pub(super) fn stands(&mut self, write: Write, seen: Option<&Seen>, now: Seen) -> Option<Dot> {
        let key = self.writes[write].key;
        let dot = seen.and_then(|seen| {
            let fresh =
                |(id, all): &(&Actor, &base::dots::CounterSet)| !seen.contains(id, all.highest());
            let entry = now.entries().find(fresh);
            entry.map(|(id, all)| (*id, all.highest()))
        });
        if seen.is_some() {
            let dot =
                dot.unwrap_or_else(|| panic!("write {write} has a dot that was there before"));
            if let Some(other) = self.dots.insert((key, dot), write) {
                panic!("writes {other} and {write} of key {key} are one dot: {dot:?}");
            }
        }
        self.writes[write].fate = Fate::Stands(now, dot);
        dot
    }

    /// Records the delete to which a tombstone belongs.
    pub(super) fn named(&mut self, vtag: Vtag, write: Write) {
        self.deletes.insert(vtag, write);
    }

    /// Returns the acknowledged writes that owners must have.
    pub(super) fn acknowledged(&self, key: usize) -> Vec<Write> {
        let stands = |write: &Write| {
            let WriteRecord { fate, owned, .. } = &self.writes[*write];
            *owned && matches!(fate, Fate::Stands(..))
        };
        self.of(key).filter(stands).collect()
    }

    /// Asserts that a read returned every write that was acknowledged before it, except those that
    /// another write may have replaced, and no write that one of them replaced.
    pub(super) fn check_read(&self, key: usize, stood: &[Write], values: &[Write]) {
        for write in stood {
            let WriteRecord { value, fate: Fate::Stands(seen, _), .. } = &self.writes[*write]
            else {
                continue;
            };
            for shown in values {
                if let Fate::Stands(_, Some(dot)) = &self.writes[*shown].fate {
                    let covers = shown != write && seen.contains(&dot.0, dot.1);
                    assert!(!covers, "stale: {shown} of key {key}, replaced by {write}");
                }
            }
            if self.has_ttl || !value || values.contains(write) {
                continue;
            }
            let may = |other: &Write| {
                let may = &self.writes[*other].may;
                may.as_ref().is_none_or(|may| may.contains(write))
            };
            let replaced = self.of(key).any(|other| other != *write && may(&other));
            assert!(replaced, "missed: write {write} of key {key}, replaced by nothing");
        }
    }

    /// Returns the writes that a client has seen after an answer with these values and tombstones.
    pub(super) fn shown(&self, key: usize, values: &[Write], tombs: &[Vtag]) -> BTreeSet<Write> {
        let mut seen = BTreeSet::new();
        for value in values {
            assert!(self.writes.get(*value).is_some_and(|it| it.key == key), "phantom: {value}");
            seen.insert(*value);
            seen.extend(self.replaced_by(*value));
        }
        for tomb in tombs {
            match self.deletes.get(tomb) {
                Some(delete) => {
                    seen.insert(*delete);
                    seen.extend(self.replaced_by(*delete));
                }
                // A delete with unknown outcome: it may be any of these.
                None => {
                    for write in self.of(key).filter(|it| !self.writes[*it].value) {
                        seen.insert(write);
                        seen.extend(self.replaced_by(write));
                    }
                }
            }
        }
        let known: BTreeSet<_> = values.iter().copied().collect();
        for value in values {
            self.check_siblings(*value, &known);
        }
        seen
    }

    /// Asserts that a value does not stand beside one that replaced it.
    fn check_siblings(&self, value: Write, beside: &BTreeSet<Write>) {
        let Fate::Stands(_, Some(dot)) = &self.writes[value].fate else { return };
        for other in beside.iter().filter(|other| **other != value) {
            if let Fate::Stands(seen, _) = &self.writes[*other].fate {
                let covers = seen.contains(&dot.0, dot.1);
                assert!(!covers, "write {value} stands beside {other}, which replaced it");
            }
        }
    }

    /// Asserts that the values left of a key are exactly those that may and must be left.
    pub(super) fn judge(&self, key: usize, remaining: &BTreeMap<Dot, Write>) {
        let living: BTreeSet<_> = remaining.values().copied().collect();
        for (dot, write) in remaining {
            let record = self.writes.get(*write);
            let known = record.is_some_and(|record| record.key == key && record.value);
            assert!(known, "phantom: {write} at key {key}");
            for other in self.of(key).filter(|other| other != write) {
                if let Fate::Stands(seen, _) = &self.writes[other].fate {
                    let covers = seen.contains(&dot.0, dot.1);
                    assert!(!covers, "resurrected: {write} of key {key}, replaced by {other}");
                }
            }
        }
        for write in self.of(key) {
            if self.has_ttl || self.writes[write].fate == Fate::Doubtful {
                continue;
            }
            if living.contains(&write) || !self.writes[write].value {
                continue;
            }
            let may = |other: &Write| {
                let may = &self.writes[*other].may;
                may.as_ref().is_none_or(|may| may.contains(&write))
            };
            let replaced = self.of(key).any(|other| other != write && may(&other));
            assert!(replaced, "lost: write {write} of key {key}, replaced by nothing");
        }
    }
}
