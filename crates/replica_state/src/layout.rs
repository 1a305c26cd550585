//! Layout of a group's local store: its keys, and the bytes of a row.
//!
//! ```text
//! tree key   = group u32 BE | space u8 | ...
//!   mark       (nothing)                          -> applied mark
//!   row        bucket u32 BE | key                -> row
//!   expiry     expires u64 BE | bucket u32 BE | key -> (nothing); a hint, the row decides
//!   session    session u64 BE                     -> session
//!   outcome    session u64 BE | number u64 BE     -> index u64, outcome, [digest 16 bytes]
//!   configuration (nothing)                       -> base index u64, configuration
//!   swept      (nothing)                          -> position of the expiry sweep
//!   index      bucket u32 BE | entry              -> index row; see `index_row.rs`
//!   feed       bucket u32 BE | position           -> feed entry; see `feed/rows.rs`
//!   meta       bucket u32 BE | name               -> numbers of a bucket; see `feed/rows.rs`
//!   witness    index u64 BE                       -> entry; on a witness only
//!   comparison (nothing)                          -> round u64 (`comparison/mod.rs`)
//! row        = see `stored_row.rs`
//! session    = last used u64 | highest number u64 | [bucket digest u64 | [user digest u64]]
//! ```
//! Numbers in keys are big-endian, so that their order is the order of their bytes.

use base::codec::{Malformed, Reader, Writer};
use base::limits::SESSION_TTL_MS;
use base::{BucketDigest, BucketId, GroupId, LogIndex, SessionId, UserDigest};
use bytes::Bytes;
use logic::consensus::Configuration;

pub use crate::stored_row::{RowHead, RowView, StoredRow};

/// Kind of item that a tree key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Space {
    /// Mark of the last applied entry.
    Mark = 0,
    /// Rows of clients' keys.
    Row = 1,
    /// Keys by the time they expire.
    Expiry = 2,
    /// Sessions.
    Session = 3,
    /// Outcomes of requests, stored for retries.
    Outcome = 4,
    /// Configurations of the group.
    Configuration = 5,
    /// Entries that a witness keeps in place of rows.
    WitnessEntry = 6,
    /// Key in the index of expiries at which the sweep continues.
    SweepPosition = 7,
    /// Entries of secondary indexes.
    Index = 8,
    /// Entries of feeds of changes.
    Feed = 9,
    /// Numbers that a bucket keeps beside its rows.
    Meta = 10,
    /// State of the comparison between replicas.
    Comparison = 16,
}

/// Spaces in which a bucket's number begins a key, in the order of their numbers: what is dropped
/// with a bucket, and compared only while the bucket is in force.
pub const BUCKET_SPACES: [Space; 4] = [Space::Row, Space::Index, Space::Feed, Space::Meta];
/// Bucket of a group's own bookkeeping.
pub const BOOKKEEPING_BUCKET: BucketId = BucketId(0);
/// Sessions expire through the same index as rows, under this number.
pub const SESSION_BUCKET: BucketId = BucketId(u32::MAX);
/// Bytes in front of a row's key, and of any other key in one of the [`BUCKET_SPACES`].
pub const ROW_PREFIX_BYTES: usize = 9;

#[inline]
fn write_prefix(group: GroupId, space: Space, key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(&group.0.to_be_bytes());
    key.push(space as u8);
}

/// Writes the key of a group's applied mark into `key`.
pub fn mark_key(group: GroupId, key: &mut Vec<u8>) {
    write_prefix(group, Space::Mark, key);
}

/// Writes the key of a group's configuration into `key`.
pub fn configuration_key(group: GroupId, key: &mut Vec<u8>) {
    write_prefix(group, Space::Configuration, key);
}

/// Returns the key of an entry in a witness's log.
pub fn witness_entry_key(group: GroupId, index: LogIndex) -> Bytes {
    let mut key = Vec::with_capacity(13);
    write_prefix(group, Space::WitnessEntry, &mut key);
    key.extend_from_slice(&index.0.to_be_bytes());
    key.into()
}

/// Returns the end of the keys of these entries.
pub fn witness_entries_end(group: GroupId) -> Bytes {
    let mut key = Vec::with_capacity(5);
    write_prefix(group, Space::WitnessEntry, &mut key);
    base::range::prefix_end(&key).expect("a space is not all 0xFF").into()
}

/// Returns the index in the key of such an entry.
pub fn read_witness_entry_key(key: &[u8]) -> Option<LogIndex> {
    Some(LogIndex(u64::from_be_bytes(key.get(5..)?.try_into().ok()?)))
}

