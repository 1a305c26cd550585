//! Damage: it is distinguished from a torn tail, reported, and never read as a record.

use super::*;
use std::ops::Range;

/// Bytes of a segment's header page.
const SEGMENT_HEADER: u64 = 4096;

/// Returns the disk and the records of a closed log with several segments.
fn closed_log(segments: u32) -> (MemoryDisk, Vec<OwnedRecord>) {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    let mut records = Vec::new();
    while log.segments() < segments || records.len() % 16 != 0 {
        let number = records.len() as u64 + 1;
        let record = record(number, 100 + (number * 37 % 400) as usize);
        log.append(&record.as_record()).expect("appends");
        records.push(record);
        if number.is_multiple_of(4) {
            log.commit(true).expect("commits");
        }
    }
    log.close().expect("closes");
    (disk, records)
}

/// Returns the range of a segment that has content: the header page and the frames.
fn used_range(disk: &MemoryDisk, file: &str) -> Range<u64> {
    let report = verify(disk, &mut |_| {}).expect("reads");
    let segment = report.segments.iter().find(|segment| segment.file == file).expect("there");
    0..segment.used_bytes
}

fn segment_names(disk: &MemoryDisk) -> Vec<String> {
    names(disk).into_iter().filter(|name| name.ends_with(".log")).collect()
}

#[test]
fn open_past_damage_skips_only_damaged_records() {
    let (disk, records) = closed_log(3);
    let mut passed = 0;
    for file in segment_names(&disk) {
        let used = used_range(&disk, &file);
        for offset in (SEGMENT_HEADER..used.end - 32).step_by(13) {
            for bytes in [1, 600, 4096] {
                let damaged = disk.copy(Honesty::Honest);
                for at in offset..(offset + bytes).min(used.end - 32) {
                    damaged.damage(&file, at, |byte| byte ^ (1 << (offset % 8)));
                }
                let read = Log::open_past_damage(Arc::new(damaged.clone()), SMALL);
                let (log, mut replay) = read.expect("only frames are damaged");
                let mut found = Vec::new();
                for step in replay.by_ref() {
                    let (position, record) = step.expect("damage is passed over");
                    assert!(position <= log.end());
                    found.push(record);
                }
                let holes = replay.holes().to_vec();
                assert!(!holes.is_empty(), "{file} {offset} {bytes}: nobody is told");
                assert!(holes.iter().all(|hole| hole.file == file), "{holes:?}");
                // The skipped records are consecutive.
                let before = found.iter().zip(&records).take_while(|(a, b)| a == b).count();
                let left_out = records.len() - found.len();
                assert_eq!(found[before..], records[before + left_out..], "{file} {offset}");
                assert!(left_out <= 2 + bytes as usize / 100, "{left_out} for {bytes} bytes");
                passed += u32::from(left_out > 0);
                drop((log, replay));
                let reopened = open(&damaged, SMALL);
                assert!(reopened.is_err(), "damage stays damage for everyone else");
            }
        }
    }
    assert!(passed > 1_000, "{passed} times a record was hit");
}

#[test]
fn bit_flip_in_any_byte_of_a_closed_log_is_detected() {
    let (disk, records) = closed_log(3);
    let mut flips = 0;
    let files = segment_names(&disk);
    for (number, file) in files.iter().enumerate() {
        let used = used_range(&disk, file);
        for offset in 0..SMALL.segment_bytes {
            let damaged = disk.copy(Honesty::Honest);
            damaged.damage(file, offset, |byte| byte ^ (1 << (offset % 8)));
            let report = verify(&damaged, &mut |_| {}).expect("reads");
            let before: Vec<_> = names(&damaged).iter().map(|name| damaged.bytes(name)).collect();
            match read(&damaged) {
                Ok(found) if used.contains(&offset) => {
                    // Only the closing frame, the last one, may look torn: nothing depends on it.
                    let closing = used.end - 32..used.end;
                    let last = number + 1 == files.len();
                    assert!(last && closing.contains(&offset), "{file} {offset} unnoticed");
                    assert_eq!(found, records);
                }
                Ok(found) => {
                    assert_eq!(found, records, "{file} {offset}");
                    assert!(report.is_sound());
                }
                Err(StoreError::Corrupt { file: named, offset: at, .. }) => {
                    assert!(used.contains(&offset), "{file} {offset}");
                    assert_eq!(&named, file);
                    assert!(at <= offset, "named {at}, damaged {offset}");
                    assert!(!report.is_sound(), "the check sees it too");
                    assert_eq!(
                        report.segments[number].first_bad_frame.as_ref().map(|frame| frame.offset),
                        Some(at)
                    );
                    let last = number + 1 == files.len();
                    let after: Vec<_> =
                        names(&damaged).iter().map(|name| damaged.bytes(name)).collect();
                    assert!(!last || before == after, "nothing was changed");
                    flips += 1;
                }
                // The version is read after the checksum, so a flip there is damage as well.
                Err(other) => panic!("{file} {offset}: {other}"),
            }
        }
    }
    println!("{flips} flips found");
    assert!(flips > 30_000, "{flips}");
}

