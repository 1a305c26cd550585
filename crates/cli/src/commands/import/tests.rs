//! Tests that an import's progress never covers more than was acknowledged.

use super::batches::Input;
use super::progress::ImportProgress;
use super::resume::{InputPosition, Resume};
use super::send::SentBatch;
use super::*;
use base::BucketName;

fn reached(offset: u64) -> InputPosition {
    InputPosition { offset, number: offset / 10 }
}

fn cut_of(format: Format, errors: Errors, records_max: usize) -> InputFormat {
    let skips = Skips::new(indicatif::ProgressBar::hidden(), None, false).expect("no file");
    let (fields, skips) = (FieldNames::default(), Arc::new(skips));
    InputFormat { format, fields, errors, skips, allows_empty_key: false, records_max }
}

fn sent(number: u64, offset: u64) -> SentBatch {
    SentBatch { number, records: 2, bytes: 20, skipped: 0, end: reached(offset) }
}

#[test]
fn a_parcel_acknowledged_early_does_not_move_the_place_to_resume_from() {
    let mut progress = ImportProgress::new(Some(100), reached(10), 2);
    // One lane is ahead of the other.
    progress.take(sent(0, 30));
    progress.take(sent(1, 50));
    progress.take(sent(2, 70));
    assert_eq!(progress.reached(), reached(10));
    progress.take(sent(0, 30));
    assert_eq!(progress.reached(), reached(30));
    progress.take(sent(1, 50));
    progress.take(sent(2, 70));
    assert_eq!(progress.reached(), reached(70));
    assert!(progress.finish().text().starts_with("12 records (120 B)"));
}

