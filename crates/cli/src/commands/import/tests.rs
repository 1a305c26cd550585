//! Tests that an import's progress never covers more than was acknowledged.

use super::batches::Input;
use super::progress::ImportProgress;
use super::resume::{InputPosition, Resume};
use super::send::SentBatch;
use super::*;
use base::BucketName;

fn position(offset: u64) -> InputPosition {
    InputPosition { offset, number: offset / 10 }
}

fn input_format(format: Format, errors: Errors, records_max: usize) -> InputFormat {
    let skips = Skips::new(indicatif::ProgressBar::hidden(), None, false).expect("no file");
    let (fields, skips) = (FieldNames::default(), Arc::new(skips));
    InputFormat { format, fields, errors, skips, allows_empty_key: false, records_max }
}

fn sent_batch(number: u64, offset: u64) -> SentBatch {
    SentBatch { number, records: 2, bytes: 20, skipped: 0, end: position(offset) }
}

#[test]
fn batch_acknowledged_early_does_not_advance_resume_position() {
    let mut progress = ImportProgress::new(Some(100), position(10), 2);
    // One lane is ahead of the other.
    progress.add(sent_batch(0, 30));
    progress.add(sent_batch(1, 50));
    progress.add(sent_batch(2, 70));
    assert_eq!(progress.position(), position(10));
    progress.add(sent_batch(0, 30));
    assert_eq!(progress.position(), position(30));
    progress.add(sent_batch(1, 50));
    progress.add(sent_batch(2, 70));
    assert_eq!(progress.position(), position(70));
    assert!(progress.finish().text().starts_with("12 records (120 B)"));
}

