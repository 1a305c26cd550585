//! Outcomes as bytes, stored with a session so that a retry gets the answer of the first attempt.

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

/// Outcome of an update in a session, stored for its retries.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredOutcome {
    /// Index of the entry that holds its effects.
    pub index: LogIndex,
    /// The outcome, or the error.
    pub outcome: Result<Outcome>,
    /// Digest of the update. `None`: an earlier version stored it, which accepted any update under
    /// the number as a retry.
    pub digest: Option<UpdateDigest>,
}

/// Encodes an outcome for the store: the index, the outcome, the digest. An outcome that is too
/// large, or holds the result of a read, is replaced by the fact that it was applied.
pub fn write(index: LogIndex, outcome: &Result<Outcome>, digest: Option<UpdateDigest>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(48);
    bytes.put_u64(index.0);
    let encoded = write_result(outcome, &mut bytes);
    if encoded.is_none() || bytes.len() > limits::SESSION_OUTCOME_BYTES_MAX {
        bytes.truncate(8);
        bytes.put_u8(APPLIED_AT);
        bytes.put_u64(index.0);
    }
    if let Some(digest) = digest {
        bytes.extend_from_slice(&digest.0);
    }
    bytes
}

impl StoredOutcome {
    /// Decodes a stored outcome. `Malformed` if the bytes are none.
    pub fn read(bytes: &[u8]) -> std::result::Result<StoredOutcome, Malformed> {
        let mut reader = Reader::new(bytes);
        let index = LogIndex(reader.u64("outcome index")?);
        let outcome = read_result(&mut reader, 0)?;
        let digest = match reader.rest().split_first_chunk() {
            _ if reader.is_empty() => None,
            Some((digest, [])) => Some(UpdateDigest(*digest)),
            _ => return Err(Malformed("outcome")),
        };
        Ok(StoredOutcome { index, outcome, digest })
    }
}

fn write_result(outcome: &Result<Outcome>, bytes: &mut Vec<u8>) -> Option<()> {
    match outcome {
        Ok(outcome) => write_outcome(outcome, bytes)?,
        Err(error) => {
            bytes.put_u8(FAILED);
            bytes.put_string(error.reason.name().as_bytes());
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
    let tagged_u64 = |tag: u8, value: u64, bytes: &mut Vec<u8>| {
        bytes.put_u8(tag);
        bytes.put_u64(value);
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
        Outcome::Count(count) => tagged_u64(COUNT, *count, bytes),
        Outcome::Number(number) => tagged_u64(NUMBER, *number as u64, bytes),
        Outcome::Length(length) => tagged_u64(LENGTH, *length, bytes),
        Outcome::AppliedAt(index) => tagged_u64(APPLIED_AT, index.0, bytes),
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
pub fn rebase(bytes: &[u8], index: LogIndex) -> Vec<u8> {
    match StoredOutcome::read(bytes) {
        Ok(StoredOutcome { outcome: Ok(Outcome::AppliedAt(_)), digest, .. }) => {
            write(index, &Ok(Outcome::AppliedAt(index)), digest)
        }
        Ok(StoredOutcome { outcome, digest, .. }) => write(index, &outcome, digest),
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
            let name = reader.string(64, "reason")?;
            let known = Reason::ALL.iter().find(|reason| reason.name().as_bytes() == name);
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

    fn stored(outcome: Result<Outcome>, digest: Option<UpdateDigest>) -> StoredOutcome {
        StoredOutcome { index: LogIndex(9), outcome, digest }
    }

    fn encoded(outcome: Result<Outcome>, digest: Option<UpdateDigest>) -> Vec<u8> {
        write(LogIndex(9), &outcome, digest)
    }

    #[test]
    fn outcomes_round_trip_and_large_ones_are_kept_by_index() {
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
            let bytes = encoded(outcome.clone(), Some(DIGEST));
            assert_eq!(StoredOutcome::read(&bytes), Ok(stored(outcome.clone(), Some(DIGEST))));
            let bare = bytes.len() - UpdateDigest::BYTES;
            for end in (0..bytes.len()).filter(|end| *end != bare) {
                assert!(StoredOutcome::read(&bytes[..end]).is_err(), "{outcome:?} to {end}");
            }
            assert!(StoredOutcome::read(&[&bytes[..], &[0]].concat()).is_err(), "{outcome:?}");
        }
        for outcome in [Outcome::Applied(true), Outcome::Existed(false), Outcome::Old(None)] {
            let mut bytes = encoded(Ok(outcome), None);
            *bytes.last_mut().expect("a flag") = 2;
            assert_eq!(StoredOutcome::read(&bytes), Err(Malformed("flag")), "neither yes nor no");
        }
        let large = Ok(Outcome::Old(Some(Bytes::from(vec![0; 5000]))));
        let read = StoredOutcome::read(&encoded(large, Some(DIGEST)));
        assert_eq!(read, Ok(stored(Ok(Outcome::AppliedAt(LogIndex(9))), Some(DIGEST))));
    }

    #[test]
    fn outcome_of_older_format_is_read_without_digest() {
        // The index, a number of 64 bits.
        let before = [&9_u64.to_le_bytes()[..], &[6], &5_u64.to_le_bytes()].concat();
        let number = stored(Ok(Outcome::Number(5)), None);
        assert_eq!(StoredOutcome::read(&before), Ok(number.clone()));
        assert_eq!(encoded(Ok(Outcome::Number(5)), None), before);
        let moved = StoredOutcome::read(&rebase(&before, LogIndex(3)));
        assert_eq!(moved, Ok(StoredOutcome { index: LogIndex(3), ..number }));
    }

    #[test]
    fn moved_outcome_takes_new_index_and_keeps_its_digest() {
        for outcome in [Outcome::Done, Outcome::AppliedAt(LogIndex(9))] {
            let moved = rebase(&encoded(Ok(outcome), Some(DIGEST)), LogIndex(3));
            let moved = StoredOutcome::read(&moved).expect("it is sound");
            assert_eq!((moved.index, moved.digest), (LogIndex(3), Some(DIGEST)));
            let expected = [Ok(Outcome::Done), Ok(Outcome::AppliedAt(LogIndex(3)))];
            assert!(expected.contains(&moved.outcome), "{moved:?}");
        }
    }
}
