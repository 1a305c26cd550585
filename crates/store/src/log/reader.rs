//! Log reader: reads committed records back while the log is written and collapsed.
//!
//! A reader opens files of its own and shares only a short list with the writer: the segments, and
//! the committed position. A segment leaves that list before its file may be recycled, so bytes
//! read while it was listed are the bytes written. A reader checks the list after every read,
//! before it trusts a byte.
//!
//! Promises: the records as they were appended, each once, in order; damage is named with file and
//! offset; a collapse is reported as such, and never as damage.
//! Never: holds the list's lock while it reads; holds more than one record and one chunk.

use super::damage::corrupt;
use super::record::OwnedRecord;
use super::segment::{HEADER_BYTES, Header, Segment};
use super::walk::{FrameWalk, Unit, WalkStep};
use super::{Log, Position};
use crate::StoreError;
use crate::disk::{Access, Disk};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Reasons for which a reader can't continue.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The log was collapsed past the reader's position. The records are available only through a
    /// snapshot.
    #[error("the log begins at {} now: what was before is collapsed", start.0)]
    Collapsed {
        /// Position at which the log begins now.
        start: Position,
    },
    /// No file descriptor is left to open a segment with. The log is sound; the read can be
    /// retried.
    #[error("no file descriptor is left to read the log with")]
    NoDescriptors,
    /// The record is damaged, the system refused, or the log is closed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// State of an open log, shared with its readers.
pub(super) struct SharedLog {
    state: Mutex<State>,
}

struct State {
    segments: VecDeque<SegmentEntry>,
    /// Stream position below which all bytes are in the files.
    committed: u64,
}

struct SegmentEntry {
    header: Header,
    /// Stream position of the footer's end, if this process sealed the segment. `None`: the segment
    /// is open, or was sealed before.
    sealed: Option<u64>,
}

