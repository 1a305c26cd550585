//! Resident tables: flushed tables that stay in memory while there is space. Rows just written are
//! often read soon, and a read from memory costs a tenth of one from disk. The flush could fill the
//! row cache instead, but would then copy every row once more, read or not.
//!
//! Only the newest tables are kept: the row of a key that is found here is newer than any on disk.
//! That is why a table is added here *before* it leaves the readers' view, and the oldest is
//! dropped first. A table of mostly superseded rows is not worth its memory: it is not added, and
//! all older ones are dropped.

use std::sync::{Arc, PoisonError, RwLock};

use super::memtable::Memtable;
use super::view::Version;

/// Maximum number of tables: each one lengthens the search for a row that is in none, and with few
/// writes many small ones are flushed.
const TABLES_MAX: usize = 8;

/// The tables, oldest first. Readers search them under the lock and hold none of them, so that the
/// thread that drops a large table frees it.
#[derive(Default)]
pub(super) struct ResidentTables(RwLock<Vec<Arc<Memtable>>>);

impl ResidentTables {
    /// Returns the newest row of a key that is not in a table of the view.
    pub fn get(&self, key: &[u8], hash: u32) -> Option<Version> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.iter().rev().find_map(|table| table.get(key, hash, u64::MAX))
    }

    /// Calls `read` with the tables, oldest first. They neither grow in number nor leave meanwhile.
    pub fn with_tables<T>(&self, read: impl FnOnce(&[Arc<Memtable>]) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds the table that was flushed last.
    pub fn push(&self, table: Arc<Memtable>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(table);
    }

    /// Drops the oldest tables until the others are few and take at most `bytes_max` bytes.
    pub fn shrink_to(&self, bytes_max: u64) {
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut bytes_left: u64 = tables.iter().map(|table| table.bytes()).sum();
        let mut drop_count = 0;
        while bytes_left > bytes_max || tables.len() - drop_count > TABLES_MAX {
            bytes_left -= tables[drop_count].bytes();
            drop_count += 1;
        }
        let dropped: Vec<_> = tables.drain(..drop_count).collect();
        drop(tables);
        drop(dropped);
    }

    /// Returns the bytes of all tables.
    pub fn bytes(&self) -> u64 {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.iter().map(|table| table.bytes()).sum()
    }
}
