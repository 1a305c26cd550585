//! The owner of the transaction log: one thread that takes all that waits, writes it once and syncs
//! it once.
//!
//! Group commit comes from the shape: while one sync runs, jobs gather; the next round takes them
//! all. A failed write or sync ends the thread for good, and with it the node: retrying a sync lies
//! (LWN, *PostgreSQL's fsync surprise*).
//!
//! Promises: jobs are written in the order they were given; `Done` comes after they are as firm as
//! they asked; how long the disk has not answered is known while it does not.
//! Never: retries a sync; knows what a payload says.
//! Read next: `log_writer/rounds.rs`, what the thread does, step by step.

mod rounds;

pub use rounds::{LogWriter, WriterStep};

use crate::metrics::Metrics;
use crate::mutants::{Flaw, flawed};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::world;
use base::{Ballot, Error, GroupId, LogIndex, Reason};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use store::{Log, Owner, Position, Record, RecordKind, StoreError};

/// How long a full disk is left alone before it is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(50);

/// A disk that does not finish what was asked of it for so many leases hangs. Less, and a write of
/// 64 MiB to a slow disk would look like it; more, and groups whose master is here wait longer.
const HANGS_LEASES: u64 = 2;

/// Receiver of the log writer's completions.
pub trait AppendSink: Send + Sync {
    /// These records are as durable as they asked to be.
    fn done(&self, done: &[LoggedRecord]);
    /// The log failed: nothing more will be written.
    fn failed(&self, error: Error);
}

/// One record to write.
pub struct Append {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Group it is of.
    pub group: GroupId,
    /// Ballot it is written under.
    pub ballot: Ballot,
    /// Index of its entry.
    pub index: LogIndex,
    /// Last index known to be decided.
    pub decided: LogIndex,
    /// Entry, or what the kind says.
    pub payload: Bytes,
    /// True if it must be synced before it counts.
    pub sync: bool,
}

/// A record that is as firm as it asked to be.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRecord {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Group it is of.
    pub group: GroupId,
    /// Ballot it was written under.
    pub ballot: Ballot,
    /// Index of its entry.
    pub index: LogIndex,
    /// What it says is decided; for a truncate, how many staged entries it adopts.
    pub decided: LogIndex,
    /// Where in the log it begins, or a little before.
    pub start: Position,
}

impl Append {
    /// What others build on by name: a promise, or the mark of an adopted log. It counts only once
    /// the log states that it is durable; so no torn tail ever held one that was told.
    pub fn must_be_stated(&self) -> bool {
        self.sync
            && matches!(self.kind, RecordKind::Promise | RecordKind::Truncate)
            && !flawed(Flaw::Unstated)
    }

    /// What is said of it once it is written, beginning there.
    pub fn done(&self, start: Position) -> LoggedRecord {
        let Append { kind, group, ballot, index, decided, .. } = *self;
        LoggedRecord { kind, group, ballot, index, decided, start }
    }
}

struct Queue {
    appends: VecDeque<Append>,
    collapse: Option<Position>,
    stopping: bool,
    stopped: bool,
}

impl Queue {
    fn has_work(&self) -> bool {
        !self.appends.is_empty() || self.collapse.is_some() || self.stopping
    }
}

/// What the thread and the node share.
pub struct LogWriterHandle {
    queue: Mutex<Queue>,
    wake: Condvar,
    end: AtomicU64,
    start: AtomicU64,
    segments: AtomicU64,
    no_space: AtomicBool,
    /// Since when the writer waits for the disk, in nanoseconds; 0: it does not.
    works_since: AtomicU64,
    /// Something was given: for a simulation, which has no thread to wake.
    #[cfg(debug_assertions)]
    pub given: tokio::sync::Notify,
}