impl SharedLog {
    pub fn new(headers: impl Iterator<Item = Header>, committed: u64) -> SharedLog {
        let segments = headers.map(|header| SegmentEntry { header, sealed: None }).collect();
        SharedLog { state: Mutex::new(State { segments, committed }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// Notes that all bytes below this position are in the files.
    pub fn set_committed(&self, end: u64) {
        self.state().committed = end;
    }

    /// Notes that the newest segment is sealed by a footer that ends here.
    pub fn seal(&self, end: u64) {
        if let Some(newest) = self.state().segments.back_mut() {
            newest.sealed = Some(end);
        }
    }

    /// Adds a segment.
    pub fn add(&self, header: Header) {
        self.state().segments.push_back(SegmentEntry { header, sealed: None });
    }

    /// Removes the oldest segment from the list, before its file may be overwritten.
    pub fn collapse(&self) {
        self.state().segments.pop_front();
    }
}

impl State {
    fn start(&self) -> Position {
        Position(self.segments.front().map_or(self.committed, |oldest| oldest.header.base))
    }

    /// Finds the segment that holds a position.
    fn find(&self, at: u64) -> Result<Option<Header>, ReadError> {
        if at < self.start().0 {
            return Err(ReadError::Collapsed { start: self.start() });
        }
        let ends = |segment: &&SegmentEntry| segment.sealed.unwrap_or(segment.header.end());
        let segment = self.segments.iter().find(|segment| at < ends(segment));
        Ok(segment.map(|segment| segment.header))
    }

    fn check_listed(&self, sequence: u64) -> Result<(), ReadError> {
        match self.segments.front() {
            Some(oldest) if oldest.header.sequence <= sequence => Ok(()),
            _ => Err(ReadError::Collapsed { start: self.start() }),
        }
    }
}

/// Reads a log that another thread writes. Cheap to clone.
#[derive(Clone)]
pub struct LogReader {
    disk: Arc<dyn Disk>,
    /// Dangling once the log is dropped. A log opened later has no connection with this reader.
    shared: Weak<SharedLog>,
}

impl LogReader {
    pub(super) fn new(disk: Arc<dyn Disk>, shared: &Arc<SharedLog>) -> LogReader {
        LogReader { disk, shared: Arc::downgrade(shared) }
    }

    /// Reads the records that begin at or behind a position, as [`Log::append`], [`Log::end`] and
    /// [`super::Replay`] return it. The iterator ends at the last committed record (with or without
    /// a sync), and continues when more are committed.
    pub fn read_from(&self, from: Position) -> LogRecords {
        let reader = self.clone();
        LogRecords {
            reader,
            from: from.0,
            position: from.0,
            limit: 0,
            walk: None,
            previous_generation: None,
            failed: false,
        }
    }

    fn read_state<T>(
        &self,
        read: impl FnOnce(&State) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let shared = self.shared.upgrade().ok_or(StoreError::Closed)?;
        let state = shared.state();
        read(&state)
    }
}

impl Log {
    /// Returns a reader for other threads.
    pub fn reader(&self) -> LogReader {
        LogReader::new(self.disk.clone(), &self.shared)
    }
}

/// Iterator over records with the positions behind them; ends after an error.
pub struct LogRecords {
    reader: LogReader,
    /// Records that begin before this position are skipped.
    from: u64,
    /// Stream position of the next read.
    position: u64,
    /// Stream position up to which to read before `committed` is checked again.
    limit: u64,
    walk: Option<FrameWalk>,
    /// Last generation of the segment before the next one.
    previous_generation: Option<u32>,
    failed: bool,
}

impl LogRecords {
    fn step(&mut self) -> Result<Option<(Position, OwnedRecord)>, ReadError> {
        loop {
            if self.position >= self.limit && !self.advance_limit()? {
                return Ok(None);
            }
            let Some(walk) = &mut self.walk else {
                if self.open_segment()? {
                    continue;
                }
                return Ok(None);
            };
            let (begin, sequence) = (walk.position(walk.offset), walk.segment.header.sequence);
            let step = walk.next();
            // After the read, and before its result is used: a recycled file looks like a damaged
            // one.
            self.reader.read_state(|state| state.check_listed(sequence))?;
            let (end, unit) = match step? {
                WalkStep::Unit(end, unit) => (walk.position(end), unit),
                WalkStep::Bad(bad) => return Err(corrupt(&walk.segment, bad).into()),
            };
            self.position = self.position.max(end);
            match unit {
                Unit::Record(record) if begin >= self.from => {
                    return Ok(Some((Position(end), record)));
                }
                Unit::Footer(_) => {
                    self.position = self.position.max(walk.segment.header.end());
                    self.previous_generation = Some(walk.generation);
                    self.walk = None;
                }
                _ => {}
            }
        }
    }

    /// Advances the limit to the committed position. Returns true if more was committed. Discards
    /// bytes that were read ahead, which may have been rewritten since.
    fn advance_limit(&mut self) -> Result<bool, ReadError> {
        self.limit = self.reader.read_state(|state| Ok(state.committed))?;
        if let Some(walk) = &mut self.walk {
            walk.discard_chunk();
        }
        Ok(self.position < self.limit)
    }

    /// Opens the segment of the next record. Returns false if there is none yet.
    fn open_segment(&mut self) -> Result<bool, ReadError> {
        let found = self.reader.read_state(|state| state.find(self.position))?;
        let Some(header) = found else { return Ok(false) };
        let opened = self.open_walk(header);
        self.reader.read_state(|state| state.check_listed(header.sequence))?;
        let walk = self.walk.insert(opened.map_err(open_error)?);
        // The committed part may end before the first frame.
        self.position = self.position.max(walk.position(walk.offset));
        Ok(true)
    }

    fn open_walk(&self, header: Header) -> Result<FrameWalk, StoreError> {
        let segment = Segment::open(&*self.reader.disk, header.sequence, Access::Read)?;
        let mismatch = |offset, description: &str| StoreError::Corrupt {
            file: header.name(),
            offset,
            description: description.into(),
        };
        if segment.header != header {
            return Err(mismatch(0, "its header page was changed since it was written"));
        }
        if self
            .previous_generation
            .is_some_and(|previous| header.generation.checked_sub(1) != Some(previous))
        {
            return Err(mismatch(12, "its generation does not follow that of the segment before"));
        }
        match self.position.saturating_sub(header.base) {
            ..=HEADER_BYTES => Ok(FrameWalk::new(segment)),
            offset => FrameWalk::at(segment, offset),
        }
    }
}

/// Converts an error of opening a segment. A lack of descriptors becomes `NoDescriptors`.
fn open_error(error: StoreError) -> ReadError {
    match error {
        StoreError::Io { source, .. } if source.kind() == ErrorKind::WouldBlock => {
            ReadError::NoDescriptors
        }
        other => other.into(),
    }
}

impl Iterator for LogRecords {
    type Item = Result<(Position, OwnedRecord), ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step().transpose();
        self.failed = matches!(step, Some(Err(_)));
        step
    }
}
