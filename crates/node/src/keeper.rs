//! The owner of the transaction log: one thread that takes all that waits, writes it once and syncs
//! it once.
//!
//! Group commit comes from the shape: while one sync runs, jobs gather; the next round takes them
//! all. A failed write or sync ends the thread for good, and with it the node: retrying a sync lies
//! (LWN, *PostgreSQL's fsync surprise*).
//!
//! Promises: jobs are written in the order they were given; `Done` comes after they are as firm as
//! they asked.
//! Never: retries a sync; knows what a payload says.

use crate::consistent::Mailbox;
use crate::flaws::{Flaw, flawed};
use crate::metrics::Metrics;
use crate::world;
use base::{Ballot, Error, GroupId, LogIndex, Reason};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use store::{Kind, Log, Owner, Position, Record, StoreError};

/// Rounds are cut here, so that one buffer of the log bounds the memory of a write.
const ROUND_BYTES_MAX: usize = 16 << 20;
/// How long a full disk is left alone before it is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(50);
/// After this long without work the log is told that all of it is durable.
const SETTLE_PAUSE: Duration = Duration::from_millis(100);

/// One record to write.
pub(crate) struct Job {
    pub kind: Kind,
    pub group: GroupId,
    pub ballot: Ballot,
    pub index: LogIndex,
    pub decided: LogIndex,
    pub payload: Bytes,
    /// Whether it must be synced before it counts.
    pub sync: bool,
}

/// A record that is as firm as it asked to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub kind: Kind,
    pub group: GroupId,
    pub ballot: Ballot,
    pub index: LogIndex,
    /// What it says is decided; for a truncate, how many staged values it adopts.
    pub decided: LogIndex,
    /// Where in the log it begins, or a little before.
    pub start: Position,
}

impl Job {
    /// What others build on by name: a promise, or the mark of an adopted log. It counts only once
    /// the log states that it is durable; so no torn tail ever held one that was told.
    pub(crate) fn must_be_stated(&self) -> bool {
        self.sync && matches!(self.kind, Kind::Promise | Kind::Truncate) && !flawed(Flaw::Unstated)
    }

    /// What is said of it once it is written, beginning there.
    pub(crate) fn done(&self, start: Position) -> Done {
        let Job { kind, group, ballot, index, decided, .. } = *self;
        Done { kind, group, ballot, index, decided, start }
    }
}

struct Queue {
    jobs: Vec<Job>,
    collapse: Option<Position>,
    stopping: bool,
    stopped: bool,
}

/// What the thread and the node share.
pub(crate) struct Keeper {
    queue: Mutex<Queue>,
    wake: Condvar,
    end: AtomicU64,
    start: AtomicU64,
    segments: AtomicU64,
    no_space: AtomicBool,
    /// Something was given: for a simulation, which has no thread to wake.
    #[cfg(test)]
    pub(crate) given: tokio::sync::Notify,
}

