//! Messages between two masters while a bucket moves, as bytes: the kind of call (1), the question
//! (1), then its fields in their order, as `base::codec` writes them.

use crate::progress::MoveProgress;
use base::codec::{Malformed, Reader, Writer};
use base::limits::{KEY_BYTES_MAX, SESSION_OUTCOME_BYTES_MAX, VALUE_BYTES_MAX};
use base::tags::TAGS_BYTES_MAX;
use base::{BucketDigest, BucketId, Error, NodeId, SessionId, UserDigest};
use bytes::Bytes;
use change_feed::{FeedPosition, FeedRecord, SENT_FEED_BYTES_MAX, SentEntry, SentFeed};
use replica_state::layout::StoredSession;
use replica_state::replicated_index::{RECORD_BYTES_MAX, ReplicatedIndex};
use transport::CallKind;

const BEGIN: u8 = 0;
const CLOSE: u8 = 2;
/// Begin and end of a bucket with indexes, which the previous version does not have.
const BEGIN_INDEXED: u8 = 4;
const CLOSE_INDEXED: u8 = 5;
/// Begin and end of a bucket with a feed, with or without indexes.
const BEGIN_FED: u8 = 6;
const CLOSE_FED: u8 = 7;
/// Session that is bound to no bucket: the only kind that the previous version sends.
const SESSION: u8 = 2;
/// A session that is bound to a bucket.
const BOUND_SESSION: u8 = 4;
/// A session that is bound to a bucket and a user: sent where there are users alone.
const OWNED_SESSION: u8 = 5;
/// An entry of the bucket's feed.
const FEED_ENTRY: u8 = 6;
/// Maximum bytes of a row: its value, its tags, and what stands in front of them.
const ROW_BYTES_MAX: usize = VALUE_BYTES_MAX + TAGS_BYTES_MAX + 64;
/// Maximum bytes of an entry of a feed: a row, and some numbers.
const FEED_ENTRY_BYTES_MAX: usize = KEY_BYTES_MAX + VALUE_BYTES_MAX + 64;
/// Highest version that another node may name: far above what any group reaches, and so far from
/// the highest number that no later version gets there. A group goes on above those that it hears.
const VERSION_MAX: u64 = u64::MAX / 2;
/// Maximum number of records of indexes in a message: those in force, and failed ones.
const INDEXES_MAX: usize = 256;
/// Minimum length of an item, in bytes; bounds the number of items in a message.
const ITEM_BYTES_MIN: usize = 5;

/// Request from the source group's master to the target group's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MoveRequest {
    /// Announces rows of this bucket, its indexes and its feed. `time`: group time of the source.
    Begin { bucket: BucketId, time: u64, indexes: Vec<ReplicatedIndex>, feed: Option<FeedRecord> },
    /// Sends some of them; parts are numbered from 1.
    Part { bucket: BucketId, part: u64, items: Vec<Item> },
    /// Ends the stream. Rows that expired by `time` are gone in the source; all versions were below
    /// `version`. `indexes`, `feed`: as of the last row.
    Close {
        bucket: BucketId,
        time: u64,
        version: u64,
        indexes: Vec<ReplicatedIndex>,
        feed: Option<Box<SentFeed>>,
    },
    /// Asks for the progress of this bucket's move.
    Progress { bucket: BucketId },
}

/// Item that moves, in the times of the source group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A row, as it is stored.
    Row { key: Bytes, row: Bytes },
    /// The key has no row.
    Removed { key: Bytes },
    /// A session of the group.
    Session { session: SessionId, stored: StoredSession },
    /// Outcome of a session's request.
    Outcome { session: SessionId, number: u64, outcome: Bytes },
    /// An entry of the bucket's feed.
    FeedEntry(SentEntry),
}

/// Answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MoveReply {
    /// Done, at this time of the answering group.
    Done { time: u64 },
    /// Refused until this many milliseconds have passed.
    RetryLater { ms: u64 },
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

    fn u64(&mut self, field: &'static str) -> MessageResult<u64> {
        self.reader.u64(field)
    }

    /// Reads so many indexes at least: a bucket with neither indexes nor a feed is announced as the
    /// first version did.
    fn indexes(&mut self, count_min: usize) -> MessageResult<Vec<ReplicatedIndex>> {
        let count = self.reader.u32("number of indexes")? as usize;
        if !(count_min..=INDEXES_MAX).contains(&count) {
            return Err(Malformed("number of indexes"));
        }
        let mut read = || ReplicatedIndex::decode(self.reader.string(RECORD_BYTES_MAX, "index")?);
        (0..count).map(|_| read()).collect()
    }

    /// Reads the indexes of a message of this kind. `kinds`: that without indexes and a feed, and
    /// that without a feed.
    fn indexes_of(&mut self, kind: u8, kinds: [u8; 2]) -> MessageResult<Vec<ReplicatedIndex>> {
        match kinds.into_iter().position(|each| each == kind) {
            Some(0) => Ok(Vec::new()),
            Some(_) => self.indexes(1),
            None => self.indexes(0),
        }
    }

    fn feed(&mut self) -> MessageResult<&[u8]> {
        self.reader.string(SENT_FEED_BYTES_MAX, "feed")
    }
}