/// Encodes a configuration and the index of the stop-sign with which it began.
pub fn write_configuration(base: LogIndex, configuration: &Configuration) -> Bytes {
    let mut bytes = base.0.to_le_bytes().to_vec();
    configuration.write(&mut bytes);
    Bytes::from(bytes)
}

/// Decodes a configuration. `Malformed` if the bytes are no configuration.
pub fn read_configuration(bytes: &[u8]) -> Result<(LogIndex, Configuration), Malformed> {
    let mut reader = Reader::new(bytes);
    let base = LogIndex(reader.u64("configuration base")?);
    let configuration = Configuration::read(&mut reader)?;
    reader.end("configuration")?;
    Ok((base, configuration))
}

/// Writes a row's tree key into `key`.
#[inline]
pub fn row_key(group: GroupId, bucket: BucketId, name: &[u8], key: &mut Vec<u8>) {
    write_prefix(group, Space::Row, key);
    key.extend_from_slice(&bucket.0.to_be_bytes());
    key.extend_from_slice(name);
}

/// Writes a tree key of one of the [`BUCKET_SPACES`] into `key`.
pub fn bucket_key(group: GroupId, space: Space, bucket: BucketId, name: &[u8], key: &mut Vec<u8>) {
    write_prefix(group, space, key);
    key.extend_from_slice(&bucket.0.to_be_bytes());
    key.extend_from_slice(name);
}

/// Returns the prefixes of all tree keys of a bucket, in the order of [`BUCKET_SPACES`].
pub fn bucket_prefixes(group: GroupId, bucket: BucketId) -> [Bytes; BUCKET_SPACES.len()] {
    BUCKET_SPACES.map(|space| {
        let mut key = Vec::with_capacity(ROW_PREFIX_BYTES);
        bucket_key(group, space, bucket, &[], &mut key);
        key.into()
    })
}

/// Decodes the prefix of a tree key: its space and bucket. `None`: the key is in none of the
/// [`BUCKET_SPACES`].
pub fn read_bucket_prefix(key: &[u8]) -> Option<(Space, BucketId)> {
    let space = BUCKET_SPACES.into_iter().find(|space| key.get(4) == Some(&(*space as u8)))?;
    let number = key.get(5..ROW_PREFIX_BYTES)?.try_into().ok()?;
    Some((space, BucketId(u32::from_be_bytes(number))))
}

/// Writes the prefix of all tree keys of one space into `key`.
pub fn space_key(group: GroupId, space: Space, key: &mut Vec<u8>) {
    write_prefix(group, space, key);
}

/// Writes an expiry hint's tree key into `key`.
pub fn expiry_key(group: GroupId, expires: u64, bucket: BucketId, name: &[u8], key: &mut Vec<u8>) {
    write_prefix(group, Space::Expiry, key);
    key.extend_from_slice(&expires.to_be_bytes());
    key.extend_from_slice(&bucket.0.to_be_bytes());
    key.extend_from_slice(name);
}

/// Decodes an expiry hint's tree key: time, bucket and key. `None`: it is no such key.
pub fn read_expiry_key(key: &Bytes) -> Option<(u64, BucketId, Bytes)> {
    let expires = u64::from_be_bytes(key.get(5..13)?.try_into().ok()?);
    let bucket = u32::from_be_bytes(key.get(13..17)?.try_into().ok()?);
    Some((expires, BucketId(bucket), key.slice(17..)))
}

/// Writes a session's tree key into `key`.
pub fn session_key(group: GroupId, session: SessionId, key: &mut Vec<u8>) {
    write_prefix(group, Space::Session, key);
    key.extend_from_slice(&session.0.to_be_bytes());
}

/// Writes an outcome's tree key into `key`.
pub fn outcome_key(group: GroupId, session: SessionId, number: u64, key: &mut Vec<u8>) {
    write_prefix(group, Space::Outcome, key);
    key.extend_from_slice(&session.0.to_be_bytes());
    key.extend_from_slice(&number.to_be_bytes());
}

/// A session as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredSession {
    /// Group time of its last use, milliseconds.
    pub used: u64,
    /// The highest number of its requests.
    pub highest: u64,
    /// Bucket in which it was opened, the only one in which it can be used. `None`: an earlier
    /// version wrote the row without a bucket; the session can be used in every bucket of its
    /// group.
    pub bucket: Option<BucketDigest>,
    /// User who opened it, whose it is while access is on. `None`: it was opened without a user, or
    /// an earlier version wrote the row; everybody who may write to its bucket can use it.
    pub user: Option<UserDigest>,
}

