//! Messages of a snapshot transfer, as bytes. All numbers little-endian.
//!
//! ```text
//! question  2 | version 1 | kind, then
//!   1 begin   stream u32
//!   2 resume  stream u32 | snapshot u64 | 0, or 1 and the last key that was taken (string)
//!   3 end     snapshot u64
//!   4 mark    (nothing): requests an offer without rows, for a witness
//! answer    version 1 | kind, then
//!   1 offer   snapshot u64 | mark (3 x u64) | base u64 | rows, bytes u64 | configuration
//!   2 accepted, 3 expired: begin again, 4 busy: ask later, 5 unknown group
//! part      version 1 | snapshot u64 | stream u32 | number u32 | end u8 | digest u64 | bytes
//!   end: 0 within a chunk, 1 end of a chunk, 2 end of the snapshot
//! row       key (string) | value (string)            string: length u32, bytes
//! ```
//! The bytes of a chunk's parts, joined, are rows. `digest` is the xxh3 of the part's bytes, seeded
//! with the digest before it; 0 before the first.

use super::Mark;
use base::LogIndex;
use base::codec::{Malformed, Reader, Writer, checksum};
use base::limits::VALUE_BYTES_MAX;
use base::tags::TAGS_BYTES_MAX;
use bytes::Bytes;
use logic::consensus::Configuration;
use store::TreeRow;
use store::trees::TREE_KEY_BYTES_MAX;
use transport::CallKind;

const VERSION: u8 = 1;
/// Highest index, time and version of a state that another node may offer: far above what any group
/// reaches, and so far from overflow that no computation on them gets there.
const MARK_MAX: u64 = u64::MAX / 2;
/// Bytes in front of a part's rows.
pub(super) const HEAD_BYTES: usize = 26;
/// Maximum bytes of a tree key, with its prefix. The longest are those of index entries, which hold
/// a field, a term and a key.
pub const KEY_MAX: usize = TREE_KEY_BYTES_MAX;
/// Maximum bytes of a value in the store, with its header.
pub(super) const VALUE_MAX: usize = VALUE_BYTES_MAX + TAGS_BYTES_MAX + 1024;

/// Request of the receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SnapshotQuestion {
    /// Opens a snapshot and sends it.
    Begin { stream: u32 },
    /// Sends the rest of a snapshot.
    Resume { stream: u32, id: u64, after: Option<Bytes> },
    /// Closes a snapshot.
    End { id: u64 },
    /// Describes a snapshot, and sends nothing of it.
    Mark,
}

/// Answer of the sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SnapshotAnswer {
    /// Description of the snapshot, whose parts follow.
    Offer(Offer),
    /// The request is accepted: the rest follows, or the snapshot is closed.
    Accepted,
    /// The snapshot is not open any more.
    Expired,
    /// Too many snapshots are open, or none can be taken now.
    Busy,
    /// The sender has no state of the group.
    UnknownGroup,
}

/// Description of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    pub id: u64,
    pub mark: Mark,
    pub base: LogIndex,
    pub configuration: Configuration,
    /// Upper estimate of the number of rows: those of the whole store.
    pub rows_estimated: u64,
    /// Upper estimate of the bytes, as stored on disk.
    pub bytes_estimated: u64,
}

/// Position of a part's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartEnd {
    /// Within a chunk: more parts of it follow.
    MidChunk = 0,
    /// End of a chunk.
    Chunk = 1,
    /// End of the last chunk.
    Snapshot = 2,
}

/// Head of a part, in front of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartHead {
    pub id: u64,
    pub stream: u32,
    /// Number of the part in its stream, from 0.
    pub number: u32,
    pub end: PartEnd,
    /// Digest of all rows up to the end of the part.
    pub digest: u64,
}

impl SnapshotQuestion {
    pub fn write(&self) -> Bytes {
        let mut out = vec![CallKind::Snapshots.byte(), VERSION];
        match self {
            SnapshotQuestion::Begin { stream } => {
                out.put_u8(1);
                out.put_u32(*stream);
            }
            SnapshotQuestion::Resume { stream, id, after } => {
                out.put_u8(2);
                out.put_u32(*stream);
                out.put_u64(*id);
                out.put_u8(after.is_some().into());
                after.iter().for_each(|key| out.put_string(key));
            }
            SnapshotQuestion::End { id } => {
                out.put_u8(3);
                out.put_u64(*id);
            }
            SnapshotQuestion::Mark => out.put_u8(4),
        }
        out.into()
    }

