//! Replica's side of a comparison: it keeps a snapshot for each marker, and answers with digests of
//! its rows.

use super::message::{ComparisonAnswer, ComparisonQuestion, Sum};
use super::report::ComparisonReport;
use base::codec::checksum;
use base::error::shutting_down;
use base::{Error, GroupId, Kind, LogIndex, Result};
use bytes::Bytes;
use runtime::log_writer::store_error;
use runtime::{TaskScope, world};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Snapshot, StoreError, TreeRow, Trees};
use tokio::sync::{Notify, Semaphore};
use transport::{IncomingCall, Peers};

/// Maximum number of open snapshots. A marker that finds as many is skipped.
const OPEN_MAX: usize = 16;
/// Time without a request after which a snapshot is closed, in milliseconds.
const IDLE_MS: u64 = 20_000;
/// Maximum number of requests that are answered at a time; each reads one piece.
const ANSWERS_MAX: usize = 8;
/// Maximum bytes of a piece. A replica's piece may hold more rows than the master's.
const PIECE_BYTES_MAX: u64 = 64 << 20;

/// Comparisons in which a node takes part.
pub struct Comparisons {
    trees: Arc<dyn Trees>,
    /// Open snapshots by group.
    open: Mutex<BTreeMap<GroupId, MarkerSnapshot>>,
    /// Reports of the groups of which this node is master.
    reports: Mutex<BTreeMap<GroupId, ComparisonReport>>,
    /// Groups for which an operator requested a comparison.
    requested: Mutex<BTreeSet<GroupId>>,
    /// Signal that an operator requested a comparison, or that damage was found.
    pub wake: Notify,
    /// Error of rows that this node can't read: the node must stop.
    damage: Mutex<Option<Error>>,
    /// Permits for answers that are being read.
    answer_permits: Arc<Semaphore>,
    /// Parent of the tasks that answer and read.
    tasks: TaskScope,
}

/// Snapshot of the state as of a marker.
#[derive(Clone)]
struct MarkerSnapshot {
    round: u64,
    snapshot: Arc<Mutex<Box<dyn Snapshot>>>,
    touched_ms: u64,
}

impl Comparisons {
    /// Creates the comparisons of a node, without snapshots or reports.
    pub fn new(trees: Arc<dyn Trees>, tasks: TaskScope) -> Arc<Comparisons> {
        Arc::new(Comparisons {
            trees,
            open: Mutex::default(),
            reports: Mutex::default(),
            requested: Mutex::default(),
            wake: Notify::new(),
            damage: Mutex::default(),
            answer_permits: Arc::new(Semaphore::new(ANSWERS_MAX)),
            tasks,
        })
    }

