//! F-07 for this crate alone: a process dies at every failpoint, opens what it left, and dies there
//! again; log, trees and what was acknowledged agree each time.

use bytes::Bytes;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use store::failpoint::{EXIT_CODE, POINTS, Point, arm};
use store::{
    Ahead, Chunk, DataDir, FileDisk, Log, LogSettings, LsmTrees, Owner, Record, RecordKind,
    RowChange,
};
use store::{Position, TreeSettings, Trees, check_trees};

/// Reached by a node only, `proof` has it; and a read, which leaves nothing half done.
const ELSEWHERE: [Point; 2] = [Point::CheckpointNamed, Point::RowRead];
/// Number of updates in one run.
const LIFE: u64 = 160;
/// One sync for so many.
const BATCH: u64 = 4;
const ROWS: u64 = 50;
const APPLIED: &[u8] = b"applied";
const CAME: &[u8] = b"came ";

/// A node without its network: what the log says is in the trees up to the applied index.
struct Node {
    data: DataDir,
    log: Log,
    trees: Arc<LsmTrees>,
    applied: u64,
    /// Position of the last record's beginning, or a little before.
    before: Position,
}

fn settings(data: &DataDir) -> LogSettings {
    LogSettings { segment_bytes: 16 * 1024, id: data.node, ahead: Ahead::Inline }
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
        let applied = known.map_or(0, |it| u64::from_le_bytes(it[..].try_into().expect("8")));
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

    /// Appends, acknowledges by a line, applies; flushes, collapses and copies now and then.
    fn live(&mut self) {
        for index in self.applied + 1..=self.applied + LIFE {
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
            let sync = index % BATCH == 0;
            self.log.commit(sync).expect("commits");
            if sync {
                println!("acknowledged {index}");
            }
            self.apply(index);
            if index % 75 == 0 {
                self.tidy(index);
            }
        }
        self.log.settle().expect("settles");
    }

    fn tidy(&mut self, index: u64) {
        let gone = RowChange::Put(Bytes::from(format!("gone {index}")), value(index));
        self.trees.apply(&mut std::iter::once(gone)).expect("applies");
        self.trees.rotate().and_then(|_| self.trees.flush()).expect("flushes");
        while self.trees.compact().expect("merges") {}
        self.log.collapse(self.before).expect("collapses");
        self.trees.drop_prefix(b"gone ").expect("drops");
        self.install(index);
        let copy = self.data.path.join(format!("copy{index}"));
        self.trees.checkpoint(&copy).expect("copies");
    }

    /// Rows that all say the same index take the place of those that do.
    fn install(&self, index: u64) {
        let trees: Arc<dyn Trees> = self.trees.clone();
        let mut install = trees.begin_install(CAME).expect("begins");
        for n in 0..20 + index % 10 {
            let key = Bytes::from([CAME, &n.to_be_bytes()].concat());
            install.put(vec![(key, value(index))]).expect("takes");
        }
        assert!(install.switch().expect("switches"), "nobody writes there");
    }

    /// Checks that the installed rows are complete and of one index.
    fn judge_installed(&self) {
        let rows =
            Chunk::read(&*self.trees.snapshot(), CAME, None, usize::MAX).expect("reads").rows;
        if let Some((_, first)) = rows.first() {
            assert!(rows.iter().all(|(_, value)| value == first), "old and new rows are mixed");
            let index = (1..=self.applied + LIFE).find(|index| value(*index) == first);
            let index = index.expect("some index");
            assert_eq!(rows.len() as u64, 20 + index % 10);
        }
    }

    /// Returns the index up to which all is there; every row is the one of the newest index.
    fn judge(&self) -> u64 {
        self.judge_installed();
        for index in 1..=self.applied {
            let newest = self.applied - (self.applied - index) % ROWS;
            if newest == index {
                assert_eq!(self.trees.get(&row(index)).expect("reads"), Some(value(index)));
            }
        }
        self.applied
    }
}

/// One run in a process of its own, which this test starts.
#[test]
#[ignore = "a part of the test below, in a process of its own"]
fn one_life() {
    let path = std::env::var_os("LIFE_IN").expect("set by the test below");
    if let Ok(words) = std::env::var("LIFE_ENDS_AT") {
        arm(&words).expect("a failpoint");
    }
    Node::open(Path::new(&path)).live();
}

fn life(path: &Path, ends_at: &str) -> (Output, u64) {
    let program = std::env::current_exe().expect("known");
    let mut command = Command::new(program);
    command.args(["--exact", "one_life", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env("LIFE_IN", path);
    if !ends_at.is_empty() {
        command.env("LIFE_ENDS_AT", ends_at);
    }
    let output = command.output().expect("starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = said.lines().filter_map(|line| line.rsplit_once("acknowledged ")).next_back();
    let last = last.map_or(0, |(_, index)| index.parse().expect("a number"));
    (output, last)
}

/// Opens what a run left and checks that it holds all that was acknowledged. Returns the last
/// index.
fn left(path: &Path, acknowledged: u64, name: &str) -> u64 {
    let node = Node::open(path);
    let there = node.judge();
    assert!(
        there >= acknowledged && there <= acknowledged + BATCH,
        "{name}: {acknowledged}, {there}"
    );
    for copy in std::fs::read_dir(path).expect("lists").flatten() {
        // A copy is whole once it has its list; one that has none is refused.
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
fn every_failpoint_is_reached_and_what_dies_there_opens_again() {
    let mut deaths = 0;
    let mut missed = BTreeSet::new();
    for (_, name) in POINTS.iter().filter(|(point, _)| !ELSEWHERE.contains(point)) {
        let above = tempfile::tempdir().expect("a directory");
        let path = above.path().join("data");
        let (mut there, mut died) = (0, false);
        // In the first run, late in the second, and early in the third.
        for ends_at in [format!("{name}=abort"), format!("{name}=abort@3"), format!("{name}=abort")]
        {
            let (output, acknowledged) = life(&path, &ends_at);
            // A panic of the code under test ends it otherwise, and fails this test.
            let dead = output.status.code() == Some(EXIT_CODE);
            assert!(dead || output.status.success(), "{name}: {output:?}");
            died |= dead;
            deaths += u32::from(dead);
            there = left(&path, acknowledged.max(there), name);
        }
        if !died {
            missed.insert(*name);
        }
        let (output, acknowledged) = life(&path, "");
        assert!(output.status.success(), "{name}: {output:?}");
        assert_eq!(left(&path, acknowledged, name), there + LIFE, "{name}");
    }
    println!("{deaths} deaths at {} failpoints", POINTS.len() - ELSEWHERE.len());
    assert!(missed.is_empty(), "never reached: {missed:?}");
}
