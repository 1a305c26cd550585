//! Snapshot transfer: a group's state at one index, from a node that holds it to one that can no
//! longer reach it by the log.
//!
//! The receiver requests it ([`SnapshotQuestion::Begin`]). The sender opens a snapshot of its store
//! and answers with an [`Offer`]: index, configuration, and estimated size. Then it sends the rows
//! in the order of their keys by the lane of bulk, in numbered parts. Each part carries the digest
//! of all rows up to its end, chained from part to part, so the last one covers all rows. The
//! receiver hands the rows to the store (`store/trees/ingest.rs`), which hides them, and returns
//! the lane's credit when they are taken: a slow disk slows only the snapshot down. At the end
//! stands [`StagedSnapshot`], which the group installs beside its driver
//! (`replication/installation.rs`).
//!
//! After a loss (a connection, a part) the receiver requests the rest behind the last key taken;
//! the sender still has the digest up to there. A sender that no longer has the snapshot
//! (restarted, idle for too long) answers so, and the receiver starts again. Every request to send
//! names a *stream*, a random number of the receiver: parts of an earlier stream are ignored.
//!
//! Only the group's rows in the store are touched. The promises and accepted entries of this
//! replica are in the log, and stay.
//!
//! Promises: the installed state is the sender's exactly at the offered index, whatever it applied
//! meanwhile; until then this node's state is unchanged, also after a crash; memory is bounded by
//! the lane's window and one table of the store; a sender keeps few snapshots open, and none for
//! long without a request; nothing of one is written after the node has stopped.
//! Never: installs a state that is not newer; decides when a snapshot is due (that is `logic`);
//! bounds the rate (that is `transport`).
//! Read next: `message.rs`, `send.rs`, `open_snapshots.rs`, `receive.rs`, `part_assembler.rs`.

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod message;
mod open_snapshots;
mod part_assembler;
mod part_queue;
mod pending;
pub mod progress;
mod receive;
mod send;

#[cfg(test)]
mod tests;

use base::{Error, GroupId, LogIndex, NodeId, Reason, Result};
use logic::consensus::Configuration;
use message::{Offer, SnapshotQuestion};
use part_queue::PartQueues;
use runtime::file_tasks::{FileTask, FileTasks};
use runtime::log_writer::store_error;
use runtime::metrics::Metrics;
use runtime::{DiskSpace, TaskScope, Watch};
use send::Sender;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Ingest, TreeRow, Trees};
use transport::{IncomingCall, IncomingMessage, Peers};

use super::layout::{self, Mark};
pub use message::KEY_MAX;
pub use pending::PendingSnapshot;
pub use progress::{SnapshotProgress, SnapshotStatus};

/// Watch over a task that sends a snapshot.
const SENDER_WATCH: Watch =
    Watch::Unbounded("a sender whose receiver is silent closes the snapshot");

/// Snapshots that a node sends and receives.
pub struct Snapshots {
    trees: Arc<dyn Trees>,
    metrics: Arc<Metrics>,
    file_tasks: Arc<FileTasks>,
    space: Arc<DiskSpace>,
    timeouts: TransferTimeouts,
    sender: Arc<Sender>,
    part_queues: PartQueues,
    progress: Mutex<BTreeMap<GroupId, SnapshotProgress>>,
    /// Parent of the tasks that answer and send.
    tasks: TaskScope,
}

/// Timeouts of snapshot transfers.
#[derive(Clone, Copy, Debug)]
pub struct TransferTimeouts {
    /// Receiver: time without a part, after which the part or the sender counts as lost. A part may
    /// take a while if the lane is slow.
    pub part: Duration,
    /// Receiver: pause between two attempts to reach the sender.
    pub retry: Duration,
    /// Sender: time without a request or a delivered part, after which a snapshot is closed.
    pub idle: Duration,
    /// Sender: the same time, if another snapshot is requested and has no place. Longer than a new
    /// connection takes, after which a receiver resumes.
    pub unused: Duration,
}

