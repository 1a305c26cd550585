//! One snapshot from beginning to end, with everything that can happen to it.

use super::test_node::{
    GROUP, ONE, TWO, TestLink, TestNode, first, mark, row_key, second, until, value,
};
use crate::snapshot::message::Ends;
use crate::snapshot::{Fetched, StagedSnapshot};
use base::limits::VALUE_BYTES_MAX;
use base::{GroupId, LogIndex, Reason, Result};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use store::{LsmTrees, MemoryTrees, RowChange, TreeRow, TreeSettings, Trees};

/// Rows of the sender; a chunk holds about a hundred of them.
const ROWS: u32 = 2_000;
const BYTES: usize = 2_500;

type Homes<T> = (Arc<TestLink>, TestNode<T>, TestNode<T>);

/// A sender with many rows, and a receiver with fewer, older, and others.
fn homes<T: Trees + 'static>(one: T, two: T) -> Homes<T> {
    let cable = Arc::<TestLink>::default();
    let (one, two) = (TestNode::at(&cable, ONE, one), TestNode::at(&cable, TWO, two));
    one.apply(90, (0..ROWS).map(|number| (number, Some(value(number, 1, BYTES)))));
    two.apply(40, (ROWS / 2..ROWS + 300).map(|number| (number, Some(value(number, 2, 50)))));
    let elsewhere = RowChange::Put(Bytes::from_static(&[0, 0, 0, 8, 1]), "another group".into());
    two.trees.apply(&mut [elsewhere].into_iter()).unwrap();
    (cable, one, two)
}

fn in_memory() -> Homes<MemoryTrees> {
    homes(MemoryTrees::new(1 << 20), MemoryTrees::new(1 << 20))
}

async fn fetch<T: Trees + 'static>(home: &TestNode<T>) -> Result<StagedSnapshot> {
    home.snapshots.fetch(&home.peers, GROUP, ONE).await
}

/// Installs a staged snapshot and checks that the rows are exactly the wanted ones.
fn installed<T: Trees + 'static>(
    home: &TestNode<T>,
    staged: StagedSnapshot,
    wanted: &[TreeRow],
) -> Fetched {
    assert!(home.content() != wanted, "nothing is in force before");
    let fetched = staged.install().unwrap();
    assert!(home.content() == wanted, "what was sent is in force");
    let elsewhere = home.trees.get(&[0, 0, 0, 8, 1]).unwrap();
    assert_eq!(elsewhere.as_deref(), Some(&b"another group"[..]));
    assert!(home.snapshots.progress().is_empty());
    fetched
}

#[tokio::test]
async fn the_senders_state_arrives_as_of_its_index_while_it_goes_on() {
    let (cable, one, two) = in_memory();
    let (wanted, one) = (one.content(), Arc::new(one));
    let (later, number) = (one.clone(), AtomicU64::new(91));
    cable.fate(move |_, part| {
        let index = number.fetch_add(1, SeqCst);
        later.apply(index, [(index as u32, None), (5_000, Some("later".into()))]);
        vec![part]
    });
    let staged = fetch(&two).await.unwrap();
    let fetched = installed(&two, staged, &wanted);
    let (upto, base) = (LogIndex(90), LogIndex(0));
    assert_eq!(fetched, Fetched { upto, base, configuration: first(), mark: mark(90) });
    assert!(cable.parts.load(SeqCst) > 10, "it went in parts");
    assert_eq!(one.metrics.snapshots_sent.load(SeqCst), 1);
    assert_eq!(two.metrics.snapshots_received.load(SeqCst), 1);
    assert_eq!(two.metrics.snapshot_resumes.load(SeqCst), 0);
    until("the sender has closed it", || one.snapshots.sender.count() == 0).await;
}

