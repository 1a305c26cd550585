//! Outcomes as bytes, kept with a session so that a retry gets the answer of the first attempt.

use base::codec::{Malformed, Reader, Writer};
use base::{Error, LogIndex, Outcome, Reason, Result, UpdateDigest, limits};
use bytes::Bytes;

const DONE: u8 = 0;
const APPLIED: u8 = 1;
const EXISTED: u8 = 2;
const OLD: u8 = 3;
const SWAPPED: u8 = 4;
const COUNT: u8 = 5;
const NUMBER: u8 = 6;
const TEXT: u8 = 7;
const LENGTH: u8 = 8;
const STEPS: u8 = 9;
const APPLIED_AT: u8 = 10;
const FAILED: u8 = 11;

/// Outcome of an update in a session, kept for its retries.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptOutcome {
    /// Index of the value that holds its effects.
    pub index: LogIndex,
    /// The outcome, or the error.
    pub outcome: Result<Outcome>,
    /// Digest of the update. `None`: an earlier version stored it, which accepted any update under
    /// the number as a retry.
    pub digest: Option<UpdateDigest>,
}

/// The bytes to keep: the index, then the outcome, or only that it was applied where it is too
/// large or holds what a read showed, then the digest.
pub fn write(index: LogIndex, outcome: &Result<Outcome>, digest: Option<UpdateDigest>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(48);
    bytes.put_u64(index.0);
    let whole = write_result(outcome, &mut bytes);
    if whole.is_none() || bytes.len() > limits::SESSION_OUTCOME_BYTES_MAX {
        bytes.truncate(8);
        bytes.put_u8(APPLIED_AT);
        bytes.put_u64(index.0);
    }
    if let Some(digest) = digest {
        bytes.extend_from_slice(&digest.0);
    }
    bytes
}

impl KeptOutcome {
    /// Decodes a kept outcome. `Malformed` if the bytes are none.
    pub fn read(bytes: &[u8]) -> std::result::Result<KeptOutcome, Malformed> {
        let mut reader = Reader::new(bytes);
        let index = LogIndex(reader.u64("outcome index")?);
        let outcome = read_result(&mut reader, 0)?;
        let digest = match reader.rest().split_first_chunk() {
            _ if reader.is_empty() => None,
            Some((digest, [])) => Some(UpdateDigest(*digest)),
            _ => return Err(Malformed("outcome")),
        };
        Ok(KeptOutcome { index, outcome, digest })
    }
}

fn write_result(outcome: &Result<Outcome>, bytes: &mut Vec<u8>) -> Option<()> {
    match outcome {
        Ok(outcome) => write_outcome(outcome, bytes)?,
        Err(error) => {
            bytes.put_u8(FAILED);
            bytes.put_string(error.reason.word().as_bytes());
            bytes.put_string(&error.detail);
        }
    }
    (bytes.len() <= 2 * limits::SESSION_OUTCOME_BYTES_MAX).then_some(())
}

fn write_outcome(outcome: &Outcome, bytes: &mut Vec<u8>) -> Option<()> {
    let flag = |tag: u8, flag: bool, bytes: &mut Vec<u8>| {
        bytes.put_u8(tag);
        bytes.put_u8(u8::from(flag));
    };
    let word = |tag: u8, word: u64, bytes: &mut Vec<u8>| {
        bytes.put_u8(tag);
        bytes.put_u64(word);
    };
    match outcome {
        Outcome::Done => bytes.put_u8(DONE),
        Outcome::Applied(applied) => flag(APPLIED, *applied, bytes),
        Outcome::Existed(existed) => flag(EXISTED, *existed, bytes),
        Outcome::Old(old) => {
            bytes.put_u8(OLD);
            write_option(old.as_ref(), bytes);
        }
        Outcome::Swapped { written, old } => {
            flag(SWAPPED, *written, bytes);
            write_option(old.as_ref(), bytes);
        }
        Outcome::Count(count) => word(COUNT, *count, bytes),
        Outcome::Number(number) => word(NUMBER, *number as u64, bytes),
        Outcome::Length(length) => word(LENGTH, *length, bytes),
        Outcome::AppliedAt(index) => word(APPLIED_AT, index.0, bytes),
        Outcome::Text(text) => {
            bytes.put_u8(TEXT);
            bytes.put_string(text);
        }
        Outcome::Steps(steps) => {
            bytes.put_u8(STEPS);
            bytes.put_u32(steps.len() as u32);
            for step in steps {
                write_result(step, bytes)?;
            }
        }
        Outcome::Read(_) => return None,
    }
    Some(())
}

fn write_option(value: Option<&Bytes>, bytes: &mut Vec<u8>) {
    bytes.put_u8(u8::from(value.is_some()));
    if let Some(value) = value {
        bytes.put_string(value);
    }
}

/// Returns the outcome for another group, in which it stands at `index`. An outcome that can't be
/// decoded is copied as it is, and reported as damaged when a retry reads it.
pub fn moved(bytes: &[u8], index: LogIndex) -> Vec<u8> {
    match KeptOutcome::read(bytes) {
        Ok(KeptOutcome { outcome: Ok(Outcome::AppliedAt(_)), digest, .. }) => {
            write(index, &Ok(Outcome::AppliedAt(index)), digest)
        }
        Ok(KeptOutcome { outcome, digest, .. }) => write(index, &outcome, digest),
        Err(_) => bytes.to_vec(),
    }
}

