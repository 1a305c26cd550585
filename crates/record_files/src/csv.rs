//! Format `csv`: a record is a row of a CSV file whose first row names the columns.
//!
//! It follows RFC 4180, with any delimiter: a quoted field may contain delimiters, line ends and
//! doubled quotes. A library provides the parser's automaton; this module feeds it, enforces the
//! limits, and builds a key and a value from its fields.

use super::{Fault, FieldNames, LINE_BYTES_MAX, RecordBatch};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use serde_json::{Map, Value};
use std::io::{self, BufRead, Write};

/// Maximum number of columns: far more than any table has, with little memory.
const COLUMNS_MAX: usize = 10_000;

/// Parser of the rows of a CSV file.
pub struct Table {
    automaton: Reader,
    /// Fields of the current row, concatenated.
    bytes: Vec<u8>,
    /// Ends of the fields; the first `count` are valid.
    ends: Vec<usize>,
    count: usize,
    columns: Option<Columns>,
}

/// Names of the columns, and the columns that form a record.
struct Columns {
    names: Vec<String>,
    key: usize,
    /// Column of the value. `None`: the whole row, as a JSON object.
    value: Option<usize>,
}

/// Amount of input that one row consumed.
pub struct CsvInput {
    /// Number of bytes, including blank lines before the row.
    pub bytes: u64,
    /// Number of lines that ended before the row.
    pub lines_before: u64,
    /// Number of lines that ended inside the row or at its end.
    pub lines: u64,
    /// True if the row has a line end. False: the input ended first.
    pub is_complete: bool,
}

impl Table {
    /// Returns a parser before the first row.
    pub fn new(delimiter: u8) -> Table {
        Table {
            automaton: ReaderBuilder::new().delimiter(delimiter).build(),
            bytes: vec![0; 4_096],
            ends: vec![0; 64],
            count: 0,
            columns: None,
        }
    }

