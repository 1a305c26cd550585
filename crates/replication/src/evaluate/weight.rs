//! Estimate of an update's cost, from the update alone.

use crate::budget::{KEYS_AT_ONCE, ROWS_AT_ONCE};
use base::request::Expiry;
use base::{Read, Update, Value};
use runtime::log_writer::LARGE_RECORD_BYTES;

/// Maximum number of keys that an update looks up on the thread that received it; others are
/// evaluated on a thread that may block.
const LOOKUPS_AT_ONCE: usize = KEYS_AT_ONCE / 4;

/// See the head of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// True if it is a sequence that changes nothing, whatever it finds.
    pub is_read_only: bool,
    /// True if its answer may contain values.
    pub may_return_values: bool,
    /// Number of keys that are looked up, and of rows of short ranges.
    lookups: usize,
    /// True if it scans an unknown number of rows.
    has_scan: bool,
    /// True if every write looks up the row that it replaces.
    reads_replaced: bool,
    /// Bytes of the values that it brings to be written.
    value_bytes: usize,
}

impl Weight {
    /// Estimates the cost of an update and all its steps. `reads_replaced`: its bucket keeps counts
    /// or has indexes, so that every write looks up the row that it replaces.
    #[inline]
    pub fn measure(update: &Update, reads_replaced: bool) -> Weight {
        let mut weight = Weight {
            is_read_only: true,
            may_return_values: false,
            lookups: 0,
            has_scan: false,
            reads_replaced,
            value_bytes: 0,
        };
        weight.add(update);
        // A single read outside a sequence is submitted to see undecided updates, or to go through
        // the log.
        weight.is_read_only &= matches!(update, Update::Sequence { .. });
        weight
    }

    /// Returns true if it may take long enough to be evaluated away from the threads that answer,
    /// and to yield to other updates afterwards.
    pub fn is_heavy(&self) -> bool {
        self.has_scan || self.lookups > LOOKUPS_AT_ONCE
    }

    /// Returns true if the log's disk takes much longer for it than for a sync. It gets an entry of
    /// its own.
    pub fn is_large(&self) -> bool {
        self.value_bytes >= LARGE_RECORD_BYTES
    }

    // Separate from the recursive function, so that a single update is inlined.
    #[inline]
    fn add(&mut self, update: &Update) {
        match update {
            Update::Sequence { steps, .. } => self.add_steps(steps),
            single => self.add_single(single),
        }
    }

    fn add_steps(&mut self, steps: &[Update]) {
        steps.iter().for_each(|step| self.add(step));
    }

    #[inline]
    fn add_single(&mut self, update: &Update) {
        match update {
            Update::Set { value, expiry, .. } => {
                self.write(usize::from(*expiry == Expiry::Keep || self.reads_replaced));
                self.value_bytes += value.len();
            }
            Update::Rename { .. } | Update::Copy { .. } => self.write(2),
            Update::Delete { .. }
            | Update::Add { .. }
            | Update::AddFloat { .. }
            | Update::Expire { .. } => self.write(1),
            Update::Confirm { value, .. }
            | Update::Append { value, .. }
            | Update::SetRange { value, .. } => {
                self.write(1);
                self.value_bytes += value.len();
            }
            Update::SetIf { value, .. } => self.swap(Some(value)),
            Update::SetTagged(set) => {
                self.write(1);
                self.value_bytes += set.value.len();
            }
            Update::TestAndSet { wanted, .. } | Update::Replace { wanted, .. } => {
                self.swap(wanted.as_ref());
            }
            Update::DeletePrefix { .. } => {
                self.write(0);
                self.has_scan = true;
            }
            Update::Assert { .. } | Update::AssertExists { .. } | Update::AssertVersion { .. } => {
                self.lookups += 1;
            }
            // Not read-only: the master's table of removals is read under the group's lock.
            Update::AssertAbsentSince { .. } => self.write(1),
            Update::AssertRange { .. } => self.has_scan = true,
            Update::Read(read) => self.read(read),
            Update::Nop | Update::Sequence { .. } => {}
        }
    }

    fn write(&mut self, lookups: usize) {
        self.is_read_only = false;
        self.lookups += lookups;
    }

    /// Adds an update that writes a value and may return the old one.
    fn swap(&mut self, wanted: Option<&Value>) {
        self.write(1);
        self.may_return_values = true;
        self.value_bytes += wanted.map_or(0, Value::len);
    }

