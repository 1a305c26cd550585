//! Traces of a crash: a torn last line, which the next start reports and nobody rewrites.

use super::{WIDE, append, file, folder, lines, report, written};
use crate::{AuditFollower, AuditLimits};

#[test]
fn torn_last_line_stays_and_is_reported_by_the_next_start() {
    let whole = {
        let place = written(WIDE, 3);
        std::fs::read(file(&folder(&place), 1)).expect("bytes")
    };
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').expect("lines") + 1;
    for end in last..whole.len() {
        let place = written(WIDE, 0);
        let (folder, torn) = (folder(&place), (end - last) as u64);
        let path = file(&folder, 1);
        std::fs::write(&path, &whole[..end]).expect("ours");
        let before = report(&folder);
        assert_eq!((before.broken, before.lines), (None, 3), "cut at {end}");
        assert_eq!(before.unfinished_bytes, torn);
        append(&folder, WIDE, 2);
        let found = report(&folder);
        assert_eq!((&found.broken, found.unfinished_bytes), (&None, 0), "cut at {end}");
        if end + 1 == whole.len() {
            // Only its newline was missing: it counts.
            assert_eq!((found.lines, found.torn.len()), (7, 0));
            continue;
        }
        assert_eq!((found.lines, found.last.seq), (6, 6), "the torn line has no number");
        let reported: Vec<_> = found.torn.iter().map(|torn| torn.bytes).collect();
        assert_eq!(reported, if torn == 0 { vec![] } else { vec![torn] });
        let bytes = std::fs::read(&path).expect("bytes");
        assert!(bytes.starts_with(&whole[..end]), "nothing is rewritten");
        if torn == 0 {
            continue;
        }
        // The report covers the torn bytes: they can't be changed or taken out either.
        for changed in [bytes[last] ^ 1, b'\n'] {
            let mut spoilt = bytes.clone();
            spoilt[last] = changed;
            std::fs::write(&path, spoilt).expect("ours");
            assert!(report(&folder).broken.is_some(), "cut at {end}");
        }
        std::fs::write(&path, [&bytes[..last], &bytes[end + 1..]].concat()).expect("ours");
        assert!(report(&folder).broken.is_some(), "cut at {end}");
    }
}

#[test]
fn several_bad_lines_are_no_torn_line() {
    for garbage in ["x\n", "x\ny", "\n", "\n\n"] {
        let place = written(WIDE, 2);
        let folder = folder(&place);
        let path = file(&folder, 1);
        let bytes = [std::fs::read(&path).expect("bytes"), garbage.into()].concat();
        std::fs::write(&path, bytes).expect("ours");
        append(&folder, WIDE, 1);
        let broken = report(&folder).broken.expect("found");
        assert_eq!(broken.line, 4, "{garbage:?}");
    }
}

#[test]
fn file_without_a_sound_line_is_continued_from_the_file_before() {
    let place = written(WIDE, 2);
    let folder = folder(&place);
    // As a crash leaves a new file: empty, or with the beginning of its first line.
    for (number, begin) in [(2, ""), (3, "{\"before\":\"00")] {
        std::fs::write(file(&folder, number), begin).expect("ours");
        append(&folder, WIDE, 1);
        assert_eq!(report(&folder).broken, None, "{begin:?}");
    }
    assert_eq!(report(&folder).torn.len(), 1);
    assert_eq!(report(&folder).lines, 7);
}

#[test]
fn torn_bytes_without_a_report_are_found_once_lines_follow_in_another_file() {
    let place = written(WIDE, 2);
    let folder = folder(&place);
    let path = file(&folder, 1);
    let bytes = [std::fs::read(&path).expect("bytes"), b"{\"before\"".to_vec()].concat();
    std::fs::write(&path, bytes).expect("ours");
    std::fs::write(file(&folder, 2), "").expect("ours");
    append(&folder, WIDE, 1);
    let broken = report(&folder).broken.expect("found");
    assert_eq!(broken.description, "it is torn, and no line reports that");
}

#[test]
fn very_long_bad_line_is_found_in_bounded_memory() {
    let place = written(WIDE, 1);
    let folder = folder(&place);
    let path = file(&folder, 1);
    let sound = std::fs::read(&path).expect("bytes");
    let bytes = [&sound[..], &vec![b'x'; 3 << 20], b"\n"].concat();
    std::fs::write(&path, bytes).expect("ours");
    let broken = report(&folder).broken.expect("found");
    assert_eq!((broken.line, broken.description.as_str()), (3, "it is too long"));
    // As a torn tail it is reported like any other.
    std::fs::write(&path, [&sound[..], &vec![0; 3 << 20]].concat()).expect("ours");
    append(&folder, AuditLimits { file_bytes_max: 16 << 20, ..WIDE }, 1);
    let found = report(&folder);
    assert_eq!((found.broken, found.torn[0].bytes), (None, 3 << 20));
    let mut follower = AuditFollower::open(&folder, 2).expect("opens");
    let mut read = Vec::new();
    follower
        .read(&mut |line| {
            read.push(line.to_string());
            Ok(())
        })
        .expect("readable");
    assert_eq!(read, lines_at_end(&folder));
}

/// Returns the last two lines of the first file.
fn lines_at_end(folder: &std::path::Path) -> Vec<String> {
    let all = lines(folder, 1);
    all[all.len() - 2..].to_vec()
}
