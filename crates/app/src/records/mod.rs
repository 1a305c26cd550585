//! Records in files: what `import` reads and `export` writes.
//!
//! Three formats: `tsv` (key, tab, value, with escapes), `jsonl` (an object a line) and `raw`
//! (lengths and bytes, the fastest and the only one that needs no escapes).
//!
//! Promises: what a format's writer wrote, its reader reads back, whatever the bytes; a record that
//! is none is named by its line (in `raw`: by its number) and never guessed at; memory stays
//! bounded by the house's limits.
//! Never: talks to a node.
//! Read next: `batch.rs`, then `tsv.rs`.

mod batch;
mod jsonl;
mod raw;
mod tail;
mod tsv;

#[cfg(test)]
mod tests;

pub use batch::Batch;
pub use jsonl::Fields;
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

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault::End(error.to_string())
    }
}

/// Reads records one after the other.
pub struct Reader<R> {
    from: R,
    format: Format,
    fields: Fields,
    line: Vec<u8>,
    offset: u64,
    number: u64,
}

impl<R: BufRead> Reader<R> {
    /// Reads from the beginning. `fields` matter to `jsonl` alone.
    pub fn new(from: R, format: Format, fields: Fields) -> Reader<R> {
        Reader { from, format, fields, line: Vec::new(), offset: 0, number: 0 }
    }

    /// Goes on behind `offset` bytes and `number` records (or lines) that were read before; `from`
    /// must stand there already.
    pub fn skipped_to(mut self, offset: u64, number: u64) -> Reader<R> {
        self.offset = offset;
        self.number = number;
        self
    }

    /// Bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether what was read last is there to its end: a line may lack it at the end of the file.
    pub fn is_whole(&self) -> bool {
        self.format == Format::Raw || self.line.last() == Some(&b'\n')
    }

    /// Number of the last record or line read, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Reads the next record into the batch; `false`: there is none.
    pub fn read(&mut self, batch: &mut Batch) -> Result<bool, Fault> {
        if self.format == Format::Raw {
            return self.read_raw(batch);
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

    fn read_raw(&mut self, batch: &mut Batch) -> Result<bool, Fault> {
        if self.offset == 0 {
            self.offset = raw::read_head(&mut self.from)?;
        }
        let Some(length) = raw::read(&mut self.from, batch)? else { return Ok(false) };
        self.offset += length;
        self.number += 1;
        batch.close(self.number).map_err(Fault::End)?;
        Ok(true)
    }
}

/// Writes records one after the other.
pub struct Writer<W> {
    to: W,
    format: Format,
    fields: Fields,
    begun: bool,
}

impl<W: Write> Writer<W> {
    /// Nothing is written before the first record or `finish`.
    pub fn new(to: W, format: Format, fields: Fields) -> Writer<W> {
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
            Format::Raw => raw::write(&mut self.to, key, value),
        }
    }

    /// The end: everything is handed to the system.
    pub fn finish(mut self) -> io::Result<()> {
        self.begin()?;
        self.to.flush()
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.begun || self.format != Format::Raw {
            return Ok(());
        }
        self.begun = true;
        raw::write_head(&mut self.to)
    }
}
