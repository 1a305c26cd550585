//! Estimate of an update's cost, from the update alone.

use crate::budget::{KEYS_AT_ONCE, ROWS_AT_ONCE};
use base::request::Expiry;
use base::{Read, Update};

/// Updates that look up more keys than this are evaluated on a thread that may wait.
const LOOKS_AT_ONCE: usize = KEYS_AT_ONCE / 4;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// True if it is a sequence that changes nothing, whatever it finds.
    pub only_reads: bool,
    /// True if its answer may hold values.
    pub brings_values: bool,
    /// Keys that are looked up, and rows of short ranges.
    looks: usize,
    /// True if it walks over rows whose number is unknown.
    walks: bool,
}

impl Weight {
    /// Weighs an update and all its steps.
    #[inline]
    pub fn of(update: &Update) -> Weight {
        let mut weight = Weight { only_reads: true, brings_values: false, looks: 0, walks: false };
        weight.add(update);
        // A lone step is submitted to see undecided updates, or to go through the log.
        weight.only_reads &= matches!(update, Update::Sequence { .. });
        weight
    }

    /// Returns true if it may take long enough to be evaluated away from the threads that answer,
    /// and to yield to other updates afterwards.
    pub fn is_heavy(&self) -> bool {
        self.walks || self.looks > LOOKS_AT_ONCE
    }

    // Apart from what calls itself, so that a lone update is weighed in place.
    #[inline]
    fn add(&mut self, update: &Update) {
        match update {
            Update::Sequence { steps, .. } => self.add_steps(steps),
            lone => self.add_lone(lone),
        }
    }

    fn add_steps(&mut self, steps: &[Update]) {
        steps.iter().for_each(|step| self.add(step));
    }

    #[inline]
    fn add_lone(&mut self, update: &Update) {
        match update {
            Update::Set { expiry, .. } => self.write(usize::from(*expiry == Expiry::Keep)),
            Update::Rename { .. } | Update::Copy { .. } => self.write(2),
            Update::Delete { .. }
            | Update::Confirm { .. }
            | Update::Add { .. }
            | Update::AddFloat { .. }
            | Update::Append { .. }
            | Update::SetRange { .. }
            | Update::Expire { .. } => self.write(1),
            Update::SetIf { .. } | Update::TestAndSet { .. } | Update::Replace { .. } => {
                self.write(1);
                self.brings_values = true;
            }
            Update::DeletePrefix { .. } => {
                self.write(0);
                self.walks = true;
            }
            Update::Assert { .. } | Update::AssertExists { .. } | Update::AssertVersion { .. } => {
                self.looks += 1;
            }
            Update::AssertRange { .. } => self.walks = true,
            Update::Read(read) => self.read(read),
            Update::Nop | Update::Sequence { .. } => {}
        }
    }

    fn write(&mut self, looks: usize) {
        self.only_reads = false;
        self.looks += looks;
    }

    fn read(&mut self, read: &Read) {
        match read {
            Read::Get(_) => self.looks += 1,
            Read::Exists(keys) | Read::MultiGet(keys) | Read::MultiGetAll(keys) => {
                self.looks += keys.len();
            }
            Read::Range(range) => match range.rows_max {
                Some(rows) if rows <= ROWS_AT_ONCE => self.looks += rows,
                _ => self.walks = true,
            },
            Read::Assert { .. } | Read::AssertExists(_) => self.looks += 1,
            // It is refused.
            Read::KeyCount => {}
        }
        let counts = matches!(read, Read::Exists(_) | Read::Assert { .. } | Read::AssertExists(_));
        self.brings_values |= !counts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::request::{Missing, Steps};
    use base::{Key, Range, Value};

    fn set(expiry: Expiry) -> Update {
        Update::Set { key: Key::new(), value: Value::new(), expiry }
    }

    fn all(step: Update, count: usize) -> Weight {
        Weight::of(&Update::Sequence { steps: vec![step; count], mode: Steps::EachAlone })
    }

    #[test]
    fn what_is_looked_up_weighs_and_what_is_only_written_does_not() {
        assert!(!all(set(Expiry::Default), 100_000).is_heavy());
        assert!(all(set(Expiry::Keep), LOOKS_AT_ONCE + 1).is_heavy());
        let delete = Update::Delete { key: Key::new(), missing: Missing::Skipped };
        assert!(!all(delete.clone(), LOOKS_AT_ONCE).is_heavy());
        assert!(all(delete, LOOKS_AT_ONCE + 1).is_heavy());
        let many = Read::MultiGet(vec![Key::new(); LOOKS_AT_ONCE / 2]);
        assert!(!all(Update::Read(many.clone()), 2).is_heavy());
        assert!(all(Update::Read(many), 3).is_heavy());
        assert!(Weight::of(&Update::DeletePrefix { prefix: Key::new() }).is_heavy());
        let range = |rows_max| Update::Read(Read::Range(Range { rows_max, ..Range::default() }));
        assert!(all(range(None), 1).is_heavy() && !all(range(Some(ROWS_AT_ONCE)), 2).is_heavy());
    }

    #[test]
    fn an_update_that_only_reads_is_known_by_its_steps() {
        let get = Update::Read(Read::Get(Key::new()));
        let exists = Update::AssertExists { key: Key::new() };
        assert!(all(get.clone(), 3).only_reads && all(get.clone(), 3).brings_values);
        assert!(all(exists.clone(), 3).only_reads && !all(exists.clone(), 3).brings_values);
        let nested = Update::Sequence {
            steps: vec![
                exists,
                Update::Sequence { steps: vec![get, set(Expiry::Default)], mode: Steps::Batch },
            ],
            mode: Steps::EachAlone,
        };
        assert!(!Weight::of(&nested).only_reads);
        assert!(!Weight::of(&Update::Nop).only_reads, "it is asked for to go through the log");
    }
}
