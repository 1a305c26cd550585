//! Whether a history was right: a set of writes, what each of them had seen, and nothing else.
//!
//! Every write has a value of its own. What a client was shown is known value by value; what a
//! write may have replaced follows from it. What a write that was acknowledged did replace is told
//! by the dots of its context. Between the two lies what nobody can know: writes in doubt.

use base::dots::DotContext;
use base::{Actor, Vtag};
use std::collections::{BTreeMap, BTreeSet};

pub(super) type Seen = DotContext<Actor>;
pub(super) type Dot = (Actor, u64);

/// A write, by the order in which they were begun.
pub(super) type Write = usize;

/// What came of a write.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    /// Nobody knows.
    Doubtful,
    /// It was acknowledged: all it has seen and itself; and which dot it is.
    Stands(Seen, Option<Dot>),
}

#[derive(Clone, Debug)]
struct WriteRecord {
    key: usize,
    /// None: a delete.
    value: bool,
    /// What it may have replaced; none: anything.
    may: Option<BTreeSet<Write>>,
    fate: Fate,
    /// It asked for so many owners that a read of owners must meet it; else it may be on its way
    /// there when it is acknowledged.
    owned: bool,
}

/// See the head of this file.
#[derive(Default)]
pub(super) struct Judge {
    writes: Vec<WriteRecord>,
    dots: BTreeMap<(usize, Dot), Write>,
    /// Which delete a tombstone is.
    deletes: BTreeMap<Vtag, Write>,
    /// Values go by themselves, in time.
    pub mortal: bool,
}

impl Judge {
    pub(super) fn new(mortal: bool) -> Judge {
        Judge { mortal, ..Judge::default() }
    }

    /// A write begins that may replace these; a delete that read by itself: whatever there is.
    pub(super) fn begins(
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

    /// A delete that read by itself has ended: it saw at most what was begun before.
    pub(super) fn ends(&mut self, write: Write) {
        let all = self.of(self.writes[write].key).filter(|it| *it != write).collect();
        self.writes[write].may = Some(all);
    }

    /// A write does not ask for owners where reads do.
    pub(super) fn goes_anywhere(&mut self, write: Write) {
        self.writes[write].owned = false;
    }

    /// A write was refused, and nothing was done.
    pub(super) fn does_nothing(&mut self, write: Write) {
        self.writes[write].may = Some(BTreeSet::new());
    }

    /// All that a write may have replaced, of what was begun so far.
    fn replaced_by(&self, write: Write) -> BTreeSet<Write> {
        let WriteRecord { key, may, .. } = &self.writes[write];
        may.clone().unwrap_or_else(|| self.of(*key).collect())
    }

    /// A write was acknowledged, with this context; `seen`: what it was sent with, if it is known.
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

    /// A tombstone of this name is that delete.
    pub(super) fn named(&mut self, vtag: Vtag, write: Write) {
        self.deletes.insert(vtag, write);
    }

    /// What was acknowledged so far and is with owners.
    pub(super) fn stands_now(&self, key: usize) -> Vec<Write> {
        let stands = |write: &Write| {
            let WriteRecord { fate, owned, .. } = &self.writes[*write];
            *owned && matches!(fate, Fate::Stands(..))
        };
        self.of(key).filter(stands).collect()
    }

    /// Who is shown these values meets what was acknowledged before, but for what something may
    /// have replaced, and nothing that was replaced by it.
    pub(super) fn meets(&self, key: usize, stood: &[Write], values: &[Write]) {
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
            if self.mortal || !value || values.contains(write) {
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

    /// What a client has seen who was shown these values and tombstones.
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
                // A delete in doubt: one of these.
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
            self.no_false_sibling(*value, &known);
        }
        seen
    }

    /// No value stands beside one that replaced it.
    fn no_false_sibling(&self, value: Write, beside: &BTreeSet<Write>) {
        let Fate::Stands(_, Some(dot)) = &self.writes[value].fate else { return };
        for other in beside.iter().filter(|other| **other != value) {
            if let Fate::Stands(seen, _) = &self.writes[*other].fate {
                let covers = seen.contains(&dot.0, dot.1);
                assert!(!covers, "write {value} stands beside {other}, which replaced it");
            }
        }
    }

    /// Whether what is left of a key is what must be left.
    pub(super) fn judge(&self, key: usize, left: &BTreeMap<Dot, Write>) {
        let living: BTreeSet<_> = left.values().copied().collect();
        for (dot, write) in left {
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
            if self.mortal || self.writes[write].fate == Fate::Doubtful {
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
