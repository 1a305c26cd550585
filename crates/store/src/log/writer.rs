//! Appending: one buffer, one write, one sync.

use super::active_segment::{ActiveSegment, segment_bytes_for};
use super::reader::KnownLog;
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

/// More than this waits for no commit before it is written.
const WAITING_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Length of a young log's first segment; each next one has twice that, up to the setting.
const SEGMENT_BYTES_FIRST: u64 = 4 * 1024 * 1024;

/// An open log. It has one owner, which appends to it.
pub struct Log {
    pub(super) disk: Arc<dyn Disk>,
    settings: LogSettings,
    /// Complete segments, oldest first.
    sealed: VecDeque<Segment>,
    tail: ActiveSegment,
    /// Bytes that were cut when the log was opened. `None` once the first frame of this run is
    /// written.
    pub(super) opening: Option<u64>,
    pool: SegmentPool,
    /// State shared with readers on other threads.
    pub(super) known: Arc<KnownLog>,
    /// The next segment behind a tail that is sealed. The disk had no space for its name.
    unnamed: Option<(SpareSegment, Header)>,
    durable: u64,
    /// True if the log's last frame states that all before it is durable.
    settled: bool,
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
        let headers = sealed.iter().map(|it| it.header).chain([tail.header]);
        let known = Arc::new(KnownLog::new(headers, durable));
        let mut log = Log {
            disk,
            settings,
            sealed,
            tail,
            opening: None,
            pool,
            known,
            unnamed: None,
            durable,
            settled: true,
            failed: false,
        };
        log.look_ahead();
        log
    }

    /// Puts a record at the end and gives the position behind it. It is written by the next commit,
    /// or before when much waits. The payload is at most [`LOG_RECORD_BYTES_MAX`].
    ///
    /// `Full`: the record was not taken, nothing changed, and it may be tried again. So it is when
    /// no file can be made for the next segment for another reason. After any other error the log
    /// is closed.
    pub fn append(&mut self, record: &Record) -> Result<Position, StoreError> {
        assert!(record.payload.len() <= LOG_RECORD_BYTES_MAX, "checked before it comes here");
        self.ready()?;
        reach(Point::AppendBefore);
        if self.tail.waiting() >= WAITING_BYTES_MAX {
            self.write_out()?;
        }
        if !self.tail.takes(record) {
            self.roll(segment_bytes_for(record), record.kind.version())?;
        }
        self.tail.put_record(record);
        self.settled = false;
        Ok(self.end())
    }

    /// Writes what waits, with one write; with `sync` also makes it durable, with one sync. Gives
    /// the position up to which all is durable.
    ///
    /// `Full`: the records wait still, and a later commit writes them. After any other error the
    /// log is closed, and whether they will be found again is not known.
    pub fn commit(&mut self, sync: bool) -> Result<Position, StoreError> {
        self.usable()?;
        if !sync {
            self.write_out()?;
        } else if self.durable < self.end().0 {
            self.state_and_sync(false)?;
        }
        // After the write: readers on other threads read the file up to here.
        self.known.commit(self.end().0);
        Ok(self.durable())
    }

    /// Writes and syncs a frame that states that all before it is durable, unless the last frame
    /// does. Worth a sync when the log is idle: from then on damage to the last records differs
    /// from a torn tail.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        self.commit(true)?;
        if self.settled { Ok(()) } else { self.state_and_sync(false) }
    }

    /// Commits with a sync and records that the log was closed in order. Without space for that
    /// record all is durable nevertheless, and the next start finds the log unclean.
    pub fn close(mut self) -> Result<(), StoreError> {
        match self.ready() {
            Err(StoreError::Full) if self.unnamed.is_some() => return Ok(()),
            ready => ready?,
        }
        self.commit(true)?;
        self.state_and_sync(true)
    }

    /// Removes whole segments below `keep_from`, the position of the oldest record that is still
    /// needed (its beginning or end). Returns their number. The files are recycled or removed.
    pub fn collapse(&mut self, keep_from: Position) -> Result<u32, StoreError> {
        self.usable()?;
        let mut freed = 0;
        while let Some(oldest) = self.sealed.pop_front_if(|it| it.header.end() <= keep_from.0) {
            // Hidden from readers first: its file may be overwritten at once.
            self.known.collapse();
            self.pool.retire(oldest);
            freed += 1;
        }
        self.usable()?;
        Ok(freed)
    }

    /// The position behind the last record.
    #[inline]
    pub fn end(&self) -> Position {
        Position(self.tail.position())
    }

    /// Position below which everything is durable.
    #[inline]
    pub fn durable(&self) -> Position {
        Position(self.durable)
    }

    /// The beginning of the oldest segment.
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

    /// Bytes that can be appended without new space from the disk, a little less than that in small
    /// records.
    pub fn room(&self) -> u64 {
        let next = self.unnamed.as_ref().map_or(self.tail.room(), |(spare, _)| spare.length);
        next + self.pool.ready_bytes()
    }

    /// Not closed by a failure, here or while clearing away.
    fn usable(&mut self) -> Result<(), StoreError> {
        if self.failed {
            return Err(StoreError::Closed);
        }
        match self.pool.failure() {
            None => Ok(()),
            Some(error) => Err(self.fail(error)),
        }
    }

    /// Ensures that the log is usable, this run has begun, and the tail is not sealed.
    #[inline]
    pub(super) fn ready(&mut self) -> Result<(), StoreError> {
        if self.opening.is_some() || self.unnamed.is_some() || self.failed {
            self.usable()?;
            self.name_next()?;
            return self.begin_life();
        }
        Ok(())
    }

    /// Raises the generation, durably, before anything else is written: what a crash left behind
    /// the cut is void.
    fn begin_life(&mut self) -> Result<(), StoreError> {
        let Some(torn_bytes) = self.opening else { return Ok(()) };
        if !self.tail.takes_opening() {
            let (before, after) = (self.tail.generation, next(self.tail.generation)?);
            self.tail.generation = after;
            let rolled = self.roll(0, VERSION_FIRST);
            // Unless the footer, of the new generation, is on disk: then only a name is missing.
            if rolled.is_err() && self.unnamed.is_none() {
                self.tail.generation = before;
            }
            return rolled;
        }
        let before = self.tail.generation;
        self.tail.generation = next(before)?;
        self.tail.put_opening(torn_bytes);
        if let Err(error) = self.write_out() {
            self.tail.take_back(0);
            self.tail.generation = before;
            return Err(error);
        }
        reach(Point::OpeningWritten);
        self.sync()?;
        self.opening = None;
        Ok(())
    }

    /// A commit frame, the write and the sync.
    fn state_and_sync(&mut self, closed: bool) -> Result<(), StoreError> {
        let waiting = self.tail.waiting();
        let all_durable = self.durable == self.end().0;
        // Covers only what an earlier sync made durable: a crash may keep this frame and lose
        // records of the same write.
        self.tail.put_commit(self.durable, closed);
        if let Err(error) = self.write_out() {
            self.tail.take_back(waiting);
            return Err(error);
        }
        self.sync()?;
        self.settled = all_durable;
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), StoreError> {
        reach(Point::WriteBefore);
        match self.tail.write_out() {
            Ok(()) => {
                reach(Point::WriteAfter);
                Ok(())
            }
            // No sync was involved, and the same bytes will go to the same place.
            Err(error) if no_space(&error) => Err(StoreError::Full),
            Err(source) => {
                let what = format!("can't write {}", self.tail.header.name());
                Err(self.fail(StoreError::Io { what, source }))
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
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Closes the log for good.
    fn fail(&mut self, error: StoreError) -> StoreError {
        self.failed = true;
        error
    }

    /// Seals the tail and continues in a new segment of at least this length and version. After
    /// `Full` nothing has changed, or only the new segment's name is missing.
    pub(super) fn roll(&mut self, at_least: u64, version: u32) -> Result<(), StoreError> {
        let (spare, header) = self.prepare(at_least, version)?;
        let waiting = self.tail.waiting();
        self.tail.put_footer();
        if let Err(error) = self.write_out() {
            self.tail.take_back(waiting);
            self.pool.give_back(spare);
            return Err(error);
        }
        // Before the next segment has a name, which says that this one is whole (`recover.rs`).
        self.sync()?;
        self.settled = true;
        self.known.seal(self.end().0);
        reach(Point::RollSealed);
        // The footer is durable and can't be taken back: from here on only the name is missing.
        self.unnamed = Some((spare, header));
        self.name_next()
    }

    /// A segment behind a tail that is sealed already.
    pub(super) fn next_segment(&mut self) -> Result<(), StoreError> {
        self.unnamed = Some(self.prepare(0, VERSION_FIRST)?);
        self.name_next()
    }

    /// A spare with the header of the next segment in it, still under its old name.
    fn prepare(
        &mut self,
        at_least: u64,
        version: u32,
    ) -> Result<(SpareSegment, Header), StoreError> {
        self.usable()?;
        let before = &self.tail.header;
        let length = segment_bytes(&self.settings, before.length).max(at_least);
        let spare = self.pool.take(at_least.max(HEADER_BYTES * 2), length)?;
        let header = Header {
            version: before.version.max(version),
            generation: next(self.tail.generation)?,
            log: before.log,
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
                self.pool.give_back(spare);
                Err(StoreError::Full)
            }
            Err(error) => Err(self.fail(error)),
        }
    }

    /// Names the segment behind a sealed tail, if there is one, and continues in it. `Full`: the
    /// segment keeps its old name, and the next write tries again.
    fn name_next(&mut self) -> Result<(), StoreError> {
        let Some((spare, header)) = &self.unnamed else { return Ok(()) };
        match name_segment(&*self.disk, spare, header) {
            Ok(()) => {}
            Err(StoreError::Full) => return Err(StoreError::Full),
            Err(error) => return Err(self.fail(error)),
        }
        let Some((spare, header)) = self.unnamed.take() else { return Ok(()) };
        // The generation is above all earlier ones: this run has begun with it.
        self.opening = None;
        let fresh = ActiveSegment::fresh(Segment { header, file: spare.file });
        let sealed = std::mem::replace(&mut self.tail, fresh);
        self.known.add(header);
        self.sealed.push_back(sealed.into_segment());
        self.durable = self.tail.position();
        self.look_ahead();
        Ok(())
    }

    fn look_ahead(&mut self) {
        self.pool.want(segment_bytes(&self.settings, self.tail.header.length));
    }
}

/// Length of the segment after one of this length.
pub(super) fn segment_bytes(settings: &LogSettings, before: u64) -> u64 {
    settings.segment_bytes.min(SEGMENT_BYTES_FIRST.max(before.saturating_mul(2)))
}

/// The generation after this one.
fn next(generation: u32) -> Result<u32, StoreError> {
    generation.checked_add(1).ok_or_else(|| StoreError::Io {
        what: "the log has used up its generations".into(),
        source: io::ErrorKind::Unsupported.into(),
    })
}

pub(super) fn no_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Writes a segment's header page into a spare and syncs it.
pub(super) fn write_header(spare: &SpareSegment, header: &Header) -> Result<(), StoreError> {
    let what = |verb| format!("can't {verb} the header of {}", header.name());
    spare
        .file
        .write_at(&header.encode(), 0)
        .map_err(|error| StoreError::io(what("write"), error))?;
    spare.file.sync_data().map_err(|source| StoreError::Io { what: what("sync"), source })
}

/// Gives the spare its name as a segment, durably. `Full`: the disk had no space for the name, and
/// nothing changed.
pub(super) fn name_segment(
    disk: &dyn Disk,
    spare: &SpareSegment,
    header: &Header,
) -> Result<(), StoreError> {
    let what = || format!("can't name {}", header.name());
    disk.rename(&spare.name, &header.name()).map_err(|error| StoreError::io(what(), error))?;
    reach(Point::RollNamed);
    // Also for lack of space: whether the name is durable is not known.
    disk.sync_directory().map_err(|source| StoreError::Io { what: what(), source })
}
