//! Snapshot transfer: a group's state at one index, from a node that has it to one that can't get
//! there by the log any more.
//!
//! The receiver asks ([`SnapshotQuestion::Begin`]). The sender opens a snapshot of its store and
//! answers with an [`Offer`]: index, configuration, and estimated size. Then it sends the rows in
//! the order of their keys by the lane of bulk, in numbered parts. Each part carries the digest of
//! all rows up to its end, chained from part to part, so the last one vouches for everything. The
//! receiver hands the rows to the store (`store/trees/ingest.rs`), which hides them, and returns
//! the lane's credit when they are taken: a slow disk slows only the snapshot down. At the end
//! stands [`StagedSnapshot`], which the group's driver installs between two turns.
//!
//! After a loss (a connection, a part) the receiver asks for the rest from the last key taken; the
//! sender knows the digest there. A sender that has forgotten the snapshot (restarted, idle for too
//! long) says so, and the receiver starts again. Every request to send names a *stream*, a number
//! that the receiver draws: parts of an earlier stream are ignored.
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
//! Read next: `message.rs`, `send.rs`, `receive.rs`, `take.rs`.

mod message;
mod part_queue;
mod pending;
pub mod progress;
mod receive;
mod send;
mod take;

#[cfg(test)]
mod tests;

use base::{Error, GroupId, LogIndex, NodeId, Reason, Result};
use logic::consensus::Configuration;
use message::{Offer, SnapshotQuestion};
use part_queue::PartQueues;
use runtime::TaskScope;
use runtime::file_tasks::{FileTask, FileTasks};
use runtime::log_writer::store_error;
use runtime::metrics::Metrics;
use send::Sender;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Ingest, RowChange, Trees};
use transport::{IncomingCall, IncomingMessage, Peers};

use super::layout::{self, Mark};
pub use message::KEY_MAX;
pub use pending::PendingSnapshot;
pub use progress::{SnapshotProgress, SnapshotStatus};

/// The snapshots of a node: those it sends, and those it receives.
pub struct Snapshots {
    trees: Arc<dyn Trees>,
    metrics: Arc<Metrics>,
    file_tasks: Arc<FileTasks>,
    pace: Pace,
    sender: Arc<Sender>,
    intakes: PartQueues,
    progress: Mutex<BTreeMap<GroupId, SnapshotProgress>>,
    /// Parent of the tasks that answer and send.
    tasks: TaskScope,
}

/// Timeouts of snapshot transfers.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Receiver: time without a part, after which the part or the sender counts as lost. A part may
    /// take a while if the lane is slow.
    pub quiet: Duration,
    /// Receiver: pause between two attempts to reach the sender.
    pub pause: Duration,
    /// Sender: time without a request or a delivered part, after which a snapshot is closed.
    pub idle: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            quiet: Duration::from_secs(15),
            pause: Duration::from_millis(200),
            idle: Duration::from_secs(60),
        }
    }
}

/// A snapshot that is here whole, and not in force yet.
pub struct StagedSnapshot {
    group: GroupId,
    offer: Offer,
    /// The rows; none: a witness takes the mark alone.
    install: Option<Installing>,
    trees: Arc<dyn Trees>,
}

/// Rows on their way into the store. The owner writes its files, or removes them if it fails; the
/// node does not stop before.
struct Installing {
    install: Box<dyn Ingest>,
    /// Released after the files.
    _task: FileTask,
}

/// State that was installed, durably.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Index of the last entry in the state.
    pub upto: LogIndex,
    /// Index of the stop-sign with which its configuration began.
    pub base: LogIndex,
    /// Members at that point.
    pub configuration: Configuration,
    /// Mark of the last value that was applied.
    pub mark: Mark,
}

impl Snapshots {
    /// Creates a state without snapshots.
    pub fn new(
        trees: Arc<dyn Trees>,
        around: (Arc<Metrics>, Arc<FileTasks>),
        pace: Pace,
        tasks: TaskScope,
    ) -> Arc<Snapshots> {
        let (metrics, file_tasks) = around;
        let sender = Sender::new(trees.clone(), metrics.clone(), pace.idle, tasks.clone());
        Arc::new(Snapshots {
            sender: Arc::new(sender),
            trees,
            metrics,
            file_tasks,
            pace,
            intakes: PartQueues::default(),
            progress: Mutex::default(),
            tasks,
        })
    }

    /// A question came. `first`: the configuration the group began with, where that is still in
    /// force; a later one stands in the store.
    pub fn asked(&self, peers: &Peers, asked: IncomingCall, first: Option<Configuration>) {
        let question = match SnapshotQuestion::read(&asked.payload) {
            Ok(question) => question,
            Err(malformed) => {
                tracing::warn!(
                    target: "consensus", from = %asked.from, "a question about a snapshot is \
                     malformed: {}", malformed.0
                );
                peers.decline(&asked);
                return;
            }
        };
        let (sender, peers) = (Arc::clone(&self.sender), peers.clone());
        let (stop, name) = (self.tasks.stop().clone(), format!("snapshot of {}", asked.group));
        self.tasks.spawn(&name, async move {
            // A receiver that hears no more of it asks another node.
            let answered = sender.answer(peers, asked, question, first);
            let _ = stop.run_until_cancelled(answered).await;
        });
    }

