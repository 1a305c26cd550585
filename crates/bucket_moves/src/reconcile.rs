//! The loop that drives this node's moves, one of each group at a time, and tidies up behind those
//! that are over.

use crate::progress::MovePhase;
use crate::{BucketMoves, mover};
use base::{BucketId, BucketName, Error, GroupId, LogIndex, Reason, Result};
use change_feed::feed_record_key;
use replication::group::Group;
use replication::seals::{BucketMarks, intake_key, seal_key};
use runtime::{Watch, round, world};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, OwnedPermit};

/// Pause between two checks while a bucket moves, or marks of a move are to be removed.
const PAUSE: Duration = Duration::from_millis(100);
/// Period of the checks otherwise.
const PERIOD_IDLE: Duration = Duration::from_millis(500);

/// Watch over a move.
const MOVE_WATCH: Watch =
    Watch::Unbounded("it waits for members that are down, and its status says for what");

/// Maximum number of moves that run on a node at a time.
const MOVES_MAX: usize = 1_024;

/// Result of a move that has ended here.
type EndedMove = (GroupId, BucketName, Result<()>);

/// Guard of a group with a running move. However the move's task ends, dropping the guard reports
/// the result.
struct BusyMark(Option<(OwnedPermit<EndedMove>, EndedMove)>);

impl Drop for BusyMark {
    fn drop(&mut self) {
        if let Some((permit, ended)) = self.0.take() {
            permit.send(ended); // The receiver is gone if the node is stopping.
        }
    }
}

impl BusyMark {
    /// Creates the guard with the result of an interrupted move, which `finish` replaces.
    fn with(permit: OwnedPermit<EndedMove>, group: GroupId, name: BucketName) -> BusyMark {
        let interrupted = Error::new(Reason::Changed, "the move ended abnormally: it starts again");
        BusyMark(Some((permit, (group, name, Err(interrupted)))))
    }

    fn finish(mut self, result: Result<()>) {
        if let Some((_, (_, _, ended))) = &mut self.0 {
            *ended = result;
        }
    }
}

/// State that says whether something is to be tidied in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TidyState {
    /// Index of the directory.
    directory: LogIndex,
    /// Leadership epoch of the group.
    epoch: u64,
    marks: BucketMarks,
    /// Buckets with indexes or feeds of which the directory knows nothing.
    forgotten: BTreeSet<BucketId>,
}

/// State kept from one check to the next.
struct MoveReconciler {
    /// Sender by which running moves report their end. They stop when it is closed.
    ended_sender: mpsc::Sender<EndedMove>,
    busy_groups: BTreeSet<GroupId>,
    /// Time before which a move is not retried, in milliseconds.
    retry_at: BTreeMap<BucketName, u64>,
    /// State of each group at its last cleanup.
    tidied: BTreeMap<GroupId, TidyState>,
}

/// Runs until the node stops.
pub async fn reconcile(moves: Arc<BucketMoves>) {
    let stop = moves.lifecycle.stop_signal();
    let mut changes = moves.directory.catalog.watch_moving();
    let (ended_sender, mut ended_moves) = mpsc::channel(MOVES_MAX);
    let mut reconciler = MoveReconciler::new(ended_sender);
    while !stop.is_cancelled() {
        reconciler.begin(&moves);
        reconciler.tidy(&moves).await;
        let pause = if is_idle(&moves) { world::until_next(PERIOD_IDLE) } else { PAUSE };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            Some(ended) = ended_moves.recv() => reconciler.on_ended(&moves, ended),
            () = world::sleep_or_changed(&stop, &mut changes, pause) => {}
        }
    }
}

/// Returns true if no bucket moves, and no group here has marks of a move.
fn is_idle(moves: &BucketMoves) -> bool {
    let has_marks = |group: &Arc<Group>| group.seals.all() != BucketMarks::default();
    moves.directory.catalog.watch_moving().borrow().is_empty()
        && !moves.groups.all().iter().any(has_marks)
}

impl MoveReconciler {
    fn new(ended_sender: mpsc::Sender<EndedMove>) -> MoveReconciler {
        let (busy_groups, retry_at, tidied) = Default::default();
        MoveReconciler { ended_sender, busy_groups, retry_at, tidied }
    }