impl Keeper {
    pub(crate) fn new() -> Arc<Keeper> {
        let queue = Queue { jobs: Vec::new(), collapse: None, stopping: false, stopped: false };
        Arc::new(Keeper {
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            end: AtomicU64::new(0),
            start: AtomicU64::new(0),
            segments: AtomicU64::new(0),
            no_space: AtomicBool::new(false),
            #[cfg(test)]
            given: tokio::sync::Notify::new(),
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no one panics while holding it")
    }

    /// Gives records to write, in this order.
    pub(crate) fn write(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut queue = self.queue();
        let idle = queue.jobs.is_empty();
        queue.jobs.extend(jobs);
        let fresh = idle && !queue.jobs.is_empty();
        // Woken under the lock, the thread would find it held and sleep again.
        drop(queue);
        #[cfg(test)]
        self.given.notify_one();
        if fresh {
            self.wake.notify_one();
        }
    }

    /// Lets the log drop whole segments below this position, after everything given before is
    /// written.
    pub(crate) fn collapse(&self, keep_from: Position) {
        self.queue().collapse = Some(keep_from);
        self.wake.notify_one();
    }

    /// Finishes what was given, syncs, and ends the thread; returns when it has ended.
    pub(crate) fn stop(&self) {
        let mut queue = self.queue();
        queue.stopping = true;
        self.wake.notify_one();
        while !queue.stopped {
            queue = self.wake.wait(queue).expect("no one panics while holding it");
        }
    }

    /// Where the next record will begin, or a little before.
    pub(crate) fn end(&self) -> Position {
        Position(self.end.load(Ordering::Acquire))
    }

    /// Where the log stands, for everyone else.
    pub(crate) fn publish(&self, log: &Log) {
        self.start.store(log.start().0, Ordering::Release);
        self.end.store(log.end().0, Ordering::Release);
        self.segments.store(u64::from(log.segments()), Ordering::Relaxed);
    }

    /// What waits to be written, and from where on the log is needed: for a simulation, which is
    /// its own thread.
    #[cfg(test)]
    pub(crate) fn take(&self) -> (Vec<Job>, Option<Position>) {
        let mut queue = self.queue();
        (std::mem::take(&mut queue.jobs), queue.collapse.take())
    }

    /// Where the log begins: what stood before is collapsed.
    pub(crate) fn begin(&self) -> Position {
        Position(self.start.load(Ordering::Acquire))
    }

    /// Bytes of log that could not be dropped yet.
    pub(crate) fn bytes(&self) -> u64 {
        self.end().0.saturating_sub(self.start.load(Ordering::Acquire))
    }

    /// Segments in use.
    pub(crate) fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Whether the log waits for space on the disk.
    pub(crate) fn no_space(&self) -> bool {
        self.no_space.load(Ordering::Acquire)
    }

    /// Starts the thread.
    pub(crate) fn start(
        self: &Arc<Keeper>,
        log: Log,
        interval: Duration,
        mailbox: Arc<dyn Mailbox>,
        metrics: Arc<Metrics>,
    ) -> Result<(), Error> {
        let (unsynced_since, unsettled) = (None, false);
        let mut writer = Writer { log, keeper: self.clone(), metrics, unsynced_since, unsettled };
        writer.publish();
        let keeper = self.clone();
        std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || {
                // The log is closed, and its own thread ended, before anyone is told that this one
                // has.
                if let Err(error) =
                    writer.run(interval, &*mailbox).and_then(|()| writer.log.close())
                {
                    mailbox.failed(store_error(error));
                }
                keeper.queue().stopped = true;
                keeper.wake.notify_all();
            })
            .map(|_| ())
            .map_err(|error| {
                Error::new(Reason::TooMany, format!("the log's thread can't be started: {error}"))
            })
    }
}

/// The thread's own part.
struct Writer {
    log: Log,
    keeper: Arc<Keeper>,
    metrics: Arc<Metrics>,
    /// When the oldest record that is written but not synced was written, in nanoseconds.
    unsynced_since: Option<u64>,
    /// Whether the log does not say yet that all of it is durable.
    unsettled: bool,
}

impl Writer {
    fn run(&mut self, interval: Duration, mailbox: &dyn Mailbox) -> Result<(), StoreError> {
        let (mut jobs, mut done) = (Vec::new(), Vec::new());
        loop {
            let (collapse, stopping) = self.wait(&mut jobs, interval);
            let (mut sync, mut stated) = (stopping || self.due(interval), false);
            let mut begun = self.log.end().0;
            for job in jobs.drain(..) {
                sync |= job.sync;
                stated |= job.must_be_stated();
                done.push(self.append(&job)?);
                if self.log.end().0 - begun > ROUND_BYTES_MAX as u64 {
                    self.commit(sync, stated, &mut done, mailbox)?;
                    begun = self.log.end().0;
                }
            }
            if sync || !done.is_empty() {
                self.commit(sync, stated, &mut done, mailbox)?;
            } else if self.unsettled && collapse.is_none() {
                self.settle()?;
            }
            if let Some(keep_from) = collapse {
                let segments = self.log.collapse(keep_from)?;
                tracing::debug!(target: "log", keep_from = keep_from.0, segments, "collapsed");
                self.publish();
            }
            if stopping {
                return Ok(());
            }
        }
    }

