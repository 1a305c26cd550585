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
fn ids_last_and_everything_is_private() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    let first = DataDir::open(&path).expect("makes");
    assert!(first.fresh && first.cluster != 0 && first.node != 0);
    let (cluster, node) = (first.cluster, first.node);
    drop(first);
    let second = DataDir::open(&path).expect("opens");
    assert!(!second.fresh);
    assert_eq!((second.cluster, second.node), (cluster, node));
    for folder in [path.clone(), second.log(), second.store(), second.crash()] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    for file in ["LOCK", "IDENTITY"] {
        assert_eq!(mode(&path.join(file)), 0o600, "{file}");
    }
    let other = DataDir::open(&above.path().join("other")).expect("makes");
    assert_ne!((other.cluster, other.node), (cluster, node));
}

#[test]
fn each_life_has_a_higher_number_and_a_copy_begins_anew() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    for number in 1..=5 {
        let data = DataDir::open(&path).expect("opens");
        assert_eq!(data.begin_life().expect("raises"), number);
    }
    assert_eq!(mode(&path.join("INCARNATION")), 0o600);
    let text = std::fs::read_to_string(path.join("INCARNATION")).expect("text");
    let kept = "incarnation 0000000000000005 checksum feebdace1d83ec3e";
    assert_eq!(text.lines().last().map(str::trim_end), Some(kept), "the format's kept example");
    let data = DataDir::open(&path).expect("opens");
    let copy = data.twin(&above.path().join("copy")).expect("makes");
    assert_eq!(copy.begin_life().expect("raises"), 1);
}

#[test]
fn lives_are_told_apart_by_what_is_drawn_and_none_makes_room_for_another() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    let data = DataDir::open(&path).expect("makes");
    let numbers = |incarnations: &[IncarnationId]| {
        incarnations.iter().map(|incarnation_id| incarnation_id.number).collect::<Vec<_>>()
    };
    assert_eq!(data.incarnations().expect("of an earlier version"), []);
    let most = PEER_LIVES_MAX as u64;
    for number in 1..=most {
        let incarnations = data.begin_incarnation(number).expect("begins");
        assert_eq!(numbers(&incarnations), (1..=number).collect::<Vec<_>>());
        assert!(incarnations.iter().all(|incarnation_id| incarnation_id.token != 0));
    }
    assert_eq!(mode(&path.join("LIVES")), 0o600);
    let full = data.begin_incarnation(most + 1).expect("begins");
    assert_eq!(numbers(&full), (1..=most).collect::<Vec<_>>(), "it has no token");
    data.keep_incarnations(&full[2..3]).expect("let go of");
    let incarnations = data.begin_incarnation(most + 2).expect("begins");
    assert_eq!((incarnations[0], numbers(&incarnations)), (full[2], vec![3, most + 2]));
    let copy = data.twin(&above.path().join("copy")).expect("makes");
    assert_eq!(numbers(&copy.begin_incarnation(1).expect("begins")), [1], "a copy begins anew");
    let kept = "credenza lives 1\nlife 0000000000000006 00000000000000aa\n\
                life 0000000000000007 00000000000000bb\nchecksum 3c1055514d56d040\n";
    std::fs::write(path.join("LIVES"), kept).expect("writes");
    let incarnations = data.begin_incarnation(8).expect("the format's kept example is read");
    assert_eq!(
        incarnations[..2],
        [IncarnationId { number: 6, token: 0xAA }, IncarnationId { number: 7, token: 0xBB }]
    );
    std::fs::write(path.join("LIVES"), kept.replace("bb", "bc")).expect("writes");
    let refused = data.begin_incarnation(9).expect_err("nobody knows").to_string();
    assert!(refused.contains("LIVES"), "{refused}");
}

