//! Survey of a damaged segment: reads past the damage, to report the content and the affected
//! owners.

use super::frame::{FOOTER, OPENING};
use super::record::{Owner, Owners};
use super::segment::Segment;
use super::walk::{BadUnit, FrameWalk, Unit, WalkStep};
use crate::StoreError;

/// Content of a segment.
pub(super) struct Survey {
    pub records: u64,
    pub good: Owners,
    pub footer: Option<Owners>,
    pub first_bad: Option<BadUnit>,
    /// Offset at which the last good unit ends, in bytes.
    pub end: u64,
    pub generation: u32,
    pub closed: bool,
}

/// Reads a segment to its footer, or to its last good frame. `progress` gets offsets.
pub(super) fn survey(
    segment: &Segment,
    progress: &mut dyn FnMut(u64),
) -> Result<Survey, StoreError> {
    let mut walk = FrameWalk::new(segment.clone());
    let mut survey = Survey {
        records: 0,
        good: Owners::default(),
        footer: None,
        first_bad: None,
        end: walk.offset,
        generation: walk.generation,
        closed: false,
    };
    while survey.footer.is_none() {
        match walk.next()? {
            WalkStep::Unit(end, unit) => {
                survey.end = end;
                survey.closed = matches!(unit, Unit::Commit { closed: true, .. });
                match unit {
                    Unit::Record(record) => {
                        survey.records += 1;
                        survey.good.add(record.owner, record.index);
                    }
                    Unit::Footer(owners) => survey.footer = Some(owners),
                    Unit::Commit { .. } | Unit::Opening { .. } => {}
                }
                progress(end);
            }
            WalkStep::Bad(bad) => {
                survey.first_bad.get_or_insert(bad);
                if !resume(&mut walk, bad)? {
                    break;
                }
            }
        }
    }
    survey.generation = walk.generation;
    Ok(survey)
}

/// Continues at the next unit behind a bad one. Returns false if there is none.
pub(super) fn resume(walk: &mut FrameWalk, bad: BadUnit) -> Result<bool, StoreError> {
    let mut from = bad.start + 1;
    while let Some(frame) = walk.find_frame(from)? {
        if frame.shape.begins() {
            walk.offset = frame.offset;
            // An opening is read in the generation before its own; a footer may be.
            let raised =
                frame.kind == OPENING || (frame.kind == FOOTER && frame.offset > bad.start);
            let before = if raised { frame.generation - 1 } else { frame.generation };
            walk.generation = before.max(walk.generation);
            return Ok(true);
        }
        from = frame.end;
    }
    Ok(false)
}

/// Returns the error for damage in a segment. It names the affected owners if the footer is
/// readable.
pub(super) fn corrupt(segment: &Segment, bad: BadUnit) -> StoreError {
    let hit = match survey(segment, &mut |_| {}) {
        Ok(Survey { good, footer: Some(footer), .. }) => describe(&missing(&good, &footer)),
        Ok(_) => {
            "its footer can't be read, so the owners of the damaged records are unknown".to_owned()
        }
        Err(error) => format!("the owners of the damaged records can't be determined: {error}"),
    };
    StoreError::Corrupt {
        file: segment.header.name(),
        offset: bad.offset,
        description: format!("{}; {hit}", bad.reason),
    }
}

/// Returns the owners that have fewer good records than the footer lists.
pub(super) fn missing(good: &Owners, footer: &Owners) -> Vec<(Owner, u64, u64, u64)> {
    let mut missing = Vec::new();
    for (owner, listed) in &footer.0 {
        let found = good.0.get(owner).map_or(0, |range| range.records);
        if found < listed.records {
            missing.push((*owner, listed.records - found, listed.first, listed.last));
        }
    }
    missing
}

/// Maximum number of owners that one error names.
const OWNERS_NAMED_MAX: usize = 8;

fn describe(missing: &[(Owner, u64, u64, u64)]) -> String {
    if missing.is_empty() {
        return "no record is damaged".into();
    }
    let mut names: Vec<String> = missing
        .iter()
        .take(OWNERS_NAMED_MAX)
        .map(|(owner, records, first, last)| {
            format!("{owner} lost {records} of its records with indexes {first} to {last}")
        })
        .collect();
    if missing.len() > OWNERS_NAMED_MAX {
        names.push(format!("and {} more", missing.len() - OWNERS_NAMED_MAX));
    }
    names.join(", ")
}
