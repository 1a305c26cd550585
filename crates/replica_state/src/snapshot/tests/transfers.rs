//! Transfers of one snapshot from beginning to end, with every kind of fault.

use super::test_node::{
    GROUP, ONE, TWO, TestLink, TestNode, initial, mark, row_key, second, value, wait_until,
};
use crate::layout;
use crate::snapshot::message::PartEnd;
use crate::snapshot::open_snapshots::OpenSnapshot;
use crate::snapshot::{InstalledSnapshot, StagedSnapshot};
use base::limits::VALUE_BYTES_MAX;
use base::{GroupId, LogIndex, NodeId, Reason, Result};
use bytes::Bytes;
use runtime::disk_space::DiskFigures;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use store::{LsmTrees, MemoryTrees, RowChange, TreeRow, TreeSettings, Trees};

/// Rows of the sender; a chunk holds about a hundred of them.
const ROWS: u32 = 2_000;
const BYTES: usize = 2_500;

type Nodes<T> = (Arc<TestLink>, TestNode<T>, TestNode<T>);

/// Returns a sender with many rows, and a receiver with fewer, older and other rows.
fn nodes<T: Trees + 'static>(one: T, two: T) -> Nodes<T> {
    let link = Arc::<TestLink>::default();
    let (one, two) = (TestNode::new(&link, ONE, one), TestNode::new(&link, TWO, two));
    one.apply(90, (0..ROWS).map(|number| (number, Some(value(number, 1, BYTES)))));
    two.apply(40, (ROWS / 2..ROWS + 300).map(|number| (number, Some(value(number, 2, 50)))));
    let other_row = RowChange::Put(Bytes::from_static(&[0, 0, 0, 8, 1]), "another group".into());
    two.trees.apply(&mut [other_row].into_iter()).unwrap();
    (link, one, two)
}

fn in_memory() -> Nodes<MemoryTrees> {
    nodes(MemoryTrees::new(1 << 20), MemoryTrees::new(1 << 20))
}

async fn fetch<T: Trees + 'static>(node: &TestNode<T>) -> Result<StagedSnapshot> {
    node.snapshots.fetch(&node.peers, GROUP, ONE).await
}

/// Installs a staged snapshot and checks that the rows are exactly the expected ones.
fn installed<T: Trees + 'static>(
    node: &TestNode<T>,
    staged: StagedSnapshot,
    expected: &[TreeRow],
) -> InstalledSnapshot {
    assert!(node.content() != expected, "nothing is in force before");
    let fetched = staged.install().unwrap();
    assert!(node.content() == expected, "what was sent is in force");
    let other_row = node.trees.get(&[0, 0, 0, 8, 1]).unwrap();
    assert_eq!(other_row.as_deref(), Some(&b"another group"[..]));
    assert!(node.snapshots.progress().is_empty());
    fetched
}

#[tokio::test]
async fn snapshot_holds_senders_state_at_its_index_despite_later_writes() {
    let (link, one, two) = in_memory();
    let (expected, one) = (one.content(), Arc::new(one));
    let (later, number) = (one.clone(), AtomicU64::new(91));
    link.fate(move |_, part| {
        let index = number.fetch_add(1, SeqCst);
        later.apply(index, [(index as u32, None), (5_000, Some("later".into()))]);
        vec![part]
    });
    let staged = fetch(&two).await.unwrap();
    let fetched = installed(&two, staged, &expected);
    let (index, base) = (LogIndex(90), LogIndex(0));
    assert_eq!(
        fetched,
        InstalledSnapshot { index, base, configuration: initial(), mark: mark(90) }
    );
    assert!(link.parts.load(SeqCst) > 10, "it went in parts");
    assert_eq!(one.metrics.snapshots_sent.load(SeqCst), 1);
    assert_eq!(two.metrics.snapshots_received.load(SeqCst), 1);
    assert_eq!(two.metrics.snapshot_resumes.load(SeqCst), 0);
    wait_until("the sender has closed it", || one.snapshots.sender.count() == 0).await;
}

