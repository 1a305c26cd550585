//! Rounds of the log writer: one round takes all waiting records, appends them, commits once,
//! publishes the end of the log, reports completions, and truncates.
//!
//! A promise, and the mark of an adopted log, count only once the log states that they are durable,
//! so a torn tail never held one that was reported (`docs/inside/consensus.md`).
//!
//! A round is a sequence of [`LogWriter::step`]s, and the thread is a loop around them. A
//! simulation takes the same steps with other events in between: for instance between publishing
//! the end of the log and reporting completions to the groups.
//!
//! Promises: one step makes at most one commit; a step that finds the disk full leaves everything
//! for a later step to retry.
//! Never: waits; retries a sync.

use super::{Append, LogWriterHandle, LoggedRecord, record};
use crate::log_writer::AppendSink;
use crate::metrics::Metrics;
use crate::world;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use store::{Log, Position, StoreError};

/// Most bytes of one round, so that one buffer of the log bounds the memory of a write.
const ROUND_BYTES_MAX: u64 = 16 << 20;
/// Idle time after which the log records that all of it is durable, nanoseconds.
const SETTLE_PAUSE_NS: u64 = 100_000_000;

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterStep {
    /// Work was done, and the next step may be taken at once.
    Went,
    /// No work for this long, or until some is submitted. `None`: until some is submitted.
    Idle(Option<Duration>),
    /// The disk is full: retry the same step after a pause.
    Full,
    /// All work submitted before the stop is written and synced.
    Ended,
}

/// Phase of a round: the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterPhase {
    Take,
    Write,
    State,
    Publish,
    Tell,
    Collapse,
    End,
}

/// Log writer; see the head of this file.
pub struct LogWriter {
    log: Log,
    log_writer: Arc<LogWriterHandle>,
    metrics: Arc<Metrics>,
    interval: Duration,
    phase: WriterPhase,
    /// Records of this round not appended yet, in their order.
    appends: VecDeque<Append>,
    /// Records appended, whose completion is not reported yet.
    done: Vec<LoggedRecord>,
    sync: bool,
    /// True if a record on which other nodes rely was written, and the log does not state yet that
    /// it is durable.
    must_state: bool,
    collapse: Option<Position>,
    stopping: bool,
    /// Time at which the oldest unsynced record was written, in nanoseconds. `None`: all is synced.
    unsynced_since: Option<u64>,
    /// Time of the last write, if the log does not state yet that all of it is durable;
    /// nanoseconds.
    unsettled_since: Option<u64>,
}

impl LogWriter {
    /// Builds the writer. `interval`: a record that need not be synced is synced after this time.
    pub fn new(
        log: Log,
        log_writer: Arc<LogWriterHandle>,
        metrics: Arc<Metrics>,
        interval: Duration,
    ) -> LogWriter {
        log_writer.publish(&log);
        LogWriter {
            log,
            log_writer,
            metrics,
            interval,
            phase: WriterPhase::Take,
            appends: VecDeque::new(),
            done: Vec::new(),
            sync: false,
            must_state: false,
            collapse: None,
            stopping: false,
            unsynced_since: None,
            unsettled_since: None,
        }
    }

    /// Takes the next step.
    pub fn step(&mut self, mailbox: &dyn AppendSink) -> Result<WriterStep, StoreError> {
        match self.phase {
            WriterPhase::Take => return self.take(),
            WriterPhase::Write => match self.write() {
                Err(StoreError::Full) => return self.wait_for_room(),
                written => {
                    written?;
                    self.phase =
                        if self.must_state { WriterPhase::State } else { WriterPhase::Publish };
                }
            },
            // Before anyone hears of it: other nodes will count on a promise, and a torn tail must
            // not have held it.
            WriterPhase::State => match self.log.settle() {
                Err(StoreError::Full) => return self.wait_for_room(),
                stated => {
                    stated?;
                    (self.must_state, self.unsettled_since) = (false, None);
                    self.phase = WriterPhase::Publish;
                }
            },
            WriterPhase::Publish => {
                self.log_writer.publish(&self.log);
                self.phase = WriterPhase::Tell;
            }
            WriterPhase::Tell => {
                if !self.done.is_empty() {
                    mailbox.done(&self.done);
                    self.done.clear();
                }
                self.go_on();
            }
            WriterPhase::Collapse => {
                if let Some(keep_from) = self.collapse.take() {
                    let segments = self.log.collapse(keep_from)?;
                    tracing::debug!(target: "log", keep_from = keep_from.0, segments, "collapsed");
                    self.log_writer.publish(&self.log);
                }
                self.go_on();
            }
            WriterPhase::End => return Ok(WriterStep::Ended),
        }
        Ok(WriterStep::Went)
    }

