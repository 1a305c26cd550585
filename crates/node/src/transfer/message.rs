//! Messages between two masters while a bucket moves, as bytes: the kind of call (1), the question
//! (1), then its fields in their order, as `base::codec` writes them.

use super::progress::MoveProgress;
use base::codec::{Malformed, Reader, Writer};
use base::limits::{KEY_BYTES_MAX, SESSION_OUTCOME_BYTES_MAX, VALUE_BYTES_MAX};
use base::{BucketDigest, BucketId, Error, NodeId, SessionId};
use bytes::Bytes;
use replication::layout::StoredSession;
use transport::CallKind;

/// A session that is bound to no bucket: the only ones that the version before has.
const SESSION: u8 = 2;
/// A session that is bound to a bucket.
const BOUND_SESSION: u8 = 4;
/// Minimum length of an item, in bytes; bounds the number of items in a message.
const ITEM_BYTES_MIN: usize = 5;

/// Request from the source group's master to the target group's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MoveQuestion {
    /// Announces rows of this bucket. `time`: group time of the source.
    Begin { bucket: BucketId, time: u64 },
    /// Sends some of them; parts are numbered from 1.
    Take { bucket: BucketId, part: u64, items: Vec<Item> },
    /// Ends the stream. Rows that expired by `time` are gone in the source; all versions were below
    /// `version`.
    Close { bucket: BucketId, time: u64, version: u64 },
    /// Asks for the progress of this bucket's move.
    Progress { bucket: BucketId },
}

/// A piece of what moves, in the times of the group it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A row, as it is stored.
    Row { key: Bytes, row: Bytes },
    /// The key has no row.
    Gone { key: Bytes },
    /// A session of the group.
    Session { session: SessionId, stored: StoredSession },
    /// Outcome of a session's request.
    Outcome { session: SessionId, number: u64, outcome: Bytes },
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MoveAnswer {
    /// Done, at this time of the answering group.
    Done { time: u64 },
    /// Refused before so many milliseconds have passed.
    Early { ms: u64 },
    /// Refused: the group has another master. `None`: it is unknown.
    NotMaster { master: Option<NodeId> },
    /// Refused with this error.
    Refused(Error),
    /// Progress of the bucket's move. `None`: this node drives none.
    Progress(Option<MoveProgress>),
}

type MessageResult<T> = std::result::Result<T, Malformed>;

/// Reader of a message, which returns slices of it without a copy.
struct MessageReader<'a> {
    bytes: &'a Bytes,
    reader: Reader<'a>,
}

impl MessageReader<'_> {
    fn slice(&mut self, max: usize, field: &'static str) -> MessageResult<Bytes> {
        let slice = self.reader.string(max, field)?;
        Ok(self.bytes.slice_ref(slice))
    }

    fn bucket(&mut self) -> MessageResult<BucketId> {
        self.reader.u32("bucket").map(BucketId)
    }

    fn word(&mut self, field: &'static str) -> MessageResult<u64> {
        self.reader.u64(field)
    }
}

impl Item {
    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Item::Row { key, row } => key.len() + row.len() + 9,
            Item::Gone { key } => key.len() + 5,
            Item::Session { .. } => 33,
            Item::Outcome { outcome, .. } => outcome.len() + 21,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Item::Row { key, row } => {
                out.put_u8(0);
                out.put_string(key);
                out.put_string(row);
            }
            Item::Gone { key } => {
                out.put_u8(1);
                out.put_string(key);
            }
            Item::Session { session, stored } => {
                out.put_u8(if stored.bucket.is_some() { BOUND_SESSION } else { SESSION });
                [session.0, stored.used, stored.highest]
                    .into_iter()
                    .chain(stored.bucket.map(|bucket| bucket.0))
                    .for_each(|word| out.put_u64(word));
            }
            Item::Outcome { session, number, outcome } => {
                out.put_u8(3);
                [session.0, *number].into_iter().for_each(|word| out.put_u64(word));
                out.put_string(outcome);
            }
        }
    }

    fn read(from: &mut MessageReader<'_>) -> MessageResult<Item> {
        Ok(match from.reader.u8("which item")? {
            0 => {
                let key = from.slice(KEY_BYTES_MAX, "key")?;
                Item::Row { key, row: from.slice(VALUE_BYTES_MAX + 32, "row")? }
            }
            1 => Item::Gone { key: from.slice(KEY_BYTES_MAX, "key")? },
            which @ (SESSION | BOUND_SESSION) => {
                let session = SessionId(from.word("session")?);
                let (used, highest) = (from.word("session time")?, from.word("session number")?);
                let bucket = match which {
                    SESSION => None,
                    _ => Some(BucketDigest(from.word("session bucket")?)),
                };
                Item::Session { session, stored: StoredSession { used, highest, bucket } }
            }
            3 => Item::Outcome {
                session: SessionId(from.word("session")?),
                number: from.word("request number")?,
                outcome: from.slice(2 * SESSION_OUTCOME_BYTES_MAX, "outcome")?,
            },
            _ => return Err(Malformed("which item")),
        })
    }
}

