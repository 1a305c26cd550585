//! Locks, durable ids, and refusal of foreign directories.

use super::*;
use crate::disk::{DiskCall, Honesty, MemoryDisk, crash_states};
use base::IncarnationId;
use base::codec::checksum;
use base::limits::PEER_LIVES_MAX;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};

mod joining;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn data_directory_ids_persist_and_files_are_private() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let first = DataDir::open(&path).expect("makes");
    assert!(first.is_fresh && first.cluster != 0 && first.node != 0);
    let (cluster, node) = (first.cluster, first.node);
    drop(first);
    let second = DataDir::open(&path).expect("opens");
    assert!(!second.is_fresh);
    assert_eq!((second.cluster, second.node), (cluster, node));
    for folder in [path.clone(), second.log(), second.store(), second.crash()] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    for file in ["LOCK", "IDENTITY"] {
        assert_eq!(mode(&path.join(file)), 0o600, "{file}");
    }
    let other = DataDir::open(&parent.path().join("other")).expect("makes");
    assert_ne!((other.cluster, other.node), (cluster, node));
}

#[test]
fn incarnation_number_rises_with_each_start_and_resets_in_a_copy() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    for number in 1..=5 {
        let data = DataDir::open(&path).expect("opens");
        assert_eq!(data.increment_incarnation().expect("raises"), number);
    }
    assert_eq!(mode(&path.join("INCARNATION")), 0o600);
    let text = std::fs::read_to_string(path.join("INCARNATION")).expect("text");
    let golden = "incarnation 0000000000000005 checksum feebdace1d83ec3e";
    assert_eq!(text.lines().last().map(str::trim_end), Some(golden), "the format's kept example");
    let data = DataDir::open(&path).expect("opens");
    let copy = data.copy_identity_to(&parent.path().join("copy")).expect("makes");
    assert_eq!(copy.increment_incarnation().expect("raises"), 1);
}

#[test]
fn incarnation_tokens_are_kept_and_a_full_list_evicts_none() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let data = DataDir::open(&path).expect("makes");
    let numbers = |incarnations: &[IncarnationId]| {
        incarnations.iter().map(|incarnation_id| incarnation_id.number).collect::<Vec<_>>()
    };
    assert_eq!(data.incarnations().expect("of an earlier version"), []);
    let limit = PEER_LIVES_MAX as u64;
    for number in 1..=limit {
        let incarnations = data.begin_incarnation(number).expect("begins");
        assert_eq!(numbers(&incarnations), (1..=number).collect::<Vec<_>>());
        assert!(incarnations.iter().all(|incarnation_id| incarnation_id.token != 0));
    }
    assert_eq!(mode(&path.join("LIVES")), 0o600);
    let full = data.begin_incarnation(limit + 1).expect("begins");
    assert_eq!(numbers(&full), (1..=limit).collect::<Vec<_>>(), "it has no token");
    data.replace_incarnations(&full[2..3]).expect("let go of");
    let incarnations = data.begin_incarnation(limit + 2).expect("begins");
    assert_eq!((incarnations[0], numbers(&incarnations)), (full[2], vec![3, limit + 2]));
    let copy = data.copy_identity_to(&parent.path().join("copy")).expect("makes");
    assert_eq!(numbers(&copy.begin_incarnation(1).expect("begins")), [1], "a copy begins anew");
    let golden = "credenza lives 1\nlife 0000000000000006 00000000000000aa\n\
                life 0000000000000007 00000000000000bb\nchecksum 3c1055514d56d040\n";
    std::fs::write(path.join("LIVES"), golden).expect("writes");
    let incarnations = data.begin_incarnation(8).expect("the format's kept example is read");
    assert_eq!(
        incarnations[..2],
        [IncarnationId { number: 6, token: 0xAA }, IncarnationId { number: 7, token: 0xBB }]
    );
    std::fs::write(path.join("LIVES"), golden.replace("bb", "bc")).expect("writes");
    let refused = data.begin_incarnation(9).expect_err("nobody knows").to_string();
    assert!(refused.contains("LIVES"), "{refused}");
}