impl StoredSession {
    /// Encodes it for the store. A user stands behind a bucket alone.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        bytes.put_u64(self.used);
        bytes.put_u64(self.highest);
        if let Some(bucket) = self.bucket {
            bytes.put_u64(bucket.0);
            if let Some(user) = self.user {
                bytes.put_u64(user.0);
            }
        }
        bytes
    }

    /// Decodes a session. Fields that a later version may append are skipped, as the version before
    /// skips the bucket: nodes of both may be masters of one group during an upgrade.
    pub fn read(bytes: &[u8]) -> Result<StoredSession, Malformed> {
        let mut reader = Reader::new(bytes);
        let used = reader.u64("session time")?;
        let highest = reader.u64("session number")?;
        let bucket = match reader.is_empty() {
            true => None,
            false => Some(BucketDigest(reader.u64("session bucket")?)),
        };
        let user = match reader.is_empty() {
            true => None,
            false => Some(UserDigest(reader.u64("session user")?)),
        };
        Ok(StoredSession { used, highest, bucket, user })
    }

    /// Returns the group time at which it expires, in milliseconds.
    pub fn expires(&self) -> u64 {
        self.used.saturating_add(SESSION_TTL_MS)
    }
}

/// Applied mark of a group. It is written in the same batch as the effects that it covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Index of the last applied entry.
    pub applied: u64,
    /// Group time of that entry, in milliseconds.
    pub time: u64,
    /// Version of the next update.
    pub next_version: u64,
}

impl Mark {
    /// Encodes it for the store.
    pub fn write(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(24);
        for field in [self.applied, self.time, self.next_version] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        Bytes::from(bytes)
    }

    /// Decodes what the store holds.
    pub fn read(bytes: &[u8]) -> Result<Mark, Malformed> {
        let mut reader = Reader::new(bytes);
        let mark = Mark {
            applied: reader.u64("mark index")?,
            time: reader.u64("mark time")?,
            next_version: reader.u64("mark version")?,
        };
        reader.end("mark")?;
        Ok(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_keys_stand_by_space_and_bucket_and_keep_their_bytes() {
        let (group, bucket) = (GroupId(0x0102), BucketId(0x0304));
        // As the first version of each space wrote them.
        let kept = [1, 8, 9, 10].map(|space| [0, 0, 1, 2, space, 0, 0, 3, 4, b'n']);
        for (space, kept) in BUCKET_SPACES.into_iter().zip(kept) {
            let mut key = Vec::new();
            bucket_key(group, space, bucket, b"n", &mut key);
            assert_eq!(key, kept, "{space:?}");
            assert_eq!(read_bucket_prefix(&key), Some((space, bucket)));
            assert_eq!(read_bucket_prefix(&key[..8]), None, "no bucket");
        }
        let prefixes = kept.map(|key| Bytes::copy_from_slice(&key[..ROW_PREFIX_BYTES]));
        assert_eq!(bucket_prefixes(group, bucket), prefixes);
        let mut row = Vec::new();
        row_key(group, bucket, b"n", &mut row);
        assert_eq!(row, kept[0]);
        let mut session = Vec::new();
        session_key(group, SessionId(0x0304 << 32), &mut session);
        assert_eq!(read_bucket_prefix(&session), None);
    }

    #[test]
    fn stored_session_round_trips_and_older_format_is_unbound() {
        let bucket = Some(BucketDigest(u64::MAX));
        let bound = StoredSession { used: 7, highest: 9, bucket, user: None };
        assert_eq!(StoredSession::read(&bound.write()), Ok(bound));
        // Two fields, as they were written until sessions were bound to buckets.
        let before = [7_u64.to_le_bytes(), 9_u64.to_le_bytes()].concat();
        let unbound = StoredSession { bucket: None, ..bound };
        assert_eq!(StoredSession::read(&before), Ok(unbound));
        assert_eq!(unbound.write(), before);
        assert_eq!(&bound.write()[..16], before, "the version before reads what it knows");
        for end in (0..16).chain(17..24) {
            assert!(StoredSession::read(&bound.write()[..end]).is_err(), "{end} bytes");
        }
        // Until sessions were bound to users: a bucket, and nothing behind it.
        let owned = StoredSession { user: Some(UserDigest(0x0807)), ..bound };
        assert_eq!(StoredSession::read(&owned.write()), Ok(owned));
        assert_eq!(owned.write(), [&bound.write()[..], &[7, 8, 0, 0, 0, 0, 0, 0]].concat());
        for end in 25..32 {
            assert!(StoredSession::read(&owned.write()[..end]).is_err(), "{end} bytes");
        }
    }
}
