//! Log reader: reads committed records back while the log is written and collapsed.
//!
//! A reader opens files of its own and shares only a short list with the writer: the segments, and
//! the committed position. A segment leaves that list before its file may be used again, so what
//! was read while it was listed is what was written. A reader checks the list after every read,
//! before it trusts a byte.
//!
//! Promises: the records as they were appended, each once, in order; damage is named with file and
//! offset; a collapse is reported as such, and never read as garbage.
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

/// Reasons for which a reader can't go on.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The log was collapsed past the reader's position. The records can be had from a snapshot
    /// only.
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
pub(super) struct KnownLog {
    state: Mutex<State>,
}

struct State {
    segments: VecDeque<KnownSegment>,
    committed: u64,
}

struct KnownSegment {
    header: Header,
    /// End of its footer, if this process sealed it; no frame follows. `None`: the segment is open,
    /// or was sealed before.
    sealed: Option<u64>,
}

impl KnownLog {
    pub fn new(headers: impl Iterator<Item = Header>, committed: u64) -> KnownLog {
        let segments = headers.map(|header| KnownSegment { header, sealed: None }).collect();
        KnownLog { state: Mutex::new(State { segments, committed }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }

    /// All below this position is in the files.
    pub fn commit(&self, upto: u64) {
        self.state().committed = upto;
    }

    /// The newest segment ends with a footer that ends here.
    pub fn seal(&self, end: u64) {
        if let Some(newest) = self.state().segments.back_mut() {
            newest.sealed = Some(end);
        }
    }

    /// Adds a segment.
    pub fn add(&self, header: Header) {
        self.state().segments.push_back(KnownSegment { header, sealed: None });
    }

    /// The oldest segment goes; called before its file may be written to.
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
        let ends = |place: &&KnownSegment| place.sealed.unwrap_or(place.header.end());
        let place = self.segments.iter().find(|place| at < ends(place));
        Ok(place.map(|place| place.header))
    }

    fn holds(&self, sequence: u64) -> Result<(), ReadError> {
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
    /// Empty once the log is dropped. A log opened later has no connection with this reader.
    known: Weak<KnownLog>,
}

impl LogReader {
    pub(super) fn new(disk: Arc<dyn Disk>, known: &Arc<KnownLog>) -> LogReader {
        LogReader { disk, known: Arc::downgrade(known) }
    }

    /// Reads the records that begin at or behind a position, as [`Log::append`], [`Log::end`] and
    /// [`super::Replay`] return it. The iterator ends at the last committed record (with or without
    /// a sync), and continues when more are committed.
    pub fn read_from(&self, from: Position) -> LogRecords {
        let reader = self.clone();
        LogRecords {
            reader,
            from: from.0,
            at: from.0,
            limit: 0,
            walk: None,
            before: None,
            failed: false,
        }
    }

    fn look<T>(&self, at: impl FnOnce(&State) -> Result<T, ReadError>) -> Result<T, ReadError> {
        let known = self.known.upgrade().ok_or(StoreError::Closed)?;
        let state = known.state();
        at(&state)
    }
}

impl Log {
    /// For threads that read back what this one writes.
    pub fn reader(&self) -> LogReader {
        LogReader::new(self.disk.clone(), &self.known)
    }
}

/// Records with the positions behind them; after an error it ends.
pub struct LogRecords {
    reader: LogReader,
    /// Records that begin before are passed by.
    from: u64,
    /// Stream position of the next read.
    at: u64,
    /// Stream position up to which to read before `committed` is checked again.
    limit: u64,
    walk: Option<FrameWalk>,
    /// The last generation of the segment that was just left.
    before: Option<u32>,
    failed: bool,
}

impl LogRecords {
    fn step(&mut self) -> Result<Option<(Position, OwnedRecord)>, ReadError> {
        loop {
            if self.at >= self.limit && !self.more()? {
                return Ok(None);
            }
            let Some(walk) = &mut self.walk else {
                if self.enter()? {
                    continue;
                }
                return Ok(None);
            };
            let (begin, sequence) = (walk.position(walk.offset), walk.segment.header.sequence);
            let step = walk.next();
            // After the read, and before its result counts: a recycled file looks like a damaged
            // one.
            self.reader.look(|state| state.holds(sequence))?;
            let (end, unit) = match step? {
                WalkStep::Unit(end, unit) => (walk.position(end), unit),
                WalkStep::Bad(bad) => return Err(corrupt(&walk.segment, bad).into()),
            };
            self.at = self.at.max(end);
            match unit {
                Unit::Record(record) if begin >= self.from => {
                    return Ok(Some((Position(end), record)));
                }
                Unit::Footer(_) => {
                    self.at = self.at.max(walk.segment.header.end());
                    self.before = Some(walk.generation);
                    self.walk = None;
                }
                _ => {}
            }
        }
    }

    /// Returns true if more was committed. Discards what was read ahead, which may have been
    /// rewritten since.
    fn more(&mut self) -> Result<bool, ReadError> {
        self.limit = self.reader.look(|state| Ok(state.committed))?;
        if let Some(walk) = &mut self.walk {
            walk.forget();
        }
        Ok(self.at < self.limit)
    }

    /// Opens the segment of the next record.
    fn enter(&mut self) -> Result<bool, ReadError> {
        let found = self.reader.look(|state| state.find(self.at))?;
        let Some(header) = found else { return Ok(false) };
        let opened = self.open(header);
        self.reader.look(|state| state.holds(header.sequence))?;
        let walk = self.walk.insert(opened.map_err(refused)?);
        // What was committed may end before the first frame.
        self.at = self.at.max(walk.position(walk.offset));
        Ok(true)
    }

    fn open(&self, header: Header) -> Result<FrameWalk, StoreError> {
        let segment = Segment::open(&*self.reader.disk, header.sequence, Access::Read)?;
        let differs = |offset, what: &str| StoreError::Corrupt {
            file: header.name(),
            offset,
            what: what.into(),
        };
        if segment.header != header {
            return Err(differs(0, "its header page was changed since it was written"));
        }
        if self.before.is_some_and(|before| header.generation.checked_sub(1) != Some(before)) {
            return Err(differs(12, "its generation does not follow that of the segment before"));
        }
        match self.at.saturating_sub(header.base) {
            ..=HEADER_BYTES => Ok(FrameWalk::new(segment)),
            offset => FrameWalk::at(segment, offset),
        }
    }
}

/// Converts an error of opening a segment. A lack of descriptors becomes `NoDescriptors`.
fn refused(error: StoreError) -> ReadError {
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