#[tokio::test]
async fn on_disk_it_is_the_same_and_the_configuration_comes_with_it() {
    let folder = |n| std::env::temp_dir().join(format!("snapshot-{}-{n}", std::process::id()));
    let trees = |n| {
        let memory_bytes_max = 8 << 20;
        let settings = TreeSettings { memory_bytes_max, ..TreeSettings::new(folder(n)) };
        LsmTrees::open(settings).unwrap()
    };
    let (_cable, one, two) = homes(trees(1), trees(2));
    let configuration = second(&*one.trees, 77);
    let wanted = one.content();
    let fetched = installed(&two, fetch(&two).await.unwrap(), &wanted);
    assert_eq!((fetched.base, fetched.configuration), (LogIndex(77), configuration));
    // The directory of a process that is killed: what was not in force is not there.
    drop(two);
    let cable = Arc::<TestLink>::default();
    let (again, one) = (TestNode::at(&cable, TWO, trees(2)), TestNode::at(&cable, ONE, trees(3)));
    assert!(again.content() == wanted, "what was installed is durable");
    one.apply(95, (0..3_000).map(|number| (number, Some(value(number, 3, BYTES)))));
    std::mem::forget(fetch(&again).await.unwrap());
    drop(again);
    let again = TestNode::at(&cable, TWO, trees(2));
    assert!(again.content() == wanted, "what was not installed is not there");
    drop((again, one));
    (1..4).for_each(|n| std::fs::remove_dir_all(folder(n)).unwrap());
}

#[tokio::test]
async fn receiver_that_begins_twice_at_once_has_one_snapshot_open() {
    let (_cable, one, _two) = in_memory();
    let sender = &one.snapshots.sender;
    let opened = |stream| match sender.opened(TWO, GROUP, stream, Some(first())).unwrap() {
        Ok((_, open)) => open,
        Err(answer) => panic!("a snapshot, not {answer:?}"),
    };
    // Both were admitted before either was kept.
    let (earlier, later) = (opened(1), opened(2));
    assert!(sender.keep(earlier).is_some() && sender.keep(later).is_some());
    assert_eq!(sender.count(), 1, "another receiver finds no place");
}

#[tokio::test]
async fn after_a_break_it_goes_on_where_it_was() {
    let (cable, one, two) = in_memory();
    let (wanted, breaks) = (one.content(), Arc::new(AtomicU64::new(0)));
    let (line, count) = (Arc::downgrade(&cable), breaks.clone());
    cable.fate(move |number, part| {
        if number % 6 == 5 && count.load(SeqCst) < 3 {
            count.fetch_add(1, SeqCst);
            let line = line.upgrade().unwrap();
            line.cut();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                line.heal();
            });
            return vec![];
        }
        vec![part]
    });
    let staged = fetch(&two).await.unwrap();
    installed(&two, staged, &wanted);
    assert_eq!(breaks.load(SeqCst), 3);
    assert!(two.metrics.snapshot_resumes.load(SeqCst) >= 3);
    let (sent, bytes) = (&one.metrics.snapshot_bytes_sent, ROWS as usize * BYTES);
    assert!(sent.load(SeqCst) < 2 * bytes as u64, "little was sent twice");
}

#[tokio::test]
async fn a_part_that_is_lost_spoilt_doubled_or_late_is_sent_again() {
    for fate in 0..5 {
        let (cable, one, two) = in_memory();
        let (wanted, late) = (one.content(), std::sync::Mutex::new(None));
        cable.fate(move |number, mut part| match (number, fate) {
            (4, 0) => vec![],
            (4, 1) => {
                let mut body = part.body.to_vec();
                body[1_000] ^= 1;
                part.body = body.into();
                vec![part]
            }
            (4, 2) => vec![part.clone(), part],
            (4, 3) => {
                *late.lock().unwrap() = Some(part);
                vec![]
            }
            (7, 3) => late.lock().unwrap().take().into_iter().chain([part]).collect(),
            // The last one, of which nobody would be missed.
            (_, 4) if part.head.bytes()[17] == Ends::All as u8 && number < 25 => vec![],
            _ => vec![part],
        });
        let staged = fetch(&two).await.unwrap();
        installed(&two, staged, &wanted);
        assert!(two.metrics.snapshot_resumes.load(SeqCst) > 0, "fate {fate}");
    }
}