impl LogWriterHandle {
    /// Makes an empty queue.
    pub fn new() -> Arc<LogWriterHandle> {
        let queue =
            Queue { appends: VecDeque::new(), collapse: None, stopping: false, stopped: false };
        Arc::new(LogWriterHandle {
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            end: AtomicU64::new(0),
            start: AtomicU64::new(0),
            segments: AtomicU64::new(0),
            no_space: AtomicBool::new(false),
            works_since: AtomicU64::new(0),
            #[cfg(debug_assertions)]
            given: tokio::sync::Notify::new(),
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no one panics while holding it")
    }

    /// Gives records to write, in this order.
    pub fn write(&self, appends: impl IntoIterator<Item = Append>) {
        let mut queue = self.queue();
        let idle = queue.appends.is_empty();
        queue.appends.extend(appends);
        let fresh = idle && !queue.appends.is_empty();
        // Woken under the lock, the thread would find it held and sleep again.
        drop(queue);
        #[cfg(debug_assertions)]
        self.given.notify_one();
        if fresh {
            self.wake.notify_one();
        }
    }

    /// Lets the log drop whole segments below this position, after everything given before is
    /// written.
    pub fn collapse(&self, keep_from: Position) {
        self.queue().collapse = Some(keep_from);
        self.wake.notify_one();
    }

    /// Finishes what was given, syncs, and ends the thread; returns when it has ended.
    pub fn stop(&self) {
        let mut queue = self.queue();
        queue.stopping = true;
        self.wake.notify_one();
        while !queue.stopped {
            queue = self.wake.wait(queue).expect("no one panics while holding it");
        }
    }

    /// Where the next record will begin, or a little before.
    pub fn end(&self) -> Position {
        Position(self.end.load(Ordering::Acquire))
    }

    /// Where the log stands, for everyone else.
    pub fn publish(&self, log: &Log) {
        self.start.store(log.start().0, Ordering::Release);
        self.end.store(log.end().0, Ordering::Release);
        self.segments.store(u64::from(log.segments()), Ordering::Relaxed);
    }

    /// Takes what waits to be written: its records behind those in `appends`, from where on the log
    /// is needed, and whether the node stops.
    fn take_into(&self, appends: &mut VecDeque<Append>) -> (Option<Position>, bool) {
        let mut queue = self.queue();
        match appends.is_empty() {
            true => std::mem::swap(&mut queue.appends, appends),
            false => appends.append(&mut queue.appends),
        }
        (queue.collapse.take(), queue.stopping)
    }

    /// Returns true if something waits for the writer: for a simulation, which is its own thread.
    pub fn has_work(&self) -> bool {
        self.queue().has_work()
    }

    /// Waits until something is given, or for so long.
    fn rest(&self, pause: Option<Duration>) {
        let queue = self.queue();
        if queue.has_work() {
            return;
        }
        match pause {
            None => drop(self.wake.wait(queue).expect("no one panics while holding it")),
            Some(pause) => {
                drop(self.wake.wait_timeout(queue, pause).expect("no one panics while holding it"));
            }
        }
    }

    /// Leaves a full disk alone for a while, unless the node stops.
    fn rest_full(&self) {
        let queue = self.queue();
        if !queue.stopping {
            drop(
                self.wake.wait_timeout(queue, FULL_PAUSE).expect("no one panics while holding it"),
            );
        }
    }

    /// The thread's life: one step after another.
    pub fn run(&self, writer: &mut LogWriter, mailbox: &dyn AppendSink) -> Result<(), StoreError> {
        let ended = loop {
            match writer.step(mailbox) {
                Ok(WriterStep::Went) => {}
                Ok(WriterStep::Idle(pause)) => self.rest(pause),
                Ok(WriterStep::Full) => self.rest_full(),
                Ok(WriterStep::Ended) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.works_since(0);
        ended
    }

    /// The thread has ended: whoever waits for that goes on.
    pub fn has_stopped(&self) {
        self.queue().stopped = true;
        self.wake.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.queue().stopping
    }

    /// The writer waits for the disk since then, in nanoseconds; 0: no longer.
    fn works_since(&self, now: u64) {
        self.works_since.store(now, Ordering::Release);
    }

    /// Returns true if the disk hangs: what the writer asked of it is not done for two leases, by
    /// this node's clock. A disk that is full counts, too: nothing is saved either way.
    pub fn hangs(&self, lease_ms: u64) -> bool {
        self.unanswered_ms() >= lease_ms.saturating_mul(HANGS_LEASES)
    }

    /// For how long the disk has not finished what the writer waits for, in milliseconds.
    pub fn unanswered_ms(&self) -> u64 {
        match self.works_since.load(Ordering::Acquire) {
            0 => 0,
            since => world::nanoseconds().saturating_sub(since) / 1_000_000,
        }
    }

    /// Where the log begins: what stood before is collapsed.
    pub fn begin(&self) -> Position {
        Position(self.start.load(Ordering::Acquire))
    }

    /// Bytes of log that could not be dropped yet.
    pub fn bytes(&self) -> u64 {
        self.end().0.saturating_sub(self.start.load(Ordering::Acquire))
    }

    /// Segments in use.
    pub fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Returns true if the log waits for space on the disk.
    pub fn no_space(&self) -> bool {
        self.no_space.load(Ordering::Acquire)
    }

    /// Starts the thread.
    pub fn start(
        self: &Arc<LogWriterHandle>,
        log: Log,
        interval: Duration,
        mailbox: Arc<dyn AppendSink>,
        metrics: Arc<Metrics>,
    ) -> Result<(), Error> {
        let mut writer = LogWriter::new(log, self.clone(), metrics, interval);
        let log_writer = self.clone();
        std::thread::Builder::new()
            .name("log-writer".into())
            .spawn(move || {
                let ended = log_writer.run(&mut writer, &*mailbox);
                // The log is closed, and its own thread ended, before anyone is told that this one
                // has.
                if let Err(error) = ended.and_then(|()| writer.close()) {
                    mailbox.failed(store_error(error));
                }
                log_writer.has_stopped();
            })
            .map(|_| ())
            .map_err(|error| {
                let text = format!("the log's thread can't be started: {error}");
                Error::new(Reason::StartFailed, text)
            })
    }
}

/// Record of the log that a job asks for.
pub fn record(job: &Append) -> Record<'_> {
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
pub fn store_error(error: StoreError) -> Error {
    let reason = match &error {
        StoreError::Io { .. } | StoreError::Closed => Reason::StoreFailed,
        StoreError::Corrupt { .. } => Reason::Corrupt,
        StoreError::Full => Reason::OutOfSpace,
        StoreError::Locked { .. } => Reason::InUse,
        StoreError::Version { .. } => Reason::NotSupported,
    };
    Error::new(reason, error.to_string())
}
