//! Formats read back what they wrote, and name what is no record.

use super::*;

fn all(text: &[u8], format: Format, fields: Fields) -> (Batch, Vec<(u64, String)>) {
    let (mut batch, mut faults) = (Batch::default(), Vec::new());
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

fn pairs(batch: &Batch) -> Vec<(&[u8], &[u8])> {
    batch.iter().map(|(key, value, _)| (key, value)).collect()
}

#[test]
fn every_format_reads_back_what_it_wrote_whatever_the_bytes() {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let records: [(&[u8], &[u8]); 5] = [
        (b"plain", b"text"),
        (b"", b""),
        (&all_bytes, &all_bytes),
        ("schlüssel\t\"\\".as_bytes(), b"{\"base64\": \"eA==\"}"),
        (b"a\nb", b"\r\n"),
    ];
    for format in [Format::Tsv, Format::Jsonl, Format::Raw] {
        let mut text = Vec::new();
        let mut writer = Writer::new(&mut text, format, Fields::default());
        for (key, value) in records {
            writer.write(key, value).expect("memory takes everything");
        }
        writer.finish().expect("memory takes everything");
        let (batch, faults) = all(&text, format, Fields::default());
        assert_eq!(pairs(&batch), records, "{format:?}");
        assert!(faults.is_empty(), "{format:?}: {faults:?}");
        assert_eq!(batch.len(), records.len());
    }
}

#[test]
fn wrong_lines_are_named_and_the_others_are_read() {
    let text = b"a\t1\nno tab\n\nb\\q\t2\nc\\x4\t3\nd\\x41\t4\te";
    let (batch, faults) = all(text, Format::Tsv, Fields::default());
    assert_eq!(pairs(&batch), [(&b"a"[..], &b"1"[..]), (b"dA", b"4\te")]);
    let lines: Vec<u64> = faults.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [2, 4, 5]);
    assert_eq!(batch.iter().map(|(_, _, number)| number).collect::<Vec<_>>(), [1, 6]);
}

#[test]
fn json_lines_take_the_fields_they_are_told_to() {
    let text = br#"{"id": 7, "body": {"a": 1.50}, "more": [{}]}
{"id": "x\u00e9", "body": "text"}
{"body": 1}
{"id": "a", "id": "b", "body": 1}
{"id": {"base64": "!"}, "body": 1}
{"id": {"base64": "/w=="}, "body": 1} x
not json
[1]
{"id": {"base64": "/w=="}, "body": 1}"#;
    let named = |key: &str, value: &str| Fields { key: key.into(), value: value.into() };
    let (batch, faults) = all(text, Format::Jsonl, named("id", "body"));
    let wanted: [(&[u8], &[u8]); 3] =
        [(b"7", br#"{"a": 1.50}"#), ("xé".as_bytes(), b"text"), (b"\xff", b"1")];
    assert_eq!(pairs(&batch), wanted);
    let lines: Vec<u64> = faults.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [3, 4, 5, 6, 7, 8], "{faults:?}");
    let (batch, _) = all(text, Format::Jsonl, named("id", "."));
    assert_eq!(pairs(&batch)[1].1, br#"{"id": "x\u00e9", "body": "text"}"#);
}

#[test]
fn a_cut_or_foreign_raw_file_ends_with_a_word() {
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text, Format::Raw, Fields::default());
    writer.write(b"key", b"value").expect("memory");
    writer.finish().expect("memory");
    for length in 8..text.len() {
        let (batch, faults) = all(&text[..length], Format::Raw, Fields::default());
        assert!(batch.is_empty());
        assert_eq!(faults.is_empty(), length == 8, "{length}: {faults:?}");
    }
    assert!(all(b"a\tb\nc\td\n", Format::Raw, Fields::default()).1[0].1.contains("credraw1"));
    text[10] = 0xff;
    assert!(all(&text, Format::Raw, Fields::default()).1[0].1.contains("too large"));
}

#[test]
fn records_beyond_the_limits_are_named() {
    let long = [vec![b'k'; KEY_BYTES_MAX + 1], b"\tv\nk\tv\n".to_vec()].concat();
    let (batch, faults) = all(&long, Format::Tsv, Fields::default());
    assert_eq!((batch.len(), faults.len()), (1, 1));
    assert!(faults[0].1.contains("at most 32768"), "{faults:?}");
}
