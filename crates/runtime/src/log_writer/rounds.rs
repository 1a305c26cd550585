//! Rounds of the log writer: one round takes all waiting records, appends those whose turn it is
//! (`commit_order.rs`), commits once, publishes the end of the log, reports completions, and
//! truncates.
//!
//! A promise, and the mark of an adopted log, count only once the log states that they are durable,
//! so a torn tail never held one that was reported (`docs/inside/consensus.md`).
//!
//! A round is a sequence of [`LogWriter::step`]s, and the thread is a loop around them. A
//! simulation takes the same steps with other events in between: for instance between publishing
//! the end of the log and reporting completions to the groups.
//!
//! Promises: one step makes at most one commit; a step that finds the disk full leaves everything
//! for a later step to retry; a truncation, and the stop, wait for all records taken before them.
//! Never: waits; retries a sync.

use super::commit_order::CommitOrder;
use super::{Append, AppendCompletion, LogWriterHandle, record};
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
const MARK_DURABLE_IDLE_NS: u64 = 100_000_000;

/// Outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterStep {
    /// Work was done, and the next step may be taken at once.
    Progress,
    /// No work for this long, or until some is submitted. `None`: until some is submitted.
    Idle(Option<Duration>),
    /// The disk is full: retry the same step after a pause.
    Full,
    /// All work submitted before the stop is written and synced.
    Stopped,
}

/// Phase of a round: the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriterPhase {
    Take,
    Write,
    MarkDurable,
    Publish,
    Report,
    Collapse,
    End,
}

/// Log writer; see the head of this file.
pub struct LogWriter {
    log: Log,
    handle: Arc<LogWriterHandle>,
    metrics: Arc<Metrics>,
    sync_interval: Duration,
    phase: WriterPhase,
    /// Records that are not appended yet, those of each group in order of submission.
    appends: VecDeque<Append>,
    /// Choice of the records of the next commit.
    order: CommitOrder,
    /// Records appended, whose completion is not reported yet.
    done: Vec<AppendCompletion>,
    sync: bool,
    /// True if a record on which other nodes rely was written, and the log is not yet marked as
    /// durable up to it.
    must_mark_durable: bool,
    /// Position below which the log is truncated at the end of the round.
    keep_from: Option<Position>,
    stopping: bool,
    /// Time at which the oldest unsynced record was written, in nanoseconds. `None`: all is synced.
    unsynced_since: Option<u64>,
    /// Time of the last write, in nanoseconds. `None`: the log is marked as durable to its end.
    unmarked_since: Option<u64>,
}

impl LogWriter {
    /// Builds the writer. `sync_interval`: a record that need not be synced is synced after this
    /// time.
    pub fn new(
        log: Log,
        handle: Arc<LogWriterHandle>,
        metrics: Arc<Metrics>,
        sync_interval: Duration,
    ) -> LogWriter {
        handle.publish(&log);
        LogWriter {
            log,
            handle,
            metrics,
            sync_interval,
            phase: WriterPhase::Take,
            appends: VecDeque::new(),
            order: CommitOrder::default(),
            done: Vec::new(),
            sync: false,
            must_mark_durable: false,
            keep_from: None,
            stopping: false,
            unsynced_since: None,
            unmarked_since: None,
        }
    }

    /// Takes the next step.
    pub fn step(&mut self, sink: &dyn AppendSink) -> Result<WriterStep, StoreError> {
        match self.phase {
            WriterPhase::Take => return self.begin_round(),
            WriterPhase::Write => match self.write() {
                Err(StoreError::Full) => return self.on_disk_full(),
                result => {
                    result?;
                    self.phase = if self.must_mark_durable {
                        WriterPhase::MarkDurable
                    } else {
                        WriterPhase::Publish
                    };
                }
            },
            // Before completions are reported: other nodes rely on a reported promise, so it must
            // never be part of a torn tail.
            WriterPhase::MarkDurable => match self.log.mark_durable() {
                Err(StoreError::Full) => return self.on_disk_full(),
                result => {
                    result?;
                    (self.must_mark_durable, self.unmarked_since) = (false, None);
                    self.phase = WriterPhase::Publish;
                }
            },
            WriterPhase::Publish => {
                self.handle.publish(&self.log);
                self.phase = WriterPhase::Report;
            }
            WriterPhase::Report => {
                if !self.done.is_empty() {
                    sink.on_completions(&self.done);
                    self.done.clear();
                }
                self.choose_next_phase();
            }
            WriterPhase::Collapse => {
                if let Some(keep_from) = self.keep_from.take() {
                    let segments = self.log.collapse(keep_from)?;
                    tracing::debug!(target: "log", keep_from = keep_from.0, segments, "collapsed");
                    self.handle.publish(&self.log);
                }
                self.choose_next_phase();
            }
            WriterPhase::End => return Ok(WriterStep::Stopped),
        }
        Ok(WriterStep::Progress)
    }

    /// Chooses the next phase from the work left in this round.
    fn choose_next_phase(&mut self) {
        let must_finish = self.keep_from.is_some() || self.stopping;
        self.phase = match () {
            // Otherwise the next round takes the rest, with what was submitted meanwhile.
            () if !self.appends.is_empty() && must_finish => WriterPhase::Write,
            () if !self.appends.is_empty() => WriterPhase::Take,
            // After all writes: records that maintenance copied to the log's head are written
            // before their old segments are deleted.
            () if self.keep_from.is_some() => WriterPhase::Collapse,
            () if self.stopping => WriterPhase::End,
            () => WriterPhase::Take,
        };
        let idle = matches!(self.phase, WriterPhase::Take | WriterPhase::End);
        // Restarted at each step: several slow steps are no hang.
        self.handle.set_busy_since(if idle { 0 } else { world::nanoseconds() });
    }