#[test]
fn resume_file_restores_its_import_and_refuses_a_different_import() {
    let folder = std::env::temp_dir().join(format!("credenza-resume-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let (file, state) = (folder.join("a.tsv"), folder.join("a.resume"));
    std::fs::write(&file, "x".repeat(100)).expect("a file");
    let open = |file: &Path, format, bucket: &str| {
        let bucket = BucketName::parse(bucket).expect("a name");
        Resume::open(&state, &Input::open(file).expect("there"), format, &bucket)
    };
    let mut resume = open(&file, Format::Tsv, "users").expect("new");
    assert_eq!(resume.position(), InputPosition::default());
    resume.save(position(40), 3).expect("written");
    let reopened = open(&file, Format::Tsv, "users").expect("ours");
    assert_eq!((reopened.position(), reopened.skipped_before()), (position(40), 3));
    // The format of earlier versions.
    let contents = std::fs::read_to_string(&state).expect("written");
    std::fs::write(&state, contents.replace(",\n  \"skipped\": 3", "")).expect("a file");
    assert!(!std::fs::read_to_string(&state).expect("written").contains("skipped"));
    let without_skipped = open(&file, Format::Tsv, "users").expect("ours");
    assert_eq!((without_skipped.position(), without_skipped.skipped_before()), (position(40), 0));
    assert!(open(&file, Format::Raw, "users").is_err());
    assert!(open(&file, Format::Tsv, "others").is_err());
    std::fs::write(&file, "short").expect("a file");
    assert!(open(&file, Format::Tsv, "users").is_err());
    std::fs::write(&state, "{}").expect("a file");
    assert!(open(&file, Format::Tsv, "users").is_err());
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn format_is_derived_from_file_extension() {
    let format_by_name = |name: &str| format_of(None, Path::new(name)).ok();
    assert_eq!(format_by_name("a.tsv"), Some(Format::Tsv));
    assert_eq!(format_by_name("a.JSONL"), Some(Format::Jsonl));
    assert_eq!(format_by_name("a.raw"), Some(Format::Raw));
    assert_eq!(format_by_name("a.CSV"), Some(Format::Csv));
    assert_eq!(format_by_name("-"), None);
    assert_eq!(format_of(Some(Format::Raw), Path::new("a.tsv")).ok(), Some(Format::Raw));
}

#[test]
fn malformed_line_ends_the_batches_or_is_skipped() {
    let folder = std::env::temp_dir().join(format!("credenza-cut-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.tsv");
    std::fs::write(&file, "a\t1\nb\t2\nc\t3\nwrong\nd\t4\n").expect("a file");
    let cut = |errors, start: InputPosition| {
        let (batches, mut receiver) = mpsc::channel(10);
        let cut = input_format(Format::Tsv, errors, 2);
        let reader = batches::read(Input::open(&file).expect("there"), start, cut, vec![batches]);
        let result = reader.expect("started").join().expect("no panic");
        let mut all = Vec::new();
        while let Ok(batch) = receiver.try_recv() {
            all.push((batch.number, batch.records.len(), batch.skipped, batch.end.offset));
        }
        (all, result.map_err(|failure| failure.to_string()))
    };
    let (all, result) = cut(Errors::Stop, InputPosition::default());
    assert_eq!(all, [(0, 2, 0, 8), (1, 1, 0, 12)]);
    assert!(result.expect_err("wrong").starts_with("line 4: there is no tab"));
    let (all, result) = cut(Errors::Skip, InputPosition { offset: 8, number: 2 });
    assert_eq!((all, result), (vec![(0, 2, 1, 22)], Ok(())));
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn records_of_a_key_stay_in_their_lane_and_order() {
    let folder = std::env::temp_dir().join(format!("credenza-lanes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.tsv");
    let lines: String = (0..1_000).map(|n| format!("key{}\t{n}\n", n % 10)).collect();
    std::fs::write(&file, lines).expect("a file");
    let (lanes, mut receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel(2_000)).unzip();
    let cut = input_format(Format::Tsv, Errors::Stop, 20);
    let input = Input::open(&file).expect("there");
    let reader = batches::read(input, InputPosition::default(), cut, lanes).expect("started");
    reader.join().expect("no panic").expect("every line is good");
    let mut last_of_key = std::collections::BTreeMap::new();
    let mut rounds = std::collections::BTreeSet::new();
    for (lane, receiver) in receivers.iter_mut().enumerate() {
        let mut count = 0;
        while let Ok(batch) = receiver.try_recv() {
            assert_eq!(batch.number, count, "a lane misses a round");
            (count, _) = (count + 1, rounds.insert(batch.number));
            assert!(batch.records.len() <= 20);
            for (key, value, _) in batch.records.iter() {
                let value: u32 = String::from_utf8_lossy(value).parse().expect("a number");
                let previous = last_of_key.insert(key.to_vec(), (lane, value));
                assert!(previous.is_none_or(|previous| previous.0 == lane && previous.1 < value));
            }
        }
        assert_eq!(count, rounds.len() as u64);
    }
    let last: Vec<u32> = last_of_key.values().map(|(_, value)| *value).collect();
    assert_eq!(last, (990..1_000).collect::<Vec<_>>());
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn csv_import_resumes_after_any_record() {
    let folder = std::env::temp_dir().join(format!("credenza-table-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.csv");
    let text = "value,key\n1,a\r\n\"2\n2\",b\n\n3,c\n4,\n";
    std::fs::write(&file, text).expect("a file");
    let from = |start: InputPosition| {
        let (batches, mut receiver) = mpsc::channel(10);
        let cut = input_format(Format::Csv, Errors::Skip, 1);
        let reader = batches::read(Input::open(&file).expect("there"), start, cut, vec![batches]);
        reader.expect("started").join().expect("no panic").expect("every row is read");
        let (mut all, mut ends, mut skipped) = (Vec::new(), Vec::new(), 0);
        while let Ok(batch) = receiver.try_recv() {
            for (key, value, line) in batch.records.iter() {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                all.push((text(key), text(value), line));
            }
            ends.push(batch.end);
            skipped += batch.skipped;
        }
        (all, ends, skipped)
    };
    let (all, ends, skipped) = from(InputPosition::default());
    let record = |key: &str, value: &str, line| (key.to_string(), value.to_string(), line);
    let expected = [record("a", "1", 2), record("b", "2\n2", 3), record("c", "3", 6)];
    // The empty key of the last row is left out.
    assert_eq!((&all[..], skipped), (&expected[..], 1));
    for (at, end) in ends.iter().take(3).enumerate() {
        assert_eq!(from(*end).0, expected[at + 1..], "behind record {}", at + 1);
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn delimiter_is_a_single_byte_other_than_quote_or_newline() {
    assert_eq!((delimiter(";"), delimiter("tab"), delimiter("\\t")), (Ok(b';'), Ok(9), Ok(9)));
    for wrong in ["", ",,", "\"", "\n", "\r", "\u{e9}"] {
        assert!(delimiter(wrong).is_err(), "{wrong:?}");
    }
}
