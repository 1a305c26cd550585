//! Appending: one buffer, one write, one sync.

use super::active_segment::{ActiveSegment, segment_bytes_for};
use super::reader::SharedLog;
use super::record::Record;
use super::segment::{HEADER_BYTES, Header, Segment, VERSION_FIRST};
use super::segment_pool::{SegmentPool, SpareSegment};
use super::{LogSettings, Position};
use crate::StoreError;
use crate::disk::Disk;
use crate::failpoint::{Point, reach};
use base::limits::LOG_RECORD_BYTES_MAX;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A buffer larger than this is written before the next record, without a commit.
const BUFFERED_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Length of the first segment of a new log; each next one is twice as long, up to the setting.
const SEGMENT_BYTES_FIRST: u64 = 4 * 1024 * 1024;

/// An open log. It has one writer.
pub struct Log {
    pub(super) disk: Arc<dyn Disk>,
    settings: LogSettings,
    /// Complete segments, oldest first.
    sealed: VecDeque<Segment>,
    tail: ActiveSegment,
    /// Bytes of the torn tail, for the opening of this run. `None` once the opening is durable.
    pub(super) opening: Option<u64>,
    pool: SegmentPool,
    /// State that readers on other threads share.
    pub(super) shared: Arc<SharedLog>,
    /// The segment after a sealed tail, while the disk has no space for its name.
    pending: Option<(SpareSegment, Header)>,
    durable: u64,
    /// True if the log's last frame states that all before it is durable.
    marked_durable: bool,
    failed: bool,
}