#[test]
fn verify_continues_past_damage_and_names_the_affected_owner() {
    let (disk, records) = closed_log(3);
    let file = &segment_names(&disk)[1];
    let sound = verify(&disk, &mut |_| {}).expect("reads");
    let offset = 4096 + 900;
    disk.damage(file, offset, |byte| !byte);
    let report = verify(&disk, &mut |_| {}).expect("reads");
    assert_eq!(report.records + 1, sound.records, "one record was hit, all others are good");
    assert_eq!(report.segments[0], sound.segments[0]);
    assert_eq!(report.segments[2], sound.segments[2]);
    let damaged_owners = &report.segments[1].damaged_owners;
    assert_eq!(damaged_owners.len(), 1, "{damaged_owners:?}");
    let (owner, lost) = damaged_owners[0];
    assert_eq!(lost, 1);
    let text = read(&disk).expect_err("damaged").to_string();
    assert!(text.contains(file) && text.contains(&owner.to_string()), "{text}");
    assert!(text.contains("lost 1 of its records"), "{text}");
    let first = records.iter().find(|record| record.owner == owner).expect("has records");
    assert!(first.index > 0);
}

/// Returns a log that was cut off after a commit: no frame states that its last batch is durable.
fn unmarked_log() -> MemoryDisk {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    for number in 1..=8 {
        log.append(&record(number, 300).as_record()).expect("appends");
        log.commit(true).expect("commits");
    }
    disk
}

/// Bytes of a record of 300 bytes with the commit frame behind it.
const BATCH_BYTES: u64 = 16 + 48 + 304 + 32;

