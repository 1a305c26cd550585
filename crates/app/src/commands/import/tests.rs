//! What is remembered of an import is never more than what was acknowledged.

use super::parcels::Input;
use super::progress::Progress;
use super::resume::{Reached, Resume};
use super::send::Sent;
use super::*;
use base::BucketName;

fn reached(offset: u64) -> Reached {
    Reached { offset, number: offset / 10 }
}

fn sent(number: u64, offset: u64) -> Sent {
    Sent { number, records: 2, bytes: 20, skipped: 0, end: reached(offset) }
}

#[test]
fn a_parcel_acknowledged_early_does_not_move_the_place_to_resume_from() {
    let mut progress = Progress::new(Some(100), reached(10), 2);
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
    assert_eq!(resume.reached(), Reached::default());
    resume.save(reached(40)).expect("written");
    assert_eq!(open(&file, Format::Tsv, "users").expect("ours").reached(), reached(40));
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
    assert_eq!(told("-"), None);
    assert_eq!(format_of(Some(Format::Raw), Path::new("a.tsv")).ok(), Some(Format::Raw));
}

#[test]
fn the_input_is_cut_into_parcels_that_end_before_a_wrong_line() {
    let folder = std::env::temp_dir().join(format!("credenza-cut-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary directory");
    let file = folder.join("a.tsv");
    std::fs::write(&file, "a\t1\nb\t2\nc\t3\nwrong\nd\t4\n").expect("a file");
    let cut = |errors, start: Reached| {
        let (parcels, mut waiting) = mpsc::channel(10);
        let fields = Fields::default();
        let cut = Cut { format: Format::Tsv, fields, errors, records_max: 2 };
        let reader = parcels::read(Input::open(&file).expect("there"), start, cut, vec![parcels]);
        let ended = reader.expect("started").join().expect("no panic");
        let mut all = Vec::new();
        while let Ok(parcel) = waiting.try_recv() {
            all.push((parcel.number, parcel.batch.len(), parcel.skipped, parcel.end.offset));
        }
        (all, ended.map_err(|failure| failure.to_string()))
    };
    let (all, ended) = cut(Errors::Stop, Reached::default());
    assert_eq!(all, [(0, 2, 0, 8), (1, 1, 0, 12)]);
    assert!(ended.expect_err("wrong").starts_with("line 4: there is no tab"));
    let (all, ended) = cut(Errors::Skip, Reached { offset: 8, number: 2 });
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
    let cut = Cut {
        format: Format::Tsv,
        fields: Fields::default(),
        errors: Errors::Stop,
        records_max: 20,
    };
    let input = Input::open(&file).expect("there");
    let reader = parcels::read(input, Reached::default(), cut, lanes).expect("started");
    reader.join().expect("no panic").expect("every line is good");
    let mut last_of_key = std::collections::BTreeMap::new();
    let mut rounds = std::collections::BTreeSet::new();
    for (lane, waiting) in waiting.iter_mut().enumerate() {
        let mut count = 0;
        while let Ok(parcel) = waiting.try_recv() {
            assert_eq!(parcel.number, count, "a lane misses a round");
            (count, _) = (count + 1, rounds.insert(parcel.number));
            assert!(parcel.batch.len() <= 20);
            for (key, value, _) in parcel.batch.iter() {
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
