//! The steps of one move, on the master of the group the bucket leaves; see `mod.rs`.

use super::BucketMoves;
use super::copier::{Copier, Cursor};
use super::message::{Item, MoveAnswer, MoveQuestion};
use super::progress::{MovePhase, MovePoint, MoveProgress};
use super::target::MoveTarget;
use base::error::shutting_down;
use base::{
    BucketName, Call, DirectoryCall, Error, Kind, MoveStep, Moving, Reason, Request, Result,
};
use bytes::Bytes;
use replication::bucket::Bucket;
use replication::change_capture::ChangeCapture;
use replication::group::Group;
use replication::seals::Seal;
use runtime::mutants::Mutant;
use runtime::world::{self, sleep};
use std::sync::Arc;
use std::time::Duration;

/// Between two attempts at a step.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum rest after each copied part. The rest is as long as the part took, so that clients get
/// half of the machine's time.
const REST_MAX: Duration = Duration::from_millis(100);
/// Maximum number of keys left when the bucket is sealed: a few parts.
const LEFT_MAX: usize = 256;
/// And maximum time of the last round, in milliseconds. The round behind the seal, for which
/// clients wait, takes about as long, be it for many rows or for a few large ones.
const ROUND_MS_MAX: u64 = 250;
/// Number of rounds after which the bucket is sealed anyway: clients change it as fast as it can be
/// copied.
const ROUNDS_MAX: usize = 16;
/// Time without success after which a step is given up, in milliseconds, so that another bucket
/// gets its turn; not for a sealed bucket.
const PATIENCE_MS: u64 = 10_000;
/// Maximum lag of the other group's time, in milliseconds. With more, clients would wait for it at
/// the end.
const BEHIND_MS_MAX: u64 = 1_000;
/// Number of failed copies after which the bucket is sealed though that time lags, and clients wait
/// for it: a move ends.
const ANEW_MAX: u32 = 3;

pub(super) struct Mover {
    moves: Arc<BucketMoves>,
    name: BucketName,
    bucket: Arc<Bucket>,
    moving: Moving,
    source: Arc<Group>,
    target: MoveTarget,
    /// The last part that was taken.
    part: u64,
    /// Lead of the other group's time over this one's, by the intake, in milliseconds.
    ahead: i64,
    /// Lag of the other group's time behind that, in milliseconds.
    behind_ms: u64,
    sealed: bool,
}

/// Times of a question and its answer: sent, in the time of the source group, and answered, in the
/// time of the target. Neither includes the time for which the answer was under way, or waited for
/// a disk.
struct AnswerTimes {
    asked: u64,
    there: u64,
}

/// Moves a bucket, from whatever state its rows have. Returns when the move is done, or is not this
/// node's to drive any more. An error tells what to wait for.
pub(super) async fn run(moves: Arc<BucketMoves>, name: BucketName) -> Result<()> {
    let Some(bucket) = moves.directory.catalog.find(&name) else { return Ok(()) };
    let Some(moving) = bucket.moving else { return Ok(()) };
    let source = moves.groups.find(bucket.group)?;
    // The directory of a new master may lag: the row that names the move could be an old one.
    moves.router.inform(&source).await?;
    let target = MoveTarget::new(moves.clone(), moving.group);
    let sealed = source.seals.hold(bucket.id);
    let (part, ahead, behind_ms) = (0, 0, 0);
    let mut mover =
        Mover { moves, name, bucket, moving, source, target, part, ahead, behind_ms, sealed };
    match mover.steps().await {
        Err(error) if mover.is_wanted().is_ok() => Err(error),
        _ => Ok(()),
    }
}

impl Mover {
    async fn steps(&mut self) -> Result<()> {
        let bucket = self.moving.id;
        match self.tell(|time| MoveQuestion::Begin { bucket, time }).await {
            Ok(AnswerTimes { asked, there }) => {
                self.ahead = there.cast_signed().wrapping_sub(asked.cast_signed());
            }
            Err(error) if error.reason == Reason::AlreadyExists => {
                if !Mutant::CopiesOverOthers.is_active() {
                    // Another master began under this number, and its late parts may still come: a
                    // fresh number has had none.
                    return self.step(MoveStep::Renew).await;
                }
            }
            Err(error) => return Err(error),
        }
        match self.copy().await {
            // It is not certain what is there: the next attempt starts again.
            Err(error) if error.kind() == Kind::Conflict && self.is_wanted().is_ok() => {
                tracing::info!(target: "node", bucket = %self.name, %error, "copied anew");
                self.moves.transfers.copied_anew(self.bucket.id);
                self.step(MoveStep::Renew).await
            }
            copied => copied,
        }
    }

