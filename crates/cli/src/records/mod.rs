//! Records in files: what `import` reads and `export` writes.
//!
//! Four formats: `tsv` (key, tab, value, with escapes), `jsonl` (an object a line), `csv` (rows of
//! columns that the first row names) and `raw` (lengths and bytes, the fastest and the only one
//! that needs no escapes).
//!
//! Promises: what a format's writer wrote, its reader reads back, whatever the bytes; a record that
//! is none is named by its line (in `raw`: by its number) and never guessed at; memory stays
//! bounded by the house's limits.
//! Never: talks to a node.
//! Read next: `batch.rs`, then `tsv.rs`.

mod batch;
mod csv;
mod jsonl;
mod raw;
mod tail;
mod tsv;

#[cfg(test)]
mod tests;

pub use batch::RecordBatch;
use csv::Table;
pub use jsonl::FieldNames;
pub use tail::Tail;
pub use tsv::unescape;

use base::limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::io::{self, BufRead, Write};

/// Longest line: a record at its limits with every byte escaped, and some air.
const LINE_BYTES_MAX: usize = 6 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) + 4_096;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One line a record: key, tab, value; `\t \n \r \\ \xNN` escaped
    Tsv,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values; the first row names the columns
    Csv,
    /// Binary: `credraw1`, then for each record two lengths (4 bytes, little-endian), key, value
    Raw,
}

/// Why reading stopped, or what was wrong with one record.
#[derive(Debug)]
pub enum Fault {
    /// This record is none; reading can go on behind it.
    Record(String),
    /// Nothing more can be read.
    End(String),
}

impl Fault {
    /// The fault, in words.
    pub fn text(&self) -> &str {
        match self {
            Fault::Record(text) | Fault::End(text) => text,
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::End(error.to_string())
    }
}

/// Returns a record as it stands in a file of the format `raw`.
pub fn raw_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(8 + key.len() + value.len());
    raw::write(&mut record, key, value).expect("memory takes everything within the limits");
    record
}

/// Reads records one after the other.
pub struct Reader<R> {
    from: R,
    format: Format,
    fields: FieldNames,
    line: Vec<u8>,
    offset: u64,
    /// Number of the last record or line.
    number: u64,
    /// Lines that ended before `offset`; in `raw`: records.
    lines: u64,
    table: Table,
    /// The first row of a CSV file as it stands there.
    head: Vec<u8>,
    is_whole: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads from the beginning. `fields` matter to `jsonl` and `csv`.
    pub fn new(from: R, format: Format, fields: FieldNames) -> Reader<R> {
        let table = Table::new(fields.delimiter);
        let (line, head) = (Vec::new(), Vec::new());
        let (offset, number, lines) = (0, 0, 0);
        Reader { from, format, fields, line, offset, number, lines, table, head, is_whole: true }
    }

    /// Goes on behind `offset` bytes and `number` records (or lines) that were read before; `from`
    /// must stand there already.
    pub fn skipped_to(mut self, offset: u64, number: u64) -> Reader<R> {
        self.offset = offset;
        self.number = number;
        self.lines = number;
        self
    }

    /// Reads what stands before the first record; `false`: nothing at all.
    pub fn read_head(&mut self) -> Result<bool, Fault> {
        if self.format != Format::Csv || self.table.has_columns() {
            return Ok(true);
        }
        if !self.read_row()? {
            return Ok(false);
        }
        self.table.take_columns(&self.fields).map_err(Fault::End)?;
        self.head = self.line.clone();
        Ok(true)
    }

