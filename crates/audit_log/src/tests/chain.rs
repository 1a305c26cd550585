//! Laws of the chain: whatever is changed, removed or moved is found.

use super::{WIDE, append, entries, file, folder, lines, report, written};
use crate::chain::LineNotes;
use crate::line;
use crate::writer::AuditLimits;
use crate::{ChainHead, KeyDigests, verify};
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// Limits with which ten lines take several files.
const NARROW: AuditLimits = AuditLimits { files_max: 16, file_bytes_max: 1_600 };

#[test]
fn sound_log_verifies_over_all_files_and_restarts() {
    let place = written(NARROW, 10);
    append(&folder(&place), NARROW, 5);
    let found = report(&folder(&place));
    assert_eq!(found.broken, None);
    assert!(found.files > 2, "{found:?}");
    assert_eq!((found.lines, found.first_seq, found.last.seq), (17, 1, 17), "two opening lines");
    assert_eq!((found.torn.len(), found.unfinished_bytes), (0, 0));
    // A file's first line goes on with the hash of the last file's last one.
    let (before, first) = (lines(&folder(&place), 1), lines(&folder(&place), 2));
    let last = line::parse(before.last().expect("lines").as_bytes()).expect("sound");
    let next = line::parse(first[0].as_bytes()).expect("sound");
    assert_eq!((next.before, next.head.seq), (last.head.hash, last.head.seq + 1));
    assert_eq!((last.file, next.file), (None, Some(2)));
}

#[test]
fn every_changed_byte_is_found() {
    let place = written(NARROW, 6);
    let folder = folder(&place);
    let count = report(&folder).files;
    assert!(count > 1);
    for number in 1..=count {
        let path = file(&folder, number);
        let sound = std::fs::read(&path).expect("bytes");
        for at in 0..sound.len() {
            for changed in [sound[at] ^ 1, b'\n', b' ', 0] {
                if changed == sound[at] {
                    continue;
                }
                let mut bytes = sound.clone();
                bytes[at] = changed;
                std::fs::write(&path, bytes).expect("ours");
                let found = report(&folder);
                // Without its newline the last line is one that is being written.
                let is_end = number == count && at + 1 == sound.len();
                let is_found = found.broken.is_some() || is_end && found.unfinished_bytes > 0;
                assert!(is_found, "byte {at} of file {number} as {changed}: {found:?}");
            }
        }
        std::fs::write(&path, sound).expect("ours");
    }
    assert_eq!(report(&folder).broken, None);
}

#[test]
fn removed_repeated_and_swapped_lines_and_files_are_found() {
    let place = written(NARROW, 10);
    let folder = folder(&place);
    let count = report(&folder).files;
    for number in 1..=count {
        let path = file(&folder, number);
        let sound = lines(&folder, number);
        let try_lines = |changed: Vec<String>, what: &str| {
            std::fs::write(&path, changed.join("\n") + "\n").expect("ours");
            let found = report(&folder);
            assert!(found.broken.is_some(), "{what} of file {number}: {found:?}");
        };
        for at in 0..sound.len() {
            let is_last = number == count && at + 1 == sound.len();
            let mut changed = sound.clone();
            changed.remove(at);
            // That the log ends earlier shows only beside a line that was noted.
            if !is_last && !(changed.is_empty()) {
                try_lines(changed, &format!("without line {at}"));
            }
            let mut changed = sound.clone();
            changed.insert(at, sound[at].clone());
            try_lines(changed, &format!("twice line {at}"));
            if at > 0 {
                let mut changed = sound.clone();
                changed.swap(at - 1, at);
                try_lines(changed, &format!("swapped line {at}"));
            }
        }
        std::fs::write(&path, sound.join("\n") + "\n").expect("ours");
        assert_eq!(report(&folder).broken, None);
    }
    // A file between others.
    let hidden = place.path().join("hidden");
    std::fs::rename(file(&folder, 2), &hidden).expect("ours");
    let broken = report(&folder).broken.expect("found");
    assert_eq!(broken.file, "audit-0000000002.jsonl");
    std::fs::rename(&hidden, file(&folder, 2)).expect("ours");
    // Two files that change places.
    let (first, second) = (file(&folder, 2), file(&folder, 3));
    std::fs::rename(&first, &hidden).expect("ours");
    std::fs::rename(&second, &first).expect("ours");
    std::fs::rename(&hidden, &second).expect("ours");
    assert!(report(&folder).broken.is_some());
}

#[test]
fn first_broken_line_is_named_with_its_fault() {
    let place = written(WIDE, 5);
    let folder = folder(&place);
    let mut changed = lines(&folder, 1);
    changed[3] = changed[3].replace("ada", "eve");
    std::fs::write(file(&folder, 1), changed.join("\n") + "\n").expect("ours");
    let found = report(&folder);
    assert_eq!(found.lines, 3);
    let broken = found.broken.expect("found");
    assert_eq!((broken.file.as_str(), broken.line), ("audit-0000000001.jsonl", 4));
    assert_eq!(broken.description, "its hash does not match its bytes");
}