    /// Starts one move in each group that this node leads and that has none running: first those
    /// whose bucket is sealed, then by name.
    fn begin(&mut self, moves: &Arc<BucketMoves>) {
        let names = moves.directory.catalog.watch_moving().borrow().clone();
        let now = world::milliseconds();
        self.retry_at.retain(|name, _| names.contains(name));
        let mut driven = BTreeSet::new();
        let mut due: BTreeMap<GroupId, (bool, BucketName)> = BTreeMap::new();
        for name in names {
            let Some(bucket) = moves.directory.catalog.find(&name) else { continue };
            let Some(group) = moves.groups.get(bucket.group) else { continue };
            if !group.leadership.is_master() {
                continue;
            }
            driven.insert(bucket.id);
            let is_postponed = self.retry_at.get(&name).is_some_and(|retry_at| *retry_at > now);
            if is_postponed || self.busy_groups.contains(&group.id) {
                continue;
            }
            let candidate = (!group.seals.is_sealed(bucket.id), name);
            let earliest = due.entry(group.id).or_insert_with(|| candidate.clone());
            if candidate < *earliest {
                *earliest = candidate;
            }
        }
        moves.transfers.retain(|bucket| driven.contains(&bucket));
        for (group, (_, name)) in due {
            let (moves, ended_sender) = (moves.clone(), self.ended_sender.clone());
            // No permit: other moves have to end first.
            let Ok(permit) = ended_sender.clone().try_reserve_owned() else { return };
            self.busy_groups.insert(group);
            let mark = BusyMark::with(permit, group, name.clone());
            let tasks = moves.lifecycle.tasks.loops.clone();
            tasks.spawn(&format!("move of {name}"), MOVE_WATCH, async move {
                tokio::select! {
                    biased;
                    () = ended_sender.closed() => {}
                    ended = mover::run(moves, name) => mark.finish(ended),
                }
            });
        }
    }

    fn on_ended(&mut self, moves: &BucketMoves, ended: EndedMove) {
        let (group, name, ended) = ended;
        self.busy_groups.remove(&group);
        if let Err(error) = ended {
            tracing::warn!(
                target: "node", bucket = %name, %error,
                "a bucket move is interrupted; it is retried"
            );
            if let Some(bucket) = moves.directory.catalog.find(&name) {
                moves.transfers.change(bucket.id, |progress| {
                    progress.waits_for = error.to_string();
                    progress.phase = MovePhase::Waiting;
                });
            }
            self.retry_at.insert(name, world::milliseconds() + moves.settings.retry_ms);
        }
    }

    /// Removes the seals of buckets that stay, and all marks and indexes of removed buckets. Never
    /// while a move of the group runs here, because the move relies on the seal; and none starts
    /// meanwhile.
    async fn tidy(&mut self, moves: &Arc<BucketMoves>) {
        for group in moves.groups.all() {
            round::progress();
            if self.busy_groups.contains(&group.id) || !group.leadership.is_master() {
                continue;
            }
            let (epoch, marks) = (group.leadership.epoch(), group.seals.all());
            let directory = moves.directory.group.applied.index();
            let indexed = &group.indexes.buckets() | &group.indexes.tagged();
            let recorded = &indexed | &group.feeds.buckets();
            let Ok(forgotten) = unknown_buckets(moves, recorded) else { continue };
            let has_nothing_to_do = marks == BucketMarks::default() && forgotten.is_empty();
            let state = TidyState { directory, epoch, marks, forgotten };
            if has_nothing_to_do || self.tidied.get(&group.id) == Some(&state) {
                continue;
            }
            match tidy(moves, &group, &state).await {
                Ok(()) => drop(self.tidied.insert(group.id, state)),
                Err(error) => tracing::debug!(
                    target: "node", %error, "cleanup after bucket moves failed; it is retried"
                ),
            }
        }
    }
}

/// Removes seals, intakes, indexes and feeds that no bucket needs. The directory must be read after
/// them, so that it includes every bucket and every move that set one.
async fn tidy(moves: &Arc<BucketMoves>, group: &Arc<Group>, state: &TidyState) -> Result<()> {
    moves.directory_master.wait_current().await?;
    let TidyState { epoch, marks, forgotten, .. } = state;
    let mut staying = BTreeSet::new();
    moves.directory.catalog.for_each_bucket(|bucket| {
        if bucket.group == group.id && bucket.moving.is_none() {
            staying.insert(bucket.id);
        }
    });
    let unreferenced = |buckets: &BTreeSet<BucketId>| unknown_buckets(moves, buckets.clone());
    let unsealed = unreferenced(&marks.sealed)?;
    for bucket in marks.sealed.iter().filter(|id| staying.contains(id) || unsealed.contains(id)) {
        group.remove_bookkeeping(&seal_key(*bucket), *epoch)?;
    }
    for bucket in unreferenced(&marks.intakes)? {
        group.remove_bookkeeping(&intake_key(bucket), *epoch)?;
    }
    for bucket in unreferenced(forgotten)? {
        group.forget_indexes(bucket, *epoch)?;
        group.remove_bookkeeping(&feed_record_key(bucket), *epoch)?;
    }
    Ok(())
}

/// Returns those of some buckets that the directory does not know: that are not there, do not
/// arrive, and whose space is given back.
fn unknown_buckets(
    moves: &BucketMoves,
    mut buckets: BTreeSet<BucketId>,
) -> Result<BTreeSet<BucketId>> {
    if buckets.is_empty() {
        return Ok(buckets);
    }
    moves.directory.catalog.for_each_bucket(|bucket| {
        buckets.remove(&bucket.id);
        if let Some(moving) = bucket.moving {
            buckets.remove(&moving.id);
        }
    });
    for (bucket, _) in moves.directory.dropped_buckets()? {
        buckets.remove(&bucket);
    }
    Ok(buckets)
}
