//! Audit trail of a running program: a bounded queue of records, and the thread that writes them.
//!
//! Callers never wait, except in [`AuditTrail::confirm`] and [`AuditTrail::sync`]. Lines are
//! written at once, and synced each second, or at once if somebody waits for it. While nothing can
//! be written, what came last is kept, as far as the queue holds it, and each second the log is
//! opened again.

use crate::key_digests::KeyDigests;
use crate::record::AuditRecord;
use crate::trail_output::TrailOutput;
use crate::trail_queue::{COMMON_ENTRIES_MAX, ENTRIES_MAX, TrailState, TrailTurn};
use crate::writer::AuditLimits;
use base::{Error, Reason, Result};
use runtime::{Beat, world};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::watch;

/// Longest wait for a sync: a disk that hangs must not hold a request forever.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(10);

/// Kind of events that callers can provoke without any right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloodKind {
    /// Denied requests and wrong logins.
    Refusal,
    /// Right logins.
    Login,
}

/// See the head of this file.
pub struct AuditTrail {
    /// `None`: nothing is recorded.
    folder: Option<PathBuf>,
    limits: AuditLimits,
    digests: KeyDigests,
    state: Mutex<TrailState>,
    /// Wakes the thread.
    wake: Condvar,
    progress: watch::Sender<TrailProgress>,
}

/// Progress of the thread, in numbers of entries.
#[derive(Clone, Debug, Default)]
struct TrailProgress {
    /// Entries up to this number are on disk.
    synced: u64,
    /// Entries up to this number were tried in vain last.
    failed: u64,
    /// Cause for which nothing can be written.
    failure: Option<Arc<str>>,
    has_ended: bool,
}

impl AuditTrail {
    /// Returns a trail whose thread has not begun. `folder`: that of the log. `None`: nothing is
    /// recorded, and everything is confirmed.
    pub fn new(folder: Option<PathBuf>, limits: AuditLimits) -> AuditTrail {
        let key = world::secret();
        let opened = folder.as_deref().map(|it| KeyDigests::open_or_create(it, key));
        // Without the folder's key, which the thread will complain about, digests are good for this
        // run.
        let digests = opened.and_then(io::Result::ok).unwrap_or_else(|| KeyDigests::new(key));
        let (state, wake, progress) = (Mutex::default(), Condvar::new(), watch::Sender::default());
        AuditTrail { folder, limits, digests, state, wake, progress }
    }

    /// Returns true if nothing is recorded.
    pub fn is_off(&self) -> bool {
        self.folder.is_none()
    }

    /// Returns the digest of a key in a bucket.
    pub fn key_digest(&self, bucket: &str, key: &[u8]) -> String {
        self.digests.digest(bucket, key)
    }

    /// Records an act.
    pub fn record(&self, record: AuditRecord) {
        self.push(record, ENTRIES_MAX);
    }

    /// Records an operation on keys. While too much waits, it is lost and counted.
    pub fn record_operation(&self, record: AuditRecord) {
        self.push(record, COMMON_ENTRIES_MAX);
    }

    /// Records an event that a caller can provoke without any right: a bounded number has a line
    /// each, the others are counted.
    pub fn record_bounded(&self, kind: FloodKind, record: AuditRecord) {
        if self.is_off() {
            return;
        }
        let (now_ms, at_ms) = (world::milliseconds(), world::unix_ms());
        let mut state = self.lock();
        state.end_windows(now_ms, at_ms);
        let limiter = match kind {
            FloodKind::Refusal => &mut state.refusals,
            FloodKind::Login => &mut state.logins,
        };
        // With the first event that has no line, the thread learns when the window ends.
        let had_deadline = limiter.deadline_ms().is_some();
        match limiter.admit(&record, now_ms) {
            true => {
                state.queue(record, at_ms, COMMON_ENTRIES_MAX);
            }
            false if had_deadline => return,
            false => {}
        }
        drop(state);
        self.wake.notify_all();
    }

    /// Records an act that must not be done unrecorded. Resolves when it is on disk.
    ///
    /// Errors: `OutOfSpace`, with the remedy: the act must be refused.
    pub async fn confirm(&self, record: AuditRecord) -> Result<()> {
        self.check()?;
        match self.push(record, ENTRIES_MAX) {
            true => self.sync().await,
            false => Err(unwritable("too many records wait to be written")),
        }
    }

    /// Resolves when everything that was recorded so far is on disk, the line that opens the log
    /// among it. Errors: as for [`AuditTrail::confirm`].
    pub async fn sync(&self) -> Result<()> {
        if self.is_off() {
            return Ok(());
        }
        let number = {
            let mut state = self.lock();
            state.is_urgent = true;
            state.queued
        };
        self.wake.notify_all();
        let mut progress = self.progress.subscribe();
        let is_known = |progress: &TrailProgress| {
            progress.synced >= number || progress.failed >= number || progress.has_ended
        };
        let known = async { progress.wait_for(is_known).await.ok().map(|found| found.clone()) };
        match world::timeout(CONFIRM_TIMEOUT, known).await {
            Some(Some(progress)) if progress.synced >= number => Ok(()),
            Some(progress) => {
                let cause = progress.and_then(|progress| progress.failure);
                Err(unwritable(cause.as_deref().unwrap_or("the node stops")))
            }
            None => {
                let seconds = CONFIRM_TIMEOUT.as_secs();
                Err(unwritable(&format!("the disk has not completed a sync for {seconds} s")))
            }
        }
    }

