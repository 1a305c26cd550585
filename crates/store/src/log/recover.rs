//! Recovery of the log: from what a crash left to a log that can be appended to.
//!
//! Only the last segment can have a torn tail: a successor's header says that its predecessor was
//! synced whole. The last segment is read here; the others are verified while they are replayed.

use super::active_segment::ActiveSegment;
use super::damage::{corrupt, resume};
use super::frame::FOOTER;
use super::record::Owners;
use super::replay::{Recovered, Replay};
use super::segment::{HEADER_BYTES, Header, LogNames, Segment, VERSION_FIRST, read_at};
use super::segment_pool::SegmentPool;
use super::walk::{Bad, FrameWalk, Unit, WalkStep};
use super::writer::{Log, name_segment, segment_bytes, write_header};
use super::{LogSettings, Position, SEGMENT_BYTES_MIN};
use crate::StoreError;
use crate::disk::{Access, Disk};
use crate::failpoint::{Point, reach};
use std::collections::VecDeque;
use std::sync::Arc;

/// The last segment as it was found.
struct Scan {
    /// Offset at which the log ends, in bytes.
    end: u64,
    generation: u32,
    owners: Owners,
    /// True if the last unit is a footer.
    sealed: bool,
    closed: bool,
    /// The highest stream position stated to be durable.
    stated: u64,
    torn_bytes: u64,
}

impl Log {
    /// Opens the log in `disk`, or begins one in an empty directory.
    ///
    /// A torn tail is cut; `Corrupt` is damage, and then nothing was changed. What is given is on
    /// the disk. The records come from [`Replay`], which finds damage in older segments; nothing
    /// may be appended before it is through.
    pub fn open(disk: Arc<dyn Disk>, settings: LogSettings) -> Result<(Log, Replay), StoreError> {
        Log::open_as(disk, settings, false)
    }

    /// Opens the log like `open`, but skips damaged frames; [`Replay::holes`] lists them. The
    /// caller must know that it needs no record that stood there. The damaged bytes stay until
    /// their segment is collapsed. Reading them again is an error again.
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
        self.ready()?;
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
        let mut segments = open_all(&*disk, &names.segments, settings.id)?;
        let Some(last) = segments.back().cloned() else {
            return begin(disk, settings, &names);
        };
        let scan = scan(&last, past_damage)?;
        // Before any record is returned: what the node acts upon must survive the next crash. After
        // the scan, which refuses a damaged log without a change.
        make_durable(&*disk, &last, &scan)?;
        let pool =
            SegmentPool::start(disk.clone(), &names, settings.segment_bytes, settings.ahead)?;
        let found = Recovered { torn_bytes: scan.torn_bytes, records: 0, unclean: !scan.closed };
        let replay = Replay::new(segments.clone(), scan.end, found, past_damage);
        segments.pop_back();
        let Scan { end, generation, owners, sealed, torn_bytes, .. } = scan;
        let tail = ActiveSegment::new(last, generation, end, owners);
        let mut log = Log::new(disk, settings, segments, tail, pool);
        log.opening = Some(torn_bytes);
        if sealed {
            // The process ended between sealing this segment and naming the next one.
            log.next_segment()?;
        }
        Ok((log, replay))
    }
}

/// The first segment of a log.
fn begin(
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    names: &LogNames,
) -> Result<(Log, Replay), StoreError> {
    let pool = SegmentPool::start(disk.clone(), names, settings.segment_bytes, settings.ahead)?;
    let length = segment_bytes(&settings, 0);
    let spare = pool.take(length, length)?;
    let header = Header {
        version: VERSION_FIRST,
        generation: 1,
        log: settings.id,
        sequence: 1,
        base: 0,
        length: spare.length,
    };
    write_header(&spare, &header)?;
    name_segment(&*disk, &spare, &header)?;
    let segment = Segment { header, file: spare.file };
    let log = Log::new(disk, settings, VecDeque::new(), ActiveSegment::fresh(segment), pool);
    let found = Recovered { torn_bytes: 0, records: 0, unclean: false };
    Ok((log, Replay::new(VecDeque::new(), 0, found, false)))
}

