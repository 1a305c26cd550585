//! Tests that formats read back what they wrote, and report invalid records.

use super::*;

fn read_all(text: &[u8], format: Format, fields: FieldNames) -> (RecordBatch, Vec<(u64, String)>) {
    let (mut batch, mut faults) = (RecordBatch::default(), Vec::new());
    let mut reader = Reader::new(text, format, fields);
    loop {
        match reader.read(&mut batch) {
            Ok(true) => {}
            Ok(false) => return (batch, faults),
            Err(Fault::Record(what)) => faults.push((reader.number(), what)),
            Err(Fault::End(what)) => {
                faults.push((reader.number(), format!("end: {what}")));
                return (batch, faults);
            }
        }
    }
}

fn pairs(batch: &RecordBatch) -> Vec<(&[u8], &[u8])> {
    batch.iter().map(|(key, value, _)| (key, value)).collect()
}

#[test]
fn records_of_any_bytes_round_trip_in_every_format() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let records: [(&[u8], &[u8]); 5] = [
        (b"plain", b"text"),
        (b"", b""),
        (&all_bytes, &all_bytes),
        ("schlüssel\t\"\\".as_bytes(), b"{\"base64\": \"eA==\"}"),
        (b"a\nb", b"\r\n"),
    ];
    for format in [Format::Tsv, Format::Jsonl, Format::Csv, Format::Raw] {
        let mut text = Vec::new();
        let mut writer = Writer::new(&mut text, format, FieldNames::default());
        for (key, value) in records {
            writer.write(key, value).expect("memory takes everything");
        }
        writer.finish().expect("memory takes everything");
        let (batch, faults) = read_all(&text, format, FieldNames::default());
        assert_eq!(pairs(&batch), records, "{format:?}");
        assert!(faults.is_empty(), "{format:?}: {faults:?}");
        assert_eq!(batch.len(), records.len());
    }
}

#[test]
fn invalid_lines_are_reported_and_valid_ones_are_read() {
    let text = b"a\t1\nno tab\n\nb\\q\t2\nc\\x4\t3\nd\\x41\t4\te";
    let (batch, faults) = read_all(text, Format::Tsv, FieldNames::default());
    assert_eq!(pairs(&batch), [(&b"a"[..], &b"1"[..]), (b"dA", b"4\te")]);
    let lines: Vec<u64> = faults.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 4, 5]);
    assert_eq!(batch.iter().map(|(_, _, number)| number).collect::<Vec<_>>(), [1, 6]);
}

#[test]
fn json_lines_use_the_configured_fields() {
    let text = br#"{"id": 7, "body": {"a": 1.50}, "more": [{}]}
{"id": "x\u00e9", "body": "text"}
{"body": 1}
{"id": "a", "id": "b", "body": 1}
{"id": {"base64": "!"}, "body": 1}
{"id": {"base64": "/w=="}, "body": 1} x
not json
[1]
{"id": {"base64": "/w=="}, "body": 1}"#;
    let field_names = |key: &str, value: &str| table(key, value, b',');
    let (batch, faults) = read_all(text, Format::Jsonl, field_names("id", "body"));
    let expected: [(&[u8], &[u8]); 3] =
        [(b"7", br#"{"a": 1.50}"#), ("xé".as_bytes(), b"text"), (b"\xff", b"1")];
    assert_eq!(pairs(&batch), expected);
    let lines: Vec<u64> = faults.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7, 8], "{faults:?}");
    let (batch, _) = read_all(text, Format::Jsonl, field_names("id", "."));
    assert_eq!(pairs(&batch)[1].1, br#"{"id": "x\u00e9", "body": "text"}"#);
}

#[test]
fn json_error_names_the_column_and_not_the_line() {
    let (_, faults) =
        read_all(b"{\"key\": \"a\", \"value\":", Format::Jsonl, FieldNames::default());
    assert_eq!(faults.len(), 1);
    let (line, what) = &faults[0];
    assert!(*line == 1 && what.contains("at column") && !what.contains("line"), "{what}");
}

fn table(key: &str, value: &str, delimiter: u8) -> FieldNames {
    FieldNames { key: key.into(), value: value.into(), delimiter }
}

#[test]
fn csv_columns_are_found_by_name_in_any_order() {
    let text = "\u{feff}id;name;city\r\n1;\"Ada; \"\"A\"\"\";London\r\n\r\n2;Grace\r\n\
                3;\"two\nlines\";Arlington\n4;\u{c5}sa;\u{c5}rhus";
    let (batch, faults) = read_all(text.as_bytes(), Format::Csv, table("id", "name", b';'));
    let expected: [(&[u8], &[u8]); 3] =
        [(b"1", b"Ada; \"A\""), (b"3", b"two\nlines"), (b"4", "\u{c5}sa".as_bytes())];
    assert_eq!(pairs(&batch), expected);
    // The number of a record is that of its first line, whatever line ends it contains.
    assert_eq!(batch.iter().map(|(_, _, line)| line).collect::<Vec<_>>(), [2, 5, 7]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0].0, 4);
    assert!(faults[0].1.contains("2 fields, and 3 columns"), "{faults:?}");
    let (batch, _) = read_all(text.as_bytes(), Format::Csv, table("city", ".", b';'));
    let row_json = r#"{"id":"1","name":"Ada; \"A\"","city":"London"}"#;
    assert_eq!(pairs(&batch)[0], (&b"London"[..], row_json.as_bytes()));
}

