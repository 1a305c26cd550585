//! Unapplied rows: changes that are logged and not in the trees yet, by tree key.
//!
//! Every write and every merge looks its key up here first, and every batch that is applied takes
//! its rows out. So a key is found by its hash, and a batch lists the hashes of its keys.
//!
//! Promises: the newest change of a key is found until its batch is applied; the order in which the
//! rows are listed depends on nothing outside the program's salt.

use base::codec::checksum;
use bytes::Bytes;
use hashbrown::HashTable;
use runtime::world;
use std::collections::VecDeque;

/// Rows for which memory is kept while there are none: a burst's larger table is freed.
const KEPT_ROWS_MAX: usize = 16_384;

/// Newest change of a tree key.
struct UnappliedRow {
    hash: u64,
    key: Bytes,
    /// Number of the batch that holds it.
    batch: u64,
    /// New value. `None`: the key is removed.
    value: Option<Bytes>,
}

/// Hashes of the keys that a batch changes.
struct BatchKeys {
    batch: u64,
    hashes: Vec<u64>,
}

/// See the head of this file.
pub struct UnappliedRows {
    rows: HashTable<UnappliedRow>,
    /// Batches in their order.
    batches: VecDeque<BatchKeys>,
    salt: u64,
}

impl Default for UnappliedRows {
    fn default() -> UnappliedRows {
        let (rows, batches) = (HashTable::new(), VecDeque::new());
        UnappliedRows { rows, batches, salt: world::salt() }
    }
}

impl UnappliedRows {
    /// Returns the newest change of a key, and the number of its batch. `None`: all its changes are
    /// applied.
    pub fn get(&self, key: &[u8]) -> Option<(u64, &Option<Bytes>)> {
        let row = self.rows.find(checksum(key, self.salt), |row| row.key == key)?;
        Some((row.batch, &row.value))
    }

    /// Adds a change to a batch, whose number is not below any earlier one.
    pub fn insert(&mut self, batch: u64, key: Bytes, value: Option<Bytes>) {
        let hash = checksum(&key, self.salt);
        match self.batches.back_mut() {
            Some(last) if last.batch == batch => last.hashes.push(hash),
            _ => self.batches.push_back(BatchKeys { batch, hashes: vec![hash] }),
        }
        match self.rows.find_mut(hash, |row| row.key == key) {
            Some(row) => (row.batch, row.value) = (batch, value),
            None => {
                let row = UnappliedRow { hash, key, batch, value };
                self.rows.insert_unique(hash, row, |row| row.hash);
            }
        }
    }

    /// Removes the changes of all batches through this one. Changes of later batches stay.
    pub fn remove_applied(&mut self, through: u64) {
        while let Some(batch) = self.batches.pop_front_if(|batch| batch.batch <= through) {
            for hash in batch.hashes {
                // A row that was changed again belongs to a later batch.
                let is_applied = |row: &UnappliedRow| row.hash == hash && row.batch <= through;
                if let Ok(entry) = self.rows.find_entry(hash, is_applied) {
                    entry.remove();
                }
            }
        }
        if self.rows.is_empty() && self.rows.capacity() > KEPT_ROWS_MAX {
            self.rows.shrink_to(KEPT_ROWS_MAX, |row| row.hash);
        }
    }

    /// Returns the newest change of every key.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Option<Bytes>)> {
        self.rows.iter().map(|row| (&row.key, &row.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Debug)]
    enum RowStep {
        Insert(u8, Option<u8>),
        NextBatch,
        Apply,
    }

    fn step() -> impl Strategy<Value = RowStep> {
        prop_oneof![
            6 => (0..12_u8, proptest::option::of(any::<u8>()))
                .prop_map(|(key, value)| RowStep::Insert(key, value)),
            2 => Just(RowStep::NextBatch),
            2 => Just(RowStep::Apply),
        ]
    }

    fn key(number: u8) -> Bytes {
        vec![number; 3].into()
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(2_000)
        })]

        #[test]
        fn unapplied_rows_equal_a_map_of_all_batches(
            steps in proptest::collection::vec(step(), 0..80),
        ) {
            let (mut rows, mut expected) = (UnappliedRows::default(), BTreeMap::new());
            let (mut batch, mut applied) = (1, 0);
            for step in steps {
                match step {
                    RowStep::Insert(number, value) => {
                        let value = value.map(|byte| Bytes::from(vec![byte]));
                        rows.insert(batch, key(number), value.clone());
                        expected.insert(key(number), (batch, value));
                    }
                    RowStep::NextBatch => batch += 1,
                    RowStep::Apply if applied + 1 < batch => {
                        applied += 1;
                        rows.remove_applied(applied);
                        expected.retain(|_, (newest, _)| *newest > applied);
                    }
                    RowStep::Apply => {}
                }
                for number in 0..12 {
                    let found = rows.get(&key(number)).map(|(of, value)| (of, value.clone()));
                    prop_assert_eq!(found.as_ref(), expected.get(&key(number)));
                }
                let all: BTreeMap<_, _> = rows.iter().collect();
                let values = expected.iter().map(|(key, (_, value))| (key, value));
                prop_assert_eq!(all, values.collect::<BTreeMap<_, _>>());
            }
            rows.remove_applied(batch);
            prop_assert!(rows.iter().next().is_none() && rows.batches.is_empty());
        }
    }

    #[test]
    fn memory_of_a_burst_is_freed_once_it_is_applied() {
        let mut rows = UnappliedRows::default();
        for number in 0..100_000_u32 {
            rows.insert(1, number.to_be_bytes().to_vec().into(), None);
        }
        assert!(rows.rows.capacity() >= 100_000);
        rows.remove_applied(1);
        assert!(rows.rows.capacity() < 2 * KEPT_ROWS_MAX, "{}", rows.rows.capacity());
    }
}
