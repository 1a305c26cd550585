//! The segment that is appended to, and the buffer in front of it.

use super::frame::{
    self, BLOCK_BYTES, COMMIT, FOOTER, FRAME_HEADER_BYTES, FrameShape, OPENING, ROOM_BYTES_MIN,
    unit_bytes_max,
};
use super::record::{Owners, Record};
use super::segment::{HEADER_BYTES, Header, Segment};
use crate::StoreError;
use crate::disk::DiskFile;
use crate::mutants::StoreMutant;
use std::io;
use std::sync::Arc;

/// A buffer that grew beyond this for one large record is given back after it is written.
const BUFFER_BYTES_KEPT: usize = 8 * 1024 * 1024;
/// Room that each record leaves: a commit frame, a statement when idle, one when closed, and a
/// skipped rest of a block.
const STATEMENTS_BYTES: u64 = 3 * 32 + ROOM_BYTES_MIN;

pub(super) struct ActiveSegment {
    pub header: Header,
    pub generation: u32,
    pub owners: Owners,
    file: Arc<dyn DiskFile>,
    /// Offset in the file at which the buffer begins, in bytes.
    written: u64,
    buffer: Vec<u8>,
}

impl ActiveSegment {
    /// Appends at `offset` of this segment.
    pub fn new(segment: Segment, generation: u32, offset: u64, owners: Owners) -> ActiveSegment {
        let Segment { header, file } = segment;
        ActiveSegment { header, generation, owners, file, written: offset, buffer: Vec::new() }
    }

    /// A segment that was just made.
    pub fn fresh(segment: Segment) -> ActiveSegment {
        let generation = segment.header.generation;
        ActiveSegment::new(segment, generation, HEADER_BYTES, Owners::default())
    }

    /// The file again, as a segment that is complete.
    pub fn into_segment(self) -> Segment {
        Segment { header: self.header, file: self.file }
    }

    /// Offset in the file of the next frame.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Stream position of the next frame.
    #[inline]
    pub fn position(&self) -> u64 {
        self.header.base + self.offset()
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// Bytes left for frames.
    pub fn room(&self) -> u64 {
        self.header.length - self.offset()
    }

    /// Returns true if the segment's version permits the record and it fits, with space left for
    /// the statements and the footer behind it.
    #[inline]
    pub fn takes(&self, record: &Record) -> bool {
        let more = usize::from(!self.owners.0.contains_key(&record.owner));
        record.kind.version() <= self.header.version
            && needed(record, self.owners.footer_bytes(more)) <= self.room()
    }

    /// Returns true if an opening fits, with the statements and the footer behind it.
    pub fn takes_opening(&self) -> bool {
        let footer = unit_bytes_max(self.owners.footer_bytes(0));
        unit_bytes_max(16) + STATEMENTS_BYTES + footer <= self.room()
    }

    #[inline]
    pub fn put_record(&mut self, record: &Record) {
        self.put(record.kind as u8, &record.header(), record.payload);
        self.owners.add(record.owner, record.index);
    }

    pub fn put_commit(&mut self, durable_upto: u64, closed: bool) {
        self.put(COMMIT, &durable_upto.to_le_bytes(), &u64::from(closed).to_le_bytes());
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

    /// Puts one unit, in pieces where blocks end.
    #[inline]
    fn put(&mut self, kind: u8, mut front: &[u8], mut back: &[u8]) {
        let mut left = self.block_rest();
        if left < ROOM_BYTES_MIN {
            self.buffer.resize(self.buffer.len() + left as usize, 0);
            left = BLOCK_BYTES;
        }
        let mut first = true;
        loop {
            let all = front.len() + back.len();
            let length = all.min(left as usize - FRAME_HEADER_BYTES);
            let shape = match (first, length == all) {
                (true, true) => FrameShape::Whole,
                (true, false) => FrameShape::First,
                (false, false) => FrameShape::Middle,
                (false, true) => FrameShape::Last,
            };
            let salt = frame::salt(self.header.log, self.position());
            let begun = self.buffer.len();
            frame::begin(&mut self.buffer, self.generation, length, shape, kind);
            let (now, later) = front.split_at(length.min(front.len()));
            self.buffer.extend_from_slice(now);
            front = later;
            let (now, later) = back.split_at(length - now.len());
            self.buffer.extend_from_slice(now);
            back = later;
            frame::end(&mut self.buffer, begun, salt);
            if length == all {
                return;
            }
            first = false;
            left = BLOCK_BYTES;
        }
    }

    fn block_rest(&self) -> u64 {
        BLOCK_BYTES - self.offset() % BLOCK_BYTES
    }

    /// Removes everything that was put since the buffer had this length.
    pub fn take_back(&mut self, waiting: usize) {
        self.buffer.truncate(waiting);
    }

    /// One write of all that waits. After an error it waits still, and goes to the same place when
    /// tried again.
    pub fn write_out(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.file.write_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES_KEPT);
        Ok(())
    }

    pub fn sync(&self) -> Result<(), StoreError> {
        if StoreMutant::SyncsNothing.is_active() {
            return Ok(());
        }
        self.file.sync_data().map_err(|source| {
            // Also for lack of space: what a sync lost is lost.
            StoreError::Io { what: format!("can't sync {}", self.header.name()), source }
        })
    }
}

/// The most bytes a record takes with all that must fit behind it.
#[inline]
fn needed(record: &Record, footer_bytes: usize) -> u64 {
    unit_bytes_max(super::record::RECORD_HEADER_BYTES + record.payload.len())
        + STATEMENTS_BYTES
        + unit_bytes_max(footer_bytes)
}

/// Length of the smallest file that takes this record.
pub(super) fn segment_bytes_for(record: &Record) -> u64 {
    let footer = Owners::default().footer_bytes(1);
    (HEADER_BYTES + unit_bytes_max(16) + needed(record, footer)).next_multiple_of(HEADER_BYTES)
}
