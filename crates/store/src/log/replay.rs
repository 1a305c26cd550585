//! Replay: streams every record from the oldest segment to the end, in order, with bounded memory.

use super::Position;
use super::damage::{corrupt, resume};
use super::record::OwnedRecord;
use super::segment::Segment;
use super::walk::{FrameWalk, Unit, WalkStep};
use crate::StoreError;
use std::collections::VecDeque;

/// Outcome of opening a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoverySummary {
    /// Bytes of a torn tail that were cut, as far as they differ from zeros.
    pub torn_bytes: u64,
    /// Records streamed.
    pub records: u64,
    /// True if the log was not closed in order the last time.
    pub unclean_shutdown: bool,
}

/// Records of a log as it was opened. Reads the segments' files; no segment may be collapsed before
/// the iterator has ended.
pub struct Replay {
    segments: VecDeque<Segment>,
    walk: Option<FrameWalk>,
    /// Offset in the last segment at which the log ends, in bytes.
    end: u64,
    found: RecoverySummary,
    failed: bool,
    past_damage: bool,
    holes: Vec<Hole>,
    torn_tails: Vec<Position>,
}

/// A part of the log that can't be read, and was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// The segment's file.
    pub file: String,
    /// Offset of the hole in the file, in bytes.
    pub offset: u64,
    /// Stream position at which the next record can begin.
    pub end: Position,
}

impl Replay {
    pub(super) fn new(
        segments: VecDeque<Segment>,
        end: u64,
        found: RecoverySummary,
        past_damage: bool,
    ) -> Replay {
        let (walk, holes, torn_tails) = (None, Vec::new(), Vec::new());
        Replay { segments, walk, end, found, failed: false, past_damage, holes, torn_tails }
    }

    /// Returns the holes passed so far. Each stands before the record that was returned last.
    pub fn holes(&self) -> &[Hole] {
        &self.holes
    }

    /// Returns the positions at which earlier runs cut a torn tail, as far as the log was read.
    /// Each stands before the record that was returned last. A tail cut by this opening is at the
    /// log's end.
    pub fn torn_tails(&self) -> &[Position] {
        &self.torn_tails
    }

    /// Reads the remaining records and returns the outcome. `Closed` if damage was reported
    /// earlier.
    pub fn finish(mut self) -> Result<RecoverySummary, StoreError> {
        for record in self.by_ref() {
            record?;
        }
        if self.failed { Err(StoreError::Closed) } else { Ok(self.found) }
    }

    fn step(&mut self) -> Result<Option<(Position, OwnedRecord)>, StoreError> {
        loop {
            let walk = match &mut self.walk {
                Some(walk) => walk,
                None => match self.segments.pop_front() {
                    Some(segment) => self.walk.insert(FrameWalk::new(segment)),
                    None => return Ok(None),
                },
            };
            if self.segments.is_empty() && walk.offset >= self.end {
                self.walk = None;
                return Ok(None);
            }
            let (start, before) = (walk.offset, walk.generation);
            match walk.next()? {
                WalkStep::Unit(end, Unit::Record(record)) => {
                    self.found.records += 1;
                    return Ok(Some((Position(walk.position(end)), record)));
                }
                WalkStep::Unit(_, Unit::Footer(_)) => {
                    let generation = walk.generation;
                    // This run had no space to record whether it cut a torn tail.
                    if generation > before {
                        self.torn_tails.push(Position(walk.position(start)));
                    }
                    self.walk = None;
                    self.check_generation(generation)?;
                }
                WalkStep::Unit(_, Unit::Opening { durable_end, torn_bytes: 1.. }) => {
                    self.torn_tails.push(Position(durable_end));
                }
                WalkStep::Unit(..) => {}
                WalkStep::Bad(bad) if self.past_damage => {
                    let file = walk.segment.header.name();
                    let resumed = resume(walk, bad)?;
                    let last = self.segments.is_empty();
                    if last && (!resumed || walk.offset > self.end) {
                        return Err(corrupt(&walk.segment, bad));
                    }
                    let resume_offset =
                        if resumed { walk.offset } else { walk.segment.header.length };
                    let end = Position(walk.position(resume_offset));
                    self.holes.push(Hole { file, offset: bad.offset, end });
                    if !resumed {
                        self.walk = None; // No footer: the next generation is unchecked.
                    }
                }
                WalkStep::Bad(bad) => return Err(corrupt(&walk.segment, bad)),
            }
        }
    }

    /// Checks that the next segment's generation follows this segment's last.
    fn check_generation(&self, generation: u32) -> Result<(), StoreError> {
        let Some(next) = self.segments.front() else { return Ok(()) };
        if next.header.generation.checked_sub(1) == Some(generation) {
            return Ok(());
        }
        let description = "its generation does not follow that of the segment before".into();
        Err(StoreError::Corrupt { file: next.header.name(), offset: 12, description })
    }
}

impl Iterator for Replay {
    type Item = Result<(Position, OwnedRecord), StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step().transpose();
        self.failed = matches!(step, Some(Err(_)));
        step
    }
}
