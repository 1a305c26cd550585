//! Log writer: one thread that owns the write-ahead log, takes all waiting records, writes them
//! once and syncs once.
//!
//! Group commit follows from this: while one sync runs, records gather; the next round takes them
//! all. A failed write or sync ends the thread for good, and with it the node: a retried sync may
//! report success for lost data (LWN, *PostgreSQL's fsync surprise*).
//!
//! Promises: records of one group are written in the order they were submitted, and a record behind
//! those whose completion was reported before it was submitted; completion is reported after they
//! are written, and synced if one of them requires it; the time for which the disk has not answered
//! is available meanwhile.
//! Never: retries a sync; interprets a payload.
//! Read next: `log_writer/rounds.rs`, what the thread does, step by step; `commit_order.rs`.

mod commit_order;
mod rounds;

pub use commit_order::LARGE_RECORD_BYTES;
pub use rounds::{LogWriter, WriterStep};

use crate::beat::Beat;
use crate::metrics::Metrics;
use crate::mutants::Mutant;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::world;
use base::{Ballot, Error, GroupId, LogIndex, Reason};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use store::{Log, Owner, Position, Record, RecordKind, StoreError};

/// Pause before a full disk is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(50);

/// Number of leases after which a disk that has not answered counts as hung. With less, a write of
/// 64 MiB to a slow disk would count; with more, groups whose master is here would wait longer.
const HUNG_AFTER_LEASES: u64 = 2;

/// Receiver of the log writer's completions.
pub trait AppendSink: Send + Sync {
    /// Reports records that are written, and synced if they require it.
    fn on_completions(&self, completions: &[AppendCompletion]);
    /// Reports that the log failed: nothing more will be written.
    fn on_log_failure(&self, error: Error);
}

/// One record to write.
pub struct Append {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Group of the record.
    pub group: GroupId,
    /// Ballot under which it is written.
    pub ballot: Ballot,
    /// Index of its log entry.
    pub index: LogIndex,
    /// Last index known to be decided.
    pub decided: LogIndex,
    /// Payload of the record: an entry, or what its kind defines.
    pub payload: Bytes,
    /// True if it must be synced before it counts.
    pub sync: bool,
}

/// Record that is written, and synced if it requires it.
#[derive(Clone, Copy, Debug)]
pub struct AppendCompletion {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Group of the record.
    pub group: GroupId,
    /// Ballot under which it was written.
    pub ballot: Ballot,
    /// Index of its log entry.
    pub index: LogIndex,
    /// Index that it records as decided; for a truncate, the number of staged entries that it
    /// adopts.
    pub decided: LogIndex,
    /// Log position at which it begins, or slightly before.
    pub start: Position,
}

impl Append {
    /// Returns true for records on which other nodes rely: a promise, or the mark of an adopted
    /// log. They count only once the log states that they are durable, so a torn tail never held
    /// one that was reported.
    pub fn must_be_marked_durable(&self) -> bool {
        self.sync
            && matches!(self.kind, RecordKind::Promise | RecordKind::Truncate)
            && !Mutant::ReportPromiseEarly.is_active()
    }

    /// Returns the completion of this record, which begins at `start`.
    pub fn completion(&self, start: Position) -> AppendCompletion {
        let Append { kind, group, ballot, index, decided, .. } = *self;
        AppendCompletion { kind, group, ballot, index, decided, start }
    }
}

struct Queue {
    appends: VecDeque<Append>,
    keep_from: Option<Position>,
    stopping: bool,
    stopped: bool,
}

impl Queue {
    fn has_work(&self) -> bool {
        !self.appends.is_empty() || self.keep_from.is_some() || self.stopping
    }
}

/// State shared by the log writer and the rest of the node.
pub struct LogWriterHandle {
    queue: Mutex<Queue>,
    wake: Condvar,
    end: AtomicU64,
    start: AtomicU64,
    segments: AtomicU64,
    waits_for_space: AtomicBool,
    /// Time since which the writer waits for the disk, in nanoseconds. 0: it does not wait.
    busy_since: AtomicU64,
    /// Beat of the thread. Every step of it may use the disk.
    pub beat: Arc<Beat>,
    /// Signals new work to a simulation, which has no thread to wake.
    #[cfg(debug_assertions)]
    pub work_submitted: tokio::sync::Notify,
}

