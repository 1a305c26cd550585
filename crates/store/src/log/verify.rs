//! Reads the whole log, checks every checksum, changes nothing: what `credenza verify` runs.

use super::damage::{Survey, missing, survey};
use super::record::{Owner, OwnerRange};
use super::recover::{misfit, torn_bytes};
use super::segment::{LogNames, Segment};
use super::walk::{Bad, FrameWalk};
use crate::StoreError;
use crate::disk::{Access, Disk};

/// Result of a check of the log's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Each segment, oldest first.
    pub segments: Vec<SegmentReport>,
    /// Good records.
    pub records: u64,
    /// Bytes of all segments' files.
    pub bytes: u64,
    /// Bytes of a torn tail, which the next start will cut: no damage.
    pub torn_bytes: u64,
    /// True if the log was closed in order.
    pub closed: bool,
}

impl LogReport {
    /// Returns true if a start would find no damage.
    pub fn is_sound(&self) -> bool {
        self.segments.iter().all(|segment| segment.first_bad.is_none())
    }
}

/// One segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Its file.
    pub file: String,
    /// Stream position of the file's first byte; 0 if its header can't be read.
    pub base: u64,
    /// Bytes of the file that hold good frames.
    pub used_bytes: u64,
    /// True if the segment ends with a footer.
    pub sealed: bool,
    /// Good records.
    pub records: u64,
    /// Each owner with the range of its good records' indexes.
    pub owners: Vec<(Owner, OwnerRange)>,
    /// Owners that lost records by damage, with how many, as the footer knows.
    pub hit: Vec<(Owner, u64)>,
    /// The first place that is damaged.
    pub first_bad: Option<BadFrame>,
}

/// A damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFrame {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Description of the damage.
    pub what: String,
}

/// Progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyProgress {
    /// Bytes read.
    pub done_bytes: u64,
    /// Bytes to read in all.
    pub total_bytes: u64,
}

/// Reads every segment and reports its content; continues behind damage, which is in the report.
/// `progress` is called often. Errors: the system refused, or a segment has a foreign format.
pub fn verify(
    disk: &dyn Disk,
    progress: &mut dyn FnMut(VerifyProgress),
) -> Result<LogReport, StoreError> {
    let sequences = LogNames::list(disk)?.segments;
    let mut opened = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        opened.push(match Segment::open(disk, sequence, Access::Read) {
            Err(StoreError::Corrupt { file, offset, what }) => {
                Err(SegmentReport { file, first_bad: bad(offset, what), ..Default::default() })
            }
            other => Ok(other?),
        });
    }
    let lengths = opened.iter().flatten().map(|segment| segment.header.length);
    let total_bytes = lengths.sum();
    let mut report = LogReport { bytes: total_bytes, ..LogReport::default() };
    let mut before: Option<(Segment, u32)> = None;
    let (last, mut done_bytes) = (opened.len().wrapping_sub(1), 0);
    for (number, segment) in opened.into_iter().enumerate() {
        let segment = match segment {
            Ok(segment) => segment,
            Err(unreadable) => {
                report.segments.push(unreadable);
                before = None;
                continue;
            }
        };
        let found = survey(&segment, &mut |offset| {
            progress(VerifyProgress { done_bytes: done_bytes + offset, total_bytes });
        })?;
        let place = if number == last { SegmentOrder::Last } else { SegmentOrder::Before };
        report.add(&segment, &found, before.as_ref(), place)?;
        done_bytes += segment.header.length;
        before = Some((segment, found.generation));
    }
    Ok(report)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentOrder {
    Before,
    Last,
}

impl LogReport {
    fn add(
        &mut self,
        segment: &Segment,
        found: &Survey,
        before: Option<&(Segment, u32)>,
        place: SegmentOrder,
    ) -> Result<(), StoreError> {
        let header = &segment.header;
        let mut first_bad = chain(segment, before);
        if let Some(here) = found.first_bad
            && first_bad.is_none()
        {
            first_bad = match place {
                SegmentOrder::Before => bad(here.offset, here.why.into()),
                SegmentOrder::Last => self.judge_tail(segment, here)?,
            };
        }
        let hit = match &found.footer {
            Some(footer) => missing(&found.good, footer)
                .into_iter()
                .map(|(owner, records, ..)| (owner, records))
                .collect(),
            None => Vec::new(),
        };
        self.records += found.records;
        self.closed = found.closed && place == SegmentOrder::Last;
        self.segments.push(SegmentReport {
            file: header.name(),
            base: header.base,
            used_bytes: found.end,
            sealed: found.footer.is_some(),
            records: found.records,
            owners: found.good.0.iter().map(|(owner, range)| (*owner, *range)).collect(),
            hit,
            first_bad,
        });
        Ok(())
    }

    /// A bad place in the last segment: damage, or a torn tail.
    fn judge_tail(&mut self, segment: &Segment, here: Bad) -> Result<Option<BadFrame>, StoreError> {
        let mut walk = FrameWalk::new(segment.clone());
        while walk.offset < here.start {
            walk.next()?;
        }
        match torn_bytes(&mut walk, here) {
            Ok(torn) => {
                self.torn_bytes = torn;
                Ok(None)
            }
            Err(StoreError::Corrupt { offset, what, .. }) => Ok(bad(offset, what)),
            Err(error) => Err(error),
        }
    }
}

/// Returns the reason for which a segment can't follow the one before. `None`: it can.
fn chain(segment: &Segment, before: Option<&(Segment, u32)>) -> Option<BadFrame> {
    let (before, generation) = before?;
    let header = &segment.header;
    if let Some((offset, what)) = misfit(Some(&before.header), header, before.header.log) {
        return bad(offset, what);
    }
    if header.generation != generation.wrapping_add(1) {
        return bad(12, format!("its generation does not follow that of {}", before.header.name()));
    }
    None
}

fn bad(offset: u64, what: String) -> Option<BadFrame> {
    Some(BadFrame { offset, what })
}