    /// Returns true once the names of the columns were read.
    pub fn has_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// Reads a row, and copies its input to `text`. Returns `None` at the end of the input.
    pub fn read(
        &mut self,
        source: &mut impl BufRead,
        text: &mut Vec<u8>,
    ) -> Result<Option<CsvInput>, Fault> {
        let mut consumed = CsvInput { bytes: 0, lines_before: 0, lines: 0, is_complete: true };
        text.clear();
        // Skip blank lines here, so that the number of the row's first line is known. The second
        // byte of `\r\n` looks like a blank line, because the automaton ends a row at the first.
        while let Some(byte @ (b'\n' | b'\r')) = source.fill_buf()?.first() {
            consumed.lines_before += u64::from(*byte == b'\n');
            consumed.bytes += 1;
            source.consume(1);
        }
        let (mut written, mut ended) = (0, 0);
        loop {
            let input = source.fill_buf()?;
            consumed.is_complete = !input.is_empty();
            if !consumed.is_complete && text.is_empty() {
                return Ok(None);
            }
            // Add a line end to a last row without one. If the automaton does not end the row
            // there, the line end is inside quotes.
            let input = if consumed.is_complete { input } else { b"\n" };
            let (result, read, wrote, ends) = self.automaton.read_record(
                input,
                &mut self.bytes[written..],
                &mut self.ends[ended..],
            );
            if consumed.is_complete {
                text.extend_from_slice(&input[..read]);
                source.consume(read);
                consumed.bytes += read as u64;
            }
            (written, ended) = (written + wrote, ended + ends);
            match result {
                ReadRecordResult::Record => break,
                ReadRecordResult::End => return Ok(None),
                ReadRecordResult::InputEmpty if !consumed.is_complete => {
                    return Err(Fault::End("a quote is not closed".into()));
                }
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.bytes.resize(self.bytes.len() * 2, 0),
                ReadRecordResult::OutputEndsFull if ended < COLUMNS_MAX => {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                ReadRecordResult::OutputEndsFull => {
                    let what = format!("a row has more than {COLUMNS_MAX} fields");
                    return Err(Fault::End(what));
                }
            }
            if text.len() > LINE_BYTES_MAX {
                let most = LINE_BYTES_MAX;
                let what = format!("a row is longer than {most} bytes: is a quote not closed?");
                return Err(Fault::End(what));
            }
        }
        self.count = ended;
        consumed.lines = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        Ok(Some(consumed))
    }

    /// Parses the current row as the names of the columns.
    pub fn parse_columns(&mut self, fields: &FieldNames) -> Result<(), String> {
        let mut names: Vec<String> = Vec::with_capacity(self.count);
        for field in (0..self.count).map(|at| self.field(at)) {
            let name = std::str::from_utf8(field).map_err(|_| "a column's name is not UTF-8")?;
            if names.iter().any(|other| other == name) {
                return Err(format!("the column `{name}` stands there twice"));
            }
            names.push(name.into());
        }
        let find = |column: &str, flag: &str| {
            let found = names.iter().position(|name| name == column);
            found.ok_or_else(|| {
                let all = names.join(", ");
                format!(
                    "the first row names no column `{column}`; it names {all}: choose one with \
                     {flag} (if that is one name, is --delimiter right?)"
                )
            })
        };
        let key = find(&fields.key, "--key-column")?;
        let value = match fields.value.as_str() {
            "." => None,
            name => Some(find(name, "--value-column, or --value-json for the whole row")?),
        };
        self.columns = Some(Columns { names, key, value });
        Ok(())
    }

    /// Appends the current row to the batch as a record.
    pub fn append_record(&self, batch: &mut RecordBatch) -> Result<(), String> {
        let Some(columns) = &self.columns else { return Err("no columns are named".into()) };
        let (count, named) = (self.count, columns.names.len());
        if count != named {
            return Err(format!("the row has {count} fields, and {named} columns are named"));
        }
        batch.buffer().extend_from_slice(self.field(columns.key));
        batch.end_key();
        match columns.value {
            Some(at) => batch.buffer().extend_from_slice(self.field(at)),
            None => self.append_object(&columns.names, batch.buffer())?,
        }
        Ok(())
    }

    /// Appends the current row as a JSON object of strings.
    fn append_object(&self, names: &[String], sink: &mut Vec<u8>) -> Result<(), String> {
        let mut object = Map::new();
        for (at, name) in names.iter().enumerate() {
            let text = std::str::from_utf8(self.field(at));
            let text = text.map_err(|_| format!("the field `{name}` is not UTF-8"))?;
            object.insert(name.clone(), text.into());
        }
        serde_json::to_writer(sink, &Value::Object(object)).map_err(|error| error.to_string())
    }

    fn field(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[at]]
    }
}

/// Writes the row with the names of the columns.
pub fn write_head(sink: &mut impl Write, fields: &FieldNames) -> io::Result<()> {
    write(sink, fields.delimiter, fields.key.as_bytes(), fields.value.as_bytes())
}

/// Writes a row.
pub fn write(sink: &mut impl Write, delimiter: u8, key: &[u8], value: &[u8]) -> io::Result<()> {
    write_field(sink, delimiter, key)?;
    sink.write_all(&[delimiter])?;
    write_field(sink, delimiter, value)?;
    sink.write_all(b"\n")
}

fn write_field(sink: &mut impl Write, delimiter: u8, bytes: &[u8]) -> io::Result<()> {
    let special = |byte: &u8| matches!(*byte, b'"' | b'\n' | b'\r') || *byte == delimiter;
    if !bytes.iter().any(special) {
        return sink.write_all(bytes);
    }
    sink.write_all(b"\"")?;
    for (at, part) in bytes.split(|byte| *byte == b'"').enumerate() {
        if at > 0 {
            sink.write_all(b"\"\"")?;
        }
        sink.write_all(part)?;
    }
    sink.write_all(b"\"")
}
