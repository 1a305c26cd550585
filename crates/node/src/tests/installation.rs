//! Installation of a snapshot beside the loop of a group's driver: the store of a follower blocks
//! in its switch until a gate opens, and the test takes the part of the master.

use super::sim::{Outbox, outbox_peers};
use super::test_cluster::wait;
use super::truncation::Sole;
use crate::startup::LogCompletions;
use base::codec::{Reader, Writer as _};
use base::{Ballot, BucketId, ConfigurationId, GroupId, LogIndex, Millis, NodeId, Part, Result};
use bytes::Bytes;
use logic::consensus::{Body, Configuration, LeaseTerm, Member, Message};
use replica_host::recovery::context;
use replica_state::layout::{self, Mark};
use replica_state::pending_entry::{EntryBuffers, PendingEntry};
use replica_state::snapshot::StagedSnapshot;
use replication::group::Group;
use runtime::CancellationToken;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use store::trees::TreeStatistics;
use store::{Ingest, MemoryTrees, Pressure, RowChange, Snapshot, StoreError, TreeRow, Trees};
use tokio::task::JoinHandle;

const MASTER: NodeId = NodeId(2);
const BALLOT: Ballot = Ballot { round: 1, node: MASTER };
/// Index of the snapshot.
const INSTALLED: LogIndex = LogIndex(100);
/// Lease that does not end during a test, in milliseconds.
const LEASE_MS: u64 = 60_000;

/// Trees whose one installation blocks in its switch.
struct GatedTrees {
    trees: Arc<dyn Trees>,
    reached: Sender<()>,
    gate: Mutex<Option<Receiver<()>>>,
}

struct GatedIngest {
    ingest: Box<dyn Ingest>,
    reached: Sender<()>,
    /// Returns once the other end is dropped.
    gate: Receiver<()>,
}

impl Ingest for GatedIngest {
    fn put(&mut self, rows: Vec<TreeRow>) -> std::result::Result<(), StoreError> {
        self.ingest.put(rows)
    }

    fn complete(&mut self) -> std::result::Result<(), StoreError> {
        self.ingest.complete()
    }

    fn switch(&mut self) -> std::result::Result<bool, StoreError> {
        self.reached.send(()).expect("the test waits");
        let _ = self.gate.recv();
        self.ingest.switch()
    }
}

impl Trees for GatedTrees {
    fn apply(
        &self,
        batch: &mut dyn Iterator<Item = RowChange>,
    ) -> std::result::Result<u64, StoreError> {
        self.trees.apply(batch)
    }

    fn get(&self, key: &[u8]) -> std::result::Result<Option<Bytes>, StoreError> {
        self.trees.get(key)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.trees.snapshot()
    }

    fn memory_bytes(&self) -> u64 {
        self.trees.memory_bytes()
    }

    fn pressure(&self) -> Pressure {
        self.trees.pressure()
    }

    fn rotate(&self) -> std::result::Result<bool, StoreError> {
        self.trees.rotate()
    }

    fn flush(&self) -> std::result::Result<(), StoreError> {
        self.trees.flush()
    }

    fn compact(&self) -> std::result::Result<bool, StoreError> {
        self.trees.compact()
    }

    fn drop_prefix(&self, prefix: &[u8]) -> std::result::Result<(), StoreError> {
        self.trees.drop_prefix(prefix)
    }

    fn begin_install(
        self: Arc<Self>,
        prefix: &[u8],
    ) -> std::result::Result<Box<dyn Ingest>, StoreError> {
        let ingest = Arc::clone(&self.trees).begin_install(prefix)?;
        let gate = self.gate.lock().expect("no panic").take().expect("one installation");
        Ok(Box::new(GatedIngest { ingest, reached: self.reached.clone(), gate }))
    }

    fn checkpoint(&self, target: &Path) -> std::result::Result<(), StoreError> {
        self.trees.checkpoint(target)
    }

    fn statistics(&self) -> TreeStatistics {
        self.trees.statistics()
    }
}

