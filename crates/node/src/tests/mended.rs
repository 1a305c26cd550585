//! Repair of a log with holes: the repaired log equals the undamaged one, wherever the damage is,
//! and a log that can't be vouched for is refused.

use super::{Place, bytes, set, update};
use crate::{LogRepair, NodeSettings};
use base::{
    AvailableCall, BucketName, Call, Content, GroupId, LogIndex, Reason, Request, Result, Store,
};
use bytes::Bytes;
use replica_host::housekeeping::LogHeadRequests;
use replica_host::recovery::{Recovered, recover};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use store::{DataDir, FileDisk, Log, LogSettings, RecordKind};

/// State that a start finds.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    groups: Vec<(GroupId, String)>,
    vnodes: u64,
    rows: Vec<(Bytes, Bytes)>,
}

impl Found {
    fn of(recovered: &Recovered) -> Found {
        let groups = recovered.groups.iter().map(|group| {
            let replica = &group.replica;
            let (promised, accepted) = (replica.promised(), replica.accepted_ballot());
            let (last, decided) = (replica.last(), replica.decided());
            let (tail, applied) = (&group.tail, group.mark.applied);
            let words = format!("{promised} {accepted} {last} {decided} {applied} {tail:?}");
            (group.id, words)
        });
        let snapshot = recovered.trees.snapshot();
        let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
        Found {
            groups: groups.collect(),
            vnodes: recovered.vnodes.applied,
            rows: rows.map(|row| row.expect("it is readable")).collect(),
        }
    }
}

fn settings(data: &Path) -> NodeSettings {
    NodeSettings { data_dir: data.into(), segment_bytes: 1 << 20, ..NodeSettings::default() }
}

/// Retries while a child process that is being started holds this one's locks.
fn free<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        match work() {
            Err(error) if error.reason == Reason::InUse => std::thread::yield_now(),
            done => return done,
        }
    }
}

fn copied(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
    assert!(copied.success());
}

fn log_of(data: &Path) -> (Log, store::Replay) {
    let opened = free(|| DataDir::open(data).map_err(replica_host::recovery::data_dir_error));
    let directory = opened.expect("it opens");
    let disk = Arc::new(FileDisk::open(&directory.path.join("log")).expect("a disk"));
    let settings =
        LogSettings { segment_bytes: 1 << 20, log_id: directory.node, ..LogSettings::default() };
    Log::open(disk, settings).expect("it is sound")
}

/// Every value of a sound log, where its only segment is, and how much of that is used.
fn whole(data: &Path) -> (BTreeMap<(GroupId, LogIndex), Bytes>, PathBuf, u64) {
    let (log, mut records) = log_of(data);
    let mut values = BTreeMap::new();
    for record in records.by_ref() {
        let (_, record) = record.expect("it is sound");
        if matches!(record.kind, RecordKind::Accept | RecordKind::Stage) {
            values.insert((GroupId(record.owner.group), LogIndex(record.index)), record.payload);
        }
    }
    let files = std::fs::read_dir(data.join("log")).expect("a folder");
    let files = files.map(|file| file.expect("a file").path());
    let is_segment = |file: &PathBuf| file.extension().is_some_and(|it| it == "log");
    let segments: Vec<_> = files.filter(is_segment).collect();
    let [segment] = &segments[..] else { panic!("one segment: {segments:?}") };
    (values, segment.clone(), log.end().0)
}

/// A node's directory as a crash leaves it, behind some writes, a statement, and some more.
async fn written(place: &Place, to: &Path, with_available: bool) -> u64 {
    let node = place.start().await;
    let bucket = BucketName::new(BucketName::AVAILABLE, "b").expect("a name");
    let mut stated = 0;
    for number in 0..60 {
        let value = "v".repeat(if number % 9 == 0 { 3_000 } else { 40 });
        update(&node, set(&format!("{number:03}"), &value)).await.expect("a set");
        if with_available && number % 4 == 0 {
            let (key, content) = (bytes(&format!("{number}")), Content::plain(bytes(&value)));
            let store = Store { key, content, ..Store::default() };
            let call = Call::Available(AvailableCall::Store(Box::new(store)));
            let request = Request { bucket: bucket.clone(), call, retry: None };
            node.handle(&base::Principal::Node, request).await.expect("it is stored");
        }
        if number == 50 {
            stated = node.housekeeper.disk.log_writer.end().0;
            node.housekeeper.request_log_heads(&mut LogHeadRequests::default());
            update(&node, set("after", "it")).await.expect("a set");
        }
    }
    copied(place.path(), to);
    node.stop().await.expect("it stops");
    stated
}

/// Tries damage everywhere; gives how often it was mended and how often refused.
async fn damaged_everywhere(with_available: bool) -> (u64, u64) {
    let (place, scratch) = (Place::new(), Place::new());
    std::fs::create_dir_all(scratch.path()).expect("a folder");
    let (sound, harmed) = (scratch.path().join("sound"), scratch.path().join("harmed"));
    let stated = written(&place, &sound, with_available).await;
    let (values, segment, used) = whole(&sound);
    copied(&sound, &harmed);
    let recovered = free(|| recover(&settings(&harmed).host(), None)).expect("it is sound");
    let expected = Found::of(&recovered);
    drop(recovered);
    let file = harmed.join("log").join(segment.file_name().expect("a name"));
    // What nothing durable follows looks like a torn tail.
    let upto = used - 1_500;
    let (mut repaired, mut refused) = (0, 0);
    for (at, length) in (4_096..upto).step_by(331).zip([1, 1, 700].into_iter().cycle()) {
        copied(&sound, &harmed);
        let mut log = std::fs::read(&file).expect("ours");
        let end = (at as usize + length).min(upto as usize);
        log[at as usize..end].iter_mut().for_each(|byte| *byte ^= 0x10);
        std::fs::write(&file, log).expect("ours");
        let damage = free(|| recover(&settings(&harmed).host(), None)).err().expect("it is found");
        assert_eq!(damage.reason, Reason::Corrupt, "{at}: {damage}");
        let mut mending = match free(|| LogRepair::scan(&settings(&harmed).host())) {
            Ok(mending) => mending,
            Err(error) => {
                assert_eq!(error.reason, Reason::Corrupt, "{at}: {error}");
                // Before the statement only a batch of the vnodes is beyond help.
                assert!(with_available || end as u64 >= stated, "{at} of {stated}: {error}");
                refused += 1;
                continue;
            }
        };
        assert!(mending.damaged_places().contains("at byte"), "{}", mending.damaged_places());
        if mending.lost_entries() > 0 {
            let lacks =
                free(|| mending.repair(&settings(&harmed).host())).expect_err("a value lacks");
            assert_eq!(lacks.reason, Reason::Corrupt);
        }
        while let Some(lost) = mending.next_missing() {
            mending.add_entry(lost, values[&lost].clone()).expect("little is lost");
        }
        free(|| mending.repair(&settings(&harmed).host())).expect("it is mended");
        let recovered = free(|| recover(&settings(&harmed).host(), None)).expect("it is sound");
        assert_eq!(Found::of(&recovered), expected, "damage at {at}");
        repaired += 1;
    }
    (repaired, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_damage_before_last_statement_is_repaired_anywhere() {
    let (mended, refused) = damaged_everywhere(false).await;
    println!("{mended} mended, {refused} refused");
    assert!(mended > 60 && refused > 0, "{mended} {refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_repair_never_skips_a_lost_vnode_batch() {
    let (mended, refused) = damaged_everywhere(true).await;
    println!("{mended} mended, {refused} refused");
    assert!(mended > 50 && refused > 10, "{mended} {refused}");
}
