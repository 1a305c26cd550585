//! The loop that drives this node's moves, one of each group at a time, and tidies up behind those
//! that are over.

use super::progress::MovePhase;
use super::{BucketMoves, mover};
use base::{BucketId, BucketName, Error, GroupId, LogIndex, Reason, Result};
use replication::group::Group;
use replication::seals::{BucketMarks, intake_key, seal_key};
use runtime::world;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{self, OwnedPermit};

/// Pause between two checks, if nothing changes.
const PAUSE: Duration = Duration::from_millis(100);
/// Pause before a failed move is retried, in milliseconds.
const AGAIN_MS: u64 = if cfg!(test) { 50 } else { 1_000 };

/// Maximum number of moves that run on a node at a time.
const MOVES_MAX: usize = 1_024;

/// A move that was begun has come to an end here.
type EndedMove = (GroupId, BucketName, Result<()>);

/// Mark that a group is busy with a move. However the move's task ends, dropping it reports that.
struct Busy(Option<(OwnedPermit<EndedMove>, EndedMove)>);

impl Drop for Busy {
    fn drop(&mut self) {
        if let Some((room, ended)) = self.0.take() {
            room.send(ended); // The node may be stopping.
        }
    }
}

impl Busy {
    /// Begins with the result that the move broke off, until `ends` gives another.
    fn with(room: OwnedPermit<EndedMove>, group: GroupId, name: BucketName) -> Busy {
        let broke_off = Error::new(Reason::Changed, "the move ended abnormally: it begins anew");
        Busy(Some((room, (group, name, Err(broke_off)))))
    }

    fn ends(mut self, how: Result<()>) {
        if let Some((_, (_, _, ended))) = &mut self.0 {
            *ended = how;
        }
    }
}

/// State kept from one check to the next.
struct MoveReconciler {
    /// Sender for running moves, by which they report their end. A move breaks off when it is
    /// closed.
    tells: mpsc::Sender<EndedMove>,
    busy: BTreeSet<GroupId>,
    /// Time before which a move is not retried.
    again: BTreeMap<BucketName, u64>,
    /// Directory index and leadership epoch at which each group was last tidied, with its marks
    /// then.
    tidied: BTreeMap<GroupId, (LogIndex, u64, BucketMarks)>,
}

/// Runs until the node stops.
pub(crate) async fn reconcile(moves: Arc<BucketMoves>) {
    let stop = moves.lifecycle.stop_signal();
    let mut changes = moves.directory.catalog.watch_moving();
    let (tells, mut told) = mpsc::channel(MOVES_MAX);
    let mut tending = MoveReconciler::new(tells);
    while !stop.is_cancelled() {
        changes.mark_unchanged();
        tending.begin(&moves);
        tending.tidy(&moves).await;
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            Some(ended) = told.recv() => tending.ended(&moves, ended),
            _ = changes.changed() => {}
            () = world::sleep(PAUSE) => {}
        }
    }
}

impl MoveReconciler {
    fn new(tells: mpsc::Sender<EndedMove>) -> MoveReconciler {
        let (busy, again, tidied) = Default::default();
        MoveReconciler { tells, busy, again, tidied }
    }

    /// Begins, in each group that this node is master of and that has none under way, the move that
    /// has waited longest with its bucket sealed, or else the first.
    fn begin(&mut self, moves: &Arc<BucketMoves>) {
        let names = moves.directory.catalog.watch_moving().borrow().clone();
        let now = world::milliseconds();
        self.again.retain(|name, _| names.contains(name));
        let mut driven = BTreeSet::new();
        let mut due: BTreeMap<GroupId, (bool, BucketName)> = BTreeMap::new();
        for name in names {
            let Some(bucket) = moves.directory.catalog.find(&name) else { continue };
            let Some(group) = moves.groups.get(bucket.group) else { continue };
            if !group.leadership.is_master() {
                continue;
            }
            driven.insert(bucket.id);
            let later = self.again.get(&name).is_some_and(|again| *again > now);
            if later || self.busy.contains(&group.id) {
                continue;
            }
            let waits = (!group.seals.hold(bucket.id), name);
            let first = due.entry(group.id).or_insert_with(|| waits.clone());
            if waits < *first {
                *first = waits;
            }
        }
        moves.transfers.keep(|bucket| driven.contains(&bucket));
        for (group, (_, name)) in due {
            let (moves, tells) = (moves.clone(), self.tells.clone());
            // No permit: other moves have to end first.
            let Ok(room) = tells.clone().try_reserve_owned() else { return };
            self.busy.insert(group);
            let busy = Busy::with(room, group, name.clone());
            let tasks = moves.lifecycle.tasks.loops.clone();
            tasks.spawn(&format!("move of {name}"), async move {
                tokio::select! {
                    biased;
                    () = tells.closed() => {}
                    ended = mover::run(moves, name) => busy.ends(ended),
                }
            });
        }
    }

    fn ended(&mut self, moves: &BucketMoves, ended: EndedMove) {
        let (group, name, ended) = ended;
        self.busy.remove(&group);
        if let Err(error) = ended {
            tracing::warn!(target: "node", bucket = %name, %error, "a move waits");
            if let Some(bucket) = moves.directory.catalog.find(&name) {
                moves.transfers.change(bucket.id, |progress| {
                    progress.waits_for = error.to_string();
                    progress.phase = MovePhase::Waiting;
                });
            }
            self.again.insert(name, world::milliseconds() + AGAIN_MS);
        }
    }

    /// Removes the seals of buckets that stay after all, and all marks of those that are gone.
    /// Never while a move of the group runs here, which counts on the seal; and none begins
    /// meanwhile.
    async fn tidy(&mut self, moves: &Arc<BucketMoves>) {
        for group in moves.groups.all() {
            let epoch = group.leadership.epoch();
            let noted = group.seals.all();
            let as_of = (moves.directory.group.applied.index(), epoch, noted);
            let idle = as_of.2 == BucketMarks::default() || self.busy.contains(&group.id);
            let known = self.tidied.get(&group.id) == Some(&as_of);
            if idle || known || !group.leadership.is_master() {
                continue;
            }
            match tidy(moves, &group, epoch, &as_of.2).await {
                Ok(()) => drop(self.tidied.insert(group.id, as_of)),
                Err(error) => tracing::debug!(target: "node", %error, "tidied later"),
            }
        }
    }
}

/// Removes seals and intakes that no move needs. The directory must be current: it is read after
/// the marks were, so it knows whatever a mark is about.
async fn tidy(
    moves: &Arc<BucketMoves>,
    group: &Arc<Group>,
    epoch: u64,
    noted: &BucketMarks,
) -> Result<()> {
    moves.router.directory_is_current(None).await?;
    let (mut named, mut stays) = (BTreeSet::new(), BTreeSet::new());
    moves.directory.catalog.each(|bucket| {
        named.insert(bucket.id);
        named.extend(bucket.moving.map(|moving| moving.id));
        if bucket.group == group.id && bucket.moving.is_none() {
            stays.insert(bucket.id);
        }
    });
    named.extend(moves.directory.dropped()?.into_iter().map(|(bucket, _)| bucket));
    let unsealed = |bucket: &&BucketId| stays.contains(bucket) || !named.contains(bucket);
    for bucket in noted.sealed.iter().filter(unsealed) {
        group.forget_own(&seal_key(*bucket), epoch)?;
    }
    for bucket in noted.intakes.iter().filter(|bucket| !named.contains(bucket)) {
        group.forget_own(&intake_key(*bucket), epoch)?;
    }
    Ok(())
}