#[tokio::test]
async fn snapshot_on_disk_carries_configuration_and_is_durable_once_installed() {
    let folder = |n| std::env::temp_dir().join(format!("snapshot-{}-{n}", std::process::id()));
    let trees = |n| {
        let memory_bytes_max = 8 << 20;
        let settings = TreeSettings { memory_bytes_max, ..TreeSettings::new(folder(n)) };
        LsmTrees::open(settings).unwrap()
    };
    let (_link, one, two) = nodes(trees(1), trees(2));
    let configuration = second(&*one.trees, 77);
    let expected = one.content();
    let fetched = installed(&two, fetch(&two).await.unwrap(), &expected);
    assert_eq!((fetched.base, fetched.configuration), (LogIndex(77), configuration));
    // The directory after the process is killed: an uninstalled snapshot is absent.
    drop(two);
    let link = Arc::<TestLink>::default();
    let (reopened, one) =
        (TestNode::new(&link, TWO, trees(2)), TestNode::new(&link, ONE, trees(3)));
    assert!(reopened.content() == expected, "what was installed is durable");
    one.apply(95, (0..3_000).map(|number| (number, Some(value(number, 3, BYTES)))));
    std::mem::forget(fetch(&reopened).await.unwrap());
    drop(reopened);
    let reopened = TestNode::new(&link, TWO, trees(2));
    assert!(reopened.content() == expected, "what was not installed is not there");
    drop((reopened, one));
    (1..4).for_each(|n| std::fs::remove_dir_all(folder(n)).unwrap());
}

#[tokio::test]
async fn receiver_with_two_concurrent_requests_has_one_open_snapshot() {
    let (_link, one, _two) = in_memory();
    let sender = &one.snapshots.sender;
    let opened = |stream| match sender.open_snapshot(TWO, GROUP, stream, Some(initial())).unwrap() {
        Ok((_, open)) => open,
        Err(answer) => panic!("a snapshot, not {answer:?}"),
    };
    // Both were admitted before either was registered.
    let (earlier, later) = (opened(1), opened(2));
    assert!(sender.open.insert(earlier).is_some() && sender.open.insert(later).is_some());
    assert_eq!(sender.count(), 1, "another receiver finds no place");
}

#[tokio::test]
async fn snapshot_transfer_resumes_where_the_link_broke() {
    let (link, one, two) = in_memory();
    let (expected, breaks) = (one.content(), Arc::new(AtomicU64::new(0)));
    let (weak_link, count) = (Arc::downgrade(&link), breaks.clone());
    link.fate(move |number, part| {
        if number % 6 == 5 && count.load(SeqCst) < 3 {
            count.fetch_add(1, SeqCst);
            let link = weak_link.upgrade().unwrap();
            link.cut();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                link.heal();
            });
            return vec![];
        }
        vec![part]
    });
    let staged = fetch(&two).await.unwrap();
    installed(&two, staged, &expected);
    assert_eq!(breaks.load(SeqCst), 3);
    assert!(two.metrics.snapshot_resumes.load(SeqCst) >= 3);
    let (sent, bytes) = (&one.metrics.snapshot_bytes_sent, ROWS as usize * BYTES);
    assert!(sent.load(SeqCst) < 2 * bytes as u64, "little was sent twice");
}

#[tokio::test]
async fn lost_corrupt_duplicate_or_late_snapshot_part_causes_a_resume() {
    for fate in 0..5 {
        let (link, one, two) = in_memory();
        let (expected, late) = (one.content(), std::sync::Mutex::new(None));
        link.fate(move |number, mut part| match (number, fate) {
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
            // The last part, after which no gap would be noticed.
            (_, 4) if part.head.bytes()[17] == PartEnd::Snapshot as u8 && number < 25 => vec![],
            _ => vec![part],
        });
        let staged = fetch(&two).await.unwrap();
        installed(&two, staged, &expected);
        assert!(two.metrics.snapshot_resumes.load(SeqCst) > 0, "fate {fate}");
    }
}

