//! Reads a segment unit by unit, and finds the next good frame behind a bad one.

use super::frame::{
    self, ALIGN_BYTES, BLOCK_BYTES, COMMIT, Claim, FOOTER, FRAME_HEADER_BYTES, Frame, FrameShape,
    OPENING, ROOM_BYTES_MIN,
};
use super::record::{OwnedRecord, Owners, RECORD_BODY_BYTES_MAX, RecordKind};
use super::segment::{HEADER_BYTES, Segment, read_at};
use crate::StoreError;
use base::codec::{Malformed, Reader};
use bytes::Bytes;

/// One whole thing in the stream.
#[derive(Debug)]
pub(super) enum Unit {
    Record(OwnedRecord),
    Commit { durable_upto: u64, closed: bool },
    Opening { durable_upto: u64, torn_bytes: u64 },
    Footer(Owners),
}

/// Place at which reading in order ends, as offsets in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bad {
    /// Offset of the unit's beginning, in bytes.
    pub start: u64,
    /// Offset of the unit's bad piece, in bytes.
    pub offset: u64,
    pub why: &'static str,
}

#[derive(Debug)]
pub(super) enum WalkStep {
    /// A unit, and its end in the file.
    Unit(u64, Unit),
    Bad(Bad),
}

/// A valid frame that was found by searching.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundFrame {
    pub offset: u64,
    pub end: u64,
    pub generation: u32,
    pub shape: FrameShape,
    pub kind: u8,
    /// Stream position that the frame states to be durable, if it is of a kind that states one.
    pub stated: u64,
}

pub(super) struct FrameWalk {
    pub segment: Segment,
    /// The present generation.
    pub generation: u32,
    /// Offset of the next unit to read, in bytes.
    pub offset: u64,
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

    /// The present generation before the unit that begins at `offset`, if one does.
    fn generation_at(&mut self, offset: u64) -> Result<Option<u32>, StoreError> {
        let left = BLOCK_BYTES - offset % BLOCK_BYTES;
        let at = if left < ROOM_BYTES_MIN { offset + left } else { offset };
        if at >= self.segment.header.length || !at.is_multiple_of(ALIGN_BYTES) {
            return Ok(None);
        }
        let salt = frame::salt(self.segment.header.log, self.position(at));
        let first = self.generation;
        let rest = self.rest(at)?;
        let frame = Claim::read(rest).and_then(|claim| claim.verify(rest, salt));
        let frame = frame.filter(|frame| frame.shape.begins() && frame.generation >= first);
        Ok(frame.map(|frame| frame.generation - u32::from(frame.kind == OPENING)))
    }

    /// Discards what was read ahead: it may have been written since.
    pub fn forget(&mut self) {
        self.chunk.clear();
    }

    /// The stream position of an offset.
    pub fn position(&self, offset: u64) -> u64 {
        self.segment.header.base + offset
    }

    /// Reads the unit at `offset` and moves behind it. Stays in front of a bad one.
    pub fn next(&mut self) -> Result<WalkStep, StoreError> {
        let start = self.offset;
        let bad = |offset, why| Ok(WalkStep::Bad(Bad { start, offset, why }));
        let found = match self.assemble(start)? {
            Ok(found) => found,
            Err((offset, why)) => return bad(offset, why),
        };
        let Assembled { end, generation, kind, body } = found;
        match decode(kind, body) {
            Ok(unit) => {
                (self.offset, self.generation) = (end, generation);
                Ok(WalkStep::Unit(end, unit))
            }
            Err(Malformed(why)) => bad(start, why),
        }
    }

    /// Puts the pieces of the unit at `start` together.
    fn assemble(&mut self, start: u64) -> Result<Result<Assembled, WalkFault>, StoreError> {
        let length = self.segment.header.length;
        let present = self.generation;
        let mut at = start;
        let left = BLOCK_BYTES - at % BLOCK_BYTES;
        if left < ROOM_BYTES_MIN {
            if self.rest(at)?.iter().any(|byte| *byte != 0) {
                return Ok(Err((at, "the rest of a block is not zero")));
            }
            at += left;
        }
        let mut begun: Option<(u32, u8)> = None;
        let mut body = Vec::new();
        loop {
            if at >= length {
                return Ok(Err((at.min(length), "the segment ends in the middle")));
            }
            let log = self.segment.header.log;
            let salt = frame::salt(log, self.position(at));
            let rest = self.rest(at)?;
            let Some(claim) = Claim::read(rest) else {
                return Ok(Err((at, "there is no frame")));
            };
            let Some(frame) = claim.verify(rest, salt) else {
                return Ok(Err((at, "a frame does not match its checksum")));
            };
            if let Err(why) = fits(&frame, begun, present) {
                return Ok(Err((at, why)));
            }
            if body.len() + frame.body.len() > RECORD_BODY_BYTES_MAX {
                return Ok(Err((at, "a record is larger than any may be")));
            }
            body.extend_from_slice(frame.body);
            let (generation, kind, shape) = (frame.generation, frame.kind, frame.shape);
            at += frame.bytes;
            if matches!(shape, FrameShape::Whole | FrameShape::Last) {
                return Ok(Ok(Assembled { end: at, generation, kind, body: body.into() }));
            }
            if !at.is_multiple_of(BLOCK_BYTES) {
                return Ok(Err((at, "a piece ends before its block")));
            }
            begun = Some((generation, kind));
        }
    }