#[tokio::test]
async fn a_sender_that_was_restarted_begins_anew() {
    let (cable, one, two) = in_memory();
    let (snapshots, once) = (one.snapshots.clone(), AtomicBool::new(false));
    cable.fate(move |number, part| {
        if number == 8 && !once.swap(true, SeqCst) {
            snapshots.sender.forget();
            return vec![];
        }
        vec![part]
    });
    let fetching = fetch(&two);
    let anew = async {
        let anew = || two.snapshots.progress().iter().any(|progress| progress.restarts == 1);
        until("it began anew", anew).await;
        // Nothing is left of what came before.
        assert!(two.content().len() < ROWS as usize);
    };
    let (staged, ()) = tokio::join!(fetching, anew);
    installed(&two, staged.unwrap(), &one.content());
}

#[tokio::test]
async fn a_row_larger_than_a_part_goes_in_several() {
    let (cable, one, two) = in_memory();
    one.apply(91, [(3, Some(value(3, 9, VALUE_BYTES_MAX))), (4, Some(Bytes::new()))]);
    one.apply(92, [(ROWS + 9, Some(value(9, 9, 3 << 20)))]);
    cable.fate(|number, part| if number == 5 { vec![] } else { vec![part] });
    let wanted = one.content();
    installed(&two, fetch(&two).await.unwrap(), &wanted);
}

#[tokio::test]
async fn a_group_that_went_on_is_not_set_back() {
    let (_cable, one, two) = in_memory();
    let staged = fetch(&two).await.unwrap();
    two.apply(60, [(1, Some("by the log".into()))]);
    let before = two.content();
    let refused = staged.install().unwrap_err();
    assert_eq!(refused.reason, Reason::Changed);
    assert!(two.content() == before, "nothing has changed");
    // The next one is of use, and one that is not newer is not even sent.
    let staged = fetch(&two).await.unwrap();
    installed(&two, staged, &one.content());
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::Changed);
    assert_eq!(two.trees.get(&row_key(1)).unwrap(), Some(value(1, 1, BYTES)));
}

#[tokio::test]
async fn a_receiver_that_gives_up_leaves_nothing_and_may_begin_again() {
    let (cable, one, two) = in_memory();
    let before = two.content();
    cable.fate(|number, part| if number < 3 { vec![part] } else { vec![] });
    let two = Arc::new(two);
    let other = two.clone();
    let task = tokio::spawn(async move { fetch(&other).await.map(drop) });
    until("it has begun", || two.snapshots.progress().iter().any(|one| one.rows > 0)).await;
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::Overloaded, "one at a time");
    let progress = two.snapshots.progress().remove(0).status();
    assert_eq!((progress.group, progress.from, progress.last_index), (GROUP, ONE, LogIndex(90)));
    assert!(progress.rows <= progress.rows_estimated && progress.bytes > progress.rows);
    assert!(progress.eta_ms.is_some(), "{progress:?}");
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert!(two.snapshots.progress().is_empty());
    assert!(two.content() == before);
    cable.fate(|_, part| vec![part]);
    let staged = fetch(&two).await.unwrap();
    installed(&two, staged, &one.content());
}

#[tokio::test]
async fn few_snapshots_are_open_and_none_for_long_without_being_asked() {
    let (cable, one, two) = in_memory();
    let others: Vec<_> = (3..6)
        .map(|id| TestNode::at(&cable, base::NodeId(id), MemoryTrees::new(1 << 20)))
        .collect();
    // Nothing arrives, so nobody ends.
    cable.fate(|_, _| vec![]);
    let tasks: Vec<_> = others
        .iter()
        .take(2)
        .map(|home| {
            let (snapshots, peers) = (home.snapshots.clone(), home.peers.clone());
            tokio::spawn(async move { snapshots.fetch(&peers, GROUP, ONE).await.map(drop) })
        })
        .collect();
    until("two are open", || one.snapshots.sender.count() == 2).await;
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::Overloaded);
    tasks.iter().for_each(|task| task.abort());
    until("they are closed", || one.snapshots.sender.count() == 0).await;
    cable.fate(|_, part| vec![part]);
    installed(&two, fetch(&two).await.unwrap(), &one.content());
}

#[tokio::test]
async fn who_has_nothing_or_is_not_there_is_an_error() {
    let (cable, one, two) = in_memory();
    let nothing = two.snapshots.fetch(&two.peers, GroupId(99), ONE).await;
    assert_eq!(nothing.err().unwrap().reason, Reason::NotFound);
    cable.cut();
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::NoQuorum);
    drop(one);
}
