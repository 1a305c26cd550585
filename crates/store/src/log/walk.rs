//! Walk through a segment, unit by unit, and search for the next valid frame behind a bad one.

use super::frame::{
    self, ALIGN_BYTES, BLOCK_BYTES, COMMIT, Claim, FOOTER, FRAME_BYTES_MIN, FRAME_HEADER_BYTES,
    Frame, FrameShape, OPENING,
};
use super::record::{OwnedRecord, Owners, RECORD_BODY_BYTES_MAX, RecordKind};
use super::segment::{HEADER_BYTES, Segment, read_at};
use crate::StoreError;
use base::codec::{Malformed, Reader};
use bytes::Bytes;

/// Content of the stream: one or more frames that belong together.
#[derive(Debug)]
pub(super) enum Unit {
    Record(OwnedRecord),
    Commit { durable_end: u64, closed: bool },
    Opening { durable_end: u64, torn_bytes: u64 },
    Footer(Owners),
}

/// Position at which reading in order ends, as offsets in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadUnit {
    /// Offset of the unit, in bytes.
    pub start: u64,
    /// Offset of the unit's bad piece, in bytes.
    pub offset: u64,
    pub reason: &'static str,
}

#[derive(Debug)]
pub(super) enum WalkStep {
    /// A unit, and the offset of its end in the file.
    Unit(u64, Unit),
    Bad(BadUnit),
}

/// A valid frame that was found by searching.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundFrame {
    pub offset: u64,
    pub end: u64,
    pub generation: u32,
    pub shape: FrameShape,
    pub kind: u8,
    /// Stream position up to which the frame states that all is durable; 0 if its kind states none.
    pub durable_end: u64,
}

/// Walk through the units of a segment.
pub(super) struct FrameWalk {
    pub segment: Segment,
    /// The current generation.
    pub generation: u32,
    /// Offset of the next unit to read, in bytes.
    pub offset: u64,
    /// Bytes that were read ahead, from offset `chunk_at` of the file.
    chunk: Vec<u8>,
    chunk_at: u64,
}

const CHUNK_BYTES: u64 = 8 * BLOCK_BYTES;

impl FrameWalk {
    /// Walks from the segment's first frame.
    pub fn new(segment: Segment) -> FrameWalk {
        let generation = segment.header.generation;
        FrameWalk { segment, generation, offset: HEADER_BYTES, chunk: Vec::new(), chunk_at: 0 }
    }

    /// Walks from the unit that begins at `offset`, or from the segment's first frame if no unit
    /// begins there.
    pub fn at(segment: Segment, offset: u64) -> Result<FrameWalk, StoreError> {
        let mut walk = FrameWalk::new(segment);
        if let Some(generation) = walk.generation_at(offset)? {
            (walk.offset, walk.generation) = (offset, generation);
        }
        Ok(walk)
    }

    /// Returns the current generation before the unit that begins at `offset`. `None`: no unit
    /// begins there.
    fn generation_at(&mut self, offset: u64) -> Result<Option<u32>, StoreError> {
        let left = BLOCK_BYTES - offset % BLOCK_BYTES;
        let at = if left < FRAME_BYTES_MIN { offset + left } else { offset };
        if at >= self.segment.header.length || !at.is_multiple_of(ALIGN_BYTES) {
            return Ok(None);
        }
        let salt = frame::salt(self.segment.header.log_id, self.position(at));
        let first = self.generation;
        let rest = self.block_rest(at)?;
        let frame = Claim::read(rest).and_then(|claim| claim.verify(rest, salt));
        let frame = frame.filter(|frame| frame.shape.begins() && frame.generation >= first);
        Ok(frame.map(|frame| frame.generation - u32::from(frame.kind == OPENING)))
    }

    /// Discards bytes that were read ahead: they may have been overwritten since.
    pub fn discard_chunk(&mut self) {
        self.chunk.clear();
    }

