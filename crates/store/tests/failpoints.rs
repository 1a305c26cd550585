//! F-07 for this crate alone: a process dies at every failpoint, opens the files it left, and dies
//! there again. Log, trees and acknowledged updates agree each time.

use bytes::Bytes;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use store::failpoint::{EXIT_CODE, POINTS, Point, arm};
use store::{
    Chunk, DataDir, FileDisk, Log, LogSettings, LsmTrees, Owner, Record, RecordKind, RowChange,
    SpareWorker,
};
use store::{Position, TreeSettings, Trees, check_trees};

/// Failpoints that this test leaves out: one that only a node reaches, which the system tests
/// cover, and one in a read, which changes nothing.
const TESTED_ELSEWHERE: [Point; 2] = [Point::CheckpointNamed, Point::RowRead];
/// Number of updates in one run.
const UPDATES_PER_RUN: u64 = 160;
/// Number of updates for each sync.
const UPDATES_PER_SYNC: u64 = 4;
/// Number of different rows.
const ROWS: u64 = 50;
const APPLIED: &[u8] = b"applied";
/// Prefix of the rows that `install` replaces.
const INSTALLED: &[u8] = b"came ";

/// A node without a network: the trees hold the effects of the log up to the applied index.
struct Node {
    data: DataDir,
    log: Log,
    trees: Arc<LsmTrees>,
    applied: u64,
    /// Position at which the last record begins, or earlier.
    before: Position,
}

fn settings(data: &DataDir) -> LogSettings {
    LogSettings { segment_bytes: 16 * 1024, log_id: data.node, spare_worker: SpareWorker::Inline }
}

fn value(index: u64) -> Bytes {
    Bytes::from(vec![index as u8; 400 + (index % 700) as usize])
}

fn row(index: u64) -> Bytes {
    Bytes::from(format!("row {:03}", index % ROWS))
}

impl Node {
    fn open(path: &Path) -> Node {
        let data = DataDir::open(path).expect("opens");
        let trees = Arc::new(LsmTrees::open(TreeSettings::new(data.store())).expect("opens"));
        let disk = Arc::new(FileDisk::open(&data.log()).expect("opens"));
        let (log, records) = Log::open(disk, settings(&data)).expect("opens");
        let known = trees.get(APPLIED).expect("reads");
        let applied = known.map_or(0, |bytes| u64::from_le_bytes(bytes[..].try_into().expect("8")));
        let before = log.end();
        let mut node = Node { data, log, trees, applied, before };
        for record in records {
            let (_, record) = record.expect("sound");
            assert!(record.index <= node.applied + 1, "no gap between log and trees");
            if record.index == node.applied + 1 {
                assert_eq!(record.payload, value(record.index));
                node.apply(record.index);
            }
        }
        node
    }

    fn apply(&mut self, index: u64) {
        let applied = Bytes::copy_from_slice(&index.to_le_bytes());
        let changes =
            [RowChange::Put(row(index), value(index)), RowChange::Put(APPLIED.into(), applied)];
        self.trees.apply(&mut changes.into_iter()).expect("applies");
        self.applied = index;
    }

    /// Appends, acknowledges by a line of output, and applies; sometimes flushes, collapses and
    /// copies.
    fn run(&mut self) {
        for index in self.applied + 1..=self.applied + UPDATES_PER_RUN {
            self.before = self.log.end();
            let payload = value(index);
            let owner = Owner { group: 1, generation: 0 };
            let (kind, payload) = (RecordKind::Accept, &payload[..]);
            let record = Record {
                kind,
                owner,
                configuration: 0,
                ballot: (1, 1),
                index,
                decided: index - 1,
                payload,
            };
            self.log.append(&record).expect("appends");
            let sync = index % UPDATES_PER_SYNC == 0;
            self.log.commit(sync).expect("commits");
            if sync {
                println!("acknowledged {index}");
            }
            self.apply(index);
            if index % 75 == 0 {
                self.maintain(index);
            }
        }
        self.log.mark_durable().expect("settles");
    }

    fn maintain(&mut self, index: u64) {
        let dropped = RowChange::Put(Bytes::from(format!("gone {index}")), value(index));
        self.trees.apply(&mut std::iter::once(dropped)).expect("applies");
        self.trees.rotate().and_then(|_| self.trees.flush()).expect("flushes");
        while self.trees.compact().expect("merges") {}
        self.log.collapse(self.before).expect("collapses");
        self.trees.drop_prefix(b"gone ").expect("drops");
        self.install(index);
        let copy = self.data.path.join(format!("copy{index}"));
        self.trees.checkpoint(&copy).expect("copies");
    }