#[test]
fn a_full_disk_leaves_an_incarnation_without_token_and_another_error_ends_the_start() {
    use DiskCall::{Create, Rename, Sync, SyncDirectory, Write};
    let path = Path::new("d");
    for call in [Create, Write, Sync, Rename, SyncDirectory] {
        let disk = MemoryDisk::new(Honesty::Honest);
        let begin = |number| incarnations::begin(&disk, path, number);
        let first = begin(1).expect("begins");
        for (number, full) in [(2, ErrorKind::StorageFull), (3, ErrorKind::QuotaExceeded)] {
            disk.fail_nth(call, 1, full);
            let known = begin(number).expect("a full disk keeps no node from starting");
            assert!(disk.has_failed(), "{call:?}");
            assert_eq!(known.first(), first.first(), "{call:?}");
            assert!(known.iter().all(|known| known.number != number), "{call:?}: it has no token");
        }
        let last = begin(4).expect("there is room again");
        assert_eq!((last.first(), last.last().map(|last| last.number)), (first.first(), Some(4)));
        disk.fail_nth(call, 1, ErrorKind::Other);
        assert!(matches!(begin(5), Err(StoreError::Io { .. })), "{call:?}");
    }
}

#[test]
fn an_old_copy_says_so_until_it_belongs_to_another_cluster() {
    let above = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&above.path().join("data")).expect("makes");
    assert_eq!(data.outdated().expect("looks"), None);
    data.note_outdated("life 3\nis older").expect("writes");
    assert_eq!(data.outdated().expect("looks").as_deref(), Some("life 3 is older"));
    let twin = data.twin(&above.path().join("copy")).expect("makes");
    assert_eq!(twin.outdated().expect("looks"), None, "a copy is judged anew");
    data.refound(&ClusterDescription::default()).expect("a new cluster");
    assert_eq!(data.outdated().expect("looks"), None);
}

#[test]
fn a_torn_number_leaves_the_one_before_and_two_are_damage() {
    let above = tempfile::tempdir().expect("a directory");
    let data = DataDir::open(&above.path().join("data")).expect("makes");
    for _ in 0..3 {
        data.begin_life().expect("raises");
    }
    let file = data.path.join("INCARNATION");
    let mut bytes = std::fs::read(&file).expect("there");
    bytes[64 + 20] ^= 1;
    std::fs::write(&file, &bytes).expect("writes");
    assert_eq!(data.begin_life().expect("the second is sound"), 3);
    bytes[20] ^= 1;
    std::fs::write(&file, &bytes).expect("writes");
    let refused = data.begin_life().expect_err("nobody knows").to_string();
    assert!(refused.contains("INCARNATION") && refused.contains("replace it"), "{refused}");
}

