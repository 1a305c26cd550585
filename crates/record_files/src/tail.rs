//! Position at which to continue a file of records that was cut off.

use super::{Fault, FieldNames, Format, Reader, RecordBatch, raw};
use std::io::BufRead;

/// End of the last complete record.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Offset of that end in bytes.
    pub offset: u64,
    /// Number of complete records.
    pub records: u64,
    /// Key of the last record. `None`: there is no record.
    pub key: Option<Vec<u8>>,
    /// Tail before the first record with that key.
    before_last_key: Option<Box<Tail>>,
}

impl Tail {
    /// Reads a whole file. Fails on an invalid record before the end, with its number: `export` did
    /// not write such a file.
    pub fn read(source: impl BufRead, format: Format, fields: FieldNames) -> Result<Tail, String> {
        let mut reader = Reader::new(source, format, fields);
        let (mut tail, mut batch) = (Tail::default(), RecordBatch::default());
        loop {
            batch.clear();
            let read = reader.read(&mut batch);
            match read {
                Ok(true) | Err(Fault::Record(_)) if !reader.is_complete() => return Ok(tail),
                Err(Fault::End(description)) if description == raw::TRUNCATED => return Ok(tail),
                // Truncated inside the names of the columns, or inside quotes.
                Err(Fault::End(_)) if format == Format::Csv && reader.is_torn() => return Ok(tail),
                Ok(false) => return Ok(tail),
                Ok(true) => {
                    let key = batch.iter().next().map(|(key, ..)| key.to_vec());
                    if key != tail.key {
                        let before = Tail { before_last_key: None, ..std::mem::take(&mut tail) };
                        tail.records = before.records;
                        tail.before_last_key = Some(Box::new(before));
                    }
                    tail.offset = reader.offset();
                    tail.records += 1;
                    tail.key = key;
                }
                Err(Fault::Record(description) | Fault::End(description)) => {
                    return Err(format!("record {}: {description}", reader.number()));
                }
            }
        }
    }

    /// Returns the end of the records before those with the last key.
    pub fn without_last_key(self) -> Tail {
        self.before_last_key.map_or_else(Tail::default, |before| *before)
    }
}