    /// Waits for something to do and takes all of it.
    fn wait(&self, jobs: &mut Vec<Job>, interval: Duration) -> (Option<Position>, bool) {
        let mut queue = self.keeper.queue();
        loop {
            if !queue.jobs.is_empty() || queue.collapse.is_some() || queue.stopping {
                std::mem::swap(&mut queue.jobs, jobs);
                return (queue.collapse.take(), queue.stopping);
            }
            let wake = &self.keeper.wake;
            let left = match self.unsynced_since {
                None if self.unsettled => SETTLE_PAUSE,
                None => {
                    queue = wake.wait(queue).expect("no one panics while holding it");
                    continue;
                }
                Some(_) if self.due(interval) => return (None, false),
                Some(since) => {
                    let spent = world::nanoseconds().saturating_sub(since);
                    interval.saturating_sub(Duration::from_nanos(spent))
                }
            };
            let waited = wake.wait_timeout(queue, left).expect("no one panics while holding it");
            queue = waited.0;
            if self.unsynced_since.is_none() && waited.1.timed_out() && queue.jobs.is_empty() {
                return (None, queue.stopping);
            }
        }
    }

    fn due(&self, interval: Duration) -> bool {
        self.unsynced_since
            .is_some_and(|since| world::nanoseconds() - since >= interval.as_nanos() as u64)
    }

    fn append(&mut self, job: &Job) -> Result<Done, StoreError> {
        let start = self.log.end();
        self.patiently(|log| log.append(&record(job)))?;
        Ok(job.done(start))
    }

    /// Repeats what found the disk full until it has room: nothing was acknowledged, and nothing is
    /// forgotten.
    fn patiently<T>(
        &mut self,
        mut write: impl FnMut(&mut Log) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            match write(&mut self.log) {
                Err(StoreError::Full) => {
                    if !self.keeper.no_space.swap(true, Ordering::AcqRel) {
                        tracing::warn!(target: "log", "no space for the log: writes wait for some");
                    }
                    std::thread::sleep(FULL_PAUSE);
                }
                other => {
                    self.keeper.no_space.store(false, Ordering::Release);
                    return other;
                }
            }
        }
    }

    /// The log is idle: from now on it says that all of it is durable, so that damage at its end
    /// can be told from a tail that a crash tore.
    fn settle(&mut self) -> Result<(), StoreError> {
        self.unsettled = false;
        match self.log.settle() {
            // It says so the next time.
            Err(StoreError::Full) => Ok(()),
            settled => settled,
        }
    }

    fn commit(
        &mut self,
        sync: bool,
        stated: bool,
        done: &mut Vec<Done>,
        mailbox: &dyn Mailbox,
    ) -> Result<(), StoreError> {
        let before = world::nanoseconds();
        self.patiently(|log| log.commit(sync))?;
        if stated {
            self.patiently(Log::settle)?;
        }
        self.unsettled = !stated;
        if sync {
            self.unsynced_since = None;
            let took_us = (world::nanoseconds() - before) / 1_000;
            self.metrics.synced(took_us, done.len() as u64);
            let (records, end) = (done.len(), self.log.end().0);
            tracing::debug!(target: "log", records, end, took_us, "synced");
        } else {
            self.unsynced_since.get_or_insert(before);
        }
        self.publish();
        if !done.is_empty() {
            mailbox.done(done);
            done.clear();
        }
        Ok(())
    }

    fn publish(&self) {
        self.keeper.publish(&self.log);
    }
}

pub(crate) fn record(job: &Job) -> Record<'_> {
    Record {
        kind: job.kind,
        owner: Owner { group: job.group.0, generation: 0 },
        configuration: 0,
        ballot: (job.ballot.round, job.ballot.node.0),
        index: job.index.0,
        decided: job.decided.0,
        payload: &job.payload,
    }
}

/// The one place where the store's errors get their meaning for the caller.
pub(crate) fn store_error(error: StoreError) -> Error {
    let reason = match &error {
        StoreError::Io { .. } | StoreError::Closed => Reason::StoreFailed,
        StoreError::Corrupt { .. } => Reason::Damaged,
        StoreError::Full => Reason::OutOfSpace,
        StoreError::Locked { .. } => Reason::TooMany,
        StoreError::Version { .. } => Reason::NotSupported,
    };
    Error::new(reason, error.to_string())
}