/// Appends the indexes and the encoded feed of a bucket that has some.
fn put_indexes(indexes: &[ReplicatedIndex], feed: Option<&[u8]>, out: &mut Vec<u8>) {
    if !indexes.is_empty() || feed.is_some() {
        out.put_u32(indexes.len() as u32);
        indexes.iter().for_each(|record| out.put_string(&record.encode()));
    }
    feed.into_iter().for_each(|feed| out.put_string(feed));
}

/// Returns the kind of a message about a bucket: without both, with indexes alone, with a feed.
fn kind(kinds: [u8; 3], indexes: &[ReplicatedIndex], has_feed: bool) -> u8 {
    match (has_feed, indexes.is_empty()) {
        (true, _) => kinds[2],
        (false, false) => kinds[1],
        (false, true) => kinds[0],
    }
}

impl Item {
    /// Returns the approximate encoded length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Item::Row { key, row } => key.len() + row.len() + 9,
            Item::Removed { key } => key.len() + 5,
            Item::Session { .. } => 41,
            Item::Outcome { outcome, .. } => outcome.len() + 21,
            Item::FeedEntry(SentEntry { entry, .. }) => entry.len() + 23,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Item::Row { key, row } => {
                out.put_u8(0);
                out.put_string(key);
                out.put_string(row);
            }
            Item::Removed { key } => {
                out.put_u8(1);
                out.put_string(key);
            }
            Item::Session { session, stored } => {
                // As the row: a user stands behind a bucket alone.
                let user = stored.user.filter(|_| stored.bucket.is_some());
                out.put_u8(match (stored.bucket, user) {
                    (None, _) => SESSION,
                    (Some(_), None) => BOUND_SESSION,
                    (Some(_), Some(_)) => OWNED_SESSION,
                });
                [session.0, stored.used, stored.highest]
                    .into_iter()
                    .chain(stored.bucket.map(|bucket| bucket.0))
                    .chain(user.map(|user| user.0))
                    .for_each(|number| out.put_u64(number));
            }
            Item::Outcome { session, number, outcome } => {
                out.put_u8(3);
                [session.0, *number].into_iter().for_each(|number| out.put_u64(number));
                out.put_string(outcome);
            }
            Item::FeedEntry(SentEntry { position, entry }) => {
                out.put_u8(FEED_ENTRY);
                out.put_string(&position.encode());
                out.put_string(entry);
            }
        }
    }

    fn read(message: &mut MessageReader<'_>) -> MessageResult<Item> {
        Ok(match message.reader.u8("kind of item")? {
            0 => {
                let key = message.slice(KEY_BYTES_MAX, "key")?;
                Item::Row { key, row: message.slice(ROW_BYTES_MAX, "row")? }
            }
            1 => Item::Removed { key: message.slice(KEY_BYTES_MAX, "key")? },
            kind @ (SESSION | BOUND_SESSION | OWNED_SESSION) => {
                let session = SessionId(message.u64("session")?);
                let (used, highest) =
                    (message.u64("session time")?, message.u64("session number")?);
                let bucket = match kind {
                    SESSION => None,
                    _ => Some(BucketDigest(message.u64("session bucket")?)),
                };
                let user = match kind {
                    OWNED_SESSION => Some(UserDigest(message.u64("session user")?)),
                    _ => None,
                };
                Item::Session { session, stored: StoredSession { used, highest, bucket, user } }
            }
            3 => Item::Outcome {
                session: SessionId(message.u64("session")?),
                number: message.u64("request number")?,
                outcome: message.slice(2 * SESSION_OUTCOME_BYTES_MAX, "outcome")?,
            },
            FEED_ENTRY => {
                let position = message.slice(FeedPosition::BYTES, "feed position")?;
                let position = FeedPosition::decode(&position)?;
                let entry = message.slice(FEED_ENTRY_BYTES_MAX, "feed entry")?;
                Item::FeedEntry(SentEntry { position, entry })
            }
            _ => return Err(Malformed("kind of item")),
        })
    }
}

