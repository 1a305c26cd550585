//! Continuation point of a file of records that was cut short.

use super::{Fault, FieldNames, Format, Reader, RecordBatch, raw};
use std::io::BufRead;

/// The end of the last whole record.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tail {
    /// Bytes up to there.
    pub offset: u64,
    /// Whole records.
    pub records: u64,
    /// The last one's key.
    pub key: Option<Vec<u8>>,
    /// The same before the first of the records with that key.
    before: Option<Box<Tail>>,
}

impl Tail {
    /// Reads everything. What is wrong before the end makes it an error, with the record's number:
    /// the file is then none of ours.
    pub fn of(from: impl BufRead, format: Format, fields: FieldNames) -> Result<Tail, String> {
        let mut reader = Reader::new(from, format, fields);
        let (mut tail, mut batch) = (Tail::default(), RecordBatch::default());
        loop {
            batch.clear();
            let read = reader.read(&mut batch);
            match read {
                Ok(true) | Err(Fault::Record(_)) if !reader.is_whole() => return Ok(tail),
                Err(Fault::End(what)) if what == raw::CUT => return Ok(tail),
                // Torn within the names of the columns, or within quotes.
                Err(Fault::End(_)) if format == Format::Csv && reader.is_torn() => return Ok(tail),
                Ok(false) => return Ok(tail),
                Ok(true) => {
                    let key = batch.iter().next().map(|(key, ..)| key.to_vec());
                    if key != tail.key {
                        let before = Tail { before: None, ..std::mem::take(&mut tail) };
                        tail.records = before.records;
                        tail.before = Some(Box::new(before));
                    }
                    tail.offset = reader.offset();
                    tail.records += 1;
                    tail.key = key;
                }
                Err(Fault::Record(what) | Fault::End(what)) => {
                    return Err(format!("record {}: {what}", reader.number()));
                }
            }
        }
    }

    /// The end of the records that stand before those of the last key.
    pub fn without_last_key(self) -> Tail {
        self.before.map_or_else(Tail::default, |before| *before)
    }
}
