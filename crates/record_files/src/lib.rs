//! Records in files, which `import` reads and `export` writes.
//!
//! Four formats: `tsv` (key, tab, value, with escapes), `jsonl` (one object per line), `csv` (rows
//! of columns that the first row names) and `raw` (lengths and bytes, the fastest, and the only one
//! without escapes).
//!
//! Promises: a format's reader reads back every byte that its writer wrote; an invalid record is
//! reported by its line (in `raw`: by its number) and never guessed; memory is bounded by the
//! limits.
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

/// Maximum length of a line in bytes: a record at its limits with every byte escaped, plus a
/// reserve.
const LINE_BYTES_MAX: usize = 6 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) + 4_096;

/// Format of records in a file.
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

/// Error of reading: one invalid record, or the end of reading.
#[derive(Debug)]
pub enum Fault {
    /// Error in one record; reading can go on with the next.
    Record(String),
    /// Error that ends reading.
    End(String),
}

impl Fault {
    /// Returns the text of the error.
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

/// Returns a record as it is in a file of the format `raw`.
pub fn raw_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(8 + key.len() + value.len());
    raw::write(&mut record, key, value).expect("memory takes everything within the limits");
    record
}

/// Reader of records.
pub struct Reader<R> {
    source: R,
    format: Format,
    fields: FieldNames,
    line: Vec<u8>,
    offset: u64,
    /// Number of the last record or line.
    number: u64,
    /// Number of lines that ended before `offset`; in `raw`, of records.
    lines: u64,
    table: Table,
    /// First row of a CSV file, unparsed.
    head: Vec<u8>,
    is_complete: bool,
}

impl<R: BufRead> Reader<R> {
    /// Returns a reader at the beginning. `fields` applies to `jsonl` and `csv`.
    pub fn new(source: R, format: Format, fields: FieldNames) -> Reader<R> {
        let table = Table::new(fields.delimiter);
        let (line, head) = (Vec::new(), Vec::new());
        let (offset, number, lines) = (0, 0, 0);
        Reader {
            source,
            format,
            fields,
            line,
            offset,
            number,
            lines,
            table,
            head,
            is_complete: true,
        }
    }

    /// Returns a reader that continues behind `offset` bytes and `number` records (or lines) read
    /// before. `source` must be at that position.
    pub fn at_position(mut self, offset: u64, number: u64) -> Reader<R> {
        self.offset = offset;
        self.number = number;
        self.lines = number;
        self
    }

    /// Reads the part before the first record. Returns false if the input is empty.
    pub fn read_head(&mut self) -> Result<bool, Fault> {
        if self.format != Format::Csv || self.table.has_columns() {
            return Ok(true);
        }
        if !self.read_row()? {
            return Ok(false);
        }
        self.table.parse_columns(&self.fields).map_err(Fault::End)?;
        self.head = self.line.clone();
        Ok(true)
    }