impl Log {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        settings: LogSettings,
        sealed: VecDeque<Segment>,
        tail: ActiveSegment,
        pool: SegmentPool,
    ) -> Log {
        let durable = tail.position();
        let headers = sealed.iter().map(|segment| segment.header).chain([tail.header]);
        let shared = Arc::new(SharedLog::new(headers, durable));
        let mut log = Log {
            disk,
            settings,
            sealed,
            tail,
            opening: None,
            pool,
            shared,
            pending: None,
            durable,
            marked_durable: true,
            failed: false,
        };
        log.request_spare();
        log
    }

    /// Appends a record to the buffer and returns the position behind it. The next commit writes
    /// it, or an earlier call if the buffer is full. The payload is at most
    /// [`LOG_RECORD_BYTES_MAX`].
    ///
    /// `Full`: nothing changed, and the call may be repeated. The same holds if no file can be
    /// created for the next segment for another reason. After any other error the log is closed.
    pub fn append(&mut self, record: &Record) -> Result<Position, StoreError> {
        assert!(record.payload.len() <= LOG_RECORD_BYTES_MAX, "checked before it comes here");
        self.ensure_ready()?;
        reach(Point::AppendBefore);
        if self.tail.buffered_bytes() >= BUFFERED_BYTES_MAX {
            self.write_out()?;
        }
        if !self.tail.fits(record) {
            self.roll(segment_bytes_for(record), record.kind.version())?;
        }
        self.tail.put_record(record);
        self.marked_durable = false;
        Ok(self.end())
    }

    /// Writes the buffer with one call; with `sync` also makes it durable, with one sync. Returns
    /// the position up to which all is durable.
    ///
    /// `Full`: the records stay in the buffer, and a later commit writes them. After any other
    /// error the log is closed, and it is unknown whether recovery finds the records.
    pub fn commit(&mut self, sync: bool) -> Result<Position, StoreError> {
        self.check_usable()?;
        if !sync {
            self.write_out()?;
        } else if self.durable < self.end().0 {
            self.sync_with_commit_frame(false)?;
        }
        // After the write: readers on other threads read the file up to here.
        self.shared.set_committed(self.end().0);
        Ok(self.durable())
    }

    /// Writes and syncs a frame that states that all before it is durable, unless the last frame
    /// does. Worth a sync when the log is idle: from then on damage to the last records differs
    /// from a torn tail.
    pub fn mark_durable(&mut self) -> Result<(), StoreError> {
        self.commit(true)?;
        if self.marked_durable { Ok(()) } else { self.sync_with_commit_frame(false) }
    }

    /// Commits with a sync and records that the log was closed in order. Without space for that
    /// record all is durable nevertheless, and the next start finds the log unclean.
    pub fn close(mut self) -> Result<(), StoreError> {
        match self.ensure_ready() {
            Err(StoreError::Full) if self.pending.is_some() => return Ok(()),
            ready => ready?,
        }
        self.commit(true)?;
        self.sync_with_commit_frame(true)
    }

    /// Removes whole segments below `keep_from`, the position of the oldest record that is still
    /// needed (its beginning or end). Returns their number. The files are recycled or removed.
    pub fn collapse(&mut self, keep_from: Position) -> Result<u32, StoreError> {
        self.check_usable()?;
        let mut freed = 0;
        while let Some(oldest) = self.sealed.pop_front_if(|old| old.header.end() <= keep_from.0) {
            // Hidden from readers first: its file may be overwritten at once.
            self.shared.collapse();
            self.pool.retire(oldest);
            freed += 1;
        }
        self.check_usable()?;
        Ok(freed)
    }

    /// Position behind the last record.
    #[inline]
    pub fn end(&self) -> Position {
        Position(self.tail.position())
    }

    /// Position below which everything is durable.
    #[inline]
    pub fn durable(&self) -> Position {
        Position(self.durable)
    }

    /// Position at which the oldest segment begins.
    pub fn start(&self) -> Position {
        Position(self.sealed.front().map_or(self.tail.header.base, |oldest| oldest.header.base))
    }

    /// Bytes of the files of all segments.
    pub fn bytes(&self) -> u64 {
        self.tail.header.end() - self.start().0
    }

    /// Number of segments.
    pub fn segments(&self) -> u32 {
        u32::try_from(self.sealed.len() + 1).expect("far fewer segments than that")
    }

    /// Number of bytes that can be appended without new disk space; fewer for small records.
    pub fn free_bytes(&self) -> u64 {
        let next = self.pending.as_ref().map_or(self.tail.free_bytes(), |(spare, _)| spare.length);
        next + self.pool.ready_bytes()
    }

    /// Checks that no failure closed the log, here or in the pool.
    fn check_usable(&mut self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Closed);
        }
        match self.pool.failure() {
            None => Ok(()),
            Some(error) => Err(self.close_after(error)),
        }
    }

    /// Ensures that the log is usable, this run has its opening, and the tail is not sealed.
    #[inline]
    pub(super) fn ensure_ready(&mut self) -> Result<(), StoreError> {
        if self.opening.is_some() || self.pending.is_some() || self.failed {
            self.check_usable()?;
            self.activate_pending()?;
            return self.begin_run();
        }
        Ok(())
    }

    /// Increments the generation, durably, before anything else is written: this voids the frames
    /// that a crash left behind the cut.
    fn begin_run(&mut self) -> Result<(), StoreError> {
        let Some(torn_bytes) = self.opening else { return Ok(()) };
        if !self.tail.fits_opening() {
            let (before, after) = (self.tail.generation, next_generation(self.tail.generation)?);
            self.tail.generation = after;
            let rolled = self.roll(0, VERSION_FIRST);
            // With the new footer on disk, only the next segment's name is missing.
            if rolled.is_err() && self.pending.is_none() {
                self.tail.generation = before;
            }
            return rolled;
        }
        let before = self.tail.generation;
        self.tail.generation = next_generation(before)?;
        self.tail.put_opening(torn_bytes);
        if let Err(error) = self.write_out() {
            self.tail.truncate_buffer(0);
            self.tail.generation = before;
            return Err(error);
        }
        reach(Point::OpeningWritten);
        self.sync()?;
        self.opening = None;
        Ok(())
    }

    /// Appends a commit frame, writes and syncs.
    fn sync_with_commit_frame(&mut self, closed: bool) -> Result<(), StoreError> {
        let buffered = self.tail.buffered_bytes();
        let all_durable = self.durable == self.end().0;
        // Covers only what an earlier sync made durable: a crash may keep this frame and lose
        // records of the same write.
        self.tail.put_commit(self.durable, closed);
        if let Err(error) = self.write_out() {
            self.tail.truncate_buffer(buffered);
            return Err(error);
        }
        self.sync()?;
        self.marked_durable = all_durable;
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), StoreError> {
        reach(Point::WriteBefore);
        match self.tail.write_out() {
            Ok(()) => {
                reach(Point::WriteAfter);
                Ok(())
            }
            // No sync was involved, and a retry writes the same bytes to the same offset.
            Err(error) if is_out_of_space(&error) => Err(StoreError::Full),
            Err(source) => {
                let description = format!("can't write {}", self.tail.header.name());
                Err(self.close_after(StoreError::Io { description, source }))
            }
        }
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        reach(Point::SyncBefore);
        match self.tail.sync() {
            Ok(()) => {
                reach(Point::SyncAfter);
                self.durable = self.tail.position();
                Ok(())
            }
            Err(error) => Err(self.close_after(error)),
        }
    }

    /// Closes the log for good. Returns the error.
    fn close_after(&mut self, error: StoreError) -> StoreError {
        self.failed = true;
        error
    }

    /// Seals the tail and continues in a new segment of at least this length and version. After
    /// `Full` nothing has changed, or only the new segment's name is missing.
    pub(super) fn roll(&mut self, at_least: u64, version: u32) -> Result<(), StoreError> {
        let (spare, header) = self.prepare_segment(at_least, version)?;
        let buffered = self.tail.buffered_bytes();
        self.tail.put_footer();
        if let Err(error) = self.write_out() {
            self.tail.truncate_buffer(buffered);
            self.pool.return_spare(spare);
            return Err(error);
        }
        // Before the next segment is named, which states that this one is complete (`recover.rs`).
        self.sync()?;
        self.marked_durable = true;
        self.shared.seal(self.end().0);
        reach(Point::RollSealed);
        // The footer is durable and can't be reverted: from here on only the name is missing.
        self.pending = Some((spare, header));
        self.activate_pending()
    }

    /// Begins the segment after a tail that is already sealed.
    pub(super) fn begin_next_segment(&mut self) -> Result<(), StoreError> {
        self.pending = Some(self.prepare_segment(0, VERSION_FIRST)?);
        self.activate_pending()
    }

    /// Writes the next segment's header into a spare, which keeps its name.
    fn prepare_segment(
        &mut self,
        at_least: u64,
        version: u32,
    ) -> Result<(SpareSegment, Header), StoreError> {
        self.check_usable()?;
        let before = &self.tail.header;
        let length = segment_bytes(&self.settings, before.length).max(at_least);
        let spare = self.pool.acquire(at_least.max(HEADER_BYTES * 2), length)?;
        let header = Header {
            version: before.version.max(version),
            generation: next_generation(self.tail.generation)?,
            log_id: before.log_id,
            sequence: before.sequence + 1,
            base: before.end(),
            length: spare.length,
        };
        match write_header(&spare, &header) {
            Ok(()) => {
                reach(Point::HeaderWritten);
                Ok((spare, header))
            }
            Err(StoreError::Full) => {
                self.pool.return_spare(spare);
                Err(StoreError::Full)
            }
            Err(error) => Err(self.close_after(error)),
        }
    }

    /// Names the segment behind a sealed tail, if there is one, and continues in it. `Full`: the
    /// segment keeps its old name, and the next write tries again.
    fn activate_pending(&mut self) -> Result<(), StoreError> {
        let Some((spare, header)) = &self.pending else { return Ok(()) };
        match name_segment(&*self.disk, spare, header) {
            Ok(()) => {}
            Err(StoreError::Full) => return Err(StoreError::Full),
            Err(error) => return Err(self.close_after(error)),
        }
        let Some((spare, header)) = self.pending.take() else { return Ok(()) };
        // The generation is above all earlier ones: this run has begun with it.
        self.opening = None;
        let fresh = ActiveSegment::empty(Segment { header, file: spare.file });
        let sealed = std::mem::replace(&mut self.tail, fresh);
        self.shared.add(header);
        self.sealed.push_back(sealed.into_segment());
        self.durable = self.tail.position();
        self.request_spare();
        Ok(())
    }

    fn request_spare(&mut self) {
        self.pool.request(segment_bytes(&self.settings, self.tail.header.length));
    }
}