#[test]
fn noted_line_shows_a_cut_end_and_a_log_written_anew() {
    let place = written(WIDE, 5);
    let folder = folder(&place);
    let noted = report(&folder).last;
    let text = format!("{}:{}", noted.seq, noted.hash_text());
    assert_eq!(ChainHead::parse(&text), Some(noted));
    assert_eq!(ChainHead::parse(&text.to_uppercase()), None);
    let broken = || verify(&folder, Some(noted)).expect("readable").broken;
    assert_eq!(broken(), None);
    let mut cut = lines(&folder, 1);
    cut.pop();
    std::fs::write(file(&folder, 1), cut.join("\n") + "\n").expect("ours");
    assert_eq!(report(&folder).broken, None, "it is a sound, shorter log");
    assert!(broken().expect("found").description.contains("the log ends with 5"));
    // Another line under that number: the chain itself is sound.
    append(&folder, WIDE, 0);
    assert_eq!(report(&folder).broken, None);
    assert!(broken().expect("found").description.contains("another line"));
}

#[test]
fn log_whose_first_lines_were_cut_is_found() {
    let place = written(WIDE, 5);
    let folder = folder(&place);
    let cut = lines(&folder, 1).split_off(2);
    std::fs::write(file(&folder, 1), cut.join("\n") + "\n").expect("ours");
    let broken = report(&folder).broken.expect("found");
    assert_eq!(broken.description, "lines of its file are missing before it");
}

#[test]
fn key_digest_depends_on_folder_bucket_and_key_alone() {
    let (place, other) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let made = KeyDigests::open_or_create(&folder(&place), [1; 32]).expect("made");
    let again = KeyDigests::open_or_create(&folder(&place), [2; 32]).expect("read");
    assert_eq!(made.digest("a/b", b"k"), again.digest("a/b", b"k"), "the first key stays");
    let read = KeyDigests::open(&folder(&place)).expect("read");
    assert_eq!(made.digest("a/b", b"k"), read.digest("a/b", b"k"));
    assert_ne!(made.digest("a/b", b"k"), made.digest("a/b", b"l"));
    assert_ne!(made.digest("a/b", b"k"), made.digest("a/c", b"k"));
    assert_ne!(made.digest("a/b", b"ck"), made.digest("a/bc", b"k"));
    let elsewhere = KeyDigests::open_or_create(&folder(&other), [3; 32]).expect("made");
    assert_ne!(made.digest("a/b", b"k"), elsewhere.digest("a/b", b"k"));
    let mode = |name: &str| {
        let path = place.path().join(name);
        std::fs::metadata(path).expect("there").permissions().mode() & 0o777
    };
    assert_eq!((mode("audit"), mode("audit/digest-key")), (0o700, 0o600));
}

#[test]
fn files_of_the_log_are_their_owners_and_links_are_not_followed() {
    let place = written(WIDE, 1);
    let path = file(&folder(&place), 1);
    let mode = std::fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let moved = place.path().join("elsewhere");
    std::fs::rename(&path, &moved).expect("ours");
    std::os::unix::fs::symlink(&moved, &path).expect("ours");
    assert!(crate::writer::AuditWriter::open(&folder(&place), WIDE, 0).is_err());
    assert!(verify(&folder(&place), None).is_err());
}

proptest! {
    #[test]
    fn parsing_arbitrary_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = line::parse(&bytes);
    }

    #[test]
    fn arbitrary_bytes_in_place_of_any_part_of_a_log_are_found(
        begin in 0usize..2_000,
        removed in 1usize..400,
        inserted in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let place = written(WIDE, 5);
        let path = file(&folder(&place), 1);
        let sound = std::fs::read(&path).expect("bytes");
        let begin = begin.min(sound.len() - 1);
        let end = (begin + removed).min(sound.len());
        let changed = [&sound[..begin], &inserted[..], &sound[end..]].concat();
        // A shorter log that ends with a line, or in one, is what a crash leaves.
        let is_cut = sound.starts_with(&changed) || changed == sound;
        std::fs::write(&path, &changed).expect("ours");
        let found = report(&folder(&place));
        let is_tail = found.unfinished_bytes > 0 && end == sound.len();
        prop_assert!(is_cut || is_tail || found.broken.is_some(), "{found:?}");
    }
}

#[test]
fn line_is_json_without_values_whatever_its_texts() {
    let mut entry = entries(1).remove(0);
    entry.record.who = "a\"b\n\u{1b}".into();
    entry.record.target = Some("x".repeat(10_000));
    entry.record.keys = vec!["00".repeat(16); 100];
    let mut out = Vec::new();
    line::encode(&ChainHead::default(), &entry, LineNotes::default(), &mut out);
    assert!(out.len() < 4_096, "{}", out.len());
    assert_eq!(out.iter().filter(|byte| **byte < b' ').count(), 1, "its newline");
    let parsed: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(parsed["who"], "a\"b\n\u{1b}");
    assert_eq!(parsed["keys"].as_array().map(Vec::len), Some(16));
    assert!(line::parse(out.strip_suffix(b"\n").expect("a newline")).is_ok());
}

#[test]
fn line_of_a_sequence_has_the_numbers_of_its_steps_and_verifies() {
    let mut entry = entries(1).remove(0);
    entry.record.operation = "sequence";
    entry.record.steps = [("set", 3), ("delete", 1)].into();
    (entry.record.keys, entry.record.more_keys) = (vec!["ab".into()], 2);
    let mut out = Vec::new();
    line::encode(&ChainHead::default(), &entry, LineNotes::default(), &mut out);
    let text = String::from_utf8(out).expect("text");
    let part = r#""keys":["ab"],"more_keys":2,"steps":{"delete":1,"set":3},"outcome":"#;
    assert!(text.contains(part), "{text}");
    assert!(line::parse(text.trim_end().as_bytes()).is_ok());
}
