//! The steps of one move, on the master of the group the bucket leaves; see `lib.rs`.

mod feed_copy;

use crate::BucketMoves;
use crate::copier::{Copier, Cursor};
use crate::message::{Item, MoveReply, MoveRequest};
use crate::progress::{MovePhase, MovePoint, MoveProgress};
use crate::target::MoveTarget;
use base::error::shutting_down;
use base::{BucketName, DirectoryCall, Error, Kind, MoveDestination, MoveStep, Reason, Result};
use bytes::Bytes;
use feed_copy::FeedCopier;
use replica_state::replicated_index::ReplicatedIndex;
use replication::bucket::Bucket;
use replication::change_capture::ChangeCapture;
use replication::group::Group;
use replication::seals::Seal;
use runtime::mutants::Mutant;
use runtime::world::{self, sleep};
use std::sync::Arc;
use std::time::Duration;

/// Pause between two attempts at a step.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum pause after each copied part. The pause is as long as the part took, so that clients get
/// half of the machine's time.
const COPY_PAUSE_MAX: Duration = Duration::from_millis(100);
/// Maximum number of remaining keys at which the bucket is sealed: a few parts.
const REMAINING_KEYS_MAX: usize = 256;
/// Maximum duration of the last round, in milliseconds. Clients wait for the round after the seal,
/// which takes about as long, for many rows as for a few large ones.
const ROUND_MS_MAX: u64 = 250;
/// Number of rounds after which the bucket is sealed anyway: clients change it as fast as it is
/// copied.
const ROUNDS_MAX: usize = 16;
/// Time without success after which a step is abandoned, in milliseconds, so that another bucket
/// gets its turn. A sealed bucket's step is never abandoned.
const STEP_TIMEOUT_MS: u64 = 10_000;
/// Maximum lag of the target group's time, in milliseconds. Clients would wait for a greater one at
/// the end.
const LAG_MS_MAX: u64 = 1_000;
/// Number of restarts after which the bucket is sealed despite that lag: a move has to end.
const RESTARTS_MAX: u32 = 3;

pub(crate) struct Mover {
    moves: Arc<BucketMoves>,
    name: BucketName,
    bucket: Arc<Bucket>,
    moving: MoveDestination,
    source: Arc<Group>,
    target: MoveTarget,
    /// Number of the last accepted part.
    part: u64,
    /// Lead of the target group's time over the source's at the intake, in milliseconds.
    time_offset_ms: i64,
    /// Lag of the target group's time behind that lead, in milliseconds.
    lag_ms: u64,
    sealed: bool,
}

/// Times of a request: sent, in the time of the source group, and answered, in the time of the
/// target. Neither includes the answer's time on the network or on a disk.
struct AnswerTimes {
    sent_at: u64,
    answered_at: u64,
}

/// Moves a bucket, from whatever state its rows have. Returns when the move is done, or another
/// node drives it. An error names the awaited condition.
pub(crate) async fn run(moves: Arc<BucketMoves>, name: BucketName) -> Result<()> {
    let Some(bucket) = moves.directory.catalog.find(&name) else { return Ok(()) };
    let Some(moving) = bucket.moving else { return Ok(()) };
    let source = moves.groups.find(bucket.group)?;
    // The directory of a new master may lag: the row that names the move could be outdated.
    moves.directory_master.make_current(&source).await?;
    let target = MoveTarget::new(moves.clone(), moving.group);
    let sealed = source.seals.is_sealed(bucket.id);
    let (part, time_offset_ms, lag_ms) = (0, 0, 0);
    let mut mover =
        Mover { moves, name, bucket, moving, source, target, part, time_offset_ms, lag_ms, sealed };
    match mover.run_steps().await {
        Err(error) if mover.check_driver().is_ok() => Err(error),
        _ => Ok(()),
    }
}