    /// Passes over what was read before, up to `offset` bytes and `lines` from the beginning.
    pub fn pass_over(&mut self, offset: u64, lines: u64) -> io::Result<()> {
        let bytes = offset.saturating_sub(self.offset);
        let passed = io::copy(&mut io::Read::take(&mut self.from, bytes), &mut io::sink())?;
        if passed < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.offset, self.lines) = (self.offset + bytes, self.lines.max(lines));
        Ok(())
    }

    /// Returns the bytes before the first record of every file with the same columns.
    pub fn head(&self) -> &[u8] {
        match self.format {
            Format::Raw => raw::HEAD,
            _ => &self.head,
        }
    }

    /// The last record as it stands in the input, its line end included; nothing in `raw`.
    pub fn text(&self) -> &[u8] {
        &self.line
    }

    /// Lines that are read to their end; in `raw`: records.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether what was read last is there to its end: a line may lack it at the end of the file.
    pub fn is_whole(&self) -> bool {
        match self.format {
            Format::Raw => true,
            Format::Csv => self.is_whole,
            Format::Tsv | Format::Jsonl => self.line.last() == Some(&b'\n'),
        }
    }

    /// True if the input ends within what was read last, or within what could not be read.
    pub fn is_torn(&mut self) -> bool {
        !self.is_whole() && self.from.fill_buf().is_ok_and(<[u8]>::is_empty)
    }

    /// Number of the last record or line read, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next record into the batch; `false`: there is none.
    pub fn read(&mut self, batch: &mut RecordBatch) -> Result<bool, Fault> {
        match self.format {
            Format::Raw => return self.read_raw(batch),
            Format::Csv => return self.read_csv(batch),
            Format::Tsv | Format::Jsonl => {}
        }
        loop {
            self.line.clear();
            let most = LINE_BYTES_MAX as u64;
            let length = io::Read::take(&mut self.from, most).read_until(b'\n', &mut self.line)?;
            if length == 0 {
                return Ok(false);
            }
            self.offset += length as u64;
            self.number += 1;
            self.lines = self.number;
            if length == LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
                return Err(Fault::End(format!("a line is longer than {LINE_BYTES_MAX} bytes")));
            }
            let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            if line.is_empty() {
                continue;
            }
            let record = match self.format {
                Format::Tsv => tsv::read(line, batch),
                _ => jsonl::read(line, &self.fields, batch),
            };
            record.and_then(|()| batch.close(self.number)).map_err(|what| {
                batch.reopen();
                Fault::Record(what)
            })?;
            return Ok(true);
        }
    }

    fn read_csv(&mut self, batch: &mut RecordBatch) -> Result<bool, Fault> {
        if !self.read_head()? || !self.read_row()? {
            return Ok(false);
        }
        self.table.take_record(batch).and_then(|()| batch.close(self.number)).map_err(|what| {
            batch.reopen();
            Fault::Record(what)
        })?;
        Ok(true)
    }

    /// Reads a row of a CSV file; `false`: there is none.
    fn read_row(&mut self) -> Result<bool, Fault> {
        // What is wrong with a row is wrong with the line in which it begins.
        self.number = self.lines + 1;
        self.is_whole = false;
        let taken =
            self.table.read(&mut self.from, &mut self.line).map_err(|fault| match fault {
                Fault::End(what) => Fault::End(format!("line {}: {what}", self.number)),
                record => record,
            })?;
        let Some(taken) = taken else { return Ok(false) };
        self.number = self.lines + taken.lines_before + 1;
        self.offset += taken.bytes;
        self.lines += taken.lines_before + taken.lines;
        self.is_whole = taken.is_whole;
        Ok(true)
    }

    fn read_raw(&mut self, batch: &mut RecordBatch) -> Result<bool, Fault> {
        if self.offset == 0 {
            self.offset = raw::read_head(&mut self.from)?;
        }
        let Some(length) = raw::read(&mut self.from, batch)? else { return Ok(false) };
        self.offset += length;
        self.number += 1;
        self.lines = self.number;
        batch.close(self.number).map_err(Fault::End)?;
        Ok(true)
    }
}

/// Writes records one after the other.
pub struct Writer<W> {
    to: W,
    format: Format,
    fields: FieldNames,
    begun: bool,
}

impl<W: Write> Writer<W> {
    /// Nothing is written before the first record or `finish`.
    pub fn new(to: W, format: Format, fields: FieldNames) -> Writer<W> {
        Writer { to, format, fields, begun: false }
    }

    /// Goes on behind records that are there already.
    pub fn behind_others(mut self) -> Writer<W> {
        self.begun = true;
        self
    }

    /// One record.
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.begin()?;
        match self.format {
            Format::Tsv => tsv::write(&mut self.to, key, value),
            Format::Jsonl => jsonl::write(&mut self.to, &self.fields, key, value),
            Format::Csv => csv::write(&mut self.to, self.fields.delimiter, key, value),
            Format::Raw => raw::write(&mut self.to, key, value),
        }
    }

    /// The end: everything is handed to the system.
    pub fn finish(mut self) -> io::Result<()> {
        self.begin()?;
        self.to.flush()
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.begun {
            return Ok(());
        }
        self.begun = true;
        match self.format {
            Format::Raw => raw::write_head(&mut self.to),
            Format::Csv => csv::write_head(&mut self.to, &self.fields),
            Format::Tsv | Format::Jsonl => Ok(()),
        }
    }
}