#[test]
fn full_disk_leaves_incarnation_without_token_and_io_error_fails_start() {
    use DiskCall::{Create, Rename, Sync, SyncDirectory, Write};
    let path = Path::new("d");
    for call in [Create, Write, Sync, Rename, SyncDirectory] {
        let disk = MemoryDisk::new(Honesty::Honest);
        let begin = |number| incarnations::begin(&disk, path, number);
        let first = begin(1).expect("begins");
        for (number, full) in [(2, ErrorKind::StorageFull), (3, ErrorKind::QuotaExceeded)] {
            disk.fail_nth(call, 1, full);
            let stored = begin(number).expect("a full disk keeps no node from starting");
            assert!(disk.has_failed(), "{call:?}");
            assert_eq!(stored.first(), first.first(), "{call:?}");
            assert!(
                stored.iter().all(|stored| stored.number != number),
                "{call:?}: it has no token"
            );
        }
        let last = begin(4).expect("there is room again");
        assert_eq!((last.first(), last.last().map(|last| last.number)), (first.first(), Some(4)));
        disk.fail_nth(call, 1, ErrorKind::Other);
        assert!(matches!(begin(5), Err(StoreError::Io { .. })), "{call:?}");
    }
}

#[test]
fn outdated_mark_is_absent_in_a_copy_and_cleared_by_refounding() {
    let parent = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&parent.path().join("data")).expect("makes");
    assert_eq!(data.outdated_reason().expect("looks"), None);
    data.mark_outdated("life 3\nis older").expect("writes");
    assert_eq!(data.outdated_reason().expect("looks").as_deref(), Some("life 3 is older"));
    let copy = data.copy_identity_to(&parent.path().join("copy")).expect("makes");
    assert_eq!(copy.outdated_reason().expect("looks"), None, "a copy is judged anew");
    data.found_new_cluster(&ClusterDescription::default()).expect("a new cluster");
    assert_eq!(data.outdated_reason().expect("looks"), None);
}

#[test]
fn torn_incarnation_number_falls_back_and_two_torn_are_corruption() {
    let parent = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&parent.path().join("data")).expect("makes");
    for _ in 0..3 {
        data.increment_incarnation().expect("raises");
    }
    let file = data.path.join("INCARNATION");
    let mut bytes = std::fs::read(&file).expect("there");
    bytes[64 + 20] ^= 1;
    std::fs::write(&file, &bytes).expect("writes");
    assert_eq!(data.increment_incarnation().expect("the second is sound"), 3);
    bytes[20] ^= 1;
    std::fs::write(&file, &bytes).expect("writes");
    let refused = data.increment_incarnation().expect_err("nobody knows").to_string();
    assert!(refused.contains("INCARNATION") && refused.contains("replace the member"), "{refused}");
}

/// Increments the number three times with a power cut after each call. Returns the number of states
/// tried.
fn cut_power_while_incrementing(honesty: Honesty) -> Result<usize, String> {
    let (path, mut states) = (Path::new("d"), 0);
    for calls in 0.. {
        let disk = MemoryDisk::new(honesty);
        disk.power_off_after(calls);
        let told =
            (0..3).map_while(|_| incarnation::increment(&disk, path).ok()).last().unwrap_or(0);
        for state in crash_states(&disk, 1000, &mut |_| unreachable!("few enough to try all")) {
            states += 1;
            let next = incarnation::increment(&state, path).map_err(|error| error.to_string())?;
            if next <= told {
                return Err(format!("{next} after {told}, after call {calls}"));
            }
        }
        if told == 3 {
            break;
        }
    }
    Ok(states)
}

#[test]
fn power_cut_never_yields_an_incarnation_number_twice() {
    let states = cut_power_while_incrementing(Honesty::Honest).expect("sound");
    assert!(states > 15, "{states}");
    cut_power_while_incrementing(Honesty::Lying).expect_err("the judge sees what was lost");
}