    /// A part came; must not wait.
    pub fn arrived(&self, delivered: IncomingMessage) {
        self.intakes.arrived(delivered);
    }

    /// Ends the fetches from a node whose connection broke.
    pub fn broken(&self, node: NodeId) {
        self.intakes.broken(node);
    }

    /// The snapshots that are being received, by group.
    pub fn progress(&self) -> Vec<SnapshotProgress> {
        self.progress.lock().expect("no one panics while holding it").values().cloned().collect()
    }
}

impl Installing {
    fn begin(
        trees: &Arc<dyn Trees>,
        file_tasks: &Arc<FileTasks>,
        prefix: &[u8],
    ) -> Result<Installing> {
        let _task = file_tasks.begin()?;
        let install = Arc::clone(trees).begin_install(prefix).map_err(store_error)?;
        Ok(Installing { install, _task })
    }
}

impl StagedSnapshot {
    /// The state is that after this value.
    pub fn upto(&self) -> LogIndex {
        LogIndex(self.offer.mark.applied)
    }

    /// Stages a snapshot for a witness, which takes no rows.
    pub fn marked(
        from: &dyn Trees,
        to: Arc<dyn Trees>,
        group: GroupId,
        first: Option<Configuration>,
    ) -> Option<StagedSnapshot> {
        let offer = send::offer(&*from.snapshot(), group, first).expect("it is sound").ok()?;
        Some(StagedSnapshot { group, offer, install: None, trees: to })
    }

    /// Stages a snapshot without a network: the state of `from`, for `to`. `None`: `to` is not
    /// behind.
    pub fn copied(
        from: &dyn Trees,
        to: (Arc<dyn Trees>, &Arc<FileTasks>),
        group: GroupId,
        first: Option<Configuration>,
    ) -> Option<StagedSnapshot> {
        let ((to, file_tasks), snapshot) = (to, from.snapshot());
        let offer = send::offer(&*snapshot, group, first).expect("it is sound").ok()?;
        if applied_here(&*to, group).expect("it is sound") >= offer.mark.applied {
            return None;
        }
        let prefix = group.0.to_be_bytes();
        let mut install = Installing::begin(&to, file_tasks, &prefix).expect("room");
        let all = store::Chunk::read(&*snapshot, &prefix, None, usize::MAX).expect("it is sound");
        install.install.put(all.rows).expect("room");
        Some(StagedSnapshot { group, offer, install: Some(install), trees: to })
    }

    /// Installs the state, durably; blocks for a few syncs. No entry of the group may be applied
    /// meanwhile. After any error but a failed store nothing has changed.
    pub fn install(mut self) -> Result<Fetched> {
        if applied_here(&*self.trees, self.group)? >= self.offer.mark.applied {
            return Err(overtaken());
        }
        let Offer { base, configuration, mark, .. } = self.offer;
        let upto = LogIndex(mark.applied);
        let fetched = Fetched { upto, base, configuration, mark };
        let switched = match &mut self.install {
            None => install_mark(self.group, &*self.trees, &fetched).map(|()| true)?,
            Some(installing) => installing.install.switch().map_err(store_error)?,
        };
        if !switched {
            return Err(overtaken());
        }
        tracing::info!(
            target: "consensus", group = %self.group, upto = upto.0, "a snapshot is installed"
        );
        Ok(fetched)
    }
}

fn overtaken() -> Error {
    let text = "the group went on by itself while a snapshot came: it is not installed";
    Error::new(Reason::Changed, text)
}

/// Returns the last index that the store has applied of the group's log. 0: none.
fn applied_here(trees: &dyn Trees, group: GroupId) -> Result<u64> {
    let mut key = Vec::new();
    layout::mark_key(group, &mut key);
    let Some(bytes) = trees.get(&key).map_err(store_error)? else { return Ok(0) };
    Ok(Mark::read(&bytes).map_err(base::error::corrupt)?.applied)
}

/// Installs the state of a snapshot without its rows, durably.
fn install_mark(group: GroupId, trees: &dyn Trees, to: &Fetched) -> Result<()> {
    let (mut mark, mut configuration) = (Vec::new(), Vec::new());
    layout::mark_key(group, &mut mark);
    layout::configuration_key(group, &mut configuration);
    let written = layout::write_configuration(to.base, &to.configuration);
    let changes = [
        RowChange::Put(configuration.into(), written),
        RowChange::Put(mark.into(), to.mark.write()),
    ];
    trees.apply(&mut changes.into_iter()).map_err(store_error)?;
    trees.rotate().map_err(store_error)?;
    trees.flush().map_err(store_error)
}