    async fn copy(&mut self) -> Result<()> {
        // Before the first row is read: a change that the scan misses is then among these keys.
        let tracked = Arc::new(self.source.track(self.bucket.id)?);
        self.reached(MovePoint::Begun).await?;
        let copier = Copier::new(self.source.clone(), &self.bucket);
        self.copy_all(&copier, &tracked).await?;
        self.show(|progress| progress.phase = MovePhase::CatchingUp);
        for _ in 0..ROUNDS_MAX {
            let began_ms = world::milliseconds();
            self.copy_again(&copier, tracked.take()?).await?;
            let is_short = world::milliseconds() - began_ms <= ROUND_MS_MAX;
            // Sealed by an earlier attempt: nothing changes any more, and clients wait.
            if (is_short && self.source.tracked() <= LEFT_MAX) || self.sealed {
                break;
            }
        }
        self.reached(MovePoint::Copied).await?;
        let seal = self.seal().await?;
        self.reached(MovePoint::Sealed).await?;
        // Everything before the seal is applied, and what it changed is noted.
        self.copy_again(&copier, tracked.take()?).await?;
        self.reached(MovePoint::CopiedAgain).await?;
        // Before clients go there: until then versions or times there may be below those seen here.
        self.close(seal).await?;
        self.reached(MovePoint::Closed).await?;
        self.step(MoveStep::Finish).await?;
        tracing::info!(
            target: "node", bucket = %self.name, group = self.moving.group.0, "moved"
        );
        Ok(())
    }

    async fn copy_all(&mut self, copier: &Copier, tracked: &Arc<ChangeCapture>) -> Result<()> {
        let counter = copier.clone();
        let (rows_total, bytes_total) = self.apart(move || counter.count()).await?;
        let (phase, sealed) = (MovePhase::Copying, self.sealed);
        self.show(|progress| {
            let phase = if sealed { MovePhase::Sealed } else { phase };
            *progress = MoveProgress { phase, rows_total, bytes_total, ..Default::default() };
        });
        let mut cursor = Some(Cursor::default());
        while let Some(at) = cursor {
            let began_ms = world::milliseconds();
            let (copier, tracked) = (copier.clone(), tracked.clone());
            let round = self.apart(move || copier.scan(&tracked, at)).await?;
            cursor = round.next;
            let rows = round.items.iter().filter_map(|item| match item {
                Item::Row { key, row } => Some((key.len() + row.len()) as u64),
                _ => None,
            });
            let (count, bytes) = rows.fold((0, 0), |(rows, all), bytes| (rows + 1, all + bytes));
            self.send(round.items).await?;
            self.show(|progress| {
                progress.rows += count;
                progress.bytes += bytes;
                progress.left = self.source.tracked() as u64;
            });
            // As long as the round took, so that clients get half of the time. Once the bucket is
            // sealed, they wait for this instead.
            if !self.sealed {
                let took = Duration::from_millis(world::milliseconds() - began_ms);
                sleep(took.min(REST_MAX)).await;
            }
        }
        Ok(())
    }

    /// Copies what these keys hold now.
    async fn copy_again(&mut self, copier: &Copier, mut keys: Vec<Bytes>) -> Result<()> {
        while !keys.is_empty() && !Mutant::CopiesOnce.is_active() {
            let (copier, count) = (copier.clone(), keys.len());
            let (items, left) = self.apart(move || copier.again(keys)).await?;
            keys = left;
            self.send(items).await?;
            let (copied, left) = ((count - keys.len()) as u64, keys.len() as u64);
            self.show(|progress| {
                progress.again += copied;
                progress.left = left;
            });
        }
        Ok(())
    }

    async fn send(&mut self, items: Vec<Item>) -> Result<()> {
        if items.is_empty() {
            return self.is_wanted();
        }
        let (bucket, part) = (self.moving.id, self.part + 1);
        let question = |_| MoveQuestion::Take { bucket, part, items: items.clone() };
        let AnswerTimes { asked, there } = self.tell(question).await?;
        self.part = part;
        self.behind_ms = asked.saturating_add_signed(self.ahead).saturating_sub(there);
        Ok(())
    }