#[test]
fn unreadable_csv_error_names_the_remedy() {
    let first_error = |text: &str, fields: FieldNames| {
        let (batch, faults) = read_all(text.as_bytes(), Format::Csv, fields);
        assert!(batch.is_empty());
        faults.into_iter().next().map(|(_, what)| what).unwrap_or_default()
    };
    let said = first_error("id,name\n1,Ada\n", table("key", "name", b','));
    for word in ["no column `key`", "id, name", "--key-column"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let said = first_error("id,name\n1,Ada\n", table("id", "value", b','));
    assert!(said.contains("--value-column"), "{said}");
    assert!(first_error("id;name\n", table("id", "name", b',')).contains("--delimiter"));
    assert!(first_error("id,id\n", table("id", "id", b',')).contains("twice"));
    assert!(
        first_error("key,value\na,\"1\n2\n", FieldNames::default())
            .contains("line 2: a quote is not")
    );
    assert_eq!(first_error("", FieldNames::default()), "");
    assert_eq!(first_error("key,value", FieldNames::default()), "");
}

#[test]
fn tail_of_truncated_csv_ends_after_last_whole_row() {
    let text = b"key,value\na,\"1\n1\"\nb,\"\"\"\"\nc,3\n";
    let row_ends = [10, 18, 25, 29];
    for cut in 0..=text.len() {
        let tail =
            Tail::read(&text[..cut], Format::Csv, FieldNames::default()).expect("it is ours");
        // Without a complete row the file begins again at its first line.
        let end = row_ends.iter().rev().find(|end| **end <= cut && **end > 10).copied();
        assert_eq!(tail.offset, end.unwrap_or(0) as u64, "cut at {cut}");
    }
    for foreign in ["id,name\n1,Ada\n", "key,value\na\nb,2\n", "a,b\n"] {
        let tail = Tail::read(foreign.as_bytes(), Format::Csv, FieldNames::default());
        assert!(tail.is_err(), "{foreign}");
    }
}

#[test]
fn tail_without_last_key_drops_all_its_trailing_records() {
    let tail = |text: &str| {
        let tail = Tail::read(text.as_bytes(), Format::Tsv, FieldNames::default()).expect("ours");
        let Tail { offset, records, key, .. } = tail.without_last_key();
        (offset, records, key)
    };
    assert_eq!(tail("a\t1\nb\t1\nb\t2\nb\t"), (4, 1, Some(b"a".to_vec())));
    assert_eq!(tail("b\t1\nb\t2\n"), (0, 0, None));
    assert_eq!(tail(""), (0, 0, None));
}

#[test]
fn truncated_or_foreign_raw_file_is_reported() {
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text, Format::Raw, FieldNames::default());
    writer.write(b"key", b"value").expect("memory");
    writer.finish().expect("memory");
    for length in 8..text.len() {
        let (batch, faults) = read_all(&text[..length], Format::Raw, FieldNames::default());
        assert!(batch.is_empty());
        assert_eq!(faults.is_empty(), length == 8, "{length}: {faults:?}");
    }
    assert!(
        read_all(b"a\tb\nc\td\n", Format::Raw, FieldNames::default()).1[0].1.contains("credraw1")
    );
    text[10] = 0xff;
    assert!(read_all(&text, Format::Raw, FieldNames::default()).1[0].1.contains("too large"));
}

#[test]
fn oversized_record_is_reported() {
    let long = [vec![b'k'; KEY_BYTES_MAX + 1], b"\tv\nk\tv\n".to_vec()].concat();
    let (batch, faults) = read_all(&long, Format::Tsv, FieldNames::default());
    assert_eq!((batch.len(), faults.len()), (1, 1));
    assert!(faults[0].1.contains("at most 32768"), "{faults:?}");
}