    pub fn read(bytes: &[u8]) -> Result<SnapshotQuestion, Malformed> {
        let mut reader = Reader::new(bytes);
        if (reader.u8("about")?, reader.u8("version")?) != (CallKind::Snapshots.byte(), VERSION) {
            return Err(Malformed("version"));
        }
        let question = match reader.u8("kind")? {
            1 => SnapshotQuestion::Begin { stream: reader.u32("stream")? },
            2 => {
                let (stream, id) = (reader.u32("stream")?, reader.u64("snapshot")?);
                let after = match reader.u8("after")? {
                    0 => None,
                    1 => Some(Bytes::copy_from_slice(reader.string(KEY_MAX, "after")?)),
                    _ => return Err(Malformed("after")),
                };
                SnapshotQuestion::Resume { stream, id, after }
            }
            3 => SnapshotQuestion::End { id: reader.u64("snapshot")? },
            4 => SnapshotQuestion::Mark,
            _ => return Err(Malformed("kind")),
        };
        reader.end("question")?;
        Ok(question)
    }
}

impl SnapshotAnswer {
    pub fn write(&self) -> Bytes {
        let mut out = vec![VERSION];
        match self {
            SnapshotAnswer::Offer(offer) => {
                out.put_u8(1);
                out.put_u64(offer.id);
                out.extend_from_slice(&offer.mark.write());
                for field in [offer.base.0, offer.rows_estimated, offer.bytes_estimated] {
                    out.put_u64(field);
                }
                offer.configuration.write(&mut out);
            }
            SnapshotAnswer::Accepted => out.put_u8(2),
            SnapshotAnswer::Expired => out.put_u8(3),
            SnapshotAnswer::Busy => out.put_u8(4),
            SnapshotAnswer::UnknownGroup => out.put_u8(5),
        }
        out.into()
    }

    pub fn read(bytes: &[u8]) -> Result<SnapshotAnswer, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("version")? != VERSION {
            return Err(Malformed("version"));
        }
        let answer = match reader.u8("kind")? {
            1 => {
                let id = reader.u64("snapshot")?;
                let mark = Mark::read(reader.take(24, "mark")?)?;
                if mark.applied.max(mark.time).max(mark.next_version) > MARK_MAX {
                    return Err(Malformed("mark"));
                }
                let base = LogIndex(reader.u64("base")?);
                let (rows_estimated, bytes_estimated) = (reader.u64("rows")?, reader.u64("bytes")?);
                let configuration = Configuration::read(&mut reader)?;
                SnapshotAnswer::Offer(Offer {
                    id,
                    mark,
                    base,
                    configuration,
                    rows_estimated,
                    bytes_estimated,
                })
            }
            2 => SnapshotAnswer::Accepted,
            3 => SnapshotAnswer::Expired,
            4 => SnapshotAnswer::Busy,
            5 => SnapshotAnswer::UnknownGroup,
            _ => return Err(Malformed("kind")),
        };
        reader.end("answer")?;
        Ok(answer)
    }
}

impl PartHead {
    pub fn write(&self) -> [u8; HEAD_BYTES] {
        let mut out = Vec::with_capacity(HEAD_BYTES);
        out.put_u8(VERSION);
        out.put_u64(self.id);
        out.put_u32(self.stream);
        out.put_u32(self.number);
        out.put_u8(self.end as u8);
        out.put_u64(self.digest);
        out.try_into().expect("the fields have a fixed size")
    }

    pub fn read(bytes: &[u8]) -> Result<PartHead, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("version")? != VERSION {
            return Err(Malformed("version"));
        }
        let (id, stream) = (reader.u64("snapshot")?, reader.u32("stream")?);
        let number = reader.u32("number")?;
        let end = match reader.u8("ends")? {
            0 => PartEnd::MidChunk,
            1 => PartEnd::Chunk,
            2 => PartEnd::Snapshot,
            _ => return Err(Malformed("ends")),
        };
        Ok(PartHead { id, stream, number, end, digest: reader.u64("digest")? })
    }
}

/// Returns the digest of all rows up to the end of `bytes`, given the digest of those before.
pub(super) fn digest(before: u64, bytes: &[u8]) -> u64 {
    checksum(bytes, before)
}

/// Encodes rows.
pub(super) fn write_rows(rows: &[TreeRow]) -> Bytes {
    let bytes = rows.iter().map(|(key, value)| key.len() + value.len() + 8).sum();
    let mut out = Vec::with_capacity(bytes);
    for (key, value) in rows {
        out.put_string(key);
        out.put_string(value);
    }
    out.into()
}

/// Decodes rows. Keys and values are slices of `bytes`.
pub(super) fn read_rows(bytes: &Bytes) -> Result<Vec<TreeRow>, Malformed> {
    let mut reader = Reader::new(bytes);
    let mut rows = Vec::new();
    while !reader.is_empty() {
        let key = bytes.slice_ref(reader.string(KEY_MAX, "key")?);
        rows.push((key, bytes.slice_ref(reader.string(VALUE_MAX, "value")?)));
    }
    Ok(rows)
}