impl Default for TransferTimeouts {
    fn default() -> TransferTimeouts {
        TransferTimeouts {
            part: Duration::from_secs(15),
            retry: Duration::from_millis(200),
            idle: Duration::from_secs(60),
            unused: Duration::from_secs(5),
        }
    }
}

/// Complete snapshot that is not installed yet.
pub struct StagedSnapshot {
    group: GroupId,
    offer: Offer,
    /// Rows of the snapshot. `None`: a witness installs the mark only.
    rows: Option<RowIngest>,
    trees: Arc<dyn Trees>,
}

/// Ingest of a snapshot's rows into the store. Its owner completes the files, or removes them on
/// failure; the node does not stop before that.
struct RowIngest {
    ingest: Box<dyn Ingest>,
    /// Released after the files: fields are dropped in order.
    _task: FileTask,
}

/// Snapshot that was installed durably.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledSnapshot {
    /// Index of the last entry in the state.
    pub index: LogIndex,
    /// Index of the stop-sign with which its configuration began.
    pub base: LogIndex,
    /// Configuration in force at that index.
    pub configuration: Configuration,
    /// Mark of the last applied entry.
    pub mark: Mark,
}

impl Snapshots {
    /// Creates the snapshots of a node, with none open.
    pub fn new(
        trees: Arc<dyn Trees>,
        handles: (Arc<Metrics>, Arc<FileTasks>, Arc<DiskSpace>),
        timeouts: TransferTimeouts,
        tasks: TaskScope,
    ) -> Arc<Snapshots> {
        let (metrics, file_tasks, space) = handles;
        let sender = Sender::new(trees.clone(), metrics.clone(), timeouts, tasks.clone());
        Arc::new(Snapshots {
            sender: Arc::new(sender),
            trees,
            metrics,
            file_tasks,
            space,
            timeouts,
            part_queues: PartQueues::default(),
            progress: Mutex::default(),
            tasks,
        })
    }

    /// Handles a request. `initial`: configuration with which the group began, if it is still in
    /// force; a later one is in the store.
    pub fn on_call(&self, peers: &Peers, call: IncomingCall, initial: Option<Configuration>) {
        let question = match SnapshotQuestion::read(&call.payload) {
            Ok(question) => question,
            Err(malformed) => {
                tracing::warn!(
                    target: "consensus", from = %call.from, "a question about a snapshot is \
                     malformed: {}", malformed.0
                );
                peers.decline(&call);
                return;
            }
        };
        let (sender, peers) = (Arc::clone(&self.sender), peers.clone());
        let (stop, name) =
            (self.tasks.cancellation_token().clone(), format!("snapshot of {}", call.group));
        self.tasks.spawn(&name, SENDER_WATCH, async move {
            // A receiver that gets no more parts asks another node.
            let answering = sender.answer(peers, call, question, initial);
            let _ = stop.run_until_cancelled(answering).await;
        });
    }

    /// Handles a part. Never waits.
    pub fn on_part(&self, delivered: IncomingMessage) {
        self.part_queues.on_part(delivered);
    }

    /// Ends the fetches from a node whose connection broke.
    pub fn on_broken(&self, node: NodeId) {
        self.part_queues.on_broken(node);
    }

    /// Returns the progress of the snapshots that are being received.
    pub fn progress(&self) -> Vec<SnapshotProgress> {
        self.progress.lock().expect("no one panics while holding it").values().cloned().collect()
    }
}

impl RowIngest {
    fn begin(
        trees: &Arc<dyn Trees>,
        file_tasks: &Arc<FileTasks>,
        prefix: &[u8],
    ) -> Result<RowIngest> {
        let _task = file_tasks.begin()?;
        let ingest = Arc::clone(trees).begin_install(prefix).map_err(store_error)?;
        Ok(RowIngest { ingest, _task })
    }
}

impl StagedSnapshot {
    /// Returns the index of the last entry in the state.
    pub fn last_index(&self) -> LogIndex {
        LogIndex(self.offer.mark.applied)
    }