impl Mover {
    async fn run_steps(&mut self) -> Result<()> {
        let bucket = self.moving.id;
        let indexes = self.source.indexes.sent(self.bucket.id);
        let copier = self.feed_copier().await?;
        let (indexes_sent, feed) = (indexes.clone(), copier.record());
        let begin = |time| {
            let (indexes, feed) = (indexes_sent.clone(), feed.clone());
            MoveRequest::Begin { bucket, time, indexes, feed }
        };
        match self.send_request(begin).await {
            Ok(AnswerTimes { sent_at, answered_at }) => {
                self.time_offset_ms = answered_at.cast_signed().wrapping_sub(sent_at.cast_signed());
            }
            Err(error) if error.reason == Reason::AlreadyExists => {
                if !Mutant::ResumeStaleMove.is_active() {
                    // Another master began under this number, and its late parts may still arrive:
                    // a new number has none.
                    return self.step_directory(MoveStep::Renew).await;
                }
            }
            Err(error) => return Err(error),
        }
        match self.copy(&indexes, copier).await {
            // The target's state is uncertain: the next attempt starts again.
            Err(error) if error.kind() == Kind::Conflict && self.check_driver().is_ok() => {
                tracing::info!(
                    target: "node", bucket = %self.name, %error, "the copy of a bucket starts again"
                );
                self.moves.transfers.record_restart(self.bucket.id);
                self.step_directory(MoveStep::Renew).await
            }
            copied => copied,
        }
    }

    /// Copies the bucket. `indexes`: those that the target maintains from the first row on.
    async fn copy(&mut self, indexes: &[ReplicatedIndex], feed: FeedCopier) -> Result<()> {
        // Before the first row is read: changes that the scan misses are then captured.
        let capture = Arc::new(self.source.capture_changes_of(self.bucket.id)?);
        self.test_point(MovePoint::Begun).await?;
        let part_bytes = self.moves.settings.part_bytes;
        let copier = Copier::new(self.source.clone(), &self.bucket, part_bytes);
        self.copy_all(&copier, &capture).await?;
        let mut feed = self.copy_feed(feed).await?;
        self.update_progress(|progress| progress.phase = MovePhase::CatchingUp);
        for _ in 0..ROUNDS_MAX {
            let began_ms = world::milliseconds();
            self.copy_changed(&copier, capture.take()?).await?;
            feed = self.copy_feed(feed).await?;
            let is_short = world::milliseconds() - began_ms <= ROUND_MS_MAX;
            // Sealed by an earlier attempt: nothing changes any more, and clients wait.
            if (is_short && self.source.captured_keys() <= REMAINING_KEYS_MAX) || self.sealed {
                break;
            }
        }
        self.test_point(MovePoint::Copied).await?;
        // Sooner than after the seal, because clients wait for a copy that starts again then.
        self.check_indexes(indexes)?;
        self.check_feed(&feed).await?;
        let seal = self.seal().await?;
        self.test_point(MovePoint::Sealed).await?;
        // From the seal on no index and no feed is begun, and none is trimmed.
        self.check_indexes(indexes)?;
        self.check_feed(&feed).await?;
        // Everything before the seal is applied, and its changes are captured.
        self.copy_changed(&copier, capture.take()?).await?;
        self.copy_feed(feed).await?;
        self.test_point(MovePoint::CopiedAgain).await?;
        // Before clients reach the target: until then its versions or times may be below those of
        // the source.
        self.close(seal).await?;
        self.test_point(MovePoint::Closed).await?;
        self.step_directory(MoveStep::Finish).await?;
        tracing::info!(
            target: "node", bucket = %self.name, group = self.moving.group.0, "moved"
        );
        Ok(())
    }

    async fn copy_all(&mut self, copier: &Copier, capture: &Arc<ChangeCapture>) -> Result<()> {
        let counter = copier.clone();
        let (rows_total, bytes_total) = self.run_on_thread(move || counter.count()).await?;
        let (phase, sealed) = (MovePhase::Copying, self.sealed);
        self.update_progress(|progress| {
            let phase = if sealed { MovePhase::Sealed } else { phase };
            *progress = MoveProgress { phase, rows_total, bytes_total, ..Default::default() };
        });
        let mut cursor = Some(Cursor::default());
        while let Some(position) = cursor {
            let began_ms = world::milliseconds();
            let (copier, capture) = (copier.clone(), capture.clone());
            let round = self.run_on_thread(move || copier.scan(&capture, position)).await?;
            cursor = round.next;
            let rows = round.items.iter().filter_map(|item| match item {
                Item::Row { key, row } => Some((key.len() + row.len()) as u64),
                _ => None,
            });
            let (count, bytes) = rows.fold((0, 0), |(rows, all), bytes| (rows + 1, all + bytes));
            self.send(round.items).await?;
            self.update_progress(|progress| {
                progress.rows += count;
                progress.bytes += bytes;
                progress.left = self.source.captured_keys() as u64;
            });
            // As long as the round took, so that clients get half of the time. Once the bucket is
            // sealed, they wait for the move instead.
            if !self.sealed {
                let took = Duration::from_millis(world::milliseconds() - began_ms);
                sleep(took.min(COPY_PAUSE_MAX)).await;
            }
        }
        Ok(())
    }

