//! Flushed tables that stay in memory while there is space. Rows just written are read soon, and a
//! read from memory costs a tenth of one from disk. The flush could fill the row cache instead, but
//! would then copy every row once more, read or not.
//!
//! Only the newest tables are kept: the row of a key that is found here is newer than any on disk.
//! That is why a table is added here *before* readers are turned away from it, and the oldest is
//! dropped first. A table of mostly superseded rows is not worth its memory, and is dropped with
//! its elders.

use std::sync::{Arc, PoisonError, RwLock};

use super::memtable::Memtable;
use super::view::Version;

/// Each one more makes it longer to find that a row is in none; many small ones are flushed when
/// little is written.
const TABLES_MAX: usize = 8;

/// The tables, oldest first. Readers look at them under the lock and hold none of them, so that
/// large tables are freed by the thread that lets them go.
#[derive(Default)]
pub(super) struct TableList(RwLock<Vec<Arc<Memtable>>>);

impl TableList {
    /// The newest row of a key that is not in a table of the view.
    pub fn get(&self, key: &[u8], hash: u32) -> Option<Version> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.iter().rev().find_map(|table| table.get(key, hash, u64::MAX))
    }

    /// Takes the table that was flushed last.
    pub fn keep(&self, table: Arc<Memtable>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(table);
    }

    /// Drops the oldest tables until the others are few and take at most `room` bytes.
    pub fn shrink_to(&self, room: u64) {
        let mut tables = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut left: u64 = tables.iter().map(|table| table.bytes()).sum();
        let mut goes = 0;
        while left > room || tables.len() - goes > TABLES_MAX {
            left -= tables[goes].bytes();
            goes += 1;
        }
        let gone: Vec<_> = tables.drain(..goes).collect();
        drop(tables);
        drop(gone);
    }

    /// Bytes of all.
    pub fn bytes(&self) -> u64 {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.iter().map(|table| table.bytes()).sum()
    }
}