    /// Returns the cause for which nothing can be written.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.progress.borrow().failure.clone()
    }

    /// Fails if nothing can be written: acts that must not be done unrecorded are refused then.
    pub fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), |cause| Err(unwritable(&cause)))
    }

    /// Makes the thread write what waits, and end.
    pub fn begin_close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_all();
    }

    /// Ends the thread once it has written what waits. Resolves then.
    pub async fn close(&self) {
        if self.is_off() {
            return;
        }
        self.begin_close();
        let mut progress = self.progress.subscribe();
        let ended = async { progress.wait_for(|progress| progress.has_ended).await.is_ok() };
        if world::timeout(CONFIRM_TIMEOUT, ended).await != Some(true) {
            tracing::error!(target: "node", "the end of the audit log was not written in time");
        }
    }

    /// Runs the thread, until the trail is closed.
    pub fn run(&self, beat: &Beat) {
        let Some(folder) = &self.folder else { return };
        let mut output = TrailOutput::new(folder, self.limits);
        loop {
            beat.rest();
            let turn = self.next_turn(&output);
            beat.use_disk();
            let is_closed = turn.is_closed;
            let result = output.turn(turn, world::milliseconds(), world::unix_ms());
            self.report(&output, &result);
            if is_closed && (result.is_err() || self.lock().is_drained()) {
                break;
            }
        }
        self.progress.send_modify(|progress| progress.has_ended = true);
    }

    /// Waits until there is something to do, and takes it.
    fn next_turn(&self, output: &TrailOutput<'_>) -> TrailTurn {
        let mut state = self.lock();
        loop {
            let now_ms = world::milliseconds();
            state.end_windows(now_ms, world::unix_ms());
            state.report_lost();
            let has_work = !state.queue.is_empty() || state.is_urgent;
            let is_ready = match output.retry_ms {
                Some(retry_ms) => now_ms >= retry_ms,
                None => has_work || output.sync_due(now_ms) || output.writer.is_none(),
            };
            if is_ready || state.is_closed {
                return state.take(output.pending.is_empty());
            }
            let windows = [state.refusals.deadline_ms(), state.logins.deadline_ms()];
            let deadlines = windows.into_iter().chain([output.deadline_ms()]);
            let wait_ms = deadlines.flatten().min().map(|at_ms| at_ms.saturating_sub(now_ms));
            state = match wait_ms {
                Some(ms) => {
                    let wait = Duration::from_millis(ms.max(1));
                    self.wake.wait_timeout(state, wait).expect(UNPOISONED).0
                }
                None => self.wake.wait(state).expect(UNPOISONED),
            };
        }
    }

    /// Tells those who wait what a turn came to.
    fn report(&self, output: &TrailOutput<'_>, result: &io::Result<()>) {
        let is_synced = output.pending.is_empty() && output.unsynced_ms.is_none();
        let describe = |error: &io::Error| format!("{}: {error}", output.folder.display());
        let failure: Option<Arc<str>> = result.as_ref().err().map(|error| describe(error).into());
        let mut former = None;
        self.progress.send_modify(|progress| {
            match &failure {
                Some(_) => progress.failed = output.taken,
                None if is_synced => progress.synced = output.taken,
                None => {}
            }
            former = std::mem::replace(&mut progress.failure, failure.clone());
        });
        match (&former, &failure) {
            (None, Some(cause)) => tracing::error!(
                target: "node", cause = &**cause,
                "the audit log can't be written: changes of users, roles and tokens are refused"
            ),
            (Some(_), None) => tracing::info!(target: "node", "the audit log is written again"),
            _ => {}
        }
    }

    /// Queues a record. Returns false if it found no place.
    fn push(&self, record: AuditRecord, places: usize) -> bool {
        if self.is_off() {
            return true;
        }
        let has_place = self.lock().queue(record, world::unix_ms(), places);
        self.wake.notify_all();
        has_place
    }

    fn lock(&self) -> MutexGuard<'_, TrailState> {
        self.state.lock().expect(UNPOISONED)
    }
}

/// Reason for which locks are not poisoned.
const UNPOISONED: &str = "no one panics while holding it";

fn unwritable(cause: &str) -> Error {
    let text = format!(
        "nothing was done: what needs `secure` must be in the audit log, which can't be written \
         ({cause}): free space on the disk, or correct the folder `audit` of the data directory \
         (`credenza status` shows the alarm `audit_failed`), then try again"
    );
    Error::new(Reason::OutOfSpace, text)
}
