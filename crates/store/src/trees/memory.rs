//! `MemoryTrees`: the trees without a disk, for simulations; a crash restores the durable point.
//!
//! Every key holds its versions, oldest first. A version stays while it can be read: it is the
//! newest one, or the newest one at a snapshot, at the sealed or at the durable point.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use super::compaction::bounds_of;
use super::ingest::{Ingest, PrefixWatch};
use super::view::is_empty_range;
use super::{Pressure, RowChange, Rows, Snapshot, TreeRow, TreeStatistics, Trees};
use crate::StoreError;

/// Bytes that a version costs beside its key and value; as in the LSM trees.
const VERSION_OVERHEAD_BYTES: u64 = 80;

/// Trees in memory.
pub struct MemoryTrees {
    state: Arc<Mutex<State>>,
    active_bytes_max: u64,
}

#[derive(Default)]
struct State {
    rows: BTreeMap<Bytes, Vec<(u64, Option<Bytes>)>>,
    sequence: u64,
    /// The newest batch in a sealed table.
    sealed: u64,
    /// The newest batch that survives a crash.
    durable: u64,
    active_bytes: u64,
    sealed_bytes: u64,
    sealed_tables: usize,
    /// Number of snapshots that read at each batch.
    snapshots: BTreeMap<u64, usize>,
    /// Watches that note writes under a prefix.
    watches: Vec<Arc<PrefixWatch>>,
    /// Rows that ranges walked over, and rows that they returned.
    walked: u64,
    returned: u64,
}

impl MemoryTrees {
    /// Creates empty trees whose active table is due for sealing at this many bytes.
    pub fn new(active_bytes_max: u64) -> MemoryTrees {
        MemoryTrees { state: Arc::default(), active_bytes_max }
    }

    /// Simulates a power failure: only the batches up to the last flush remain. Snapshots taken
    /// before must not be used.
    pub fn crash(&self) -> Result<(), StoreError> {
        let mut state = self.state()?;
        let durable = state.durable;
        state.rows.retain(|_, versions| {
            versions.retain(|(sequence, _)| *sequence <= durable);
            !versions.is_empty()
        });
        let State { rows, snapshots, watches, .. } = std::mem::take(&mut *state);
        watches.iter().for_each(|watch| watch.mark_written());
        *state = State {
            rows,
            sequence: durable,
            sealed: durable,
            durable,
            snapshots,
            ..State::default()
        };
        Ok(())
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        self.state.lock().map_err(|_| StoreError::Closed)
    }
}

impl State {
    /// Returns every batch at which a snapshot may read: the durable, the sealed, and those of open
    /// snapshots.
    fn read_points(&self) -> Vec<u64> {
        let fixed = [self.durable, self.sealed];
        fixed.into_iter().chain(self.snapshots.keys().copied()).collect()
    }

    fn write(&mut self, key: Bytes, value: Option<Bytes>, sequence: u64, read_points: &[u64]) {
        let value_bytes = value.as_ref().map_or(0, Bytes::len);
        self.active_bytes += (key.len() + value_bytes) as u64 + VERSION_OVERHEAD_BYTES;
        let versions = self.rows.entry(key.clone()).or_default();
        let old = std::mem::take(versions);
        for (position, version) in old.iter().enumerate() {
            let until = old.get(position + 1).map_or(sequence, |next| next.0);
            if read_points.iter().any(|point| version.0 <= *point && *point < until) {
                versions.push(version.clone());
            }
        }
        versions.push((sequence, value));
        if versions.iter().all(|(_, value)| value.is_none()) {
            self.rows.remove(&key);
        }
    }

    fn read(&self, key: &[u8], sequence: u64) -> Option<Bytes> {
        newest(self.rows.get(key)?, sequence)
    }
}

fn newest(versions: &[(u64, Option<Bytes>)], sequence: u64) -> Option<Bytes> {
    versions.iter().rev().find(|version| version.0 <= sequence)?.1.clone()
}

impl Trees for MemoryTrees {
    fn apply(&self, batch: &mut dyn Iterator<Item = RowChange>) -> Result<u64, StoreError> {
        let mut state = self.state()?;
        let sequence = state.sequence + 1;
        let read_points = state.read_points();
        for change in batch {
            state.watches.iter().for_each(|watch| watch.observe(&change));
            match change {
                RowChange::Put(key, value) => state.write(key, Some(value), sequence, &read_points),
                RowChange::Remove(key) => state.write(key, None, sequence, &read_points),
            }
        }
        state.sequence = sequence;
        Ok(sequence)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let state = self.state()?;
        Ok(state.read(key, state.sequence))
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        let state = Arc::clone(&self.state);
        let mut guard = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let sequence = guard.sequence;
        *guard.snapshots.entry(sequence).or_default() += 1;
        Box::new(MemorySnapshot { state, sequence })
    }

    fn memory_bytes(&self) -> u64 {
        self.state().map_or(0, |state| state.active_bytes + state.sealed_bytes)
    }

    fn pressure(&self) -> Pressure {
        let active_bytes_max = self.active_bytes_max;
        self.state().map_or(Pressure::default(), |state| Pressure {
            active_bytes: state.active_bytes,
            active_bytes_max,
            // A removed row leaves no dead row.
            has_many_dead_rows: false,
            sealed_tables: state.sealed_tables,
            unmerged_runs: 0,
            runs: 0,
            lacks_merge_space: false,
        })
    }

