//! Replica's side of a scrub: it keeps the snapshot that a marker asked for, and answers digests of
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
/// Time without a question after which a snapshot is closed, in milliseconds.
const IDLE_MS: u64 = 20_000;
/// Questions answered at a time; each reads one piece.
const ANSWERS_MAX: usize = 8;
/// A piece of another replica may hold more than the master's, but is not read for ever.
const PIECE_BYTES_MAX: u64 = 64 << 20;

/// A node's part in comparisons.
pub struct Comparisons {
    trees: Arc<dyn Trees>,
    open: Mutex<BTreeMap<GroupId, MarkerSnapshot>>,
    reports: Mutex<BTreeMap<GroupId, ComparisonReport>>,
    /// Groups that an operator wants compared now.
    asked: Mutex<BTreeSet<GroupId>>,
    /// Rung when an operator asks for a comparison.
    pub wake: Notify,
    /// Error of rows that this node can't read: the node must stop.
    damage: Mutex<Option<Error>>,
    /// Room for answers.
    seats: Arc<Semaphore>,
    /// Parent of the answers, and of reads.
    tasks: TaskScope,
}

/// The state behind one marker.
#[derive(Clone)]
struct MarkerSnapshot {
    round: u64,
    snapshot: Arc<Mutex<Box<dyn Snapshot>>>,
    touched_ms: u64,
}