impl LogWriterHandle {
    /// Makes an empty queue.
    pub fn new() -> Arc<LogWriterHandle> {
        let queue =
            Queue { appends: VecDeque::new(), keep_from: None, stopping: false, stopped: false };
        Arc::new(LogWriterHandle {
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            end: AtomicU64::new(0),
            start: AtomicU64::new(0),
            segments: AtomicU64::new(0),
            waits_for_space: AtomicBool::new(false),
            busy_since: AtomicU64::new(0),
            beat: Arc::new(Beat::new("log writer")),
            #[cfg(debug_assertions)]
            work_submitted: tokio::sync::Notify::new(),
        })
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no one panics while holding it")
    }

    /// Submits records; those of one group are written in this order.
    pub fn write(&self, appends: impl IntoIterator<Item = Append>) {
        let mut queue = self.queue();
        let was_empty = queue.appends.is_empty();
        queue.appends.extend(appends);
        let must_wake = was_empty && !queue.appends.is_empty();
        // Notified while the lock is held, the thread would block on it at once.
        drop(queue);
        #[cfg(debug_assertions)]
        self.work_submitted.notify_one();
        // A queue that was not empty has been signalled already.
        if must_wake {
            self.wake.notify_one();
        }
    }

    /// Requests truncation of the segments below this position, once all records submitted before
    /// are written.
    pub fn collapse(&self, keep_from: Position) {
        self.queue().keep_from = Some(keep_from);
        self.wake.notify_one();
    }

    /// Makes the thread write and sync what was submitted, and end.
    pub fn begin_stop(&self) {
        self.queue().stopping = true;
        self.wake.notify_one();
    }

    /// Stops as [`LogWriterHandle::begin_stop`] does; returns when the thread has ended.
    pub fn stop(&self) {
        self.begin_stop();
        let mut queue = self.queue();
        // Both sides wait on `wake`. The writer does not wait once `stopping` is set, so this wait
        // consumes no wake-up meant for the writer.
        while !queue.stopped {
            queue = self.wake.wait(queue).expect("no one panics while holding it");
        }
    }

    /// Returns the position at which the next record will begin, or slightly before.
    pub fn end(&self) -> Position {
        Position(self.end.load(Ordering::Acquire))
    }

    /// Publishes the bounds and the size of the log to other threads.
    pub fn publish(&self, log: &Log) {
        self.start.store(log.start().0, Ordering::Release);
        self.end.store(log.end().0, Ordering::Release);
        self.segments.store(u64::from(log.segments()), Ordering::Relaxed);
    }

    /// Takes all submitted work: appends the records to `appends`; returns the position below which
    /// the log may be truncated, and true if the node stops.
    fn drain_into(&self, appends: &mut VecDeque<Append>) -> (Option<Position>, bool) {
        let mut queue = self.queue();
        match appends.is_empty() {
            true => std::mem::swap(&mut queue.appends, appends),
            false => appends.append(&mut queue.appends),
        }
        (queue.keep_from.take(), queue.stopping)
    }

    /// Returns true if work was submitted: for a simulation, which runs the writer itself.
    pub fn has_work(&self) -> bool {
        self.queue().has_work()
    }