    fn rotate(&self) -> Result<bool, StoreError> {
        let mut state = self.state()?;
        if state.active_bytes == 0 {
            return Ok(false);
        }
        state.sealed = state.sequence;
        state.sealed_tables += 1;
        state.sealed_bytes += std::mem::take(&mut state.active_bytes);
        Ok(true)
    }

    fn flush(&self) -> Result<(), StoreError> {
        let mut state = self.state()?;
        state.durable = state.sealed;
        (state.sealed_tables, state.sealed_bytes) = (0, 0);
        Ok(())
    }

    fn compact(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn drop_prefix(&self, prefix: &[u8]) -> Result<(), StoreError> {
        let state = self.state()?;
        let keys: Vec<Bytes> =
            state.rows.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
        drop(state);
        self.apply(&mut keys.into_iter().map(RowChange::Remove))?;
        self.rotate()?;
        self.flush()
    }

    fn begin_install(self: Arc<Self>, prefix: &[u8]) -> Result<Box<dyn Ingest>, StoreError> {
        let watch = PrefixWatch::new(prefix);
        self.state()?.watches.push(Arc::clone(&watch));
        Ok(Box::new(MemoryIngest { trees: self, watch, rows: Vec::new() }))
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StoreError> {
        let error = std::io::Error::new(std::io::ErrorKind::Unsupported, "the trees have no files");
        Err(StoreError::io(format!("checkpoint into {}", target.display()), error))
    }

    fn statistics(&self) -> TreeStatistics {
        self.state().map_or(TreeStatistics::default(), |state| TreeStatistics {
            memory_bytes: state.active_bytes + state.sealed_bytes,
            rows_estimated: state.rows.len() as u64,
            sealed_tables: state.sealed_tables as u64,
            sequence: state.sequence,
            rows_walked: state.walked,
            rows_returned: state.returned,
            ..TreeStatistics::default()
        })
    }
}

struct MemoryIngest {
    trees: Arc<MemoryTrees>,
    watch: Arc<PrefixWatch>,
    rows: Vec<TreeRow>,
}

impl Ingest for MemoryIngest {
    fn put(&mut self, rows: Vec<TreeRow>) -> Result<(), StoreError> {
        self.watch.check_order(self.rows.last().map(|(key, _)| key), &rows);
        self.rows.extend(rows);
        Ok(())
    }

    fn complete(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn switch(&mut self) -> Result<bool, StoreError> {
        let mut state = self.trees.state()?;
        if self.watch.is_written() {
            return Ok(false);
        }
        let (sequence, read_points) = (state.sequence + 1, state.read_points());
        let (low, high) = bounds_of(self.watch.prefix());
        let old: Vec<Bytes> = state.rows.range((low, high)).map(|(key, _)| key.clone()).collect();
        old.into_iter().for_each(|key| state.write(key, None, sequence, &read_points));
        let rows = std::mem::take(&mut self.rows);
        for (key, value) in rows {
            // Of two versions with the same number the later one is read.
            state.write(key, Some(value), sequence, &read_points);
        }
        (state.sequence, state.sealed, state.durable) = (sequence, sequence, sequence);
        (state.active_bytes, state.sealed_bytes, state.sealed_tables) = (0, 0, 0);
        Ok(true)
    }
}

impl Drop for MemoryIngest {
    fn drop(&mut self) {
        if let Ok(mut state) = self.trees.state() {
            state.watches.retain(|watch| !Arc::ptr_eq(watch, &self.watch));
        }
    }
}

struct MemorySnapshot {
    state: Arc<Mutex<State>>,
    sequence: u64,
}

impl MemorySnapshot {
    /// Returns the next row between the bounds, from one end.
    fn next(
        &self,
        bounds: &(Bound<Bytes>, Bound<Bytes>),
        reverse: bool,
    ) -> Result<Option<TreeRow>, StoreError> {
        let mut state = self.state.lock().map_err(|_| StoreError::Closed)?;
        let mut rows = state.rows.range::<Bytes, _>((bounds.0.as_ref(), bounds.1.as_ref()));
        let mut walked = 0;
        let live = |(key, versions): (&Bytes, &Vec<_>)| {
            walked += versions.len() as u64;
            Some((key.clone(), newest(versions, self.sequence)?))
        };
        let row = if reverse { rows.rev().find_map(live) } else { rows.find_map(live) };
        state.walked += walked;
        state.returned += u64::from(row.is_some());
        Ok(row)
    }
}

impl Snapshot for MemorySnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let state = self.state.lock().map_err(|_| StoreError::Closed)?;
        Ok(state.read(key, self.sequence))
    }

    fn range(&self, low: Bound<Bytes>, high: Bound<Bytes>, reverse: bool) -> Rows<'_> {
        let mut bounds = (low, high);
        Box::new(std::iter::from_fn(move || {
            if is_empty_range(&bounds) {
                return None;
            }
            let row = self.next(&bounds, reverse).transpose()?;
            if let Ok((key, _)) = &row {
                let end = Bound::Excluded(key.clone());
                *(if reverse { &mut bounds.1 } else { &mut bounds.0 }) = end;
            }
            Some(row)
        }))
    }
}

impl Drop for MemorySnapshot {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(count) = state.snapshots.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                state.snapshots.remove(&self.sequence);
            }
        }
    }
}