/// Raises it three times with power going after each call; gives how many states were tried.
fn cut_while_raised(honesty: Honesty) -> Result<usize, String> {
    let (path, mut states) = (Path::new("d"), 0);
    for calls in 0.. {
        let disk = MemoryDisk::new(honesty);
        disk.power_off_after(calls);
        let told = (0..3).map_while(|_| incarnation::raise(&disk, path).ok()).last().unwrap_or(0);
        for state in crash_states(&disk, 1000, &mut |_| unreachable!("few enough to try all")) {
            states += 1;
            let next = incarnation::raise(&state, path).map_err(|error| error.to_string())?;
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
fn a_power_cut_never_gives_a_number_twice() {
    let states = cut_while_raised(Honesty::Honest).expect("sound");
    assert!(states > 15, "{states}");
    cut_while_raised(Honesty::Lying).expect_err("the judge sees what was lost");
}

#[test]
fn a_second_one_is_told_who_holds_it() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    let first = DataDir::open(&path).expect("makes");
    match DataDir::open(&path) {
        Err(StoreError::Locked { by }) => {
            assert_eq!(by, format!("process {}", std::process::id()));
        }
        other => panic!("locked, not {other:?}"),
    }
    drop(first);
    DataDir::open(&path).expect("free again");
}

#[test]
fn a_directory_of_others_is_left_alone() {
    let above = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(above.path(), PermissionsExt::from_mode(0o755)).expect("sets");
    std::fs::write(above.path().join("thesis.txt"), "years of work").expect("writes");
    let refused = DataDir::open(above.path()).expect_err("not ours");
    assert!(refused.to_string().contains("name an empty or new one"), "{refused}");
    assert_eq!(mode(above.path()), 0o755, "untouched");
    assert_eq!(std::fs::read_dir(above.path()).expect("lists").count(), 1);
}

#[test]
fn a_mount_point_and_a_link_to_the_whole_directory_will_do() {
    let above = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(above.path().join("disk/lost+found")).expect("makes");
    symlink(above.path().join("disk"), above.path().join("data")).expect("links");
    DataDir::open(&above.path().join("data")).expect("opens");
}

#[test]
fn planted_links_are_refused() {
    for planted in ["LOCK", "IDENTITY", "log", "store", "crash"] {
        let above = tempfile::tempdir().expect("a directory");
        let path = above.path().join("data");
        drop(DataDir::open(&path).expect("makes"));
        let target = above.path().join("moved");
        std::fs::rename(path.join(planted), &target).expect("moves");
        symlink(&target, path.join(planted)).expect("links");
        let refused = DataDir::open(&path).expect_err(planted).to_string();
        assert!(refused.contains("link") && refused.contains(planted), "{refused}");
    }
}

#[test]
fn foreign_formats_are_told_from_damage() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    drop(DataDir::open(&path).expect("makes"));
    let file = path.join("IDENTITY");
    let good = std::fs::read_to_string(&file).expect("reads");

    let (front, _) = good.rsplit_once("checksum").expect("has one");
    let foreign = front.replace("credenza 2", "credenza 7") + "colour green\n";
    let sum = checksum(foreign.as_bytes(), 0);
    std::fs::write(&file, format!("{foreign}checksum {sum:016x}\n")).expect("writes");
    assert!(matches!(DataDir::open(&path), Err(StoreError::Version { found: 7, known: 2 })));

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
fn a_first_start_that_was_cut_short_begins_again() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    std::fs::create_dir(&path).expect("makes");
    std::fs::write(path.join("LOCK"), "123\n").expect("writes");
    std::fs::write(path.join("IDENTITY.new"), "credenza 2\nclus").expect("writes");
    assert!(DataDir::open(&path).expect("begins again").fresh);
}

/// Writes an identity with power going after each call; gives how many states were tried.
fn cut_while_written(ground: &MemoryDisk, honesty: Honesty) -> Result<usize, String> {
    let (identity, path) = (Identity::of(3, 5), Path::new("d"));
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
fn a_power_cut_leaves_an_identity_that_is_whole_or_none() {
    let leftover = MemoryDisk::new(Honesty::Honest);
    leftover.plant("IDENTITY.new", b"credenza 2\nclus".to_vec());
    for ground in [MemoryDisk::new(Honesty::Honest), leftover] {
        let states = cut_while_written(&ground, Honesty::Honest).expect("sound");
        assert!(states > 15, "{states}");
        cut_while_written(&ground, Honesty::Lying).expect_err("the judge sees what was lost");
    }
}

#[test]
fn it_is_free_at_once_also_while_a_child_is_being_made() {
    let above = tempfile::tempdir().expect("a directory");
    let path = above.path().join("data");
    let data = DataDir::open(&path).expect("makes");
    // What a child has between its beginning and its program.
    let in_the_child = data._lock.twin();
    assert!(matches!(DataDir::open(&path), Err(StoreError::Locked { .. })), "it is held");
    drop(data);
    let again = DataDir::open(&path).expect("nobody holds it");
    drop(in_the_child);
    assert!(matches!(DataDir::open(&path), Err(StoreError::Locked { .. })), "it is held again");
    let holder = || std::fs::read_to_string(path.join("LOCK")).expect("text");
    assert_eq!(holder(), format!("{}\n", std::process::id()));
    drop(again);
    assert_eq!(holder(), "", "the number may be another process' by now");
}