/// A follower of three voters: its driver and its log writer run, and nobody else.
struct Follower {
    sole: Sole,
    voters: Configuration,
    outbox: Outbox,
    driver: JoinHandle<Result<()>>,
    stop: CancellationToken,
    beats: u64,
}

impl Follower {
    /// Starts a follower that has promised the master's ballot.
    async fn start() -> Follower {
        let voter = |node| Member { node: NodeId(node), part: Part::Voter };
        let voters = Configuration::new(ConfigurationId(0), (1..=3).map(voter).collect());
        let voters = voters.expect("a configuration");
        let context = context(NodeId(1), LEASE_MS, Some(voters.clone())).expect("terms");
        let (sole, mut writer) = Sole::with_context(&context);
        let outbox = Outbox::default();
        let peers = sole.node.cluster.links.peers.set(outbox_peers(outbox.clone()));
        assert!(peers.is_ok(), "it has no peers yet");
        let log_writer = sole.node.housekeeper.disk.log_writer.clone();
        let post = LogCompletions::of(&sole.node);
        std::thread::spawn(move || {
            log_writer.run(&mut writer, &post).expect("a disk without faults");
            log_writer.mark_stopped();
        });
        let stop = CancellationToken::new();
        let driver = tokio::spawn(Arc::clone(&sole.group).drive(stop.clone()));
        let follower = Follower { sole, voters, outbox, driver, stop, beats: 0 };
        follower.send(Body::Prepare { released: Ballot::default() }, &[]);
        follower.reply("a promise", |body| matches!(body, Body::Promise { .. })).await;
        follower
    }

    fn group(&self) -> &Group {
        &self.sole.group
    }

    /// Sends a message of the master.
    fn send(&self, body: Body, entries: &[Bytes]) {
        let mut payload = Vec::new();
        Message { configuration: ConfigurationId(0), ballot: BALLOT, body }.write(&mut payload);
        entries.iter().for_each(|entry| payload.put_string(entry));
        self.group().on_message(MASTER, payload.into());
    }

    /// Waits until the follower has sent such a message to the master.
    async fn reply(&self, what: &str, is_it: impl Fn(&Body) -> bool) {
        let is_reply = |(to, _, bytes): &(NodeId, GroupId, Bytes)| {
            let message = Message::read(&mut Reader::new(bytes)).expect("a message");
            *to == MASTER && is_it(&message.body)
        };
        let is_there = || self.outbox.lock().expect("no panic").iter().any(is_reply).then_some(());
        wait(what, is_there).await;
    }

    /// Sends a heartbeat, and waits until it is answered.
    async fn beat(&mut self) {
        self.beats += 1;
        let (beat, lease) = (self.beats, Some(LeaseTerm::Half));
        let (decided, saved_by_all) = (LogIndex(0), LogIndex(0));
        self.send(Body::Heartbeat { beat, sent: Millis(beat), lease, decided, saved_by_all }, &[]);
        let is_answer =
            |body: &Body| matches!(body, Body::Granted { beat: answered, .. } if *answered == beat);
        self.reply("an answer to a heartbeat", is_answer).await;
    }

    /// Hands a complete snapshot to the group, and waits until the store begins to switch to it.
    /// The switch ends once the returned sender is dropped.
    async fn begin_install(&self) -> Sender<()> {
        let (from, mut key) = (MemoryTrees::new(1 << 20), Vec::new());
        let mark = Mark { applied: INSTALLED.0, time: 7, next_version: INSTALLED.0 + 1 };
        layout::mark_key(GroupId::DEFAULT, &mut key);
        from.apply(&mut [RowChange::Put(key.into(), mark.write())].into_iter()).expect("memory");
        let ((reached, is_reached), (opens, gate)) = (channel(), channel());
        let (trees, gate) = (self.sole.node.status.trees.clone(), Mutex::new(Some(gate)));
        let to: Arc<dyn Trees> = Arc::new(GatedTrees { trees, reached, gate });
        let to = (to, &self.sole.node.housekeeper.file_tasks);
        let first = Some(self.voters.clone());
        let staged = StagedSnapshot::copy_of(&from, to, GroupId::DEFAULT, first).expect("newer");
        self.group().on_fetch_ended(Ok(Ok(staged))).expect("it is staged");
        wait("the switch", || is_reached.try_recv().ok()).await;
        opens
    }

