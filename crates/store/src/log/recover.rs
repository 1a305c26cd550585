//! Recovery of the log: from the files that a crash left to a log that accepts appends.
//!
//! Only the last segment can have a torn tail: a successor's header states that its predecessor was
//! synced completely. The last segment is read here; the others are verified while they are
//! replayed.

use super::active_segment::ActiveSegment;
use super::damage::{corrupt, resume};
use super::frame::FOOTER;
use super::record::Owners;
use super::replay::{RecoverySummary, Replay};
use super::segment::{HEADER_BYTES, Header, LogNames, Segment, VERSION_FIRST, read_at};
use super::segment_pool::SegmentPool;
use super::walk::{BadUnit, FrameWalk, Unit, WalkStep};
use super::writer::{Log, name_segment, segment_bytes, write_header};
use super::{LogSettings, Position, SEGMENT_BYTES_MIN};
use crate::StoreError;
use crate::disk::{Access, Disk};
use crate::failpoint::{Point, reach};
use std::collections::VecDeque;
use std::sync::Arc;

/// State of the last segment.
struct Scan {
    /// Offset at which the log ends, in bytes.
    end: u64,
    generation: u32,
    owners: Owners,
    /// True if the last unit is a footer.
    sealed: bool,
    closed: bool,
    /// The highest stream position stated to be durable.
    durable: u64,
    torn_bytes: u64,
}

impl Log {
    /// Opens the log in `disk`, or begins one in an empty directory.
    ///
    /// A torn tail is cut; `Corrupt` is damage, and then nothing was changed. All records of the
    /// result are durable. They are read through [`Replay`], which detects damage in older
    /// segments; nothing may be appended before it has ended.
    pub fn open(disk: Arc<dyn Disk>, settings: LogSettings) -> Result<(Log, Replay), StoreError> {
        Log::open_as(disk, settings, false)
    }

    /// Opens the log like `open`, but skips damaged frames; [`Replay::holes`] lists them. The
    /// caller must ensure that it needs no record of these frames. The damaged bytes stay until
    /// their segment is collapsed. A later read of them is an error again.
    pub fn open_past_damage(
        disk: Arc<dyn Disk>,
        settings: LogSettings,
    ) -> Result<(Log, Replay), StoreError> {
        Log::open_as(disk, settings, true)
    }

    /// Makes all records durable and continues in a new segment. Returns the position at which that
    /// begins. A caller that writes again there what it still needs can collapse everything before,
    /// damage included.
    pub fn begin_segment(&mut self) -> Result<Position, StoreError> {
        self.ensure_ready()?;
        self.commit(true)?;
        self.roll(0, VERSION_FIRST)?;
        Ok(self.end())
    }

    fn open_as(
        disk: Arc<dyn Disk>,
        settings: LogSettings,
        past_damage: bool,
    ) -> Result<(Log, Replay), StoreError> {
        assert!(settings.segment_bytes >= SEGMENT_BYTES_MIN, "segments have a least size");
        let names = LogNames::list(&*disk)?;
        let mut segments = open_all(&*disk, &names.segments, settings.log_id)?;
        let Some(last) = segments.back().cloned() else {
            return create_log(disk, settings, &names);
        };
        let scan = scan(&last, past_damage)?;
        // Before any record is returned: records on which the node acts must survive the next
        // crash. After the scan, which refuses a damaged log without a change.
        make_durable(&*disk, &last, &scan)?;
        let pool = SegmentPool::start(
            disk.clone(),
            &names,
            settings.segment_bytes,
            settings.spare_worker,
        )?;
        let found = RecoverySummary {
            torn_bytes: scan.torn_bytes,
            records: 0,
            unclean_shutdown: !scan.closed,
        };
        let replay = Replay::new(segments.clone(), scan.end, found, past_damage);
        segments.pop_back();
        let Scan { end, generation, owners, sealed, torn_bytes, .. } = scan;
        let tail = ActiveSegment::new(last, generation, end, owners);
        let mut log = Log::new(disk, settings, segments, tail, pool);
        log.opening = Some(torn_bytes);
        if sealed {
            // The process ended between sealing this segment and naming the next one.
            log.begin_next_segment()?;
        }
        Ok((log, replay))
    }
}

/// Creates a log with its first segment.
fn create_log(
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    names: &LogNames,
) -> Result<(Log, Replay), StoreError> {
    let pool =
        SegmentPool::start(disk.clone(), names, settings.segment_bytes, settings.spare_worker)?;
    let length = segment_bytes(&settings, 0);
    let spare = pool.acquire(length, length)?;
    let header = Header {
        version: VERSION_FIRST,
        generation: 1,
        log_id: settings.log_id,
        sequence: 1,
        base: 0,
        length: spare.length,
    };
    write_header(&spare, &header)?;
    name_segment(&*disk, &spare, &header)?;
    let segment = Segment { header, file: spare.file };
    let log = Log::new(disk, settings, VecDeque::new(), ActiveSegment::empty(segment), pool);
    let found = RecoverySummary { torn_bytes: 0, records: 0, unclean_shutdown: false };
    Ok((log, Replay::new(VecDeque::new(), 0, found, false)))
}

