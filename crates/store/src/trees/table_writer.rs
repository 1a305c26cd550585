//! Writer of tables: rows in the order of keys become table files of a bounded size.
//!
//! A table ends at a number of *uncompressed* bytes, because the library keeps the last key of each
//! block until the table is complete.
//!
//! Promises: a file that no list names in the end is removed, also after an error or a panic; a
//! finished table is synced, with its name.
//! Never: adds a table to the list.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use lsm_tree::table::Writer;
use lsm_tree::{CompressionType, InternalValue, Table, TableId};

use super::LsmTrees;
use super::manifest::TABLES;

/// Bytes that a row costs in a table beside its key and value, about.
const ROW_OVERHEAD_BYTES: u64 = 16;

/// Layout of a table's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableLayout {
    /// Rows of a flush that are merged soon: uncompressed, with the block index in memory.
    Unmerged,
    /// Rows that stay: compressed, with a block index in parts, which the block cache holds.
    Merged,
}

/// Tables that no list names yet. Their files are removed unless `keep` is called.
#[derive(Default)]
pub(super) struct NewTables {
    tables: Vec<Table>,
}

impl NewTables {
    /// Returns the tables, in the order of keys.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Adds tables with higher keys.
    pub fn append(&mut self, mut later: NewTables) {
        self.tables.append(&mut later.tables);
    }

    /// Keeps the files: a list names them now, or may do so.
    pub fn keep(&mut self) {
        self.tables.clear();
    }
}

impl Drop for NewTables {
    fn drop(&mut self) {
        for table in &self.tables {
            // The file is removed with the last handle of the table.
            table.is_deleted.store(true, Ordering::Release);
        }
    }
}

/// A file that is being written; removed unless it becomes a table.
struct UnfinishedFile {
    path: PathBuf,
    is_finished: bool,
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // A file that remains is removed when the trees are opened.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Table that is being written.
struct OpenTable {
    writer: Writer,
    file: UnfinishedFile,
    bytes: u64,
}

/// See the head of this file.
pub(super) struct TableWriter<'a> {
    trees: &'a LsmTrees,
    layout: TableLayout,
    bytes_max: u64,
    open: Option<OpenTable>,
    finished: NewTables,
}

impl<'a> TableWriter<'a> {
    /// Creates a writer. It creates no file before the first row.
    pub fn new(trees: &'a LsmTrees, layout: TableLayout) -> TableWriter<'a> {
        let bytes_max = trees.settings.merged_table_bytes();
        TableWriter { trees, layout, bytes_max, open: None, finished: NewTables::default() }
    }

    /// Writes a row behind all earlier ones.
    pub fn write(&mut self, row: InternalValue) -> lsm_tree::Result<()> {
        #[cfg(test)]
        super::tests::full_disk::take_space()?;
        if self.open.as_ref().is_none_or(|table| table.bytes >= self.bytes_max) {
            let full = self.open.take();
            self.finish_table(full)?;
            self.open = Some(self.create_table()?);
        }
        let Some(table) = &mut self.open else { return Ok(()) };
        table.bytes += (row.key.user_key.len() + row.value.len()) as u64 + ROW_OVERHEAD_BYTES;
        table.writer.write(row)
    }

    /// Ends the last table, and returns all of them.
    pub fn finish(mut self) -> lsm_tree::Result<NewTables> {
        let last = self.open.take();
        self.finish_table(last)?;
        Ok(self.finished)
    }

    fn create_table(&self) -> lsm_tree::Result<OpenTable> {
        let id: TableId = self.trees.next_table_id.fetch_add(1, Ordering::Relaxed);
        let path = self.trees.settings.path.join(TABLES).join(id.to_string());
        let file = UnfinishedFile { path: path.clone(), is_finished: false };
        let writer = Writer::new(path, id, 0)?;
        let writer = match self.layout {
            TableLayout::Unmerged => writer,
            TableLayout::Merged => {
                writer.use_data_block_compression(CompressionType::Lz4).use_partitioned_index()
            }
        };
        Ok(OpenTable { writer, file, bytes: 0 })
    }

    fn finish_table(&mut self, table: Option<OpenTable>) -> lsm_tree::Result<()> {
        let Some(OpenTable { writer, mut file, .. }) = table else { return Ok(()) };
        let Some((_, checksum)) = writer.finish()? else { return Ok(()) };
        let table = self.trees.tables.open(&file.path, checksum.into_u128())?;
        file.is_finished = true;
        self.finished.tables.push(table);
        Ok(())
    }
}

/// Caches that all open tables share.
pub(super) struct TableCaches {
    pub blocks: std::sync::Arc<lsm_tree::Cache>,
    pub files: std::sync::Arc<lsm_tree::DescriptorTable>,
}

impl TableCaches {
    /// Opens a table file. Its filter stays in memory, and the upper part of its block index.
    pub fn open(&self, path: &Path, checksum: u128) -> lsm_tree::Result<Table> {
        let checksum = lsm_tree::Checksum::from_raw(checksum);
        let (blocks, files) = (self.blocks.clone(), Some(self.files.clone()));
        // One tree only uses these caches, so its number is arbitrary.
        Table::recover(path.to_path_buf(), checksum, 0, 0, blocks, files, true, true)
    }
}