    fn read(&mut self, read: &Read) {
        match read {
            Read::Get(_) => self.lookups += 1,
            Read::Exists(keys)
            | Read::MultiGet(keys)
            | Read::MultiGetAll(keys)
            | Read::KeyVersions(keys) => self.lookups += keys.len(),
            Read::Range(range) => match range.rows_max {
                Some(rows) if rows <= ROWS_AT_ONCE => self.lookups += rows,
                _ => self.has_scan = true,
            },
            Read::Assert { .. } | Read::AssertExists(_) => self.lookups += 1,
            // Inside a sequence they are refused.
            Read::KeyCount | Read::Index(_) | Read::Feed(_) => {}
        }
        let has_no_value = matches!(
            read,
            Read::Exists(_) | Read::Assert { .. } | Read::AssertExists(_) | Read::KeyVersions(_)
        );
        self.may_return_values |= !has_no_value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::request::{OnMissing, SequenceMode, TaggedSet, When};
    use base::{Absence, BucketId, GroupId, Key, Range, Tags};

    fn set(expiry: Expiry) -> Update {
        Update::Set { key: Key::new(), value: Value::new(), expiry }
    }

    fn tagged(key: &Key, value: &Value) -> Update {
        let (key, value, tags) = (key.clone(), value.clone(), Tags::default());
        let (expiry, when) = (Expiry::Default, When::Always);
        Update::SetTagged(Box::new(TaggedSet { key, value, expiry, when, tags }))
    }

    fn all(step: Update, count: usize) -> Weight {
        let steps = vec![step; count];
        Weight::measure(&Update::Sequence { steps, mode: SequenceMode::EachAlone }, false)
    }

    #[test]
    fn update_weight_counts_lookups_and_not_plain_writes() {
        assert!(!all(set(Expiry::Default), 100_000).is_heavy());
        assert!(all(set(Expiry::Keep), LOOKUPS_AT_ONCE + 1).is_heavy());
        let delete = Update::Delete { key: Key::new(), missing: OnMissing::Skip };
        assert!(!all(delete.clone(), LOOKUPS_AT_ONCE).is_heavy());
        assert!(all(delete, LOOKUPS_AT_ONCE + 1).is_heavy());
        let many = Read::MultiGet(vec![Key::new(); LOOKUPS_AT_ONCE / 2]);
        assert!(!all(Update::Read(many.clone()), 2).is_heavy());
        assert!(all(Update::Read(many), 3).is_heavy());
        assert!(Weight::measure(&Update::DeletePrefix { prefix: Key::new() }, false).is_heavy());
        let range = |rows_max| Update::Read(Read::Range(Range { rows_max, ..Range::default() }));
        assert!(all(range(None), 1).is_heavy() && !all(range(Some(ROWS_AT_ONCE)), 2).is_heavy());
    }

    #[test]
    fn plain_write_that_reads_the_replaced_row_counts_as_a_lookup() {
        let steps = |count| vec![set(Expiry::Default); count];
        let measure = |count, reads_replaced| {
            let mode = SequenceMode::Batch;
            Weight::measure(&Update::Sequence { steps: steps(count), mode }, reads_replaced)
        };
        assert!(measure(LOOKUPS_AT_ONCE + 1, true).is_heavy());
        assert!(!measure(LOOKUPS_AT_ONCE, true).is_heavy());
        assert!(!measure(LOOKUPS_AT_ONCE + 1, false).is_heavy());
    }

    #[test]
    fn update_is_large_by_the_values_that_it_writes() {
        let (key, expiry) = (Key::from("k"), Expiry::Default);
        for (bytes, is_large) in [(LARGE_RECORD_BYTES - 1, false), (LARGE_RECORD_BYTES, true)] {
            let value = Value::from(vec![0; bytes]);
            let wanted = Some(value.clone());
            let single = [
                Update::Set { key: key.clone(), value: value.clone(), expiry },
                Update::SetIf {
                    key: key.clone(),
                    value: value.clone(),
                    expiry,
                    when: When::Absent,
                },
                tagged(&key, &value),
                Update::Append { key: key.clone(), value: value.clone() },
                Update::SetRange { key: key.clone(), offset: 9, value: value.clone() },
                Update::Confirm { key: key.clone(), value: value.clone() },
                Update::Replace { key: key.clone(), wanted: wanted.clone() },
                Update::TestAndSet { key: key.clone(), expected: None, wanted: wanted.clone() },
            ];
            for update in single {
                assert_eq!(Weight::measure(&update, false).is_large(), is_large, "{bytes} bytes");
            }
            // What is compared is not written.
            let compared = Update::TestAndSet { key: key.clone(), expected: wanted, wanted: None };
            assert!(!Weight::measure(&compared, false).is_large());
            let half = Value::from(vec![0; bytes.div_ceil(2)]);
            let half = Update::Set { key: key.clone(), value: half, expiry };
            assert!(!Weight::measure(&half, false).is_large());
            assert!(all(half, 2).is_large());
        }
    }

    #[test]
    fn sequence_is_read_only_if_all_its_steps_only_read() {
        let get = Update::Read(Read::Get(Key::new()));
        let exists = Update::AssertExists { key: Key::new() };
        assert!(all(get.clone(), 3).is_read_only && all(get.clone(), 3).may_return_values);
        assert!(all(exists.clone(), 3).is_read_only && !all(exists.clone(), 3).may_return_values);
        let nested = Update::Sequence {
            steps: vec![
                exists,
                Update::Sequence {
                    steps: vec![get, set(Expiry::Default)],
                    mode: SequenceMode::Batch,
                },
            ],
            mode: SequenceMode::EachAlone,
        };
        assert!(!Weight::measure(&nested, false).is_read_only);
        let absence = Absence { group: GroupId(1), bucket: BucketId(1), since: base::Version(1) };
        let absent = Update::AssertAbsentSince { key: Key::new(), absence };
        assert!(!all(absent, 2).is_read_only, "the table of removals is behind the lock");
        assert!(
            !Weight::measure(&Update::Nop, false).is_read_only,
            "it is asked for to go through the log"
        );
    }
}