#[test]
fn second_open_fails_with_the_process_id_of_the_holder() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let first = DataDir::open(&path).expect("makes");
    match DataDir::open(&path) {
        Err(StoreError::Locked { holder }) => {
            assert_eq!(holder, format!("process {}", std::process::id()));
        }
        other => panic!("locked, not {other:?}"),
    }
    drop(first);
    DataDir::open(&path).expect("free again");
}

#[test]
fn foreign_directory_is_rejected_and_left_unchanged() {
    let parent = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(parent.path(), PermissionsExt::from_mode(0o755)).expect("sets");
    std::fs::write(parent.path().join("thesis.txt"), "years of work").expect("writes");
    let refused = DataDir::open(parent.path()).expect_err("not ours");
    assert!(refused.to_string().contains("choose an empty or new one"), "{refused}");
    assert_eq!(mode(parent.path()), 0o755, "untouched");
    assert_eq!(std::fs::read_dir(parent.path()).expect("lists").count(), 1);
}

#[test]
fn mount_point_and_symlinked_data_directory_are_accepted() {
    let parent = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(parent.path().join("disk/lost+found")).expect("makes");
    symlink(parent.path().join("disk"), parent.path().join("data")).expect("links");
    DataDir::open(&parent.path().join("data")).expect("opens");
}

#[test]
fn symlinks_inside_the_data_directory_are_rejected() {
    for planted in ["LOCK", "IDENTITY", "log", "store", "crash"] {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("data");
        drop(DataDir::open(&path).expect("makes"));
        let target = parent.path().join("moved");
        std::fs::rename(path.join(planted), &target).expect("moves");
        symlink(&target, path.join(planted)).expect("links");
        let refused = DataDir::open(&path).expect_err(planted).to_string();
        assert!(refused.contains("link") && refused.contains(planted), "{refused}");
    }
}

#[test]
fn newer_identity_format_is_distinguished_from_damage() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    drop(DataDir::open(&path).expect("makes"));
    let file = path.join("IDENTITY");
    let good = std::fs::read_to_string(&file).expect("reads");

    let (front, _) = good.rsplit_once("checksum").expect("has one");
    let levels = [
        ("program 0.1.0", "program 7.8.9", "run credenza 7.8.9 or later"),
        ("program 0.1.0", "colour green", "run a later version of credenza"),
        ("program 0.1.0", "program \x1b[31m", "run a later version of credenza"),
    ];
    for (line, later, remedy) in levels {
        let foreign = front.replace("credenza 2", "credenza 7").replace(line, later) + "more\n";
        let sum = checksum(foreign.as_bytes(), 0);
        std::fs::write(&file, format!("{foreign}checksum {sum:016x}\n")).expect("writes");
        let before = std::fs::metadata(path.join("LOCK")).expect("there").modified().ok();
        let refused = DataDir::open(&path).expect_err("of a later level");
        assert!(matches!(refused, StoreError::Level { found: 7, .. }), "{refused:?}");
        assert!(refused.to_string().contains(remedy), "{refused}");
        let after = std::fs::metadata(path.join("LOCK")).expect("there").modified().ok();
        assert_eq!(after, before, "nothing is written, not even the lock's holder");
    }

    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] ^= 1;
        std::fs::write(&file, &bytes).expect("writes");
        let refused = DataDir::open(&path).expect_err("damaged");
        assert!(matches!(refused, StoreError::Corrupt { .. }), "byte {at}: {refused}");
        std::fs::write(&file, &good.as_bytes()[..at]).expect("writes");
        assert!(matches!(DataDir::open(&path), Err(StoreError::Corrupt { .. })), "cut at {at}");
    }
    std::fs::remove_file(&file).expect("removes");
    assert!(matches!(DataDir::open(&path), Err(StoreError::Corrupt { .. })), "lost identity");
}

