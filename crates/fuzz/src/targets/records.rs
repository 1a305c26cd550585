//! Files of import: records of keys and values in all formats.

use crate::input::InputReader;
use record_files::{Fault, FieldNames, Format, Reader, RecordBatch, Writer};

const FORMATS: [Format; 4] = [Format::Tsv, Format::Jsonl, Format::Csv, Format::Raw];

/// Reads a file in one format, writes what was read in each, and reads that.
pub fn run(input: &[u8]) {
    let mut input = InputReader::new(input);
    let (format, file) = (input.choose(&FORMATS), input.rest());
    let records = read(format, file, false);
    if records.is_empty() {
        return;
    }
    for format in FORMATS {
        let mut written = Vec::new();
        let mut writer = Writer::new(&mut written, format, FieldNames::default());
        for (key, value) in &records {
            writer.write(key, value).expect("memory takes all");
        }
        writer.finish().expect("memory takes all");
        assert_eq!(read(format, &written, true), records, "{format:?}");
    }
}

/// Reads all records; those with errors are left out. `is_sound`: there must be none.
fn read(format: Format, file: &[u8], is_sound: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut reader = Reader::new(file, format, FieldNames::default());
    let (mut records, mut offset) = (Vec::new(), 0);
    loop {
        let mut batch = RecordBatch::default();
        let outcome = reader.read(&mut batch);
        assert!(reader.offset() >= offset && reader.offset() <= file.len() as u64);
        match outcome {
            Ok(false) => return records,
            Ok(true) => {
                records.extend(batch.iter().map(|(key, value, _)| (key.to_vec(), value.to_vec())))
            }
            Err(fault) => {
                assert!(!is_sound, "{format:?}: {}", fault.text());
                // An error that is not the end has read something.
                if matches!(fault, Fault::End(_)) || reader.offset() == offset {
                    return records;
                }
            }
        }
        offset = reader.offset();
    }
}