#[test]
fn a_resume_file_tells_its_own_import_and_refuses_another() {
    let folder = std::env::temp_dir().join(format!("credenza-resume-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let (file, state) = (folder.join("a.tsv"), folder.join("a.resume"));
    std::fs::write(&file, "x".repeat(100)).expect("a file");
    let open = |file: &Path, format, bucket: &str| {
        let bucket = BucketName::parse(bucket).expect("a name");
        Resume::open(&state, &Input::open(file).expect("there"), format, &bucket)
    };
    let mut resume = open(&file, Format::Tsv, "users").expect("new");
    assert_eq!(resume.reached(), InputPosition::default());
    resume.save(reached(40), 3).expect("written");
    let again = open(&file, Format::Tsv, "users").expect("ours");
    assert_eq!((again.reached(), again.skipped_before()), (reached(40), 3));
    // The format of earlier versions.
    let kept = std::fs::read_to_string(&state).expect("written");
    std::fs::write(&state, kept.replace(",\n  \"skipped\": 3", "")).expect("a file");
    assert!(!std::fs::read_to_string(&state).expect("written").contains("skipped"));
    let before = open(&file, Format::Tsv, "users").expect("ours");
    assert_eq!((before.reached(), before.skipped_before()), (reached(40), 0));
    assert!(open(&file, Format::Raw, "users").is_err());
    assert!(open(&file, Format::Tsv, "others").is_err());
    std::fs::write(&file, "short").expect("a file");
    assert!(open(&file, Format::Tsv, "users").is_err());
    std::fs::write(&state, "{}").expect("a file");
    assert!(open(&file, Format::Tsv, "users").is_err());
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn formats_are_told_by_endings() {
    let told = |name: &str| format_of(None, Path::new(name)).ok();
    assert_eq!(told("a.tsv"), Some(Format::Tsv));
    assert_eq!(told("a.JSONL"), Some(Format::Jsonl));
    assert_eq!(told("a.raw"), Some(Format::Raw));
    assert_eq!(told("a.CSV"), Some(Format::Csv));
    assert_eq!(told("-"), None);
    assert_eq!(format_of(Some(Format::Raw), Path::new("a.tsv")).ok(), Some(Format::Raw));
}

#[test]
fn the_input_is_cut_into_parcels_that_end_before_a_wrong_line() {
    let folder = std::env::temp_dir().join(format!("credenza-cut-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.tsv");
    std::fs::write(&file, "a\t1\nb\t2\nc\t3\nwrong\nd\t4\n").expect("a file");
    let cut = |errors, start: InputPosition| {
        let (batches, mut waiting) = mpsc::channel(10);
        let cut = cut_of(Format::Tsv, errors, 2);
        let reader = batches::read(Input::open(&file).expect("there"), start, cut, vec![batches]);
        let ended = reader.expect("started").join().expect("no panic");
        let mut all = Vec::new();
        while let Ok(batch) = waiting.try_recv() {
            all.push((batch.number, batch.batch.len(), batch.skipped, batch.end.offset));
        }
        (all, ended.map_err(|failure| failure.to_string()))
    };
    let (all, ended) = cut(Errors::Stop, InputPosition::default());
    assert_eq!(all, [(0, 2, 0, 8), (1, 1, 0, 12)]);
    assert!(ended.expect_err("wrong").starts_with("line 4: there is no tab"));
    let (all, ended) = cut(Errors::Skip, InputPosition { offset: 8, number: 2 });
    assert_eq!((all, ended), (vec![(0, 2, 1, 22)], Ok(())));
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_key_keeps_its_lane_and_the_order_of_its_records() {
    let folder = std::env::temp_dir().join(format!("credenza-lanes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.tsv");
    let lines: String = (0..1_000).map(|n| format!("key{}\t{n}\n", n % 10)).collect();
    std::fs::write(&file, lines).expect("a file");
    let (lanes, mut waiting): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel(2_000)).unzip();
    let cut = cut_of(Format::Tsv, Errors::Stop, 20);
    let input = Input::open(&file).expect("there");
    let reader = batches::read(input, InputPosition::default(), cut, lanes).expect("started");
    reader.join().expect("no panic").expect("every line is good");
    let mut last_of_key = std::collections::BTreeMap::new();
    let mut rounds = std::collections::BTreeSet::new();
    for (lane, waiting) in waiting.iter_mut().enumerate() {
        let mut count = 0;
        while let Ok(batch) = waiting.try_recv() {
            assert_eq!(batch.number, count, "a lane misses a round");
            (count, _) = (count + 1, rounds.insert(batch.number));
            assert!(batch.batch.len() <= 20);
            for (key, value, _) in batch.batch.iter() {
                let value: u32 = String::from_utf8_lossy(value).parse().expect("a number");
                let before = last_of_key.insert(key.to_vec(), (lane, value));
                assert!(before.is_none_or(|before| before.0 == lane && before.1 < value));
            }
        }
        assert_eq!(count, rounds.len() as u64);
    }
    let last: Vec<u32> = last_of_key.values().map(|(_, value)| *value).collect();
    assert_eq!(last, (990..1_000).collect::<Vec<_>>());
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_table_goes_on_behind_its_first_row_wherever_it_was_left() {
    let folder = std::env::temp_dir().join(format!("credenza-table-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.csv");
    let text = "value,key\n1,a\r\n\"2\n2\",b\n\n3,c\n4,\n";
    std::fs::write(&file, text).expect("a file");
    let from = |start: InputPosition| {
        let (batches, mut waiting) = mpsc::channel(10);
        let cut = cut_of(Format::Csv, Errors::Skip, 1);
        let reader = batches::read(Input::open(&file).expect("there"), start, cut, vec![batches]);
        reader.expect("started").join().expect("no panic").expect("every row is read");
        let (mut all, mut ends, mut skipped) = (Vec::new(), Vec::new(), 0);
        while let Ok(batch) = waiting.try_recv() {
            for (key, value, line) in batch.batch.iter() {
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
fn a_delimiter_is_one_byte_that_means_nothing_else() {
    assert_eq!((delimiter(";"), delimiter("tab"), delimiter("\\t")), (Ok(b';'), Ok(9), Ok(9)));
    for wrong in ["", ",,", "\"", "\n", "\r", "\u{e9}"] {
        assert!(delimiter(wrong).is_err(), "{wrong:?}");
    }
}