/// Opens all segments and checks that they follow each other.
fn open_all(disk: &dyn Disk, sequences: &[u64], log: u64) -> Result<VecDeque<Segment>, StoreError> {
    let mut segments: VecDeque<Segment> = VecDeque::with_capacity(sequences.len());
    for sequence in sequences {
        let segment = Segment::open(disk, *sequence, Access::Write)?;
        if let Some((offset, what)) =
            misfit(segments.back().map(|before| &before.header), &segment.header, log)
        {
            return Err(StoreError::Corrupt { file: segment.header.name(), offset, what });
        }
        segments.push_back(segment);
    }
    Ok(segments)
}

/// Returns the reason for which a segment can't follow the one before: offset in its header, and
/// words. `None`: it can.
pub(super) fn misfit(before: Option<&Header>, header: &Header, log: u64) -> Option<(u64, String)> {
    if header.log != log {
        let what = format!("it belongs to log {:016x}, not to {log:016x}", header.log);
        return Some((16, what));
    }
    let before = before?;
    if header.sequence != before.sequence + 1 {
        let what = format!("the segments between {} and it are missing", before.name());
        return Some((24, what));
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
        stated: segment.header.base,
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
        // A closing frame counts as the last one only: what follows it is of a later run.
        scan.closed = false;
        match unit {
            Unit::Record(record) => scan.owners.add(record.owner, record.index),
            Unit::Commit { durable_upto, closed } => {
                scan.stated = scan.stated.max(durable_upto);
                scan.closed = closed;
            }
            Unit::Opening { durable_upto, .. } => scan.stated = scan.stated.max(durable_upto),
            Unit::Footer(_) => scan.sealed = true,
        }
        (scan.end, scan.generation) = (end, walk.generation);
    }
    Ok(scan)
}

/// Returns the length of the torn tail behind a bad frame, in bytes, or `Corrupt` if the frame is
/// damage. See the drawing on the file format's page.
pub(super) fn torn_bytes(walk: &mut FrameWalk, bad: Bad) -> Result<u64, StoreError> {
    let position = walk.position(bad.start);
    let mut end = bad.start + walk.claimed(bad.start)?;
    let mut from = bad.start;
    while let Some(seen) = walk.find(from)? {
        // A frame of a later run, or a commit that covers this position, was written after a whole
        // log: this is damage. A footer alone proves nothing: a run without space for its opening
        // begins with one, and that write may be torn too.
        let later_life = seen.generation > walk.generation && seen.kind != FOOTER;
        if seen.stated > position || later_life {
            return Err(corrupt(&walk.segment, bad));
        }
        end = end.max(seen.end);
        from = seen.end;
    }
    Ok(end - bad.start)
}

/// Bytes copied onto themselves at a time.
const COPY_BYTES: u64 = 1024 * 1024;

/// Writes again, onto itself, what is not stated to be durable, and syncs it: pages of a failed
/// sync look clean, and only a new write makes the system write them.
fn make_durable(disk: &dyn Disk, last: &Segment, scan: &Scan) -> Result<(), StoreError> {
    let name = last.header.name();
    let failed = |verb: &str, source| {
        let what = format!("can't {verb} {name}");
        StoreError::Io { what, source }
    };
    let mut at = scan.stated.saturating_sub(last.header.base).max(HEADER_BYTES);
    let mut buffer = vec![0; COPY_BYTES.min(scan.end.saturating_sub(at)) as usize];
    while at < scan.end {
        let length = COPY_BYTES.min(scan.end - at) as usize;
        let bytes = &mut buffer[..length];
        let given = read_at(&*last.file, &name, bytes, at)?;
        if given < length {
            let what = "the file became shorter while it was read".into();
            return Err(StoreError::Corrupt { file: name, offset: at + given as u64, what });
        }
        last.file.write_at(bytes, at).map_err(|error| failed("write", error))?;
        at += length as u64;
    }
    reach(Point::TailRewritten);
    last.file.sync_data().map_err(|error| failed("sync", error))?;
    disk.sync_directory().map_err(|error| failed("sync the directory of", error))
}
