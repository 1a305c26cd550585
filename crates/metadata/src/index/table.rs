//! Catalog of declared indexes: this node's copy of their rows, with the definitions in force laid
//! out for each bucket.
//!
//! A path that writes rows looks a bucket's definitions up once, keeps them, and compares one
//! number afterwards ([`IndexTable::changes`]). A cluster without indexes costs this number alone.

use super::rows::{
    DirectoryIndex, DirectoryState, INDEXES, NEXT_INDEX, index_key, index_of, read_index,
    read_next, write_index, write_next,
};
use base::index::{IndexDescription, IndexState, index_failed, no_such_index};
use base::{BucketName, Key, Reason, Result, Value};
use indexes::{DefinitionSet, IndexDefinition, IndexField, IndexNumber, TermKind};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::watch;

/// Indexes of all buckets, by the applied rows.
#[derive(Default)]
pub struct IndexTable {
    /// True if some bucket has an index. Set under the lock.
    has_any: AtomicBool,
    /// Number of changes of some bucket's definitions in force. Raised under the lock.
    changes: AtomicU64,
    rows: RwLock<TableRows>,
    /// Number of rows applied, for callers that wait for one.
    applied: watch::Sender<u64>,
}

#[derive(Default)]
struct TableRows {
    buckets: BTreeMap<BucketName, Arc<BucketIndexes>>,
    /// Number of the next index.
    next: u32,
}

/// Declared indexes of a bucket. Immutable: a change makes new ones.
#[derive(Clone, Debug, Default)]
pub struct BucketIndexes {
    /// Version of the definitions in force, on this node and in this run: sets with the same
    /// version are the same, whatever the state of an index is.
    pub version: u64,
    /// Definitions whose entries every write maintains: of indexes that are ready or being built.
    pub definitions: Arc<DefinitionSet>,
    rows: BTreeMap<String, DirectoryIndex>,
}

impl BucketIndexes {
    /// Returns descriptions of all indexes in the order of their names, those that failed or are
    /// being dropped among them.
    pub fn describe(&self) -> Vec<IndexDescription> {
        self.rows.values().map(DirectoryIndex::describe).collect()
    }

    /// Returns the state of the index with this number. `None`: the bucket has none.
    pub fn state(&self, number: IndexNumber) -> Option<IndexState> {
        let mut rows = self.rows.values();
        rows.find(|index| index.definition.number == number).map(|index| index.describe().state)
    }

    /// Returns the definition of the index that a query names, if the index is ready. Errors:
    /// `no_such_index`, `index_building`, `index_failed`.
    pub fn ready(&self, bucket: &BucketName, name: &str) -> Result<&IndexDefinition> {
        let index = self.rows.get(name).ok_or_else(|| no_such_index(bucket, name))?;
        match index.describe().state {
            IndexState::Ready => Ok(&index.definition),
            IndexState::Building(progress) => Err(progress.error(bucket, name)),
            IndexState::Failed(cause) => Err(index_failed(bucket, name, &cause)),
            IndexState::Dropping => Err(no_such_index(bucket, name)),
        }
    }

    /// Returns the indexes with one row replaced. `change`: version of the definitions in force if
    /// they are others now.
    fn with_row(&self, name: &str, row: Option<DirectoryIndex>, change: u64) -> BucketIndexes {
        let mut rows = self.rows.clone();
        match row {
            Some(row) => rows.insert(name.into(), row),
            None => rows.remove(name),
        };
        let mut definitions = DefinitionSet::default();
        for index in rows.values().filter(|index| index.is_in_force()) {
            // The directory creates no more than are allowed. Rows that another program wrote may
            // be more: the first ones count, on every node alike.
            let _ = definitions.insert(index.definition.clone());
        }
        match definitions == *self.definitions {
            true => BucketIndexes { rows, ..self.clone() },
            false => BucketIndexes { version: change, definitions: definitions.into(), rows },
        }
    }
}