    /// Copies the present rows of these keys.
    async fn copy_changed(&mut self, copier: &Copier, mut keys: Vec<Bytes>) -> Result<()> {
        while !keys.is_empty() && !Mutant::SkipChangedRowCopy.is_active() {
            let (copier, count) = (copier.clone(), keys.len());
            let (items, left) = self.run_on_thread(move || copier.reread(keys)).await?;
            keys = left;
            self.send(items).await?;
            let (copied, left) = ((count - keys.len()) as u64, keys.len() as u64);
            self.update_progress(|progress| {
                progress.again += copied;
                progress.left = left;
            });
        }
        Ok(())
    }

    /// Checks that the target has every index in force: rows that came before an index of which it
    /// did not know have no entries there. Errors: `Changed`, so that the copy starts again.
    fn check_indexes(&self, begun: &[ReplicatedIndex]) -> Result<()> {
        let is_begun = |record: &ReplicatedIndex| {
            begun.iter().any(|begun| begun.definition == record.definition)
        };
        let present = self.source.indexes.sent(self.bucket.id);
        if present.iter().all(|record| !record.phase.is_in_force() || is_begun(record)) {
            return Ok(());
        }
        Err(Error::new(Reason::Changed, "an index of the bucket was begun during the copy"))
    }

    /// Sends items as one part; as several, if they do not fit into an entry of the target's log
    /// together with the index entries of their rows.
    async fn send(&mut self, items: Vec<Item>) -> Result<()> {
        let mut waiting = vec![items];
        while let Some(mut items) = waiting.pop() {
            match self.send_part(&items).await {
                Err(error) if error.reason == Reason::TooLarge && items.len() > 1 => {
                    waiting.push(items.split_off(items.len() / 2));
                    waiting.push(items);
                }
                sent => sent?,
            }
        }
        Ok(())
    }

    async fn send_part(&mut self, items: &[Item]) -> Result<()> {
        if items.is_empty() {
            return self.check_driver();
        }
        let (bucket, part) = (self.moving.id, self.part + 1);
        let request = |_| MoveRequest::Part { bucket, part, items: items.to_vec() };
        let AnswerTimes { sent_at, answered_at } = self.send_request(request).await?;
        self.part = part;
        self.lag_ms =
            sent_at.saturating_add_signed(self.time_offset_ms).saturating_sub(answered_at);
        Ok(())
    }

    /// Seals the bucket: from here on nothing is evaluated or read at the source. An already sealed
    /// bucket is sealed again: the decided seal proves that this node is master and that the seal
    /// is not removed after the directory state on which the move relies.
    async fn seal(&mut self) -> Result<Seal> {
        let restarts = self.moves.transfers.restarts(self.bucket.id);
        if self.lag_ms > LAG_MS_MAX && !self.sealed && restarts < RESTARTS_MAX {
            let text = "the target group's time fell behind";
            return Err(Error::new(Reason::Changed, text));
        }
        self.check_driver()?;
        let ticket = self.source.seal(self.bucket.id)?;
        // Before the seal is decided: clients may meet it from here on, so the move must not be
        // abandoned for another bucket's turn.
        self.sealed = true;
        self.update_progress(|progress| progress.phase = MovePhase::Sealed);
        self.source.wait_applied(ticket).await?;
        self.source
            .find_seal(self.bucket.id)?
            .ok_or_else(|| Error::new(Reason::Changed, "the seal of the bucket was removed"))
    }