    /// Begins a round with all submitted work, and what the last round left.
    fn begin_round(&mut self) -> Result<WriterStep, StoreError> {
        (self.keep_from, self.stopping) = self.handle.drain_into(&mut self.appends);
        self.sync = self.stopping || self.is_sync_due();
        if !self.appends.is_empty() || self.sync {
            self.phase = WriterPhase::Write;
        } else if self.keep_from.is_some() {
            self.phase = WriterPhase::Collapse;
        } else {
            return self.on_idle();
        }
        self.handle.set_busy_since(world::nanoseconds());
        Ok(WriterStep::Progress)
    }

    /// Handles a step without work. An idle log is marked as durable to its end, so that damage
    /// there can be distinguished from a torn tail after a crash.
    fn on_idle(&mut self) -> Result<WriterStep, StoreError> {
        let elapsed_ns = |since: u64| world::nanoseconds().saturating_sub(since);
        if let Some(since) = self.unsynced_since {
            return Ok(WriterStep::Idle(Some(
                self.sync_interval.saturating_sub(Duration::from_nanos(elapsed_ns(since))),
            )));
        }
        let Some(since) = self.unmarked_since else { return Ok(WriterStep::Idle(None)) };
        let remaining_ns = MARK_DURABLE_IDLE_NS.saturating_sub(elapsed_ns(since));
        if remaining_ns > 0 {
            return Ok(WriterStep::Idle(Some(Duration::from_nanos(remaining_ns))));
        }
        self.unmarked_since = None;
        self.handle.set_busy_since(world::nanoseconds());
        match self.log.mark_durable() {
            // A full disk is no failure here: the next commit marks it.
            Ok(()) | Err(StoreError::Full) => {}
            Err(error) => return Err(error),
        }
        self.handle.set_busy_since(0);
        Ok(WriterStep::Progress)
    }

    fn is_sync_due(&self) -> bool {
        let interval = u64::try_from(self.sync_interval.as_nanos()).unwrap_or(u64::MAX);
        self.unsynced_since
            .is_some_and(|since| world::nanoseconds().saturating_sub(since) >= interval)
    }

    /// Appends the chosen records that fit into one write, and commits them. A full disk is
    /// detected before a record is removed from the queue, so the next step continues where this
    /// one stopped.
    fn write(&mut self) -> Result<(), StoreError> {
        let round_start = self.log.end().0;
        // After a full disk the records before are buffered: no others join their commit.
        let count = match self.done.is_empty() {
            true => self.order.choose(&mut self.appends),
            false => self.order.chosen(),
        };
        for _ in 0..count {
            let Some(append) = self.appends.front() else { break };
            let start = self.log.end();
            self.log.append(&record(append))?;
            // One record that needs a sync causes a sync of the whole round.
            self.sync |= append.sync;
            self.must_mark_durable |= append.must_be_marked_durable();
            self.done.push(append.completion(start));
            self.appends.pop_front();
            self.order.mark_taken();
            if self.log.end().0 - round_start > ROUND_BYTES_MAX {
                break;
            }
        }
        let commit_start = world::nanoseconds();
        self.log.commit(self.sync)?;
        self.handle.waits_for_space.store(false, Ordering::Release);
        self.unmarked_since = Some(world::nanoseconds());
        if self.sync {
            self.unsynced_since = None;
            let took_us = (world::nanoseconds() - commit_start) / 1_000;
            self.metrics.record_sync(took_us, self.done.len() as u64);
            let (records, end) = (self.done.len(), self.log.end().0);
            tracing::debug!(target: "log", records, end, took_us, "synced");
        } else {
            // The oldest unsynced write counts: later ones must not postpone the sync.
            self.unsynced_since.get_or_insert(commit_start);
        }
        Ok(())
    }

    /// Handles a full disk: nothing was acknowledged, and nothing is dropped. A stopping node does
    /// not wait for space, since no unwritten record was acknowledged.
    fn on_disk_full(&mut self) -> Result<WriterStep, StoreError> {
        if !self.handle.waits_for_space.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                target: "log", "no disk space for the log: writes wait until there is space"
            );
        }
        match self.handle.is_stopping() {
            true => Err(StoreError::Full),
            false => Ok(WriterStep::Full),
        }
    }

    /// Closes the log cleanly.
    pub(super) fn close(self) -> Result<(), StoreError> {
        self.log.close()
    }
}

/// Access for simulations, in addition to the steps.
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
    pub fn is_between_rounds(&self) -> bool {
        self.phase == WriterPhase::Take && self.appends.is_empty()
    }

    /// Returns true if the next step uses the disk.
    pub fn needs_disk(&self) -> bool {
        matches!(self.phase, WriterPhase::Write | WriterPhase::MarkDurable | WriterPhase::Collapse)
    }

    /// Returns the records of the round that are not appended.
    pub fn unwritten(&self) -> &VecDeque<Append> {
        &self.appends
    }

    /// Takes these records out: they will never be written.
    pub fn take_unwritten(&mut self) -> VecDeque<Append> {
        self.order.clear();
        std::mem::take(&mut self.appends)
    }
}

#[cfg(test)]
mod tests;