    /// Replaces all installed rows by rows with this index.
    fn install(&self, index: u64) {
        let trees: Arc<dyn Trees> = self.trees.clone();
        let mut install = trees.begin_install(INSTALLED).expect("begins");
        for n in 0..20 + index % 10 {
            let key = Bytes::from([INSTALLED, &n.to_be_bytes()].concat());
            install.put(vec![(key, value(index))]).expect("takes");
        }
        assert!(install.switch().expect("switches"), "nobody writes there");
    }

    /// Checks that the installed rows are complete and of one index.
    fn check_installed(&self) {
        let rows =
            Chunk::read(&*self.trees.snapshot(), INSTALLED, None, usize::MAX).expect("reads").rows;
        if let Some((_, first)) = rows.first() {
            assert!(rows.iter().all(|(_, value)| value == first), "old and new rows are mixed");
            let index = (1..=self.applied + UPDATES_PER_RUN).find(|index| value(*index) == first);
            let index = index.expect("some index");
            assert_eq!(rows.len() as u64, 20 + index % 10);
        }
    }

    /// Checks that every row has its newest version. Returns the applied index.
    fn check(&self) -> u64 {
        self.check_installed();
        for index in 1..=self.applied {
            let newest = self.applied - (self.applied - index) % ROWS;
            if newest == index {
                assert_eq!(self.trees.get(&row(index)).expect("reads"), Some(value(index)));
            }
        }
        self.applied
    }
}

/// One run in a child process, which the test below starts.
#[test]
#[ignore = "a part of the test below, in a process of its own"]
fn child_process_runs_node_with_optional_failpoint() {
    let path = std::env::var_os("LIFE_IN").expect("set by the test below");
    if let Ok(spec) = std::env::var("LIFE_ENDS_AT") {
        arm(&spec).expect("a failpoint");
    }
    Node::open(Path::new(&path)).run();
}

fn run_child(path: &Path, failpoint: &str) -> (Output, u64) {
    let program = std::env::current_exe().expect("known");
    let mut command = Command::new(program);
    command.args([
        "--exact",
        "child_process_runs_node_with_optional_failpoint",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env("LIFE_IN", path);
    if !failpoint.is_empty() {
        command.env("LIFE_ENDS_AT", failpoint);
    }
    let output = command.output().expect("starts");
    let output_text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = output_text.lines().filter_map(|line| line.rsplit_once("acknowledged ")).next_back();
    let last = last.map_or(0, |(_, index)| index.parse().expect("a number"));
    (output, last)
}

/// Opens the files that a run left and checks that they hold all acknowledged updates. Returns the
/// last index.
fn reopen_and_check(path: &Path, acknowledged: u64, name: &str) -> u64 {
    let node = Node::open(path);
    let there = node.check();
    assert!(
        there >= acknowledged && there <= acknowledged + UPDATES_PER_SYNC,
        "{name}: {acknowledged}, {there}"
    );
    for copy in std::fs::read_dir(path).expect("lists").flatten() {
        // A copy is complete once it has its list; one without a list is refused.
        if copy.file_name().to_string_lossy().starts_with("copy") {
            if copy.path().join("current").exists() {
                let report = check_trees(&copy.path(), &mut |_, _| {}).expect("reads");
                assert!(report.damage.is_empty(), "{name}: {:?}", report.damage);
            }
            std::fs::remove_dir_all(copy.path()).expect("ours");
        }
    }
    node.log.close().expect("closes");
    there
}

#[test]
fn failpoints_are_all_reached_and_node_reopens_after_death_at_each() {
    let mut deaths = 0;
    let mut missed = BTreeSet::new();
    for (_, name) in POINTS.iter().filter(|(point, _)| !TESTED_ELSEWHERE.contains(point)) {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("data");
        let (mut last_index, mut died) = (0, false);
        // At the first pass in the first run, late in the second, and at the first pass in the
        // third.
        for failpoint in
            [format!("{name}=abort"), format!("{name}=abort@3"), format!("{name}=abort")]
        {
            let (output, acknowledged) = run_child(&path, &failpoint);
            // A panic of the code under test ends the process with another code, and fails this
            // test.
            let is_dead = output.status.code() == Some(EXIT_CODE);
            assert!(is_dead || output.status.success(), "{name}: {output:?}");
            died |= is_dead;
            deaths += u32::from(is_dead);
            last_index = reopen_and_check(&path, acknowledged.max(last_index), name);
        }
        if !died {
            missed.insert(*name);
        }
        let (output, acknowledged) = run_child(&path, "");
        assert!(output.status.success(), "{name}: {output:?}");
        assert_eq!(
            reopen_and_check(&path, acknowledged, name),
            last_index + UPDATES_PER_RUN,
            "{name}"
        );
    }
    println!("{deaths} deaths at {} failpoints", POINTS.len() - TESTED_ELSEWHERE.len());
    assert!(missed.is_empty(), "never reached: {missed:?}");
}