    /// Skips input that was read before, up to `offset` bytes and `lines` from the beginning.
    pub fn skip_to(&mut self, offset: u64, lines: u64) -> io::Result<()> {
        let bytes = offset.saturating_sub(self.offset);
        let passed = io::copy(&mut io::Read::take(&mut self.source, bytes), &mut io::sink())?;
        if passed < bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.offset, self.lines) = (self.offset + bytes, self.lines.max(lines));
        Ok(())
    }

    /// Returns the bytes before the first record, the same for every file with these columns.
    pub fn head(&self) -> &[u8] {
        match self.format {
            Format::Raw => raw::HEAD,
            _ => &self.head,
        }
    }

    /// Returns the last record in the format of the input, including its line end. Empty in `raw`.
    pub fn text(&self) -> &[u8] {
        &self.line
    }

    /// Returns the number of lines that were read to their end; in `raw`, of records.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the number of bytes read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns true if the last record is complete. A last line may lack its end at the end of the
    /// file.
    pub fn is_complete(&self) -> bool {
        match self.format {
            Format::Raw => true,
            Format::Csv => self.is_complete,
            Format::Tsv | Format::Jsonl => self.line.last() == Some(&b'\n'),
        }
    }

    /// Returns true if the input ends inside the last record, or inside one that could not be read.
    pub fn is_torn(&mut self) -> bool {
        !self.is_complete() && self.source.fill_buf().is_ok_and(<[u8]>::is_empty)
    }

    /// Returns the number of the last record or line read, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next record into the batch. Returns false at the end of the input.
    pub fn read(&mut self, batch: &mut RecordBatch) -> Result<bool, Fault> {
        match self.format {
            Format::Raw => return self.read_raw(batch),
            Format::Csv => return self.read_csv(batch),
            Format::Tsv | Format::Jsonl => {}
        }
        loop {
            self.line.clear();
            let limit = LINE_BYTES_MAX as u64;
            let length =
                io::Read::take(&mut self.source, limit).read_until(b'\n', &mut self.line)?;
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
            record.and_then(|()| batch.end_record(self.number)).map_err(|reason| {
                batch.discard_record();
                Fault::Record(reason)
            })?;
            return Ok(true);
        }
    }

    fn read_csv(&mut self, batch: &mut RecordBatch) -> Result<bool, Fault> {
        if !self.read_head()? || !self.read_row()? {
            return Ok(false);
        }
        self.table.append_record(batch).and_then(|()| batch.end_record(self.number)).map_err(
            |reason| {
                batch.discard_record();
                Fault::Record(reason)
            },
        )?;
        Ok(true)
    }

    /// Reads a row of a CSV file. Returns false at the end of the input.
    fn read_row(&mut self) -> Result<bool, Fault> {
        // An error in a row is reported at the line in which the row begins.
        self.number = self.lines + 1;
        self.is_complete = false;
        let consumed =
            self.table.read(&mut self.source, &mut self.line).map_err(|fault| match fault {
                Fault::End(what) => Fault::End(format!("line {}: {what}", self.number)),
                record => record,
            })?;
        let Some(consumed) = consumed else { return Ok(false) };
        self.number = self.lines + consumed.lines_before + 1;
        self.offset += consumed.bytes;
        self.lines += consumed.lines_before + consumed.lines;
        self.is_complete = consumed.is_complete;
        Ok(true)
    }

    fn read_raw(&mut self, batch: &mut RecordBatch) -> Result<bool, Fault> {
        if self.offset == 0 {
            self.offset = raw::read_head(&mut self.source)?;
        }
        let Some(length) = raw::read(&mut self.source, batch)? else { return Ok(false) };
        self.offset += length;
        self.number += 1;
        self.lines = self.number;
        batch.end_record(self.number).map_err(Fault::End)?;
        Ok(true)
    }
}

/// Writer of records.
pub struct Writer<W> {
    sink: W,
    format: Format,
    fields: FieldNames,
    head_written: bool,
}

impl<W: Write> Writer<W> {
    /// Returns a writer. It writes nothing before the first record or `finish`.
    pub fn new(sink: W, format: Format, fields: FieldNames) -> Writer<W> {
        Writer { sink, format, fields, head_written: false }
    }

    /// Continues behind existing records.
    pub fn after_existing_records(mut self) -> Writer<W> {
        self.head_written = true;
        self
    }

    /// Writes a record.
    pub fn write(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.begin()?;
        match self.format {
            Format::Tsv => tsv::write(&mut self.sink, key, value),
            Format::Jsonl => jsonl::write(&mut self.sink, &self.fields, key, value),
            Format::Csv => csv::write(&mut self.sink, self.fields.delimiter, key, value),
            Format::Raw => raw::write(&mut self.sink, key, value),
        }
    }

    /// Writes the head if there were no records, and flushes.
    pub fn finish(mut self) -> io::Result<()> {
        self.begin()?;
        self.sink.flush()
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.head_written {
            return Ok(());
        }
        self.head_written = true;
        match self.format {
            Format::Raw => raw::write_head(&mut self.sink),
            Format::Csv => csv::write_head(&mut self.sink, &self.fields),
            Format::Tsv | Format::Jsonl => Ok(()),
        }
    }
}