impl TableRows {
    fn bucket_of(&self, number: IndexNumber) -> Option<&BucketName> {
        let has_number = |(_, indexes): &(&BucketName, &Arc<BucketIndexes>)| {
            indexes.rows.values().any(|index| index.definition.number == number)
        };
        self.buckets.iter().find(has_number).map(|(bucket, _)| bucket)
    }
}

impl IndexTable {
    /// Returns the number of changes of some bucket's definitions in force. While it stays the
    /// same, what [`IndexTable::find`] returned stays the same, except for states.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the indexes of a bucket. `None`: it has none.
    #[inline]
    pub fn find(&self, bucket: &BucketName) -> Option<Arc<BucketIndexes>> {
        if !self.has_any.load(Ordering::Acquire) {
            return None;
        }
        self.read().buckets.get(bucket).cloned()
    }

    /// Returns the definition of the index that a query of a bucket names, if the index is ready.
    /// Errors: those of [`BucketIndexes::ready`].
    pub fn ready(&self, bucket: &BucketName, name: &str) -> Result<IndexDefinition> {
        let indexes = self.find(bucket).ok_or_else(|| no_such_index(bucket, name))?;
        indexes.ready(bucket, name).cloned()
    }

    /// Returns the field of an index that a query of a bucket names, the kind of its terms, and its
    /// definition, if it is declared. A name that nobody declared may be that of a tag, which every
    /// bucket has. Errors: those of [`Self::ready`].
    pub fn field(
        &self,
        bucket: &BucketName,
        name: &[u8],
    ) -> Result<(IndexField, TermKind, Option<IndexDefinition>)> {
        match self.ready(bucket, &String::from_utf8_lossy(name)) {
            Ok(found) => Ok((found.field(), found.value_type.kind(), Some(found))),
            Err(error) => match IndexField::tag_and_kind(name) {
                Ok((field, kind)) if error.reason == Reason::NoSuchIndex => Ok((field, kind, None)),
                _ => Err(error),
            },
        }
    }

    /// Returns all buckets that have indexes.
    pub fn all(&self) -> BTreeMap<BucketName, Arc<BucketIndexes>> {
        self.read().buckets.clone()
    }

    /// Returns the bucket of an index, by a scan of all indexes. `None`: no row has this number.
    pub fn bucket_of(&self, number: IndexNumber) -> Option<BucketName> {
        self.read().bucket_of(number).cloned()
    }

    /// Returns true if the index was dropped: whatever is left of its entries can be removed. False
    /// for a number that this node has not met: its rows may be older than what holds the number.
    pub fn is_dropped(&self, number: IndexNumber) -> bool {
        let rows = self.read();
        number.0 < rows.next && rows.bucket_of(number).is_none()
    }

    /// Returns the number of applied rows as a watch, for callers that wait for a change.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    /// Replaces all rows, as a model of the directory has them: the next number, and indexes with
    /// their buckets, each with true if it is ready.
    pub fn fill(&self, next: u32, indexes: Vec<(BucketName, IndexDefinition, bool)>) {
        let mut rows = BTreeMap::new();
        for (bucket, indexes) in self.all() {
            rows.extend(indexes.rows.keys().map(|name| (index_key(&bucket, name), None)));
        }
        for (bucket, definition, is_ready) in indexes {
            let state = if is_ready { DirectoryState::Ready } else { DirectoryState::begin() };
            let index = DirectoryIndex { definition, state, complete_at: None };
            let name = index.definition.name.as_str();
            rows.insert(index_key(&bucket, name), Some(write_index(&index)));
        }
        rows.insert(Key::from_static(NEXT_INDEX), Some(write_next(next)));
        for (key, value) in rows {
            self.apply(&key, value.as_ref()).expect("a row that was just written reads");
        }
    }