#[tokio::test]
async fn snapshot_transfer_restarts_if_the_sender_has_restarted() {
    let (link, one, two) = in_memory();
    let (snapshots, once) = (one.snapshots.clone(), AtomicBool::new(false));
    link.fate(move |number, part| {
        if number == 8 && !once.swap(true, SeqCst) {
            snapshots.sender.close_all();
            return vec![];
        }
        vec![part]
    });
    let fetching = fetch(&two);
    let restarted = async {
        let restarted = || two.snapshots.progress().iter().any(|progress| progress.restarts == 1);
        wait_until("it began anew", restarted).await;
        // No row of the first attempt is left.
        assert!(two.content().len() < ROWS as usize);
    };
    let (staged, ()) = tokio::join!(fetching, restarted);
    installed(&two, staged.unwrap(), &one.content());
}

#[tokio::test]
async fn row_larger_than_a_snapshot_part_is_transferred_whole() {
    let (link, one, two) = in_memory();
    one.apply(91, [(3, Some(value(3, 9, VALUE_BYTES_MAX))), (4, Some(Bytes::new()))]);
    one.apply(92, [(ROWS + 9, Some(value(9, 9, 3 << 20)))]);
    link.fate(|number, part| if number == 5 { vec![] } else { vec![part] });
    let expected = one.content();
    installed(&two, fetch(&two).await.unwrap(), &expected);
}

#[tokio::test]
async fn snapshot_staged_before_a_local_apply_is_not_installed() {
    let (_link, one, two) = in_memory();
    let staged = fetch(&two).await.unwrap();
    two.apply(60, [(1, Some("by the log".into()))]);
    let before = two.content();
    let refused = staged.install().unwrap_err();
    assert_eq!(refused.reason, Reason::Changed);
    assert!(two.content() == before, "nothing has changed");
    // The next one is installed, and one that is not newer is not even sent.
    let staged = fetch(&two).await.unwrap();
    installed(&two, staged, &one.content());
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::Changed);
    assert_eq!(two.trees.get(&row_key(1)).unwrap(), Some(value(1, 1, BYTES)));
}

#[tokio::test]
async fn aborted_snapshot_fetch_leaves_no_rows_and_can_be_repeated() {
    let (link, one, two) = in_memory();
    let before = two.content();
    link.fate(|number, part| if number < 3 { vec![part] } else { vec![] });
    let two = Arc::new(two);
    let other = two.clone();
    let fetching = tokio::spawn(async move { fetch(&other).await.map(drop) });
    wait_until("it has begun", || two.snapshots.progress().iter().any(|one| one.rows > 0)).await;
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::Overloaded, "one at a time");
    let progress = two.snapshots.progress().remove(0).status();
    assert_eq!((progress.group, progress.from, progress.last_index), (GROUP, ONE, LogIndex(90)));
    assert!(progress.rows <= progress.rows_estimated && progress.bytes > progress.rows);
    assert!(progress.eta_ms.is_some(), "{progress:?}");
    fetching.abort();
    assert!(fetching.await.unwrap_err().is_cancelled());
    assert!(two.snapshots.progress().is_empty());
    assert!(two.content() == before);
    link.fate(|_, part| vec![part]);
    let staged = fetch(&two).await.unwrap();
    installed(&two, staged, &one.content());
}

#[tokio::test]
async fn sender_limits_open_snapshots_and_closes_idle_ones() {
    let (link, one, two) = in_memory();
    let others: Vec<_> =
        (3..6).map(|id| TestNode::new(&link, NodeId(id), MemoryTrees::new(1 << 20))).collect();
    // No part arrives, so no receiver ends its transfer.
    link.fate(|_, _| vec![]);
    let tasks: Vec<_> = others
        .iter()
        .take(2)
        .map(|node| {
            let (snapshots, peers) = (node.snapshots.clone(), node.peers.clone());
            tokio::spawn(async move { snapshots.fetch(&peers, GROUP, ONE).await.map(drop) })
        })
        .collect();
    wait_until("two are open", || one.snapshots.sender.count() == 2).await;
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::Overloaded);
    tasks.iter().for_each(|task| task.abort());
    wait_until("they are closed", || one.snapshots.sender.count() == 0).await;
    link.fate(|_, part| vec![part]);
    installed(&two, fetch(&two).await.unwrap(), &one.content());
}