    async fn close(&mut self, seal: Seal) -> Result<()> {
        let (bucket, Seal { time, version }) = (self.moving.id, seal);
        let indexes = self.source.indexes.sent(self.bucket.id);
        let feed = self.read_sent_feed().await?;
        // Rows that expire behind the seal are told as deleted by the feed: they must have expired
        // at the target, too.
        let time = feed.as_ref().map_or(time, |(_, entries_time)| time.max(*entries_time));
        let feed = feed.map(|(feed, _)| Box::new(feed));
        let close = |_| {
            let (indexes, feed) = (indexes.clone(), feed.clone());
            MoveRequest::Close { bucket, time, version, indexes, feed }
        };
        self.send_request(close).await.map(|_| ())
    }

    /// Sends a request until there is an answer, or none is needed. `request` gets the time at
    /// which it is sent.
    async fn send_request(&mut self, request: impl Fn(u64) -> MoveRequest) -> Result<AnswerTimes> {
        let deadline_ms = world::milliseconds() + STEP_TIMEOUT_MS;
        loop {
            self.check_driver()?;
            let sent_at = self.source.now();
            let error = match self.target.ask(request(sent_at)).await {
                Ok(MoveReply::Done { time: answered_at }) => {
                    return Ok(AnswerTimes { sent_at, answered_at });
                }
                Ok(MoveReply::RetryLater { ms }) => {
                    sleep(Duration::from_millis(ms).min(COPY_PAUSE_MAX)).await;
                    continue;
                }
                Ok(MoveReply::Refused(error)) => error,
                Ok(MoveReply::NotMaster { .. }) => {
                    let text = format!("group {} has no master at the moment", self.moving.group);
                    Error::new(Reason::NoQuorum, text)
                }
                Ok(MoveReply::Progress(_)) => {
                    Error::new(Reason::NotSupported, "the answer does not match the request")
                }
                Err(error) => error,
            };
            // Retried even in doubt: parts are numbered, and a repeated `Begin` only costs a new
            // number.
            if !matches!(error.kind(), Kind::Unavailable | Kind::Unknown) {
                return Err(error);
            }
            self.update_progress(|progress| progress.waits_for = error.to_string());
            if world::milliseconds() >= deadline_ms && !self.sealed {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    /// Executes a step in the directory, until it is known to be done or obsolete.
    async fn step_directory(&self, step: MoveStep) -> Result<()> {
        let call = DirectoryCall::StepMove { id: self.bucket.id, moving: self.moving.id, step };
        loop {
            self.check_driver()?;
            let directory = &self.moves.directory_master;
            match directory.execute(self.name.clone(), call.clone()).await {
                Ok(()) => return Ok(()),
                Err(error) if matches!(error.kind(), Kind::Unavailable | Kind::Unknown) => {
                    self.update_progress(|progress| progress.waits_for = error.to_string());
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Checks that this node still drives this move.
    fn check_driver(&self) -> Result<()> {
        let found = self.moves.directory.catalog.find(&self.name);
        let is_same_move = found.is_some_and(|bucket| {
            (bucket.id, bucket.moving) == (self.bucket.id, Some(self.moving))
        });
        let is_master = self.source.leadership.is_master();
        if is_same_move && is_master && !self.moves.lifecycle.is_stopping() {
            return Ok(());
        }
        Err(Error::new(Reason::Changed, "the move continues at another node, or has ended"))
    }

    /// Point at which tests pause or break a move.
    async fn test_point(&self, point: MovePoint) -> Result<()> {
        let panics =
            self.moves.transfers.panic_point.lock().expect("plain data").take_if(|at| *at == point);
        assert!(panics.is_none(), "a test has the move break off");
        let gate = || self.moves.transfers.gate.lock().expect("plain data");
        if gate().0 == Some(point) {
            gate().1 += 1;
        }
        while gate().0 == Some(point) {
            self.check_driver()?;
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Runs blocking work.
    async fn run_on_thread<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let tasks = &self.moves.lifecycle.tasks.loops;
        tasks.run_blocking(act).await.unwrap_or_else(|| Err(shutting_down()))
    }

    fn update_progress(&self, change: impl FnOnce(&mut MoveProgress)) {
        self.moves.transfers.change(self.bucket.id, change);
    }
}