/// Returns the length of the segment after one of length `before`.
pub(super) fn segment_bytes(settings: &LogSettings, before: u64) -> u64 {
    settings.segment_bytes.min(SEGMENT_BYTES_FIRST.max(before.saturating_mul(2)))
}

/// Returns the next generation, or an error if there is none.
fn next_generation(generation: u32) -> Result<u32, StoreError> {
    generation.checked_add(1).ok_or_else(|| StoreError::Io {
        description: "the log has used up its generations".into(),
        source: io::ErrorKind::Unsupported.into(),
    })
}

pub(super) fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Writes a segment's header page into a spare and syncs it.
pub(super) fn write_header(spare: &SpareSegment, header: &Header) -> Result<(), StoreError> {
    let text = |verb| format!("can't {verb} the header of {}", header.name());
    spare
        .file
        .write_at(&header.encode(), 0)
        .map_err(|error| StoreError::io(text("write"), error))?;
    spare.file.sync_data().map_err(|source| StoreError::Io { description: text("sync"), source })
}

/// Gives the spare its name as a segment, durably. `Full`: the disk had no space for the name, and
/// nothing changed.
pub(super) fn name_segment(
    disk: &dyn Disk,
    spare: &SpareSegment,
    header: &Header,
) -> Result<(), StoreError> {
    let text = || format!("can't name {}", header.name());
    disk.rename(&spare.name, &header.name()).map_err(|error| StoreError::io(text(), error))?;
    reach(Point::RollNamed);
    // Also for lack of space: whether the name is durable is not known.
    disk.sync_directory().map_err(|source| StoreError::Io { description: text(), source })
}