    /// Returns the stream position of an offset.
    pub fn position(&self, offset: u64) -> u64 {
        self.segment.header.base + offset
    }

    /// Reads the unit at `offset` and advances behind it. Does not advance at a bad one.
    pub fn next(&mut self) -> Result<WalkStep, StoreError> {
        let start = self.offset;
        let bad = |offset, reason| Ok(WalkStep::Bad(BadUnit { start, offset, reason }));
        let found = match self.assemble(start)? {
            Ok(found) => found,
            Err((offset, reason)) => return bad(offset, reason),
        };
        let AssembledUnit { end, generation, kind, body } = found;
        match decode(kind, body) {
            Ok(unit) => {
                (self.offset, self.generation) = (end, generation);
                Ok(WalkStep::Unit(end, unit))
            }
            Err(Malformed(reason)) => bad(start, reason),
        }
    }

    /// Assembles the pieces of the unit at `start`.
    fn assemble(&mut self, start: u64) -> Result<Result<AssembledUnit, WalkFault>, StoreError> {
        let length = self.segment.header.length;
        let current = self.generation;
        let mut at = start;
        let left = BLOCK_BYTES - at % BLOCK_BYTES;
        if left < FRAME_BYTES_MIN {
            if self.block_rest(at)?.iter().any(|byte| *byte != 0) {
                return Ok(Err((at, "the rest of a block is not zero")));
            }
            at += left;
        }
        let mut started: Option<(u32, u8)> = None;
        let mut body = Vec::new();
        loop {
            if at >= length {
                return Ok(Err((at.min(length), "the segment ends in the middle")));
            }
            let log = self.segment.header.log_id;
            let salt = frame::salt(log, self.position(at));
            let rest = self.block_rest(at)?;
            let Some(claim) = Claim::read(rest) else {
                return Ok(Err((at, "there is no frame")));
            };
            let Some(frame) = claim.verify(rest, salt) else {
                return Ok(Err((at, "a frame does not match its checksum")));
            };
            if let Err(reason) = check_frame(&frame, started, current) {
                return Ok(Err((at, reason)));
            }
            if body.len() + frame.body.len() > RECORD_BODY_BYTES_MAX {
                return Ok(Err((at, "a record is larger than any may be")));
            }
            body.extend_from_slice(frame.body);
            let (generation, kind, shape) = (frame.generation, frame.kind, frame.shape);
            at += frame.bytes;
            if matches!(shape, FrameShape::Whole | FrameShape::Last) {
                return Ok(Ok(AssembledUnit { end: at, generation, kind, body: body.into() }));
            }
            if !at.is_multiple_of(BLOCK_BYTES) {
                return Ok(Err((at, "a piece ends before its block")));
            }
            started = Some((generation, kind));
        }
    }

    /// Finds the next valid frame at or behind `from` whose generation is not older than the
    /// current one.
    pub fn find_frame(&mut self, from: u64) -> Result<Option<FoundFrame>, StoreError> {
        let header = self.segment.header;
        let generation = self.generation;
        let mut at = from.next_multiple_of(ALIGN_BYTES);
        while at < header.length {
            let base = self.position(at);
            let rest = self.block_rest(at)?;
            let mut skip = 0;
            while skip + FRAME_HEADER_BYTES < rest.len() {
                let candidate = &rest[skip..];
                // A frame of an older generation was voided by an earlier cut.
                let claim = Claim::read(candidate).filter(|claim| claim.generation >= generation);
                let salt = frame::salt(header.log_id, base + skip as u64);
                if let Some(frame) = claim.and_then(|claim| claim.verify(candidate, salt)) {
                    return Ok(Some(FoundFrame::new(at + skip as u64, &frame)));
                }
                skip += ALIGN_BYTES as usize;
            }
            at += rest.len() as u64;
        }
        Ok(None)
    }