#[test]
fn directory_keeps_its_level_until_it_is_raised() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let fresh = DataDir::open(&path).expect("makes");
    assert_eq!(fresh.level, FeatureLevel::HIGHEST);
    let first = Identity { cluster: 3, node: 5, level: FeatureLevel::FIRST };
    first.write(&fresh.disk().expect("opens"), &path).expect("writes");
    drop(fresh);
    let data = DataDir::open(&path).expect("opens");
    assert_eq!((data.level, data.node), (FeatureLevel::FIRST, 5), "opening raises nothing");
    let copy = data.copy_identity_to(&parent.path().join("copy")).expect("copies");
    assert_eq!(copy.level, FeatureLevel::FIRST, "its tables are those of the original");
    let text = || std::fs::read_to_string(path.join("IDENTITY")).expect("reads");
    assert!(text().starts_with("credenza 1\n") && !text().contains("program"), "{}", text());
    data.raise_level(FeatureLevel::WITH_COUNTS).expect("raises");
    data.raise_level(FeatureLevel::FIRST).expect("a lower level changes nothing");
    let expected = "credenza 2\ncluster 0000000000000003\nnode 0000000000000005\nprogram 0.1.0\n";
    assert!(text().starts_with(expected), "{}", text());
    drop(data);
    let data = DataDir::open(&path).expect("opens");
    assert_eq!((data.level, data.cluster), (FeatureLevel::WITH_COUNTS, 3));
}

#[test]
fn interrupted_first_start_begins_again() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    std::fs::create_dir(&path).expect("makes");
    std::fs::write(path.join("LOCK"), "123\n").expect("writes");
    std::fs::write(path.join("IDENTITY.new"), "credenza 2\nclus").expect("writes");
    assert!(DataDir::open(&path).expect("begins again").is_fresh);
}

/// Writes an identity with a power cut after each call. Returns the number of states tried.
fn cut_power_while_writing(ground: &MemoryDisk, honesty: Honesty) -> Result<usize, String> {
    let (identity, path) = (Identity::new(3, 5), Path::new("d"));
    let mut states = 0;
    for calls in 0.. {
        let disk = ground.copy(honesty);
        disk.power_off_after(calls);
        let written = identity.write(&disk, path).is_ok();
        for state in crash_states(&disk, 1000, &mut |_| unreachable!("few enough to try all")) {
            states += 1;
            match Identity::read(&state, path).map_err(|error| error.to_string())? {
                Some(found) if found == identity => {}
                None if !written => identity.write(&state, path).map_err(|it| it.to_string())?,
                other => return Err(format!("{other:?} after call {calls}")),
            }
            assert_eq!(Identity::read(&state, path).expect("whole"), Some(identity));
        }
        if written {
            break;
        }
    }
    Ok(states)
}

#[test]
fn power_cut_leaves_a_whole_identity_or_none() {
    let leftover = MemoryDisk::new(Honesty::Honest);
    leftover.create_durable("IDENTITY.new", b"credenza 2\nclus".to_vec());
    for ground in [MemoryDisk::new(Honesty::Honest), leftover] {
        let states = cut_power_while_writing(&ground, Honesty::Honest).expect("sound");
        assert!(states > 15, "{states}");
        cut_power_while_writing(&ground, Honesty::Lying).expect_err("the judge sees what was lost");
    }
}

#[test]
fn data_directory_lock_is_released_at_once_despite_a_forked_child() {
    let parent = tempfile::tempdir().expect("a directory");
    let path = parent.path().join("data");
    let data = DataDir::open(&path).expect("makes");
    // The descriptor that a child process has between fork and exec.
    let child_descriptor = data._lock.as_ref().expect("locked").duplicate_descriptor();
    assert!(matches!(DataDir::open(&path), Err(StoreError::Locked { .. })), "it is held");
    drop(data);
    let second = DataDir::open(&path).expect("nobody holds it");
    drop(child_descriptor);
    assert!(matches!(DataDir::open(&path), Err(StoreError::Locked { .. })), "it is held again");
    let holder = || std::fs::read_to_string(path.join("LOCK")).expect("text");
    assert_eq!(holder(), format!("{}\n", std::process::id()));
    drop(second);
    assert_eq!(holder(), "", "the number may be another process' by now");
}
