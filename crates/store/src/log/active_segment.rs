//! The segment that receives appends, and its write buffer.

use super::frame::{
    self, BLOCK_BYTES, COMMIT, FOOTER, FRAME_BYTES_MIN, FRAME_HEADER_BYTES, FrameShape, OPENING,
    unit_bytes_max,
};
use super::record::{Owners, Record};
use super::segment::{HEADER_BYTES, Header, Segment};
use crate::StoreError;
use crate::disk::DiskFile;
use crate::mutants::StoreMutant;
use std::io;
use std::sync::Arc;

/// A buffer that grew beyond this for one large record is freed after it is written.
const BUFFER_BYTES_KEPT: usize = 8 * 1024 * 1024;
/// Space that each record leaves: a commit frame, one when idle, one when closed, and a skipped
/// rest of a block.
const STATEMENTS_BYTES: u64 = 3 * 32 + FRAME_BYTES_MIN;

/// The last segment of the log, which receives appends.
pub(super) struct ActiveSegment {
    pub header: Header,
    pub generation: u32,
    pub owners: Owners,
    file: Arc<dyn DiskFile>,
    /// Offset in the file at which the buffer begins, in bytes.
    buffer_offset: u64,
    /// Frames that are not written yet.
    buffer: Vec<u8>,
}

impl ActiveSegment {
    /// Continues a segment at `offset`.
    pub fn new(segment: Segment, generation: u32, offset: u64, owners: Owners) -> ActiveSegment {
        let Segment { header, file } = segment;
        ActiveSegment {
            header,
            generation,
            owners,
            file,
            buffer_offset: offset,
            buffer: Vec::new(),
        }
    }

    /// Begins a new segment.
    pub fn empty(segment: Segment) -> ActiveSegment {
        let generation = segment.header.generation;
        ActiveSegment::new(segment, generation, HEADER_BYTES, Owners::default())
    }

    /// Returns the file as a complete segment.
    pub fn into_segment(self) -> Segment {
        Segment { header: self.header, file: self.file }
    }

    /// Returns the offset of the next frame in the file.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.buffer_offset + self.buffer.len() as u64
    }

    /// Returns the stream position of the next frame.
    #[inline]
    pub fn position(&self) -> u64 {
        self.header.base + self.offset()
    }

    /// Returns the number of bytes that wait to be written.
    pub fn buffered_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the number of bytes left for frames.
    pub fn free_bytes(&self) -> u64 {
        self.header.length - self.offset()
    }

    /// Returns true if the segment's version permits the record and it fits, with space left for
    /// the commit frames and the footer behind it.
    #[inline]
    pub fn fits(&self, record: &Record) -> bool {
        let new_owners = usize::from(!self.owners.0.contains_key(&record.owner));
        record.kind.version() <= self.header.version
            && bytes_needed(record, self.owners.footer_bytes(new_owners)) <= self.free_bytes()
    }

    /// Returns true if an opening fits, with the commit frames and the footer behind it.
    pub fn fits_opening(&self) -> bool {
        let footer = unit_bytes_max(self.owners.footer_bytes(0));
        unit_bytes_max(16) + STATEMENTS_BYTES + footer <= self.free_bytes()
    }

    #[inline]
    pub fn put_record(&mut self, record: &Record) {
        self.put(record.kind as u8, &record.header(), record.payload);
        self.owners.add(record.owner, record.index);
    }

    pub fn put_commit(&mut self, durable_end: u64, closed: bool) {
        self.put(COMMIT, &durable_end.to_le_bytes(), &u64::from(closed).to_le_bytes());
    }

    pub fn put_opening(&mut self, torn_bytes: u64) {
        let position = self.position();
        self.put(OPENING, &position.to_le_bytes(), &torn_bytes.to_le_bytes());
    }

    pub fn put_footer(&mut self) {
        let body = self.owners.encode();
        self.put(FOOTER, &body, &[]);
        assert!(self.offset() <= self.header.length, "a footer has its room kept");
    }

    /// Appends one unit to the buffer, cut into pieces where blocks end.
    #[inline]
    fn put(&mut self, kind: u8, mut front: &[u8], mut back: &[u8]) {
        let mut block_left = self.block_rest();
        if block_left < FRAME_BYTES_MIN {
            self.buffer.resize(self.buffer.len() + block_left as usize, 0);
            block_left = BLOCK_BYTES;
        }
        let mut first = true;
        loop {
            let all = front.len() + back.len();
            let length = all.min(block_left as usize - FRAME_HEADER_BYTES);
            let shape = match (first, length == all) {
                (true, true) => FrameShape::Whole,
                (true, false) => FrameShape::First,
                (false, false) => FrameShape::Middle,
                (false, true) => FrameShape::Last,
            };
            let salt = frame::salt(self.header.log_id, self.position());
            let start = self.buffer.len();
            frame::begin(&mut self.buffer, self.generation, length, shape, kind);
            let (part, rest) = front.split_at(length.min(front.len()));
            self.buffer.extend_from_slice(part);
            front = rest;
            let (part, rest) = back.split_at(length - part.len());
            self.buffer.extend_from_slice(part);
            back = rest;
            frame::end(&mut self.buffer, start, salt);
            if length == all {
                return;
            }
            first = false;
            block_left = BLOCK_BYTES;
        }
    }

    fn block_rest(&self) -> u64 {
        BLOCK_BYTES - self.offset() % BLOCK_BYTES
    }

    /// Truncates the buffer to this length.
    pub fn truncate_buffer(&mut self, length: usize) {
        self.buffer.truncate(length);
    }

    /// Writes the buffer with one call. After an error the buffer is unchanged, and a retry writes
    /// to the same offset.
    pub fn write_out(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_at(&self.buffer, self.buffer_offset)?;
        self.buffer_offset += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        Ok(())
    }

    pub fn sync(&self) -> Result<(), StoreError> {
        if StoreMutant::SkipSyncs.is_active() {
            return Ok(());
        }
        self.file.sync_data().map_err(|source| {
            // Also for lack of space: pages that a sync failed to write are lost.
            StoreError::Io { description: format!("can't sync {}", self.header.name()), source }
        })
    }
}

/// Returns the maximum number of bytes of a record and of all that must fit behind it.
#[inline]
fn bytes_needed(record: &Record, footer_bytes: usize) -> u64 {
    unit_bytes_max(super::record::RECORD_HEADER_BYTES + record.payload.len())
        + STATEMENTS_BYTES
        + unit_bytes_max(footer_bytes)
}

/// Returns the length of the smallest file into which this record fits.
pub(super) fn segment_bytes_for(record: &Record) -> u64 {
    let footer = Owners::default().footer_bytes(1);
    (HEADER_BYTES + unit_bytes_max(16) + bytes_needed(record, footer))
        .next_multiple_of(HEADER_BYTES)
}