impl MoveRequest {
    pub(crate) fn write(&self) -> Bytes {
        let mut out = vec![CallKind::Moves.byte()];
        match self {
            MoveRequest::Begin { bucket, time, indexes, feed } => {
                out.put_u8(kind([BEGIN, BEGIN_INDEXED, BEGIN_FED], indexes, feed.is_some()));
                out.put_u32(bucket.0);
                out.put_u64(*time);
                let feed = feed.as_ref().map(FeedRecord::encode);
                put_indexes(indexes, feed.as_deref(), &mut out);
            }
            MoveRequest::Part { bucket, part, items } => {
                out.reserve(items.iter().map(Item::bytes).sum::<usize>() + 32);
                out.put_u8(1);
                out.put_u32(bucket.0);
                out.put_u64(*part);
                out.put_u32(items.len() as u32);
                items.iter().for_each(|item| item.write(&mut out));
            }
            MoveRequest::Close { bucket, time, version, indexes, feed } => {
                out.put_u8(kind([CLOSE, CLOSE_INDEXED, CLOSE_FED], indexes, feed.is_some()));
                out.put_u32(bucket.0);
                out.put_u64(*time);
                out.put_u64(*version);
                let feed = feed.as_ref().map(|feed| feed.encode());
                put_indexes(indexes, feed.as_deref(), &mut out);
            }
            MoveRequest::Progress { bucket } => {
                out.put_u8(3);
                out.put_u32(bucket.0);
            }
        }
        out.into()
    }

    pub(crate) fn read(bytes: &Bytes) -> MessageResult<MoveRequest> {
        let mut message = MessageReader { bytes, reader: Reader::new(bytes) };
        if message.reader.u8("kind of call")? != CallKind::Moves.byte() {
            return Err(Malformed("kind of call"));
        }
        let request = match message.reader.u8("kind of question")? {
            kind @ (BEGIN | BEGIN_INDEXED | BEGIN_FED) => {
                let (bucket, time) = (message.bucket()?, message.u64("time")?);
                let indexes = message.indexes_of(kind, [BEGIN, BEGIN_INDEXED])?;
                let feed = match kind {
                    BEGIN_FED => Some(FeedRecord::decode(message.feed()?)?),
                    _ => None,
                };
                MoveRequest::Begin { bucket, time, indexes, feed }
            }
            1 => {
                let (bucket, part) = (message.bucket()?, message.u64("part")?);
                let count = message.reader.u32("number of items")? as usize;
                if count > bytes.len() / ITEM_BYTES_MIN {
                    return Err(Malformed("number of items"));
                }
                let items = (0..count).map(|_| Item::read(&mut message));
                MoveRequest::Part { bucket, part, items: items.collect::<MessageResult<_>>()? }
            }
            kind @ (CLOSE | CLOSE_INDEXED | CLOSE_FED) => {
                let (bucket, time) = (message.bucket()?, message.u64("time")?);
                let version = message.u64("version")?;
                if version > VERSION_MAX {
                    return Err(Malformed("version"));
                }
                let indexes = message.indexes_of(kind, [CLOSE, CLOSE_INDEXED])?;
                let feed = match kind {
                    CLOSE_FED => Some(Box::new(SentFeed::decode(message.feed()?)?)),
                    _ => None,
                };
                MoveRequest::Close { bucket, time, version, indexes, feed }
            }
            3 => MoveRequest::Progress { bucket: message.bucket()? },
            _ => return Err(Malformed("kind of question")),
        };
        message.reader.end("question").map(|()| request)
    }
}

impl MoveReply {
    pub(crate) fn write(&self) -> Bytes {
        let mut out = Vec::new();
        match self {
            MoveReply::Done { time } => {
                out.put_u8(0);
                out.put_u64(*time);
            }
            MoveReply::RetryLater { ms } => {
                out.put_u8(1);
                out.put_u64(*ms);
            }
            MoveReply::NotMaster { master } => {
                out.put_u8(2);
                out.put_u64(master.map_or(0, |node| node.0));
            }
            MoveReply::Refused(error) => {
                out.put_u8(3);
                error.write(&mut out);
            }
            MoveReply::Progress(progress) => {
                out.put_u8(4);
                out.put_u8(progress.is_some().into());
                if let Some(progress) = progress {
                    progress.write(&mut out);
                }
            }
        }
        out.into()
    }

    pub(crate) fn read(bytes: &Bytes) -> MessageResult<MoveReply> {
        let mut reader = Reader::new(bytes);
        let answer = match reader.u8("kind of answer")? {
            0 => MoveReply::Done { time: reader.u64("time")? },
            1 => MoveReply::RetryLater { ms: reader.u64("milliseconds")? },
            2 => {
                let node = NodeId(reader.u64("node")?);
                MoveReply::NotMaster { master: Some(node).filter(|node| node.0 != 0) }
            }
            3 => return Error::read(&bytes.slice(1..)).map(MoveReply::Refused),
            4 => match reader.u8("progress or none")? {
                0 => MoveReply::Progress(None),
                _ => MoveReply::Progress(Some(MoveProgress::read(&mut reader)?)),
            },
            _ => return Err(Malformed("kind of answer")),
        };
        reader.end("answer").map(|()| answer)
    }
}