impl MoveQuestion {
    pub(super) fn write(&self) -> Bytes {
        let mut out = vec![CallKind::Moves.byte()];
        match self {
            MoveQuestion::Begin { bucket, time } => {
                out.put_u8(0);
                out.put_u32(bucket.0);
                out.put_u64(*time);
            }
            MoveQuestion::Take { bucket, part, items } => {
                out.reserve(items.iter().map(Item::bytes).sum::<usize>() + 32);
                out.put_u8(1);
                out.put_u32(bucket.0);
                out.put_u64(*part);
                out.put_u32(items.len() as u32);
                items.iter().for_each(|item| item.write(&mut out));
            }
            MoveQuestion::Close { bucket, time, version } => {
                out.put_u8(2);
                out.put_u32(bucket.0);
                out.put_u64(*time);
                out.put_u64(*version);
            }
            MoveQuestion::Progress { bucket } => {
                out.put_u8(3);
                out.put_u32(bucket.0);
            }
        }
        out.into()
    }

    pub(super) fn read(bytes: &Bytes) -> MessageResult<MoveQuestion> {
        let mut from = MessageReader { bytes, reader: Reader::new(bytes) };
        if from.reader.u8("which call")? != CallKind::Moves.byte() {
            return Err(Malformed("which call"));
        }
        let question = match from.reader.u8("which question")? {
            0 => MoveQuestion::Begin { bucket: from.bucket()?, time: from.word("time")? },
            1 => {
                let (bucket, part) = (from.bucket()?, from.word("part")?);
                let count = from.reader.u32("how many items")? as usize;
                if count > bytes.len() / ITEM_BYTES_MIN {
                    return Err(Malformed("how many items"));
                }
                let items = (0..count).map(|_| Item::read(&mut from));
                MoveQuestion::Take { bucket, part, items: items.collect::<MessageResult<_>>()? }
            }
            2 => {
                let (bucket, time) = (from.bucket()?, from.word("time")?);
                MoveQuestion::Close { bucket, time, version: from.word("version")? }
            }
            3 => MoveQuestion::Progress { bucket: from.bucket()? },
            _ => return Err(Malformed("which question")),
        };
        from.reader.end("question").map(|()| question)
    }
}

impl MoveAnswer {
    pub(super) fn write(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            MoveAnswer::Done { time } => {
                out.put_u8(0);
                out.put_u64(*time);
            }
            MoveAnswer::Early { ms } => {
                out.put_u8(1);
                out.put_u64(*ms);
            }
            MoveAnswer::NotMaster { master } => {
                out.put_u8(2);
                out.put_u64(master.map_or(0, |node| node.0));
            }
            MoveAnswer::Refused(error) => {
                out.put_u8(3);
                error.write(&mut out);
            }
            MoveAnswer::Progress(progress) => {
                out.put_u8(4);
                out.put_u8(progress.is_some().into());
                if let Some(progress) = progress {
                    progress.write(&mut out);
                }
            }
        }
        out.into()
    }

    pub(super) fn read(bytes: &Bytes) -> MessageResult<MoveAnswer> {
        let mut reader = Reader::new(bytes);
        let answer = match reader.u8("which answer")? {
            0 => MoveAnswer::Done { time: reader.u64("time")? },
            1 => MoveAnswer::Early { ms: reader.u64("milliseconds")? },
            2 => {
                let node = NodeId(reader.u64("node")?);
                MoveAnswer::NotMaster { master: Some(node).filter(|node| node.0 != 0) }
            }
            3 => return Error::read(&bytes.slice(1..)).map(MoveAnswer::Refused),
            4 => match reader.u8("progress or none")? {
                0 => MoveAnswer::Progress(None),
                _ => MoveAnswer::Progress(Some(MoveProgress::read(&mut reader)?)),
            },
            _ => return Err(Malformed("which answer")),
        };
        reader.end("answer").map(|()| answer)
    }
}
