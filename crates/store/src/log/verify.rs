//! Verification of the log for `credenza verify`: reads all of it, checks every checksum, changes
//! nothing.

use super::damage::{Survey, missing, survey};
use super::record::{Owner, OwnerRange};
use super::recover::{order_error, torn_bytes};
use super::segment::{LogNames, Segment};
use super::walk::{BadUnit, FrameWalk};
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
    pub is_closed: bool,
}

impl LogReport {
    /// Returns true if a start would find no damage.
    pub fn is_sound(&self) -> bool {
        self.segments.iter().all(|segment| segment.first_bad_frame.is_none())
    }
}

/// Result of a check of one segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentReport {
    /// Name of the file.
    pub file: String,
    /// Stream position of the file's first byte; 0 if its header can't be read.
    pub base: u64,
    /// Bytes of the file that hold good frames.
    pub used_bytes: u64,
    /// True if the segment ends with a footer.
    pub is_sealed: bool,
    /// Good records.
    pub records: u64,
    /// Each owner with the range of its good records' indexes.
    pub owners: Vec<(Owner, OwnerRange)>,
    /// Owners that lost records by damage, with the number of records according to the footer.
    pub damaged_owners: Vec<(Owner, u64)>,
    /// The first place that is damaged.
    pub first_bad_frame: Option<BadFrame>,
}

/// A damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFrame {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Description of the damage.
    pub description: String,
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
            Err(StoreError::Corrupt { file, offset, description }) => Err(SegmentReport {
                file,
                first_bad_frame: damage(offset, description),
                ..Default::default()
            }),
            other => Ok(other?),
        });
    }
    let lengths = opened.iter().flatten().map(|segment| segment.header.length);
    let total_bytes = lengths.sum();
    let mut report = LogReport { bytes: total_bytes, ..LogReport::default() };
    let mut previous: Option<(Segment, u32)> = None;
    let (last, mut done_bytes) = (opened.len().wrapping_sub(1), 0);
    for (number, segment) in opened.into_iter().enumerate() {
        let segment = match segment {
            Ok(segment) => segment,
            Err(unreadable) => {
                report.segments.push(unreadable);
                previous = None;
                continue;
            }
        };
        let found = survey(&segment, &mut |offset| {
            progress(VerifyProgress { done_bytes: done_bytes + offset, total_bytes });
        })?;
        let place = if number == last { SegmentOrder::Last } else { SegmentOrder::Before };
        report.add(&segment, &found, previous.as_ref(), place)?;
        done_bytes += segment.header.length;
        previous = Some((segment, found.generation));
    }
    Ok(report)
}

/// Position of a segment in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SegmentOrder {
    Before,
    Last,
}

impl LogReport {
    /// Adds a segment to the report.
    fn add(
        &mut self,
        segment: &Segment,
        found: &Survey,
        before: Option<&(Segment, u32)>,
        place: SegmentOrder,
    ) -> Result<(), StoreError> {
        let header = &segment.header;
        let mut first_bad = check_order(segment, before);
        if let Some(bad) = found.first_bad
            && first_bad.is_none()
        {
            first_bad = match place {
                SegmentOrder::Before => damage(bad.offset, bad.reason.into()),
                SegmentOrder::Last => self.classify_tail(segment, bad)?,
            };
        }
        let damaged_owners = match &found.footer {
            Some(footer) => missing(&found.good, footer)
                .into_iter()
                .map(|(owner, records, ..)| (owner, records))
                .collect(),
            None => Vec::new(),
        };
        self.records += found.records;
        self.is_closed = found.closed && place == SegmentOrder::Last;
        self.segments.push(SegmentReport {
            file: header.name(),
            base: header.base,
            used_bytes: found.end,
            is_sealed: found.footer.is_some(),
            records: found.records,
            owners: found.good.0.iter().map(|(owner, range)| (*owner, *range)).collect(),
            damaged_owners,
            first_bad_frame: first_bad,
        });
        Ok(())
    }

    /// Classifies a bad unit in the last segment: damage, or a torn tail.
    fn classify_tail(
        &mut self,
        segment: &Segment,
        bad: BadUnit,
    ) -> Result<Option<BadFrame>, StoreError> {
        let mut walk = FrameWalk::new(segment.clone());
        while walk.offset < bad.start {
            walk.next()?;
        }
        match torn_bytes(&mut walk, bad) {
            Ok(torn) => {
                self.torn_bytes = torn;
                Ok(None)
            }
            Err(StoreError::Corrupt { offset, description, .. }) => Ok(damage(offset, description)),
            Err(error) => Err(error),
        }
    }
}

/// Returns the reason for which a segment can't follow the one before. `None`: it can.
fn check_order(segment: &Segment, before: Option<&(Segment, u32)>) -> Option<BadFrame> {
    let (before, generation) = before?;
    let header = &segment.header;
    if let Some((offset, description)) =
        order_error(Some(&before.header), header, before.header.log_id)
    {
        return damage(offset, description);
    }
    if header.generation != generation.wrapping_add(1) {
        return damage(
            12,
            format!("its generation does not follow that of {}", before.header.name()),
        );
    }
    None
}

fn damage(offset: u64, description: String) -> Option<BadFrame> {
    Some(BadFrame { offset, description })
}
