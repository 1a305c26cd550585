//! Rotation: bounded files, the oldest removed; readers follow.

use super::{append, entries, file, folder, report, written};
use crate::writer::{AuditLimits, AuditWriter};
use crate::{AuditFollower, verify};
use std::path::Path;

const SMALL: AuditLimits = AuditLimits { files_max: 3, file_bytes_max: 2_000 };

fn sizes(folder: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(folder).expect("a folder").flatten();
    files.map(|file| file.metadata().expect("there").len()).collect()
}

#[test]
fn log_is_bounded_in_files_and_bytes_and_loses_its_oldest_lines() {
    let place = written(SMALL, 200);
    let folder = folder(&place);
    let (found, sizes) = (report(&folder), sizes(&folder));
    assert_eq!((found.broken.as_ref(), found.files, sizes.len()), (None, 3, 3));
    assert!(sizes.iter().all(|size| *size <= SMALL.file_bytes_max), "{sizes:?}");
    assert_eq!(found.last.seq, 201);
    assert!(found.lines >= 6 && found.first_seq == 202 - found.lines, "{found:?}");
    // A smaller number of files is reached with the next one.
    append(&folder, AuditLimits { files_max: 1, ..SMALL }, 20);
    assert_eq!(report(&folder).files, 1);
    assert_eq!(report(&folder).broken, None);
}

#[test]
fn noted_line_that_was_removed_with_its_file_is_reported_as_missing() {
    let place = written(SMALL, 1);
    let noted = report(&folder(&place)).last;
    append(&folder(&place), SMALL, 200);
    let found = verify(&folder(&place), Some(noted)).expect("readable");
    let broken = found.broken.expect("it is missing");
    assert!(broken.description.contains("the log begins with"), "{broken:?}");
}

#[test]
fn follower_begins_with_the_last_lines_and_follows_into_new_files() {
    let place = written(SMALL, 12);
    let folder = folder(&place);
    for wanted in [0, 1, 5, 7, 100] {
        let mut follower = AuditFollower::open(&folder, wanted).expect("opens");
        let mut numbers = Vec::new();
        let mut read = |follower: &mut AuditFollower| {
            let mut visit = |line: &str| {
                let line = crate::line::parse(line.as_bytes()).expect("sound");
                numbers.push(line.head.seq);
                Ok(())
            };
            follower.read(&mut visit).expect("readable");
        };
        read(&mut follower);
        let last = report(&folder).last.seq;
        append(&folder, SMALL, 4);
        read(&mut follower);
        read(&mut follower);
        let first = (last + 1).saturating_sub(wanted).max(report(&folder).first_seq.min(last));
        let expected: Vec<u64> = (first..=last + 5).collect();
        let kept = numbers.len().min(expected.len());
        assert_eq!(numbers[numbers.len() - kept..], expected[expected.len() - kept..]);
        assert!(numbers.is_sorted() && numbers.len() >= 5, "{wanted}: {numbers:?}");
        if wanted <= 5 {
            assert_eq!(numbers, expected, "{wanted}");
        }
    }
}

#[test]
fn failed_rotation_is_repeated_without_losing_or_doubling_a_line() {
    let place = written(SMALL, 2);
    let folder = folder(&place);
    let mut writer = AuditWriter::open(&folder, SMALL, 0).expect("opens");
    let before = writer.seq();
    // Another file of the next number stands in the way.
    std::fs::write(file(&folder, 2), "in the way").expect("ours");
    assert!(writer.append(&entries(20)).is_err());
    std::fs::remove_file(file(&folder, 2)).expect("ours");
    let again = AuditWriter::open(&folder, SMALL, 0).expect("opens");
    let written = again.recovered_seq() - before;
    assert!(written > 0 && written < 20, "{written}");
    let found = report(&folder);
    assert_eq!((found.broken, found.unfinished_bytes), (None, 0));
    assert_eq!(found.last.seq, before + written + 1);
}