    /// Asserts that neither another fetch nor another installation may begin now.
    fn assert_one_at_a_time(&self) {
        let mut state = self.group().state();
        state.snapshot.fetch_source = Some(MASTER);
        let source = state.snapshot.take_fetch_source();
        assert_eq!(source, None, "it would not cover the rows that are being installed");
        drop(state);
        assert!(self.sole.group.begin_install().is_none());
    }

    /// Returns the applied index that the store holds.
    fn stored_index(&self) -> LogIndex {
        let mut key = Vec::new();
        layout::mark_key(GroupId::DEFAULT, &mut key);
        let mark = self.sole.node.status.trees.get(&key).expect("memory");
        LogIndex(mark.map_or(0, |mark| Mark::read(&mark).expect("a mark").applied))
    }

    /// Waits until the driver has ended, and ends the log writer.
    async fn end(self) -> Sole {
        self.driver.await.expect("no panic").expect("the driver ends without an error");
        self.sole.node.housekeeper.disk.log_writer.stop();
        self.sole
    }
}

/// An entry with one row.
fn entry(index: u64) -> Bytes {
    let mut entry = PendingEntry::new(LogIndex(index), 5, index, 0, EntryBuffers::default());
    let mut key = Vec::new();
    layout::row_key(GroupId::DEFAULT, BucketId(9), b"key", &mut key);
    entry.put_raw(&key, b"row");
    entry.updates = 1;
    entry.close()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn driver_answers_and_applies_nothing_while_the_store_installs_a_snapshot() {
    let mut follower = Follower::start().await;
    let gate = follower.begin_install().await;
    follower.beat().await;
    let needed_from = follower.group().log_needed_from();
    assert!(needed_from.is_some(), "a start needs the record that precedes the installation");
    follower.assert_one_at_a_time();
    follower.send(Body::Adopt { from: LogIndex(0), last: LogIndex(0) }, &[]);
    let (after, last) = (LogIndex(0), LogIndex(2));
    follower.send(Body::Accept { after, last, decided: last }, &[entry(1), entry(2)]);
    follower.reply("an acknowledgement", |body| *body == Body::Accepted { last }).await;
    let decided = || follower.group().state().replica.decided();
    wait("two decided entries", || (decided() == last).then_some(())).await;
    // Answered in a later turn than the one in which they were decided.
    follower.beat().await;
    let applied = (follower.group().applied.index(), follower.stored_index());
    assert_eq!(applied, (LogIndex(0), LogIndex(0)), "applied before the end");
    follower.stop.cancel();
    follower.beat().await;
    assert!(!follower.driver.is_finished(), "a stop waits for the installation");
    drop(gate);
    let group = Arc::clone(&follower.sole.group);
    wait("the snapshot", || (group.applied.index() == INSTALLED).then_some(())).await;
    assert_eq!(follower.stored_index(), INSTALLED);
    let sole = follower.end().await;
    assert!(!sole.node.housekeeper.file_tasks.has_running());
}

/// The rows of a dropped group are removed once its driver has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn driver_of_a_dropped_group_ends_after_its_installation() {
    let mut follower = Follower::start().await;
    let gate = follower.begin_install().await;
    assert!(follower.group().driver.drop_group(), "it is dropped now");
    follower.beat().await;
    assert!(!follower.driver.is_finished(), "the store would bring rows that nobody removes");
    drop(gate);
    let group = Arc::clone(&follower.sole.group);
    follower.end().await;
    assert!(group.state().lifecycle.failed().is_some(), "it was dropped");
    assert_eq!(group.applied.index(), INSTALLED, "the installation ended before");
}