    /// Returns the length that the header at `offset` claims for its frame; 0 if it has no header
    /// of the current generation.
    pub fn claimed_bytes(&mut self, offset: u64) -> Result<u64, StoreError> {
        if offset >= self.segment.header.length {
            return Ok(0);
        }
        let generation = self.generation;
        let claim = Claim::read(self.block_rest(offset)?);
        Ok(claim.filter(|claim| claim.generation == generation).map_or(0, |claim| claim.bytes))
    }

    /// Returns the bytes from `offset` to the end of the block, or of the file.
    fn block_rest(&mut self, offset: u64) -> Result<&[u8], StoreError> {
        let end = self.chunk_at + self.chunk.len() as u64;
        if offset < self.chunk_at || offset >= end {
            let at = offset - offset % BLOCK_BYTES;
            let length = self.segment.header.length;
            let bytes = CHUNK_BYTES.min(length - at) as usize;
            self.chunk.resize(bytes, 0);
            self.chunk_at = at;
            let name = self.segment.header.name();
            let count = read_at(&*self.segment.file, &name, &mut self.chunk, at)?;
            if count < bytes {
                self.chunk.clear();
                return Err(StoreError::Corrupt {
                    file: name,
                    offset: at + count as u64,
                    description: "the file became shorter while it was read".into(),
                });
            }
        }
        let block_end = offset - offset % BLOCK_BYTES + BLOCK_BYTES;
        let from = (offset - self.chunk_at) as usize;
        let end_index = ((block_end - self.chunk_at) as usize).min(self.chunk.len());
        Ok(&self.chunk[from..end_index])
    }
}

/// A unit put together from its pieces.
struct AssembledUnit {
    end: u64,
    generation: u32,
    kind: u8,
    body: Bytes,
}

/// Offset in the file of a bad piece, and a description.
type WalkFault = (u64, &'static str);

/// Checks that a valid frame may follow. `started` is the generation and kind of the unit's earlier
/// pieces; `current` is the log's generation.
fn check_frame(
    frame: &Frame,
    started: Option<(u32, u8)>,
    current: u32,
) -> Result<(), &'static str> {
    if let Some(started) = started {
        let follows = started == (frame.generation, frame.kind) && !frame.shape.begins();
        return if follows { Ok(()) } else { Err("a piece is missing") };
    }
    if !frame.shape.begins() {
        return Err("the first piece is missing");
    }
    let raised = current.checked_add(1) == Some(frame.generation);
    let is_allowed = match frame.kind {
        OPENING => raised,
        // A run without space for an opening seals the segment under its own generation.
        FOOTER => raised || frame.generation == current,
        _ => frame.generation == current,
    };
    if is_allowed { Ok(()) } else { Err("a frame of another generation of the log") }
}

fn decode(kind: u8, body: Bytes) -> Result<Unit, Malformed> {
    if let Some(kind) = RecordKind::from_byte(kind) {
        return OwnedRecord::decode(kind, body).map(Unit::Record);
    }
    if kind == FOOTER {
        return Owners::decode(&body).map(Unit::Footer);
    }
    let mut reader = Reader::new(&body);
    let durable_end = reader.u64("durable position")?;
    let value = reader.u64("second word")?;
    reader.end("end of a statement")?;
    match (kind, value) {
        (COMMIT, 0 | 1) => Ok(Unit::Commit { durable_end, closed: value == 1 }),
        (OPENING, torn_bytes) => Ok(Unit::Opening { durable_end, torn_bytes }),
        _ => Err(Malformed("a commit frame's second word")),
    }
}

impl FoundFrame {
    fn new(offset: u64, frame: &Frame) -> FoundFrame {
        let states_durable = matches!(frame.kind, COMMIT | OPENING);
        let durable = frame.body.first_chunk::<8>().filter(|_| states_durable);
        FoundFrame {
            offset,
            end: offset + frame.bytes,
            generation: frame.generation,
            shape: frame.shape,
            kind: frame.kind,
            durable_end: durable.map_or(0, |durable| u64::from_le_bytes(*durable)),
        }
    }
}