fn read_result(
    reader: &mut Reader,
    depth: usize,
) -> std::result::Result<Result<Outcome>, Malformed> {
    let max = 2 * limits::SESSION_OUTCOME_BYTES_MAX;
    let tag = reader.u8("outcome tag")?;
    Ok(Ok(match tag {
        DONE => Outcome::Done,
        APPLIED => Outcome::Applied(read_flag(reader)?),
        EXISTED => Outcome::Existed(read_flag(reader)?),
        OLD => Outcome::Old(read_option(reader)?),
        SWAPPED => Outcome::Swapped { written: read_flag(reader)?, old: read_option(reader)? },
        COUNT => Outcome::Count(reader.u64("count")?),
        NUMBER => Outcome::Number(reader.u64("number")? as i64),
        LENGTH => Outcome::Length(reader.u64("length")?),
        APPLIED_AT => Outcome::AppliedAt(LogIndex(reader.u64("index")?)),
        TEXT => Outcome::Text(Bytes::copy_from_slice(reader.string(max, "text")?)),
        STEPS => {
            let count = reader.u32("steps")? as usize;
            if count > max || depth > limits::SEQUENCE_DEPTH_MAX {
                return Err(Malformed("steps"));
            }
            let mut steps = Vec::with_capacity(count);
            for _ in 0..count {
                steps.push(read_result(reader, depth + 1)?);
            }
            Outcome::Steps(steps)
        }
        FAILED => {
            let word = reader.string(64, "reason")?;
            let known = Reason::ALL.iter().find(|reason| reason.word().as_bytes() == word);
            let reason = *known.ok_or(Malformed("reason"))?;
            let detail = Bytes::copy_from_slice(reader.string(max, "detail")?);
            return Ok(Err(Error { reason, detail }));
        }
        _ => return Err(Malformed("outcome tag")),
    }))
}

fn read_option(reader: &mut Reader) -> std::result::Result<Option<Bytes>, Malformed> {
    let max = 2 * limits::SESSION_OUTCOME_BYTES_MAX;
    Ok(match read_flag(reader)? {
        false => None,
        true => Some(Bytes::copy_from_slice(reader.string(max, "old value")?)),
    })
}

/// Reads a flag. Any byte but 0 and 1 is damage.
fn read_flag(reader: &mut Reader) -> std::result::Result<bool, Malformed> {
    match reader.u8("flag")? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("flag")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: UpdateDigest = UpdateDigest([0xD1; UpdateDigest::BYTES]);

    fn kept(outcome: Result<Outcome>, digest: Option<UpdateDigest>) -> KeptOutcome {
        KeptOutcome { index: LogIndex(9), outcome, digest }
    }

    fn written(outcome: Result<Outcome>, digest: Option<UpdateDigest>) -> Vec<u8> {
        write(LogIndex(9), &outcome, digest)
    }

    #[test]
    fn outcomes_read_back_and_large_ones_are_kept_by_index() {
        let value = Bytes::from_static(b"v");
        let failed = Error::key(Reason::AssertionFailed, &value);
        for outcome in [
            Ok(Outcome::Done),
            Ok(Outcome::Old(Some(value.clone()))),
            Ok(Outcome::Swapped { written: false, old: None }),
            Ok(Outcome::Number(-3)),
            Ok(Outcome::Steps(vec![Ok(Outcome::Count(2)), Err(failed.clone())])),
            Err(failed),
        ] {
            let bytes = written(outcome.clone(), Some(DIGEST));
            assert_eq!(KeptOutcome::read(&bytes), Ok(kept(outcome.clone(), Some(DIGEST))));
            let bare = bytes.len() - UpdateDigest::BYTES;
            for end in (0..bytes.len()).filter(|end| *end != bare) {
                assert!(KeptOutcome::read(&bytes[..end]).is_err(), "{outcome:?} to {end}");
            }
            assert!(KeptOutcome::read(&[&bytes[..], &[0]].concat()).is_err(), "{outcome:?}");
        }
        for outcome in [Outcome::Applied(true), Outcome::Existed(false), Outcome::Old(None)] {
            let mut bytes = written(Ok(outcome), None);
            *bytes.last_mut().expect("a flag") = 2;
            assert_eq!(KeptOutcome::read(&bytes), Err(Malformed("flag")), "neither yes nor no");
        }
        let large = Ok(Outcome::Old(Some(Bytes::from(vec![0; 5000]))));
        let read = KeptOutcome::read(&written(large, Some(DIGEST)));
        assert_eq!(read, Ok(kept(Ok(Outcome::AppliedAt(LogIndex(9))), Some(DIGEST))));
    }

    #[test]
    fn outcomes_of_the_version_before_are_read_and_have_no_digest() {
        // The index, a number of 64 bits.
        let before = [&9_u64.to_le_bytes()[..], &[6], &5_u64.to_le_bytes()].concat();
        let number = kept(Ok(Outcome::Number(5)), None);
        assert_eq!(KeptOutcome::read(&before), Ok(number.clone()));
        assert_eq!(written(Ok(Outcome::Number(5)), None), before);
        let moved = KeptOutcome::read(&moved(&before, LogIndex(3)));
        assert_eq!(moved, Ok(KeptOutcome { index: LogIndex(3), ..number }));
    }

    #[test]
    fn an_outcome_that_moves_keeps_its_digest() {
        for outcome in [Outcome::Done, Outcome::AppliedAt(LogIndex(9))] {
            let moved = moved(&written(Ok(outcome), Some(DIGEST)), LogIndex(3));
            let moved = KeptOutcome::read(&moved).expect("it is sound");
            assert_eq!((moved.index, moved.digest), (LogIndex(3), Some(DIGEST)));
            let told = [Ok(Outcome::Done), Ok(Outcome::AppliedAt(LogIndex(3)))];
            assert!(told.contains(&moved.outcome), "{moved:?}");
        }
    }
}