    fn open_snapshots(&self) -> MutexGuard<'_, BTreeMap<GroupId, MarkerSnapshot>> {
        self.open.lock().expect("no one panics while holding it")
    }

    /// Opens a snapshot of the current state. Called between two entries.
    pub fn open(&self, group: GroupId, round: u64) {
        self.close_expired();
        let mut open = self.open_snapshots();
        if open.len() >= OPEN_MAX && !open.contains_key(&group) {
            return;
        }
        let snapshot = Arc::new(Mutex::new(self.trees.snapshot()));
        open.insert(group, MarkerSnapshot { round, snapshot, touched_ms: world::milliseconds() });
    }

    /// Closes snapshots without a recent request.
    pub fn close_expired(&self) {
        let now = world::milliseconds();
        self.open_snapshots().retain(|_, open| open.touched_ms + IDLE_MS > now);
    }

    /// Closes the snapshot of a round.
    pub fn close(&self, group: GroupId, round: u64) {
        let mut open = self.open_snapshots();
        if open.get(&group).is_some_and(|open| open.round == round) {
            open.remove(&group);
        }
    }

    /// Returns the number of groups with a snapshot open for a comparison.
    pub fn count(&self) -> usize {
        self.open_snapshots().len()
    }

    fn find(&self, group: GroupId, round: u64) -> Option<Arc<Mutex<Box<dyn Snapshot>>>> {
        let mut open = self.open_snapshots();
        let found = open.get_mut(&group).filter(|open| open.round == round)?;
        found.touched_ms = world::milliseconds();
        Some(found.snapshot.clone())
    }

    /// Reads from the snapshot of a marker. `None`: it is not open here.
    pub async fn read<T: Send + 'static>(
        &self,
        group: GroupId,
        round: u64,
        read: impl FnOnce(&dyn Snapshot) -> Result<T> + Send + 'static,
    ) -> Result<Option<T>> {
        let Some(snapshot) = self.find(group, round) else { return Ok(None) };
        let reading = self.tasks.run_blocking(move || {
            read(&**snapshot.lock().expect("no one panics while holding it"))
        });
        match reading.await {
            Some(read) => read.map(Some).inspect_err(|error| self.note_damage(error)),
            None => Err(shutting_down()),
        }
    }

    fn note_damage(&self, error: &Error) {
        if error.kind() == Kind::Corrupt {
            let mut damage = self.damage.lock().expect("no one panics while holding it");
            damage.get_or_insert_with(|| error.clone());
            self.wake.notify_one();
        }
    }

    /// Returns the error of rows that this node can't read, if a comparison found some.
    pub fn damage(&self) -> Option<Error> {
        self.damage.lock().expect("no one panics while holding it").clone()
    }

    /// Handles a request. `applied`: the index that this replica has applied.
    pub fn on_call(self: &Arc<Self>, peers: &Peers, call: IncomingCall, applied: Option<LogIndex>) {
        let question = ComparisonQuestion::read(&call.payload);
        let permit = self.answer_permits.clone().try_acquire_owned();
        let (Ok(question), Ok(permit)) = (question, permit) else {
            peers.decline(&call);
            return;
        };
        let (comparisons, peers) = (self.clone(), peers.clone());
        self.tasks.spawn_short(async move {
            let answer = comparisons.answer(call.group, question, applied).await;
            let _ = peers.answer(&call, answer.write()); // The master asks again.
            drop(permit);
        });
    }

    async fn answer(
        &self,
        group: GroupId,
        question: ComparisonQuestion,
        applied: Option<LogIndex>,
    ) -> ComparisonAnswer {
        let ComparisonQuestion { round, index, low, high } = question;
        let read =
            move |snapshot: &dyn Snapshot| digest_piece(snapshot, &low, &high, PIECE_BYTES_MAX);
        match self.read(group, round, read).await {
            Ok(Some((sum, _))) => ComparisonAnswer::Sum(sum),
            Ok(None) if applied.is_some_and(|applied| applied < index) => ComparisonAnswer::NotYet,
            Ok(None) => ComparisonAnswer::Gone,
            Err(error) => {
                tracing::error!(
                    target: "store", group = group.0, %error,
                    "rows could not be read for a comparison of replicas"
                );
                ComparisonAnswer::Unreadable
            }
        }
    }

    /// Returns the comparison report of a group. `None`: its replicas were not compared here.
    pub fn report(&self, group: GroupId) -> Option<ComparisonReport> {
        self.reports.lock().expect("no one panics while holding it").get(&group).cloned()
    }

    /// Updates a group's report.
    pub fn note<T>(&self, group: GroupId, note: impl FnOnce(&mut ComparisonReport) -> T) -> T {
        let mut reports = self.reports.lock().expect("no one panics while holding it");
        note(reports.entry(group).or_default())
    }

    /// Removes a group's report and request: findings of this node as master are of no use to the
    /// next master.
    pub fn forget(&self, group: GroupId) {
        self.reports.lock().expect("no one panics while holding it").remove(&group);
        self.requested.lock().expect("no one panics while holding it").remove(&group);
    }

    /// Requests, for an operator, that this group is compared now. Returns the number of the pass
    /// that completes the request.
    pub fn request(&self, group: GroupId) -> u64 {
        // The number is read first: the caller waits for a pass that begins after the request, not
        // for an earlier one.
        let pass = self.note(group, |report| report.passes + 1 + u64::from(report.running));
        self.requested.lock().expect("no one panics while holding it").insert(group);
        self.wake.notify_one();
        pass
    }

    /// Returns true, once, if an operator requested a comparison of this group.
    pub fn take_request(&self, group: GroupId) -> bool {
        self.requested.lock().expect("no one panics while holding it").remove(&group)
    }
}

/// Returns the digest of the rows from `low` up to `high`, and the end of the digested range:
/// before a row that would exceed `bytes_max`, or `high`. Holds one row at least, if there is one.
pub fn digest_piece(
    snapshot: &dyn Snapshot,
    low: &Bytes,
    high: &Bytes,
    bytes_max: u64,
) -> Result<(Sum, Bytes)> {
    let mut sum = Sum::default();
    for row in range(snapshot, low, high) {
        let (key, value) = row.map_err(store_error)?;
        let bytes = (key.len() + value.len()) as u64;
        if sum.rows > 0 && sum.bytes + bytes > bytes_max {
            // A copy: the row's own bytes would keep a whole block in memory.
            return Ok((sum, Bytes::copy_from_slice(&key)));
        }
        sum.digest = checksum(&value, checksum(&key, sum.digest));
        (sum.rows, sum.bytes) = (sum.rows + 1, sum.bytes + bytes);
    }
    Ok((sum, high.clone()))
}

/// Returns the keys from `low` up to `high`.
pub fn read_keys(snapshot: &dyn Snapshot, low: &Bytes, high: &Bytes) -> Result<Vec<Bytes>> {
    let key = |row: std::result::Result<TreeRow, _>| {
        row.map(|(key, _)| Bytes::copy_from_slice(&key)).map_err(store_error)
    };
    range(snapshot, low, high).map(key).collect()
}

fn range<'a>(
    snapshot: &'a dyn Snapshot,
    low: &Bytes,
    high: &Bytes,
) -> impl Iterator<Item = std::result::Result<TreeRow, StoreError>> + 'a {
    snapshot.range(Bound::Included(low.clone()), Bound::Excluded(high.clone()), false)
}