/// Opens a snapshot for a node that requests nothing more.
fn opened(one: &TestNode<MemoryTrees>, node: u64) -> Arc<OpenSnapshot> {
    let sender = &one.snapshots.sender;
    match sender.open_snapshot(NodeId(node), GROUP, 1, Some(initial())).unwrap() {
        Ok((_, open)) => sender.open.insert(open).unwrap(),
        Err(answer) => panic!("a snapshot, not {answer:?}"),
    }
}

#[tokio::test]
async fn unused_snapshot_gives_its_place_to_one_that_is_requested() {
    let (_link, one, two) = in_memory();
    // Two receivers that are not there any more: a restart, or a lost notice of the end.
    let opened = [3, 4].map(|node| opened(&one, node));
    tokio::time::sleep(Duration::from_millis(600)).await;
    let refused = fetch(&two).await.err().unwrap();
    assert_eq!(refused.reason, Reason::Overloaded, "they are being sent, if slowly");
    opened[0].end_stream(1);
    tokio::time::sleep(Duration::from_millis(5)).await;
    opened[1].end_stream(1);
    let first = Arc::downgrade(&opened[0]);
    drop(opened);
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::Overloaded, "they may resume");
    tokio::time::sleep(Duration::from_millis(600)).await;
    installed(&two, fetch(&two).await.unwrap(), &one.content());
    assert!(first.upgrade().is_none(), "the longest unused one was closed, and holds no files");
    assert_eq!(one.snapshots.sender.count(), 1, "the other one is still open");
}

#[tokio::test]
async fn directory_has_a_place_of_its_own_among_open_snapshots() {
    let (_link, one, two) = in_memory();
    let _opened = [3, 4].map(|node| opened(&one, node));
    let mut key = Vec::new();
    layout::mark_key(GroupId::DIRECTORY, &mut key);
    let row = RowChange::Put(key.into(), mark(7).write());
    one.trees.apply(&mut [row].into_iter()).unwrap();
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::Overloaded);
    let staged = two.snapshots.fetch(&two.peers, GroupId::DIRECTORY, ONE).await.unwrap();
    assert_eq!(staged.last_index(), LogIndex(7));
}

#[tokio::test]
async fn snapshot_is_not_received_on_a_nearly_full_disk() {
    let (link, one, two) = in_memory();
    let (before, full) = (two.content(), |free_bytes| DiskFigures {
        free_bytes,
        total_bytes: 100 << 20,
        files: None,
    });
    let space = two.space.clone();
    link.fate(move |number, part| {
        if number == 4 {
            space.update(&full(1 << 20), 10 << 20, false);
        }
        vec![part]
    });
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::OutOfSpace);
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::OutOfSpace, "nor begun");
    assert!(two.content() == before && link.parts.load(SeqCst) < 20, "it was given up early");
    wait_until("the sender has closed it", || one.snapshots.sender.count() == 0).await;
    two.space.update(&full(50 << 20), 10 << 20, false);
    installed(&two, fetch(&two).await.unwrap(), &one.content());
}

#[tokio::test]
async fn closed_snapshot_is_not_sent_any_further() {
    let (link, one, two) = in_memory();
    let (snapshots, once) = (one.snapshots.clone(), AtomicBool::new(false));
    link.fate(move |number, _| {
        if number == 3 && !once.swap(true, SeqCst) {
            snapshots.sender.close_all();
        }
        vec![]
    });
    let (snapshots, peers) = (two.snapshots.clone(), two.peers.clone());
    let fetching = tokio::spawn(async move { snapshots.fetch(&peers, GROUP, ONE).await.map(drop) });
    wait_until("it was closed", || link.parts.load(SeqCst) > 3).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(link.parts.load(SeqCst) < 8, "only the parts of the chunk that was read before");
    fetching.abort();
}

#[tokio::test]
async fn snapshot_fetch_of_unknown_group_or_unreachable_sender_fails() {
    let (link, one, two) = in_memory();
    let refused = two.snapshots.fetch(&two.peers, GroupId(99), ONE).await;
    assert_eq!(refused.err().unwrap().reason, Reason::NotFound);
    link.cut();
    assert_eq!(fetch(&two).await.err().unwrap().reason, Reason::NoQuorum);
    drop(one);
}