    /// Chooses the next phase from the work left in this round.
    fn go_on(&mut self) {
        self.phase = match () {
            () if !self.appends.is_empty() => WriterPhase::Write,
            // After all writes: what maintenance copied to the log's head is written before the
            // segments go.
            () if self.collapse.is_some() => WriterPhase::Collapse,
            () if self.stopping => WriterPhase::End,
            () => WriterPhase::Take,
        };
        let rests = matches!(self.phase, WriterPhase::Take | WriterPhase::End);
        // Anew for each step: several slow steps are no hang.
        self.log_writer.works_since(if rests { 0 } else { world::nanoseconds() });
    }

    /// Begins a round with all submitted work.
    fn take(&mut self) -> Result<WriterStep, StoreError> {
        (self.collapse, self.stopping) = self.log_writer.take_into(&mut self.appends);
        self.sync = self.stopping || self.due();
        if !self.appends.is_empty() || self.sync {
            self.phase = WriterPhase::Write;
        } else if self.collapse.is_some() {
            self.phase = WriterPhase::Collapse;
        } else {
            return self.rest();
        }
        self.log_writer.works_since(world::nanoseconds());
        Ok(WriterStep::Went)
    }

    /// Handles a step without work. An idle log states that all of it is durable, so that damage at
    /// its end can be distinguished from a tail that a crash tore.
    fn rest(&mut self) -> Result<WriterStep, StoreError> {
        let spent = |since: u64| world::nanoseconds().saturating_sub(since);
        if let Some(since) = self.unsynced_since {
            return Ok(WriterStep::Idle(Some(
                self.interval.saturating_sub(Duration::from_nanos(spent(since))),
            )));
        }
        let Some(since) = self.unsettled_since else { return Ok(WriterStep::Idle(None)) };
        let left = SETTLE_PAUSE_NS.saturating_sub(spent(since));
        if left > 0 {
            return Ok(WriterStep::Idle(Some(Duration::from_nanos(left))));
        }
        self.unsettled_since = None;
        self.log_writer.works_since(world::nanoseconds());
        match self.log.settle() {
            // The next commit states it.
            Ok(()) | Err(StoreError::Full) => {}
            Err(error) => return Err(error),
        }
        self.log_writer.works_since(0);
        Ok(WriterStep::Went)
    }

    fn due(&self) -> bool {
        let interval = u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX);
        self.unsynced_since
            .is_some_and(|since| world::nanoseconds().saturating_sub(since) >= interval)
    }

    /// Appends the records that fit into one write, and commits them. A full disk is found before
    /// any record is dropped from the queue: the next step goes on where this one stopped.
    fn write(&mut self) -> Result<(), StoreError> {
        let begun = self.log.end().0;
        while let Some(job) = self.appends.front() {
            let start = self.log.end();
            self.log.append(&record(job))?;
            // One record that needs a sync brings it to the whole round.
            self.sync |= job.sync;
            self.must_state |= job.must_be_stated();
            self.done.push(job.done(start));
            self.appends.pop_front();
            if self.log.end().0 - begun > ROUND_BYTES_MAX {
                break;
            }
        }
        let before = world::nanoseconds();
        self.log.commit(self.sync)?;
        self.log_writer.no_space.store(false, Ordering::Release);
        self.unsettled_since = Some(world::nanoseconds());
        if self.sync {
            self.unsynced_since = None;
            let took_us = (world::nanoseconds() - before) / 1_000;
            self.metrics.synced(took_us, self.done.len() as u64);
            let (records, end) = (self.done.len(), self.log.end().0);
            tracing::debug!(target: "log", records, end, took_us, "synced");
        } else {
            // The oldest counts: a stream of records without syncs must not postpone its own.
            self.unsynced_since.get_or_insert(before);
        }
        Ok(())
    }

    /// Handles a full disk: nothing was acknowledged, and nothing is dropped. A stopping node does
    /// not wait for space: nobody was promised what it could not write.
    fn wait_for_room(&mut self) -> Result<WriterStep, StoreError> {
        if !self.log_writer.no_space.swap(true, Ordering::AcqRel) {
            tracing::warn!(target: "log", "no space for the log: writes wait for some");
        }
        match self.log_writer.is_stopping() {
            true => Err(StoreError::Full),
            false => Ok(WriterStep::Full),
        }
    }

    /// Closes the log in good order.
    pub(super) fn close(self) -> Result<(), StoreError> {
        self.log.close()
    }
}

/// Access for simulations, beside the steps.
impl LogWriter {
    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the log for changes.
    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Returns true if no round is in progress.
    pub fn rests(&self) -> bool {
        self.phase == WriterPhase::Take
    }

    /// Returns true if the next step uses the disk.
    pub fn asks_disk(&self) -> bool {
        matches!(self.phase, WriterPhase::Write | WriterPhase::State | WriterPhase::Collapse)
    }

    /// Returns the records of the round that are not appended.
    pub fn unwritten(&self) -> &VecDeque<Append> {
        &self.appends
    }

    /// Takes these records out: they will never be written.
    pub fn take_unwritten(&mut self) -> VecDeque<Append> {
        std::mem::take(&mut self.appends)
    }
}