    /// Applies a row, in the order of the log. `None`: it was removed. Returns false if the key is
    /// of no row of indexes. A row that can't be read is an error, and changes nothing.
    pub fn apply(&self, key: &[u8], value: Option<&Value>) -> Result<bool> {
        if key == NEXT_INDEX {
            let next = read_next(value)?;
            let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
            rows.next = next;
            drop(rows);
            self.applied.send_modify(|applied| *applied += 1);
            return Ok(true);
        }
        let Some((bucket, name)) = index_of(key) else { return Ok(key.starts_with(INDEXES)) };
        let row = value.map(|value| read_index(key, value)).transpose()?;
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let change = self.changes() + 1;
        let former = rows.buckets.get(&bucket).cloned().unwrap_or_default();
        let present = former.with_row(name, row, change);
        let has_changed = present.version == change;
        match present.rows.is_empty() {
            true => rows.buckets.remove(&bucket),
            false => rows.buckets.insert(bucket, Arc::new(present)),
        };
        self.has_any.store(!rows.buckets.is_empty(), Ordering::Release);
        if has_changed {
            // Last: whoever reads this number, then finds no index without the lock, keeps that
            // answer until the next change.
            self.changes.store(change, Ordering::Release);
        }
        drop(rows);
        self.applied.send_modify(|applied| *applied += 1);
        Ok(true)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, TableRows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::definition;
    use super::*;
    use base::Reason;

    fn bucket(name: &str) -> BucketName {
        BucketName::from_full(name).expect("a name")
    }

    fn index(number: u32, name: &str, state: DirectoryState) -> DirectoryIndex {
        DirectoryIndex { definition: definition(number, name), state, complete_at: None }
    }

    fn apply(table: &IndexTable, bucket: &BucketName, name: &str, row: Option<&DirectoryIndex>) {
        let value = row.map(write_index);
        assert_eq!(table.apply(&index_key(bucket, name), value.as_ref()), Ok(true));
    }

    #[test]
    fn version_changes_with_definitions_in_force_and_not_with_states() {
        let (table, logs) = (IndexTable::default(), bucket("logs/web"));
        assert_eq!((table.find(&logs).is_none(), table.changes()), (true, 0));
        let steps: [(Option<DirectoryState>, u64, &[u32]); 6] = [
            (Some(DirectoryState::begin()), 1, &[7]),
            (Some(DirectoryState::Ready), 1, &[7]),
            (Some(DirectoryState::begin()), 1, &[7]),
            (Some(DirectoryState::Failed("two keys".into())), 2, &[]),
            (Some(DirectoryState::Ready), 3, &[7]),
            (Some(DirectoryState::Dropping), 4, &[]),
        ];
        for (state, version, numbers) in steps {
            let row = state.map(|state| index(7, "a", state));
            apply(&table, &logs, "a", row.as_ref());
            let found = table.find(&logs).expect("it has a row");
            let in_force: Vec<_> = found.definitions.iter().map(|it| it.number.0).collect();
            assert_eq!((found.version, in_force.as_slice()), (version, numbers), "{row:?}");
            assert_eq!(table.changes(), version);
        }
        apply(&table, &logs, "a", None);
        assert!(table.find(&logs).is_none() && table.all().is_empty());
        assert_eq!(table.changes(), 4, "nothing was in force any more");
    }

    #[test]
    fn buckets_change_apart_and_keep_their_sets() {
        let table = IndexTable::default();
        let (one, other) = (bucket("logs/web"), bucket("available/web"));
        apply(&table, &one, "a", Some(&index(1, "a", DirectoryState::Ready)));
        let before = table.find(&one).expect("it has a row");
        apply(&table, &other, "a", Some(&index(2, "a", DirectoryState::Ready)));
        let after = table.find(&one).expect("it has a row");
        assert!(Arc::ptr_eq(&before, &after), "another bucket's index copies nothing");
        apply(&table, &one, "b", Some(&index(3, "b", DirectoryState::begin())));
        let found = table.find(&one).expect("it has rows");
        let definitions: Vec<_> = found.definitions.iter().map(|it| it.number.0).collect();
        assert_eq!((definitions, found.version), (vec![1, 3], 3));
        let other_version = table.find(&other).map(|it| it.version);
        assert_eq!((other_version, table.bucket_of(IndexNumber(2))), (Some(2), Some(other)));
    }

    #[test]
    fn queries_find_ready_indexes_alone_and_learn_why_not() {
        let (table, logs) = (IndexTable::default(), bucket("logs/web"));
        let reason = |name: &str| table.ready(&logs, name).map_err(|error| error.reason);
        assert_eq!(reason("a"), Err(Reason::NoSuchIndex));
        for (name, state, expected) in [
            ("building", DirectoryState::begin(), Reason::IndexBuilding),
            ("failed", DirectoryState::Failed("two keys".into()), Reason::IndexFailed),
            ("dropping", DirectoryState::Dropping, Reason::NoSuchIndex),
        ] {
            apply(&table, &logs, name, Some(&index(1, name, state)));
            assert_eq!(reason(name), Err(expected));
        }
        apply(&table, &logs, "ready", Some(&index(2, "ready", DirectoryState::Ready)));
        assert_eq!(reason("ready"), Ok(definition(2, "ready")));
        let found = table.find(&logs).expect("it has rows");
        assert_eq!(found.state(IndexNumber(2)), Some(IndexState::Ready));
        assert_eq!((found.state(IndexNumber(3)), found.describe().len()), (None, 4));
    }

    #[test]
    fn index_counts_as_dropped_only_if_its_number_was_given_out() {
        let (table, logs) = (IndexTable::default(), bucket("logs/web"));
        let next = |next| assert_eq!(table.apply(NEXT_INDEX, Some(&write_next(next))), Ok(true));
        let is_dropped = |number| table.is_dropped(IndexNumber(number));
        assert!(!is_dropped(1), "this node has met no row yet");
        next(3);
        apply(&table, &logs, "a", Some(&index(2, "a", DirectoryState::Dropping)));
        assert_eq!([1, 2, 3].map(is_dropped), [true, false, false]);
        apply(&table, &logs, "a", None);
        next(4);
        assert_eq!([1, 2, 3, 4].map(is_dropped), [true, true, true, false]);
    }

    #[test]
    fn answer_found_behind_the_number_of_changes_holds_until_the_next_one() {
        let logs = bucket("logs/web");
        let ready = index(1, "a", DirectoryState::Ready);
        for round in 0..300 {
            let table = IndexTable::default();
            std::thread::scope(|scope| {
                scope.spawn(|| apply(&table, &logs, "a", Some(&ready)));
                while table.changes() == 0 {
                    std::hint::spin_loop();
                }
                assert!(table.find(&logs).is_some(), "{round}: it would be missed for ever");
            });
        }
    }

    #[test]
    fn row_that_cannot_be_read_is_an_error_and_changes_nothing() {
        let (table, logs) = (IndexTable::default(), bucket("logs/web"));
        apply(&table, &logs, "a", Some(&index(1, "a", DirectoryState::Ready)));
        let newer = Value::from_static(&[9]);
        assert!(table.apply(&index_key(&logs, "a"), Some(&newer)).is_err());
        assert!(table.ready(&logs, "a").is_ok() && table.changes() == 1);
        assert_eq!(table.apply(b"b/logs/web", None), Ok(false), "no row of an index");
    }

    #[test]
    fn watch_tells_of_every_applied_row() {
        let (table, logs) = (IndexTable::default(), bucket("logs/web"));
        let mut watch = table.watch();
        assert!(!watch.has_changed().expect("it is open"));
        apply(&table, &logs, "a", Some(&index(1, "a", DirectoryState::begin())));
        assert!(watch.has_changed().expect("it is open"));
        watch.mark_unchanged();
        apply(&table, &logs, "a", Some(&index(1, "a", DirectoryState::Ready)));
        assert!(watch.has_changed().expect("a state alone is a change, too"));
    }
}