    /// Waits until work is submitted, or for at most `pause`.
    fn wait_for_work(&self, pause: Option<Duration>) {
        let queue = self.queue();
        // Checked under the lock that `write` holds: no wake-up since the last step is lost.
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

    /// Waits before a full disk is tried again, unless the node stops.
    fn wait_for_space(&self) {
        let queue = self.queue();
        if !queue.stopping {
            drop(
                self.wake.wait_timeout(queue, FULL_PAUSE).expect("no one panics while holding it"),
            );
        }
    }

    /// Runs the writer, one step after another, until the stop or a failure.
    pub fn run(&self, writer: &mut LogWriter, sink: &dyn AppendSink) -> Result<(), StoreError> {
        let result = loop {
            self.beat.use_disk();
            match writer.step(sink) {
                Ok(WriterStep::Progress) => {}
                Ok(WriterStep::Idle(pause)) => {
                    self.beat.rest();
                    self.wait_for_work(pause);
                }
                Ok(WriterStep::Full) => {
                    self.beat.rest();
                    self.wait_for_space();
                }
                Ok(WriterStep::Stopped) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.beat.rest();
        self.set_busy_since(0);
        result
    }

    /// Marks the thread as ended and wakes callers of [`LogWriterHandle::stop`].
    pub fn mark_stopped(&self) {
        self.queue().stopped = true;
        self.wake.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.queue().stopping
    }

    /// Sets the time since which the writer waits for the disk, in nanoseconds; 0: it does not
    /// wait.
    fn set_busy_since(&self, now: u64) {
        self.busy_since.store(now, Ordering::Release);
    }

    /// Returns true if the disk hangs: it has not finished a request of the writer for two leases,
    /// by this node's clock. A full disk counts too: nothing is saved either way.
    pub fn is_hung(&self, lease_ms: u64) -> bool {
        self.unanswered_ms() >= lease_ms.saturating_mul(HUNG_AFTER_LEASES)
    }

    /// Returns the time for which the disk has not finished the writer's request, in milliseconds.
    pub fn unanswered_ms(&self) -> u64 {
        match self.busy_since.load(Ordering::Acquire) {
            0 => 0,
            since => world::nanoseconds().saturating_sub(since) / 1_000_000,
        }
    }

    /// Returns the position at which the log begins; everything before was truncated.
    pub fn start_position(&self) -> Position {
        Position(self.start.load(Ordering::Acquire))
    }

    /// Returns the bytes of the log that could not be dropped yet.
    pub fn bytes(&self) -> u64 {
        self.end().0.saturating_sub(self.start.load(Ordering::Acquire))
    }

    /// Returns the number of segments in use.
    pub fn segments(&self) -> u64 {
        self.segments.load(Ordering::Relaxed)
    }

    /// Returns true if the log waits for disk space.
    pub fn waits_for_space(&self) -> bool {
        self.waits_for_space.load(Ordering::Acquire)
    }

    /// Starts the thread.
    pub fn start(
        self: &Arc<LogWriterHandle>,
        log: Log,
        interval: Duration,
        sink: Arc<dyn AppendSink>,
        metrics: Arc<Metrics>,
    ) -> Result<(), Error> {
        let mut writer = LogWriter::new(log, self.clone(), metrics, interval);
        let handle = self.clone();
        std::thread::Builder::new()
            .name("log-writer".into())
            .spawn(move || {
                let result = handle.run(&mut writer, &*sink);
                // The log is closed, and its spare worker has ended, before this thread reports its
                // own end.
                if let Err(error) = result.and_then(|()| writer.close()) {
                    sink.on_log_failure(store_error(error));
                }
                handle.mark_stopped();
            })
            .map(|_| ())
            .map_err(|error| {
                let text = format!("can't start the log's thread: {error}");
                Error::new(Reason::StartFailed, text)
            })
    }
}

/// Returns the log record of a submitted append.
pub fn record(append: &Append) -> Record<'_> {
    Record {
        kind: append.kind,
        owner: Owner { group: append.group.0, generation: 0 },
        configuration: 0,
        ballot: (append.ballot.round, append.ballot.node.0),
        index: append.index.0,
        decided: append.decided.0,
        payload: &append.payload,
    }
}

/// Translates an error of the store into one for the caller; no other code does.
pub fn store_error(error: StoreError) -> Error {
    let reason = match &error {
        StoreError::Io { .. } | StoreError::Closed => Reason::StoreFailed,
        StoreError::Corrupt { .. } => Reason::Corrupt,
        StoreError::Full => Reason::OutOfSpace,
        StoreError::Locked { .. } => Reason::InUse,
        StoreError::Version { .. } | StoreError::Level { .. } => Reason::NotSupported,
    };
    Error::new(reason, error.to_string())
}