impl Comparisons {
    /// Begins with no reports.
    pub fn new(trees: Arc<dyn Trees>, tasks: TaskScope) -> Arc<Comparisons> {
        Arc::new(Comparisons {
            trees,
            open: Mutex::default(),
            reports: Mutex::default(),
            asked: Mutex::default(),
            wake: Notify::new(),
            damage: Mutex::default(),
            seats: Arc::new(Semaphore::new(ANSWERS_MAX)),
            tasks,
        })
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<GroupId, MarkerSnapshot>> {
        self.open.lock().expect("no one panics while holding it")
    }

    /// Opens the state as it is now; called between two values.
    pub(crate) fn open(&self, group: GroupId, round: u64) {
        self.sweep();
        let mut held = self.held();
        if held.len() >= OPEN_MAX && !held.contains_key(&group) {
            return;
        }
        let snapshot = Arc::new(Mutex::new(self.trees.snapshot()));
        held.insert(group, MarkerSnapshot { round, snapshot, touched_ms: world::milliseconds() });
    }

    /// Closes snapshots that nobody asks about.
    pub fn sweep(&self) {
        let now = world::milliseconds();
        self.held().retain(|_, held| held.touched_ms + IDLE_MS > now);
    }

    /// A round has ended here.
    pub(crate) fn close(&self, group: GroupId, round: u64) {
        let mut held = self.held();
        if held.get(&group).is_some_and(|held| held.round == round) {
            held.remove(&group);
        }
    }

    /// Returns how many groups have a snapshot open for a comparison.
    pub fn count(&self) -> usize {
        self.held().len()
    }

    fn find(&self, group: GroupId, round: u64) -> Option<Arc<Mutex<Box<dyn Snapshot>>>> {
        let mut held = self.held();
        let held = held.get_mut(&group).filter(|held| held.round == round)?;
        held.touched_ms = world::milliseconds();
        Some(held.snapshot.clone())
    }

    /// Reads a piece of the state behind a marker; none: it is not here any more.
    pub(crate) async fn read<T: Send + 'static>(
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
            Some(read) => read.map(Some).inspect_err(|error| self.look_at(error)),
            None => Err(shutting_down()),
        }
    }

    fn look_at(&self, error: &Error) {
        if error.kind() == Kind::Corrupt {
            let mut damage = self.damage.lock().expect("no one panics while holding it");
            damage.get_or_insert_with(|| error.clone());
            self.wake.notify_one();
        }
    }

    /// That rows of this node can't be read, once that was found.
    pub fn damage(&self) -> Option<Error> {
        self.damage.lock().expect("no one panics while holding it").clone()
    }

    /// A question came. `applied`: how far this replica is.
    pub fn asked(self: &Arc<Self>, peers: &Peers, asked: IncomingCall, applied: Option<LogIndex>) {
        let question = ComparisonQuestion::read(&asked.payload);
        let seat = self.seats.clone().try_acquire_owned();
        let (Ok(question), Ok(seat)) = (question, seat) else {
            peers.decline(&asked);
            return;
        };
        let (own, peers) = (self.clone(), peers.clone());
        self.tasks.spawn_short(async move {
            let answer = own.answer(asked.group, question, applied).await;
            let _ = peers.answer(&asked, answer.write()); // What finds no room is asked again.
            drop(seat);
        });
    }

    async fn answer(
        &self,
        group: GroupId,
        question: ComparisonQuestion,
        applied: Option<LogIndex>,
    ) -> ComparisonAnswer {
        let ComparisonQuestion { round, index, low, high } = question;
        let read = move |snapshot: &dyn Snapshot| piece(snapshot, &low, &high, PIECE_BYTES_MAX);
        match self.read(group, round, read).await {
            Ok(Some((sum, _))) => ComparisonAnswer::Sum(sum),
            Ok(None) if applied.is_some_and(|applied| applied < index) => ComparisonAnswer::NotYet,
            Ok(None) => ComparisonAnswer::Gone,
            Err(error) => {
                tracing::error!(
                    target: "store", group = group.0, %error,
                    "rows could not be read for a comparison"
                );
                ComparisonAnswer::Unreadable
            }
        }
    }

    /// Returns the comparison report of a group. `None`: nothing is known of its replicas.
    pub fn report(&self, group: GroupId) -> Option<ComparisonReport> {
        self.reports.lock().expect("no one panics while holding it").get(&group).cloned()
    }

    /// Writes something into a group's report.
    pub(crate) fn note<T>(
        &self,
        group: GroupId,
        note: impl FnOnce(&mut ComparisonReport) -> T,
    ) -> T {
        let mut reports = self.reports.lock().expect("no one panics while holding it");
        note(reports.entry(group).or_default())
    }

    /// Forgets a group's report and request: what this node found while it was master is of no use
    /// to the next master.
    pub fn forget(&self, group: GroupId) {
        self.reports.lock().expect("no one panics while holding it").remove(&group);
        self.asked.lock().expect("no one panics while holding it").remove(&group);
    }

    /// Requests, for an operator, that this group is compared now. Returns the number of the pass
    /// that will have done it.
    pub fn ask(&self, group: GroupId) -> u64 {
        // First the number: a pass that begins once it is asked for is the one that is waited for,
        // and not one before it.
        let pass = self.note(group, |report| report.passes + 1 + u64::from(report.running));
        self.asked.lock().expect("no one panics while holding it").insert(group);
        self.wake.notify_one();
        pass
    }

    /// Returns true, once, if an operator wants this group compared.
    pub fn is_asked(&self, group: GroupId) -> bool {
        self.asked.lock().expect("no one panics while holding it").remove(&group)
    }
}

/// Returns the digest of the rows from `low` up to `high`, and the end of the digested range:
/// before a row that would exceed `bytes_max`, or `high`. Holds one row at least, if there is one.
pub(crate) fn piece(
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
            // A copy, for the row's own bytes hang on a whole block.
            return Ok((sum, Bytes::copy_from_slice(&key)));
        }
        sum.digest = checksum(&value, checksum(&key, sum.digest));
        (sum.rows, sum.bytes) = (sum.rows + 1, sum.bytes + bytes);
    }
    Ok((sum, high.clone()))
}

/// The keys from `low` up to `high`.
pub(crate) fn keys(snapshot: &dyn Snapshot, low: &Bytes, high: &Bytes) -> Result<Vec<Bytes>> {
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