/// Opens all segments and checks that they follow each other.
fn open_all(disk: &dyn Disk, sequences: &[u64], log: u64) -> Result<VecDeque<Segment>, StoreError> {
    let mut segments: VecDeque<Segment> = VecDeque::with_capacity(sequences.len());
    for sequence in sequences {
        let segment = Segment::open(disk, *sequence, Access::Write)?;
        if let Some((offset, description)) =
            order_error(segments.back().map(|before| &before.header), &segment.header, log)
        {
            return Err(StoreError::Corrupt { file: segment.header.name(), offset, description });
        }
        segments.push_back(segment);
    }
    Ok(segments)
}

/// Returns the reason for which a segment can't follow the one before: offset in its header, and a
/// description. `None`: it can.
pub(super) fn order_error(
    before: Option<&Header>,
    header: &Header,
    log: u64,
) -> Option<(u64, String)> {
    if header.log_id != log {
        let description = format!("it belongs to log {:016x}, not to {log:016x}", header.log_id);
        return Some((16, description));
    }
    let before = before?;
    if header.sequence != before.sequence + 1 {
        let description = format!("the segments between {} and it are missing", before.name());
        return Some((24, description));
    }
    if header.base != before.end() {
        return Some((32, format!("it does not begin where {} ends", before.name())));
    }
    let follows = header.generation > before.generation;
    (!follows).then(|| (12, format!("its generation is not above that of {}", before.name())))
}

/// Reads the last segment to its end and decides whether that is a torn tail.
fn scan(segment: &Segment, past_damage: bool) -> Result<Scan, StoreError> {
    let mut walk = FrameWalk::new(segment.clone());
    let mut scan = Scan {
        end: walk.offset,
        generation: walk.generation,
        owners: Owners::default(),
        sealed: false,
        closed: false,
        durable: segment.header.base,
        torn_bytes: 0,
    };
    while !scan.sealed {
        let (end, unit) = match walk.next()? {
            WalkStep::Unit(end, unit) => (end, unit),
            WalkStep::Bad(bad) => match torn_bytes(&mut walk, bad) {
                Err(StoreError::Corrupt { .. }) if past_damage && resume(&mut walk, bad)? => {
                    continue;
                }
                torn => {
                    scan.torn_bytes = torn?;
                    break;
                }
            },
        };
        // A closing frame counts only as the last one: frames behind it are of a later run.
        scan.closed = false;
        match unit {
            Unit::Record(record) => scan.owners.add(record.owner, record.index),
            Unit::Commit { durable_end, closed } => {
                scan.durable = scan.durable.max(durable_end);
                scan.closed = closed;
            }
            Unit::Opening { durable_end, .. } => scan.durable = scan.durable.max(durable_end),
            Unit::Footer(_) => scan.sealed = true,
        }
        (scan.end, scan.generation) = (end, walk.generation);
    }
    Ok(scan)
}

/// Returns the length of the torn tail behind a bad frame, in bytes, or `Corrupt` if the frame is
/// damage. See the drawing on the file format's page.
pub(super) fn torn_bytes(walk: &mut FrameWalk, bad: BadUnit) -> Result<u64, StoreError> {
    let position = walk.position(bad.start);
    let mut end = bad.start + walk.claimed_bytes(bad.start)?;
    let mut from = bad.start;
    while let Some(frame) = walk.find_frame(from)? {
        // A frame of a later run, or a commit that covers this position, was written after a whole
        // log: this is damage. A footer alone is no proof: a run without space for its opening
        // begins with one, and that write may be torn too.
        let is_later_run = frame.generation > walk.generation && frame.kind != FOOTER;
        if frame.durable_end > position || is_later_run {
            return Err(corrupt(&walk.segment, bad));
        }
        end = end.max(frame.end);
        from = frame.end;
    }
    Ok(end - bad.start)
}

/// Number of bytes rewritten at a time.
const COPY_BYTES: u64 = 1024 * 1024;

/// Rewrites in place all bytes that no frame states to be durable, and syncs them: pages of a
/// failed sync look clean, and only a new write makes the kernel write them.
fn make_durable(disk: &dyn Disk, last: &Segment, scan: &Scan) -> Result<(), StoreError> {
    let name = last.header.name();
    let failed = |verb: &str, source| {
        let description = format!("can't {verb} {name}");
        StoreError::Io { description, source }
    };
    let mut at = scan.durable.saturating_sub(last.header.base).max(HEADER_BYTES);
    let mut buffer = vec![0; COPY_BYTES.min(scan.end.saturating_sub(at)) as usize];
    while at < scan.end {
        let length = COPY_BYTES.min(scan.end - at) as usize;
        let bytes = &mut buffer[..length];
        let count = read_at(&*last.file, &name, bytes, at)?;
        if count < length {
            let description = "the file became shorter while it was read".into();
            return Err(StoreError::Corrupt { file: name, offset: at + count as u64, description });
        }
        last.file.write_at(bytes, at).map_err(|error| failed("write", error))?;
        at += length as u64;
    }
    reach(Point::TailRewritten);
    last.file.sync_data().map_err(|error| failed("sync", error))?;
    disk.sync_directory().map_err(|error| failed("sync the directory of", error))
}