    /// Seals the bucket: from here on nothing is evaluated or read at the source. A sealed bucket
    /// is sealed once more. That this node is master, and that nobody removes the seal, must be
    /// decided behind the move that it saw.
    async fn seal(&mut self) -> Result<Seal> {
        let anew = self.moves.transfers.times_anew(self.bucket.id);
        if self.behind_ms > BEHIND_MS_MAX && !self.sealed && anew < ANEW_MAX {
            let text = "the time of the group it moves to fell behind";
            return Err(Error::new(Reason::Changed, text));
        }
        self.is_wanted()?;
        let ticket = self.source.seal(self.bucket.id)?;
        // Before it is decided: clients may meet the seal from here on, and the move must not be
        // given up for another bucket's turn.
        self.sealed = true;
        self.show(|progress| progress.phase = MovePhase::Sealed);
        self.source.settled(ticket).await?;
        self.source
            .seal_of(self.bucket.id)?
            .ok_or_else(|| Error::new(Reason::Changed, "the seal of the bucket was taken away"))
    }

    async fn close(&mut self, seal: Seal) -> Result<()> {
        let (bucket, Seal { time, version }) = (self.moving.id, seal);
        self.tell(|_| MoveQuestion::Close { bucket, time, version }).await.map(|_| ())
    }

    /// Sends a request until there is an answer, or no need for one. `question` gets the time at
    /// which it is sent.
    async fn tell(&mut self, question: impl Fn(u64) -> MoveQuestion) -> Result<AnswerTimes> {
        let until_ms = world::milliseconds() + PATIENCE_MS;
        loop {
            self.is_wanted()?;
            let asked = self.source.now();
            let error = match self.target.ask(question(asked)).await {
                Ok(MoveAnswer::Done { time: there }) => return Ok(AnswerTimes { asked, there }),
                Ok(MoveAnswer::Early { ms }) => {
                    sleep(Duration::from_millis(ms).min(REST_MAX)).await;
                    continue;
                }
                Ok(MoveAnswer::Refused(error)) => error,
                Ok(MoveAnswer::NotMaster { .. }) => {
                    let text = format!("group {} has no master now", self.moving.group);
                    Error::new(Reason::NoQuorum, text)
                }
                Ok(MoveAnswer::Progress(_)) => {
                    Error::new(Reason::NotSupported, "an answer to another question")
                }
                Err(error) => error,
            };
            // Retried even in doubt: parts are numbered, and a `Begin` that was executed only costs
            // a new number.
            if !matches!(error.kind(), Kind::Unavailable | Kind::Unknown) {
                return Err(error);
            }
            self.show(|progress| progress.waits_for = error.to_string());
            if world::milliseconds() >= until_ms && !self.sealed {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    /// Takes a step in the directory, until it is known to be taken or of no use.
    async fn step(&self, step: MoveStep) -> Result<()> {
        let call = DirectoryCall::StepMove { id: self.bucket.id, moving: self.moving.id, step };
        loop {
            self.is_wanted()?;
            let (bucket, call) = (self.name.clone(), Call::Directory(call.clone()));
            let request = Request { bucket, call, retry: None };
            match self.moves.router.handle(request).await {
                Ok(_) => return Ok(()),
                Err(error) if matches!(error.kind(), Kind::Unavailable | Kind::Unknown) => {
                    self.show(|progress| progress.waits_for = error.to_string());
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Checks that this move is still this node's to drive.
    fn is_wanted(&self) -> Result<()> {
        let found = self.moves.directory.catalog.find(&self.name);
        let same = found.is_some_and(|bucket| {
            (bucket.id, bucket.moving) == (self.bucket.id, Some(self.moving))
        });
        let drives = self.source.leadership.is_master();
        if same && drives && !self.moves.lifecycle.is_stopping() {
            return Ok(());
        }
        Err(Error::new(Reason::Changed, "the move goes on elsewhere, or is over"))
    }

    /// Tests may have something happen here.
    #[cfg(test)]
    async fn reached(&self, reached: MovePoint) -> Result<()> {
        let breaks =
            self.moves.transfers.breaks.lock().expect("plain data").take_if(|at| *at == reached);
        assert!(breaks.is_none(), "a test has the move break off");
        let gate = || self.moves.transfers.gate.lock().expect("plain data");
        if gate().0 == Some(reached) {
            gate().1 += 1;
        }
        while gate().0 == Some(reached) {
            self.is_wanted()?;
            sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    #[cfg(not(test))]
    async fn reached(&self, _: MovePoint) -> Result<()> {
        Ok(())
    }

    /// Acts on a thread that may block.
    async fn apart<T: Send + 'static>(
        &self,
        act: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let tasks = &self.moves.lifecycle.tasks.loops;
        tasks.run_blocking(act).await.unwrap_or_else(|| Err(shutting_down()))
    }

    fn show(&self, change: impl FnOnce(&mut MoveProgress)) {
        self.moves.transfers.change(self.bucket.id, change);
    }
}