    /// Finds the next valid frame at or behind `from` whose generation is not older than the
    /// present one.
    pub fn find(&mut self, from: u64) -> Result<Option<FoundFrame>, StoreError> {
        let header = self.segment.header;
        let generation = self.generation;
        let mut at = from.next_multiple_of(ALIGN_BYTES);
        while at < header.length {
            let base = self.position(at);
            let rest = self.rest(at)?;
            let mut skip = 0;
            while skip + FRAME_HEADER_BYTES < rest.len() {
                let here = &rest[skip..];
                // A frame of an older generation was voided by an earlier cut.
                let claim = Claim::read(here).filter(|claim| claim.generation >= generation);
                let salt = frame::salt(header.log, base + skip as u64);
                if let Some(frame) = claim.and_then(|claim| claim.verify(here, salt)) {
                    return Ok(Some(FoundFrame::new(at + skip as u64, &frame)));
                }
                skip += ALIGN_BYTES as usize;
            }
            at += rest.len() as u64;
        }
        Ok(None)
    }

    /// The length that the header at `offset` claims for its frame, if it is one of the present
    /// generation.
    pub fn claimed(&mut self, offset: u64) -> Result<u64, StoreError> {
        if offset >= self.segment.header.length {
            return Ok(0);
        }
        let generation = self.generation;
        let claim = Claim::read(self.rest(offset)?);
        Ok(claim.filter(|claim| claim.generation == generation).map_or(0, |claim| claim.bytes))
    }

    /// Returns the bytes from `offset` to the end of the block, or of the file.
    fn rest(&mut self, offset: u64) -> Result<&[u8], StoreError> {
        let end = self.chunk_at + self.chunk.len() as u64;
        if offset < self.chunk_at || offset >= end {
            let at = offset - offset % BLOCK_BYTES;
            let length = self.segment.header.length;
            let bytes = CHUNK_BYTES.min(length - at) as usize;
            self.chunk.resize(bytes, 0);
            self.chunk_at = at;
            let name = self.segment.header.name();
            let given = read_at(&*self.segment.file, &name, &mut self.chunk, at)?;
            if given < bytes {
                self.chunk.clear();
                return Err(StoreError::Corrupt {
                    file: name,
                    offset: at + given as u64,
                    what: "the file became shorter while it was read".into(),
                });
            }
        }
        let block_end = offset - offset % BLOCK_BYTES + BLOCK_BYTES;
        let from = (offset - self.chunk_at) as usize;
        let upto = ((block_end - self.chunk_at) as usize).min(self.chunk.len());
        Ok(&self.chunk[from..upto])
    }
}

struct Assembled {
    end: u64,
    generation: u32,
    kind: u8,
    body: Bytes,
}

type WalkFault = (u64, &'static str);

/// Checks that a valid frame may stand here. `begun` is the generation and kind of the unit's
/// earlier pieces; `present` is the log's generation.
fn fits(frame: &Frame, begun: Option<(u32, u8)>, present: u32) -> Result<(), &'static str> {
    if let Some(begun) = begun {
        let follows = begun == (frame.generation, frame.kind) && !frame.shape.begins();
        return if follows { Ok(()) } else { Err("a piece is missing") };
    }
    if !frame.shape.begins() {
        return Err("the first piece is missing");
    }
    let raised = present.checked_add(1) == Some(frame.generation);
    let fits = match frame.kind {
        OPENING => raised,
        // A run without space for an opening seals the segment under its own generation.
        FOOTER => raised || frame.generation == present,
        _ => frame.generation == present,
    };
    if fits { Ok(()) } else { Err("a frame of another life of the log") }
}

fn decode(kind: u8, body: Bytes) -> Result<Unit, Malformed> {
    if let Some(kind) = RecordKind::of(kind) {
        return OwnedRecord::decode(kind, body).map(Unit::Record);
    }
    if kind == FOOTER {
        return Owners::decode(&body).map(Unit::Footer);
    }
    let mut reader = Reader::new(&body);
    let durable_upto = reader.u64("durable position")?;
    let second = reader.u64("second word")?;
    reader.end("end of a statement")?;
    match (kind, second) {
        (COMMIT, 0 | 1) => Ok(Unit::Commit { durable_upto, closed: second == 1 }),
        (OPENING, torn_bytes) => Ok(Unit::Opening { durable_upto, torn_bytes }),
        _ => Err(Malformed("a commit frame's second word")),
    }
}

impl FoundFrame {
    fn new(offset: u64, frame: &Frame) -> FoundFrame {
        let states = matches!(frame.kind, COMMIT | OPENING);
        let word = frame.body.first_chunk::<8>().filter(|_| states);
        FoundFrame {
            offset,
            end: offset + frame.bytes,
            generation: frame.generation,
            shape: frame.shape,
            kind: frame.kind,
            stated: word.map_or(0, |word| u64::from_le_bytes(*word)),
        }
    }
}
