//! Point reads: the newest value of one key, or of several keys in one call.
//!
//! Several keys are looked up in groups, table by table: all rows of a group are loaded before one
//! is used, so that the processor waits for several cache misses at once, and each table is locked
//! once for a group. Values are lent from the tables, not copied.
//!
//! Promises: a call for several keys returns what one `get` after the other returns: of two keys
//! the later one is read at the same moment or at a later one. The first key of a group that is not
//! in memory ends the part of the group that one moment answers; the rest is read key by key.

use std::sync::Arc;

use bytes::Bytes;

use super::cache::Loaded;
use super::lsm::LsmTrees;
use super::memtable::RowPlace;
use super::view::View;
use super::{ValueVisitor, hash};
use crate::StoreError;

/// Number of keys that are looked up together: as many cache misses as a core waits for at once.
const GROUP_KEYS: usize = 16;

impl LsmTrees {
    /// Returns the newest published value of a key.
    pub(super) fn read_newest(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let hash = hash(key, self.salt);
        let (view, sequence) = self.view_and_sequence();
        if let Some(found) = view.in_memory(key, hash, sequence) {
            return Ok(found.value);
        }
        if let Some(found) = self.resident_tables.get(key, hash) {
            return Ok(found.value);
        }
        if let Some(value) = self.row_cache.find(key) {
            return Ok(value);
        }
        // The filters answer for most absent keys, and those need no place in the cache. They are
        // those of the view whose memory was read above.
        if !view.disk.may_hold(key, 0) {
            return Ok(None);
        }
        drop(view);
        // Memory is read again after the key has its slot in the cache: see the head of `cache.rs`.
        self.row_cache.load(key, || {
            let (view, sequence) = self.view_and_sequence();
            Ok(match view.in_memory(key, hash, sequence) {
                Some(found) => Loaded::Memory(found.value),
                None => Loaded::Disk(view.on_disk(key, sequence)?.value),
            })
        })
    }

    /// Reads a row that the caller is about to write, and does not cache it.
    pub(super) fn read_for_update(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        let read_point = self.view_and_sequence();
        match self.read_in_memory(key, &read_point) {
            Some(value) => Ok(value),
            None => Ok(read_point.0.on_disk(key, read_point.1)?.value),
        }
    }

    /// Returns the value of a key as of a read point, or a newer one, if it is in a table in memory
    /// or cached.
    pub(super) fn read_in_memory(
        &self,
        key: &[u8],
        (view, sequence): &(Arc<View>, u64),
    ) -> Option<Option<Bytes>> {
        let hash = hash(key, self.salt);
        let known =
            view.in_memory(key, hash, *sequence).or_else(|| self.resident_tables.get(key, hash));
        known.map(|found| found.value).or_else(|| self.row_cache.peek(key))
    }

    /// Reads the newest published value of each key; see [`super::Trees::get_each`].
    pub(super) fn read_each(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) {
        for group in keys.chunks(GROUP_KEYS) {
            let Some(visited) = self.visit_in_memory(group, visit) else { return };
            for key in &group[visited..] {
                let goes_on = match self.read_newest(key) {
                    Ok(value) => visit(Ok(value.as_ref())),
                    Err(error) => visit(Err(error)),
                };
                if !goes_on {
                    return;
                }
            }
        }
    }

    /// Visits the values of the first keys of a group, up to one that is in no table in memory, as
    /// of one moment. Returns their number. `None`: the visitor ended the call.
    fn visit_in_memory(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Option<usize> {
        let mut hashed: [(&[u8], u32); GROUP_KEYS] = [(&[][..], 0); GROUP_KEYS];
        for (slot, key) in hashed.iter_mut().zip(keys) {
            *slot = (key, hash(key, self.salt));
        }
        let hashed = &hashed[..keys.len()];
        let mut places: [Option<RowPlace>; GROUP_KEYS] = [None; GROUP_KEYS];
        let places = &mut places[..keys.len()];
        let (view, sequence) = self.view_and_sequence();
        for (table, memtable) in view.memtables().enumerate() {
            memtable.find_each(table, hashed, sequence, places);
        }
        let view_tables = view.memtables().count();
        // After the view: a flushed table is resident before it leaves the view. Rows newer than
        // the view's moment do not count in these tables either.
        self.resident_tables.with_tables(|resident| {
            for (at, memtable) in resident.iter().rev().enumerate() {
                if places.iter().all(Option::is_some) {
                    break;
                }
                memtable.find_each(view_tables + at, hashed, sequence, places);
            }
            let mut visited = 0;
            for RowPlace { table, row } in places.iter().map_while(|place| *place) {
                let memtable = match table.checked_sub(view_tables) {
                    None => view.memtables().nth(table),
                    Some(at) => resident.iter().rev().nth(at),
                };
                let Some(memtable) = memtable else { break };
                if !memtable.with_value(row, |value| visit(Ok(value))) {
                    return None;
                }
                visited += 1;
            }
            Some(visited)
        })
    }
}