#[test]
fn torn_tail_is_truncated_and_a_hole_is_corruption() {
    for batch in 0..8 {
        let disk = unmarked_log();
        let at = 4096 + batch * BATCH_BYTES + 100;
        disk.damage("0000000000000001.log", at, |byte| !byte);
        match read(&disk) {
            Ok(found) => {
                assert_eq!(batch, 7, "only the last batch may be torn");
                assert_eq!(found.len(), 7);
            }
            Err(StoreError::Corrupt { file, offset, .. }) => {
                assert!(batch < 7, "a torn tail is no damage");
                assert_eq!(file, "0000000000000001.log");
                assert_eq!(offset, 4096 + batch * BATCH_BYTES);
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn zeroed_page_mid_log_is_corruption_and_at_the_end_a_torn_tail() {
    let disk = unmarked_log();
    for at in 4096 + BATCH_BYTES..4096 + 2 * BATCH_BYTES {
        disk.damage("0000000000000001.log", at, |_| 0);
    }
    assert!(matches!(read(&disk), Err(StoreError::Corrupt { .. })));
    let disk = unmarked_log();
    for at in 4096 + 7 * BATCH_BYTES..SMALL.segment_bytes {
        disk.damage("0000000000000001.log", at, |_| 0);
    }
    let (_, found, recovered) = open(&disk, SMALL).expect("opens");
    assert_eq!((found.len(), recovered.unclean_shutdown), (7, true));
}

#[test]
fn damage_to_the_last_record_of_a_settled_log_is_corruption() {
    let disk = unmarked_log();
    let (mut log, ..) = open(&disk, SMALL).expect("opens");
    log.append(&record(9, 300).as_record()).expect("appends");
    log.mark_durable().expect("settles");
    let calls = disk.calls();
    log.mark_durable().expect("settles");
    assert_eq!(disk.calls(), calls, "once is enough");
    drop(log);
    disk.damage("0000000000000001.log", 4096 + 8 * BATCH_BYTES + 32 + 100, |byte| !byte);
    assert!(matches!(read(&disk), Err(StoreError::Corrupt { .. })));
}

/// Returns the positions at which earlier runs cut a torn tail, and the log's end.
fn torn_tails(disk: &MemoryDisk) -> (Vec<Position>, Position) {
    let (log, mut replay) = Log::open(Arc::new(disk.clone()), SMALL).expect("opens");
    replay.by_ref().for_each(|record| drop(record.expect("sound")));
    (replay.torn_tails().to_vec(), log.end())
}

#[test]
fn torn_tail_position_is_reported_by_every_later_open() {
    let disk = unmarked_log();
    disk.damage("0000000000000001.log", 4096 + 7 * BATCH_BYTES + 100, |byte| !byte);
    let (before, cut) = torn_tails(&disk);
    assert_eq!(before, []);
    for run in 0..3 {
        let (mut log, _, found) = open(&disk, SMALL).expect("opens");
        assert_eq!(found.torn_bytes > 0, run == 0);
        log.append(&record(20 + run, 100).as_record()).expect("appends");
        log.commit(true).expect("syncs");
        drop(log);
        assert_eq!(torn_tails(&disk).0, [cut]);
    }
}

#[test]
fn torn_tail_position_is_reported_even_if_its_segment_is_full() {
    let mut rolled = 0;
    for bytes in (0..1_500).step_by(8) {
        let disk = memory();
        let (mut log, ..) = open(&disk, SMALL).expect("begins");
        for number in 1..=10 {
            log.append(&record(number, 1000).as_record()).expect("appends");
        }
        log.commit(true).expect("syncs");
        log.append(&record(11, bytes).as_record()).expect("appends");
        log.commit(true).expect("syncs");
        if log.segments() > 1 {
            break;
        }
        // The frame that states the durable position.
        let last = log.end().0 - 8;
        drop(log);
        disk.damage("0000000000000001.log", last, |byte| !byte);
        let (before, cut) = torn_tails(&disk);
        assert_eq!(before, []);
        let (mut log, found, _) = open(&disk, SMALL).expect("opens");
        assert_eq!(found.len(), 11);
        log.append(&record(12, 100).as_record()).expect("appends");
        log.commit(true).expect("syncs");
        rolled += u32::from(log.segments() > 1);
        drop(log);
        assert_eq!(torn_tails(&disk).0, [cut], "{bytes}");
    }
    assert!(rolled > 0, "an opening always had room");
}

#[test]
fn truncated_record_does_not_reappear_behind_an_adjacent_new_record() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    for number in 1..=3 {
        log.append(&record(number, 1000).as_record()).expect("appends");
    }
    log.commit(false).expect("writes");
    drop(log);
    // The first of three unsynced records was lost; the others are whole behind it.
    disk.damage("0000000000000001.log", 4096 + 20, |byte| !byte);
    let (mut log, found, recovered) = open(&disk, SMALL).expect("opens");
    assert_eq!((found.len(), recovered.torn_bytes), (0, 3 * 1064));
    // An opening of 32 bytes and this record end exactly where the second one begins.
    log.append(&record(10, 968).as_record()).expect("appends");
    log.commit(false).expect("writes");
    assert_eq!(log.end().0, 4096 + 1064);
    drop(log);
    assert_eq!(read(&disk).expect("sound"), [record(10, 968)]);
}

#[test]
fn frame_at_a_wrong_offset_is_corruption() {
    let disk = unmarked_log();
    let file = "0000000000000001.log";
    let bytes = disk.bytes(file).expect("there");
    let second = (4096 + BATCH_BYTES) as usize;
    for at in 0..BATCH_BYTES as usize {
        disk.damage(file, (second + BATCH_BYTES as usize + at) as u64, |_| bytes[second + at]);
    }
    assert!(matches!(read(&disk), Err(StoreError::Corrupt { .. })), "a misdirected write");
}

#[test]
fn inconsistent_segments_are_rejected_with_a_specific_error() {
    let (disk, _) = closed_log(4);
    let files = segment_names(&disk);
    let error_text =
        |disk: &MemoryDisk, settings| open(disk, settings).err().expect("refused").to_string();

    let other = error_text(&disk.copy(Honesty::Honest), LogSettings { log_id: 5, ..SMALL });
    assert!(other.contains("belongs to log 000000000000001d"), "{other}");

    let gap = disk.copy(Honesty::Honest);
    gap.remove(&files[1]).expect("removes");
    assert!(error_text(&gap, SMALL).contains("are missing"));
    assert!(!verify(&gap, &mut |_| {}).expect("reads").is_sound());

    let swapped = disk.copy(Honesty::Honest);
    swapped.rename(&files[1], "x").expect("renames");
    swapped.rename(&files[2], &files[1]).expect("renames");
    swapped.rename("x", &files[2]).expect("renames");
    assert!(error_text(&swapped, SMALL).contains("its header says that it is segment 3"));

    let short = disk.copy(Honesty::Honest);
    let bytes = short.bytes(&files[1]).expect("there");
    short.remove(&files[1]).expect("removes");
    short.create_durable(&files[1], bytes[..9000].to_vec());
    assert!(error_text(&short, SMALL).contains("has 9000 bytes and should have 16384"));

    let foreign = with_header(&disk, &files[0], |page| page[8] = 3);
    let refused = open(&foreign, SMALL).err().expect("refused");
    assert!(matches!(refused, StoreError::Version { found: 3, known: 2 }), "{refused}");

    let older = with_header(&disk, &files[1], |page| page[12] = 1);
    assert!(error_text(&older, SMALL).contains("its generation is not above that of"));
    let newer = with_header(&disk, &files[3], |page| page[12] += 1);
    assert!(error_text(&newer, SMALL).ends_with("does not follow that of the segment before"));
    let later = with_header(&disk, &files[2], |page| page[12] += 1);
    let later = with_header(&later, &files[3], |page| page[12] += 2);
    assert!(error_text(&later, SMALL).contains(&format!("{} is damaged at byte 12", files[2])));
    assert!(!verify(&later, &mut |_| {}).expect("reads").is_sound());
}

/// Returns a log with a changed header page whose checksum is valid.
fn with_header(disk: &MemoryDisk, file: &str, change: impl Fn(&mut [u8])) -> MemoryDisk {
    let changed = disk.copy(Honesty::Honest);
    let mut bytes = changed.bytes(file).expect("there");
    change(&mut bytes);
    let sum = base::codec::checksum(&bytes[..4088], 0).to_le_bytes();
    bytes[4088..4096].copy_from_slice(&sum);
    changed.remove(file).expect("removes");
    changed.create_durable(file, bytes);
    changed
}