    /// Stages a snapshot without a network and without rows, for a witness.
    pub fn without_rows(
        from: &dyn Trees,
        to: Arc<dyn Trees>,
        group: GroupId,
        initial: Option<Configuration>,
    ) -> Option<StagedSnapshot> {
        let offer = send::offer(&*from.snapshot(), group, initial).expect("it is sound").ok()?;
        Some(StagedSnapshot { group, offer, rows: None, trees: to })
    }

    /// Stages a snapshot without a network: the state of `from`, for `to`. `None`: `to` is not
    /// behind.
    pub fn copy_of(
        from: &dyn Trees,
        to: (Arc<dyn Trees>, &Arc<FileTasks>),
        group: GroupId,
        initial: Option<Configuration>,
    ) -> Option<StagedSnapshot> {
        let ((to, file_tasks), snapshot) = (to, from.snapshot());
        let offer = send::offer(&*snapshot, group, initial).expect("it is sound").ok()?;
        if applied_index(&*to, group).expect("it is sound") >= offer.mark.applied {
            return None;
        }
        let prefix = group.0.to_be_bytes();
        let mut rows = RowIngest::begin(&to, file_tasks, &prefix).expect("room");
        let all = store::Chunk::read(&*snapshot, &prefix, None, usize::MAX).expect("it is sound");
        rows.ingest.put(all.rows).expect("room");
        Some(StagedSnapshot { group, offer, rows: Some(rows), trees: to })
    }

    /// Installs the state, durably; blocks for a few syncs and a flush of all memory. No entry of
    /// the group may be applied meanwhile. After any error but a failed store nothing has changed.
    pub fn install(mut self) -> Result<InstalledSnapshot> {
        if applied_index(&*self.trees, self.group)? >= self.offer.mark.applied {
            return Err(overtaken());
        }
        let Offer { base, configuration, mark, .. } = self.offer;
        let index = LogIndex(mark.applied);
        let installed = InstalledSnapshot { index, base, configuration, mark };
        let switched = match &mut self.rows {
            None => install_mark(self.group, self.trees, &installed)?,
            Some(rows) => rows.ingest.switch().map_err(store_error)?,
        };
        if !switched {
            return Err(overtaken());
        }
        tracing::info!(
            target: "consensus", group = %self.group, upto = index.0, "a snapshot is installed"
        );
        Ok(installed)
    }
}

fn overtaken() -> Error {
    let text = "the group advanced while a snapshot was received: the snapshot is not installed";
    Error::new(Reason::Changed, text)
}

/// Returns the last index that the store has applied of the group's log. 0: none.
fn applied_index(trees: &dyn Trees, group: GroupId) -> Result<u64> {
    let mut key = Vec::new();
    layout::mark_key(group, &mut key);
    let Some(bytes) = trees.get(&key).map_err(store_error)? else { return Ok(0) };
    Ok(Mark::read(&bytes).map_err(base::error::corrupt)?.applied)
}

/// Installs the state of a snapshot without its rows, durably. Returns false if a row of the group
/// was written meanwhile; then nothing has changed.
fn install_mark(
    group: GroupId,
    trees: Arc<dyn Trees>,
    installed: &InstalledSnapshot,
) -> Result<bool> {
    let (mut mark, mut configuration) = (Vec::new(), Vec::new());
    layout::mark_key(group, &mut mark);
    layout::configuration_key(group, &mut configuration);
    let written = layout::write_configuration(installed.base, &installed.configuration);
    let mut rows: Vec<TreeRow> =
        vec![(mark.into(), installed.mark.write()), (configuration.into(), written)];
    rows.sort_unstable();
    // Not as a batch, which is visible before it is on disk: with a full disk the mark would stay
    // ahead of what this replica applied, and the same snapshot would count as overtaken from then
    // on.
    let switched = trees.begin_install(&group.0.to_be_bytes()).and_then(|mut ingest| {
        ingest.put(rows)?;
        ingest.complete()?;
        ingest.switch()
    });
    switched.map_err(store_error)
}
