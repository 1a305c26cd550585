//! The log writer's own part: one round takes all that waits, appends it, commits it once,
//! publishes where the log ends, tells the groups, and truncates.
//!
//! A promise, and the mark of an adopted log, count only once the log states that they are durable:
//! so no torn tail ever held one that was told (`docs/inside/consensus.md`).
//!
//! A round is a sequence of [`Writer::step`]s, and the thread is a loop around them. A simulation
//! takes the same steps with other events in between: what the rest of the node may do while the
//! end of the log is published and its groups have not been told is tried there.
//!
//! Promises: one step makes at most one commit; a step that finds the disk full changes nothing
//! that a later one would not find.
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

/// Rounds are cut here, so that one buffer of the log bounds the memory of a write.
const ROUND_BYTES_MAX: u64 = 16 << 20;
/// After this long without work the log is told that all of it is durable, nanoseconds.
const SETTLE_PAUSE_NS: u64 = 100_000_000;

/// What a step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterStep {
    /// Something was done, and the next step may be taken at once.
    Went,
    /// There is nothing to do for so long, or until something is given.
    Idle(Option<Duration>),
    /// The disk is full: the same step is to be taken again in a while.
    Full,
    /// All that was given before the stop is written and synced.
    Ended,
}

/// The next step.
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

/// See the head of this file.
pub struct LogWriter {
    log: Log,
    log_writer: Arc<LogWriterHandle>,
    metrics: Arc<Metrics>,
    interval: Duration,
    phase: WriterPhase,
    /// Records of this round that are not appended yet, in their order.
    appends: VecDeque<Append>,
    /// Those that are appended, and nobody was told so.
    done: Vec<LoggedRecord>,
    sync: bool,
    /// What others build on by name was written, and the log does not state that it is durable.
    must_state: bool,
    collapse: Option<Position>,
    stopping: bool,
    /// When the oldest record that is written but not synced was written, in nanoseconds.
    unsynced_since: Option<u64>,
    /// When the log was written last, if it does not say yet that all of it is durable.
    unsettled_since: Option<u64>,
}

impl LogWriter {
    /// `interval`: a record that need not be synced is synced after so long.
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

    /// Does what comes next.
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

    /// What of this round is left comes next.
    fn go_on(&mut self) {
        self.phase = match () {
            () if !self.appends.is_empty() => WriterPhase::Write,
            () if self.collapse.is_some() => WriterPhase::Collapse,
            () if self.stopping => WriterPhase::End,
            () => WriterPhase::Take,
        };
        let rests = matches!(self.phase, WriterPhase::Take | WriterPhase::End);
        self.log_writer.works_since(if rests { 0 } else { world::nanoseconds() });
    }

    /// Begins a round with all that waits.
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

    /// Nothing was given. A log that is idle says that all of it is durable, so that damage at its
    /// end can be told from a tail that a crash tore.
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
            // It says so the next time.
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

    /// Appends what fits into one write, and commits it. A disk that is full is found so before
    /// anything is forgotten: the step goes on where it stopped.
    fn write(&mut self) -> Result<(), StoreError> {
        let begun = self.log.end().0;
        while let Some(job) = self.appends.front() {
            let start = self.log.end();
            self.log.append(&record(job))?;
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
            self.unsynced_since.get_or_insert(before);
        }
        Ok(())
    }

    /// The disk is full: nothing was acknowledged, and nothing is forgotten. A node that stops does
    /// not wait for room: what it could not write was promised to nobody.
    fn wait_for_room(&mut self) -> Result<WriterStep, StoreError> {
        if !self.log_writer.no_space.swap(true, Ordering::AcqRel) {
            tracing::warn!(target: "log", "no space for the log: writes wait for some");
        }
        match self.log_writer.is_stopping() {
            true => Err(StoreError::Full),
            false => Ok(WriterStep::Full),
        }
    }

    /// Ends the log in good order.
    pub(super) fn close(self) -> Result<(), StoreError> {
        self.log.close()
    }
}

/// What a simulation sees and does beside the steps.
impl LogWriter {
    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The log, to change it.
    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Returns true if no round is under way.
    pub fn rests(&self) -> bool {
        self.phase == WriterPhase::Take
    }

    /// Returns true if the next step asks something of the disk.
    pub fn asks_disk(&self) -> bool {
        matches!(self.phase, WriterPhase::Write | WriterPhase::State | WriterPhase::Collapse)
    }

    /// Records of the round that are not appended.
    pub fn unwritten(&self) -> &VecDeque<Append> {
        &self.appends
    }

    /// The same, which will never be.
    pub fn take_unwritten(&mut self) -> VecDeque<Append> {
        std::mem::take(&mut self.appends)
    }
}
